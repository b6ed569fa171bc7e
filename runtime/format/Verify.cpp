//===- Verify.cpp - Whether a plan set makes sense ------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Verify.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <set>

namespace cleave::format {

using layout::AtomId;

Result<int64_t> elementsOf(const std::vector<int64_t> &sizes, int64_t least) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < least) {
      return Status::error("a size of " + std::to_string(size));
    }
    if (size > largestTensor ||
        __builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product) ||
        product > largestTensor) {
      return Status::error("sizes that overflow");
    }
  }
  return product;
}

/// Atoms in range, none twice.
static Status verifyAtoms(const std::vector<AtomId> &atoms,
                          const layout::Mesh &mesh) {
  std::set<AtomId> seen;
  for (AtomId atom : atoms) {
    if (atom >= mesh.atoms.size()) {
      return Status::error("an axis that the mesh lacks");
    }
    if (!seen.insert(atom).second) {
      return Status::error("an axis used twice");
    }
  }
  return Status();
}

Status verifySplit(const SplitT &split, int64_t size,
                   const layout::Mesh &mesh) {
  CLEAVE_TRY(verifyAtoms(split.atoms, mesh));
  int64_t count = mesh.sizeOf(split.atoms);
  if (split.unit < 1 || split.unit > largestTensor) {
    return Status::error("a split in units of " + std::to_string(split.unit));
  }
  int64_t pieces =
      split.places.empty() ? count : static_cast<int64_t>(split.places.size());
  if (!split.cuts.empty()) {
    if (split.cuts.size() < 2 || split.cuts.front() != 0 ||
        split.cuts.back() != size ||
        !std::is_sorted(split.cuts.begin(), split.cuts.end())) {
      return Status::error("cuts that do not go from 0 to the size");
    }
    pieces = static_cast<int64_t>(split.cuts.size()) - 1;
    if (split.places.empty() && pieces != count) {
      return Status::error("another number of pieces than of devices");
    }
  }
  if (!split.places.empty()) {
    if (static_cast<int64_t>(split.places.size()) != pieces) {
      return Status::error("another number of places than of pieces");
    }
    for (int64_t place : split.places) {
      if (place < 0 || place >= count) {
        return Status::error("a place that the mesh lacks");
      }
    }
    // By the rule there is a piece for each coordinate, or several on some.
    if (split.cuts.empty() && pieces != count &&
        layout::isContiguous(toLayout(split))) {
      return Status::error("another number of pieces than of devices");
    }
  }
  return Status();
}

/// The sizes of all pieces, coordinate by coordinate.
static std::vector<int64_t> piecesOf(int64_t size, const layout::Split &split,
                                     const layout::Mesh &mesh) {
  std::vector<int64_t> sizes(mesh.sizeOf(split.atoms), 0);
  int64_t count = static_cast<int64_t>(sizes.size());
  int64_t pieces =
      !split.cuts.empty()    ? static_cast<int64_t>(split.cuts.size()) - 1
      : split.places.empty() ? count
                             : static_cast<int64_t>(split.places.size());
  for (int64_t i = 0; i < pieces; ++i) {
    int64_t at = split.places.empty() ? i : split.places[i];
    sizes[at] += split.cuts.empty()
                     ? layout::splitRule(size, pieces, i, split.unit).size()
                     : split.cuts[i + 1] - split.cuts[i];
  }
  return sizes;
}

int64_t smallestPiece(int64_t size, const layout::Split &split,
                      const layout::Mesh &mesh) {
  if (split.isWhole() && split.cuts.empty() && split.places.empty()) {
    return size;
  }
  std::vector<int64_t> sizes = piecesOf(size, split, mesh);
  return *std::min_element(sizes.begin(), sizes.end());
}

/// `split` without the atoms of size one, which cut nothing.
static layout::Split reduced(layout::Split split, const layout::Mesh &mesh) {
  std::erase_if(split.atoms,
                [&](AtomId atom) { return mesh.atoms[atom].size == 1; });
  return split;
}

bool sameSizes(int64_t sizeA, const layout::Split &a, int64_t sizeB,
               const layout::Split &b, const layout::Mesh &mesh) {
  layout::Split plainA = reduced(a, mesh), plainB = reduced(b, mesh);
  if (sizeA == sizeB && plainA == plainB) {
    return true;
  }
  std::vector<int64_t> sizesA = piecesOf(sizeA, plainA, mesh);
  std::vector<int64_t> sizesB = piecesOf(sizeB, plainB, mesh);
  auto uniform = [](const std::vector<int64_t> &sizes) {
    return std::all_of(sizes.begin(), sizes.end(),
                       [&](int64_t size) { return size == sizes.front(); });
  };
  // Cut over different atoms: equal only if no coordinate matters.
  return plainA.atoms == plainB.atoms ? sizesA == sizesB
                                      : uniform(sizesA) && uniform(sizesB) &&
                                            sizesA.front() == sizesB.front();
}

Status verifyResidence(const std::vector<std::unique_ptr<ResidenceT>> &parts,
                       const layout::Mesh &mesh) {
  if (parts.size() > mostRanges) {
    return Status::error("it resides on too many parts of the mesh");
  }
  for (const auto &part : parts) {
    if (part->atom >= mesh.atoms.size() || mesh.isTime(part->atom) ||
        part->begin < 0 || part->begin >= part->end ||
        part->end > mesh.atoms[part->atom].size) {
      return Status::error(
          "it resides on a part of the mesh that is not there");
    }
  }
  return Status();
}

