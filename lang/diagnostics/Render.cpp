// Diagnostics as text with source lines and carets, and as JSON.
#include "lang/diagnostics/Diagnostics.h"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace cleave {

namespace {

constexpr size_t tabWidth = 4;
// A caret line shows at most this many columns of its source line.
constexpr size_t widest = 120;
// More than this nobody reads; JSON has them all.
constexpr size_t mostShown = 100;

const char *spelling(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  }
  return "error";
}

// A line as shown: one string per column, tabs as blanks, control characters
// and broken UTF-8 as `?`. `columnOf[i]` is the column of byte i of the line.
struct ShownLine {
  std::vector<std::string> cells;
  std::vector<size_t> columnOf;
};

// The length of the UTF-8 sequence at the start of `text`, 0 if broken.
size_t sequenceLength(std::string_view text) {
  unsigned char lead = text[0];
  size_t length = lead < 0x80       ? 1
                  : lead >> 5 == 6  ? 2
                  : lead >> 4 == 14 ? 3
                  : lead >> 3 == 30 ? 4
                                    : 0;
  if (length > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

ShownLine show(std::string_view line) {
  ShownLine shown;
  size_t i = 0;
  while (i < line.size()) {
    size_t length = sequenceLength(line.substr(i));
    size_t column = shown.cells.size();
    for (size_t k = 0; k < std::max<size_t>(length, 1); ++k) {
      shown.columnOf.push_back(column);
    }
    unsigned char lead = line[i];
    if (lead == '\t') {
      do {
        shown.cells.push_back(" ");
      } while (shown.cells.size() % tabWidth != 0);
    } else if (length == 0 || lead < 0x20 || lead == 0x7F) {
      shown.cells.push_back("?");
    } else if (line.substr(i, length) != "\xEF\xBB\xBF") {
      shown.cells.emplace_back(line.substr(i, length));
    }
    i += std::max<size_t>(length, 1);
  }
  shown.columnOf.push_back(shown.cells.size());
  return shown;
}

void renderSnippet(std::ostream &out, const SourceManager &sources,
                   const SourceRange &range, const std::string &label) {
  LineColumn at = sources.lineColumn(range.file, range.begin);
  std::string_view line = sources.line(range.file, at.line);
  size_t start = sources.file(range.file).lineStarts[at.line - 1];
  ShownLine shown = show(line);
  auto columnOf = [&](size_t offset) {
    size_t byte = std::min(offset > start ? offset - start : 0, line.size());
    return shown.columnOf[byte];
  };
  size_t first = columnOf(range.begin);
  size_t last = std::max(columnOf(range.end), first + 1);

  // The window [from, to) of columns that is shown.
  size_t from = 0, to = shown.cells.size();
  if (to > widest) {
    from = first > widest / 3 ? first - widest / 3 : 0;
    to = std::min(from + widest, shown.cells.size());
    last = std::min(last, std::max(to, first + 1));
  }
  std::string number = std::to_string(at.line);
  std::string margin(number.size() < 5 ? 5 - number.size() : 0, ' ');
  out << margin << number << " | ";
  if (from > 0) {
    out << "… ";
  }
  for (size_t i = from; i < to; ++i) {
    out << shown.cells[i];
  }
  if (to < shown.cells.size()) {
    out << " …";
  }
  out << "\n" << std::string(std::max<size_t>(number.size(), 5), ' ') << " | ";
  out << std::string(first - from + (from > 0 ? 2 : 0), ' ') << '^';
  out << std::string(last - first - 1, '~');
  if (!label.empty()) {
    out << ' ' << label;
  }
  out << "\n";
}

void writeJsonString(std::ostream &out, std::string_view text) {
  static const char digits[] = "0123456789abcdef";
  out << '"';
  for (size_t i = 0; i < text.size();) {
    unsigned char c = text[i];
    size_t length = sequenceLength(text.substr(i));
    if (length == 0) {
      out << "\\ufffd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (c == '\n') {
      out << "\\n";
    } else if (c == '\t') {
      out << "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      out << "\\u00" << digits[c >> 4] << digits[c & 15];
    } else {
      out << text.substr(i, length);
    }
    i += length;
  }
  out << '"';
}

void writeJsonPlace(std::ostream &out, const SourceManager &sources,
                    const SourceRange &range) {
  if (!range.isValid()) {
    out << "\"file\": null";
    return;
  }
  LineColumn begin = sources.lineColumn(range.file, range.begin);
  LineColumn end = sources.lineColumn(range.file, range.end);
  out << "\"file\": ";
  writeJsonString(out, sources.file(range.file).name);
  out << ", \"line\": " << begin.line << ", \"column\": " << begin.column
      << ", \"endLine\": " << end.line << ", \"endColumn\": " << end.column
      << ", \"begin\": " << range.begin << ", \"end\": " << range.end;
}

} // namespace

void DiagnosticEngine::renderText(std::ostream &out) const {
  size_t shown = 0;
  for (const Diagnostic &d : diagnostics) {
    if (++shown > mostShown) {
      out << "… and " << diagnostics.size() - mostShown << " more\n";
      break;
    }
    if (d.range.isValid()) {
      out << sources.describe(d.range) << ": ";
    }
    out << spelling(d.severity) << '[' << codeOf(d.kind) << "]: " << d.message
        << "\n";
    if (d.range.isValid()) {
      renderSnippet(out, sources, d.range, d.label);
    }
    for (const DiagnosticNote &note : d.notes) {
      if (note.range.isValid()) {
        out << sources.describe(note.range) << ": ";
      }
      out << "note: " << note.message << "\n";
      if (note.range.isValid()) {
        renderSnippet(out, sources, note.range, "");
      }
    }
    for (const std::string &help : d.help) {
      out << "help: " << help << "\n";
    }
  }
}

void DiagnosticEngine::renderJson(std::ostream &out) const {
  out << "[";
  const char *separator = "\n";
  for (const Diagnostic &d : diagnostics) {
    out << separator << "  {\"severity\": \"" << spelling(d.severity)
        << "\", \"code\": \"" << codeOf(d.kind) << "\", \"kind\": \""
        << info(d.kind).name << "\", \"message\": ";
    writeJsonString(out, d.message);
    out << ", \"label\": ";
    writeJsonString(out, d.label);
    out << ", ";
    writeJsonPlace(out, sources, d.range);
    out << ", \"notes\": [";
    for (size_t i = 0; i < d.notes.size(); ++i) {
      out << (i ? ", " : "") << "{\"message\": ";
      writeJsonString(out, d.notes[i].message);
      out << ", ";
      writeJsonPlace(out, sources, d.notes[i].range);
      out << "}";
    }
    out << "], \"help\": [";
    for (size_t i = 0; i < d.help.size(); ++i) {
      out << (i ? ", " : "");
      writeJsonString(out, d.help[i]);
    }
    out << "]}";
    separator = ",\n";
  }
  out << "\n]\n";
}

std::string DiagnosticEngine::text() const {
  std::ostringstream out;
  renderText(out);
  return out.str();
}

std::string DiagnosticEngine::json() const {
  std::ostringstream out;
  renderJson(out);
  return out.str();
}

} // namespace cleave
