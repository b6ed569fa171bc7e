//===- Trainer.cpp - The loop of a run ------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Trainer.h"

#include "runtime/state/Checkpoint.h"
#include "runtime/support/Stop.h"
#include "tools/cleave/Explain.h"
#include "tools/cleave/PipelineReport.h"
#include "tools/cleave/ProfileReport.h"
#include "tools/cleave/Timeline.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <unistd.h>
#include <utility>

namespace cleave::tools {

/// Sample numbers mean the same samples only in the same data.
static const char *const dataKey = "data";
static const char *const planKey = "plan";
/// What a step computes, whatever the plan (Plan.fbs).
static const char *const lossKey = "loss_hash";
static const char *const updateKey = "update_hash";
/// What decides which rules fire next.
static const char *const rulesKey = "rules";
static const char *const batchKey = "batch";
/// A hop that the next step makes: the plan, and the rule that wants it.
static const char *const upcomingKey = "upcoming";

/// What a checkpoint says beside the state.
state::Metadata Trainer::metadataOfData() const {
  state::Metadata extra;
  if (!corpus->vocabulary().empty()) {
    extra[vocabularyKey] = corpus->vocabulary().text();
  }
  return extra;
}

static std::string hexadecimal(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(number));
  return text;
}

/// What a step of the snapshot's run computed otherwise than one of this would;
/// empty where it is the same, or one of them does not say.
static std::string whatChanged(const state::Metadata &snapshot,
                               const format::PlanSetT &set) {
  auto differs = [&](const char *key, uint64_t hash) {
    auto found = snapshot.find(key);
    return found != snapshot.end() && hash != 0 &&
           found->second != hexadecimal(hash);
  };
  bool model = differs(lossKey, set.loss_hash);
  bool optimizer = differs(updateKey, set.update_hash);
  return model && optimizer ? "another model and another optimizer"
         : model            ? "another model: its loss is computed otherwise, "
                              "or of other sizes,"
         : optimizer
             ? "another optimizer, or other numbers of it (rate, decay, "
               "clipping),"
             : "";
}

/// The snapshot to resume from, and the plan that ran then.
Status Trainer::findSnapshot() {
  loaded = options.load;
  if (options.resume.empty()) {
    return Status();
  }
  std::vector<std::string> passedOver;
  Result<std::string> found = state::newestSnapshot(options.resume, passedOver);
  if (!found) {
    return found.status();
  }
  for (const std::string &why : passedOver) {
    std::cerr << "note: a newer snapshot is passed over: " << why << "\n";
  }
  loaded = *found;
  Result<state::Metadata> metadata = state::readCheckpointMetadata(loaded);
  if (!metadata) {
    return metadata.status();
  }
  if (auto ran = metadata->find(planKey); ran != metadata->end()) {
    planBefore = ran->second;
  }
  return Status();
}

Status Trainer::checkSnapshot(const state::Metadata &metadata) const {
  if (options.resume.empty()) {
    return Status();
  }
  auto model = metadata.find("model");
  if (model != metadata.end() && model->second != session->set().model) {
    return Status::error("`" + loaded + "` is of model `" + model->second +
                         "`, and `" + options.file + "` of `" +
                         session->set().model +
                         "` (`--load` starts from any state that fits)");
  }
  if (std::string changed = whatChanged(metadata, session->set());
      !changed.empty()) {
    return Status::error("`" + loaded + "` was trained with " + changed +
                         " than `" + options.file +
                         "` has: it would not go on as the same run (`--load` "
                         "starts from any state that fits)");
  }
  auto data = metadata.find(dataKey);
  if (data != metadata.end() && data->second != corpus->fingerprint()) {
    return Status::error("`" + options.data + "` is not the data that `" +
                         loaded +
                         "` was trained with: it would go on with other "
                         "samples (`--load` starts from a state with any "
                         "data)");
  }
  return Status();
}

