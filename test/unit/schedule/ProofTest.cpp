//===- ProofTest.cpp - What is right is proven, what is wrong refused -----===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Library.h"
#include "Oracle.h"

#include "schedule/Check.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

using namespace cleave;
using namespace cleave::schedule;

namespace {

Schedule evaluate(const std::string &name, int64_t stages, int64_t micros,
                  int64_t chunks) {
  Source &source = librarySource();
  auto evaluated = source.evaluate(name, stages, micros, chunks);
  EXPECT_TRUE(evaluated) << source.diags.text();
  return evaluated ? evaluated->schedule : Schedule();
}

/// Drops, doubles or swaps actions of one stage.
void mutate(Schedule &schedule, std::mt19937 &random) {
  auto below = [&](size_t n) { return random() % n; };
  std::vector<Action> &list = schedule.actions[below(schedule.stages)];
  size_t i = below(list.size());
  switch (below(6)) {
  case 0:
    list.erase(list.begin() + i);
    break;
  case 1:
    list.insert(list.begin() + below(list.size() + 1), list[i]);
    break;
  case 2:
  case 3: // far
    std::swap(list[i], list[below(list.size())]);
    break;
  default: // near: more of these are legal
    std::swap(list[i], list[std::min(i + 1 + below(3), list.size() - 1)]);
    break;
  }
}

std::string describeCase(const Schedule &schedule) {
  return schedule.name + " " + std::to_string(schedule.stages) + " stages, " +
         std::to_string(schedule.micros) + " microbatches, " +
         std::to_string(schedule.chunks) + " chunks";
}

} // namespace

// Every schedule of the library, for every number of stages and microbatches,
// and its messages under rendezvous.
TEST(Library, HoldsForAllSizes) {
  int64_t proven = 0;
  for (const Known &known : library()) {
    for (int64_t chunks : known.chunks) {
      for (int64_t p = 1; p <= 16; ++p) {
        for (int64_t m = 1; m <= 64; ++m) {
          Schedule schedule = evaluate(known.name, p, m, chunks);
          auto outcome = check(schedule);
          auto *bad = std::get_if<Violation>(&outcome);
          ASSERT_FALSE(bad)
              << describeCase(schedule) << ": " << bad->message << "\n"
              << bad->timeline;
          ++proven;
          // The oracle is slow: all small sizes, and a part of the others.
          if ((p <= 4 && m <= 10) || (p * 31 + m) % 41 == 0) {
            const Proof &proof = std::get<Proof>(outcome);
            ASSERT_EQ(oracle::judge(schedule), "") << describeCase(schedule);
            ASSERT_EQ(oracle::rendezvous(schedule, proof.streams), "")
                << describeCase(schedule);
            if ((p + m) % 3 == 0) {
              ASSERT_EQ(oracle::waiting(schedule, proof.streams, p * 64 + m),
                        "")
                  << describeCase(schedule);
            }
            ASSERT_EQ(oracle::held(schedule), proof.activationPeaks)
                << describeCase(schedule);
          }
        }
      }
    }
  }
  EXPECT_EQ(proven, 12 * 16 * 64);
}

