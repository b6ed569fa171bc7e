//===- Snapshots.cpp - The state every few steps, on disk -----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Snapshots.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cleave::state {

static const std::string prefix = "step-", suffix = ".safetensors";
static constexpr size_t digits = 10;

static std::string nameOfStep(uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llu", static_cast<int>(digits),
                static_cast<unsigned long long>(step));
  return prefix + text + suffix;
}

/// Of a snapshot's name, perhaps with something behind it.
static bool startsAsSnapshot(const std::string &name) {
  size_t end = name.find_first_not_of("0123456789", prefix.size());
  return name.starts_with(prefix) && end != std::string::npos &&
         end >= prefix.size() + digits &&
         name.compare(end, suffix.size(), suffix) == 0;
}

static bool isSnapshot(const std::string &name) {
  return startsAsSnapshot(name) && name.ends_with(suffix) &&
         name.find(suffix) == name.size() - suffix.size();
}

static Result<std::vector<std::string>> namesIn(const std::string &folder) {
  DIR *open = ::opendir(folder.c_str());
  if (!open) {
    return Status::error("cannot read the folder `" + folder +
                         "`: " + std::strerror(errno));
  }
  std::vector<std::string> names;
  while (const dirent *entry = ::readdir(open)) {
    names.push_back(entry->d_name);
  }
  ::closedir(open);
  return names;
}

Result<std::vector<std::string>> snapshotsIn(const std::string &folder) {
  Result<std::vector<std::string>> names = namesIn(folder);
  if (!names) {
    return names.status();
  }
  std::erase_if(*names,
                [](const std::string &name) { return !isSnapshot(name); });
  // Longer numbers are larger ones.
  std::sort(names->begin(), names->end(),
            [](const std::string &a, const std::string &b) {
              return std::pair(a.size(), a) > std::pair(b.size(), b);
            });
  for (std::string &name : *names) {
    name = folder + "/" + name;
  }
  return names;
}

Result<std::string> newestSnapshot(const std::string &folder,
                                   std::vector<std::string> &passedOver) {
  Result<std::vector<std::string>> paths = snapshotsIn(folder);
  if (!paths) {
    return paths.status();
  }
  for (const std::string &path : *paths) {
    Status status = checkCheckpoint(path);
    if (status) {
      return path;
    }
    passedOver.push_back(status.message());
  }
  return Status::error(
      "no snapshot in `" + folder + "` can be resumed" +
      (passedOver.empty() ? ": there is none" : ": " + passedOver.front()));
}

Snapshots::Snapshots(std::string folder, int64_t keep)
    : folder(std::move(folder)), keep(keep), thread([this] { work(); }) {}

Result<std::unique_ptr<Snapshots>> Snapshots::open(const std::string &folder,
                                                   int64_t keep) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return Status::error("cannot make the folder `" + folder +
                         "`: " + std::strerror(errno));
  }
  std::string path = folder + "/lock";
  int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0) {
    return Status::error("cannot write `" + path +
                         "`: " + std::strerror(errno));
  }
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return Status::error("another run writes snapshots into `" + folder + "`");
  }
  std::unique_ptr<Snapshots> result(new Snapshots(folder, keep));
  result->lock = lock;
  Result<std::vector<std::string>> names = namesIn(folder);
  if (!names) {
    return names.status();
  }
  for (const std::string &name : *names) {
    if (startsAsSnapshot(name) && name.find(".part-") != std::string::npos) {
      ::unlink((folder + "/" + name).c_str());
    }
  }
  return result;
}

Snapshots::~Snapshots() {
  {
    std::lock_guard guard(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
  if (lock >= 0) {
    ::close(lock);
  }
}

void Snapshots::take(const State &state, const std::string &newModel,
                     const Metadata &newExtra) {
  finish();
  Status taken = copy.take(state);
  model = newModel;
  extra = newExtra;
  {
    std::lock_guard guard(mutex);
    due = isHeld = taken.ok();
    if (!taken) {
      failure = taken;
    }
  }
  changed.notify_all();
}

void Snapshots::finish() {
  std::unique_lock guard(mutex);
  changed.wait(guard, [this] { return !due; });
}

Status Snapshots::restore(State &state, int64_t lost) {
  finish();
  return isHeld ? copy.restore(state, lost)
                : Status::error("no snapshot is held in memory");
}

Status Snapshots::trouble() {
  std::lock_guard guard(mutex);
  return std::exchange(failure, Status());
}

void Snapshots::work() {
  std::unique_lock guard(mutex);
  while (true) {
    changed.wait(guard, [this] { return due || ending; });
    if (!due) {
      return;
    }
    guard.unlock();
    Status status = write();
    guard.lock();
    if (!status) {
      failure = status;
    }
    due = false;
    changed.notify_all();
  }
}

Status Snapshots::write() {
  copy.spread();
  CLEAVE_TRY(saveCheckpoint(folder + "/" + nameOfStep(copy.step()), copy, model,
                            extra));
  return prune();
}

/// Removes all but the newest. What has a later step is of a run that got
/// further than this one, which resumed before it: it is replaced in its turn.
Status Snapshots::prune() const {
  Result<std::vector<std::string>> paths = snapshotsIn(folder);
  if (!paths) {
    return paths.status();
  }
  auto mine = std::find(paths->begin(), paths->end(),
                        folder + "/" + nameOfStep(copy.step()));
  for (int64_t left = keep; mine != paths->end(); ++mine, --left) {
    if (left <= 0 && ::unlink(mine->c_str()) != 0) {
      return Status::error("cannot remove `" + *mine +
                           "`: " + std::strerror(errno));
    }
  }
  return Status();
}

} // namespace cleave::state
