//===- PlanFileTest.cpp - Good plan files are read, bad ones refused ------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/PlanFile.h"
#include "TestPlan.h"
#include "runtime/format/Processor.h"
#include "runtime/format/Verify.h"
#include "runtime/support/File.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

using namespace cleave;
using namespace cleave::format;
using namespace cleave::test;

namespace {

std::vector<char> goodBytes() {
  return encodePlanFile(makeSet({{"one", 1, 1}, {"wide", 2, 2}}),
                        testKernels());
}

std::string errorOf(std::vector<char> bytes) {
  Result<PlanFile> file = PlanFile::parse(std::move(bytes), "f.plan");
  return file.ok() ? "" : file.message();
}

void seal(std::vector<char> &bytes) {
  uint64_t sum = XXH64(bytes.data() + 24, bytes.size() - 24, formatVersion);
  std::memcpy(bytes.data() + 16, &sum, sizeof(sum));
}

/// The complaint about a set that `damage` has damaged.
std::string complaint(const std::function<void(PlanSetT &)> &damage) {
  PlanSetT set = makeSet({{"wide", 2, 2}});
  damage(set);
  Status status = verify(set);
  return status.ok() ? "" : status.message();
}

ProgramT &programOf(PlanSetT &set) { return *set.plans[0]->programs[0]; }
InstructionT &at(PlanSetT &set, size_t index) {
  return *programOf(set).body[index];
}

} // namespace

TEST(PlanFile, RoundTrip) {
  std::string path = testing::TempDir() + "cleave_round.plan";
  PlanSetT set = makeSet({{"one", 1, 1}, {"wide", 2, 2}});
  set.start = 1;
  ASSERT_TRUE(writePlanFile(path, set, testKernels()).ok());
  Result<PlanFile> file = PlanFile::open(path);
  ASSERT_TRUE(file.ok()) << file.message();
  EXPECT_EQ(file->set().model, "toy");
  EXPECT_EQ(file->set().start, 1u);
  EXPECT_EQ(file->findPlan("wide"), 1);
  EXPECT_EQ(file->findPlan("narrow"), -1);
  std::vector<char> kernels = testKernels();
  EXPECT_EQ(std::vector<char>(file->kernels().begin(), file->kernels().end()),
            kernels);
  // Writing again replaces; nothing is left beside it.
  ASSERT_TRUE(writePlanFile(path, set, testKernels()).ok());
  for (const auto &entry :
       std::filesystem::directory_iterator(testing::TempDir())) {
    EXPECT_EQ(entry.path().string().find("cleave_round.plan.part"),
              std::string::npos);
  }
}

TEST(PlanFile, SameSetGivesSameBytes) { EXPECT_EQ(goodBytes(), goodBytes()); }

TEST(PlanFile, ForeignFiles) {
  EXPECT_EQ(errorOf({}), "cannot use `f.plan`: it is not a plan file");
  EXPECT_EQ(errorOf(std::vector<char>(500, 'x')),
            "cannot use `f.plan`: it is not a plan file");
  EXPECT_FALSE(PlanFile::open("/nonexistent/f.plan").ok());
  EXPECT_FALSE(PlanFile::open("/tmp").ok());
}

TEST(PlanFile, EveryPrefixIsRefused) {
  std::vector<char> good = goodBytes();
  for (size_t size = 0; size < good.size(); size += size < 400 ? 1 : 37) {
    std::vector<char> cut(good.begin(), good.begin() + size);
    EXPECT_NE(errorOf(cut), "") << size;
  }
  std::vector<char> cut(good.begin(), good.end() - 1);
  EXPECT_NE(errorOf(cut).find("it is cut short"), std::string::npos);
  good.push_back(0);
  EXPECT_NE(errorOf(good), "");
}

TEST(PlanFile, EveryAlteredByteIsRefused) {
  std::vector<char> good = goodBytes();
  for (size_t i = 0; i < good.size(); i += i < 2000 ? 1 : 53) {
    std::vector<char> bad = good;
    bad[i] ^= 0x20;
    EXPECT_NE(errorOf(bad), "") << i;
  }
}

