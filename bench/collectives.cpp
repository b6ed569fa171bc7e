//===- collectives.cpp - Collectives between threads ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: collectives DEVICES LARGEST_BYTES ROUNDS
//
// Each kind of collective between devices that are threads, from 8 bytes on, as
// nccl-tests measures them: out of place, one after the other, the mean of
// many; a size is that of the larger side on one device. In turns with each,
// what memory copies allow: every device copies, from the next one's memory
// into its own, half of the bytes that the collective reads and writes on it.
// Every element of every result is compared. Prints a line of JSON for each
// kind and size, with the seconds of each round. Fails where an element was
// wrong.
//
//===----------------------------------------------------------------------===//

#include "runtime/transport/ThreadTransport.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;
using namespace cleave::transport;

namespace {

using Boxes = std::function<Box(int64_t device)>;

/// One kind at one size.
struct Case {
  std::string name;
  bool sums = false;
  Boxes source, target; ///< in a space of three dims, the last contiguous
  int64_t bytes = 0;    ///< of the larger side on one device
  double copied = 0;    ///< bytes that a device copies instead
  double busFactor = 1; ///< busbw / algbw
};

std::vector<Case> casesOf(int64_t n, int64_t wanted) {
  constexpr int64_t element = sizeof(float);
  int64_t part = std::max<int64_t>(1, wanted / element / n);
  int64_t bytes = n * part * element;
  double size = static_cast<double>(bytes), devices = static_cast<double>(n);
  double others = (devices - 1) / devices;
  auto box = [=](layout::Piece from, layout::Piece to) {
    return Box{{from, to, {0, part}}};
  };
  layout::Piece every{0, n}, one{0, 1};
  auto only = [](int64_t device) { return layout::Piece{device, device + 1}; };
  Boxes whole = [=](int64_t) { return box(one, every); };
  Boxes own = [=](int64_t device) { return box(one, only(device)); };
  return {{"all_reduce", true, whole, whole, bytes, size, 2 * others},
          {"all_gather", false, own, whole, bytes, size, others},
          {"reduce_scatter", true, whole, own, bytes,
           (size + size / devices) / 2, others},
          {"all_to_all", false,
           [=](int64_t device) { return box(only(device), every); },
           [=](int64_t device) { return box(every, only(device)); }, bytes,
           size, others},
          {"broadcast", false,
           [=](int64_t device) {
             return box(one, device == 0 ? every : layout::Piece{0, 0});
           },
           whole, bytes, size, 1},
          {"sendrecv", false,
           [=](int64_t device) { return box(only(device), every); },
           [=](int64_t device) { return box(only((device + 1) % n), every); },
           bytes, size, 1}};
}

/// Small whole numbers, so that sums are exact: of an element at a position in
/// space, in the part of a sum that a device has.
float valueAt(int64_t device, int64_t a, int64_t b, int64_t c) {
  return static_cast<float>((device * 31 + a * 13 + b * 7 + c) % 61);
}

/// Calls `body(position, a, b, c)` for each element of a box.
template <typename Body> void forEach(const Box &box, Body body) {
  int64_t position = 0;
  for (int64_t a = box.dims[0].begin; a < box.dims[0].end; ++a) {
    for (int64_t b = box.dims[1].begin; b < box.dims[1].end; ++b) {
      for (int64_t c = box.dims[2].begin; c < box.dims[2].end; ++c) {
        body(position++, a, b, c);
      }
    }
  }
}

/// The threads of all devices, and what they need.
class Bench {
public:
  Bench(int64_t devices, const Case &test, int rounds)
      : devices(devices), test(test), rounds(rounds), hub(devices),
        together(devices) {
    size_t elements = static_cast<size_t>(test.bytes) / sizeof(float);
    for (int64_t device = 0; device < devices; ++device) {
      sources.emplace_back(elements);
      targets.emplace_back(elements);
      forEach(test.source(device),
              [&](int64_t at, int64_t a, int64_t b, int64_t c) {
                sources[device][at] = valueAt(test.sums ? device : 0, a, b, c);
              });
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (int64_t device = 0; device < devices; ++device) {
      threads.emplace_back([this, device] { work(device); });
    }
    for (std::thread &thread : threads) {
      thread.join();
    }
  }

  /// Seconds of one, by round.
  std::vector<double> collectives, copies;
  std::atomic<int64_t> wrong{0};

private:
  int64_t devices;
  const Case &test;
  int rounds;
  ThreadHub hub;
  std::barrier<> together;
  std::vector<std::vector<float>> sources, targets; ///< by device

  Description describe() const {
    Description description;
    description.id = 1;
    description.name = test.name;
    for (int64_t device = 0; device < devices; ++device) {
      description.group.push_back(device);
      description.sources.push_back(test.source(device));
      description.targets.push_back(test.target(device));
      description.partial.push_back(test.sums ? device : 0);
    }
    return description;
  }

  /// Seconds of one of `repeats`.
  template <typename Body> double time(int64_t repeats, Body body) {
    using Clock = std::chrono::steady_clock;
    together.arrive_and_wait();
    Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) {
      body();
    }
    together.arrive_and_wait();
    return std::chrono::duration<double>(Clock::now() - begin).count() /
           static_cast<double>(repeats);
  }

