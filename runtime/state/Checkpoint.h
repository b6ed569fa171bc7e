//===- Checkpoint.h - The state in a file -----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A checkpoint is a safetensors file of global arrays by path
// (`params/layer/attention/wq`, `optimizer/layer/attention/wq/first`) with the
// metadata `format`, `model`, `step`, `cursor`, `seed` and what the caller
// adds. It loads under any plan of any set that has the same leaves.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_CHECKPOINT_H
#define CLEAVE_RUNTIME_STATE_CHECKPOINT_H

#include "runtime/state/StateCopy.h"

namespace cleave::state {

/// Replaces `path` only when all is written. `extra` must not use the names of
/// the metadata above.
Status saveCheckpoint(const std::string &path, const State &state,
                      const std::string &model, const Metadata &extra = {});

Status saveCheckpoint(const std::string &path, const StateCopy &state,
                      const std::string &model, const Metadata &extra = {});

struct LoadOptions {
  /// Parameters alone: optimizer leaves of the file are ignored and those of
  /// the state keep their values. For sampling.
  bool paramsOnly = false;
};

/// Sets every leaf, the step, the cursor and the seed; gives all metadata.
/// Checks everything first: after an error the state is unchanged.
Result<Metadata> loadCheckpoint(const std::string &path, State &state,
                                const LoadOptions &options = {});

/// Whether a file is whole, whatever model it is of: reads all of it.
Status checkCheckpoint(const std::string &path);

/// The metadata alone.
Result<Metadata> readCheckpointMetadata(const std::string &path);

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_CHECKPOINT_H
