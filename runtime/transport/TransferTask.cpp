//===- TransferTask.cpp - Copies and sums between memories ----------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/TransferTask.h"
#include "runtime/format/Convert.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cleave::transport {

using layout::Reduction;

static constexpr size_t deepest = 32; ///< loops of a task

TransferTask makeTask(const Region &region, const Description &description) {
  TransferTask task;
  task.type = description.type;
  task.reduction = description.reduction;
  auto side = [&](int64_t rank, const Box &box) {
    return TransferTask::Side{rank, offsetOf(region.box, box), stridesOf(box)};
  };
  int64_t ranks = static_cast<int64_t>(description.group.size());
  for (int64_t source : region.sources) {
    task.sources.push_back(
        source < ranks
            ? side(source, description.sources[source])
            : side(source - ranks, description.images[source - ranks]));
  }
  for (int64_t rank : region.targets) {
    task.targets.push_back(side(rank, description.targets[rank]));
  }
  std::vector<TransferTask::Side *> sides;
  for (TransferTask::Side &one : task.sources) {
    sides.push_back(&one);
  }
  for (TransferTask::Side &one : task.targets) {
    sides.push_back(&one);
  }
  for (const layout::Piece &piece : region.box.dims) {
    task.sizes.push_back(piece.size());
  }
  auto erase = [&](size_t dim) {
    task.sizes.erase(task.sizes.begin() + dim);
    for (TransferTask::Side *one : sides) {
      one->strides.erase(one->strides.begin() + dim);
    }
  };
  for (size_t i = task.sizes.size(); i-- > 0;) {
    if (task.sizes[i] == 1) {
      erase(i);
    }
  }
  // From the inside, merge each loop into the one within it.
  for (size_t i = task.sizes.size(); i-- > 1;) {
    bool merges = std::all_of(sides.begin(), sides.end(), [&](auto *one) {
      return one->strides[i - 1] == one->strides[i] * task.sizes[i];
    });
    if (merges) {
      task.sizes[i] *= task.sizes[i - 1];
      erase(i - 1);
    }
  }
  bool contiguous = !task.sizes.empty() &&
                    std::all_of(sides.begin(), sides.end(), [](auto *one) {
                      return one->strides.back() == 1;
                    });
  if (contiguous) {
    task.run = task.sizes.back();
    erase(task.sizes.size() - 1);
  }
  assert(task.sizes.size() <= deepest && "a tensor of too many dims");
  return task;
}

namespace {

/// Combines; a NaN stays a NaN whichever side it is on.
template <typename T> struct Combine {
  static T sum(T a, T b) { return a + b; }
  static T max(T a, T b) { return b > a || b != b ? b : a; }
  static T min(T a, T b) { return b < a || b != b ? b : a; }
};
/// Integers wrap.
template <> int32_t Combine<int32_t>::sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) +
                              static_cast<uint32_t>(b));
}

template <typename T, T (*combine)(T, T)>
void accumulate(T *__restrict into, const T *__restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    into[i] = combine(into[i], from[i]);
  }
}

/// The loops around the innermost; `body(at)` gets the indices.
template <typename Body> void forEachRun(const TransferTask &task, Body body) {
  int64_t at[deepest] = {};
  size_t depth = task.sizes.size();
  while (true) {
    body(at);
    size_t i = depth;
    while (i > 0 && ++at[i - 1] == task.sizes[i - 1]) {
      at[--i] = 0;
    }
    if (i == 0) {
      return;
    }
  }
}

int64_t positionOf(const TransferTask::Side &side, const int64_t *at) {
  int64_t position = side.offset;
  for (size_t i = 0; i < side.strides.size(); ++i) {
    position += at[i] * side.strides[i];
  }
  return position;
}

template <typename T>
void copyRuns(const TransferTask &task, const Tensors *tensors) {
  const TransferTask::Side &from = task.sources.front();
  const T *source = static_cast<const T *>(tensors[from.rank].source);
  forEachRun(task, [&](const int64_t *at) {
    const T *here = source + positionOf(from, at);
    for (const TransferTask::Side &to : task.targets) {
      T *there = static_cast<T *>(tensors[to.rank].target) + positionOf(to, at);
      if (there != here) {
        std::memcpy(there, here, task.run * sizeof(T));
      }
    }
  });
}

