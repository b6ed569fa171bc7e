#include "lang/parse/Lex.h"

#include "CleaveLexer.h"
#include "CleaveParser.h"
#include "lang/ast/Units.h"
#include "lang/parse/Tokens.h"

#include <algorithm>

namespace cleave {

using P = antlr::CleaveParser;

namespace {

bool isLineEnd(size_t type) {
  return type == P::NEWLINE || type == P::SEMICOLON;
}

class Reader {
public:
  Reader(const SourceManager &sources, FileId file, DiagnosticEngine &diags)
      : text(sources.file(file).text), file(file), diags(diags) {}

  std::vector<Raw> read();

private:
  SourceRange range(uint32_t begin, uint32_t end) const {
    return {file, begin, end};
  }
  std::string written(uint32_t begin, uint32_t end) const {
    return text.substr(begin, end - begin);
  }
  void reportBad(uint32_t begin, uint32_t end);
  uint32_t skipForeign(const Raw &bad);
  void checkEscapes(const Raw &string);
  void checkNumbers();
  void joinUnits();

  const std::string &text;
  FileId file;
  DiagnosticEngine &diags;
  std::vector<Raw> raw;
};

std::vector<Raw> Reader::read() {
  // Bytes outside ASCII stand in strings and comments only. The lexer sees one
  // placeholder for each, so that its indices are offsets of bytes.
  std::string ascii = text;
  if (ascii.starts_with("\xEF\xBB\xBF")) {
    std::fill_n(ascii.begin(), 3, ' ');
  }
  std::replace_if(
      ascii.begin(), ascii.end(),
      [](char c) { return static_cast<unsigned char>(c) >= 0x80 || c == 0; },
      '\x7F');
  antlr4::ANTLRInputStream stream(ascii);
  antlr::CleaveLexer lexer(&stream);
  lexer.removeErrorListeners();

  uint32_t skipTo = 0;
  uint32_t badBegin = 0, badEnd = 0;
  auto flushBad = [&] {
    if (badEnd > badBegin) {
      reportBad(badBegin, badEnd);
    }
    badBegin = badEnd = 0;
  };
  while (true) {
    std::unique_ptr<antlr4::Token> token = lexer.nextToken();
    if (token->getType() == antlr4::Token::EOF) {
      break;
    }
    Raw next{token->getType(), static_cast<uint32_t>(token->getStartIndex()),
             static_cast<uint32_t>(token->getStopIndex() + 1)};
    if (next.begin < skipTo) {
      continue;
    }
    if (next.type == P::BAD &&
        (text[next.begin] == '\'' || text[next.begin] == '#')) {
      skipTo = skipForeign(next);
      continue;
    }
    if (next.type == P::BAD) {
      if (badEnd != next.begin) {
        flushBad();
        badBegin = next.begin;
      }
      badEnd = next.end;
      continue;
    }
    flushBad();
    bool startsStatement = raw.empty() || isLineEnd(raw.back().type) ||
                           raw.back().type == P::LBRACE;
    if (next.type == P::SLASH && startsStatement && text[next.end] == '*') {
      size_t close = text.find("*/", next.end + 1);
      size_t line = std::min(text.find('\n', next.begin), text.size());
      skipTo = close == std::string::npos ? line : close + 2;
      diags
          .error(Diag::BlockComment, range(next.begin, next.end + 1),
                 "`/*` begins no comment")
          .help("begin each line of the comment with `//`");
      continue;
    }
    if (next.type == P::OPEN_STRING) {
      diags
          .error(Diag::UnterminatedString, range(next.begin, next.end),
                 "the string is not closed on its line")
          .help("add `\"` where it ends; write `\\n` for a new line");
      next.type = P::STRING;
    } else if (next.type == P::STRING) {
      checkEscapes(next);
    }
    raw.push_back(next);
  }
  flushBad();
  checkNumbers();
  joinUnits();
  return std::move(raw);
}

// A string in `'` or a comment after `#`: reports the first character, and
// gives the offset behind the whole. The string becomes one of ours.
uint32_t Reader::skipForeign(const Raw &bad) {
  reportBad(bad.begin, bad.end);
  size_t line = std::min(text.find('\n', bad.begin), text.size());
  if (text[bad.begin] == '#') {
    return line;
  }
  size_t close = text.find('\'', bad.end);
  size_t end = close < line ? close + 1 : bad.end;
  raw.push_back({P::STRING, bad.begin, static_cast<uint32_t>(end)});
  return end;
}

void Reader::reportBad(uint32_t begin, uint32_t end) {
  std::string bad = written(begin, end);
  unsigned char first = bad[0];
  std::string shown = bad;
  if (first < 0x20 || first == 0x7F) {
    static const char digits[] = "0123456789abcdef";
    shown = std::string("\\x") + digits[first >> 4] + digits[first & 15];
    end = begin + 1;
  } else if (bad.size() > 24) {
    shown = "…";
  }
  auto error = diags.error(
      Diag::UnexpectedCharacter, range(begin, end),
      "unexpected character" +
          std::string(bad.size() > 1 && first < 0x80 ? "s `" : " `") + shown +
          "`");
  if (bad == "&" || bad == "&&") {
    error.help("write `and`");
  } else if (bad == "|" || bad == "||") {
    error.help("write `or`");
  } else if (bad == "!") {
    error.help("write `not`");
  } else if (bad == "^") {
    error.help("a power is written `**`");
  } else if (bad[0] == '#') {
    error.help("comments begin with `//`");
  } else if (bad[0] == '\'' || bad.starts_with("“") || bad.starts_with("‘") ||
             bad.starts_with("”")) {
    error.help("strings stand in `\"`");
  } else if (bad == "–" || bad == "−" || bad == "—") {
    error.help("write `-`");
  } else if (bad == "×" || bad == "·") {
    error.help("write `*`");
  } else if (bad == "≤" || bad == "≥" || bad == "≠") {
    error.help("write `<=`, `>=` or `!=`");
  } else if (first >= 0x80) {
    error.help("names are ASCII letters, digits and `_`");
  }
}

void Reader::checkEscapes(const Raw &string) {
  for (uint32_t i = string.begin + 1; i + 1 < string.end; ++i) {
    if (text[i] != '\\') {
      continue;
    }
    if (std::string_view("nrt0\"\\").find(text[i + 1]) ==
        std::string_view::npos) {
      uint32_t end = i + 2;
      while (end < string.end - 1 && (text[end] & 0xC0) == 0x80) {
        ++end;
      }
      diags
          .error(Diag::BadEscape, range(i, end),
                 "unknown escape `" + written(i, end) + "`")
          .help("strings know `\\n`, `\\t`, `\\r`, `\\0`, `\\\"` and `\\\\`");
    }
    ++i;
  }
}

void Reader::checkNumbers() {
  std::vector<Raw> kept;
  for (size_t i = 0; i < raw.size(); ++i) {
    Raw token = raw[i];
    bool pointFirst = token.type == P::DOT && i + 1 < raw.size() &&
                      raw[i + 1].type == P::NUMBER &&
                      raw[i + 1].begin == token.end &&
                      (i == 0 || raw[i - 1].end != token.begin);
    if (token.type != P::NUMBER && !pointFirst) {
      kept.push_back(token);
      continue;
    }
    // Swallow what touches the number and can only belong to it.
    size_t last = i + pointFirst;
    while (last + 1 < raw.size() && raw[last + 1].begin == raw[last].end &&
           (raw[last + 1].type == P::NUMBER || raw[last + 1].type == P::DOT ||
            isWord(raw[last + 1].type))) {
      bool unit =
          raw[last].type == P::NUMBER &&
          ast::findUnit(written(raw[last + 1].begin, raw[last + 1].end));
      if (unit) {
        break;
      }
      ++last;
    }
    token.type = P::NUMBER;
    token.end = raw[last].end;
    std::string number = written(token.begin, token.end);
    if (last != i) {
      auto error = diags.error(Diag::BadNumber, range(token.begin, token.end),
                               "`" + number + "` is not a number");
      if (pointFirst) {
        error.help("write `0" + number + "`");
      } else if (number.back() == '.') {
        error.help("write `" + number.substr(0, number.size() - 1) + "` or `" +
                   number + "0`");
      } else if (isWord(raw[i + 1].type)) {
        error.help("put a blank between a number and a word");
      }
      i = last;
    } else if (number.find_first_of(".eE") == std::string::npos) {
      number.erase(std::remove(number.begin(), number.end(), '_'),
                   number.end());
      size_t zeros = std::min(number.find_first_not_of('0'), number.size());
      number.erase(0, zeros);
      const std::string most = "9223372036854775807";
      if (number.size() > most.size() ||
          (number.size() == most.size() && number > most)) {
        diags
            .error(Diag::BadNumber, range(token.begin, token.end),
                   "the number is too large for a whole number")
            .help("whole numbers go up to " + most +
                  "; with a point or an exponent it is a real number");
      }
    }
    kept.push_back(token);
  }
  raw = std::move(kept);
}

void Reader::joinUnits() {
  auto touches = [&](size_t i) {
    return i < raw.size() && raw[i].begin == raw[i - 1].end;
  };
  std::vector<Raw> kept;
  for (size_t i = 0; i < raw.size(); ++i) {
    Raw token = raw[i];
    bool afterNumber = !kept.empty() && kept.back().type == P::NUMBER;
    if (afterNumber && token.type == P::PERCENT &&
        token.begin == kept.back().end) {
      token.type = P::UNIT;
    } else if (afterNumber && token.type == P::NAME) {
      if (touches(i + 1) && raw[i + 1].type == P::SLASH && touches(i + 2) &&
          ast::findUnit(written(token.begin, raw[i + 2].end))) {
        token.type = P::UNIT;
        token.end = raw[i + 2].end;
        i += 2;
      } else if (ast::findUnit(written(token.begin, token.end))) {
        token.type = P::UNIT;
      }
    }
    kept.push_back(token);
  }
  raw = std::move(kept);
}

} // namespace

std::vector<Raw> lex(const SourceManager &sources, FileId file,
                     DiagnosticEngine &diags) {
  return Reader(sources, file, diags).read();
}

} // namespace cleave
