//===- Corpus.cpp - What a model is trained on ----------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Corpus.h"
#include "runtime/data/Utf8.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cleave::data {

Vocabulary::Vocabulary(std::vector<uint32_t> codePoints)
    : points(std::move(codePoints)) {
  for (size_t i = 0; i < points.size(); ++i) {
    ids[points[i]] = static_cast<int32_t>(i);
  }
}

Result<Vocabulary> Vocabulary::parse(const std::string &text) {
  std::vector<uint32_t> points;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(text.data());
  for (size_t at = 0; at < text.size();) {
    int32_t point = nextCodePoint(bytes, text.size(), at);
    if (point < 0) {
      return Status::error("the vocabulary is not UTF-8");
    }
    if (!points.empty() && static_cast<uint32_t>(point) <= points.back()) {
      return Status::error("the vocabulary is not in order of code points");
    }
    points.push_back(static_cast<uint32_t>(point));
  }
  return Vocabulary(std::move(points));
}

std::string Vocabulary::text() const {
  std::string text;
  for (uint32_t point : points) {
    appendUtf8(text, point);
  }
  return text;
}

int32_t Vocabulary::idOf(uint32_t codePoint) const {
  auto found = ids.find(codePoint);
  return found == ids.end() ? -1 : found->second;
}

static std::string nameOf(uint32_t codePoint) {
  char code[16];
  std::snprintf(code, sizeof(code), "U+%04X", codePoint);
  std::string text;
  if (codePoint > 0x20 && codePoint != 0x7f) {
    text = "`";
    appendUtf8(text, codePoint);
    text += "` (";
    return text + code + ")";
  }
  return code;
}

Result<std::vector<int32_t>> Vocabulary::encode(const std::string &text) const {
  std::vector<int32_t> result;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(text.data());
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    int32_t point = nextCodePoint(bytes, text.size(), at);
    if (point < 0) {
      return Status::error("the text is not UTF-8 at byte " +
                           std::to_string(begin));
    }
    int32_t id = idOf(static_cast<uint32_t>(point));
    if (id < 0) {
      return Status::error("the model never saw " +
                           nameOf(static_cast<uint32_t>(point)) + ", at byte " +
                           std::to_string(begin));
    }
    result.push_back(id);
  }
  return result;
}

std::string Vocabulary::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t id : tokens) {
    bool known = id >= 0 && static_cast<size_t>(id) < points.size();
    appendUtf8(text, known ? points[id] : 0xfffd);
  }
  return text;
}

/// The line and column of a byte, for messages.
static std::string placeOf(const uint8_t *bytes, size_t at) {
  size_t line = 1 + std::count(bytes, bytes + at, '\n');
  size_t start = at;
  while (start > 0 && bytes[start - 1] != '\n') {
    --start;
  }
  return "byte " + std::to_string(at) + " (line " + std::to_string(line) +
         ", column " + std::to_string(at - start + 1) + ")";
}

Status Corpus::readText(const CorpusOptions &options) {
  std::vector<bool> seen(0x110000);
  bool ascii = true;
  uint64_t characterCount = 0;
  for (size_t at = 0; at < file.size(); ++characterCount) {
    size_t begin = at;
    int32_t point = nextCodePoint(file.data(), file.size(), at);
    if (point < 0) {
      return Status::error(
          "it is not UTF-8 at " + placeOf(file.data(), begin) +
          "; give a text in UTF-8, or ids in a file called .u16 or .i32");
    }
    ascii &= point < 0x80;
    if (!seen[point] && !options.vocabulary.empty() &&
        options.vocabulary.idOf(static_cast<uint32_t>(point)) < 0) {
      return Status::error("it has " + nameOf(static_cast<uint32_t>(point)) +
                           " at " + placeOf(file.data(), begin) +
                           ", which is not in the checkpoint's vocabulary");
    }
    seen[point] = true;
  }
  characters = options.vocabulary;
  if (characters.empty()) {
    std::vector<uint32_t> points;
    for (uint32_t point = 0; point < seen.size(); ++point) {
      if (seen[point]) {
        points.push_back(point);
      }
    }
    characters = Vocabulary(std::move(points));
  }
  if (characters.size() > 65536) {
    return Status::error("it has more than 65536 distinct characters");
  }
  count = characterCount;
  idBound = static_cast<int64_t>(characters.size());
  if (ascii) {
    encoding = Encoding::Ascii;
    asciiIds.resize(256, 0);
    for (uint32_t byte = 0; byte < 128; ++byte) {
      asciiIds[byte] = std::max(0, characters.idOf(byte));
    }
    return Status();
  }
  encoding = Encoding::Decoded;
  decoded.reserve(count);
  std::vector<uint16_t> table(seen.size());
  for (uint32_t point = 0; point < seen.size(); ++point) {
    table[point] =
        static_cast<uint16_t>(seen[point] ? characters.idOf(point) : 0);
  }
  for (size_t at = 0; at < file.size();) {
    int32_t point = nextCodePoint(file.data(), file.size(), at);
    decoded.push_back(
        static_cast<uint16_t>(characters.idOf(static_cast<uint32_t>(point))));
  }
  return Status();
}

