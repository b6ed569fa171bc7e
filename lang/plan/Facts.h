// What plans need to know of the model they are written for. Whoever elaborates
// the model fills it in; tests write it by hand.
#pragma once

#include "layout/Plan.h"

#include <string>
#include <vector>

namespace cleave::plan {

struct LeafFact {                     // a parameter
  std::string path;                   // `layer/attention/wq`
  std::vector<layout::NamedDim> dims; // with the repeat's dim, if in one
  int64_t elementBytes = 4;
  std::vector<std::string> states; // of its optimizer leaves: `first` …
};

struct RegionFact {
  std::string path;     // `layer/norm1`
  std::string function; // of a call: `norm`; else empty
};

struct RepeatFact { // floating-point operations of the forward pass
  std::string dim;
  double before = 0, each = 0, after = 0; // of all before, of one iteration, …
};

struct ModelFacts {
  std::string model;
  std::vector<layout::DimInfo> dims; // in the order of declaration
  std::vector<LeafFact> leaves;
  std::vector<RegionFact> regions;
  std::vector<RepeatFact> repeats; // that stand within no other
  // Activations (forward), inputs and weights; the values that leaves imply
  // (params, gradients, optimizer) and backward twins need not be listed.
  std::vector<layout::ValueInfo> values;
};

// Every value that a plan may govern: those listed, the backward twin of each
// activation, and each leaf as parameter, gradient and optimizer leaf; each
// once.
std::vector<layout::ValueInfo> allValues(const ModelFacts &facts);

} // namespace cleave::plan
