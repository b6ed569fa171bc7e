//===- Record.cpp - Why a collective is there -----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/partition/Record.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::partitioning;
using layout::Role;

std::string partitioning::nameOf(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  if (auto dim = op->getAttrOfType<StringAttr>("dim")) {
    return name + " along " + dim.str();
  }
  if (auto over = op->getAttrOfType<ArrayAttr>("over")) {
    std::string dims;
    for (Attribute dim : over) {
      dims += (dims.empty() ? "" : ", ") + cast<StringAttr>(dim).str();
    }
    return name + " over " + dims;
  }
  return name;
}

layout::SourcePoint partitioning::pointOf(Location loc) {
  layout::SourcePoint point;
  loc->walk([&](Location inner) {
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      point.file = file.getFilename().str();
      point.line = file.getLine();
      point.column = file.getColumn();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return point;
}

static std::string on(const layout::Split &split, const layout::Mesh &mesh) {
  if (split.isWhole()) {
    return "whole";
  }
  std::string text = "split on `" + mesh.describe(split.atoms) + "`";
  if (!split.cuts.empty()) {
    text += " with cuts of its own";
  } else if (split.unit != 1) {
    text += " in units of " + std::to_string(split.unit);
  }
  return text;
}

std::string partitioning::reasonFor(const Change &change, const Notes &before,
                                    const std::vector<std::string> &whyAfter,
                                    const std::string &need,
                                    const layout::Mesh &mesh) {
  std::string text;
  auto say = [&](const std::string &part) {
    if (!part.empty()) {
      text += (text.empty() ? "" : "; ") + part;
    }
  };
  if (change.from.partial != change.to.partial) {
    say(before.pending);
  }
  for (size_t d = 0; d < change.from.dims.size(); ++d) {
    const layout::Split &from = change.from.dims[d], &to = change.to.dims[d];
    if (from == to) {
      continue;
    }
    std::string part = "`" + before.info.dims[d].name + "` ";
    if (change.kind == reshard::Kind::ReduceScatter) {
      part += "is " + on(to, mesh) + " afterwards";
    } else {
      part += "is " + on(from, mesh);
      if (!from.isWhole() && !before.why[d].empty()) {
        part += " by " + before.why[d];
      }
      part += " and becomes " + on(to, mesh);
    }
    // A layout on the way there has no reason of its own.
    if (d < whyAfter.size() && !whyAfter[d].empty() &&
        to == change.target.dims[d]) {
      part += (to.isWhole() ? " (" : " by ") + whyAfter[d] +
              (to.isWhole() ? ")" : "");
    }
    say(part);
  }
  say(need);
  return text;
}

std::string partitioning::avoidFor(const Change &change,
                                   const layout::ValueInfo &info,
                                   const layout::Mesh &mesh) {
  std::string axes = "`" + mesh.describe(change.atoms) + "`";
  switch (change.kind) {
  case reshard::Kind::LocalSlice:
    return "";
  case reshard::Kind::AllReduce:
    if (info.role == Role::Gradients) {
      return "shard its optimizer leaf on " + axes +
             " (`zero`): then a reduce-scatter and an all-gather";
    }
    if (info.dims.empty()) {
      return "";
    }
    return "shard one of its dims on " + axes +
           " where it is read: then the sum is scattered";
  case reshard::Kind::ReduceScatter:
    return info.role == Role::Gradients
               ? "keep the gradient and its optimizer leaf whole on " + axes +
                     ": then one all-reduce"
               : "";
  case reshard::Kind::AllGather:
    if (info.role == Role::Weights) {
      return "`gather weights per step` gathers it once and keeps it; or keep "
             "the parameter whole on " +
             axes;
    }
    if (info.role == Role::Params) {
      return "shard the parameter as its optimizer leaf and gather it per use "
             "(`zero(stage: 3)`)";
    }
    return "shard the same dim on " + axes + " on both sides";
  case reshard::Kind::Shift:
    return "keep the dim whole on " + axes;
  case reshard::Kind::AllToAll:
    return "shard the same dim on " + axes + " on both sides";
  }
  return "";
}
