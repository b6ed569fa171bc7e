//===- ScheduleTest.cpp - Placement, messages, timelines, files -----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Library.h"
#include "Oracle.h"

#include "schedule/Check.h"
#include "schedule/Csv.h"
#include "schedule/Simulate.h"

#include <gtest/gtest.h>

#include <random>

using namespace cleave;
using namespace cleave::schedule;

namespace {

/// `F0 B0.1`: as pictures show them.
std::vector<Action> actions(const std::string &text) {
  std::vector<Action> result;
  for (size_t i = 0; i < text.size();) {
    size_t end = std::min(text.find(' ', i), text.size());
    std::string word = text.substr(i, end - i);
    size_t dot = word.find('.');
    Action action;
    action.kind = static_cast<Kind>(std::string("FBIW").find(word[0]));
    action.micro = std::stoi(word.substr(1));
    action.chunk = static_cast<uint16_t>(
        dot == std::string::npos ? 0 : std::stoi(word.substr(dot + 1)));
    result.push_back(action);
    i = end + 1;
  }
  return result;
}

Schedule make(int32_t micros, int32_t chunks, Placement placement,
              const std::vector<std::string> &stages) {
  Schedule schedule;
  schedule.name = "made";
  schedule.stages = static_cast<int32_t>(stages.size());
  schedule.micros = micros;
  schedule.chunks = chunks;
  schedule.placement = placement;
  for (const std::string &stage : stages) {
    schedule.actions.push_back(actions(stage));
  }
  return schedule;
}

Schedule plain(int32_t micros, const std::vector<std::string> &stages) {
  return make(micros, 1, Placement::Plain, stages);
}

std::vector<std::string> streamOf(const Schedule &schedule, int32_t stage) {
  auto outcome = check(schedule);
  const Proof *proof = std::get_if<Proof>(&outcome);
  std::vector<std::string> texts;
  for (size_t i = 0; proof && i < proof->streams.stages[stage].size(); ++i) {
    texts.push_back(describe(proof->streams.stages[stage][i], schedule, stage));
  }
  return texts;
}

Violation violationOf(const Schedule &schedule) {
  auto outcome = check(schedule);
  auto *violation = std::get_if<Violation>(&outcome);
  EXPECT_TRUE(violation);
  return violation ? *violation : Violation();
}

CsvError csvError(const std::string &text) {
  auto outcome = readCsv(text, "file");
  auto *error = std::get_if<CsvError>(&outcome);
  EXPECT_TRUE(error) << text;
  return error ? *error : CsvError();
}

} // namespace

using Texts = std::vector<std::string>;

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

