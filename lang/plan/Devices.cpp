#include "lang/plan/Devices.h"

#include <algorithm>
#include <limits>

using namespace cleave;
using namespace cleave::plan;
using namespace cleave::ast;

// Device numbers are 32-bit where they are stored.
static constexpr int64_t mostDevices = std::numeric_limits<int32_t>::max();

struct Devices::Item {
  const AxisDef *def = nullptr;
  int64_t size = 0; // 0: free
  std::vector<Item> factors;
};

const DeviceAxis *Devices::find(const std::string &name) const {
  for (const DeviceAxis &axis : axes) {
    if (axis.name == name) {
      return &axis;
    }
  }
  return nullptr;
}

std::vector<std::string> Devices::names() const {
  std::vector<std::string> result;
  for (const DeviceAxis &axis : axes) {
    result.push_back(axis.name);
  }
  return result;
}

// A product that stays within the number of devices there can be, or nothing.
static std::optional<int64_t> multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || product > mostDevices) {
    return std::nullopt;
  }
  return product;
}

bool Devices::build(const std::vector<AxisDef> &defs, bool isView,
                    const sema::Environment &environment,
                    std::vector<Item> &items, DiagnosticEngine &diags) const {
  bool ok = true;
  std::set<std::string> seen;
  for (const AxisDef &def : defs) {
    Item item;
    item.def = &def;
    if (!seen.insert(def.name.text).second) {
      diags.error(Diag::BadMesh, def.name.range,
                  "axis `" + def.name.text + "` twice");
      ok = false;
    }
    switch (def.kind) {
    case AxisDef::Unsized: {
      const DeviceAxis *own = isView ? find(def.name.text) : nullptr;
      if (!own) {
        diags
            .error(isView ? Diag::UnknownAxis : Diag::BadMesh, def.range,
                   isView ? "the mesh has no axis `" + def.name.text + "`"
                          : "axis `" + def.name.text + "` has no size")
            .help(isView ? suggestion(def.name.text, names())
                         : "write `" + def.name.text + ": 4`, or `" +
                               def.name.text + ": free`");
        ok = false;
      } else {
        item.size = own->interval.size();
      }
      break;
    }
    case AxisDef::Free:
      break;
    case AxisDef::Sized: {
      std::optional<int64_t> size = sema::evaluateInteger(
          *def.size, environment, diags, "the size of `" + def.name.text + "`");
      if (!size) {
        ok = false;
      } else if (*size < 1 || *size > mostDevices) {
        diags.error(Diag::BadMesh, def.size->range,
                    "the size of `" + def.name.text +
                        "` must be at least 1, not " + std::to_string(*size));
        ok = false;
      } else {
        item.size = *size;
      }
      break;
    }
    case AxisDef::Nested:
      ok &= build(def.factors, isView, environment, item.factors, diags);
      break;
    }
    if (isView && def.kind != AxisDef::Unsized && find(def.name.text)) {
      diags
          .error(Diag::BadView, def.name.range,
                 "`" + def.name.text + "` is already an axis of the mesh")
          .note(find(def.name.text)->range, "declared here")
          .help("leave its size out to mean the mesh's own, or choose another "
                "name");
      ok = false;
    }
    items.push_back(std::move(item));
  }
  return ok;
}

