//===- TrainerHops.cpp - What a run does between steps --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/metrics/Prometheus.h"
#include "runtime/policy/Noise.h"
#include "runtime/state/Checkpoint.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/Trainer.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <set>
#include <unistd.h>

namespace cleave::tools {

using format::Metric;
using format::RuleAction;

//===----------------------------------------------------------------------===//
// Which plan
//===----------------------------------------------------------------------===//

Result<Appointments> parseAppointments(const std::vector<std::string> &texts) {
  Appointments result;
  for (const std::string &text : texts) {
    int64_t step = 0;
    size_t equals = std::min(text.find('='), text.size());
    auto [stop, error] =
        std::from_chars(text.data(), text.data() + equals, step);
    if (error != std::errc() || stop != text.data() + equals || step < 0 ||
        equals + 1 >= text.size()) {
      return Status::error("`--at " + text +
                           "` does not say when and whereto: write STEP=PLAN, "
                           "as in 200=deep");
    }
    result.emplace(step, text.substr(equals + 1));
  }
  return result;
}

static const char *const byCommandLine = "command line";

Result<Choice> Trainer::choiceOf(const std::string &text) const {
  constexpr std::string_view overlapped = "overlapped(";
  if (text.starts_with(overlapped) && text.ends_with(")")) {
    Result<Choice> choice = choiceOf(
        text.substr(overlapped.size(), text.size() - overlapped.size() - 1));
    if (choice) {
      choice->overlapped = true;
    }
    return choice;
  }
  Choice choice = current;
  constexpr std::string_view prefix = "micro(";
  if (text.starts_with(prefix) && text.ends_with(")")) {
    const char *begin = text.data() + prefix.size();
    const char *end = text.data() + text.size() - 1;
    auto [stop, error] = std::from_chars(begin, end, choice.micros);
    if (error != std::errc() || stop != end || choice.micros < 1) {
      return Status::error("`" + text + "` says no number of microbatches");
    }
    return choice;
  }
  for (const auto &plan : session->set().plans) {
    if (plan->name == text) {
      choice.plan = format::familyOf(*plan);
      choice.micros = plan->micros;
      return choice;
    }
  }
  return Status::error("the plan file has no plan called `" + text +
                       "`; it has " + format::planNames(session->set()));
}

/// Of the run's batches, the one that the next step has; 0 if there is one.
int64_t Trainer::batchNow() const {
  const format::RunT *run = session->set().run.get();
  if (!run || run->batches.empty()) {
    return 0;
  }
  return batchByRule ? *batchByRule
                     : policy::batchAt(
                           *run, static_cast<int64_t>(session->state().cursor));
}

const format::PlanT *Trainer::find(const Choice &choice,
                                   std::string &why) const {
  for (const auto &plan : session->set().plans) {
    if (format::familyOf(*plan) == choice.plan &&
        plan->micros == choice.micros &&
        (choice.batch == 0 || plan->batch == choice.batch)) {
      return plan.get();
    }
  }
  why = "the set has no plan `" + choice.plan + "`";
  if (choice.micros > 0) {
    why += " of " + std::to_string(choice.micros) + " microbatches";
  }
  if (choice.batch > 0) {
    why += " for a batch of " + std::to_string(choice.batch);
  }
  if (choice.micros > 0) {
    why += " (a rule of the run that says `micro(" +
           std::to_string(choice.micros) + ")` makes one)";
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Hops
//===----------------------------------------------------------------------===//

/// The hop that a snapshot says comes next, if the set has the plan.
void Trainer::restoreUpcoming() {
  upcoming->before = current;
  Result<Choice> choice = choiceOf(upcoming->plan);
  if (!choice || upcoming->plan == session->plan().name) {
    upcoming.reset();
    return;
  }
  current.plan = choice->plan;
  current.micros = choice->micros;
}

/// All that could keep a hop from being made.
Status Trainer::prepareHops() {
  Result<Appointments> parsed = parseAppointments(options.at);
  if (!parsed) {
    return parsed.status();
  }
  appointments = std::move(*parsed);
  current.batch = batchNow();
  std::string why;
  const format::PlanT *from = find(current, why);
  if (!from) {
    return Status::error(why);
  }
  // From the plan to its variant for the first batch; nothing moves.
  if (from->name != session->plan().name) {
    Result<executor::HopReport> report =
        session->hop(from->name, {.memory = options.hopMemory});
    if (!report) {
      return report.status();
    }
    CLEAVE_TRY(openBatches());
  }
  Ways ways;
  if (upcoming) {
    restoreUpcoming();
  }
  if (upcoming) {
    ways.insert({from->name, upcoming->plan, true});
    from = find(current, why);
    if (!from) {
      return Status::error(why);
    }
  }
  Choice before = current;
  for (const auto &[step, text] : appointments) {
    Result<Choice> choice = choiceOf(text);
    if (!choice) {
      return choice.status();
    }
    // `micro(8)` is of the plan that runs then.
    if (text.starts_with("micro(")) {
      choice->plan = before.plan;
    }
    const format::PlanT *to = find(*choice, why);
    if (!to) {
      return Status::error(why).in("--at " + std::to_string(step) + "=" + text);
    }
    ways.insert({from->name, to->name, choice->overlapped});
    from = to;
    before = *choice;
  }
  CLEAVE_TRY(addWaysOfRules(ways));
  for (const executor::HopWay &way : ways) {
    CLEAVE_TRY(session->prepare(way.to));
  }
  CLEAVE_TRY(session->planHops(std::vector(ways.begin(), ways.end()),
                               {.memory = options.hopMemory}));
  return checkRules();
}

/// From each plan that may run, at the batch of the first step, to each that a
/// rule then goes to. At other batches it is the same way.
Status Trainer::addWaysOfRules(Ways &ways) const {
  const format::RunT *run = session->set().run.get();
  if (!run) {
    return Status();
  }
  std::map<std::string, bool> targets; ///< and whether hops there may overlap
  std::set<std::string> sources = {current.plan};
  std::set<int64_t> micros, ran = {0, current.micros};
  for (const auto &rule : run->rules) {
    if (rule->action == RuleAction::Go) {
      targets[rule->plan] |= rule->overlapped;
      sources.insert(rule->plan);
    } else if (rule->action == RuleAction::Micros) {
      micros.insert(rule->amount);
    }
  }
  for (const executor::HopWay &way : ways) {
    for (const auto &plan : session->set().plans) {
      if (plan->name == way.to) {
        sources.insert(format::familyOf(*plan));
        ran.insert(plan->micros);
      }
    }
  }
  ran.insert(micros.begin(), micros.end());
  std::string why;
  auto add = [&](const format::PlanT &from, const Choice &choice) -> Status {
    const format::PlanT *to = find(choice, why);
    if (to && to != &from) {
      ways.insert({from.name, to->name, choice.overlapped});
    }
    return to ? Status() : Status::error(why);
  };
  for (const std::string &source : sources) {
    for (int64_t count : ran) {
      const format::PlanT *from = find({source, count, current.batch}, why);
      if (!from) {
        continue; // made of no number that a rule asks for
      }
      for (const auto &[target, overlapped] : targets) {
        CLEAVE_TRY(add(*from, {target, 0, current.batch, overlapped}));
      }
      for (int64_t wanted : micros) {
        CLEAVE_TRY(add(*from, {source, wanted, current.batch}));
      }
    }
  }
  return Status();
}

/// That what rules save has a place.
Status Trainer::checkRules() {
  const format::RunT *run = session->set().run.get();
  if (!run) {
    return Status();
  }
  for (const auto &rule : run->rules) {
    if (rule->action == RuleAction::Save && !snapshots &&
        options.save.empty()) {
      return Status::error("rule `" + rule->text +
                           "` saves, and the command does not say where: add "
                           "`--snapshots FOLDER` or `--save FILE`");
    }
  }
  if (run->snapshot_every > 0 && !snapshots && !options.quiet) {
    std::cerr << "note: the run makes snapshots every " << run->snapshot_every
              << " steps: say where with `--snapshots FOLDER`\n";
  }
  return Status();
}

Status Trainer::go(const Choice &choice, const std::string &by,
                   const std::string &reason) {
  std::string why;
  const format::PlanT *plan = find(choice, why);
  if (!plan) {
    return Status::error(why);
  }
  upcoming.reset();
  if (choice.overlapped && plan->name != session->plan().name) {
    upcoming = {plan->name, by, reason, current};
  } else if (plan->name != session->plan().name || by == byCommandLine) {
    // What the command line asks for is done even if it changes nothing.
    CLEAVE_TRY(hop(plan->name, by, reason));
  }
  current = choice;
  current.overlapped = false;
  return Status();
}

Status Trainer::hop(const std::string &plan, const std::string &by,
                    const std::string &reason) {
  Result<executor::HopReport> report =
      session->hop(plan, {.memory = options.hopMemory});
  if (!report) {
    return report.status();
  }
  return noteHop(*report, by, reason);
}

Status Trainer::noteHop(const executor::HopReport &report,
                        const std::string &by, const std::string &reason) {
  CLEAVE_TRY(openBatches());
  ++hops;
  hopBytes += report.bytes;
  hopSeconds += report.seconds;
  uint64_t at = session->state().step;
  std::string how = formatSeconds(report.seconds);
  if (report.overlapped) {
    how +=
        " beside a step that hid " + formatBytes(report.hidden) + " of copies";
  }
  say("step " + std::to_string(at) + "  hop from " + report.from + " to " +
      report.to + " (" + reason + "): " + formatBytes(report.bytes) +
      " moved, " + formatBytes(report.keptBytes) + " in place, in " + how);
  if (!metrics) {
    return Status();
  }
  metrics::Record record = {{"step", static_cast<int64_t>(at)},
                            {"event", "hop"},
                            {"from", report.from},
                            {"to", report.to},
                            {"reason", reason},
                            {"bytes", report.bytes},
                            {"kept_bytes", report.keptBytes},
                            {"busiest_bytes", report.busiest},
                            {"extra_bytes", report.extra},
                            {"seconds", report.seconds},
                            {"planning_seconds", report.planning},
                            {"by", by}};
  if (report.overlapped) {
    record.push_back({"overlapped", true});
    record.push_back({"gradient_bytes", report.gradientBytes});
    record.push_back({"hidden_bytes", report.hidden});
  }
  return metrics->write(record);
}

Status Trainer::keepAppointments() {
  if (control) {
    control->answer(
        [&](const std::string &request) { return answer(request); });
  }
  int64_t at = static_cast<int64_t>(session->state().step);
  auto [due, end] = appointments.equal_range(at);
  for (; due != end; ++due) {
    Result<Choice> choice = choiceOf(due->second);
    if (!choice) {
      return choice.status();
    }
    CLEAVE_TRY(go(*choice, byCommandLine, "--at"));
    if (rules) {
      rules->hopped();
    }
  }
  // Where the batch grows, the plan stays and its variant changes.
  Choice next = current;
  next.batch = batchNow();
  return next.batch == current.batch &&
                 (next.batch == 0 || session->plan().batch == next.batch)
             ? Status()
             : go(next, "batch", "batch " + std::to_string(next.batch));
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Bytes that programs may still take on this machine; NaN where it does not
/// say.
static double freeMemory() {
  double free = std::numeric_limits<double>::quiet_NaN();
  FILE *file = std::fopen("/proc/meminfo", "re");
  char line[128];
  long long kilobytes = 0;
  while (file && std::fgets(line, sizeof line, file)) {
    if (std::sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1) {
      free = static_cast<double>(kilobytes) * 1024;
      break;
    }
  }
  if (file) {
    std::fclose(file);
  }
  return free;
}

/// Of the step that was made just now, before anything else runs.
void Trainer::readTraffic() {
  traffic.clear();
  if (!rules) {
    return;
  }
  for (const format::MeasureT *measure : rules->traffic()) {
    if (measure->metric == Metric::Time) {
      traffic.push_back(session->trafficTime(measure->traffic, measure->axis));
      continue;
    }
    int64_t bytes = 0;
    for (const auto &sent : session->plan().traffic) {
      if (sent->kind == measure->traffic && sent->axis == measure->axis) {
        bytes = sent->bytes;
      }
    }
    traffic.push_back(static_cast<double>(bytes));
  }
}

void Trainer::readNoise(policy::Readings &readings) {
  const format::GradientMeanT *mean = session->set().run->gradient_mean.get();
  if (!mean || !norm) {
    return;
  }
  const state::State &state = session->state();
  policy::GradientEstimate estimate =
      policy::estimateNoise(*mean, *norm, squares.of(state, mean->state),
                            state.step, static_cast<double>(batches->size()));
  readings[Metric::GradientNoise] = estimate.noise;
  readings[Metric::GradientSignal] = estimate.signal;
}

policy::Readings Trainer::readings() {
  policy::Readings result;
  const state::State &state = session->state();
  result[Metric::Step] = static_cast<double>(state.step);
  result[Metric::Loss] = loss;
  result[Metric::Samples] = static_cast<double>(state.cursor);
  result[Metric::Batch] = static_cast<double>(batches->size());
  result[Metric::Tokens] = static_cast<double>(state.cursor) *
                           static_cast<double>(batches->tokens()) /
                           static_cast<double>(batches->size());
  result[Metric::StepTime] = seconds;
  result.stages = stageTimes;
  result.traffic = traffic;
  if (norm) {
    result[Metric::GradientNorm] = *norm;
  }
  result[Metric::WallTime] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun)
          .count();
  readNoise(result);
  if (rules->reads(Metric::FreeMemory)) {
    result[Metric::FreeMemory] = freeMemory();
  }
  return result;
}

Status Trainer::followRules() {
  if (!rules || session->set().run->rules.empty()) {
    return Status();
  }
  std::vector<std::string> notes;
  std::vector<const format::RuleT *> firing = rules->after(readings(), notes);
  for (const std::string &note : notes) {
    std::cerr << (terminal ? "\n" : "") << "note: " << note << "\n";
  }
  for (const format::RuleT *rule : firing) {
    CLEAVE_TRY(obey(*rule));
  }
  return Status();
}

Status Trainer::obey(const format::RuleT &rule) {
  Choice next = current;
  switch (rule.action) {
  case RuleAction::Go:
    next.plan = rule.plan;
    next.micros = 0;
    next.overlapped = rule.overlapped;
    break;
  case RuleAction::Micros:
    next.micros = rule.amount;
    break;
  case RuleAction::Batch:
    batchByRule = rule.amount;
    next.batch = rule.amount;
    break;
  case RuleAction::Save:
    return saveNow();
  case RuleAction::Stop:
    stoppedByRule = true;
    return Status();
  }
  // A rule that cannot be followed leaves the run as it is.
  int64_t before = hops;
  next.overlapped &= next.plan != current.plan;
  if (Status status = go(next, metrics::byRule, rule.text); !status) {
    std::cerr << (terminal ? "\n" : "") << "note: rule `" << rule.text
              << "` is not followed: " << status.message() << "\n";
  }
  if (hops != before || upcoming) {
    rules->hopped();
  }
  return Status();
}

Status Trainer::saveNow() {
  if (snapshots) {
    takeSnapshot();
    return Status();
  }
  CLEAVE_TRY(state::saveCheckpoint(options.save, session->state(),
                                   session->set().model, metadataOfData()));
  say("saved " + options.save);
  return Status();
}

//===----------------------------------------------------------------------===//
// Who asks, and who looks
//===----------------------------------------------------------------------===//

/// Under the run's name, or with the process's number behind it where another
/// run has that. A run that nobody asked to be reached goes on without.
Status Trainer::openControl() {
  const format::RunT *run = session->set().run.get();
  std::string name = !options.name.empty() ? options.name
                     : run                 ? run->name
                                           : "";
  if (name.empty()) {
    return Status();
  }
  Result<std::unique_ptr<Control>> opened = Control::open(name);
  if (!opened && options.name.empty()) {
    name += "-" + std::to_string(::getpid());
    opened = Control::open(name);
  }
  if (opened) {
    control = std::move(*opened);
    return Status();
  }
  return options.name.empty() ? Status() : opened.status();
}

std::string Trainer::answer(const std::string &request) {
  std::string where = "step " + std::to_string(session->state().step) +
                      " under " + session->plan().name;
  if (request == "status") {
    return "ok " + where + "; plans: " + format::planNames(session->set());
  }
  if (!request.starts_with("hop ")) {
    return "error the run knows no request `" + request + "`";
  }
  Result<Choice> choice = choiceOf(request.substr(4));
  if (!choice) {
    return "error " + choice.message();
  }
  int64_t before = hops;
  if (Status status = go(*choice, "request", "cleave hop"); !status) {
    return "error " + status.message();
  }
  if (hops == before && !upcoming) {
    return "ok " + where + " already";
  }
  if (rules) {
    rules->hopped();
  }
  if (upcoming) {
    return "ok hops after " + where + " to " + upcoming->plan +
           " while the next step is made";
  }
  return "ok hopped after " + where + " to " + session->plan().name;
}

/// Trouble with it is no reason to end a run.
void Trainer::writePrometheus(bool last) {
  if (options.prometheus.empty()) {
    return;
  }
  auto now = std::chrono::steady_clock::now();
  if (!last && now - written < std::chrono::seconds(5)) {
    return;
  }
  written = now;
  const state::State &state = session->state();
  std::vector<metrics::Sample> samples = {
      {"cleave_step", "Optimizer steps made", true,
       static_cast<double>(state.step), "", ""},
      {"cleave_samples_total", "Samples seen", true,
       static_cast<double>(state.cursor), "", ""},
      {"cleave_loss", "Loss of the last step", false, loss, "", ""},
      {"cleave_step_seconds", "Time of the last step", false, seconds, "", ""},
      {"cleave_batch", "Samples of a step", false,
       static_cast<double>(batches->size()), "", ""},
      {"cleave_plan_info", "The plan that runs", false, 1, "plan",
       session->plan().name},
      {"cleave_hops_total", "Hops from plan to plan", true,
       static_cast<double>(hops), "", ""},
      {"cleave_hop_bytes_total", "Bytes that hops sent", true,
       static_cast<double>(hopBytes), "", ""},
      {"cleave_hop_seconds_total", "Time of hops", true, hopSeconds, "", ""}};
  if (norm) {
    samples.push_back(
        {"cleave_gradient_norm", "Norm of the gradient", false, *norm, "", ""});
  }
  if (Status status = metrics::writePrometheus(options.prometheus, samples);
      !status) {
    std::cerr << "note: " << status.message() << "\n";
  }
}

} // namespace cleave::tools
