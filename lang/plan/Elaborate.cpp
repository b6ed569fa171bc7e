#include "lang/plan/Elaborate.h"

#include "lang/plan/Check.h"
#include "lang/plan/Splice.h"

#include <algorithm>
#include <cctype>

using namespace cleave::ast;

namespace cleave::plan {

layout::SourcePoint sourcePoint(SourceRange range,
                                const SourceManager &sources) {
  layout::SourcePoint point;
  if (!range.isValid()) {
    return point;
  }
  LineColumn at = sources.lineColumn(range.file, range.begin);
  point.file = sources.file(range.file).name;
  point.line = at.line;
  point.column = at.column;
  point.sourceFile = range.file;
  point.begin = range.begin;
  point.end = range.end;
  // On one line, as messages show it.
  bool space = false;
  for (char c : sources.text(range)) {
    if (std::isspace(static_cast<unsigned char>(c))) {
      space = !point.text.empty();
      continue;
    }
    point.text += space ? " " : "";
    point.text += c;
    space = false;
  }
  return point;
}

SourceRange rangeOf(const layout::SourcePoint &point) {
  return {point.sourceFile, point.begin, point.end};
}

std::vector<const PlanDecl *>
allPlans(const std::vector<std::unique_ptr<File>> &files) {
  std::vector<const PlanDecl *> plans;
  for (const std::unique_ptr<File> &file : files) {
    for (const std::unique_ptr<Decl> &decl : file->decls) {
      if (auto *plan = dynCast<PlanDecl>(decl)) {
        plans.push_back(plan);
      }
    }
  }
  return plans;
}

const PlanDecl *findPlan(const std::vector<std::unique_ptr<File>> &files,
                         const std::string &name) {
  // The root file stands last, and goes first.
  std::vector<const PlanDecl *> plans = allPlans(files);
  auto it =
      std::find_if(plans.rbegin(), plans.rend(), [&](const PlanDecl *plan) {
        return plan->name.text == name;
      });
  return it == plans.rend() ? nullptr : *it;
}

// Cuts atoms where the factor of a product takes only the major part of one:
// 8 kv heads on an atom of 16 make it 8 and 2. Each round cuts one atom, and an
// atom can be cut as often as its size has prime factors.
static Elaborated refine(Splicer &splicer, const std::string &name) {
  Elaborated result = splicer.finish(name);
  bool hasProduct =
      std::any_of(result.plan.shards.begin(), result.plan.shards.end(),
                  [](const layout::ShardStatement &shard) {
                    return shard.dims.size() > 1;
                  });
  const std::vector<layout::ValueInfo> &values =
      splicer.resolvedNames().values();
  for (bool changed = hasProduct; changed;) {
    changed = false;
    for (const layout::ValueInfo &value : values) {
      layout::Resolved resolved = layout::resolve(result.plan, value);
      if (!resolved.wantsCut) {
        continue;
      }
      int64_t size = result.plan.mesh.atoms[resolved.wantedAtom].size;
      splicer.devices.addCut(splicer.devices.cutBelow(resolved.wantedAtom) *
                             (size / resolved.wantedSize));
      result = splicer.finish(name);
      changed = true;
      break;
    }
  }
  return result;
}

static std::optional<Elaborated>
elaborate(const std::vector<std::unique_ptr<File>> &files,
          const std::string &name, const CallExpr *call,
          const ModelFacts &facts, const PlanOptions &options,
          DiagnosticEngine &diags) {
  SourceRange at = call ? call->callee.range : SourceRange{};
  const PlanDecl *plan = findPlan(files, name);
  if (!plan) {
    std::vector<std::string> known;
    for (const PlanDecl *each : allPlans(files)) {
      known.push_back(each->name.text);
    }
    diags.error(Diag::UnknownPlan, at, "no plan `" + name + "`")
        .help(suggestion(name, known));
    return std::nullopt;
  }
  if (plan->model.text != facts.model) {
    diags
        .error(Diag::PlanOfOtherModel, at.isValid() ? at : plan->model.range,
               "`" + name + "` is a plan of `" + plan->model.text +
                   "`, not of `" + facts.model + "`")
        .note(plan->model.range, "declared here");
    return std::nullopt;
  }
  Splicer splicer(files, facts, options, diags);
  if (!splicer.run(*plan, call)) {
    return std::nullopt;
  }
  Elaborated result = refine(splicer, name);
  if (!splicer.settleMicro(result.plan)) {
    return std::nullopt;
  }
  result = splicer.finish(name);
  if (!checkValues(result.plan, splicer.resolvedNames().values(), diags)) {
    return std::nullopt;
  }
  return result;
}

std::optional<Elaborated>
elaboratePlan(const std::vector<std::unique_ptr<File>> &files,
              const CallExpr &call, const ModelFacts &facts,
              const PlanOptions &options, DiagnosticEngine &diags) {
  return elaborate(files, call.callee.parts.back().text, &call, facts, options,
                   diags);
}

std::optional<Elaborated>
elaboratePlan(const std::vector<std::unique_ptr<File>> &files,
              const std::string &name, const ModelFacts &facts,
              const PlanOptions &options, DiagnosticEngine &diags) {
  return elaborate(files, name, nullptr, facts, options, diags);
}

} // namespace cleave::plan
