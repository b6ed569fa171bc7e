// Meshes and views: names for parts of one device order.
//
// Devices are numbered with the minor axis fastest, so an axis is an interval
// of the order: of `mesh [pipe: 8, data: 64, tensor: 2]`, data lies between the
// cuts 128 and 2, tensor between 2 and 1. A view brings further cuts; all nest,
// that is, each divides the next larger one, and between neighbours lies an
// atom. With `view [pipe, rest: free, ep: 64]` the cuts are 1024, 128, 64, 2, 1
// and the atoms 8, 2, 32, 2: `data` is the 2 and the 32, `ep` the 32 and the
// last 2.
#pragma once

#include "lang/ast/Ast.h"
#include "lang/sema/Evaluate.h"
#include "layout/Plan.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cleave::plan {

// The part of the device order from cut `high` down to cut `low`.
struct Interval {
  int64_t high = 1, low = 1;

  int64_t size() const { return high / low; }
  bool operator==(const Interval &) const = default;
};

struct DeviceAxis {
  std::string name; // `data`, `context.ring`
  Interval interval;
  SourceRange range;
};

class Devices {
public:
  bool hasMesh() const { return total != 0; }
  int64_t count() const { return total; }
  const std::vector<DeviceAxis> &allAxes() const { return axes; }
  const DeviceAxis *find(const std::string &name) const;
  std::vector<std::string> names() const;
  const std::vector<layout::HardwareLevel> &hardware() const { return levels; }

  // Take the place of what was there. `given` is the number of devices where
  // the statement has no `on`. False after an error was reported.
  bool setMesh(const ast::MeshStmt &mesh, const sema::Environment &environment,
               std::optional<int64_t> given, DiagnosticEngine &diags);
  bool addView(const ast::ViewStmt &view, const sema::Environment &environment,
               DiagnosticEngine &diags);
  // Cuts an atom: its minor part has `low` devices below `low`'s cut.
  void addCut(int64_t cut) { cuts.insert(cut); }

  layout::Mesh mesh() const;
  // The atoms of an interval, in `mesh()`.
  std::vector<layout::AtomId> atomsOf(const Interval &interval) const;
  // The cut below atom `id`.
  int64_t cutBelow(layout::AtomId id) const;

private:
  struct Item; // an axis with its size, while sizes are being found

  bool build(const std::vector<ast::AxisDef> &defs, bool isView,
             const sema::Environment &environment, std::vector<Item> &items,
             DiagnosticEngine &diags) const;
  bool solveFree(std::vector<Item> &items, std::optional<int64_t> devices,
                 SourceRange range, DiagnosticEngine &diags) const;
  void place(const std::vector<Item> &items, const std::string &prefix,
             int64_t &below, std::vector<DeviceAxis> &placed) const;
  bool checkNesting(const std::vector<DeviceAxis> &placed, SourceRange range,
                    DiagnosticEngine &diags) const;
  bool setHardware(const ast::MeshStmt &mesh,
                   const sema::Environment &environment,
                   std::optional<int64_t> &devices, DiagnosticEngine &diags);

  int64_t total = 0;
  std::vector<DeviceAxis> axes;
  std::set<int64_t> cuts;
  std::vector<layout::HardwareLevel> levels;
};

} // namespace cleave::plan
