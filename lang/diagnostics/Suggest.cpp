#include "lang/diagnostics/Diagnostics.h"

#include <algorithm>

namespace cleave {

unsigned editDistance(std::string_view a, std::string_view b) {
  // Three rows of the table: the row before last serves the swaps.
  std::vector<unsigned> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string>
didYouMean(std::string_view written,
           const std::vector<std::string> &candidates) {
  // A third of the letters may be wrong; a longer word is not worth comparing.
  if (written.empty() || written.size() > 64) {
    return std::nullopt;
  }
  unsigned allowed = std::max<unsigned>(1, written.size() / 3);
  std::optional<std::string> best;
  for (const std::string &candidate : candidates) {
    if (candidate.size() > 64 || candidate == written) {
      continue;
    }
    unsigned distance = editDistance(written, candidate);
    // One edit makes any one-letter name of any other.
    if (distance <= allowed &&
        distance < std::max(written.size(), candidate.size())) {
      best = candidate;
      if (distance == 0) {
        break;
      }
      allowed = distance - 1;
    }
  }
  return best;
}

std::string suggestion(std::string_view written,
                       const std::vector<std::string> &candidates) {
  if (auto best = didYouMean(written, candidates)) {
    return "did you mean `" + *best + "`?";
  }
  if (candidates.empty()) {
    return {};
  }
  constexpr size_t most = 8;
  std::string list = "known here: ";
  for (size_t i = 0; i < candidates.size() && i < most; ++i) {
    list += (i ? ", `" : "`") + candidates[i] + "`";
  }
  if (candidates.size() > most) {
    list += ", …";
  }
  return list;
}

} // namespace cleave
