//===- DataTest.cpp - Corpora, the order of samples, metrics, stopping ----===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Corpus.h"
#include "runtime/data/Order.h"
#include "runtime/data/Utf8.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/support/Stop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

using namespace cleave;
using namespace cleave::data;

namespace {

std::string write(const std::string &name, const std::string &bytes) {
  std::string path = testing::TempDir() + "cleave_data_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

template <typename T>
std::string writeIds(const std::string &name, const std::vector<T> &ids) {
  return write(name, std::string(reinterpret_cast<const char *>(ids.data()),
                                 ids.size() * sizeof(T)));
}

std::string errorOf(const std::string &path,
                    const CorpusOptions &options = {}) {
  Result<Corpus> corpus = Corpus::open(path, options);
  return corpus.ok() ? "" : corpus.message();
}

CorpusOptions allForTraining() {
  CorpusOptions options;
  options.heldOut = 0;
  return options;
}

} // namespace

TEST(Order, EveryEpochIsAPermutation) {
  for (uint64_t samples = 1; samples <= 300; ++samples) {
    Order order(42, samples);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<uint64_t> seen;
      for (uint64_t i = 0; i < samples; ++i) {
        uint64_t sample = order.at(epoch * samples + i);
        ASSERT_LT(sample, samples);
        ASSERT_TRUE(seen.insert(sample).second);
      }
    }
  }
  // A large one: distinct as far as looked at.
  Order order(1, uint64_t(1) << 40);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 10000; ++i) {
    ASSERT_TRUE(seen.insert(order.at(i)).second);
  }
}

TEST(Order, DependsOnSeedAndEpochAlone) {
  Order a(1, 1000), again(1, 1000), b(2, 1000);
  int same = 0, repeated = 0, inPlace = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.at(i), again.at(i));
    same += a.at(i) == b.at(i);
    repeated += a.at(i) == a.at(1000 + i);
    inPlace += a.at(i) == i;
  }
  EXPECT_LT(same, 20);
  EXPECT_LT(repeated, 20);
  EXPECT_LT(inPlace, 20);
  EXPECT_EQ(a.epochOf(999), 0u);
  EXPECT_EQ(a.epochOf(1000), 1u);
}

TEST(Corpus, TextWindows) {
  Result<Corpus> corpus =
      Corpus::open(write("abc.txt", "abcdefghi"), allForTraining());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->tokens(), 9u);
  EXPECT_EQ(corpus->bound(), 9);
  EXPECT_EQ(corpus->vocabulary().text(), "abcdefghi");
  EXPECT_EQ(*corpus->samples(Part::Train, 4, 1), 2u);
  EXPECT_EQ(*corpus->samples(Part::Train, 4, 2), 1u);
  EXPECT_EQ(*corpus->samples(Part::Train, 9, 0), 1u);
  std::vector<int32_t> ids(8), labels(8);
  std::vector<uint64_t> samples = {1, 0};
  ASSERT_TRUE(corpus->read(Part::Train, samples, 4, 0, ids).ok());
  ASSERT_TRUE(corpus->read(Part::Train, samples, 4, 1, labels).ok());
  EXPECT_EQ(corpus->vocabulary().decode(ids), "efghabcd");
  EXPECT_EQ(corpus->vocabulary().decode(labels), "fghibcde");
}

TEST(Corpus, HeldOutTail) {
  CorpusOptions options;
  options.heldOut = 0.25;
  Result<Corpus> corpus =
      Corpus::open(write("tail.txt", "aaaabbbbccccdddd"), options);
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(corpus->tokensOf(Part::Train), 12u);
  EXPECT_EQ(corpus->tokensOf(Part::HeldOut), 4u);
  std::vector<int32_t> ids(4);
  std::vector<uint64_t> first = {0};
  ASSERT_TRUE(corpus->read(Part::HeldOut, first, 4, 0, ids).ok());
  EXPECT_EQ(corpus->vocabulary().decode(ids), "dddd");
}

TEST(Corpus, LongCharacters) {
  std::string text = "zürich → 京都 🙂\n";
  Result<Corpus> corpus =
      Corpus::open(write("long.txt", text), allForTraining());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->tokens(), 14u);
  std::vector<int32_t> ids(14);
  std::vector<uint64_t> first = {0};
  ASSERT_TRUE(corpus->read(Part::Train, first, 14, 0, ids).ok());
  EXPECT_EQ(corpus->vocabulary().decode(ids), text);
  EXPECT_EQ(*corpus->vocabulary().encode(text), ids);
  // Ids are in order of code points.
  EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), ids.back());
  EXPECT_EQ(corpus->vocabulary().encode("zürix").message(),
            "the model never saw `x` (U+0078), at byte 5");
  // The vocabulary of a checkpoint.
  Result<Vocabulary> parsed = Vocabulary::parse(corpus->vocabulary().text());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, corpus->vocabulary());
  EXPECT_FALSE(Vocabulary::parse("ba").ok());
}

TEST(Corpus, VocabularyOfACheckpoint) {
  CorpusOptions options = allForTraining();
  options.vocabulary = *Vocabulary::parse("abcxyz");
  Result<Corpus> corpus = Corpus::open(write("other.txt", "zzba"), options);
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(corpus->bound(), 6);
  std::vector<int32_t> ids(4);
  std::vector<uint64_t> first = {0};
  ASSERT_TRUE(corpus->read(Part::Train, first, 4, 0, ids).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{5, 5, 1, 0}));
  std::string path = write("unknown.txt", "ab\nc\tq");
  EXPECT_EQ(errorOf(path, options),
            "cannot use `" + path +
                "`: it has U+000A at byte 2 (line 1, "
                "column 3), which is not in the checkpoint's vocabulary");
}

