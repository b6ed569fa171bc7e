// The form of each statement and declaration, as `help` shows it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cleave {

inline constexpr size_t noRule = ~size_t(0);

// "shard DIM, … [also] on AXIS [else AXIS] [even] [for SELECTION]", or "".
const char *formOf(size_t rule);
// The rule of the statement or declaration that begins with a word (by token
// type), inside a block of the given rule (RuleFile: declarations).
size_t ruleOfHead(size_t tokenType, size_t blockRule);
// The words that begin statements of a block, or declarations.
const std::vector<std::string> &headsOf(size_t blockRule);
// "a model or function", "a plan", "a run", "a file": where a head is at home.
const char *homeOf(const std::string &head);

} // namespace cleave
