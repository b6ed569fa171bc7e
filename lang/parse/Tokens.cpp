#include "lang/parse/Tokens.h"

#include "CleaveLexer.h"
#include "CleaveParser.h"
#include "lang/ast/Units.h"

#include <algorithm>

namespace cleave {

using P = antlr::CleaveParser;

bool isReserved(size_t type) { return type >= P::OF && type <= P::FALSE; }

bool isWord(size_t type) {
  return type == P::NAME || (type >= P::MODEL && type <= P::REPRODUCIBLE);
}

bool isDeclHead(size_t type) { return type >= P::MODEL && type <= P::REDUCED; }

bool isStatementHead(size_t type) {
  switch (type) {
  case P::IF:
  case P::FOR:
  case P::IN:
  case P::USE:
  case P::PLANS:
  case P::START:
  case P::VARY:
  case P::WHEN:
  case P::SNAPSHOT:
  case P::EVAL:
    return true;
  default:
    return (type >= P::DIM && type <= P::UPDATE) ||
           (type >= P::FORWARD && type <= P::EXPECT);
  }
}

namespace {

// A token by type and place; `touching` if it follows the one before at once.
struct Raw {
  size_t type;
  uint32_t begin, end;
};

bool isLineEnd(size_t type) {
  return type == P::NEWLINE || type == P::SEMICOLON;
}

bool isBinaryOperator(size_t type) {
  switch (type) {
  case P::PLUS:
  case P::MINUS:
  case P::STAR:
  case P::SLASH:
  case P::PERCENT:
  case P::POWER:
  case P::EQUAL:
  case P::NOT_EQUAL:
  case P::LESS:
  case P::LESS_EQUAL:
  case P::GREATER:
  case P::GREATER_EQUAL:
  case P::AND:
  case P::OR:
  case P::DOTS:
    return true;
  default:
    return false;
  }
}

// --- Lexing
// -------------------------------------------------------------------

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

// --- Statement ends and brackets
// ----------------------------------------------

class Structure {
public:
  Structure(FileId file, const std::string &text, const std::vector<Raw> &raw,
            DiagnosticEngine &diags)
      : file(file), text(text), raw(raw), diags(diags) {}

  // False where the source nests too deeply.
  bool run();
  std::vector<Raw> out;

private:
  struct Open {
    Raw token;
    bool ofParams; // of a declaration: `=` is at home inside
  };

  SourceRange range(const Raw &token) const {
    return {file, token.begin, token.end};
  }
  size_t typeAt(size_t i) const {
    return i < raw.size() ? raw[i].type : antlr4::Token::EOF;
  }
  size_t lastType() const {
    return out.empty() ? size_t(P::END) : out.back().type;
  }
  uint32_t lastEnd() const { return out.empty() ? 0 : out.back().end; }
  bool inBrackets() const {
    return !open.empty() && open.back().token.type != P::LBRACE;
  }

  void emitEnd();
  void closeTop(SourceRange where, const std::string &why);
  void closeBrackets(SourceRange where, const std::string &why);
  void lineEnd(size_t i);
  void closing(const Raw &token);
  bool continues(size_t i) const;
  bool startsStatement(size_t i) const;
  bool startsDecl(size_t i) const;

