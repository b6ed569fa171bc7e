//===- Corpus.h - What a model is trained on --------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A corpus is a sequence of token ids: a text file in UTF-8, whose characters
// are numbered in order of code point, or a file of ids (`.u16`, `.i32`, little
// endian). It is mapped, not read. Its tail is held out for evaluation.
//
// Sample i of a part is the window of `seq` tokens that starts at i * seq; an
// input that is shifted by s reads the same window s tokens further on:
//
//   tokens  a b c d e f g h i     seq 4, shifts 0 and 1: two samples
//   ids     [a b c d][e f g h]
//   labels    [b c d e][f g h i]
//
// Training sees the samples of each epoch in the order of Order.h.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DATA_CORPUS_H
#define CLEAVE_RUNTIME_DATA_CORPUS_H

#include "runtime/support/File.h"
#include "runtime/support/Status.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace cleave::data {

/// The characters of a text model, in order of id.
class Vocabulary {
public:
  Vocabulary() = default;
  explicit Vocabulary(std::vector<uint32_t> codePoints);
  /// From the text that `text` gives, as checkpoints store it.
  static Result<Vocabulary> parse(const std::string &text);

  size_t size() const { return points.size(); }
  bool empty() const { return points.empty(); }
  /// All characters in order, for the metadata of checkpoints.
  std::string text() const;
  int32_t idOf(uint32_t codePoint) const; ///< -1 where it has none
  /// Fails with the position of a character that it lacks.
  Result<std::vector<int32_t>> encode(const std::string &text) const;
  /// An id out of range becomes U+FFFD.
  std::string decode(std::span<const int32_t> ids) const;
  bool operator==(const Vocabulary &other) const {
    return points == other.points;
  }

private:
  std::vector<uint32_t> points;
  std::map<uint32_t, int32_t> ids;
};

enum class Part { Train, HeldOut };

struct CorpusOptions {
  double heldOut = 0.1; ///< the share of the tokens at the end
  /// Of a text: the ids to use, from a checkpoint; empty: the text's own.
  Vocabulary vocabulary;
};

class Corpus {
public:
  static Result<Corpus> open(const std::string &path,
                             const CorpusOptions &options = {});

  /// Of a text; empty for a file of ids.
  const Vocabulary &vocabulary() const { return characters; }
  uint64_t tokens() const { return count; }
  uint64_t tokensOf(Part part) const;
  /// Ids are below it: of a text the vocabulary's size, else one more than the
  /// largest.
  int64_t bound() const { return idBound; }
  /// Fails, with the position of the first one, where an id is not in
  /// [0, bound).
  Status checkIds(int64_t bound) const;

  /// Tells other data: 16 hexadecimal digits of XXH64 over the file's size and
  /// its bytes, or over 64 blocks of a MiB spread over it where it is larger.
  std::string fingerprint() const;

  /// How many samples a part has for windows of `seq` that are shifted by at
  /// most `shift`; fails, saying what is needed, where it has none.
  Result<uint64_t> samples(Part part, int64_t seq, int64_t shift) const;

  /// Windows of a part's samples, one after another.
  Status read(Part part, std::span<const uint64_t> samples, int64_t seq,
              int64_t shift, std::span<int32_t> into) const;

private:
  enum class Encoding { Ascii, Decoded, U16, I32 };
  explicit Corpus(MappedFile file) : file(std::move(file)) {}

  std::string path;
  MappedFile file;
  Encoding encoding = Encoding::Ascii;
  uint64_t count = 0;
  uint64_t trainCount = 0;
  int64_t idBound = 0;
  Vocabulary characters;
  std::vector<int32_t> asciiIds; ///< by byte
  std::vector<uint16_t> decoded; ///< of a text with longer characters

  Status readText(const CorpusOptions &options);
  Status readIds(bool wide);
  int32_t tokenAt(uint64_t position) const;
};

} // namespace cleave::data

#endif // CLEAVE_RUNTIME_DATA_CORPUS_H
