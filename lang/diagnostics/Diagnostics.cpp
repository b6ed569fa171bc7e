#include "lang/diagnostics/Diagnostics.h"

namespace cleave {

DiagnosticBuilder &DiagnosticBuilder::note(SourceRange range,
                                           std::string message) {
  target->notes.push_back({range, std::move(message)});
  return *this;
}

DiagnosticBuilder &DiagnosticBuilder::note(std::string message) {
  return note({}, std::move(message));
}

DiagnosticBuilder &DiagnosticBuilder::help(std::string message) {
  if (!message.empty()) {
    target->help.push_back(std::move(message));
  }
  return *this;
}

DiagnosticBuilder &DiagnosticBuilder::label(std::string text) {
  target->label = std::move(text);
  return *this;
}

DiagnosticBuilder DiagnosticEngine::report(Severity severity, Diag kind,
                                           SourceRange range,
                                           std::string message) {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.kind = kind;
  diagnostic.range = range;
  diagnostic.message = std::move(message);
  diagnostics.push_back(std::move(diagnostic));
  errors += severity == Severity::Error;
  return DiagnosticBuilder(diagnostics.back());
}

DiagnosticBuilder DiagnosticEngine::error(Diag kind, SourceRange range,
                                          std::string message) {
  return report(Severity::Error, kind, range, std::move(message));
}

DiagnosticBuilder DiagnosticEngine::warning(Diag kind, SourceRange range,
                                            std::string message) {
  return report(Severity::Warning, kind, range, std::move(message));
}

DiagnosticBuilder DiagnosticEngine::note(Diag kind, SourceRange range,
                                         std::string message) {
  return report(Severity::Note, kind, range, std::move(message));
}

void DiagnosticEngine::sortFrom(size_t first) {
  // Insertion sort: stable, and nearly sorted is the usual case.
  auto before = [](const SourceRange &a, const SourceRange &b) {
    return a.file != b.file ? a.file < b.file : a.begin < b.begin;
  };
  for (size_t i = first + 1; i < diagnostics.size(); ++i) {
    for (size_t k = i;
         k > first && before(diagnostics[k].range, diagnostics[k - 1].range);
         --k) {
      std::swap(diagnostics[k], diagnostics[k - 1]);
    }
  }
}

void DiagnosticEngine::noteSince(size_t first, SourceRange range,
                                 const std::string &message) {
  for (size_t i = first; i < diagnostics.size(); ++i) {
    if (diagnostics[i].severity == Severity::Error) {
      diagnostics[i].notes.push_back({range, message});
    }
  }
}

void DiagnosticEngine::clear() {
  diagnostics.clear();
  errors = 0;
}

} // namespace cleave
