#include "lang/schedule/Schedules.h"

#include <utility>

using namespace cleave;

namespace cleave::scheduling {

using schedule::Place;
using schedule::Violation;

static Diag kindOf(Violation::Kind kind) {
  switch (kind) {
  case Violation::Kind::BadShape:
    return Diag::BadSchedule;
  case Violation::Kind::Empty:
    return Diag::EmptySchedule;
  case Violation::Kind::OutOfRange:
    return Diag::BadAction;
  case Violation::Kind::Repeated:
    return Diag::RepeatedAction;
  case Violation::Kind::Missing:
    return Diag::MissingAction;
  case Violation::Kind::TooEarly:
    return Diag::ActionTooEarly;
  case Violation::Kind::Deadlock:
    return Diag::ScheduleDeadlock;
  }
  return Diag::BadSchedule;
}

namespace {

// Reports one violation.
class Report {
public:
  Report(const Evaluated &evaluated, const Violation &violation)
      : evaluated(evaluated), schedule(evaluated.schedule),
        violation(violation) {}

  void run(DiagnosticEngine &diags);

private:
  const schedule::Action &at(Place place) const {
    return schedule.actions[place.stage][place.action];
  }
  std::string quote(Place place) const {
    return "`" + schedule::describe(at(place), schedule.chunks) + "`";
  }
  SourceRange rangeOf(Place place) const {
    return evaluated.rangeOf(at(place));
  }
  void noteCycle(DiagnosticBuilder &error) const;
  std::string help() const;

  const Evaluated &evaluated;
  const schedule::Schedule &schedule;
  const Violation &violation;
};

} // namespace

void Report::noteCycle(DiagnosticBuilder &error) const {
  for (const schedule::Wait &wait : violation.cycle) {
    std::string needed = quote(wait.needed);
    bool isOrder = wait.waiting.stage == wait.needed.stage;
    error.note(
        rangeOf(wait.waiting),
        "stage " + std::to_string(wait.waiting.stage) +
            (isOrder ? " comes to " : " waits at ") + quote(wait.waiting) +
            (isOrder ? " after " : " for ") + needed +
            (isOrder ? "" : " of stage " + std::to_string(wait.needed.stage)));
  }
}

std::string Report::help() const {
  if (evaluated.defaultChunks && *evaluated.defaultChunks != schedule.chunks) {
    return "`" + schedule.name + "` is written for " +
           std::to_string(*evaluated.defaultChunks) + " chunks";
  }
  return "";
}

void Report::run(DiagnosticEngine &diags) {
  SourceRange range =
      evaluated.decl ? evaluated.decl->name.range : SourceRange();
  if (violation.hasPlace) {
    range = rangeOf(violation.place);
  }
  DiagnosticBuilder error =
      diags.error(kindOf(violation.kind), range, violation.message);
  if (violation.hasOther) {
    error.note(rangeOf(violation.other),
               quote(violation.other) + " stands here");
  }
  noteCycle(error);
  error.note("`" + schedule.name + "` with " + describeSizes(schedule) +
             (violation.timeline.empty() ? "" : " runs so far:\n") +
             violation.timeline.substr(
                 0, violation.timeline.find_last_not_of('\n') + 1));
  error.help(help());
}

std::optional<schedule::Proof> proveSchedule(const Evaluated &evaluated,
                                             DiagnosticEngine &diags) {
  auto outcome = schedule::check(evaluated.schedule);
  if (auto *violation = std::get_if<Violation>(&outcome)) {
    Report(evaluated, *violation).run(diags);
    return std::nullopt;
  }
  return std::move(std::get<schedule::Proof>(outcome));
}

} // namespace cleave::scheduling
