#include "lang/parse/Errors.h"

#include "lang/ast/Units.h"
#include "lang/parse/Forms.h"
#include "lang/parse/Tokens.h"

#include <algorithm>
#include <cassert>

namespace cleave {

using P = antlr::CleaveParser;
using antlr4::Token;

namespace {

bool isBlock(size_t rule) {
  return rule == P::RuleFile || rule == P::RuleCodeBlock ||
         rule == P::RulePlanBlock || rule == P::RuleRunBlock;
}

// Rules at which a broken statement ends.
bool isStatement(size_t rule) {
  return rule == P::RuleUseFile || rule == P::RuleDecl ||
         rule == P::RuleCodeStmt || rule == P::RulePlanStmt ||
         rule == P::RuleRunStmt;
}

size_t enclosingBlock(antlr4::RuleContext *context) {
  for (; context;
       context = static_cast<antlr4::RuleContext *>(context->parent)) {
    if (isBlock(context->getRuleIndex())) {
      return context->getRuleIndex();
    }
  }
  return P::RuleFile;
}

// The kind of block that a statement or declaration opens.
size_t blockOpenedBy(size_t statementRule, size_t headType) {
  switch (statementRule) {
  case P::RuleCodeStmt:
    return P::RuleCodeBlock;
  case P::RulePlanStmt:
    return P::RulePlanBlock;
  case P::RuleRunStmt:
    return P::RuleRunBlock;
  default:
    return headType == P::PLAN || headType == P::STRATEGY ? P::RulePlanBlock
           : headType == P::RUN                           ? P::RuleRunBlock
                                                          : P::RuleCodeBlock;
  }
}

std::string joinWords(const std::vector<std::string> &words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

} // namespace

SourceRange Recovery::rangeOf(Token *token) const {
  uint32_t size = sources.file(file).text.size();
  if (token->getType() == Token::EOF) {
    return {file, size, size};
  }
  return {file, static_cast<uint32_t>(token->getStartIndex()),
          static_cast<uint32_t>(token->getStopIndex() + 1)};
}

std::string Recovery::textOf(Token *token) const {
  std::string_view text = sources.text(rangeOf(token));
  return text.size() > 40 ? std::string(text.substr(0, 36)) + "…"
                          : std::string(text);
}

// "`shard`", "the end of the line", "the end of the file".
std::string Recovery::describe(Token *token) const {
  const std::string &text = sources.file(file).text;
  if (token->getType() == Token::EOF) {
    return "the end of the file";
  }
  if (token->getType() != P::END) {
    std::string found = textOf(token);
    return found.empty() ? "the end of the line" : "`" + found + "`";
  }
  size_t at = text.find_first_not_of(" \t\r", rangeOf(token).end);
  if (at != std::string::npos && (text[at] == ';' || text[at] == '}')) {
    return std::string("`") + text[at] + "`";
  }
  return at == std::string::npos ? "the end of the file"
                                 : "the end of the line";
}

std::string Recovery::describeExpected(const Failure &failure) const {
  const antlr4::misc::IntervalSet &set = failure.expected;
  bool name = set.contains(size_t(P::NAME));
  bool value = name && set.contains(size_t(P::NUMBER));
  std::vector<std::string> words;
  if (value) {
    words.push_back("a value");
  } else if (name) {
    words.push_back("a name");
  }
  bool end = false;
  for (size_t type : set.toList()) {
    bool ofValue = type == P::LPAREN || type == P::LBRACKET ||
                   type == P::MINUS || type == P::NOT || type == P::TRUE ||
                   type == P::FALSE || type == P::STRING || type == P::NUMBER;
    if (type == P::END || type == Token::EOF) {
      end = true;
    } else if ((name && isWord(type)) || type == P::UNIT ||
               (value && ofValue)) {
      continue;
    } else if (type == P::STRING) {
      words.push_back("a string");
    } else if (type == P::NUMBER) {
      words.push_back("a number");
    } else {
      std::string literal = failure.words.getLiteralName(type);
      words.push_back("`" + literal.substr(1, literal.size() - 2) + "`");
    }
  }
  if (end) {
    words.push_back("the end of the statement");
  }
  return words.size() > 6 ? "" : joinWords(words);
}

bool Recovery::isInside(const Failure &failure,
                        std::initializer_list<size_t> rules) {
  for (antlr4::RuleContext *context = failure.context; context;
       context = static_cast<antlr4::RuleContext *>(context->parent)) {
    size_t rule = context->getRuleIndex();
    if (std::find(rules.begin(), rules.end(), rule) != rules.end()) {
      return true;
    }
    if (isStatement(rule)) {
      return false;
    }
  }
  return false;
}

void Recovery::reportError(antlr4::Parser *parser,
                           const antlr4::RecognitionException &e) {
  if (inErrorRecoveryMode(parser)) {
    return;
  }
  beginErrorCondition(parser);
  resumeHere = false;
  antlr4::TokenStream *stream = parser->getTokenStream();
  size_t index = e.getOffendingToken()->getTokenIndex();
  Failure failure{e.getOffendingToken(),
                  index > 0 ? stream->get(index - 1) : nullptr,
                  index + 1 < stream->size() ? stream->get(index + 1)
                                             : stream->get(index),
                  parser->getContext(),
                  nullptr,
                  noRule,
                  {},
                  parser->getVocabulary()};
  // The statement: the outermost context below the innermost statement rule.
  antlr4::ParserRuleContext *inner = nullptr;
  for (antlr4::ParserRuleContext *context = failure.context; context;
       context = dynamic_cast<antlr4::ParserRuleContext *>(context->parent)) {
    if (isStatement(context->getRuleIndex())) {
      failure.head = context->getStart();
      failure.rule = context->getRuleIndex() == P::RuleUseFile
                         ? size_t(P::RuleUseFile)
                     : inner ? inner->getRuleIndex()
                             : ruleOfHead(context->getStart()->getType(),
                                          enclosingBlock(context));
      break;
    }
    inner = context;
  }
  if (auto *noChoice = dynamic_cast<const antlr4::NoViableAltException *>(&e)) {
    if (!failure.head) {
      failure.head = noChoice->getStartToken();
    }
  } else {
    failure.expected = e.getExpectedTokens();
  }
  if (followsTokenError(failure)) {
    return;
  }
  if (!reportSpecial(failure)) {
    DiagnosticBuilder error = reportFailure(failure);
    addHints(failure, error);
  }
}

// An error in the tokens of this statement was reported already; what the
// parser makes of the rest is no error of its own.
bool Recovery::followsTokenError(const Failure &failure) const {
  uint32_t begin =
      failure.head ? rangeOf(failure.head).begin : rangeOf(failure.found).begin;
  uint32_t end = rangeOf(failure.found).end;
  for (size_t i = 0; i < tokenErrors.size(); ++i) {
    if (tokenErrors[i] >= begin && tokenErrors[i] <= end) {
      return true;
    }
  }
  return false;
}

DiagnosticBuilder Recovery::reportFailure(const Failure &failure) {
  std::string expected = describeExpected(failure);
  std::string found = describe(failure.found);
  if (expected.empty() && found.starts_with("the ")) {
    found.erase(0, 4);
  }
  return diags.error(Diag::SyntaxError, rangeOf(failure.found),
                     expected.empty()
                         ? "unexpected " + found
                         : "expected " + expected + ", found " + found);
}

// Failures that deserve words of their own.
bool Recovery::reportSpecial(const Failure &failure) {
  size_t found = failure.found->getType();
  if (failure.rule == P::RuleAssignStmt && reportAssignment(failure)) {
    return true;
  }
  bool ends = failure.expected.contains(size_t(P::END));
  if (ends && isStatementHead(found) && found != P::FOR && found != P::IN) {
    diags
        .error(Diag::MissingStatementEnd, rangeOf(failure.found),
               "a statement begins here before the last one has ended")
        .help("put `;` or a new line before " + describe(failure.found));
    resumeHere = true;
    return true;
  }
  size_t after = failure.after->getType();
  bool named = after == P::ASSIGN || after == P::COLON || after == P::LPAREN ||
               after == P::LBRACE;
  bool wanted =
      failure.expected.isEmpty()
          ? failure.before && (isStatementHead(failure.before->getType()) ||
                               isDeclHead(failure.before->getType()))
          : failure.expected.contains(size_t(P::NAME)) &&
                !failure.expected.contains(size_t(P::NUMBER));
  if (isReserved(found) && named && wanted) {
    diags
        .error(Diag::ReservedWord, rangeOf(failure.found),
               describe(failure.found) +
                   " is a reserved word and cannot be a name")
        .help("choose another name, `" + textOf(failure.found) +
              "_` for example");
    return true;
  }
  // A word behind a number on its line that is nearly a unit.
  if (failure.before && failure.before->getType() == P::NUMBER &&
      found == P::NAME && after != P::COLON) {
    std::string unit = textOf(failure.found);
    if (auto close = didYouMean(unit, ast::allUnits())) {
      diags
          .error(Diag::SyntaxError, rangeOf(failure.found),
                 "`" + unit + "` is not a unit")
          .help("did you mean `" + *close + "`?");
      return true;
    }
  }
  return false;
}

// In code any word may begin an assignment: a misspelt or misplaced statement
// fails as one, at its second word.
bool Recovery::reportAssignment(const Failure &failure) {
  if (!failure.expected.contains(size_t(P::ASSIGN))) {
    return false;
  }
  std::string head = textOf(failure.head);
  size_t found = failure.found->getType();
  if (found == P::LPAREN || found == P::DOT || found == P::END) {
    diags
        .error(Diag::UnknownStatement, rangeOf(failure.head),
               "a value alone is no statement")
        .help("give it a name: `let NAME = " + head +
              (found == P::END ? "`" : "…`"));
    return true;
  }
  if (found == P::PLUS || found == P::MINUS || found == P::STAR ||
      found == P::SLASH) {
    diags
        .error(Diag::SyntaxError, rangeOf(failure.found),
               "expected `=`, found " + describe(failure.found))
        .help("write `" + head + " = " + head + " " + textOf(failure.found) +
              " …`");
    return true;
  }
  auto error = diags.error(Diag::UnknownStatement, rangeOf(failure.head),
                           "unknown statement `" + head + "`");
  std::string home = homeOf(head);
  if (!home.empty()) {
    error.help("`" + head + "` belongs in " + home);
  } else if (auto close = didYouMean(head, headsOf(P::RuleCodeBlock))) {
    error.help("did you mean `" + *close + "`?");
  } else {
    error.help("an assignment is written `NAME = VALUE`");
  }
  return true;
}

void Recovery::addHints(const Failure &failure, DiagnosticBuilder &error) {
  size_t found = failure.found->getType();
  size_t before = failure.before ? failure.before->getType() : noRule;
  if (found == P::ASSIGN && failure.expected.contains(size_t(P::RPAREN))) {
    error.help("a named argument is written `NAME: VALUE`");
    return;
  }
  if (found == P::ASSIGN &&
      (isInside(failure, {P::RuleClaim, P::RuleClause}) ||
       failure.rule == P::RuleExpectStmt || failure.rule == P::RuleWhenStmt ||
       failure.rule == P::RulePlanIf || failure.rule == P::RuleCodeIf)) {
    error.help("`==` compares");
    return;
  }
  if (found == P::ELSE) {
    error.help("`else` follows the `}` of its `if`");
    return;
  }
  if (before == P::UNIT && textOf(failure.before) == "%") {
    error.help("a `%` that touches its number is a unit; write blanks around "
               "it for the remainder");
    return;
  }
  if (found == P::NUMBER && before == P::COLON &&
      isInside(failure, {P::RuleParam})) {
    error.help("a default is written `NAME = VALUE`");
    return;
  }
  const char *form = failure.rule == noRule ? "" : formOf(failure.rule);
  if (*form) {
    error.help(std::string("the form is `") + form + "`");
  }
}

Token *Recovery::recoverInline(antlr4::Parser *parser) {
  throw antlr4::InputMismatchException(parser);
}

void Recovery::sync(antlr4::Parser *parser) {
  if (inErrorRecoveryMode(parser)) {
    return;
  }
  const antlr4::atn::ATN &atn = parser->getATN();
  antlr4::atn::ATNState *state = atn.states[parser->getState()];
  antlr4::misc::IntervalSet next = atn.nextTokens(state);
  size_t rule = parser->getContext()->getRuleIndex();
  while (!next.contains(Token::EPSILON) &&
         !next.contains(parser->getTokenStream()->LA(1))) {
    if (!isBlock(rule)) {
      throw antlr4::InputMismatchException(parser);
    }
    if (parser->getTokenStream()->LA(1) == Token::EOF) {
      return;
    }
    reportUnknown(parser, rule);
    skipStatement(parser, rule == P::RuleFile ? noRule : rule);
  }
}

// A token that begins no statement of this block, or no declaration.
void Recovery::reportUnknown(antlr4::Parser *parser, size_t blockRule) {
  Token *found = parser->getCurrentToken();
  std::string text = textOf(found);
  bool inFile = blockRule == P::RuleFile;
  if (!isWord(found->getType())) {
    auto error =
        diags.error(inFile ? Diag::UnknownDeclaration : Diag::UnknownStatement,
                    rangeOf(found),
                    std::string(inFile ? "a declaration" : "a statement") +
                        " cannot begin with " + describe(found));
    if (found->getType() == P::ELSE) {
      error.help("`else` follows the `}` of its `if`");
    }
    return;
  }
  auto error = diags.error(
      inFile ? Diag::UnknownDeclaration : Diag::UnknownStatement,
      rangeOf(found),
      std::string("unknown ") + (inFile ? "declaration" : "statement") + " `" +
          text + "`");
  std::string home = homeOf(text);
  if (!home.empty()) {
    error.help("`" + text + "` belongs in " + home);
    if (auto close = didYouMean(text, headsOf(blockRule))) {
      error.help("or did you mean `" + *close + "`?");
    }
  } else if (!inFile && parser->getTokenStream()->LA(2) == P::ASSIGN &&
             blockRule == P::RulePlanBlock) {
    error.help("plans name values with `let`");
  } else {
    error.help(suggestion(text, headsOf(blockRule)));
  }
}

void Recovery::recover(antlr4::Parser *parser, std::exception_ptr e) {
  antlr4::ParserRuleContext *context = parser->getContext();
  size_t rule = context->getRuleIndex();
  if (!isStatement(rule)) {
    if (rule == P::RuleFile) {
      // Only the end of the file can be missing here; nothing is left to read.
      while (parser->getTokenStream()->LA(1) != Token::EOF) {
        parser->consume();
      }
      return;
    }
    std::rethrow_exception(e);
  }
  if (!resumeHere) {
    skipStatement(parser, blockOpenedBy(rule, context->getStart()->getType()));
  }
  resumeHere = false;
  endErrorCondition(parser);
}

// Parses a block from a place where the grammar has none.
void Recovery::parseBlock(antlr4::Parser *parser, size_t blockRule) {
  // ANTLR finds out from the state that calls a rule where it goes on behind
  // it, so the state must be one that calls this rule, whichever.
  const antlr4::atn::ATN &atn = parser->getATN();
  auto calls = [&](const antlr4::atn::ATNState *state) {
    auto *rule =
        state && !state->transitions.empty()
            ? dynamic_cast<antlr4::atn::RuleTransition *>(state->transitions[0])
            : nullptr;
    return rule && rule->target->ruleIndex == blockRule;
  };
  auto state = std::find_if(atn.states.begin(), atn.states.end(), calls);
  assert(state != atn.states.end() && "every block is part of some rule");
  size_t before = parser->getState();
  parser->setState((*state)->stateNumber);
  auto *cleaveParser = static_cast<P *>(parser);
  if (blockRule == P::RuleCodeBlock) {
    cleaveParser->codeBlock();
  } else if (blockRule == P::RulePlanBlock) {
    cleaveParser->planBlock();
  } else {
    cleaveParser->runBlock();
  }
  parser->setState(before);
}

// Skips to behind the END of the statement, or to the `}` of its block. Blocks
// on the way are parsed as what they are (noRule: skipped).
void Recovery::skipStatement(antlr4::Parser *parser, size_t blockRule) {
  endErrorCondition(parser);
  size_t depth = 0;
  while (true) {
    switch (parser->getTokenStream()->LA(1)) {
    case static_cast<size_t>(Token::EOF):
      return;
    case P::RBRACE:
      if (depth == 0) {
        return;
      }
      --depth;
      break;
    case P::END:
      if (depth == 0) {
        parser->consume();
        return;
      }
      break;
    case P::LBRACE:
      if (blockRule != noRule) {
        parseBlock(parser, blockRule);
        continue;
      }
      ++depth;
      break;
    default:
      break;
    }
    parser->consume();
  }
}

} // namespace cleave
