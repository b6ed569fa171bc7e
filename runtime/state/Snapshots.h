//===- Snapshots.h - The state every few steps, on disk ---------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder of checkpoints, `step-0000000050.safetensors`. Taking one copies the
// state, which is all that training waits for. A thread of its own then copies
// every device's pieces to the next device (StateCopy.h), so that the snapshot
// outlives any one of them, and writes the file, beside its name, brings it to
// the disk and renames it, so that whatever happens a snapshot under its name
// is whole. Then the oldest go.
//
// One run writes into a folder at a time: it holds a lock on the file `lock` in
// it, which ends with its process.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STATE_SNAPSHOTS_H
#define CLEAVE_RUNTIME_STATE_SNAPSHOTS_H

#include "runtime/state/Checkpoint.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace cleave::state {

/// The snapshots in a folder, the newest first.
Result<std::vector<std::string>> snapshotsIn(const std::string &folder);

/// The newest that is whole. `passedOver` gets a sentence for each newer one
/// that is not. Fails where none is.
Result<std::string> newestSnapshot(const std::string &folder,
                                   std::vector<std::string> &passedOver);

class Snapshots {
public:
  /// Makes the folder if it is not there, and removes what an ended process
  /// left half written. Fails where another process writes into it.
  static Result<std::unique_ptr<Snapshots>> open(const std::string &folder,
                                                 int64_t keep);
  /// Waits until what was taken is written.
  ~Snapshots();

  /// Copies the state; waits for the snapshot before, if that is still being
  /// written.
  void take(const State &state, const std::string &model,
            const Metadata &extra);
  /// Waits until all that was taken is written.
  void finish();
  /// Goes back to the last that was taken, from memory, whether or not its file
  /// could be written; without what device `lost` holds of it (-1: none is
  /// lost). Fails, and leaves the state, where there is none.
  Status restore(State &state, int64_t lost = -1);
  /// The last that was taken, once `finish` returned.
  const StateCopy &held() const { return copy; }
  /// What went wrong with a snapshot since this was asked last. Older snapshots
  /// stay, and the next is tried again.
  Status trouble();

private:
  Snapshots(std::string folder, int64_t keep);
  void work();
  Status write();
  Status prune() const;

  std::string folder;
  int64_t keep;
  int lock = -1;
  std::mutex mutex;
  std::condition_variable changed;
  bool due = false, ending = false; ///< under the mutex, like what follows
  bool isHeld = false;              ///< whether anything is in `copy`
  StateCopy copy;                   ///< the thread's while `due`
  std::string model;
  Metadata extra;
  Status failure;
  std::thread thread; ///< last: it uses the others
};

} // namespace cleave::state

#endif // CLEAVE_RUNTIME_STATE_SNAPSHOTS_H