/// Rules go on where they were; those of another source begin anew.
void Trainer::restoreRules(const state::Metadata &metadata) {
  auto known = metadata.find(rulesKey);
  if (rules && known != metadata.end()) {
    if (Status status = rules->restore(known->second); !status) {
      std::cerr << "note: " << status.message() << "\n";
    }
  }
  auto batch = metadata.find(batchKey);
  if (batch != metadata.end()) {
    batchByRule = std::strtoll(batch->second.c_str(), nullptr, 10);
  }
  auto next = metadata.find(upcomingKey);
  if (rules && next != metadata.end()) {
    size_t end = std::min(next->second.find('\n'), next->second.size());
    upcoming = {next->second.substr(0, end),
                metrics::byRule,
                end < next->second.size() ? next->second.substr(end + 1) : "",
                {}};
  }
}

Status Trainer::load() {
  if (loaded.empty()) {
    session->state().initialise(options.seed);
    return Status();
  }
  Result<state::Metadata> metadata =
      state::loadCheckpoint(loaded, session->state());
  if (!metadata) {
    return metadata.status();
  }
  if (!options.resume.empty()) {
    first = done = static_cast<int64_t>(session->state().step);
    restoreRules(*metadata);
  }
  return checkSnapshot(*metadata);
}

/// A text keeps the ids that the checkpoint was trained with.
Status Trainer::openData() {
  data::CorpusOptions corpusOptions;
  if (!loaded.empty()) {
    Result<state::Metadata> metadata = state::readCheckpointMetadata(loaded);
    if (!metadata) {
      return metadata.status();
    }
    auto found = metadata->find(vocabularyKey);
    if (found != metadata->end()) {
      Result<data::Vocabulary> vocabulary =
          data::Vocabulary::parse(found->second);
      if (!vocabulary) {
        return vocabulary.status().in(loaded);
      }
      corpusOptions.vocabulary = *vocabulary;
    }
  }
  Result<data::Corpus> opened = data::Corpus::open(options.data, corpusOptions);
  if (!opened) {
    return opened.status();
  }
  corpus.emplace(std::move(*opened));
  return Status();
}

/// Those of the plan that runs: plans may differ in their batch.
Status Trainer::openBatches() {
  Result<Batches> training =
      Batches::create(session->program("train"), *corpus, data::Part::Train);
  if (!training) {
    return training.status();
  }
  batches.emplace(std::move(*training));
  heldOut.reset();
  if (session->hasProgram("eval")) {
    Result<Batches> held =
        Batches::create(session->program("eval"), *corpus, data::Part::HeldOut);
    if (held) {
      heldOut.emplace(std::move(*held));
    } else {
      std::cerr << "note: no evaluation: " << held.message() << "\n";
    }
  }
  return Status();
}

/// What would fail after the last step fails before the first.
Status Trainer::openFiles() {
  for (const std::string &path :
       {options.save, options.trace, options.profileJson, options.prometheus}) {
    if (!path.empty()) {
      CLEAVE_TRY(ReplacedFile::check(path));
    }
  }
  const std::string &folder =
      options.snapshots.empty() ? options.resume : options.snapshots;
  if (!folder.empty()) {
    Result<std::unique_ptr<state::Snapshots>> opened =
        state::Snapshots::open(folder, options.keep);
    if (!opened) {
      return opened.status();
    }
    snapshots = std::move(*opened);
  }
  if (!options.metrics.empty()) {
    if (!options.resume.empty()) {
      CLEAVE_TRY(metrics::cutAfter(options.metrics, done));
    }
    Result<metrics::MetricsFile> file =
        metrics::MetricsFile::open(options.metrics, !loaded.empty());
    if (!file) {
      return file.status();
    }
    metrics.emplace(std::move(*file));
  }
  if (!options.dumpBatches.empty()) {
    Result<ReplacedFile> file = ReplacedFile::create(options.dumpBatches);
    if (!file) {
      return file.status();
    }
    batchFile.emplace(std::move(*file));
  }
  return Status();
}

