//===- CommandLine.cpp - From arguments to a command ----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only file that knows CLI11, and so the only one with exceptions.
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/CommandLine.h"

#include "lang/diagnostics/Diagnostics.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/Phases.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <csignal>
#include <iostream>
#include <limits>

namespace cleave::tools {

namespace {

/// Options that several commands share, each said once.
struct Adder {
  CLI::App &app;
  Options &options;

  void source(const char *text = "a source file (.clv)") {
    app.add_option("FILE", options.file, text)->required();
  }
  void instance() {
    app.add_option(
           "-D", options.defines,
           "sets a parameter of the model, or of its plans: -D layers=24 "
           "(repeatable)")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
    app.add_option("--plan", options.plan,
                   "only this plan of the set; default: all of them");
    app.add_option("--run", options.run,
                   "the run of the file, where there are several");
    app.add_option("--model", options.model,
                   "the model, where the file has several and no run");
  }
  void diagnostics() {
    app.add_flag("--json-diagnostics", options.jsonDiagnostics,
                 "errors and warnings as JSON on standard error");
  }
  void target() {
    app.add_option("--target", options.target,
                   "processor to build for: `host`, or `baseline` (x86-64-v3, "
                   "runs on machines without AVX-512)")
        ->check(CLI::IsMember({"host", "baseline"}));
    app.add_option("--kernel-cache", options.kernelCache,
                   "where compiled kernels are kept for other builds: a folder "
                   "that may be deleted at any time, or `off`; default: "
                   "$CLEAVE_KERNEL_CACHE, or cleave/kernels in $XDG_CACHE_HOME")
        ->type_name("FOLDER|off");
  }
};

} // namespace

/// Refuses what is no whole number, or below zero.
static std::string checkCount(const std::string &text) {
  int64_t count = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, count);
  return error == std::errc() && stop == end && count >= 0
             ? ""
             : "`" + text + "` is not a whole number of at least 0";
}

/// Refuses what is no whole number, or below one.
static std::string checkSize(const std::string &text) {
  return !checkCount(text).empty() || std::stoll(text) < 1
             ? "`" + text + "` is not a whole number of at least 1"
             : "";
}

/// Refuses what is no finite number, or below zero.
static std::string checkPositive(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number >= 0 &&
                 number <= std::numeric_limits<double>::max()
             ? ""
             : "`" + text + "` is not a number of at least 0";
}

/// The options of `cleave schedule`.
static void addSchedule(Adder adder, Options &options) {
  adder.source("a schedule of the standard library (`zb_v`), a source file "
               "(.clv), or actions in PyTorch's notation (.csv)");
  CLI::App &app = adder.app;
  auto size = [&](const char *name, int64_t &value, const char *text) {
    app.add_option(name, value, text)->check(checkSize);
  };
  size("--stages", options.stages, "stages; default: 4, or the file's");
  size("--micro", options.micros, "microbatches; default: 8, or the file's");
  size("--chunks", options.chunks,
       "chunks for each stage; default: the schedule's, else 1");
  app.add_option("--schedule", options.schedule,
                 "only this schedule of the file; default: all of them");
  auto time = [&](const char *name, double &value, const char *text) {
    app.add_option(name, value, text)
        ->capture_default_str()
        ->check(checkPositive);
  };
  time("--forward", options.forward,
       "time of one microbatch's forward on a stage");
  time("--input", options.inputGradient, "of its input gradient");
  time("--weight", options.weightGradient, "of its weight gradient");
  time("--link", options.link, "of its message from stage to stage");
  app.add_option("--columns", options.columns,
                 "width of the picture; 0: all of it")
      ->capture_default_str()
      ->check(checkCount);
  CLI::Option *json = app.add_flag("--json", options.json, "as JSON");
  CLI::Option *csv =
      app.add_flag("--csv", options.csv,
                   "print the actions in PyTorch's notation instead")
          ->excludes(json);
  app.add_flag("--older", options.olderCsv,
               "with --csv: its older letters (B, W, BW for I, W, B)")
      ->needs(csv);
  adder.diagnostics();
}