TEST(Corpus, TokenFiles) {
  std::vector<uint16_t> narrow = {7, 65535, 0, 3};
  std::vector<int32_t> wide = {7, 70000, 0, 3};
  std::vector<uint64_t> first = {0};
  std::vector<int32_t> ids(4);
  Result<Corpus> corpus =
      Corpus::open(writeIds("a.u16", narrow), allForTraining());
  ASSERT_TRUE(corpus.ok()) << corpus.message();
  EXPECT_EQ(corpus->bound(), 65536);
  ASSERT_TRUE(corpus->read(Part::Train, first, 4, 0, ids).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{7, 65535, 0, 3}));
  std::string path = writeIds("a.i32", wide);
  Result<Corpus> wider = Corpus::open(path, allForTraining());
  ASSERT_TRUE(wider.ok());
  ASSERT_TRUE(wider->read(Part::Train, first, 4, 0, ids).ok());
  EXPECT_EQ(ids, wide);
  EXPECT_TRUE(wider->checkIds(70001).ok());
  EXPECT_EQ(wider->checkIds(70000).message(),
            "`" + path +
                "` has the id 70000 at position 1; the model takes "
                "ids below 70000");
}

TEST(Corpus, BadFiles) {
  std::string missing = testing::TempDir() + "cleave_data_missing";
  EXPECT_EQ(errorOf(missing),
            "cannot open `" + missing + "`: No such file or directory");
  EXPECT_EQ(errorOf(testing::TempDir()),
            "`" + testing::TempDir() + "` is not a regular file");
  std::string path = write("empty.txt", "");
  EXPECT_EQ(errorOf(path), "cannot use `" + path + "`: it is empty");
  path = write("latin.txt", "ab\nc\xfc");
  EXPECT_EQ(
      errorOf(path),
      "cannot use `" + path +
          "`: it is not UTF-8 at byte 4 (line 2, "
          "column 2); give a text in UTF-8, or ids in a file called .u16 or "
          ".i32");
  path = write("cut.i32", "abcdef");
  EXPECT_EQ(errorOf(path), "cannot use `" + path +
                               "`: its size, 6 bytes, is not a multiple of "
                               "4; it is cut short");
  path = writeIds("negative.i32", std::vector<int32_t>{1, 2, -3});
  EXPECT_EQ(errorOf(path),
            "cannot use `" + path + "`: it has the id -3 at position 2");
}

TEST(Corpus, TooShortAndTooManyCharacters) {
  std::string path = write("short.txt", "abcde");
  Result<Corpus> corpus = Corpus::open(path, allForTraining());
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(corpus->samples(Part::Train, 5, 1).message(),
            "`" + path +
                "` is too short: for training it has 5 tokens and "
                "one sample takes 6");
  EXPECT_EQ(corpus->samples(Part::HeldOut, 5, 1).message(),
            "`" + path +
                "` is too short: its held-out tail has 0 tokens and "
                "one sample takes 6");
  EXPECT_EQ(corpus->checkIds(4).message(),
            "`" + path +
                "` has 5 distinct characters and the model takes ids "
                "below 4; give the model a vocabulary of 5");
}

TEST(Corpus, FileThatShrinks) {
  std::string path = write("shrinks.txt", std::string(100000, 'a'));
  Result<Corpus> corpus = Corpus::open(path, allForTraining());
  ASSERT_TRUE(corpus.ok());
  std::filesystem::resize_file(path, 10);
  std::vector<int32_t> ids(8);
  std::vector<uint64_t> late = {9000};
  EXPECT_EQ(corpus->read(Part::Train, late, 8, 0, ids).message(),
            "cannot read `" + path + "`: it was cut short while it was in use");
}

TEST(Utf8, InvalidForms) {
  for (const char *bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3",
        "\xe2\x82", "\xff"}) {
    size_t at = 0;
    EXPECT_EQ(nextCodePoint(reinterpret_cast<const uint8_t *>(bad),
                            std::strlen(bad), at),
              -1)
        << bad;
    EXPECT_EQ(at, 0u);
  }
  for (uint32_t point : {0x24u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u,
                         0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text;
    appendUtf8(text, point);
    size_t at = 0;
    EXPECT_EQ(nextCodePoint(reinterpret_cast<const uint8_t *>(text.data()),
                            text.size(), at),
              static_cast<int32_t>(point));
    EXPECT_EQ(at, text.size());
  }
}

TEST(Metrics, Lines) {
  EXPECT_EQ(metrics::lineOf({{"step", int64_t(3)},
                             {"loss", 2.5},
                             {"plan", std::string("wi\"de")},
                             {"done", false},
                             {"norm", std::nan("")}}),
            "{\"step\":3,\"loss\":2.5,\"plan\":\"wi\\\"de\",\"done\":false,"
            "\"norm\":null}");
  std::string path = write("metrics.jsonl", "old\n");
  for (bool append : {false, true}) {
    Result<metrics::MetricsFile> file =
        metrics::MetricsFile::open(path, append);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write({{"step", int64_t(append)}}).ok());
  }
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "{\"step\":0}\n{\"step\":1}\n");
  Result<metrics::MetricsFile> full =
      metrics::MetricsFile::open("/dev/full", true);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->write({{"step", int64_t(1)}}).message(),
            "cannot write `/dev/full`: No space left on device");
  EXPECT_FALSE(metrics::MetricsFile::open("/nonexistent/m", true).ok());
}

TEST(Stop, FirstSignalAsksOnly) {
  clearStop();
  catchStopSignals();
  EXPECT_FALSE(stopRequested());
  std::raise(SIGINT);
  EXPECT_TRUE(stopRequested());
  clearStop();
  // The second one would end the process.
  EXPECT_EXIT(std::raise(SIGINT), testing::KilledBySignal(SIGINT), "");
}