Status Corpus::readIds(bool wide) {
  size_t size = wide ? sizeof(int32_t) : sizeof(uint16_t);
  encoding = wide ? Encoding::I32 : Encoding::U16;
  if (file.size() % size != 0) {
    return Status::error("its size, " + std::to_string(file.size()) +
                         " bytes, is not a multiple of " +
                         std::to_string(size) + "; it is cut short");
  }
  count = file.size() / size;
  for (uint64_t i = 0; i < count; ++i) {
    int32_t id = tokenAt(i);
    if (id < 0) {
      return Status::error("it has the id " + std::to_string(id) +
                           " at position " + std::to_string(i));
    }
    idBound = std::max<int64_t>(idBound, int64_t(id) + 1);
  }
  return Status();
}

Result<Corpus> Corpus::open(const std::string &path,
                            const CorpusOptions &options) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.status();
  }
  std::string context = "cannot use `" + path + "`";
  Corpus corpus(std::move(*mapped));
  corpus.path = path;
  if (corpus.file.size() == 0) {
    return Status::error("it is empty").in(context);
  }
  if (!(options.heldOut >= 0 && options.heldOut < 1)) {
    return Status::error("the held-out share must be at least 0 and below 1");
  }
  bool narrow = path.ends_with(".u16"), wide = path.ends_with(".i32");
  CLEAVE_TRY((narrow || wide ? corpus.readIds(wide) : corpus.readText(options))
                 .in(context));
  uint64_t held = static_cast<uint64_t>(static_cast<double>(corpus.count) *
                                        options.heldOut);
  corpus.trainCount = corpus.count - held;
  return corpus;
}

int32_t Corpus::tokenAt(uint64_t position) const {
  switch (encoding) {
  case Encoding::Ascii:
    return asciiIds[file.data()[position]];
  case Encoding::Decoded:
    return decoded[position];
  case Encoding::U16: {
    uint16_t id;
    std::memcpy(&id, file.data() + position * sizeof(id), sizeof(id));
    return id;
  }
  case Encoding::I32: {
    int32_t id;
    std::memcpy(&id, file.data() + position * sizeof(id), sizeof(id));
    return id;
  }
  }
  return 0;
}

uint64_t Corpus::tokensOf(Part part) const {
  return part == Part::Train ? trainCount : count - trainCount;
}

Status Corpus::checkIds(int64_t bound) const {
  if (idBound <= bound) {
    return Status();
  }
  if (!characters.empty()) {
    return Status::error("`" + path + "` has " + std::to_string(idBound) +
                         " distinct characters and the model takes ids below " +
                         std::to_string(bound) +
                         "; give the model a vocabulary of " +
                         std::to_string(idBound));
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (tokenAt(i) >= bound) {
      return Status::error("`" + path + "` has the id " +
                           std::to_string(tokenAt(i)) + " at position " +
                           std::to_string(i) + "; the model takes ids below " +
                           std::to_string(bound));
    }
  }
  return Status();
}

std::string Corpus::fingerprint() const {
  constexpr uint64_t block = uint64_t(1) << 20, blocks = 64;
  uint64_t size = file.size();
  XXH64_state_t state;
  XXH64_reset(&state, size);
  if (size <= block * blocks) {
    XXH64_update(&state, file.data(), size);
  } else {
    for (uint64_t i = 0; i < blocks; ++i) {
      // The first begins with the file, the last ends with it.
      uint64_t at = (size - block) / (blocks - 1) * i;
      XXH64_update(&state, file.data() + (i + 1 == blocks ? size - block : at),
                   block);
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH64_digest(&state)));
  return text;
}

Result<uint64_t> Corpus::samples(Part part, int64_t seq, int64_t shift) const {
  uint64_t available = tokensOf(part);
  uint64_t needed = static_cast<uint64_t>(seq) + static_cast<uint64_t>(shift);
  if (available < needed) {
    return Status::error("`" + path + "` is too short: " +
                         (part == Part::Train ? "for training it has "
                                              : "its held-out tail has ") +
                         std::to_string(available) +
                         " tokens and one sample takes " +
                         std::to_string(needed));
  }
  return (available - static_cast<uint64_t>(shift)) /
         static_cast<uint64_t>(seq);
}

Status Corpus::read(Part part, std::span<const uint64_t> samples, int64_t seq,
                    int64_t shift, std::span<int32_t> into) const {
  assert(into.size() == samples.size() * static_cast<size_t>(seq));
  // Reading behind the end of a mapped file that shrank would be a signal.
  CLEAVE_TRY(file.checkSize().in("cannot read `" + path + "`"));
  uint64_t base = part == Part::Train ? 0 : trainCount;
  size_t at = 0;
  for (uint64_t sample : samples) {
    uint64_t begin = base + sample * static_cast<uint64_t>(seq) +
                     static_cast<uint64_t>(shift);
    assert(begin + static_cast<uint64_t>(seq) <= base + tokensOf(part));
    for (int64_t i = 0; i < seq; ++i) {
      into[at++] = tokenAt(begin + static_cast<uint64_t>(i));
    }
  }
  return Status();
}

} // namespace cleave::data
