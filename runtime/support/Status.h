//===- Status.h - Errors as values ------------------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the world did wrong, as a value: one sentence that names the place and,
// where there is one, the cure; lower case start, no full stop. Our own bugs
// are assertions, never a Status.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SUPPORT_STATUS_H
#define CLEAVE_RUNTIME_SUPPORT_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace cleave {

enum class ErrorKind {
  Input,     ///< a file, argument or value is wrong (exit code 1)
  Peer,      ///< a device or peer was lost or failed (exit code 3)
  Cancelled, ///< stopped on request
};

/// Success, or an error with its message.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(std::string message, ErrorKind kind = ErrorKind::Input) {
    Status status;
    status.failure = {std::move(message), kind};
    return status;
  }

  bool ok() const { return !failure; }
  explicit operator bool() const { return ok(); }
  const std::string &message() const {
    assert(failure);
    return failure->first;
  }
  ErrorKind kind() const {
    assert(failure);
    return failure->second;
  }
  /// The same error, with `context` in front of its sentence.
  Status in(const std::string &context) const {
    return ok() ? Status() : error(context + ": " + message(), kind());
  }

private:
  std::optional<std::pair<std::string, ErrorKind>> failure;
};

/// A value, or the error that prevented it.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Status failure) : failure(std::move(failure)) {
    assert(!this->failure.ok() && "success without a value");
  }

  bool ok() const { return value.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() {
    assert(value);
    return *value;
  }
  const T &operator*() const {
    assert(value);
    return *value;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }
  const Status &status() const { return failure; }
  const std::string &message() const { return failure.message(); }

private:
  std::optional<T> value;
  Status failure;
};

/// Returns from the enclosing function when `expression` is an error.
#define CLEAVE_TRY(expression)                                                 \
  do {                                                                         \
    if (::cleave::Status cleaveStatus = (expression); !cleaveStatus.ok()) {    \
      return cleaveStatus;                                                     \
    }                                                                          \
  } while (false)

} // namespace cleave

#endif // CLEAVE_RUNTIME_SUPPORT_STATUS_H