Status Trainer::prepare() {
  terminal = isatty(STDOUT_FILENO);
  CLEAVE_TRY(findSnapshot());
  Result<std::unique_ptr<executor::Session>> opened =
      openSession(options.file, options.plan, planBefore);
  if (!opened) {
    return opened.status();
  }
  session = std::move(*opened);
  CLEAVE_TRY(openData());
  current.plan = format::familyOf(session->plan());
  current.micros = session->plan().micros;
  if (session->set().run) {
    rules.emplace(*session->set().run);
    if (rules->reads(format::Metric::StageTime) ||
        rules->reads(format::Metric::Time)) {
      session->timeStages();
    }
  }
  CLEAVE_TRY(openBatches());
  CLEAVE_TRY(load());
  CLEAVE_TRY(openFiles());
  CLEAVE_TRY(prepareHops());
  CLEAVE_TRY(openControl());
  if (options.profile || !options.profileJson.empty()) {
    profiler.emplace("train", /*skipped=*/1);
  }
  if (profiler || !options.trace.empty()) {
    session->startTrace();
  }
  return Status();
}

/// The mean loss of up to eight batches of held-out text.
Status Trainer::evaluate() {
  uint64_t size = static_cast<uint64_t>(heldOut->size());
  uint64_t count =
      std::max<uint64_t>(1, std::min<uint64_t>(8, heldOut->samples() / size));
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    CLEAVE_TRY(heldOut->read(0, i * size));
    CLEAVE_TRY(session->run("eval", heldOut->feeds()));
    Result<float> value = session->scalar("eval", format::OutputKind::Loss);
    if (!value) {
      return value.status();
    }
    sum += *value;
  }
  heldOutLoss = sum / static_cast<double>(count);
  return Status();
}

/// One step, and the hop that it makes, if any; `loss` and `norm`.
Status Trainer::trainStep() {
  norm.reset();
  if (upcoming) {
    Upcoming hop = *std::exchange(upcoming, std::nullopt);
    Result<executor::HopReport> report = session->trainAndHop(
        batches->feeds(), hop.plan, {.memory = options.hopMemory});
    if (report) {
      loss = report->loss;
      norm = report->gradientNorm;
      return noteHop(*report, hop.by, hop.reason);
    }
    // The old plan is whole, unless a device failed: then the step fails too.
    std::cerr << (terminal ? "\n" : "") << "note: no hop to `" << hop.plan
              << "` (" << hop.reason << "): " << report.message() << "\n";
    current = hop.before;
  }
  CLEAVE_TRY(session->train(batches->feeds()));
  if (profiler) {
    profiler->add(*session);
    if (options.trace.empty()) {
      session->clearEvents();
    }
  }
  Result<float> value = session->scalar("train", format::OutputKind::Loss);
  if (!value) {
    return value.status();
  }
  loss = *value;
  for (const auto &output : session->program("train").outputs) {
    if (output->kind == format::OutputKind::GradientNorm) {
      Result<float> found =
          session->scalar("train", format::OutputKind::GradientNorm);
      if (found) {
        norm = *found;
      }
    }
  }
  return Status();
}

Status Trainer::step() {
  state::State &state = session->state();
  CLEAVE_TRY(batches->read(state.seed, state.cursor));
  if (batchFile) {
    for (const executor::Feed &feed : batches->feeds()) {
      CLEAVE_TRY(batchFile->write(feed.tokens.data(),
                                  feed.tokens.size() * sizeof(int32_t)));
    }
  }
  uint64_t samples = static_cast<uint64_t>(batches->size());
  auto begin = std::chrono::steady_clock::now();
  CLEAVE_TRY(trainStep());
  seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  stageTimes = session->stageTimes();
  readTraffic();
  state.cursor += samples;
  ++done;
  return Status();
}

