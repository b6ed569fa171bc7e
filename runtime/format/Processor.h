//===- Processor.h - What this processor can execute ------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_FORMAT_PROCESSOR_H
#define CLEAVE_RUNTIME_FORMAT_PROCESSOR_H

#include <string>
#include <vector>

namespace cleave::format {

/// The features of `required` (LLVM's names: `avx512f`, `sse4.2`, with or
/// without a leading `+`) that the flags line of `cpuinfo` does not show.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &required,
                const std::string &cpuinfo);

/// Of this machine: /proc/cpuinfo.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &required);

} // namespace cleave::format

#endif // CLEAVE_RUNTIME_FORMAT_PROCESSOR_H