bool Devices::solveFree(std::vector<Item> &items,
                        std::optional<int64_t> devices, SourceRange range,
                        DiagnosticEngine &diags) const {
  int64_t product = 1;
  std::string factors;
  Item *open = nullptr;
  bool ok = true;
  // A list of lists: what is free in a nested one counts as the one free axis.
  std::vector<Item *> work;
  for (Item &item : items) {
    work.push_back(&item);
  }
  for (size_t i = 0; i < work.size(); ++i) {
    Item &item = *work[i];
    if (item.def->kind == AxisDef::Nested) {
      for (Item &factor : item.factors) {
        work.push_back(&factor);
      }
    } else if (item.size == 0) {
      if (open) {
        diags
            .error(Diag::BadFreeSize, item.def->range,
                   "a second `free` axis: `" + item.def->name.text + "`")
            .note(open->def->range, "the first is here")
            .help("give one of them a size");
        return false;
      }
      open = &item;
    } else {
      std::optional<int64_t> next = multiply(product, item.size);
      if (!next) {
        diags.error(Diag::BadMesh, range, "more devices than 2^31");
        return false;
      }
      product = *next;
      factors += (factors.empty() ? "" : " * ") + std::to_string(item.size);
    }
  }
  factors = factors.empty() ? "1" : factors;
  if (open && !devices) {
    diags
        .error(Diag::BadFreeSize, open->def->range,
               "`" + open->def->name.text +
                   "` is `free`, and nothing says how many devices there are")
        .help("write `on 64` (devices) or `on [node: 8, gpu: 8]` after the "
              "mesh");
    return false;
  }
  if (open) {
    if (*devices % product != 0) {
      diags
          .error(Diag::BadFreeSize, range,
                 factors + " = " + std::to_string(product) +
                     " does not divide " + std::to_string(*devices) +
                     " devices, so `" + open->def->name.text + "` has no size")
          .help("choose sizes whose product divides " +
                std::to_string(*devices) +
                "; an axis that is another cut of devices which others here "
                "have goes into a `view`");
      return false;
    }
    open->size = *devices / product;
  } else if (devices && product != *devices) {
    diags
        .error(items.empty() || !total ? Diag::BadMesh : Diag::BadView, range,
               factors + " = " + std::to_string(product) + ", not " +
                   std::to_string(*devices) + " devices")
        .help("make the product " + std::to_string(*devices) +
              ", or one of the axes `free`");
    ok = false;
  }
  return ok;
}

void Devices::place(const std::vector<Item> &items, const std::string &prefix,
                    int64_t &below, std::vector<DeviceAxis> &placed) const {
  // Minor first; reversed so that the list reads as written.
  std::vector<DeviceAxis> own;
  for (size_t i = items.size(); i-- > 0;) {
    const Item &item = items[i];
    DeviceAxis axis;
    axis.name = prefix + item.def->name.text;
    axis.range = item.def->range;
    axis.interval.low = below;
    std::vector<DeviceAxis> factors;
    if (item.def->kind == AxisDef::Nested) {
      place(item.factors, axis.name + ".", below, factors);
    } else {
      below *= item.size;
    }
    axis.interval.high = below;
    std::reverse(factors.begin(), factors.end());
    own.insert(own.end(), factors.begin(), factors.end());
    own.push_back(std::move(axis));
  }
  std::reverse(own.begin(), own.end());
  placed.insert(placed.end(), own.begin(), own.end());
}

bool Devices::checkNesting(const std::vector<DeviceAxis> &placed,
                           SourceRange range, DiagnosticEngine &diags) const {
  // Each new cut must nest with each that is there.
  for (const DeviceAxis &axis : placed) {
    int64_t cut = axis.interval.low;
    for (const DeviceAxis &other : axes) {
      int64_t there = other.interval.low;
      if (cut % there == 0 || there % cut == 0) {
        continue;
      }
      diags
          .error(Diag::CutsDoNotNest, axis.range,
                 "`" + axis.name + "` begins at every " + std::to_string(cut) +
                     " devices, `" + other.name + "` at every " +
                     std::to_string(there) + ": these cuts do not nest")
          .note(other.range, "`" + other.name + "` is declared here")
          .help("choose sizes so that one of the two numbers divides the "
                "other");
      return false;
    }
  }
  return true;
}

bool Devices::setHardware(const MeshStmt &mesh,
                          const sema::Environment &environment,
                          std::optional<int64_t> &devices,
                          DiagnosticEngine &diags) {
  std::vector<Item> items;
  if (!build(mesh.levels, false, environment, items, diags)) {
    return false;
  }
  for (const Item &item : items) {
    if (item.def->kind == AxisDef::Nested) {
      diags.error(Diag::BadHardware, item.def->range,
                  "a hardware level has no factors");
      return false;
    }
  }
  bool isFree = std::any_of(items.begin(), items.end(),
                            [](const Item &item) { return item.size == 0; });
  std::optional<int64_t> known = isFree ? devices : std::nullopt;
  if (!solveFree(items, known, mesh.onRange, diags)) {
    return false;
  }
  int64_t product = 1;
  for (const Item &item : items) {
    levels.push_back({item.def->name.text, item.size});
    product *= item.size;
  }
  devices = product;
  return true;
}

static bool hasFree(const std::vector<AxisDef> &defs) {
  return std::any_of(defs.begin(), defs.end(), [](const AxisDef &def) {
    return def.kind == AxisDef::Free || hasFree(def.factors);
  });
}

