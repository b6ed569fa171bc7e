//===- Utf8.h - Code points of UTF-8 text -----------------------*- C++ -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DATA_UTF8_H
#define CLEAVE_RUNTIME_DATA_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace cleave::data {

/// The code point at `at`, which moves behind it; -1, and `at` unmoved, where
/// the bytes are not UTF-8 (overlong forms, surrogates and what lies beyond
/// U+10FFFF included).
int32_t nextCodePoint(const uint8_t *bytes, size_t size, size_t &at);

void appendUtf8(std::string &text, uint32_t codePoint);

} // namespace cleave::data

#endif // CLEAVE_RUNTIME_DATA_UTF8_H
