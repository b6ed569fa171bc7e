#include "lang/schedule/Schedules.h"

#include "lang/schedule/Program.h"
#include "lang/schedule/ReadFile.h"

#include <algorithm>
#include <map>

using namespace cleave;
using namespace cleave::ast;
using cleave::sema::Value;

namespace cleave::scheduling {

SourceRange Evaluated::rangeOf(const schedule::Action &action) const {
  if (action.source < sources.size()) {
    return sources[action.source];
  }
  return decl ? decl->name.range : SourceRange();
}

std::vector<const ScheduleDecl *>
allSchedules(const std::vector<std::unique_ptr<File>> &files) {
  std::vector<const ScheduleDecl *> found;
  for (const std::unique_ptr<File> &file : files) {
    for (const std::unique_ptr<Decl> &decl : file->decls) {
      if (auto *schedule = dynCast<ScheduleDecl>(decl)) {
        found.push_back(schedule);
      }
    }
  }
  return found;
}

const ScheduleDecl *
findSchedule(const std::vector<std::unique_ptr<File>> &files,
             const CallExpr &call, DiagnosticEngine &diags) {
  const std::string &wanted = call.callee.parts.back().text;
  const ScheduleDecl *found = nullptr;
  std::vector<std::string> names;
  for (const ScheduleDecl *decl : allSchedules(files)) {
    names.push_back(decl->name.text);
    // The file that says it goes first, then the last that it uses.
    bool isOwn = found && found->range.file == call.callee.range.file;
    if (decl->name.text == wanted &&
        (!isOwn || decl->range.file == found->range.file)) {
      found = decl;
    }
  }
  if (!found) {
    diags
        .error(Diag::UnknownSchedule, call.callee.range,
               "unknown schedule `" + wanted + "`")
        .help(names.empty() ? "add `use std.schedules` at the head of the file"
                            : suggestion(wanted, names));
  }
  return found;
}

namespace {

/// One schedule with one set of sizes.
class Evaluation {
public:
  Evaluation(const ScheduleDecl &decl, const CallExpr *call, const Sizes &sizes,
             SourceRange use, DiagnosticEngine &diags,
             const sema::Environment *environment)
      : decl(decl), call(call), sizes(sizes),
        use(use.isValid() ? use : decl.name.range), diags(diags) {
    if (environment) {
      outer = environment;
    }
  }

  std::optional<Evaluated> run();
  std::optional<Evaluated> read(SourceManager &sources);

private:
  bool error(SourceRange range, std::string message, std::string help = "");
  bool takes(const char *name) const;
  bool checkSizes();
  bool findChunks();
  bool bindArguments();
  bool bindParameters();
  bool runStages();
  void noteSizes(size_t first, int64_t stage);

