// Sources, places in them, and diagnostics about them.
//
// What a user wrote wrong is a `Diagnostic`: a registered kind (Kinds.def), a
// primary range, a message, notes for other places and help. An engine collects
// them in the order they were reported; whoever drives the compiler renders
// them, as text or as JSON. Wording: lower case start, no full stop, code in
// backticks; say what was found, then (in `help`) what to do.
//
//   diags.error(Diag::UnknownDim, name.range, "unknown dim `hed`")
//       .note(model.range, "the dims of `gpt` are declared here")
//       .help("did you mean `head`?");
//
// Nothing here depends on LLVM or MLIR.
#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave {

using FileId = uint32_t;
inline constexpr FileId noFile = ~FileId(0);

// Bytes [begin, end) of a file. `begin == end` is a place between two bytes.
// A range with `file == noFile` points nowhere (the command line, say).
struct SourceRange {
  FileId file = noFile;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool isValid() const { return file != noFile; }
  // The smallest range that holds both; both must be of one file.
  SourceRange to(const SourceRange &last) const {
    return {file, begin < last.begin ? begin : last.begin,
            end > last.end ? end : last.end};
  }
  bool operator==(const SourceRange &) const = default;
};

// One-based line; one-based column, counted in code points.
struct LineColumn {
  uint32_t line = 1;
  uint32_t column = 1;
  bool operator==(const LineColumn &) const = default;
};

struct SourceFile {
  std::string name; // as the user would write it
  std::string text; // as read, with any byte order mark and CRLF
  std::vector<uint32_t> lineStarts;
};

// Owns the text of every file that takes part. Files are never removed, so a
// FileId and a view into a text stay good as long as the manager.
class SourceManager {
public:
  FileId add(std::string name, std::string text);
  const SourceFile &file(FileId id) const { return files[id]; }
  size_t size() const { return files.size(); }

  LineColumn lineColumn(FileId file, uint32_t offset) const;
  // The line without its end (neither "\n" nor "\r\n").
  std::string_view line(FileId file, uint32_t line) const;
  std::string_view text(const SourceRange &range) const;
  // "gpt.clv:31:9", or "" for a range that points nowhere.
  std::string describe(const SourceRange &range) const;

private:
  std::deque<SourceFile> files;
};

// The registered kinds, in the order of Kinds.def.
enum class Diag : uint16_t {
#define CLEAVE_DIAG(code, name, title, explanation) name,
#include "lang/diagnostics/Kinds.def"
};

struct DiagInfo {
  Diag kind;
  unsigned code;          // 207
  std::string_view name;  // "UnevenSplit"
  std::string_view title; // a line
  std::string_view
      explanation; // a paragraph or two, for `cleave explain CLV0207`
};

const DiagInfo &info(Diag kind);
// All kinds, by code.
const std::vector<DiagInfo> &allDiagnostics();
// "CLV0207".
std::string codeOf(Diag kind);
// The kind of "CLV0207" or "clv0207" or "207".
std::optional<Diag> findDiagnostic(std::string_view code);

enum class Severity : uint8_t { Error, Warning, Note };

struct DiagnosticNote {
  SourceRange range; // may point nowhere
  std::string message;
};

struct Diagnostic {
  Severity severity = Severity::Error;
  Diag kind;
  SourceRange range; // may point nowhere
  std::string message;
  std::string label; // stands behind the caret line: "6 = 2+1+2+1"
  std::vector<DiagnosticNote> notes;
  std::vector<std::string> help;
};

// Adds to a diagnostic already reported. Valid as long as its engine.
class DiagnosticBuilder {
public:
  explicit DiagnosticBuilder(Diagnostic &target) : target(&target) {}
  DiagnosticBuilder &note(SourceRange range, std::string message);
  DiagnosticBuilder &note(std::string message);
  DiagnosticBuilder &help(std::string message);
  DiagnosticBuilder &label(std::string text);

private:
  Diagnostic *target;
};

class DiagnosticEngine {
public:
  explicit DiagnosticEngine(const SourceManager &sources) : sources(sources) {}
  DiagnosticEngine(const DiagnosticEngine &) = delete;

  DiagnosticBuilder error(Diag kind, SourceRange range, std::string message);
  DiagnosticBuilder warning(Diag kind, SourceRange range, std::string message);
  // A remark of its own (an unused statement inside a strategy, say), as
  // against a note that belongs to an error.
  DiagnosticBuilder note(Diag kind, SourceRange range, std::string message);

  // Adds a note to each error from the given number of reports on: where the
  // function was called whose body has them, say.
  void noteSince(size_t first, SourceRange range, const std::string &message);
  size_t reportCount() const { return diagnostics.size(); }

  bool hasErrors() const { return errors != 0; }
  size_t errorCount() const { return errors; }
  const std::deque<Diagnostic> &all() const { return diagnostics; }
  const SourceManager &sourceManager() const { return sources; }
  void clear();
  // Puts those from the `first` on into the order of their places. Builders of
  // them are no longer good.
  void sortFrom(size_t first);

  // All of them, in the order of report, in the format of docs; the caret line
  // expands tabs and shows a window of very long lines.
  void renderText(std::ostream &out) const;
  // One JSON array of objects {severity, code, kind, message, label, file,
  // line, column, endLine, endColumn, begin, end, notes, help}.
  void renderJson(std::ostream &out) const;
  std::string text() const;
  std::string json() const;

private:
  DiagnosticBuilder report(Severity severity, Diag kind, SourceRange range,
                           std::string message);

  const SourceManager &sources;
  std::deque<Diagnostic> diagnostics;
  size_t errors = 0;
};

// Levenshtein distance, with a swap of neighbours counted once.
unsigned editDistance(std::string_view a, std::string_view b);
// The candidate a user probably meant, if one is close enough; ties go to the
// earlier candidate.
std::optional<std::string>
didYouMean(std::string_view written,
           const std::vector<std::string> &candidates);
// "did you mean `head`?", else "known here: `a`, `b`, …" (at most eight), else
// "" where there are no candidates: made to be passed to `help`, which drops
// empty messages.
std::string suggestion(std::string_view written,
                       const std::vector<std::string> &candidates);

} // namespace cleave