bool Devices::setMesh(const MeshStmt &mesh,
                      const sema::Environment &environment,
                      std::optional<int64_t> given, DiagnosticEngine &diags) {
  total = 0;
  axes.clear();
  cuts.clear();
  levels.clear();
  std::vector<Item> items;
  if (!build(mesh.axes, false, environment, items, diags)) {
    return false;
  }
  std::optional<int64_t> devices = given;
  if (mesh.devices) {
    devices = sema::evaluateInteger(*mesh.devices, environment, diags,
                                    "the number of devices");
    if (!devices) {
      return false;
    }
    if (*devices < 1 || *devices > mostDevices) {
      diags.error(Diag::BadMesh, mesh.devices->range,
                  "the number of devices must be at least 1, not " +
                      std::to_string(*devices));
      return false;
    }
  } else if (!mesh.levels.empty()) {
    // `free` levels take what a mesh without `free` has.
    if (!hasFree(mesh.axes) && hasFree(mesh.levels)) {
      if (!solveFree(items, std::nullopt, mesh.axesRange, diags)) {
        return false;
      }
      int64_t below = 1;
      std::vector<DeviceAxis> placed;
      place(items, "", below, placed);
      devices = below;
    }
    if (!setHardware(mesh, environment, devices, diags)) {
      return false;
    }
  } else if (!hasFree(mesh.axes)) {
    devices = std::nullopt; // the mesh says it
  }
  if (!solveFree(items, devices, mesh.axesRange, diags)) {
    return false;
  }
  int64_t below = 1;
  place(items, "", below, axes);
  total = below;
  cuts.insert(total);
  for (const DeviceAxis &axis : axes) {
    cuts.insert(axis.interval.low);
  }
  cuts.insert(1);
  return true;
}

bool Devices::addView(const ViewStmt &view,
                      const sema::Environment &environment,
                      DiagnosticEngine &diags) {
  std::vector<Item> items;
  if (!build(view.axes, true, environment, items, diags) ||
      !solveFree(items, total, view.axesRange, diags)) {
    return false;
  }
  int64_t below = 1;
  std::vector<DeviceAxis> placed;
  place(items, "", below, placed);
  if (!checkNesting(placed, view.axesRange, diags)) {
    return false;
  }
  for (const DeviceAxis &axis : placed) {
    const DeviceAxis *own = find(axis.name);
    if (own && own->interval != axis.interval) {
      diags
          .error(Diag::BadView, axis.range,
                 "the view's `" + axis.name +
                     "` lies elsewhere than the mesh's own")
          .note(own->range, "the mesh has it here")
          .help("the axes before and after it must have the same product in "
                "mesh and view");
      return false;
    }
  }
  for (const DeviceAxis &axis : placed) {
    if (!find(axis.name)) {
      axes.push_back(axis);
    }
    cuts.insert(axis.interval.low);
  }
  return true;
}

std::vector<layout::AtomId> Devices::atomsOf(const Interval &interval) const {
  std::vector<layout::AtomId> ids;
  layout::AtomId id = 0;
  for (auto cut = cuts.rbegin(); std::next(cut) != cuts.rend(); ++cut, ++id) {
    if (*cut <= interval.high && *std::next(cut) >= interval.low) {
      ids.push_back(id);
    }
  }
  return ids;
}

int64_t Devices::cutBelow(layout::AtomId id) const {
  return *std::next(cuts.rbegin(), id + 1);
}

layout::Mesh Devices::mesh() const {
  layout::Mesh mesh;
  for (auto cut = cuts.rbegin(); std::next(cut) != cuts.rend(); ++cut) {
    mesh.atoms.push_back({"", *cut / *std::next(cut)});
  }
  for (const DeviceAxis &axis : axes) {
    mesh.axes.push_back({axis.name, atomsOf(axis.interval)});
  }
  // An atom is named by the smallest axis around it: by its name, or by its
  // place in it.
  for (layout::AtomId id = 0; id < mesh.atoms.size(); ++id) {
    const layout::Axis *best = nullptr;
    for (const layout::Axis &axis : mesh.axes) {
      bool holds = std::find(axis.atoms.begin(), axis.atoms.end(), id) !=
                   axis.atoms.end();
      if (holds && (!best || axis.atoms.size() < best->atoms.size())) {
        best = &axis;
      }
    }
    mesh.atoms[id].name = best->name;
    if (best->atoms.size() > 1) {
      auto at = std::find(best->atoms.begin(), best->atoms.end(), id);
      mesh.atoms[id].name += "." + std::to_string(at - best->atoms.begin() + 1);
    }
  }
  return mesh;
}
