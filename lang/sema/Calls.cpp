// Calls of functions that the language declares.
#include "lang/sema/Elaborator.h"

using namespace cleave;
using namespace cleave::sema;
using namespace cleave::ast;

// Functions may call each other this deep, and a model (or its optimizer) may
// expand to this many calls.
static constexpr size_t deepest = 64, mostCalls = 100000;

Arguments::Arguments(const CallExpr &call) : call(call) {
  for (const Arg &arg : call.args) {
    (arg.name ? named : positional).push_back(&arg);
  }
}

const Arg *Arguments::find(std::string_view name) const {
  for (const Arg *arg : named) {
    if (arg->name->text == name) {
      return arg;
    }
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Dims by name
//===----------------------------------------------------------------------===//

Strings Elaborator::dimNames() {
  Strings result;
  for (const auto &[name, dim] : frame->dims) {
    result.push_back(name);
  }
  return result;
}

std::string Elaborator::resolveDim(const std::string &name, SourceRange range,
                                   bool report) {
  if (auto it = frame->dims.find(name); it != frame->dims.end()) {
    return it->second;
  }
  if (report) {
    auto error =
        diags.error(Diag::UnknownDim, range, "unknown dim " + quoted(name));
    if (frame->fn && dims.find(name)) {
      error.help("a function sees the dims that it lists: `fn " +
                 frame->fn->name.text + "(...) using " + name + "`");
    } else {
      error.help(suggestion(name, dimNames()));
    }
  }
  return {};
}

std::string Elaborator::resolveDim(const Expr &expr, bool report) {
  if (auto *name = dynCast<NameExpr>(&expr)) {
    return resolveDim(name->name, expr.range, report);
  }
  if (report) {
    diags.error(Diag::UnknownDim, expr.range, "the name of a dim is needed");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

// What belongs to the language and has no code yet, by its last name.
static bool isLater(const std::string &name) {
  static const std::set<std::string> later = {
      "conv",    "pool",    "batch_norm", "top_k",       "dispatch",
      "combine", "moe",     "mtp_block",  "attend_rope", "shift",
      "gather",  "scatter", "all_reduce", "all_gather",  "all_to_all"};
  return later.count(name);
}

Val Elaborator::visitCall(const CallExpr &call) {
  std::string name = call.callee.text();
  Found<FnDecl> function =
      frame->kind == Frame::Kind::Optimizer
          ? findFunctionOpenly(program, *frame->file, call.callee)
          : findFunction(program, *frame->file, call.callee);
  if (function) {
    return callFunction(call, function);
  }
  if (isBuiltin(name)) {
    return callBuiltin(call);
  }
  if (isCompileTimeFunction(name)) {
    std::vector<Value> args;
    for (const Arg &arg : call.args) {
      Val value = visit(*arg.value);
      if (value.isError()) {
        return {};
      }
      if (arg.name || !value.isConstant()) {
        diags.error(arg.name ? Diag::BadArguments : Diag::NotCompileTime,
                    arg.range,
                    arg.name ? quoted(name) + " takes no named arguments"
                             : quoted(name) +
                                   " computes when compiling, and "
                                   "this is " +
                                   describe(value));
        return {};
      }
      args.push_back(value.constant);
    }
    std::optional<Value> value = applyFunction(call, std::move(args), diags);
    return value ? Val::of(std::move(*value)) : Val();
  }
  const std::string &last = call.callee.parts.back().text;
  if (isLater(last)) {
    diags
        .error(Diag::LaterOperation, call.callee.range,
               quoted(name) + " is not built yet")
        .help(
            "this version has no convolutions, pooling or routing to experts");
    return {};
  }
  auto error = diags.error(Diag::UnknownFunction, call.callee.range,
                           "unknown function " + quoted(name));
  Strings known = functionNames(program, *frame->file);
  if (call.callee.parts.size() > 1) {
    const std::string &module = call.callee.parts[0].text;
    bool used = false;
    for (const Use &use : frame->file->uses) {
      used |= !use.isPath && use.module.parts.back().text == module;
    }
    if (!used) {
      error.help("is `use std." + module +
                 "` missing at the head of the file?");
      return {};
    }
  } else {
    Strings builtins = builtinNames();
    known.insert(known.begin(), builtins.begin(), builtins.end());
    // `norm(x)` for `nn.norm(x)`.
    for (const std::string &candidate : known) {
      if (candidate.size() > last.size() &&
          candidate.compare(candidate.size() - last.size() - 1,
                            std::string::npos, "." + last) == 0) {
        error.help("did you mean " + quoted(candidate) + "?");
        return {};
      }
    }
  }
  error.help(suggestion(name, known));
  return {};
}

namespace {

// Puts a frame in place, and the old one back.
struct FrameGuard {
  Frame *&slot;
  Frame *saved;
  RegionNode *&nodeSlot;
  RegionNode *savedNode;
  FrameGuard(Frame *&slot, Frame *next, RegionNode *&nodeSlot,
             RegionNode *nextNode)
      : slot(slot), saved(slot), nodeSlot(nodeSlot), savedNode(nodeSlot) {
    slot = next;
    nodeSlot = nextNode;
  }
  ~FrameGuard() {
    slot = saved;
    nodeSlot = savedNode;
  }
};

} // namespace

bool Elaborator::own(RegionNode &where, const std::string &step,
                     SourceRange range, bool isCall, bool isNamed) {
  auto [it, added] =
      where.steps.try_emplace(step, RegionNode::Step{range, isCall});
  where.owns = true;
  if (added) {
    return true;
  }
  if (isCall && !isNamed) {
    diags
        .error(Diag::UnnamedCall, range,
               "this call and an earlier one would both be " +
                   quoted(where.path.empty() ? step : where.path + "/" + step))
        .note(it->second.range, "the earlier one is here")
        .help("give it a name: `... as NAME`");
  } else {
    diags
        .error(Diag::DuplicateName, range,
               "the path " +
                   quoted(where.path.empty() ? step : where.path + "/" + step) +
                   " is taken")
        .note(it->second.range, "it is taken here");
  }
  return false;
}

Val Elaborator::callFunction(const CallExpr &call, Found<FnDecl> function) {
  const FnDecl &fn = *function.decl;
  std::string name = call.callee.text();
  if (llvm::is_contained(callStack, &fn)) {
    diags
        .error(Diag::RecursiveCall, call.range,
               quoted(name) + " calls itself, directly or through others")
        .note(fn.name.range, "it is declared here")
        .help("functions are expanded where they are called; use `repeat` for "
              "loops");
    return {};
  }
  if (callStack.size() >= deepest || ++calls > mostCalls) {
    if (calls <= mostCalls + 1) {
      diags.error(Diag::TooLarge, call.range,
                  callStack.size() >= deepest
                      ? "functions call each other more than " +
                            std::to_string(deepest) + " deep"
                      : "the model expands to more than " +
                            std::to_string(mostCalls) + " calls");
    }
    return {};
  }
  // A parameter for each positional argument, then by name.
  Arguments args(call);
  std::vector<const Arg *> given(fn.params.size(), nullptr);
  std::map<std::string, const Arg *> renames;
  bool good = true;
  auto bad = [&](SourceRange range, const std::string &message,
                 const std::string &help) {
    diags.error(Diag::BadArguments, range, message)
        .note(fn.name.range, quoted(fn.name.text) + " is declared here")
        .help(help);
    good = false;
  };
  if (args.positional.size() > fn.params.size()) {
    bad(args.positional[fn.params.size()]->range,
        quoted(name) + " takes " + std::to_string(fn.params.size()) +
            " arguments, not " + std::to_string(args.positional.size()),
        "");
  }
  for (size_t i = 0; i < std::min(args.positional.size(), given.size()); ++i) {
    given[i] = args.positional[i];
  }
  for (const Arg *arg : args.named) {
    const std::string &written = arg->name->text;
    Strings known;
    bool found = false;
    for (size_t i = 0; i < fn.params.size() && !found; ++i) {
      known.push_back(fn.params[i].name.text);
      if (fn.params[i].name.text == written) {
        found = true;
        if (given[i]) {
          bad(arg->range, quoted(written) + " is given twice", "");
        }
        given[i] = arg;
      }
    }
    for (size_t i = 0; i < fn.dims.size() && !found; ++i) {
      known.push_back(fn.dims[i].text);
      if (fn.dims[i].text == written) {
        found = true;
        if (renames.count(written)) {
          bad(arg->range, quoted(written) + " is given twice", "");
        }
        renames[written] = arg;
      }
    }
    if (!found) {
      bad(arg->name->range,
          quoted(name) + " has neither a parameter nor a dim " +
              quoted(written),
          suggestion(written, known));
    }
  }

  Frame inner;
  inner.kind = Frame::Kind::Fn;
  inner.file = function.file;
  inner.fn = &fn;
  inner.scope = &scopes.emplace_back();
  for (const Name &dim : fn.dims) {
    auto it = renames.find(dim.text);
    std::string resolved;
    if (it != renames.end()) {
      resolved = resolveDim(*it->second->value);
      good &= !resolved.empty();
    } else if (auto seen = frame->dims.find(dim.text);
               seen != frame->dims.end()) {
      resolved = seen->second;
    } else {
      diags
          .error(Diag::UnknownDim, call.callee.range,
                 quoted(name) + " uses dim " + quoted(dim.text) +
                     ", which is not known here")
          .note(dim.range, "it is asked for here")
          .help(frame->fn
                    ? "add it to `using` of " + quoted(frame->fn->name.text) +
                          ", or rename one: `" + dim.text + ": other`"
                    : "declare it with `dim " + dim.text +
                          " = ...`, or rename one: `" + dim.text + ": other`");
      good = false;
    }
    inner.dims[dim.text] = resolved;
  }

  std::string step = call.as ? call.as->text : call.callee.parts.back().text;
  RegionNode *child = updatePath.empty() ? &addNode(*node, step) : node;
  if (child != node) {
    child->function = call.callee.parts.back().text;
  }
  inner.home = child;
  auto bind = [&](const Param &param, Val value) {
    Binding &binding = inner.scope->bindings[param.name.text];
    binding.value = std::move(value);
    binding.home = child;
    binding.range = param.name.range;
  };
  for (size_t i = 0; i < fn.params.size(); ++i) {
    const Param &param = fn.params[i];
    if (param.type && param.type->text == "dim") {
      if (!given[i]) {
        bad(call.range,
            quoted(name) + " needs a dim for " + quoted(param.name.text), "");
        continue;
      }
      std::string dim = resolveDim(*given[i]->value);
      good &= !dim.empty();
      inner.dims[param.name.text] = dim;
      continue;
    }
    if (given[i]) {
      Val value = visit(*given[i]->value);
      if (param.type && param.type->text == "int" && !value.isError() &&
          !(value.isConstant() && value.constant.isInteger())) {
        bad(given[i]->range,
            quoted(param.name.text) +
                " must be an integer known when "
                "compiling, not " +
                describe(value),
            "");
      }
      good &= !value.isError();
      // A parameter's name labels the value that enters the region.
      bind(param, bring(value, *node, *child, param.name.text,
                        given[i]->value->range));
    } else if (param.defaultValue) {
      FrameGuard guard(frame, &inner, node, child);
      Val value = visitConstant(*param.defaultValue);
      good &= !value.isError();
      bind(param, value);
    } else {
      diags
          .error(Diag::MissingArgument, call.range,
                 quoted(name) + " needs a value for " + quoted(param.name.text))
          .note(param.name.range, "the parameter is declared here");
      good = false;
    }
  }
  // Its errors were reported at its first call.
  if (!good || failed.count(&fn)) {
    return {};
  }

  callStack.push_back(&fn);
  {
    FrameGuard guard(frame, &inner, node, child);
    size_t before = diags.errorCount(), reports = diags.reportCount();
    runBlock(fn.body);
    if (!inner.returned && diags.errorCount() == before) {
      diags.error(Diag::MissingReturn, fn.name.range,
                  quoted(fn.name.text) + " has no `return`");
    }
    if (diags.errorCount() != before) {
      failed.insert(&fn);
      diags.noteSince(reports, call.range,
                      quoted(fn.name.text) + " is called here");
    }
  }
  callStack.pop_back();
  if (child != node && child->owns) {
    own(*node, step, call.range, /*isCall=*/true, call.as.has_value());
  }
  if (inner.results.empty()) {
    return {};
  }
  Val result;
  if (inner.results.size() == 1) {
    result = inner.results[0];
  } else {
    result.kind = Val::Kind::Tuple;
    result.items = inner.results;
    for (const Val &item : result.items) {
      if (item.isError()) {
        return {};
      }
    }
  }
  return bring(result, *child, *node, "", call.range);
}
