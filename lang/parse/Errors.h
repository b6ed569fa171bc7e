// How the parser reports and recovers.
//
// One error per statement, in words of the language, then the rest of the
// statement is skipped; a block that the broken statement opens is still read,
// so that independent errors inside it are reported in the same run. Tokens.h
// sees to it that brackets match, so a statement's end is never ambiguous.
#pragma once

#include "CleaveParser.h"
#include "lang/diagnostics/Diagnostics.h"

#include <string>

namespace cleave {

class Recovery : public antlr4::DefaultErrorStrategy {
public:
  // `tokenErrors`: where the errors lie that readTokens reported.
  Recovery(const SourceManager &sources, FileId file, DiagnosticEngine &diags,
           std::vector<uint32_t> tokenErrors)
      : sources(sources), file(file), diags(diags),
        tokenErrors(std::move(tokenErrors)) {}

  void reportError(antlr4::Parser *parser,
                   const antlr4::RecognitionException &e) override;
  // Skips the rest of the statement or declaration; from a rule inside one,
  // hands the error outwards.
  void recover(antlr4::Parser *parser, std::exception_ptr e) override;
  antlr4::Token *recoverInline(antlr4::Parser *parser) override;
  void sync(antlr4::Parser *parser) override;

private:
  // What the parser found, where, and what it looked for.
  struct Failure {
    antlr4::Token *found;
    antlr4::Token *before; // or null
    antlr4::Token *after;
    antlr4::ParserRuleContext *context;
    antlr4::Token *head; // of the statement or declaration
    size_t rule;         // of the statement or declaration; or none
    antlr4::misc::IntervalSet expected; // empty where unknown
    const antlr4::dfa::Vocabulary &words;
  };

  SourceRange rangeOf(antlr4::Token *token) const;
  std::string textOf(antlr4::Token *token) const;
  std::string describe(antlr4::Token *token) const;
  std::string describeExpected(const Failure &failure) const;
  DiagnosticBuilder reportFailure(const Failure &failure);
  bool followsTokenError(const Failure &failure) const;
  bool reportSpecial(const Failure &failure);
  bool reportAssignment(const Failure &failure);
  void addHints(const Failure &failure, DiagnosticBuilder &error);
  void reportUnknown(antlr4::Parser *parser, size_t blockRule);
  void parseBlock(antlr4::Parser *parser, size_t blockRule);
  void skipStatement(antlr4::Parser *parser, size_t blockRule);
  bool isInside(const Failure &failure, std::initializer_list<size_t> rules);

  const SourceManager &sources;
  FileId file;
  DiagnosticEngine &diags;
  std::vector<uint32_t> tokenErrors;
  bool resumeHere = false; // the next statement begins at the found token
};

} // namespace cleave
