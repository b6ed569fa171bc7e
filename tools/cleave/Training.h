//===- Training.h - A session with its data ---------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_TRAINING_H
#define CLEAVE_TOOLS_CLEAVE_TRAINING_H

#include "runtime/data/Corpus.h"
#include "runtime/executor/Session.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave::tools {

/// The key of a checkpoint's metadata under which a text's characters stand.
inline constexpr const char *vocabularyKey = "vocabulary";

/// With `plan`, or else `preferred` if the file has it, or else its start.
Result<std::unique_ptr<executor::Session>>
openSession(const std::string &planFile, const std::string &plan,
            const std::string &preferred = "");

/// The batches of one program: windows of a corpus, in its order.
class Batches {
public:
  /// Fails where an input does not come from tokens, the data is too short, or
  /// an id does not fit the model.
  static Result<Batches> create(const format::ProgramT &program,
                                const data::Corpus &corpus, data::Part part);

  uint64_t samples() const { return available; } ///< of the part
  int64_t size() const { return batch; }         ///< samples of a step
  int64_t tokens() const { return batch * length; }
  /// Reads the samples that come as numbers [cursor, cursor + size()); those
  /// of the held-out part come in their own order.
  Status read(uint64_t seed, uint64_t cursor);
  const std::vector<executor::Feed> &feeds() const { return views; }

private:
  const data::Corpus *corpus = nullptr;
  data::Part part = data::Part::Train;
  uint64_t available = 0;
  int64_t batch = 0, length = 0;
  std::vector<std::string> names;
  std::vector<int64_t> shifts;
  std::vector<std::vector<int32_t>> buffers;
  std::vector<executor::Feed> views;
};

} // namespace cleave::tools

#endif // CLEAVE_TOOLS_CLEAVE_TRAINING_H
