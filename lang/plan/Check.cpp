#include "lang/plan/Check.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace cleave;

namespace cleave::plan {

using layout::Resolved;
using layout::ShardStatement;
using layout::ValueInfo;

namespace {

// A statement as written; `shard a, b on x` is two in the plan.
using Written = std::tuple<uint32_t, uint32_t, uint32_t>;

Written writtenAt(const layout::SourcePoint &point) {
  return {point.sourceFile, point.begin, point.end};
}

std::string describe(const ValueInfo &value) {
  std::string text = value.label.empty()  ? value.path
                     : value.path.empty() ? value.label
                                          : value.path + "/" + value.label;
  return text.empty() ? "a value of the model" : "`" + text + "`";
}

std::string andOthers(size_t count) {
  return count == 0   ? ""
         : count == 1 ? " (and one other value)"
                      : " (and " + std::to_string(count) + " other values)";
}

class Checker {
public:
  Checker(const layout::Plan &plan, const std::vector<ValueInfo> &values,
          DiagnosticEngine &diags)
      : plan(plan), values(values), diags(diags) {}

  bool run();

private:
  struct Failure {
    Resolved resolved;
    size_t others = 0;
  };
  struct Discard {
    int also, plain;
    const ValueInfo *example;
    size_t others = 0;
  };

  void findStageSplits(const ValueInfo &value, const Resolved &resolved);
  void reportFailures();
  void reportUnused();
  void reportDiscards();
  bool touches(const ShardStatement &shard) const;