TEST(Placement, Positions) {
  auto positions = [](Placement placement, int32_t stages, int32_t chunks) {
    Schedule schedule;
    schedule.placement = placement;
    schedule.stages = stages;
    schedule.chunks = chunks;
    std::vector<std::vector<int32_t>> result;
    for (int32_t stage = 0; stage < stages; ++stage) {
      result.emplace_back();
      for (int32_t chunk = 0; chunk < chunks; ++chunk) {
        int32_t position = schedule.position(stage, chunk);
        EXPECT_EQ(schedule.owner(position), stage);
        EXPECT_EQ(schedule.chunkAt(position), chunk);
        result.back().push_back(position);
      }
    }
    return result;
  };
  using Rows = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(positions(Placement::Plain, 3, 1), (Rows{{0}, {1}, {2}}));
  EXPECT_EQ(positions(Placement::Dealt, 2, 3), (Rows{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(positions(Placement::Folded, 3, 3),
            (Rows{{0, 5, 6}, {1, 4, 7}, {2, 3, 8}}));
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

TEST(Messages, OneForwardOneBackward) {
  Schedule schedule = plain(3, {"F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"});
  EXPECT_EQ(
      streamOf(schedule, 0),
      (Texts{"forward 0", "receive gradient of 0 from stage 1",
             "send activation of 0 to stage 1", "forward 1",
             "receive gradient of 1 from stage 1",
             "send activation of 1 to stage 1", "backward 0", "forward 2",
             "receive gradient of 2 from stage 1",
             "send activation of 2 to stage 1", "backward 1", "backward 2"}));
  // Stage 0 makes the activation of 2 only when it has the gradient of 0.
  EXPECT_EQ(streamOf(schedule, 1),
            (Texts{"receive activation of 0 from stage 0",
                   "receive activation of 1 from stage 0", "forward 0",
                   "backward 0", "receive activation of 2 from stage 0",
                   "send gradient of 0 to stage 0", "forward 1", "backward 1",
                   "send gradient of 1 to stage 0", "forward 2", "backward 2",
                   "send gradient of 2 to stage 0"}));
}

// Both end at the same moment and have something for the other.
TEST(Messages, NeighboursThatSendToEachOther) {
  Schedule schedule = make(2, 2, Placement::Folded,
                           {"F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0",
                            "F0.0 F0.1 F1.0 F1.1 B0.1 B0.0 B1.1 B1.0"});
  auto outcome = check(schedule);
  ASSERT_TRUE(std::holds_alternative<Proof>(outcome));
  EXPECT_EQ(oracle::rendezvous(schedule, std::get<Proof>(outcome).streams), "");
  // The order matters: where each receives only when it is free, neither can
  // send.
  Streams late = std::get<Proof>(outcome).streams;
  for (std::vector<Operation> &stream : late.stages) {
    for (size_t i = stream.size(); i-- > 0;) {
      for (size_t at = i; stream[at].isMessage() && !stream[at].isSend() &&
                          at + 1 < stream.size() &&
                          !(stream[at + 1].kind == Operation::Kind::Compute &&
                            stream[at + 1].micro == stream[at].micro &&
                            stream[at + 1].chunk == stream[at].chunk);
           ++at) {
        std::swap(stream[at], stream[at + 1]);
      }
    }
  }
  EXPECT_NE(oracle::rendezvous(schedule, late).find("hangs at"),
            std::string::npos);
}

// A receive that stands later than it must makes a send wait.
TEST(Messages, LaterReceivesMakeSendsWait) {
  Schedule schedule =
      plain(4, {"F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"});
  auto outcome = check(schedule);
  ASSERT_TRUE(std::holds_alternative<Proof>(outcome));
  Streams streams = std::get<Proof>(outcome).streams;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(oracle::waiting(schedule, streams, seed), "");
  }
  for (std::vector<Operation> &stream : streams.stages) {
    for (size_t i = 0; i + 1 < stream.size(); ++i) {
      if (stream[i].isMessage() && !stream[i].isSend() && i > 0 &&
          stream[i + 1].kind == Operation::Kind::Compute &&
          stream[i + 1].micro != stream[i].micro) {
        std::swap(stream[i], stream[i + 1]);
        break;
      }
    }
  }
  std::string problem;
  for (uint64_t seed = 0; seed < 20 && problem.empty(); ++seed) {
    problem = oracle::waiting(schedule, streams, seed);
  }
  EXPECT_NE(problem.find("would wait in send activation"), std::string::npos)
      << problem;
}

TEST(Messages, NeighboursOnOneStageNeedNone) {
  EXPECT_EQ(streamOf(plain(1, {"F0 B0"}), 0),
            (Texts{"forward 0", "backward 0"}));
  // The turn of a V lies on the last stage.
  Schedule folded = make(1, 2, Placement::Folded,
                         {"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0"});
  EXPECT_EQ(streamOf(folded, 1),
            (Texts{"receive activation of 0 from stage 0", "forward (0, 0)",
                   "forward (0, 1)", "receive gradient of 0 from stage 0",
                   "send activation of 0 to stage 0", "backward (0, 1)",
                   "backward (0, 0)", "send gradient of 0 to stage 0"}));
}

TEST(Messages, PendingPeaks) {
  // Stage 1 takes nothing until all is there.
  Schedule schedule = plain(3, {"F0 F1 F2 B0 B1 B2", "F2 F1 F0 B0 B1 B2"});
  auto outcome = check(schedule);
  ASSERT_TRUE(std::holds_alternative<Proof>(outcome));
  EXPECT_EQ(std::get<Proof>(outcome).pendingPeaks,
            (std::vector<int64_t>{3, 3}));
  // One forward, one backward: as few for many microbatches as for some.
  std::vector<int64_t> peaks[2];
  for (int i : {0, 1}) {
    auto evaluated =
        librarySource().evaluate("one_f_one_b", 4, i == 0 ? 8 : 64);
    ASSERT_TRUE(evaluated);
    auto proven = check(evaluated->schedule);
    ASSERT_TRUE(std::holds_alternative<Proof>(proven));
    peaks[i] = std::get<Proof>(proven).pendingPeaks;
  }
  EXPECT_EQ(peaks[0], peaks[1]);
  EXPECT_LE(*std::max_element(peaks[0].begin(), peaks[0].end()), 6);
}

// Of very many stages and microbatches only stages that are near are looked at.
TEST(Messages, ManyStages) {
  Schedule schedule;
  schedule.stages = 600;
  schedule.micros = 800;
  schedule.actions.resize(schedule.stages);
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    int32_t warm = std::min(schedule.stages - stage - 1, schedule.micros);
    for (int32_t i = 0; i < schedule.micros + warm; ++i) {
      Action action;
      action.micro = i;
      if (i < schedule.micros) {
        schedule.actions[stage].push_back(action);
      }
      action.micro = i - warm;
      action.kind = Kind::Backward;
      if (i >= warm) {
        schedule.actions[stage].push_back(action);
      }
    }
  }
  Streams streams = placeMessages(schedule);
  std::vector<int64_t> peaks = pendingPeaks(schedule, streams);
  // Two activations, and gradients for what is under way.
  for (int32_t stage = 0; stage < schedule.stages; ++stage) {
    EXPECT_LE(peaks[stage], schedule.stages - stage + 2);
  }
}

//===----------------------------------------------------------------------===//
// Timelines
//===----------------------------------------------------------------------===//

TEST(Timelines, LinksTakeTimeAndNoStage) {
  Schedule schedule = plain(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"});
  Times times;
  times.forward = {1, 2};
  times.input = {1, 1};
  times.weight = {1, 0.5};
  times.link = {0.25};
  Timeline timeline = simulate(schedule, times);
  ASSERT_TRUE(timeline.complete);
  auto at = [&](int stage, int i) {
    const Interval &interval = timeline.actions[stage][i];
    return std::pair(interval.start, interval.finish);
  };
  EXPECT_EQ(at(0, 1), std::pair(1.0, 2.0));   // the link keeps nobody busy
  EXPECT_EQ(at(1, 0), std::pair(1.25, 3.25)); // F0 after the link
  EXPECT_EQ(at(1, 1), std::pair(3.25, 4.75)); // B0 = 1 + 0.5
  EXPECT_EQ(at(0, 2), std::pair(5.0, 7.0));   // B0 after the link
  EXPECT_EQ(at(1, 3), std::pair(6.75, 8.25)); // B1
  EXPECT_EQ(at(0, 3), std::pair(8.5, 10.5));
  EXPECT_EQ(timeline.makespan, 10.5);
  EXPECT_EQ(timeline.stages[1].span(), 7.0);
  EXPECT_EQ(timeline.stages[1].idle(), 0.0);
  EXPECT_EQ(timeline.stages[0].idle(), 10.5 - 6);
  EXPECT_EQ(timeline.longestSpan, 10.5);
  EXPECT_DOUBLE_EQ(timeline.bubble, 4.5 / 10.5);
}

TEST(Timelines, WithoutTimeThereIsNoBubble) {
  Schedule schedule = plain(1, {"F0 B0", "F0 B0"});
  Timeline timeline = simulate(schedule, equalTimes(schedule, 0, 0, 0, 0));
  EXPECT_TRUE(timeline.complete);
  EXPECT_EQ(timeline.bubble, 0);
  EXPECT_EQ(picture(schedule, timeline), "stage 0\nstage 1\n");
}

TEST(Timelines, Picture) {
  Schedule schedule = plain(2, {"F0 F1 B0 B1", "F0 B0 F1 B1"});
  Timeline timeline = simulate(schedule, equalTimes(schedule, 1, 1, 1, 0));
  EXPECT_EQ(picture(schedule, timeline), "stage 0   F0 F1       B0       B1\n"
                                         "stage 1      F0 B0    F1 B1\n");
  EXPECT_EQ(picture(schedule, timeline, 20), "stage 0   F0 F1 …\n"
                                             "stage 1      F0 B0 …\n");
  EXPECT_EQ(picture(schedule, timeline, 0, 4), "stage 0 … B0       B1\n"
                                               "stage 1 … F1 B1\n");
}

//===----------------------------------------------------------------------===//
// What is wrong
//===----------------------------------------------------------------------===//

TEST(Violations, Shapes) {
  Schedule schedule = plain(1, {"F0 B0"});
  auto says = [&](const std::string &part) {
    Violation bad = violationOf(schedule);
    EXPECT_EQ(bad.kind, Violation::Kind::BadShape);
    EXPECT_NE(bad.message.find(part), std::string::npos) << bad.message;
  };
  schedule.stages = 0;
  says("stages, not 0");
  schedule.stages = mostStages + 1;
  says("stages, not 16385");
  schedule.stages = 1;
  schedule.micros = -1;
  says("microbatches, not -1");
  schedule.micros = 1;
  schedule.chunks = 2;
  says("`dealt` or `folded`");
  schedule.chunks = 0;
  says("chunks, not 0");
  schedule.chunks = 1;
  schedule.stages = 2;
  says("actions of 1 stages, not 2");
  schedule.stages = mostStages;
  schedule.micros = mostMicros;
  says("cells");
}

TEST(Violations, OutOfRange) {
  for (const char *text : {"F0 F1 B0", "F0 B0 F0.1"}) {
    Violation bad = violationOf(plain(1, {text}));
    EXPECT_EQ(bad.kind, Violation::Kind::OutOfRange) << text;
    EXPECT_EQ(bad.place.action, text == std::string("F0 F1 B0") ? 1u : 2u);
  }
}

TEST(Violations, WholeAndSplitBackwards) {
  auto kind = [](const std::string &text) {
    return violationOf(plain(1, {text})).kind;
  };
  using Is = Violation::Kind;
  EXPECT_EQ(kind("F0 B0 W0"), Is::Repeated);
  EXPECT_EQ(kind("F0 I0 B0"), Is::Repeated);
  EXPECT_EQ(kind("F0 I0 W0 W0"), Is::Repeated);
  EXPECT_EQ(kind("F0 F0 B0"), Is::Repeated);
  EXPECT_EQ(kind("F0 I0"), Is::Missing);
  EXPECT_EQ(kind("F0 W0"), Is::Missing);
  EXPECT_EQ(kind("B0"), Is::Missing);
  EXPECT_EQ(kind("F0"), Is::Missing);
  EXPECT_EQ(kind("F0 W0 I0"), Is::TooEarly);
  EXPECT_EQ(kind("I0 F0 W0"), Is::TooEarly);
  EXPECT_EQ(kind(""), Is::Empty);
}

// On one stage chunk after chunk, so it is the order there that is wrong.
TEST(Violations, ChunksOfOneStage) {
  Violation bad =
      violationOf(make(1, 2, Placement::Folded, {"F0.1 F0.0 B0.1 B0.0"}));
  EXPECT_EQ(bad.kind, Violation::Kind::TooEarly);
  EXPECT_EQ(bad.message, "stage 0 runs `forward (0, 1)` before `forward (0, "
                         "0)`, which it needs");
}

//===----------------------------------------------------------------------===//
// PyTorch's notation
//===----------------------------------------------------------------------===//

TEST(Csv, RoundTripsTheLibrary) {
  Source &source = librarySource();
  for (const Known &known : library()) {
    for (int64_t chunks : known.chunks) {
      for (int64_t stages : {1, 2, 5}) {
        for (int64_t micros : {1, 4, 11}) {
          auto evaluated = source.evaluate(known.name, stages, micros, chunks);
          ASSERT_TRUE(evaluated);
          const Schedule &schedule = evaluated->schedule;
          for (Spelling spelling : {Spelling::Older, Spelling::Newer}) {
            auto read = readCsv(writeCsv(schedule, spelling), known.name);
            auto *same = std::get_if<Schedule>(&read);
            ASSERT_TRUE(same) << std::get<CsvError>(read).message;
            EXPECT_EQ(same->actions, schedule.actions);
            EXPECT_EQ(same->micros, schedule.micros);
            EXPECT_EQ(same->chunks, schedule.chunks);
            // Of one stage a line is the same, folded or dealt.
            if (stages > 1) {
              EXPECT_EQ(same->placement, schedule.placement);
            }
          }
        }
      }
    }
  }
}

TEST(Csv, WhatBMeans) {
  auto kinds = [](const std::string &text) {
    auto outcome = readCsv(text, "file");
    auto *schedule = std::get_if<Schedule>(&outcome);
    EXPECT_TRUE(schedule);
    std::string letters;
    for (size_t i = 0; schedule && i < schedule->actions[0].size(); ++i) {
      letters += label(schedule->actions[0][i], 1)[0];
    }
    return letters;
  };
  EXPECT_EQ(kinds("0F0,0B0\n"), "FB");                 // the same in both
  EXPECT_EQ(kinds("0F0,0B0,0W0\n"), "FIW");            // older
  EXPECT_EQ(kinds("0F0,0F1,0B0,0BW1,0W0\n"), "FFIBW"); // older
  EXPECT_EQ(kinds("0F0,0F1,0I0,0B1,0W0\n"), "FFIBW");  // newer
  EXPECT_EQ(kinds("0F0, (0F1;0B0)OVERLAP_F_B ,,0B1\r\n\r\n"), "FFBB");
}

TEST(Csv, ErrorsHavePlaces) {
  CsvError error = csvError("0F0,0B0\n1F0,,1Q0\n");
  EXPECT_EQ(error.line, 2u);
  EXPECT_EQ(error.column, 6u);
  EXPECT_EQ(error.message, "`1Q0` is no action");
  EXPECT_EQ(csvError("0F0\n\n2F0").line, 2u);
  EXPECT_EQ(csvError(",,\n").message, "rank 0 has no actions");
  EXPECT_EQ(csvError(" \n").message, "the file has no actions");
  EXPECT_EQ(csvError("0F-1").message, "`0F-1` is no action");
  EXPECT_EQ(csvError("-1F0").message, "`-1F0` is no action");
  EXPECT_EQ(csvError("0F").message, "`0F` is no action");
  EXPECT_EQ(csvError("F0").message, "`F0` is no action");
  EXPECT_EQ(csvError("(0F0)").message, "`(0F0)` is no action");
  EXPECT_EQ(csvError("()OVERLAP_F_B").message, "`` is no action");
  EXPECT_EQ(csvError("0F2000000").message,
            "microbatch 2000000 is beyond what a schedule may have");
}

// Broken files give an error or a schedule in shape, never anything else.
TEST(Csv, BrokenFiles) {
  std::mt19937 random(5);
  const std::string letters = "0123456789FBIW,;()\n OVERLAP_SENDR\xff";
  int64_t good = 0, bad = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 ? "0F0,0F1,3F0,3I0,3W0,(3F1;0B0)OVERLAP_F_B\n"
                                   "1F0,2F0,2B0,1BW0,1F1\n"
                                 : "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
    for (int n = static_cast<int>(random() % 4); n >= 0; --n) {
      size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text.erase(at, 1);
        break;
      case 1:
        text.insert(at, 1, letters[random() % letters.size()]);
        break;
      default:
        text[at] = letters[random() % letters.size()];
      }
    }
    auto outcome = readCsv(text, "file");
    if (auto *error = std::get_if<CsvError>(&outcome)) {
      ++bad;
      ASSERT_LE(error->begin, error->end);
      ASSERT_LE(error->end, text.size());
      ASSERT_FALSE(error->message.empty());
    } else {
      ++good;
      check(std::get<Schedule>(outcome));
    }
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(bad, 100);
}