/// Where a run of elements goes.
template <typename T> struct Goals {
  static constexpr size_t most = 64;
  T *at[most];
  size_t count = 0;
};

template <typename T>
Goals<T> goalsOf(const TransferTask &task, const Tensors *tensors,
                 const int64_t *at) {
  Goals<T> goals;
  for (const TransferTask::Side &to : task.targets) {
    goals.at[goals.count++] =
        static_cast<T *>(tensors[to.rank].target) + positionOf(to, at);
  }
  return goals;
}

constexpr int64_t lineBytes = 64;

/// Elements before the first whole line of all goals; -1 where their lines
/// begin at different ones.
template <typename T> int64_t elementsToLine(const Goals<T> &goals) {
  auto offset = [](const T *at) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) % lineBytes);
  };
  for (size_t i = 1; i < goals.count; ++i) {
    if (offset(goals.at[i]) != offset(goals.at[0])) {
      return -1;
    }
  }
  return (lineBytes - offset(goals.at[0])) % lineBytes / int64_t(sizeof(T));
}

/// Combines two sources of whole lines and writes past the caches, which spares
/// memory the reading of lines that are then overwritten.
template <typename T, T (*combine)(T, T)>
void streamCombined(const T *a, const T *b, const Goals<T> &goals,
                    int64_t begin, int64_t count) {
  constexpr int64_t line = lineBytes / sizeof(T), ahead = 16 * line;
  for (int64_t i = 0; i < count; i += line) {
    __builtin_prefetch(a + i + ahead);
    __builtin_prefetch(b + i + ahead);
    alignas(lineBytes) T sum[line];
    for (int64_t j = 0; j < line; ++j) {
      sum[j] = combine(a[i + j], b[i + j]);
    }
    for (size_t goal = 0; goal < goals.count; ++goal) {
      T *to = goals.at[goal] + begin + i;
#if defined(__SSE2__)
      for (int64_t j = 0; j < line; j += 16 / int64_t(sizeof(T))) {
        _mm_stream_si128(reinterpret_cast<__m128i *>(to + j),
                         *reinterpret_cast<const __m128i *>(sum + j));
      }
#else
      std::memcpy(to, sum, sizeof(sum));
#endif
    }
  }
}

/// The fence after stores that went past the caches.
void endStream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// All terms of a run are added up in the first cache, block by block; the last
/// term is added on the way out.
template <typename T, T (*combine)(T, T)> class Reducer {
public:
  Reducer(const TransferTask &task, const Tensors *tensors)
      : task(task), tensors(tensors),
        streams(task.streams && task.targets.size() <= Goals<T>::most) {}

  void run() {
    forEachRun(task, [&](const int64_t *at) {
      Goals<T> goals;
      int64_t head = -1;
      if (streams) {
        goals = goalsOf<T>(task, tensors, at);
        head = elementsToLine(goals);
      }
      int64_t begin = head < 0 ? 0 : std::min(head, task.run);
      plain(at, 0, begin);
      while (begin < task.run) {
        int64_t count = std::min(block, task.run - begin);
        int64_t whole = head < 0 ? 0 : count - count % (lineBytes / sizeof(T));
        if (whole > 0) {
          streamCombined<T, combine>(allButLast(at, begin, whole),
                                     sourceAt(task.sources.back(), at, begin),
                                     goals, begin, whole);
        }
        plain(at, begin + whole, count - whole);
        begin += count;
      }
    });
    if (streams) {
      endStream();
    }
  }

private:
  static constexpr int64_t block = 16 * 1024 / sizeof(T);
  const TransferTask &task;
  const Tensors *tensors;
  bool streams;
  alignas(64) T sum[block]; ///< stays in the first cache

  const T *sourceAt(const TransferTask::Side &from, const int64_t *at,
                    int64_t begin) const {
    return static_cast<const T *>(tensors[from.rank].source) +
           positionOf(from, at) + begin;
  }

  /// The sum of the terms but the last.
  const T *allButLast(const int64_t *at, int64_t begin, int64_t count) {
    const T *first = sourceAt(task.sources.front(), at, begin);
    if (task.sources.size() == 2) {
      return first;
    }
    std::memcpy(sum, first, count * sizeof(T));
    for (size_t i = 1; i + 1 < task.sources.size(); ++i) {
      accumulate<T, combine>(sum, sourceAt(task.sources[i], at, begin), count);
    }
    return sum;
  }

  void plain(const int64_t *at, int64_t begin, int64_t count) {
    if (count == 0) {
      return;
    }
    const T *others = allButLast(at, begin, count);
    if (others != sum) {
      std::memcpy(sum, others, count * sizeof(T));
    }
    accumulate<T, combine>(sum, sourceAt(task.sources.back(), at, begin),
                           count);
    for (const TransferTask::Side &to : task.targets) {
      T *target = static_cast<T *>(tensors[to.rank].target) +
                  positionOf(to, at) + begin;
      std::memcpy(target, sum, count * sizeof(T));
    }
  }
};