  const layout::Plan &plan;
  const std::vector<ValueInfo> &values;
  DiagnosticEngine &diags;
  std::map<std::pair<Written, Written>, Failure> failures;
  std::vector<const Failure *> inOrder;
  std::set<Written> governing;
  std::map<std::pair<Written, Written>, Discard> discards;
  std::set<Written> stageSplits; // reported
};

// Stages do different work: their axis splits the pipeline's dim and no other.
void Checker::findStageSplits(const ValueInfo &value,
                              const Resolved &resolved) {
  const std::vector<layout::AtomId> &stages = plan.pipeline->atoms;
  auto isStage = [&](layout::AtomId atom) {
    return std::find(stages.begin(), stages.end(), atom) != stages.end();
  };
  auto speaks = [&](const layout::Alternative &alternative) {
    return std::any_of(alternative.atoms.begin(), alternative.atoms.end(),
                       isStage);
  };
  for (size_t i = 0; i < resolved.layout.dims.size(); ++i) {
    const std::vector<layout::AtomId> &atoms = resolved.layout.dims[i].atoms;
    if (plan.pipeline->cuts(value.dims[i].name) ||
        std::none_of(atoms.begin(), atoms.end(), isStage)) {
      continue;
    }
    // One of those that govern the value says so.
    for (int number : resolved.governing) {
      const ShardStatement &shard = plan.shards[number];
      if (std::none_of(shard.alternatives.begin(), shard.alternatives.end(),
                       speaks) ||
          writtenAt(shard.source) == writtenAt(plan.pipeline->source) ||
          !stageSplits.insert(writtenAt(shard.source)).second) {
        continue;
      }
      diags
          .error(Diag::StagesTakenTwice, rangeOf(shard.source),
                 "`" + shard.source.text + "` splits `" + value.dims[i].name +
                     "` of " + describe(value) + " over the stages of `" +
                     plan.pipeline->dim + "`")
          .note(rangeOf(plan.pipeline->source), "the pipeline has the axis")
          .help("name another axis");
    }
  }
}

void Checker::reportFailures() {
  for (const Failure *failure : inOrder) {
    const Resolved &resolved = failure->resolved;
    bool taken = resolved.errorOther.line != 0;
    auto builder = diags.error(taken ? Diag::AxisTakenTwice : Diag::UnevenSplit,
                               rangeOf(resolved.errorAt),
                               resolved.error + andOthers(failure->others));
    if (taken) {
      if (!(resolved.errorOther.begin == resolved.errorAt.begin)) {
        builder.note(rangeOf(resolved.errorOther),
                     "this statement has the axis");
      }
      builder.help("end one of them in `else none`, name another axis, or "
                   "narrow it with `for`");
    } else {
      builder.note("uneven shards are allowed; this statement asks for `even`")
          .help("drop `even`, or choose sizes that divide");
    }
  }
}

// Whether any value has what the statement names, whoever governs it.
bool Checker::touches(const ShardStatement &shard) const {
  return std::any_of(values.begin(), values.end(), [&](const ValueInfo &value) {
    bool has =
        shard.largest ||
        std::any_of(value.dims.begin(), value.dims.end(),
                    [&](const layout::NamedDim &dim) {
                      return std::find(shard.dims.begin(), shard.dims.end(),
                                       dim.name) != shard.dims.end();
                    });
    return has && matches(shard.selection, value);
  });
}

void Checker::reportUnused() {
  std::map<Written, bool> touched;
  std::vector<const ShardStatement *> unused;
  for (const ShardStatement &shard : plan.shards) {
    Written at = writtenAt(shard.source);
    // A pipeline cuts its repeat, also where that has no parameters.
    if (governing.count(at) ||
        (plan.pipeline && at == writtenAt(plan.pipeline->source))) {
      continue;
    }
    if (!touched.count(at)) {
      unused.push_back(&shard);
    }
    touched[at] |= touches(shard);
  }
  for (const ShardStatement *shard : unused) {
    bool overridden = touched[writtenAt(shard->source)];
    std::string message =
        "`" + shard->source.text + "` governs no value: " +
        (overridden ? "later statements govern all that it selects"
                    : "nothing that it selects has these dims");
    SourceRange range = rangeOf(shard->source);
    if (shard->fromStrategy) {
      diags.note(Diag::GovernsNothing, range, message);
    } else {
      diags.error(Diag::GovernsNothing, range, message)
          .help(overridden ? "drop it, or narrow the later ones with `for`"
                           : "drop it, or select values that have the dim");
    }
  }
}

void Checker::reportDiscards() {
  for (const auto &[at, discard] : discards) {
    const ShardStatement &plain = plan.shards[discard.plain];
    const ShardStatement &also = plan.shards[discard.also];
    diags
        .note(Diag::DiscardedAlso, rangeOf(plain.source),
              "`" + plain.source.text + "` discards `" + also.source.text +
                  "` for " + describe(*discard.example) +
                  andOthers(discard.others))
        .note(rangeOf(also.source), "the `also` stands before it")
        .help("to keep both, write the `also` after the plain statement");
  }
}

bool Checker::run() {
  size_t before = diags.errorCount();
  for (const ValueInfo &value : values) {
    Resolved resolved = resolve(plan, value);
    for (int statement : resolved.governing) {
      governing.insert(writtenAt(plan.shards[statement].source));
    }
    for (auto [also, plain] : resolved.discarded) {
      std::pair at{writtenAt(plan.shards[also].source),
                   writtenAt(plan.shards[plain].source)};
      auto [it, added] = discards.insert({at, {also, plain, &value, 0}});
      it->second.others += !added;
    }
    if (plan.pipeline && resolved.error.empty()) {
      findStageSplits(value, resolved);
    }
    if (!resolved.error.empty()) {
      std::pair at{writtenAt(resolved.errorAt), writtenAt(resolved.errorOther)};
      auto [it, added] = failures.insert({at, {}});
      if (added) {
        it->second.resolved = std::move(resolved);
        inOrder.push_back(&it->second);
      } else {
        ++it->second.others;
      }
    }
  }
  reportFailures();
  if (!values.empty() && diags.errorCount() == before) {
    reportUnused();
    reportDiscards();
  }
  return diags.errorCount() == before;
}

} // namespace

bool checkValues(const layout::Plan &plan, const std::vector<ValueInfo> &values,
                 DiagnosticEngine &diags) {
  return Checker(plan, values, diags).run();
}

} // namespace cleave::plan