  void work(int64_t device) {
    std::unique_ptr<Transport> transport = hub.connect(device);
    Result<Channel> channel = transport->open(describe(), device);
    if (!channel) {
      std::fprintf(stderr, "error: %s\n", channel.message().c_str());
      std::exit(1);
    }
    auto collective = [&] {
      transport->start(*channel, sources[device].data(),
                       targets[device].data());
      (void)transport->wait(*channel); // nobody aborts
    };
    size_t bytes = static_cast<size_t>(test.copied);
    std::vector<char> into(bytes);
    const float *from = sources[(device + 1) % devices].data();
    auto copy = [&] {
      std::memcpy(into.data(), from, bytes);
      asm volatile("" : : "r"(into.data()) : "memory"); // as if it were read
    };
    collective();
    copy();
    check(device);
    constexpr int64_t enough = int64_t(64) << 20, most = 1000;
    int64_t repeats = std::clamp<int64_t>(enough / test.bytes, 2, most);
    for (int round = 0; round < rounds; ++round) {
      double both[] = {time(repeats, collective), time(repeats, copy)};
      if (device == 0) {
        collectives.push_back(both[0]);
        copies.push_back(both[1]);
      }
    }
    check(device);
  }

  /// Counts elements of the target that are not what they should be, and
  /// forgets them.
  void check(int64_t device) {
    int64_t count = 0;
    forEach(test.target(device),
            [&](int64_t at, int64_t a, int64_t b, int64_t c) {
              float expected = 0;
              for (int64_t from = 0; from < (test.sums ? devices : 1); ++from) {
                expected += valueAt(from, a, b, c);
              }
              count += targets[device][at] != expected;
              targets[device][at] = -1;
            });
    wrong += count;
    together.arrive_and_wait(); // others write what was looked at
  }
};

std::string listOf(const std::vector<double> &seconds) {
  std::string text;
  for (double value : seconds) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%.9f", text.empty() ? "" : ", ",
                  value);
    text += number;
  }
  return "[" + text + "]";
}

} // namespace

int main(int count, char **words) {
  int64_t devices = count == 4 ? std::atoll(words[1]) : 0;
  int64_t largest = count == 4 ? std::atoll(words[2]) : 0;
  int rounds = count == 4 ? std::atoi(words[3]) : 0;
  if (devices < 2 || devices > 64 || largest < 8 ||
      largest > int64_t(1) << 30 || rounds < 1) {
    std::fprintf(stderr,
                 "usage: collectives DEVICES LARGEST_BYTES ROUNDS\n"
                 "2 to 64 devices, 8 bytes to 1 GiB, a round at least\n");
    return 2;
  }
  int64_t wrong = 0;
  for (int64_t bytes = 8; bytes <= largest; bytes *= 8) {
    for (const Case &test : casesOf(devices, bytes)) {
      Bench bench(devices, test, rounds);
      bench.run();
      wrong += bench.wrong;
      std::printf(
          "{\"kind\": \"%s\", \"devices\": %lld, \"bytes\": %lld, "
          "\"redop\": \"%s\", \"bus\": %.4f, \"wrong\": %lld, "
          "\"seconds\": %s, \"copies\": %s}\n",
          test.name.c_str(), static_cast<long long>(devices),
          static_cast<long long>(test.bytes), test.sums ? "sum" : "none",
          test.busFactor, static_cast<long long>(bench.wrong.load()),
          listOf(bench.collectives).c_str(), listOf(bench.copies).c_str());
      std::fflush(stdout);
    }
  }
  return wrong ? 1 : 0;
}