/// Whether the first argument is none of the commands; says so.
static bool isUnknownCommand(const CLI::App &app, int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return false;
  }
  std::vector<std::string> known;
  for (const CLI::App *command : app.get_subcommands({})) {
    known.push_back(command->get_name());
    if (known.back() == argv[1]) {
      return false;
    }
  }
  std::cerr << "error: there is no command `" << argv[1]
            << "`\nhelp: " << suggestion(argv[1], known) << "\n";
  return true;
}

int runCommandLine(int argc, char **argv) {
  Options options;
  CLI::App app{"cleave: sharding plans, compiled.\n"
               "A plan can change speed and memory; it can never change the "
               "result.",
               "cleave"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "cleave " CLEAVE_VERSION);
  app.footer(
      "Exit codes: 0 done, 1 the program or its input is wrong, 2 the "
      "command line is wrong, 3 a device was lost, 130 stopped by ^C (after "
      "saving).\n"
      "`cleave COMMAND --help` says more.");
  app.failure_message(CLI::FailureMessage::simple);
  int (*command)(const Options &) = nullptr;

  auto add = [&](const char *name, const char *text,
                 int (*function)(const Options &)) {
    CLI::App *sub = app.add_subcommand(name, text);
    sub->callback([&command, function] { command = function; });
    return Adder{*sub, options};
  };

  Adder check = add("check", "diagnose a file without building", checkCommand);
  check.source();
  check.instance();
  check.diagnostics();

  Adder build = add("build", "compile every plan of the set into one plan file",
                    buildCommand);
  build.source();
  build.instance();
  build.app.add_option("-o,--output", options.output,
                       "the plan file; default: FILE with .plan");
  build.app
      .add_option("--stop-after", options.stopAfter,
                  "stop after a phase and print it: " + phaseList())
      ->check(CLI::IsMember(phaseNames()));
  build.app.add_flag("--dump", options.dump,
                     "print the program after every phase, on standard error");
  build.app.add_flag("--probe", options.probe,
                     "also give every gradient as an output (as verify does)");
  build.target();
  build.diagnostics();

  Adder explain = add("explain",
                      "collectives, bytes and memory of each plan, and why; or "
                      "a diagnostic's code",
                      explainCommand);
  explain.source("a source file (.clv), or a code such as CLV0207");
  explain.instance();
  explain.app
      .add_option("--fast-link", options.fastLink,
                  "GB/s that a device sends and receives, to predict how long "
                  "a transfer between plans takes")
      ->check(checkPositive);
  explain.app
      .add_option("--slow-link", options.slowLink,
                  "the same between groups of the first hardware level (nodes)")
      ->check(checkPositive);
  explain.app.add_flag("--json", options.json, "as JSON");
  explain.diagnostics();

  Adder verify = add("verify",
                     "run every plan and compare with the double-precision "
                     "reference: loss, gradients, updated state",
                     verifyCommand);
  verify.source();
  verify.instance();
  verify.app.add_flag("--full", options.full,
                      "the model's own sizes, not its `reduced` ones");
  verify.app
      .add_option("--tolerance", options.tolerance,
                  "largest relative error that passes; else 1e-5, and in "
                  "mixed precision also what rounding leaves open")
      ->check(checkPositive);
  verify.app.add_option("--seed", options.seed, "of parameters and data")
      ->capture_default_str();
  verify.target();
  verify.diagnostics();

  Adder run = add("run", "train with a plan file", runCommand);
  run.source("a plan file");
  run.app
      .add_option("--data", options.data,
                  "a text (UTF-8), or token ids (.u16, .i32)")
      ->required();
  run.app.add_option("--plan", options.plan,
                     "the plan to run; default: the set's start");
  run.app
      .add_option("--at", options.at,
                  "hop to another plan of the set after so many steps: --at "
                  "200=deep, --at 300=micro(8); --at 200=overlapped(deep): "
                  "while the next step is made (repeatable)")
      ->type_name("STEP=PLAN")
      ->allow_extra_args(false);
  run.app
      .add_option("--hop-memory", options.hopMemory,
                  "bytes that a device may need for a hop beside the larger of "
                  "its old and new state (64MiB)")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("64MiB");
  run.app
      .add_option("--steps", options.steps,
                  "optimizer steps; with --resume those of the whole run")
      ->capture_default_str()
      ->check(checkCount);
  run.app
      .add_option("--seed", options.seed, "of parameters, dropout and order")
      ->capture_default_str();
  run.app.add_option("--save", options.save,
                     "write a checkpoint (safetensors) at the end");
  CLI::Option *load = run.app.add_option(
      "--load", options.load, "start from a checkpoint, of any plan");
  run.app
      .add_option("--resume", options.resume,
                  "go on from the newest whole snapshot in a folder, under its "
                  "plan or --plan, and write further ones there")
      ->excludes(load);
  run.app.add_option("--snapshots", options.snapshots,
                     "write snapshots of the state into a folder, while "
                     "training goes on");
  run.app
      .add_option("--snapshot-every", options.snapshotEvery,
                  "steps between snapshots; default: as the run says, or 50")
      ->check(checkSize);
  run.app.add_option("--keep", options.keep, "snapshots to keep, the newest")
      ->capture_default_str()
      ->check(checkSize);
  run.app.add_option("--trace", options.trace,
                     "write a timeline that Perfetto opens");
  run.app.add_flag("--profile", options.profile,
                   "say at the end where the time of steps went, by operation "
                   "and source line, beside what this machine does at best");
  run.app.add_option("--profile-json", options.profileJson,
                     "write that as JSON, with every operation");
  run.app.add_option("--metrics", options.metrics,
                     "write a JSON line for each step");
  run.app.add_option("--prometheus", options.prometheus,
                     "write the numbers of the run now for Prometheus, every "
                     "few seconds");
  run.app.add_option("--name", options.name,
                     "the name by which `cleave hop` reaches the run; default: "
                     "that of the source's run");
  run.app.add_option("--dump-batches", options.dumpBatches,
                     "write the token windows of every step as raw i32");
  run.app.add_flag("--quiet", options.quiet, "no progress line");

  Adder hop = add("hop", "ask a run that is under way to hop to another plan",
                  hopCommand);
  hop.app.add_option("RUN", options.run, "the run's name")->required();
  hop.app.add_option("PLAN", options.plan,
                     "the plan to go on under, overlapped(PLAN) to go there "
                     "while the next step is made, or micro(8)");
  hop.app.add_flag("--status", options.status,
                   "only say where the run is, and which plans it has");

  Adder sample =
      add("sample", "generate text from a checkpoint", sampleCommand);
  sample.source("a plan file");
  sample.app.add_option("--load", options.load, "the checkpoint")->required();
  sample.app.add_option("--plan", options.plan, "the plan to run");
  sample.app.add_option("--prompt", options.prompt, "text to go on from");
  sample.app.add_option("--length", options.length, "characters to generate")
      ->capture_default_str()
      ->check(checkCount);
  sample.app
      .add_option("--temperature", options.temperature,
                  "0 takes the likeliest character each time")
      ->capture_default_str()
      ->check(checkPositive);
  sample.app.add_option("--seed", options.seed, "of the draws")
      ->capture_default_str();

  Adder inspect =
      add("inspect", "print what a plan file holds", inspectCommand);
  inspect.source("a plan file");
  inspect.app.add_option("--plan", options.plan, "only this plan");

  addSchedule(add("schedule", "prove a pipeline schedule and draw its timeline",
                  scheduleCommand),
              options);

  // Writing past a limit on file sizes is an error to report, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  if (isUnknownCommand(app, argc, argv)) {
    return WrongCommand;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    int code = app.exit(error);
    return code == 0 ? Done : WrongCommand;
  }
  return command(options);
}

} // namespace cleave::tools