TEST(PlanFile, LaterVersion) {
  std::vector<char> bytes = goodBytes();
  bytes[8] = formatVersion + 1;
  EXPECT_NE(errorOf(bytes).find("it is of format version 2"),
            std::string::npos);
}

// What the checksum cannot catch: whoever changes bytes and seals them again
// gets a file that is refused or one that is sound, never a crash.
TEST(PlanFile, ResealedMutationsDoNotCrash) {
  std::vector<char> good =
      encodePlanFile(makeSet({{"wide", 2, 2}}), std::vector<char>(64, 'k'));
  std::mt19937 random(5);
  size_t metadata = good.size() - 64;
  int refused = 0, count = 30000;
  for (int i = 0; i < count; ++i) {
    std::vector<char> bad = good;
    for (int changes = 1 + random() % 3; changes > 0; --changes) {
      size_t at = 24 + random() % (metadata - 24);
      switch (random() % 4) {
      case 0:
        bad[at] ^= 1 << random() % 8;
        break;
      case 1:
        bad[at] = static_cast<char>(0xff);
        break;
      case 2:
        bad[at] = 0;
        break;
      case 3:
        bad[at] = static_cast<char>(random());
        break;
      }
    }
    seal(bad);
    refused += errorOf(bad) != "";
  }
  EXPECT_GT(refused, count / 4);
}

TEST(PlanFile, OtherProcessor) {
  PlanSetT set = makeSet({{"one", 1, 1}});
  set.target_features = {"+sse2", "avx1024x", "-avx512f"};
  std::vector<char> bytes = encodePlanFile(set, testKernels());
  EXPECT_EQ(errorOf(bytes),
            "cannot use `f.plan`: it was built for a processor with avx1024x, "
            "which this one lacks; build it here");
  OpenOptions options;
  options.forThisProcessor = false;
  EXPECT_TRUE(PlanFile::parse(bytes, "f.plan", options).ok());
}

TEST(PlanFile, FeatureNames) {
  std::string cpuinfo = "processor: 0\nflags\t\t: fpu sse4_1 avx512_bf16 abm "
                        "sha_ni lahf_lm bmi1 avx512f\n";
  EXPECT_TRUE(missingFeatures({"+sse4.1", "avx512bf16", "lzcnt", "sha", "sahf",
                               "bmi", "evex512"},
                              cpuinfo)
                  .empty());
  EXPECT_EQ(missingFeatures({"avx512vl", "avx512f"}, cpuinfo),
            std::vector<std::string>{"avx512vl"});
}

TEST(PlanFile, DamagedSetsAreNotWritten) {
  PlanSetT set = makeSet({{"one", 1, 1}});
  set.start = 4;
  std::string path = testing::TempDir() + "cleave_damaged.plan";
  std::filesystem::remove(path);
  EXPECT_FALSE(writePlanFile(path, set, testKernels()).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Verify, SoundSet) {
  EXPECT_EQ(complaint([](PlanSetT &) {}), "");
}

TEST(Verify, Indices) {
  const std::string program = "plan `wide`: program `train`: ";
  EXPECT_EQ(complaint([](PlanSetT &set) { set.start = 1; }),
            "it starts with a plan that it does not hold");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              programOf(set).values[0]->extents[0] = 99;
            }),
            program + "value 0: an extent that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              at(set, 0).action.AsKernel()->symbol = 5;
            }),
            program + "instruction 0: a kernel: a symbol that is not there");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { at(set, 0).action.AsKernel()->site = 77; }),
      program + "instruction 0: a kernel: a site that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              at(set, 0).action.AsKernel()->views[0] = View(88, -1);
            }),
            program + "instruction 0: a kernel: a value that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              at(set, 0).action.AsKernel()->views[0] = View(0, 0);
            }),
            program + "instruction 0: a kernel: a loop that does not enclose "
                      "it");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { programOf(set).outputs[0]->value = 50; }),
      program + "output `loss`: a value that is not there");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              set.plans[0]->layouts[0]->dims[2]->atoms = {9};
            }),
            "plan `wide`: leaf `layer/w`: dim `out`: an axis that the mesh "
            "lacks");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              set.plans[0]->layouts[0]->dims[1]->atoms = {1};
            }),
            "plan `wide`: leaf `layer/w`: an axis used twice");
}

