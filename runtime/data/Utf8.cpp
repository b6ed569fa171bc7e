//===- Utf8.cpp - Code points of UTF-8 text -------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Utf8.h"

namespace cleave::data {

int32_t nextCodePoint(const uint8_t *bytes, size_t size, size_t &at) {
  uint8_t first = bytes[at];
  if (first < 0x80) {
    ++at;
    return first;
  }
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || size - at < length) {
    return -1;
  }
  int32_t point = first & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    uint8_t next = bytes[at + i];
    if ((next & 0xc0) != 0x80) {
      return -1;
    }
    point = point << 6 | (next & 0x3f);
  }
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < least[length] || point > 0x10ffff ||
      (point >= 0xd800 && point < 0xe000)) {
    return -1;
  }
  at += length;
  return point;
}

void appendUtf8(std::string &text, uint32_t point) {
  auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xc0 | point >> 6);
    add(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    add(0xe0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3f));
    add(0x80 | (point & 0x3f));
  } else {
    add(0xf0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3f));
    add(0x80 | (point >> 6 & 0x3f));
    add(0x80 | (point & 0x3f));
  }
}

} // namespace cleave::data
