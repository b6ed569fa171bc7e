//===- Schedule.cpp - The order of work of a pipeline ---------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "schedule/Schedule.h"

namespace cleave::schedule {

const char *spelling(Kind kind) {
  switch (kind) {
  case Kind::Forward:
    return "forward";
  case Kind::Backward:
    return "backward";
  case Kind::InputGradient:
    return "input_grad";
  case Kind::WeightGradient:
    return "weight_grad";
  }
  return "";
}

const char *spelling(Placement placement) {
  switch (placement) {
  case Placement::Plain:
    return "plain";
  case Placement::Dealt:
    return "dealt";
  case Placement::Folded:
    return "folded";
  }
  return "";
}

int32_t Schedule::position(int32_t stage, int32_t chunk) const {
  bool backwards = placement == Placement::Folded && chunk % 2 == 1;
  return chunk * stages + (backwards ? stages - 1 - stage : stage);
}

int32_t Schedule::owner(int32_t position) const {
  int32_t stage = position % stages;
  bool backwards = placement == Placement::Folded && position / stages % 2 == 1;
  return backwards ? stages - 1 - stage : stage;
}

std::string describe(const Action &action, int32_t chunks) {
  std::string which = std::to_string(action.micro);
  if (chunks > 1) {
    which = "(" + which + ", " + std::to_string(action.chunk) + ")";
  }
  return spelling(action.kind) + (" " + which);
}

std::string label(const Action &action, int32_t chunks) {
  static constexpr char letters[] = "FBIW";
  std::string text =
      letters[static_cast<size_t>(action.kind)] + std::to_string(action.micro);
  return chunks > 1 ? text + "." + std::to_string(action.chunk) : text;
}

} // namespace cleave::schedule