TEST(Verify, Memory) {
  const std::string program = "plan `wide`: program `train`: ";
  EXPECT_EQ(complaint([](PlanSetT &set) { programOf(set).arena_bytes = 64; }),
            program + "value 6: it ends outside the arena");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { programOf(set).values[6]->offset += 4; }),
      program + "value 6: an offset that is not a multiple of 64");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              programOf(set).values[6]->offset = ~uint64_t(63);
            }),
            program + "value 6: it ends outside the arena");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { programOf(set).values[5]->bytes = 40; }),
      program + "value 5: it has room for 40 bytes and needs 48");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              set.leaves[0]->sizes = {int64_t(1) << 40, int64_t(1) << 40, 7};
            }),
            "leaf `layer/w`: sizes that overflow");
  EXPECT_EQ(complaint([](PlanSetT &set) { set.leaves[0]->sizes[0] = 0; }),
            "leaf `layer/w`: a size of 0");
}

TEST(Verify, Loops) {
  const std::string program = "plan `wide`: program `train`: instruction 1: ";
  EXPECT_EQ(
      complaint([](PlanSetT &set) { at(set, 1).action.AsLoop()->count = 4; }),
      program + "instruction 0: a contraction: the loop runs past the "
                "end of value 3");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { at(set, 1).action.AsLoop()->first = -1; }),
      program + "a loop of impossible length");
}

TEST(Verify, Collectives) {
  const std::string program = "plan `wide`: program `train`: ";
  EXPECT_EQ(complaint([](PlanSetT &set) {
              programOf(set).body.erase(programOf(set).body.begin() + 8);
            }),
            program + "collective 1 is never waited for");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              LoopT &loop = *at(set, 1).action.AsLoop();
              loop.body.erase(loop.body.begin() + 3);
            }),
            program + "instruction 1: a loop leaves a collective unfinished");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              at(set, 3).action.AsCollective()->id = 2;
            }),
            program + "instruction 5: collective 2 is there twice");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              at(set, 3).action.AsCollective()->partial = {1};
            }),
            program + "instruction 3: collective 1 reduces outside its group");
  EXPECT_EQ(
      complaint([](PlanSetT &set) { at(set, 8).action.AsWait()->id = 5; }),
      program + "instruction 8: a wait for a collective that was not "
                "started");
  EXPECT_EQ(complaint([](PlanSetT &set) {
              CollectiveT &one = *at(set, 5).action.AsCollective();
              *one.target = View(5, -1);
            }),
            program + "instruction 5: collective 2: source and target differ "
                      "in size");
}

TEST(Verify, ShiftsAroundOneDim) {
  const std::string collective =
      "plan `wide`: program `train`: instruction 5: collective 2: ";
  auto shifted = [](std::vector<int64_t> shift) {
    return complaint([&](PlanSetT &set) {
      at(set, 5).action.AsCollective()->shift = shift;
    });
  };
  EXPECT_EQ(shifted({1, 0}), "");
  EXPECT_EQ(shifted({1}),
            collective + "another number of distances than of dims");
  EXPECT_EQ(shifted({4, 0}), collective + "a shift of 4 around 4");
  EXPECT_EQ(shifted({0, -1}), collective + "a shift of -1 around 7");
  EXPECT_EQ(shifted({1, 1}), collective + "a shift of more than one dim");
}

TEST(Verify, InPlaceIsForReductionsAlone) {
  auto inPlace = [](PlanSetT &set) {
    CollectiveT &one = *at(set, 3).action.AsCollective();
    *one.target = *one.source;
    return &one;
  };
  EXPECT_EQ(complaint([&](PlanSetT &set) { inPlace(set); }), "");
  EXPECT_EQ(complaint([&](PlanSetT &set) { inPlace(set)->partial.clear(); }),
            "plan `wide`: program `train`: instruction 3: collective 1: its "
            "target overlaps its source");
}