  FileId file;
  const std::string &text;
  const std::vector<Raw> &raw;
  DiagnosticEngine &diags;
  std::vector<Open> open;
  bool forContinues = false;
};

const char *bracket(size_t type) {
  switch (type) {
  case P::LPAREN:
    return "(";
  case P::RPAREN:
    return ")";
  case P::LBRACKET:
    return "[";
  case P::RBRACKET:
    return "]";
  case P::LBRACE:
    return "{";
  default:
    return "}";
  }
}

size_t partner(size_t type) {
  switch (type) {
  case P::LPAREN:
    return P::RPAREN;
  case P::LBRACKET:
    return P::RBRACKET;
  default:
    return P::RBRACE;
  }
}

void Structure::emitEnd() {
  if (lastType() != P::END && lastType() != P::LBRACE) {
    out.push_back({P::END, lastEnd(), lastEnd()});
  }
}

// Reports the innermost open bracket and closes it here.
void Structure::closeTop(SourceRange where, const std::string &why) {
  Raw opener = open.back().token;
  open.pop_back();
  size_t close = partner(opener.type);
  diags
      .error(Diag::UnclosedBracket, range(opener),
             std::string("`") + bracket(opener.type) + "` is never closed")
      .note(where, why)
      .help(std::string("add `") + bracket(close) + "` before it");
  if (close == P::RBRACE) {
    emitEnd();
  }
  out.push_back({close, lastEnd(), lastEnd()});
}

void Structure::closeBrackets(SourceRange where, const std::string &why) {
  while (inBrackets()) {
    closeTop(where, why);
  }
}

// Does the token at `i`, first on its line, go on with the statement before?
bool Structure::continues(size_t i) const {
  size_t type = typeAt(i);
  return type == P::ELSE || type == P::WITH || type == P::AS ||
         type == P::COUNTING || type == P::ARROW || type == P::LBRACE ||
         isBinaryOperator(type) || (type == P::FOR && forContinues);
}

// Inside brackets: does the token at `i`, first on its line, look like the
// begin of a statement, so that a bracket must be missing before it? Two words
// side by side, or `name =`, stand in no bracket.
bool Structure::startsStatement(size_t i) const {
  size_t first = typeAt(i), second = typeAt(i + 1);
  if (isStatementHead(first) && isWord(first) &&
      (isWord(second) || second == P::LBRACKET) &&
      raw[i + 1].begin > raw[i].end) {
    return true;
  }
  return isWord(first) && second == P::ASSIGN && !open.back().ofParams &&
         lastType() != P::COMMA;
}

// At a line's first column: does a declaration begin at `i`?
bool Structure::startsDecl(size_t i) const {
  return isDeclHead(raw[i].type) && isWord(typeAt(i + 1)) &&
         (raw[i].begin == 0 || text[raw[i].begin - 1] == '\n');
}

void Structure::lineEnd(size_t i) {
  size_t next = i + 1;
  while (typeAt(next) == P::NEWLINE) {
    ++next;
  }
  if (raw[i].type == P::SEMICOLON) {
    closeBrackets(range(raw[i]), "the statement ends here");
    emitEnd();
    return;
  }
  if (inBrackets()) {
    if (next < raw.size() && startsStatement(next)) {
      closeBrackets(range(raw[next]), "the next statement begins here");
      emitEnd();
    }
    return;
  }
  if (lastType() != P::COMMA && !continues(next)) {
    emitEnd();
  }
}

void Structure::closing(const Raw &token) {
  if (token.type == P::RBRACE) {
    closeBrackets(range(token), "the block ends here");
  }
  if (open.empty() ||
      (open.back().token.type == P::LBRACE && token.type != P::RBRACE)) {
    diags
        .error(Diag::UnmatchedBracket, range(token),
               std::string("`") + bracket(token.type) + "` closes nothing")
        .help(token.type == P::RBRACE
                  ? "remove it, or look for a `}` too many above"
                  : "remove it, or add its opening bracket before");
    return;
  }
  Raw opener = open.back().token;
  open.pop_back();
  size_t right = partner(opener.type);
  if (right != token.type) {
    diags
        .error(Diag::UnmatchedBracket, range(token),
               std::string("`") + bracket(token.type) + "` does not close `" +
                   bracket(opener.type) + "`")
        .note(range(opener), "opened here")
        .help(std::string("write `") + bracket(right) + "`");
  }
  if (token.type == P::RBRACE) {
    emitEnd();
  }
  out.push_back({right, token.begin, token.end});
}

bool Structure::run() {
  for (size_t i = 0; i < raw.size(); ++i) {
    const Raw &token = raw[i];
    if (!open.empty() && startsDecl(i)) {
      while (!open.empty()) {
        closeTop(range(token), "a declaration begins here");
      }
      emitEnd();
    }
    switch (token.type) {
    case P::NEWLINE:
    case P::SEMICOLON:
      lineEnd(i);
      continue;
    case P::RPAREN:
    case P::RBRACKET:
    case P::RBRACE:
      closing(token);
      continue;
    case P::LBRACE:
      closeBrackets(range(token), "a block begins here");
      [[fallthrough]];
    case P::LPAREN:
    case P::LBRACKET: {
      size_t before = out.size();
      open.push_back({token, before >= 2 && isWord(out[before - 1].type) &&
                                 isDeclHead(out[before - 2].type)});
      if (open.size() > nestingLimit) {
        diags
            .error(Diag::NestedTooDeeply, range(token),
                   "brackets and blocks nest more than " +
                       std::to_string(nestingLimit) + " deep")
            .help("give parts of it names with `let`");
        return false;
      }
      break;
    }
    default:
      if (open.empty() && isDeclHead(token.type) && lastType() == P::END) {
        forContinues = token.type == P::PLAN || token.type == P::STRATEGY ||
                       token.type == P::RUN;
      }
    }
    out.push_back(token);
  }
  SourceRange atEnd{file, static_cast<uint32_t>(text.size()),
                    static_cast<uint32_t>(text.size())};
  while (!open.empty()) {
    closeTop(atEnd, "the file ends here");
  }
  emitEnd();
  return true;
}

} // namespace

TokenList readTokens(const SourceManager &sources, FileId file,
                     DiagnosticEngine &diags) {
  const std::string &text = sources.file(file).text;
  std::vector<Raw> raw = Reader(sources, file, diags).read();
  Structure structure(file, text, raw, diags);
  TokenList list;
  if (!structure.run()) {
    list.tooDeep = true;
    return list;
  }
  for (const Raw &token : structure.out) {
    auto made = std::make_unique<antlr4::CommonToken>(
        token.type, text.substr(token.begin, token.end - token.begin));
    made->setStartIndex(token.begin);
    made->setStopIndex(size_t(token.end) - 1);
    list.tokens.push_back(std::move(made));
  }
  return list;
}

} // namespace cleave
