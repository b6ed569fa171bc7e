#include "lang/schedule/ReadFile.h"

#include "schedule/Csv.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace cleave;
using namespace cleave::ast;

namespace cleave::scheduling {

namespace fs = std::filesystem;

// Far more than any schedule that can be proven here.
static constexpr size_t mostBytes = size_t(256) << 20;

// The text, or why there is none.
static bool readText(const std::string &path, std::string &text,
                     std::string &why) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    why = "it is a directory";
    return false;
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    why = errno ? std::strerror(errno) : "it cannot be read";
    return false;
  }
  // Not the whole at once: it may be a device that never ends.
  char block[1 << 16];
  while (stream.read(block, sizeof block) || stream.gcount() > 0) {
    text.append(block, static_cast<size_t>(stream.gcount()));
    if (text.size() > mostBytes) {
      why = "it has more than 256 MiB";
      return false;
    }
  }
  if (stream.bad()) {
    why = "it cannot be read";
    return false;
  }
  return true;
}

// The range of each action's cell; the actions then count in these.
static std::vector<SourceRange> nameCells(schedule::Schedule &schedule,
                                          FileId file, std::string_view text) {
  std::vector<SourceRange> ranges;
  for (std::vector<schedule::Action> &list : schedule.actions) {
    for (schedule::Action &action : list) {
      size_t end = text.find_first_of(",;) \t\r\n", action.source);
      ranges.push_back({file, action.source,
                        static_cast<uint32_t>(std::min(end, text.size()))});
      action.source = static_cast<uint32_t>(ranges.size() - 1);
    }
  }
  return ranges;
}

static std::optional<Evaluated>
readFile(const std::string &path, const std::string &name, SourceRange use,
         SourceManager &sources, DiagnosticEngine &diags) {
  std::string text, why;
  if (!readText(path, text, why)) {
    diags.error(Diag::BadScheduleFile, use,
                "cannot read `" + path + "`: " + why);
    return std::nullopt;
  }
  FileId file = sources.add(path, std::move(text));
  const std::string &kept = sources.file(file).text;
  auto parsed = schedule::readCsv(kept, name);
  if (auto *error = std::get_if<schedule::CsvError>(&parsed)) {
    auto report = diags.error(Diag::BadScheduleFile,
                              {file, error->begin, error->end}, error->message);
    report.help(error->help);
    if (use.isValid()) {
      report.note(use, "the file is read here");
    }
    return std::nullopt;
  }
  Evaluated result;
  result.schedule = std::move(std::get<schedule::Schedule>(parsed));
  result.sources = nameCells(result.schedule, file, kept);
  return result;
}

std::optional<Evaluated> readDeclaredFile(const ScheduleDecl &decl,
                                          SourceManager &sources,
                                          DiagnosticEngine &diags) {
  fs::path path = *decl.path;
  if (path.is_relative()) {
    path = fs::path(sources.file(decl.range.file).name).parent_path() / path;
  }
  std::optional<Evaluated> result =
      readFile(path.lexically_normal().generic_string(), decl.name.text,
               decl.pathRange, sources, diags);
  if (result) {
    result->decl = &decl;
  }
  return result;
}

std::optional<Evaluated> readScheduleFile(const std::string &path,
                                          SourceManager &sources,
                                          DiagnosticEngine &diags) {
  return readFile(path, fs::path(path).stem().string(), SourceRange(), sources,
                  diags);
}

} // namespace cleave::scheduling