TEST(Verify, Contractions) {
  const std::string program =
      "plan `wide`: program `train`: instruction 4: a contraction: ";
  auto damage = [](const std::function<void(ContractionT &)> &change) {
    return complaint(
        [&](PlanSetT &set) { change(*at(set, 4).action.AsContraction()); });
  };
  EXPECT_EQ(damage([](ContractionT &c) { c.dims.pop_back(); }),
            program + "a dim of an operand that is not named");
  EXPECT_EQ(
      damage([](ContractionT &c) { c.dims[0] = ContractedDim(2, 4, -1, 0); }),
      program + "a dim at a position that is not there");
  EXPECT_EQ(
      damage([](ContractionT &c) { c.dims[0] = ContractedDim(1, 1, -1, 0); }),
      program + "a dim whose size is another in an operand");
  EXPECT_EQ(damage([](ContractionT &c) { *c.out = *c.lhs; }),
            program + "its result overlaps an operand");
  const std::string terms =
      program + "a sum of terms that names a second operand";
  EXPECT_EQ(damage([](ContractionT &c) { c.ordered = c.terms = true; }), terms);
  EXPECT_EQ(damage([](ContractionT &c) {
              c.terms = true;
              *c.rhs = *c.lhs;
            }),
            terms);
  EXPECT_EQ(damage([](ContractionT &c) { c.lhs.reset(); }),
            program + "a view is missing");
  EXPECT_EQ(damage([](ContractionT &c) { *c.lhs = View(0, -1); }),
            program + "an operand that is neither f32 nor bf16");
}

TEST(Verify, BF16IsMultipliedAndNeverAdded) {
  auto expect = [](const std::function<void(PlanSetT &)> &change,
                   const std::string &end) {
    std::string found = complaint(change);
    EXPECT_TRUE(found.ends_with(end)) << found;
  };
  auto narrow = [](PlanSetT &set, const View &view) {
    programOf(set).values[view.value()]->type = ElementType::BF16;
  };
  expect(
      [&](PlanSetT &set) {
        narrow(set, *at(set, 4).action.AsContraction()->lhs);
      },
      "a contraction: operands of two types");
  expect(
      [&](PlanSetT &set) {
        narrow(set, *at(set, 4).action.AsContraction()->out);
      },
      "a contraction: a result that is not f32");
  expect(
      [&](PlanSetT &set) {
        for (auto &instruction : programOf(set).body) {
          auto *sum = instruction->action.AsCollective();
          if (sum && sum->kind == CollectiveKind::AllReduce) {
            narrow(set, *sum->source);
            narrow(set, *sum->target);
          }
        }
      },
      "reduces bf16");
  expect([](PlanSetT &set) { set.leaves[0]->type = ElementType::BF16; },
         "an unknown element type");
}

TEST(Verify, Splits) {
  layout::Mesh mesh;
  mesh.atoms = {{"a", 3}};
  auto check = [&](std::vector<int64_t> cuts, std::vector<int64_t> places,
                   int64_t unit = 1) {
    SplitT split;
    split.atoms = {0};
    split.cuts = std::move(cuts);
    split.places = std::move(places);
    split.unit = unit;
    Status status = verifySplit(split, 9, mesh);
    return status.ok() ? "" : status.message();
  };
  EXPECT_EQ(check({}, {}), "");
  EXPECT_EQ(check({0, 2, 2, 9}, {}), "");
  EXPECT_EQ(check({0, 9}, {2}), "");
  EXPECT_EQ(check({}, {2, 0, 1}), "");
  EXPECT_NE(check({0, 9}, {}), "");
  EXPECT_NE(check({0, 5, 2, 9}, {}), "");
  EXPECT_NE(check({0, 2, 3, 8}, {}), "");
  EXPECT_NE(check({0, 9}, {3}), "");
  EXPECT_NE(check({}, {0, 1}), "");
  // Several on one device.
  EXPECT_EQ(check({0, 3, 6, 9}, {0, 0, 1}), "");
  EXPECT_EQ(check({}, {0, 1, 2, 2, 1, 0}), "");
  EXPECT_NE(check({}, {}, 0), "");
}

