//===- Processor.cpp - What this processor can execute --------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/format/Processor.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace cleave::format {

/// The kernel's name of a feature of LLVM's, where dropping dots, dashes and
/// underscores does not make them equal.
static std::string kernelName(const std::string &feature) {
  static const std::pair<const char *, const char *> names[] = {
      {"sse3", "pni"},         {"lzcnt", "abm"},
      {"pclmul", "pclmulqdq"}, {"rdrnd", "rdrand"},
      {"sha", "shani"},        {"crc32", "sse42"},
      {"sahf", "lahflm"},      {"prfchw", "3dnowprefetch"},
      {"bmi", "bmi1"},         {"evex512", "avx512f"},
      {"pku", "ospke"},        {"x87", "fpu"},
      {"64bit", "lm"},         {"shstk", "usershstk"}};
  for (auto [llvm, kernel] : names) {
    if (feature == llvm) {
      return kernel;
    }
  }
  return feature;
}

static std::string plain(const std::string &name) {
  std::string text;
  for (char c : name) {
    if (c != '.' && c != '-' && c != '_' && c != '+') {
      text += c;
    }
  }
  return text;
}

std::vector<std::string>
missingFeatures(const std::vector<std::string> &required,
                const std::string &cpuinfo) {
  std::set<std::string> flags;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("flags") || line.starts_with("Features")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;) {
        flags.insert(plain(word));
      }
      break; // the first processor stands for all
    }
  }
  std::vector<std::string> missing;
  for (const std::string &feature : required) {
    if (feature.starts_with("-")) {
      continue; // says what the kernels do not use
    }
    if (!flags.contains(plain(kernelName(plain(feature))))) {
      missing.push_back(feature);
    }
  }
  return missing;
}

std::vector<std::string>
missingFeatures(const std::vector<std::string> &required) {
  std::ifstream file("/proc/cpuinfo");
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  return missingFeatures(required, text);
}

} // namespace cleave::format
