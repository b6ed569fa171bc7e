//===- Share.cpp - How replicas share the sending -------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "transfer/Share.h"

#include <algorithm>

namespace cleave::transfer {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Sharer {
public:
  Sharer(const std::vector<Pool> &pools, int64_t devices)
      : pools(pools), load(devices, 0), poolsOf(devices), deviceLevel(devices),
        poolLevel(pools.size()), nextPool(devices), nextDevice(pools.size()) {}

  std::vector<std::vector<int64_t>> run();

private:
  struct Place { ///< of a device in a pool
    size_t pool, index;
  };

  void shareEqually();
  bool findLevels();
  int64_t push(int64_t device, int64_t most);
  void proveHigherLimit();

  const std::vector<Pool> &pools;
  std::vector<std::vector<int64_t>> shares;
  std::vector<int64_t> load; ///< of each device
  std::vector<std::vector<Place>> poolsOf;
  int64_t limit = 0;
  std::vector<int64_t> deviceLevel, poolLevel;
  std::vector<size_t> nextPool, nextDevice;
};

void Sharer::shareEqually() {
  int64_t total = 0, senders = 0;
  size_t turn = 0; // so that not always the first device has the remainder
  for (size_t pool = 0; pool < pools.size(); ++pool) {
    const Pool &from = pools[pool];
    size_t count = from.devices.size();
    int64_t each = from.amount / static_cast<int64_t>(count);
    shares.emplace_back(count, each);
    for (size_t rest = from.amount - each * count; rest > 0; --rest) {
      ++shares[pool][turn++ % count];
    }
    for (size_t i = 0; i < count; ++i) {
      load[from.devices[i]] += shares[pool][i];
      poolsOf[from.devices[i]].push_back({pool, i});
    }
    total += from.amount;
  }
  for (const auto &places : poolsOf) {
    senders += places.empty() ? 0 : 1;
  }
  limit = senders == 0 ? 0 : ceilDiv(total, senders);
}

/// Distances from the devices over the limit: a device can pass to the pools
/// that it has a share of, a pool to all its devices. Whether a device below
/// the limit is in reach.
bool Sharer::findLevels() {
  std::fill(deviceLevel.begin(), deviceLevel.end(), -1);
  std::fill(poolLevel.begin(), poolLevel.end(), -1);
  std::vector<int64_t> queue;
  for (size_t device = 0; device < load.size(); ++device) {
    if (load[device] > limit) {
      deviceLevel[device] = 0;
      queue.push_back(static_cast<int64_t>(device));
    }
  }
  bool found = false;
  for (size_t at = 0; at < queue.size(); ++at) {
    int64_t level = deviceLevel[queue[at]];
    for (Place place : poolsOf[queue[at]]) {
      if (poolLevel[place.pool] >= 0 || shares[place.pool][place.index] == 0) {
        continue;
      }
      poolLevel[place.pool] = level + 1;
      for (int64_t device : pools[place.pool].devices) {
        if (deviceLevel[device] < 0) {
          deviceLevel[device] = level + 2;
          found = found || load[device] < limit;
          queue.push_back(device);
        }
      }
    }
  }
  return found;
}

/// Passes up to `most` of what `device` sends on to devices below the limit,
/// along rising levels. As deep as there are levels, at most twice the number
/// of devices.
int64_t Sharer::push(int64_t device, int64_t most) {
  int64_t passed = 0;
  if (load[device] < limit && deviceLevel[device] > 0) {
    passed = std::min(most, limit - load[device]);
    load[device] += passed;
    return passed;
  }
  for (size_t &i = nextPool[device]; i < poolsOf[device].size(); ++i) {
    Place place = poolsOf[device][i];
    const Pool &pool = pools[place.pool];
    if (poolLevel[place.pool] != deviceLevel[device] + 1) {
      continue;
    }
    int64_t &own = shares[place.pool][place.index];
    for (size_t &j = nextDevice[place.pool]; j < pool.devices.size() && own > 0;
         ++j) {
      int64_t other = pool.devices[j];
      if (deviceLevel[other] != poolLevel[place.pool] + 1) {
        continue;
      }
      int64_t got = push(other, std::min(most - passed, own));
      own -= got;
      shares[place.pool][j] += got;
      passed += got;
      if (passed == most) {
        return passed;
      }
    }
  }
  return passed;
}

/// What the devices in reach send, they alone can send: the pools that they
/// have a share of lead to no other device.
void Sharer::proveHigherLimit() {
  int64_t sum = 0, count = 0;
  for (size_t device = 0; device < load.size(); ++device) {
    if (deviceLevel[device] >= 0) {
      sum += load[device];
      ++count;
    }
  }
  limit = ceilDiv(sum, count);
}

std::vector<std::vector<int64_t>> Sharer::run() {
  shareEqually();
  auto isOver = [&](int64_t amount) { return amount > limit; };
  while (std::any_of(load.begin(), load.end(), isOver)) {
    if (!findLevels()) {
      proveHigherLimit();
      continue;
    }
    std::fill(nextPool.begin(), nextPool.end(), 0);
    std::fill(nextDevice.begin(), nextDevice.end(), 0);
    for (size_t device = 0; device < load.size(); ++device) {
      if (load[device] > limit) {
        load[device] -=
            push(static_cast<int64_t>(device), load[device] - limit);
      }
    }
  }
  return shares;
}

} // namespace

std::vector<std::vector<int64_t>> share(const std::vector<Pool> &pools,
                                        int64_t devices) {
  return Sharer(pools, devices).run();
}

} // namespace cleave::transfer