namespace {

/// A set with a run of one good rule: `loss > 2`.
std::string runComplaint(const std::function<void(PlanSetT &)> &damage) {
  return complaint([&](PlanSetT &set) {
    set.run = std::make_unique<RunT>();
    set.run->name = "train";
    set.run->batches = {BatchChange(0, 2), BatchChange(10, 4)};
    set.run->rules.push_back(std::make_unique<RuleT>());
    RuleT &rule = *set.run->rules[0];
    rule.plan = set.plans[0]->name;
    for (TermKind kind :
         {TermKind::Measure, TermKind::Number, TermKind::Greater}) {
      rule.condition.push_back(std::make_unique<TermT>());
      rule.condition.back()->kind = kind;
    }
    rule.condition[0]->measure = std::make_unique<MeasureT>();
    damage(set);
  });
}

RuleT &ruleOf(PlanSetT &set) { return *set.run->rules[0]; }

} // namespace

TEST(PlanFile, RunsThatMakeNoSense) {
  EXPECT_EQ(runComplaint([](PlanSetT &) {}), "");
  struct Case {
    const char *complaint;
    std::function<void(PlanSetT &)> damage;
  };
  const Case cases[] = {
      {"lacks an operand",
       [](PlanSetT &set) {
         ruleOf(set).condition.erase(ruleOf(set).condition.begin());
       }},
      {"not one expression",
       [](PlanSetT &set) { ruleOf(set).condition.pop_back(); }},
      {"not one expression",
       [](PlanSetT &set) { ruleOf(set).condition.clear(); }},
      {"unknown operation",
       [](PlanSetT &set) { ruleOf(set).condition[2]->kind = TermKind(99); }},
      {"a metric where there is none",
       [](PlanSetT &set) { ruleOf(set).condition[0]->measure.reset(); }},
      {"a metric where there is none",
       [](PlanSetT &set) {
         ruleOf(set).condition[1]->measure = std::make_unique<MeasureT>();
       }},
      {"unknown metric",
       [](PlanSetT &set) {
         ruleOf(set).condition[0]->measure->metric = Metric(77);
       }},
      {"unknown metric",
       [](PlanSetT &set) {
         ruleOf(set).condition[0]->measure->statistic = Statistic(9);
       }},
      {"unknown metric",
       [](PlanSetT &set) {
         ruleOf(set).condition[0]->measure->traffic = TrafficKind(50);
       }},
      {"of which no leaf is a mean",
       [](PlanSetT &set) {
         ruleOf(set).condition[0]->measure->metric = Metric::GradientSignal;
       }},
      {"its mean of gradients has impossible numbers",
       [](PlanSetT &set) {
         set.run->gradient_mean = std::make_unique<GradientMeanT>();
         set.run->gradient_mean->keep = 1;
         set.run->gradient_mean->limit = 1;
       }},
      {"it sends what there is not",
       [](PlanSetT &set) {
         set.plans[0]->traffic.push_back(std::make_unique<TrafficT>());
         set.plans[0]->traffic[0]->bytes = -1;
       }},
      {"it sends what there is not",
       [](PlanSetT &set) {
         set.plans[0]->traffic.push_back(std::make_unique<TrafficT>());
         set.plans[0]->traffic[0]->kind = TrafficKind(20);
       }},
      {"a window of 0 steps",
       [](PlanSetT &set) { ruleOf(set).condition[0]->measure->window = 0; }},
      {"a window of 4294967295 steps",
       [](PlanSetT &set) {
         ruleOf(set).condition[0]->measure->window = 0xffffffff;
       }},
      {"it asks for no step", [](PlanSetT &set) { ruleOf(set).during = 0; }},
      {"its action is unknown",
       [](PlanSetT &set) { ruleOf(set).action = RuleAction(9); }},
      {"impossible number",
       [](PlanSetT &set) { ruleOf(set).action = RuleAction::Micros; }},
      {"impossible number",
       [](PlanSetT &set) {
         ruleOf(set).action = RuleAction::Batch;
         ruleOf(set).amount = -1;
       }},
      {"it goes to plan `nowhere`",
       [](PlanSetT &set) { ruleOf(set).plan = "nowhere"; }},
      {"batches are not in order",
       [](PlanSetT &set) { set.run->batches[1] = BatchChange(0, 4); }},
      {"batches are not in order",
       [](PlanSetT &set) { set.run->batches[0] = BatchChange(1, 4); }},
      {"batches are not in order",
       [](PlanSetT &set) { set.run->batches[1] = BatchChange(10, 0); }},
      {"impossible batch", [](PlanSetT &set) { set.plans[0]->batch = -1; }},
      {"impossible batch", [](PlanSetT &set) { set.plans[0]->micros = -1; }},
      {"too long",
       [](PlanSetT &set) {
         for (size_t i = 0; i < 2 * mostTerms; ++i) {
           ruleOf(set).condition.push_back(std::make_unique<TermT>());
           ruleOf(set).condition.back()->kind = TermKind::Not;
         }
       }},
  };
  for (const Case &each : cases) {
    EXPECT_NE(runComplaint(each.damage).find(each.complaint), std::string::npos)
        << each.complaint << " / " << runComplaint(each.damage);
  }
}

