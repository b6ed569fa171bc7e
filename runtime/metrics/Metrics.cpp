//===- Metrics.cpp - Numbers of a run, line by line -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/metrics/Metrics.h"

#include "runtime/support/File.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace cleave::metrics {

std::string lineOf(const Record &record) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const auto &[key, value] : record) {
    std::visit([&, &name = key](const auto &v) { line[name] = v; }, value);
  }
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

Status cutAfter(const std::string &path, int64_t step) {
  if (::access(path.c_str(), F_OK) != 0) {
    return Status();
  }
  Result<std::vector<char>> bytes = readFile(path);
  if (!bytes) {
    return bytes.status();
  }
  std::string kept;
  auto begin = bytes->begin();
  for (auto end = begin;
       (end = std::find(begin, bytes->end(), '\n')) != bytes->end();
       begin = end + 1) {
    nlohmann::json line = nlohmann::json::parse(begin, end, nullptr, false);
    if (!line.is_object()) {
      return Status::error("`" + path + "` has a line that is no metrics");
    }
    int64_t at = line.contains("step") && line["step"].is_number_integer()
                     ? line["step"].get<int64_t>()
                     : 0;
    bool follows = line.contains("event") && line.value("by", "") != byRule;
    if (at < step || (at == step && !follows)) {
      kept.append(begin, end + 1);
    }
  }
  Result<ReplacedFile> file = ReplacedFile::create(path);
  if (!file) {
    return file.status();
  }
  CLEAVE_TRY(file->write(kept.data(), kept.size()));
  return file->commit();
}

Result<MetricsFile> MetricsFile::open(const std::string &path, bool append) {
  MetricsFile file;
  file.path = path;
  file.descriptor = ::open(
      path.c_str(),
      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
  if (file.descriptor < 0) {
    return Status::error("cannot write `" + path +
                         "`: " + std::strerror(errno));
  }
  return file;
}

MetricsFile::MetricsFile(MetricsFile &&other) noexcept
    : path(std::move(other.path)),
      descriptor(std::exchange(other.descriptor, -1)) {}

MetricsFile::~MetricsFile() {
  if (descriptor >= 0) {
    ::close(descriptor);
  }
}

Status MetricsFile::write(const Record &record) {
  std::string line = lineOf(record) + "\n";
  size_t at = 0;
  while (at < line.size()) {
    ssize_t count = ::write(descriptor, line.data() + at, line.size() - at);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return Status::error("cannot write `" + path +
                           "`: " + std::strerror(errno));
    }
    at += static_cast<size_t>(count);
  }
  return Status();
}

} // namespace cleave::metrics