static Status verifyMesh(const MeshT &mesh) {
  if (mesh.times > mesh.atoms.size()) {
    return Status::error("the mesh has more times than axes");
  }
  int64_t points = 1;
  for (size_t i = 0; i < mesh.atoms.size(); ++i) {
    bool isTime = i >= mesh.atoms.size() - mesh.times;
    int64_t size = mesh.atoms[i]->size,
            largest = isTime ? largestTime : largestMesh;
    if (size < 1 || size > largest || (points *= size) > largest) {
      return Status::error("the mesh has an axis of impossible size");
    }
  }
  layout::Mesh converted = toLayout(mesh);
  for (const auto &axis : mesh.axes) {
    CLEAVE_TRY(
        verifyAtoms(axis->atoms, converted).in("axis `" + axis->name + "`"));
  }
  return Status();
}

static Status verifyLeaf(const LeafT &leaf) {
  if (leaf.path.empty()) {
    return Status::error("a leaf without a path");
  }
  if (leaf.type > ElementType::Bool) {
    return Status::error("an unknown element type");
  }
  if (leaf.dims.size() != leaf.sizes.size()) {
    return Status::error("another number of sizes than of dims");
  }
  if (Result<int64_t> elements = elementsOf(leaf.sizes, 1); !elements) {
    return elements.status();
  }
  if (!leaf.init || leaf.init->kind > InitKind::Uniform) {
    return Status::error("no known first value");
  }
  return Status();
}

static Status verifyLayout(const LayoutT &layout, const LeafT &leaf,
                           const layout::Mesh &mesh) {
  if (layout.dims.size() != leaf.sizes.size()) {
    return Status::error("a layout of another rank");
  }
  std::vector<AtomId> used;
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    CLEAVE_TRY(verifySplit(*layout.dims[i], leaf.sizes[i], mesh)
                   .in("dim `" + leaf.dims[i] + "`"));
    used.insert(used.end(), layout.dims[i]->atoms.begin(),
                layout.dims[i]->atoms.end());
  }
  CLEAVE_TRY(verifyAtoms(used, mesh));
  CLEAVE_TRY(verifyResidence(layout.residence, mesh));
  for (const auto &part : layout.residence) {
    if (std::find(used.begin(), used.end(), part->atom) != used.end()) {
      return Status::error("it resides on a part of an axis that cuts it");
    }
  }
  return Status();
}

static Status verifyPlan(const PlanT &plan, const PlanSetT &set) {
  if (!plan.mesh) {
    return Status::error("no mesh");
  }
  if (plan.batch < 0 || plan.batch > largestTensor || plan.micros < 0 ||
      plan.micros > largestTensor) {
    return Status::error("an impossible batch or number of microbatches");
  }
  CLEAVE_TRY(verifyMesh(*plan.mesh));
  for (const auto &traffic : plan.traffic) {
    if (traffic->kind > TrafficKind::MAX || traffic->bytes < 0) {
      return Status::error("it sends what there is not");
    }
  }
  layout::Mesh mesh = toLayout(*plan.mesh);
  if (plan.layouts.size() != set.leaves.size()) {
    return Status::error("another number of layouts than of leaves");
  }
  for (size_t i = 0; i < plan.layouts.size(); ++i) {
    CLEAVE_TRY(verifyLayout(*plan.layouts[i], *set.leaves[i], mesh)
                   .in("leaf `" + set.leaves[i]->path + "`"));
  }
  for (size_t i = 0; i < plan.extents.size(); ++i) {
    const ExtentT &extent = *plan.extents[i];
    std::string what = "extent " + std::to_string(i);
    if (extent.size < 0 || extent.size > largestTensor) {
      return Status::error(what + " has an impossible size");
    }
    CLEAVE_TRY(verifySplit(*extent.split, extent.size, mesh).in(what));
  }
  std::set<std::string> names;
  for (const auto &program : plan.programs) {
    if (!names.insert(program->name).second) {
      return Status::error("two programs called `" + program->name + "`");
    }
    CLEAVE_TRY(verifyProgram(*program, plan, set, mesh)
                   .in("program `" + program->name + "`"));
  }
  return Status();
}

Status verify(const PlanSetT &set) {
  if (set.plans.empty()) {
    return Status::error("no plan");
  }
  if (set.start >= set.plans.size()) {
    return Status::error("it starts with a plan that it does not hold");
  }
  std::set<std::pair<std::string, std::string>> leaves;
  for (const auto &leaf : set.leaves) {
    CLEAVE_TRY(verifyLeaf(*leaf).in("leaf `" + leaf->path + "`"));
    if (!leaves.insert({leaf->path, leaf->state}).second) {
      return Status::error("two leaves called `" + leaf->path + "`");
    }
  }
  std::set<std::string> plans;
  for (const auto &plan : set.plans) {
    if (!plans.insert(plan->name).second) {
      return Status::error("two plans called `" + plan->name + "`");
    }
    CLEAVE_TRY(verifyPlan(*plan, set).in("plan `" + plan->name + "`"));
  }
  return set.run ? verifyRun(*set.run, set).in("run `" + set.run->name + "`")
                 : Status();
}

} // namespace cleave::format