template <typename T>
void reduceRuns(const TransferTask &task, const Tensors *tensors) {
  switch (task.reduction) {
  case Reduction::Sum:
    return Reducer<T, Combine<T>::sum>(task, tensors).run();
  case Reduction::Max:
    return Reducer<T, Combine<T>::max>(task, tensors).run();
  case Reduction::Min:
    return Reducer<T, Combine<T>::min>(task, tensors).run();
  }
}

#if defined(__SSE2__)
/// memcpy with stores that go past the caches. What follows the run is asked
/// for while it is copied: runs of a strided box are too short for the
/// processor to see it coming.
void streamRun(char *to, const char *from, size_t bytes, const char *next) {
  constexpr size_t line = 64;
  size_t head = (line - reinterpret_cast<uintptr_t>(to) % line) % line;
  head = std::min(head, bytes);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  constexpr size_t ahead = 16 * line;
  for (; bytes >= line; to += line, from += line, bytes -= line) {
    const char *soon = bytes > ahead ? from + ahead : next + (ahead - bytes);
    _mm_prefetch(soon, _MM_HINT_T0);
    const auto *in = reinterpret_cast<const __m128i *>(from);
    auto *out = reinterpret_cast<__m128i *>(to);
    __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1),
            c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(to, from, bytes);
}
#endif

} // namespace

void streamTask(const TransferTask &task, const Tensors *tensors) {
#if defined(__SSE2__)
  const TransferTask::Side &from = task.sources.front();
  size_t element = format::elementSize(task.type);
  constexpr size_t shortest = 256; // bytes of a run that are worth it
  if (task.run * element >= shortest) {
    const char *source = static_cast<const char *>(tensors[from.rank].source);
    int64_t step = from.strides.empty() ? 0 : from.strides.back();
    forEachRun(task, [&](const int64_t *at) {
      const char *here = source + positionOf(from, at) * element;
      for (const TransferTask::Side &to : task.targets) {
        streamRun(static_cast<char *>(tensors[to.rank].target) +
                      positionOf(to, at) * element,
                  here, task.run * element, here + step * element);
      }
    });
    _mm_sfence();
    return;
  }
#endif
  runTask(task, tensors);
}

void runTask(const TransferTask &task, const Tensors *tensors) {
  if (task.sources.size() == 1) {
    switch (format::elementSize(task.type)) {
    case 1:
      return copyRuns<uint8_t>(task, tensors);
    case 2:
      return copyRuns<uint16_t>(task, tensors);
    default:
      return copyRuns<uint32_t>(task, tensors);
    }
  }
  assert((task.type == format::ElementType::F32 ||
          task.type == format::ElementType::I32) &&
         "a sum of what is not added");
  if (task.type == format::ElementType::F32) {
    reduceRuns<float>(task, tensors);
  } else {
    reduceRuns<int32_t>(task, tensors);
  }
}

} // namespace cleave::transport
