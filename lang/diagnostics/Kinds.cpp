#include "lang/diagnostics/Diagnostics.h"

#include <algorithm>
#include <cctype>

namespace cleave {

namespace {
const DiagInfo table[] = {
#define CLEAVE_DIAG(code, name, title, explanation)                            \
  {Diag::name, code, #name, title, explanation},
#include "lang/diagnostics/Kinds.def"
};
} // namespace

const DiagInfo &info(Diag kind) { return table[static_cast<size_t>(kind)]; }

const std::vector<DiagInfo> &allDiagnostics() {
  static const std::vector<DiagInfo> sorted = [] {
    std::vector<DiagInfo> all(std::begin(table), std::end(table));
    std::sort(all.begin(), all.end(), [](const DiagInfo &a, const DiagInfo &b) {
      return a.code < b.code;
    });
    return all;
  }();
  return sorted;
}

std::string codeOf(Diag kind) {
  std::string digits = std::to_string(info(kind).code);
  return "CLV" + std::string(4 - digits.size(), '0') + digits;
}

std::optional<Diag> findDiagnostic(std::string_view code) {
  auto upper = [](char c) {
    return std::toupper(static_cast<unsigned char>(c));
  };
  if (code.size() > 3 && upper(code[0]) == 'C' && upper(code[1]) == 'L' &&
      upper(code[2]) == 'V') {
    code.remove_prefix(3);
  }
  if (code.empty() || code.size() > 4) {
    return std::nullopt;
  }
  unsigned number = 0;
  for (char c : code) {
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    number = number * 10 + (c - '0');
  }
  for (const DiagInfo &kind : table) {
    if (kind.code == number) {
      return kind.kind;
    }
  }
  return std::nullopt;
}

} // namespace cleave