// The checker and the oracle agree on schedules that were tampered with.
TEST(Mutations, CheckerAgreesWithOracle) {
  std::mt19937 random(20241);
  auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % (high - low + 1));
  };
  std::vector<Known> known = library();
  int64_t accepted = 0, refused = 0;
  std::map<Violation::Kind, int64_t> kinds;
  for (int round = 0; round < 6000; ++round) {
    const Known &which = known[random() % known.size()];
    int64_t chunks = which.chunks[random() % which.chunks.size()];
    // Small ones most of the time: more of their mutants differ.
    bool small = round % 4 != 0;
    Schedule schedule = evaluate(which.name, between(1, small ? 4 : 8),
                                 between(1, small ? 6 : 32), chunks);
    mutate(schedule, random);
    if (round % 5 == 0) {
      mutate(schedule, random);
    }
    std::string wrong = oracle::judge(schedule);
    auto outcome = check(schedule);
    auto *bad = std::get_if<Violation>(&outcome);
    ASSERT_EQ(bad == nullptr, wrong.empty())
        << describeCase(schedule) << ": the oracle says `" << wrong
        << "`, the checker `" << (bad ? bad->message : "") << "`\n"
        << (bad ? bad->timeline : "");
    if (bad) {
      ++refused;
      ++kinds[bad->kind];
      ASSERT_FALSE(bad->message.empty());
    } else {
      ++accepted;
      const Proof &proof = std::get<Proof>(outcome);
      ASSERT_EQ(oracle::rendezvous(schedule, proof.streams), "")
          << describeCase(schedule);
      ASSERT_EQ(oracle::waiting(schedule, proof.streams, round), "")
          << describeCase(schedule);
      ASSERT_EQ(oracle::held(schedule), proof.activationPeaks)
          << describeCase(schedule);
    }
  }
  std::cout << accepted << " accepted, " << refused
            << " refused: " << kinds[Violation::Kind::Repeated] << " repeated, "
            << kinds[Violation::Kind::Missing] << " missing, "
            << kinds[Violation::Kind::TooEarly] << " too early, "
            << kinds[Violation::Kind::Deadlock] << " deadlocks\n";
  // Both answers are common, and each reason is.
  EXPECT_GT(accepted, 600);
  EXPECT_GT(refused, 600);
  for (Violation::Kind kind :
       {Violation::Kind::Repeated, Violation::Kind::Missing,
        Violation::Kind::TooEarly, Violation::Kind::Deadlock}) {
    EXPECT_GT(kinds[kind], 50) << static_cast<int>(kind);
  }
}

// A circle of waits leads from each action to the next, and back.
TEST(Mutations, CyclesClose) {
  std::mt19937 random(77);
  int64_t found = 0;
  for (int round = 0; round < 3000; ++round) {
    Schedule schedule =
        evaluate(round % 2 ? "interleaved" : "zb_v", 4, 1 + round % 9, 2);
    mutate(schedule, random);
    auto outcome = check(schedule);
    auto *bad = std::get_if<Violation>(&outcome);
    if (!bad || bad->kind != Violation::Kind::Deadlock) {
      continue;
    }
    ++found;
    ASSERT_GE(bad->cycle.size(), 2u);
    for (size_t i = 0; i < bad->cycle.size(); ++i) {
      const Wait &wait = bad->cycle[i];
      const Wait &next = bad->cycle[(i + 1) % bad->cycle.size()];
      ASSERT_EQ(wait.needed, next.waiting);
      if (wait.waiting.stage == wait.needed.stage) {
        ASSERT_GT(wait.waiting.action, wait.needed.action);
      } else {
        const Action &a =
            schedule.actions[wait.waiting.stage][wait.waiting.action];
        const Action &b =
            schedule.actions[wait.needed.stage][wait.needed.action];
        ASSERT_EQ(a.micro, b.micro);
        int32_t from = schedule.positionOf(wait.waiting.stage, a);
        int32_t to = schedule.positionOf(wait.needed.stage, b);
        ASSERT_EQ(to, a.kind == Kind::Forward ? from - 1 : from + 1);
      }
    }
  }
  EXPECT_GT(found, 100);
}

// Printed, not asserted: a machine may be busy.
TEST(Speed, SixtyFourStages) {
  using Clock = std::chrono::steady_clock;
  for (const Known &known : library()) {
    for (int64_t chunks : known.chunks) {
      auto begin = Clock::now();
      Schedule schedule = evaluate(known.name, 64, 512, chunks);
      auto middle = Clock::now();
      ASSERT_TRUE(std::holds_alternative<Proof>(check(schedule)));
      auto end = Clock::now();
      auto seconds = [](auto span) {
        return std::chrono::duration<double>(span).count();
      };
      std::cout << known.name << ", 64 stages, 512 microbatches, " << chunks
                << " chunks: evaluated in " << seconds(middle - begin)
                << " s, proven in " << seconds(end - middle) << " s\n";
    }
  }
}