namespace {

/// A set whose program updates the state by one gradient: for its shape, the
/// value of the parameter itself.
std::string updateComplaint(const std::function<void(ProgramT &)> &damage) {
  return complaint([&](PlanSetT &set) {
    ProgramT &program = programOf(set);
    const LeafT &leaf = *set.leaves[0];
    program.update = static_cast<uint32_t>(program.body.size()) - 1;
    auto handover = std::make_unique<HandoverT>();
    handover->ready = 2;
    handover->loop = 1;
    handover->gradient = std::make_unique<OutputT>();
    OutputT &gradient = *handover->gradient;
    gradient.kind = OutputKind::Gradient;
    gradient.name = leaf.path;
    gradient.dims = leaf.dims;
    gradient.sizes = leaf.sizes;
    while (program.values[gradient.value]->storage != Storage::Leaf) {
      ++gradient.value;
    }
    program.handovers.push_back(std::move(handover));
    damage(program);
  });
}

} // namespace

TEST(PlanFile, UpdatesThatCannotRunAlone) {
  EXPECT_EQ(updateComplaint([](ProgramT &) {}), "");
  struct Case {
    const char *complaint;
    std::function<void(ProgramT &)> damage;
  };
  const Case cases[] = {
      {"begins behind its last", [](ProgramT &p) { p.update = 99; }},
      {"not waited for before the update", [](ProgramT &p) { --p.update; }},
      {"handovers without an update", [](ProgramT &p) { p.update = 0; }},
      {"an update without", [](ProgramT &p) { p.handovers.clear(); }},
      {"that of no parameter",
       [](ProgramT &p) { p.handovers[0]->gradient->name = "none"; }},
      {"that of no parameter",
       [](ProgramT &p) { p.handovers[0]->gradient->dims[0] = "other"; }},
      {"value", [](ProgramT &p) { p.handovers[0]->gradient->value = 9999; }},
      {"where no instruction makes it",
       [](ProgramT &p) { p.handovers[0]->ready = p.update + 1; }},
      {"where no instruction makes it",
       [](ProgramT &p) { p.handovers[0]->loop = 0; }},
      {"where no instruction makes it",
       [](ProgramT &p) { p.handovers[0]->loop = 99; }},
      {"where no instruction makes it",
       [](ProgramT &p) { p.handovers[0]->loop = -2; }},
  };
  for (const Case &each : cases) {
    std::string got = updateComplaint(each.damage);
    EXPECT_NE(got.find(each.complaint), std::string::npos)
        << each.complaint << " / " << got;
  }
}
