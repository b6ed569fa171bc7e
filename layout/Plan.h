//===- Plan.h - A plan, and the layout it gives each value ------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stands between the language and the compiler: a plan whose parameters,
// conditions and `use`s are gone (made by lang/plan), and the function from it
// and a value to the value's layout (rules 4 to 7 of docs/language.md), made by
// layout/Resolve.cpp. Layouts follow from names alone: a value is known by its
// role, phase, region path, label and dims.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LAYOUT_PLAN_H
#define CLEAVE_LAYOUT_PLAN_H

#include "layout/Layout.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::layout {

enum class Role : uint8_t {
  Activations,
  Params,
  Weights,
  Gradients,
  Optimizer,
  Inputs
};
enum class Phase : uint8_t { Forward, Backward, Update };

/// A place in source text, for messages and `explain`.
struct SourcePoint {
  std::string file;
  uint32_t line = 0;
  uint32_t column = 0;
  std::string text; ///< the statement, as written
  /// Where it lies in the sources that made the plan (a SourceRange of
  /// lang/diagnostics); `sourceFile` is ~0 where it lies nowhere.
  uint32_t sourceFile = ~uint32_t(0), begin = 0, end = 0;

  /// `a.clv:31`.
  std::string where() const;
};

//===----------------------------------------------------------------------===//
// Dims and values
//===----------------------------------------------------------------------===//

struct DimInfo {
  std::string name;
  int64_t size = 0;
  std::vector<std::string> factors; ///< of a product, major first
  /// Of a sum: its parts' names and their factors. Values with a sum dim are
  /// one value per part; `qkv` itself never appears in a type.
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::string like;      ///< the dim whose layout it follows, or empty
  bool repeated = false; ///< the dim of a `repeat`
};

struct NamedDim {
  std::string name; ///< never a product or a sum
  int64_t size = 0; ///< global
};

/// What decides a value's layout.
struct ValueInfo {
  Role role = Role::Activations;
  Phase phase = Phase::Forward;
  std::string path;   ///< region path; of params and the like, their own path
  std::string label;  ///< the `let` that binds it, or empty
  std::string reader; ///< of weights: the region that reads them
  std::vector<NamedDim> dims; ///< in the type's order
  int64_t elementBytes = 4;
};

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

struct Step {       ///< of a path pattern
  std::string name; ///< `*` any one, `**` any number
  bool hasRange = false;
  int64_t begin = 0, end = -1, every = 1; ///< of a repeat's index; end -1: last
  bool optional = false;
  /// Paths of regions that a function called `name` makes: the step matches
  /// these too (`norm` matches `layer/norm1`).
  std::vector<std::string> regions;
};

/// A selection of values: a tree that `matches` walks.
struct Selection {
  enum class Kind : uint8_t {
    All,
    Role,
    Forward,
    Backward,
    Update,
    Path,
    Any,    ///< children joined by commas
    In,     ///< children[0] in children[1]
    Except, ///< children[0] except children[1]
    Where   ///< children[0] where attribute CMP number
  };
  Kind kind = Kind::All;
  cleave::layout::Role role = Role::Activations;
  std::vector<Step> path;
  bool anchored = false;
  std::vector<Selection> children;
  std::string attribute;  ///< bytes, rank
  std::string comparison; ///< < <= > >= == !=
  int64_t number = 0;
  /// Of Where: the dims that `bytes` and `rank` leave out (those of repeats).
  std::vector<std::string> repeated;
};

/// Whether `selection` holds `value`. A path matches at any depth of the
/// value's region path and label (from the start if anchored), and what lies
/// within; a weight also by the path of the region that reads it.
bool matches(const Selection &selection, const ValueInfo &value);

/// Whether a path pattern matches `path` (a region's or a value's), or a
/// beginning of it.
bool matchesPath(const Selection &selection, const std::string &path);

struct Alternative {
  std::vector<AtomId> atoms; ///< major first; empty = none
  /// Atoms of references marked `?`: left out where taken.
  std::vector<AtomId> optional;
  /// The same by reference: one is left out as a whole. Where empty, each
  /// optional atom stands alone.
  std::vector<std::vector<AtomId>> optionalRefs;
  std::string text; ///< `data * fsdp?`
  /// Explicit cuts and places, as in `Split`; empty = by the rule.
  std::vector<int64_t> cuts, places;
};

struct ShardStatement {
  std::vector<std::string> dims; ///< leaf dims, major first; empty = largest
  bool largest = false;
  bool also = false;
  bool even = false;
  bool yields = false; ///< has `else` or `?`: claims axes after those without
  std::vector<Alternative> alternatives; ///< in order of preference
  Selection selection;
  SourcePoint source;
  bool fromStrategy = false; ///< governing nothing is then only a note
};

/// `gather weights per layer`, `reduce gradients per micro`: the last stands.
struct GatherStatement {
  Selection selection;
  std::string per; ///< a repeat's dim, micro, step
  SourcePoint source;
};

struct HardwareLevel {
  std::string name;
  int64_t size = 1;
};

/// `micro batch into 8`: the dim is also cut over a time of the mesh, by a
/// `shard … also` that stands last in `Plan::shards`.
struct MicroStatement {
  std::string dim;
  AtomId atom = 0; ///< the time; its size is the number of microbatches
  SourcePoint source;
};

/// A region of the model that a pipeline puts at one of its positions.
struct StagedRegion {
  std::string path;
  int64_t position = 0;
};