  const ScheduleDecl &decl;
  const CallExpr *call;
  const Sizes &sizes;
  SourceRange use;
  DiagnosticEngine &diags;
  sema::Environment empty;
  const sema::Environment *outer = &empty;
  std::map<std::string, Value, std::less<>> arguments;
  sema::Environment parameters;
  Evaluated result;
};

} // namespace

static bool isSize(std::string_view name) {
  return name == "stage" || name == "stages" || name == "micro" ||
         name == "chunks";
}

bool Evaluation::error(SourceRange range, std::string message,
                       std::string help) {
  diags.error(Diag::BadSchedule, range, std::move(message))
      .help(std::move(help));
  return false;
}

bool Evaluation::takes(const char *name) const {
  for (const Param &param : decl.params) {
    if (param.name.text == name) {
      return true;
    }
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

bool Evaluation::checkSizes() {
  struct Limit {
    const char *what;
    int64_t size, most;
  };
  for (const Limit &limit :
       {Limit{"stages", sizes.stages, schedule::mostStages},
        Limit{"microbatches", sizes.micros, schedule::mostMicros},
        Limit{"chunks", sizes.chunks.value_or(1), schedule::mostChunks}}) {
    if (limit.size < 1 || limit.size > limit.most) {
      return error(use, "a pipeline has 1 to " + std::to_string(limit.most) +
                            " " + limit.what + ", not " +
                            std::to_string(limit.size));
    }
  }
  return true;
}

bool Evaluation::findChunks() {
  for (const Param &param : decl.params) {
    if (param.name.text == "chunks" && param.defaultValue) {
      result.defaultChunks = sema::evaluateInteger(
          *param.defaultValue, parameters, diags, "the default of `chunks`");
      if (!result.defaultChunks) {
        return false;
      }
    }
  }
  int64_t chunks = sizes.chunks.value_or(result.defaultChunks.value_or(1));
  if (chunks < 1 || chunks > schedule::mostChunks) {
    return error(decl.name.range, "`" + decl.name.text + "` wants " +
                                      std::to_string(chunks) + " chunks");
  }
  if (chunks > 1 && (decl.deal == ScheduleDecl::Plain || !takes("chunks"))) {
    return error(use,
                 "`" + decl.name.text +
                     "` runs one chunk for each stage, not " +
                     std::to_string(chunks),
                 "a schedule of several takes `chunks`, and says `dealt` or "
                 "`folded` after its parameters");
  }
  if (sizes.stages * sizes.micros * chunks > schedule::mostCells) {
    return error(use,
                 "stages * microbatches * chunks of a schedule are at most " +
                     std::to_string(schedule::mostCells));
  }
  result.schedule.chunks = static_cast<int32_t>(chunks);
  return true;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

bool Evaluation::bindArguments() {
  std::vector<std::string> names;
  for (const Param &param : decl.params) {
    if (!isSize(param.name.text)) {
      names.push_back(param.name.text);
    }
  }
  size_t position = 0;
  for (size_t i = 0; call && i < call->args.size(); ++i) {
    const Arg &arg = call->args[i];
    std::string name = arg.name                  ? arg.name->text
                       : position < names.size() ? names[position++]
                                                 : "";
    bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (!known) {
      return error(
          arg.range,
          isSize(name) ? "`" + name + "` is given by the pipeline"
          : name.empty()
              ? "`" + decl.name.text + "` takes " +
                    std::to_string(names.size()) + " arguments beside its sizes"
              : "`" + decl.name.text + "` has no parameter `" + name + "`",
          isSize(name) ? "" : suggestion(name, names));
    }
    std::optional<Value> value = sema::evaluate(*arg.value, *outer, diags);
    if (!value) {
      return false;
    }
    if (!arguments.emplace(name, std::move(*value)).second) {
      return error(arg.range, "`" + name + "` is given twice");
    }
  }
  return true;
}

bool Evaluation::bindParameters() {
  for (const Param &param : decl.params) {
    const std::string &name = param.name.text;
    if (isSize(name)) {
      continue;
    }
    auto given = arguments.find(name);
    if (given == arguments.end() && !param.defaultValue) {
      return error(param.name.range,
                   "`" + name + "` of `" + decl.name.text + "` has no value",
                   "a schedule is given `stage`, `stages`, `micro` and "
                   "`chunks`; other parameters need a default or an argument");
    }
    std::optional<Value> value =
        given != arguments.end()
            ? given->second
            : sema::evaluate(*param.defaultValue, parameters, diags);
    if (!value) {
      return false;
    }
    if (param.type && param.type->text != "int") {
      return error(param.type->range, "a parameter of a schedule is an `int`");
    }
    if (param.type && !value->isInteger()) {
      return error(param.name.range,
                   "`" + name + "` is an integer, not " + value->describe());
    }
    parameters.values[name] = std::move(*value);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Evaluation::noteSizes(size_t first, int64_t stage) {
  diags.noteSince(first, decl.name.range,
                  "in stage " + std::to_string(stage) + " of `" +
                      decl.name.text + "` with " +
                      describeSizes(result.schedule));
}

bool Evaluation::runStages() {
  Program program(decl, result.sources, diags);
  for (int32_t stage = 0; stage < result.schedule.stages; ++stage) {
    sema::Environment own;
    own.parent = &parameters;
    if (takes("stage")) {
      own.values["stage"] = Value::ofInteger(stage);
    }
    size_t first = diags.reportCount();
    if (!program.run(own, result.schedule)) {
      noteSizes(first, stage);
      return false;
    }
  }
  return true;
}

std::optional<Evaluated> Evaluation::run() {
  result.decl = &decl;
  result.schedule.name = decl.name.text;
  result.schedule.placement =
      decl.deal == ScheduleDecl::Dealt    ? schedule::Placement::Dealt
      : decl.deal == ScheduleDecl::Folded ? schedule::Placement::Folded
                                          : schedule::Placement::Plain;
  if (!checkSizes()) {
    return std::nullopt;
  }
  result.schedule.stages = static_cast<int32_t>(sizes.stages);
  result.schedule.micros = static_cast<int32_t>(sizes.micros);
  auto give = [&](const char *name, int64_t value) {
    if (takes(name)) {
      parameters.values[name] = Value::ofInteger(value);
    }
  };
  give("stages", sizes.stages);
  give("micro", sizes.micros);
  if (!findChunks()) {
    return std::nullopt;
  }
  give("chunks", result.schedule.chunks);
  if (!bindArguments() || !bindParameters() || !runStages()) {
    return std::nullopt;
  }
  // One chunk needs no word for where it lies.
  if (result.schedule.chunks == 1) {
    result.schedule.placement = schedule::Placement::Plain;
  }
  return std::move(result);
}

std::optional<Evaluated> Evaluation::read(SourceManager &sources) {
  if (call && !call->args.empty()) {
    error(call->args[0].range, "a schedule from a file takes no arguments");
    return std::nullopt;
  }
  std::optional<Evaluated> found = readDeclaredFile(decl, sources, diags);
  if (!found || !checkSizes()) {
    return std::nullopt;
  }
  const schedule::Schedule &file = found->schedule;
  schedule::Schedule wanted;
  wanted.stages = static_cast<int32_t>(sizes.stages);
  wanted.micros = static_cast<int32_t>(sizes.micros);
  wanted.chunks = static_cast<int32_t>(sizes.chunks.value_or(file.chunks));
  if (file.stages != wanted.stages || file.micros != wanted.micros ||
      file.chunks != wanted.chunks) {
    diags
        .error(Diag::BadSchedule, use,
               "`" + decl.name.text + "` has " + describeSizes(file) +
                   ", the pipeline " + describeSizes(wanted))
        .note(decl.pathRange, "the sizes are those of this file");
    return std::nullopt;
  }
  return found;
}

std::string describeSizes(const schedule::Schedule &schedule) {
  auto counted = [](int64_t n, const char *one, const char *many) {
    return std::to_string(n) + " " + (n == 1 ? one : many);
  };
  return counted(schedule.stages, "stage", "stages") + ", " +
         counted(schedule.micros, "microbatch", "microbatches") + " and " +
         counted(schedule.chunks, "chunk", "chunks");
}

std::optional<Evaluated>
evaluateSchedule(const ScheduleDecl &decl, const CallExpr *call,
                 const Sizes &sizes, SourceRange use, SourceManager &sources,
                 DiagnosticEngine &diags,
                 const sema::Environment *environment) {
  Evaluation evaluation(decl, call, sizes, use, diags, environment);
  return decl.path ? evaluation.read(sources) : evaluation.run();
}

} // namespace cleave::scheduling