void Trainer::report(double elapsed, bool last) {
  if (options.quiet) {
    return;
  }
  double perStep = elapsed / static_cast<double>(done - first);
  std::string line = "step " + std::to_string(session->state().step) + "  ";
  char text[160];
  std::snprintf(text, sizeof text, "%lld/%lld  loss %.4f",
                static_cast<long long>(done),
                static_cast<long long>(options.steps), loss);
  line += text;
  if (heldOutLoss) {
    std::snprintf(text, sizeof text, "  held out %.4f", *heldOutLoss);
    line += text;
  }
  std::snprintf(text, sizeof text, "  %.0f ms  %.0f tokens/s", perStep * 1e3,
                static_cast<double>(batches->tokens()) / perStep);
  line += text;
  if (!last) {
    std::snprintf(text, sizeof text, "  %.0f s left",
                  perStep * static_cast<double>(options.steps - done));
    line += text;
  }
  if (terminal) {
    std::printf("\r\033[K%s%s", line.c_str(), last ? "\n" : "");
  } else {
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

Status Trainer::writeMetrics(bool evaluated) {
  if (!metrics) {
    return Status();
  }
  metrics::Record record = {
      {"step", static_cast<int64_t>(session->state().step)},
      {"loss", static_cast<double>(loss)},
      {"seconds", seconds},
      {"samples", static_cast<int64_t>(session->state().cursor)},
      {"plan", session->plan().name}};
  if (norm) {
    record.push_back({"gradient_norm", static_cast<double>(*norm)});
  }
  if (evaluated) {
    record.push_back({"held_out", *heldOutLoss});
  }
  return metrics->write(record);
}

void Trainer::say(const std::string &line) {
  if (!options.quiet) {
    std::printf("%s%s\n", terminal ? "\r\033[K" : "", line.c_str());
    std::fflush(stdout);
  }
}

int64_t Trainer::snapshotEvery() const {
  const format::RunT *run = session->set().run.get();
  return options.snapshotEvery > 0        ? options.snapshotEvery
         : run && run->snapshot_every > 0 ? run->snapshot_every
                                          : 50;
}

void Trainer::takeSnapshot() {
  state::Metadata extra = metadataOfData();
  extra[planKey] = session->plan().name;
  extra[dataKey] = corpus->fingerprint();
  if (session->set().loss_hash != 0) {
    extra[lossKey] = hexadecimal(session->set().loss_hash);
    extra[updateKey] = hexadecimal(session->set().update_hash);
  }
  if (rules) {
    extra[rulesKey] = rules->text();
  }
  if (batchByRule) {
    extra[batchKey] = std::to_string(*batchByRule);
  }
  if (upcoming) {
    extra[upcomingKey] = upcoming->plan + "\n" + upcoming->reason;
  }
  snapshots->take(session->state(), session->set().model, extra);
}

/// Training goes on without a snapshot; older ones are there.
void Trainer::reportSnapshots() {
  if (!snapshots) {
    return;
  }
  if (Status status = snapshots->trouble(); !status) {
    std::cerr << (terminal ? "\n" : "")
              << "note: a snapshot failed, and training goes on: "
              << status.message() << "\n";
  }
}

Status Trainer::train() {
  catchStopSignals();
  if (!options.quiet) {
    std::printf("plan %s: %lld devices, %lld sequences of %lld tokens a step, "
                "%llu sequences of text\n",
                session->plan().name.c_str(),
                static_cast<long long>(session->devices()),
                static_cast<long long>(batches->size()),
                static_cast<long long>(batches->tokens() / batches->size()),
                static_cast<unsigned long long>(batches->samples()));
  }
  if (!options.resume.empty() && !options.quiet) {
    std::printf("resumed from %s\n", loaded.c_str());
  }
  begun = shown = std::chrono::steady_clock::now();
  // Plain output gets about twenty lines, a terminal ten a second.
  int64_t stride = std::max<int64_t>(1, options.steps / 20);
  int64_t said = session->set().eval_every;
  int64_t evaluateEvery = said > 0 ? said : 5 * stride;
  while (done < options.steps) {
    if (stopRequested()) {
      stopped = true;
    }
    if (stopped || stoppedByRule) {
      break;
    }
    CLEAVE_TRY(keepAppointments());
    CLEAVE_TRY(step());
    if (!std::isfinite(loss)) {
      return Status::error(
          "the loss is " + std::string(std::isnan(loss) ? "NaN" : "infinite") +
          " at step " + std::to_string(session->state().step) +
          "; nothing was saved, and earlier checkpoints are as they were (a "
          "smaller rate, or clipping, may help)");
    }
    bool due = done % stride == 0 || done == options.steps;
    int64_t at = static_cast<int64_t>(session->state().step);
    bool evaluates =
        heldOut && (at % evaluateEvery == 0 || done == options.steps);
    if (evaluates) {
      CLEAVE_TRY(evaluate());
    }
    // A full disk ends the run as ^C does: what was learned is saved.
    trouble = writeMetrics(evaluates);
    if (!trouble) {
      return Status();
    }
    writePrometheus(false);
    auto now = std::chrono::steady_clock::now();
    if (terminal ? now - shown > std::chrono::milliseconds(100) ||
                       done == options.steps
                 : due) {
      shown = now;
      report(std::chrono::duration<double>(now - begun).count(),
             done == options.steps);
    }
    CLEAVE_TRY(followRules());
    if (snapshots && at % snapshotEvery() == 0) {
      takeSnapshot();
    }
    reportSnapshots();
  }
  if (stoppedByRule) {
    say("stopped by a rule after step " +
        std::to_string(session->state().step));
  }
  if (stopped) {
    std::printf("%sstopped on request after step %llu\n", terminal ? "\n" : "",
                static_cast<unsigned long long>(session->state().step));
  }
  return Status();
}

/// With the pipeline's simulation beside what was measured.
Status Trainer::writeTrace() {
  std::optional<Prediction> prediction =
      predict(session->plan(), session->events());
  executor::TraceGroup simulated;
  if (prediction) {
    simulated = simulatedRows(session->plan(), *prediction);
  }
  CLEAVE_TRY(session->writeTrace(options.trace, simulated));
  if (options.quiet) {
    return Status();
  }
  if (prediction) {
    std::printf("measured %s a step, simulated from the stages' times %s\n",
                formatSeconds(prediction->measured).c_str(),
                formatSeconds(prediction->timeline.makespan).c_str());
  }
  std::printf("wrote %s (open it in https://ui.perfetto.dev)\n",
              options.trace.c_str());
  return Status();
}

Status Trainer::writeProfile() {
  std::vector<executor::PlanProfile> profiles = profiler->profiles();
  if (profiles.empty()) {
    std::cerr << "note: there is no profile: the first step under a plan does "
                 "not count, and there was no other\n";
  }
  std::string json;
  for (const executor::PlanProfile &profile : profiles) {
    executor::Bound bound =
        executor::measureBound(static_cast<int64_t>(profile.seconds.size()));
    if (options.profile) {
      std::printf("\n%s", profileText(profile, bound).c_str());
    }
    json += (json.empty() ? "" : ",\n") + profileJson(profile, bound);
  }
  if (options.profileJson.empty()) {
    return Status();
  }
  Result<ReplacedFile> file = ReplacedFile::create(options.profileJson);
  if (!file) {
    return file.status();
  }
  json = "[" + json + "]\n";
  CLEAVE_TRY(file->write(json.data(), json.size()));
  return file->commit();
}

Status Trainer::finish() {
  if (snapshots) {
    snapshots->finish();
    reportSnapshots();
  }
  if (batchFile) {
    CLEAVE_TRY(batchFile->commit());
  }
  writePrometheus(true);
  if (!options.save.empty()) {
    CLEAVE_TRY(state::saveCheckpoint(options.save, session->state(),
                                     session->set().model, metadataOfData()));
    if (!options.quiet) {
      std::printf("saved %s\n", options.save.c_str());
    }
  }
  if (!options.trace.empty()) {
    CLEAVE_TRY(writeTrace());
  }
  return profiler ? writeProfile() : Status();
}

} // namespace cleave::tools