/// `pipeline layer on pipe with one_f_one_b`: the repeated dims are cut over
/// the stages, each by a `shard` that stands in `Plan::shards`.
struct PipelineStatement {
  std::string dim;               ///< that the statement names
  std::vector<std::string> dims; ///< of all repeats that are cut, this one too
  std::vector<StagedRegion> regions;
  std::vector<AtomId> atoms; ///< whose coordinates are the stages, major first
  int64_t chunks = 1;        ///< pieces of the dim that a stage holds
  bool folded = false; ///< every other round of them runs backwards, else dealt
  AtomId chunkAtom = 0; ///< with several chunks: the time that counts them
  std::string schedule; ///< its name, for messages
  std::string why;      ///< the cuts are where they are; empty: as written
  SourcePoint source;

  /// Whether `name` is the dim of a repeat that is cut over the stages.
  bool cuts(const std::string &name) const;
};

/// `place SEL on pipe[0], pipe[last]`: what it selects lives on these stages,
/// also where they do not read it. The last that matches stands.
struct PlaceStatement {
  Selection selection;
  std::vector<int64_t> stages; ///< ascending
  SourcePoint source;
};

/// A plan, elaborated for one model.
struct Plan {
  std::string name;
  Mesh mesh;
  std::vector<HardwareLevel> hardware; ///< major first; empty = unknown
  std::vector<DimInfo> dims;           ///< the model's
  std::vector<ShardStatement> shards;  ///< in source order, spliced
  std::vector<GatherStatement> gathers;
  std::vector<GatherStatement> reductions; ///< empty: once a step
  std::optional<MicroStatement> micro;
  std::optional<PipelineStatement> pipeline;
  std::vector<PlaceStatement> places;
  std::vector<Selection> recomputed; ///< `recompute SEL`, less `save`s after it
  SourcePoint source;

  /// How many microbatches a step has.
  int64_t micros() const { return micro ? mesh.atoms[micro->atom].size : 1; }
};

//===----------------------------------------------------------------------===//
// Resolution
//===----------------------------------------------------------------------===//

/// Why a dim is split as it is.
struct Choice {
  int statement = -1;   ///< index in Plan::shards; -1: not named, whole
  int alternative = -1; ///< which of its alternatives
  std::string sentence; ///< for `explain`: "`shard head on tensor` at a.clv:31"
};

struct Resolved {
  Layout layout;               ///< never partial
  std::vector<Choice> choices; ///< one for each dim (the last that added atoms)
  /// Set if an alternative must hold and none fits: a full sentence that names
  /// both statements.
  std::string error;
  SourcePoint errorAt, errorOther;
  /// Statements that govern a dim of this value (even where they leave it
  /// whole), ascending.
  std::vector<int> governing;
  /// Pairs (also statement, later plain statement that discards it).
  std::vector<std::pair<int, int>> discarded;
  /// An atom of which a product's factor would take a major part only, and the
  /// size of that part: lang/plan cuts the atom there and resolves again.
  bool wantsCut = false;
  AtomId wantedAtom = 0;
  int64_t wantedSize = 1;
};

/// The layout that `plan` gives `value`.
Resolved resolve(const Plan &plan, const ValueInfo &value);

//===----------------------------------------------------------------------===//
// What partitioning found: read by `explain` and `expect`
//===----------------------------------------------------------------------===//

struct CollectiveRecord {
  std::string kind; ///< all_reduce, all_gather, reduce_scatter, all_to_all, …
  std::vector<AtomId> atoms; ///< over which devices it runs
  ValueInfo value;    ///< what moves; at a region's edge with the inner path
  std::string repeat; ///< the surrounding repeat's dim, or empty
  int64_t iterations = 1;   ///< times a step
  bool perMicro = false;    ///< once for each microbatch, counted in iterations
  bool recomputed = false;  ///< repeats what the forward pass did before
  int64_t bytesBusiest = 0; ///< sent by the busiest device, once
  int64_t bytesTotal = 0;   ///< sent by all devices, once
  /// Where stages differ: what is sent in a step by the device of each stage
  /// that sends most, and by all. Empty: by every device, each time.
  std::vector<int64_t> stageBytes;
  int64_t stepTotal = 0;
  SourcePoint source;    ///< the operation that needs it
  std::string operation; ///< `dot over ff`
  std::string reason;    ///< why it is there
  std::string avoid;     ///< what would avoid it

  int64_t totalInStep() const {
    return stageBytes.empty() ? bytesTotal * iterations : stepTotal;
  }
};

/// What the busiest device sends in a step, of several collectives: no device
/// does the work of two stages.
class BusiestDevice {
public:
  void add(const CollectiveRecord &record);
  void add(const BusiestDevice &other);
  int64_t bytes() const;

private:
  int64_t everywhere = 0;
  std::vector<int64_t> stages;
};

struct LeafRecord { ///< a parameter, gradient or optimizer leaf under a plan
  ValueInfo value;
  std::string state; ///< of an optimizer leaf
  Layout layout;
  std::vector<Choice> choices;
};

struct ProgramRecord { ///< of one entry under one plan
  std::string entry;   ///< train, eval, forward
  std::vector<CollectiveRecord> collectives;
  std::vector<LeafRecord> leaves;
  /// Bytes of each device's arena: activations, gradients on their way and
  /// temporaries, at their peak. -1 where buffers were not planned.
  int64_t arena = -1;
};

} // namespace cleave::layout

#endif // CLEAVE_LAYOUT_PLAN_H
