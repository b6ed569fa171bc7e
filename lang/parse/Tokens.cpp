#include "lang/parse/Tokens.h"

#include "CleaveParser.h"
#include "lang/parse/Lex.h"

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
  std::vector<Raw> raw = lex(sources, file, diags);
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
