#include "lang/parse/Loader.h"

#include "lang/parse/Parser.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace cleave {

namespace fs = std::filesystem;

const ast::File *Program::find(FileId id) const {
  for (const auto &file : files) {
    if (file->id == id) {
      return file.get();
    }
  }
  return nullptr;
}

namespace {

// `use` chains may be this long; a walk over files recurses.
constexpr size_t longestChain = 256;

std::string withoutDots(const fs::path &path) {
  return path.lexically_normal().generic_string();
}

// One name for a file, however it is written.
std::string identityOf(const std::string &path) {
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  return error ? withoutDots(path) : canonical.string();
}

bool readFile(const std::string &path, std::string &text, std::string &why) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    why = "it is a directory";
    return false;
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  if (!stream || (stream.peek() != EOF && !(content << stream.rdbuf()))) {
    why = errno ? std::strerror(errno) : "it cannot be read";
    return false;
  }
  text = std::move(content).str();
  return true;
}

std::vector<std::string> sourcesIn(const fs::path &directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".clv") {
      names.push_back(it->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Loading {
public:
  Loading(const LoadOptions &options, SourceManager &sources,
          DiagnosticEngine &diags)
      : options(options), sources(sources), diags(diags) {}

  // The id of the file at `path`, read now or before; noFile if it failed. The
  // text is given for the root of loadText.
  FileId load(const std::string &path, SourceRange use,
              std::string *given = nullptr);
  std::unique_ptr<Program> program = std::make_unique<Program>();

private:
  struct Active {
    std::string identity;
    std::string path;
    SourceRange use; // the `use` that led here
  };

  void follow(ast::Use &use, const std::string &from);
  std::string findModule(const ast::Use &use);
  void reportMissing(const std::string &path, SourceRange use,
                     const std::string &why);
  void reportCycle(const std::string &identity, SourceRange use);

  const LoadOptions &options;
  SourceManager &sources;
  DiagnosticEngine &diags;
  std::map<std::string, FileId> known; // by identity
  std::vector<Active> active;
};

void Loading::reportMissing(const std::string &path, SourceRange use,
                            const std::string &why) {
  auto error = diags.error(Diag::FileNotFound, use,
                           "cannot read `" + path + "`: " + why);
  fs::path directory = fs::path(path).parent_path();
  auto close =
      didYouMean(fs::path(path).stem().string(),
                 sourcesIn(directory.empty() ? fs::path(".") : directory));
  if (close) {
    error.help("did you mean `" + withoutDots(directory / (*close + ".clv")) +
               "`?");
  } else if (use.isValid()) {
    error.help("the path is relative to `" + sources.file(use.file).name + "`");
  } else {
    error.help("check the path");
  }
}

void Loading::reportCycle(const std::string &identity, SourceRange use) {
  size_t first = 0;
  while (active[first].identity != identity) {
    ++first;
  }
  bool itself = first + 1 == active.size();
  auto error =
      diags.error(Diag::UseCycle, use,
                  itself ? "`" + active[first].path + "` uses itself"
                         : "`" + active[first].path +
                               "` is used by a file that it uses itself");
  for (size_t i = first + 1; i < active.size(); ++i) {
    error.note(active[i].use, "`" + active[i].path + "` is used here");
  }
  error.help(itself ? "remove this `use`"
                    : "move what both need to a file of its own");
}

// The path of a module, or "" after reporting.
std::string Loading::findModule(const ast::Use &use) {
  const std::vector<ast::Name> &parts = use.module.parts;
  std::string name = use.module.text();
  if (parts[0].text != "std" || parts.size() < 2) {
    diags.error(Diag::FileNotFound, use.range, "unknown module `" + name + "`")
        .help("modules are `std.NAME`; a file of your own is used by its path: "
              "`use \"" +
              parts.back().text + ".clv\"`");
    return "";
  }
  fs::path relative;
  for (size_t i = 1; i < parts.size(); ++i) {
    relative /= parts[i].text;
  }
  relative += ".clv";
  std::vector<std::string> candidates;
  for (const std::string &directory : options.stdlib) {
    std::error_code error;
    fs::path path = fs::path(directory) / relative;
    if (fs::is_regular_file(path, error)) {
      return withoutDots(path);
    }
    for (const std::string &module : sourcesIn(path.parent_path())) {
      candidates.push_back(module);
    }
  }
  auto error = diags.error(Diag::FileNotFound, use.range,
                           "the standard library has no `" + name + "`");
  if (options.stdlib.empty()) {
    error.help("no directory of a standard library was given");
  } else {
    std::string prefix = name.substr(0, name.size() - parts.back().text.size());
    for (std::string &candidate : candidates) {
      candidate = prefix + candidate;
    }
    error.help(suggestion(name, candidates));
    for (const std::string &directory : options.stdlib) {
      error.note("looked in `" + directory + "`");
    }
  }
  return "";
}

void Loading::follow(ast::Use &use, const std::string &from) {
  std::string path;
  if (use.isPath) {
    path = withoutDots(fs::path(from).parent_path() / use.path);
  } else {
    path = findModule(use);
    if (path.empty()) {
      return;
    }
  }
  use.target = load(path, use.range);
}

FileId Loading::load(const std::string &path, SourceRange use,
                     std::string *given) {
  std::string identity = identityOf(path);
  for (const Active &open : active) {
    if (open.identity == identity) {
      reportCycle(identity, use);
      return noFile;
    }
  }
  auto [entry, isNew] = known.try_emplace(identity, noFile);
  if (!isNew) {
    return entry->second;
  }
  if (active.size() >= longestChain) {
    diags
        .error(Diag::NestedTooDeeply, use,
               "files use each other more than " +
                   std::to_string(longestChain) + " deep")
        .help("shorten the chain");
    return noFile;
  }
  std::string text, why;
  if (given) {
    text = std::move(*given);
  } else if (!readFile(path, text, why)) {
    reportMissing(path, use, why);
    return noFile;
  }
  FileId id = sources.add(path, std::move(text));
  std::unique_ptr<ast::File> file = parseFile(sources, id, diags);
  if (!file) {
    return noFile;
  }
  active.push_back({identity, path, use});
  for (ast::Use &used : file->uses) {
    follow(used, path);
  }
  active.pop_back();
  program->files.push_back(std::move(file));
  known[identity] = id;
  return id;
}

} // namespace

std::unique_ptr<Program> loadProgram(const std::string &path,
                                     const LoadOptions &options,
                                     SourceManager &sources,
                                     DiagnosticEngine &diags) {
  size_t before = diags.errorCount();
  Loading loading(options, sources, diags);
  loading.load(path, {});
  return diags.errorCount() == before ? std::move(loading.program) : nullptr;
}

std::unique_ptr<Program> loadText(const std::string &path, std::string text,
                                  const LoadOptions &options,
                                  SourceManager &sources,
                                  DiagnosticEngine &diags) {
  size_t before = diags.errorCount();
  Loading loading(options, sources, diags);
  loading.load(path, {}, &text);
  return diags.errorCount() == before ? std::move(loading.program) : nullptr;
}

} // namespace cleave
