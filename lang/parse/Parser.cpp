#include "lang/parse/Parser.h"

#include "CleaveParser.h"
#include "lang/parse/Build.h"
#include "lang/parse/Errors.h"
#include "lang/parse/Tokens.h"

#include <algorithm>

namespace cleave {

namespace {

constexpr size_t largestFile = size_t(16) << 20;

// The offset of the first byte that is not UTF-8, or npos.
size_t findInvalidUtf8(const std::string &text) {
  for (size_t i = 0; i < text.size();) {
    unsigned char lead = text[i];
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xC2 && lead < 0xE0 ? 2
                    : lead >> 4 == 14             ? 3
                    : lead >= 0xF0 && lead < 0xF5 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) {
      return i;
    }
    uint32_t point = length == 1 ? lead : lead & (0xFF >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      if ((text[i + k] & 0xC0) != 0x80) {
        return i;
      }
      point = point << 6 | (text[i + k] & 0x3F);
    }
    bool overlong =
        (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    if (overlong || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) {
      return i;
    }
    i += length;
  }
  return std::string::npos;
}

// Refuses what no lexer should see.
bool checkText(const SourceManager &sources, FileId file,
               DiagnosticEngine &diags) {
  const std::string &text = sources.file(file).text;
  if (text.size() > largestFile) {
    diags
        .error(Diag::FileTooLarge, {file, 0, 0},
               "the file has " + std::to_string(text.size()) +
                   " bytes; sources may have " + std::to_string(largestFile))
        .help("is it a source file?");
    return false;
  }
  size_t bad = findInvalidUtf8(text);
  if (bad != std::string::npos) {
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = text[bad];
    uint32_t at = bad;
    auto error = diags.error(Diag::InvalidUtf8, {file, at, at + 1},
                             std::string("the file is not UTF-8: byte 0x") +
                                 digits[byte >> 4] + digits[byte & 15] +
                                 " at offset " + std::to_string(bad));
    bool utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
    error.help(utf16 ? "it looks like UTF-16; save it as UTF-8"
                     : "save it as UTF-8, or check that it is a source file");
    return false;
  }
  return true;
}

// Does the file hold anything but blanks and comments?
bool checkNotEmpty(const TokenList &list, FileId file, bool hadErrors,
                   DiagnosticEngine &diags) {
  bool empty = std::all_of(
      list.tokens.begin(), list.tokens.end(), [](const auto &token) {
        return token->getType() == antlr::CleaveParser::END;
      });
  if (empty && !hadErrors) {
    diags.error(Diag::EmptyFile, {file, 0, 0}, "the file has no declarations")
        .help("a source declares a model, a function, a plan, …");
  }
  return !empty;
}

std::unique_ptr<ast::File> parse(const SourceManager &sources, FileId file,
                                 DiagnosticEngine &diags) {
  size_t before = diags.errorCount(), first = diags.all().size();
  if (!checkText(sources, file, diags)) {
    return nullptr;
  }
  TokenList list = readTokens(sources, file, diags);
  if (list.tooDeep ||
      !checkNotEmpty(list, file, diags.errorCount() != before, diags)) {
    return nullptr;
  }
  antlr4::ListTokenSource source(std::move(list.tokens));
  antlr4::CommonTokenStream stream(&source);
  stream.fill();
  antlr::CleaveParser parser(&stream);
  parser.removeErrorListeners();
  std::vector<uint32_t> tokenErrors;
  for (size_t i = first; i < diags.all().size(); ++i) {
    tokenErrors.push_back(diags.all()[i].range.begin);
  }
  parser.setErrorHandler(
      std::make_shared<Recovery>(sources, file, diags, std::move(tokenErrors)));
  antlr::CleaveParser::FileContext *tree = parser.file();
  diags.sortFrom(first);
  if (diags.errorCount() != before) {
    return nullptr;
  }
  auto result = Builder(sources, file, diags).buildFile(tree);
  return diags.errorCount() == before ? std::move(result) : nullptr;
}

} // namespace

std::unique_ptr<ast::File> parseFile(const SourceManager &sources, FileId file,
                                     DiagnosticEngine &diags) {
  try {
    return parse(sources, file, diags);
  } catch (const std::exception &e) {
    // Ours or ANTLR's mistake, but no reason to end the process.
    diags
        .error(Diag::SyntaxError, {file, 0, 0},
               std::string("the parser failed: ") + e.what())
        .help("please report this together with the file");
    return nullptr;
  }
}

} // namespace cleave
