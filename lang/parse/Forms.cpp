#include "lang/parse/Forms.h"

#include "CleaveParser.h"

#include <algorithm>

namespace cleave {

namespace {

using P = antlr::CleaveParser;

struct Form {
  size_t block;
  size_t token;
  size_t rule;
  const char *word;
  const char *form;
};

const Form forms[] = {
    {P::RuleFile, P::USE, P::RuleUseFile, "use", "use std.nn, \"other.clv\""},
    {P::RuleFile, P::MODEL, P::RuleModelDecl, "model",
     "model NAME(PARAM = DEFAULT, …) { … }"},
    {P::RuleFile, P::FN, P::RuleFnDecl, "fn",
     "fn NAME(PARAM, …) using DIM, … { … }"},
    {P::RuleFile, P::OPTIMIZER, P::RuleOptimizerDecl, "optimizer",
     "optimizer NAME(PARAM = DEFAULT, …) { … }"},
    {P::RuleFile, P::STRATEGY, P::RuleStrategyDecl, "strategy",
     "strategy NAME(PARAM: TYPE, …) [using AXIS, …] { … }"},
    {P::RuleFile, P::SCHEDULE, P::RuleScheduleDecl, "schedule",
     "schedule NAME(PARAM, …) [dealt | folded] { … }, or schedule NAME from "
     "\"FILE.csv\""},
    {P::RuleFile, P::ALGORITHM, P::RuleAlgorithmDecl, "algorithm",
     "algorithm NAME for FN(PARAM, …) when DIM on AXIS, … { … }"},
    {P::RuleFile, P::PLAN, P::RulePlanDecl, "plan",
     "plan NAME(PARAM = DEFAULT, …) of MODEL { … }"},
    {P::RuleFile, P::RUN, P::RuleRunDecl, "run",
     "run NAME of MODEL with OPTIMIZER(…), … [reproducible] { … }"},
    {P::RuleFile, P::REDUCED, P::RuleReducedDecl, "reduced",
     "reduced MODEL(PARAM: VALUE, …)"},

    {P::RuleCodeBlock, P::DIM, P::RuleDimStmt, "dim",
     "dim NAME = SIZE, NAME of DIM * DIM, …"},
    {P::RuleCodeBlock, P::INPUT, P::RuleInputStmt, "input",
     "input NAME, …: TYPE[DIM, …] [from SOURCE(…)]"},
    {P::RuleCodeBlock, P::OUTPUT, P::RuleOutputStmt, "output",
     "output NAME, …"},
    {P::RuleCodeBlock, P::PARAM, P::RuleParamStmt, "param",
     "param NAME, …: TYPE[DIM, …] ~ INITIAL(…)"},
    {P::RuleCodeBlock, P::LET, P::RuleLetStmt, "let", "let NAME, … = VALUE"},
    {P::RuleCodeBlock, P::VAR, P::RuleVarStmt, "var", "var NAME, … = VALUE"},
    {P::RuleCodeBlock, P::REPEAT, P::RuleRepeatStmt, "repeat",
     "repeat DIM = SIZE { … }"},
    {P::RuleCodeBlock, P::REGION, P::RuleRegionStmt, "region",
     "region NAME { … }"},
    {P::RuleCodeBlock, P::IF, P::RuleCodeIf, "if",
     "if CONDITION { … } else { … }"},
    {P::RuleCodeBlock, P::RETURN, P::RuleReturnStmt, "return", "return VALUE"},
    {P::RuleCodeBlock, P::MINIMIZE, P::RuleMinimizeStmt, "minimize",
     "minimize LOSS"},
    {P::RuleCodeBlock, P::FOR, P::RuleForStmt, "for",
     "for NAME in FIRST .. END { … }"},
    {P::RuleCodeBlock, P::STATE, P::RuleStateStmt, "state",
     "state NAME, … ~ INITIAL"},
    {P::RuleCodeBlock, P::UPDATE, P::RuleUpdateStmt, "update", "update VALUE"},
    {P::RuleCodeBlock, P::FORWARD, P::RuleActionStmt, "forward",
     "forward MICROBATCH"},
    {P::RuleCodeBlock, P::BACKWARD, P::RuleActionStmt, "backward",
     "backward MICROBATCH"},
    {P::RuleCodeBlock, P::INPUT_GRAD, P::RuleActionStmt, "input_grad",
     "input_grad MICROBATCH"},
    {P::RuleCodeBlock, P::WEIGHT_GRAD, P::RuleActionStmt, "weight_grad",
     "weight_grad MICROBATCH"},

    {P::RulePlanBlock, P::MESH, P::RuleMeshStmt, "mesh",
     "mesh [AXIS: SIZE, …] [on [LEVEL: SIZE, …] | on DEVICES]"},
    {P::RulePlanBlock, P::VIEW, P::RuleViewStmt, "view",
     "view [AXIS: SIZE, …]"},
    {P::RulePlanBlock, P::SHARD, P::RuleShardStmt, "shard",
     "shard DIM, … [also] on AXIS * … [else AXIS | else none] [even] "
     "[for SELECTION]"},
    {P::RulePlanBlock, P::PLACE, P::RulePlaceStmt, "place",
     "place SELECTION on AXIS[INDEX], …"},
    {P::RulePlanBlock, P::SAVE, P::RuleKeepStmt, "save", "save SELECTION"},
    {P::RulePlanBlock, P::RECOMPUTE, P::RuleKeepStmt, "recompute",
     "recompute SELECTION"},
    {P::RulePlanBlock, P::OFFLOAD, P::RuleKeepStmt, "offload",
     "offload SELECTION [with NAME: VALUE, …]"},
    {P::RulePlanBlock, P::GATHER, P::RulePerStmt, "gather",
     "gather SELECTION per LOOP"},
    {P::RulePlanBlock, P::REDUCE, P::RulePerStmt, "reduce",
     "reduce SELECTION per LOOP"},
    {P::RulePlanBlock, P::MICRO, P::RuleMicroStmt, "micro",
     "micro DIM of SIZE | micro DIM into NUMBER"},
    {P::RulePlanBlock, P::PIPELINE, P::RulePipelineStmt, "pipeline",
     "pipeline LOOP on AXIS [chunks N] [counting NAME, … | by cost | as [N "
     "LOOP, …], …] with SCHEDULE"},
    {P::RulePlanBlock, P::LOSSY, P::RuleTuneStmt, "lossy",
     "lossy tune COLLECTIVE [on AXIS] [for SELECTION] with NAME: VALUE, …"},
    {P::RulePlanBlock, P::TUNE, P::RuleTuneStmt, "tune",
     "tune COLLECTIVE [on AXIS] [for SELECTION] with NAME: VALUE, …"},
    {P::RulePlanBlock, P::USE, P::RuleUseStmt, "use",
     "use STRATEGY(NAME: VALUE, …) [for SELECTION]"},
    {P::RulePlanBlock, P::IN, P::RuleInStmt, "in", "in SELECTION { … }"},
    {P::RulePlanBlock, P::IF, P::RulePlanIf, "if",
     "if CONDITION { … } else { … }"},
    {P::RulePlanBlock, P::LET, P::RulePlanLet, "let", "let NAME = VALUE"},
    {P::RulePlanBlock, P::EXPECT, P::RuleExpectStmt, "expect",
     "expect [no] COLLECTIVE [on AXIS] [for SELECTION] [== COUNT per LOOP], or "
     "expect CONDITION"},

    {P::RuleRunBlock, P::PLANS, P::RulePlansStmt, "plans",
     "plans NAME = PLAN(…), …"},
    {P::RuleRunBlock, P::START, P::RuleStartStmt, "start", "start NAME"},
    {P::RuleRunBlock, P::VARY, P::RuleVaryStmt, "vary", "vary NAME = RAMP(…)"},
    {P::RuleRunBlock, P::WHEN, P::RuleWhenStmt, "when",
     "when CONDITION [for STEPS] -> PLAN"},
    {P::RuleRunBlock, P::SNAPSHOT, P::RuleSnapshotStmt, "snapshot",
     "snapshot every STEPS"},
    {P::RuleRunBlock, P::EVAL, P::RuleEntryStmt, "eval",
     "eval with NAME: VALUE, … [every STEPS]"},
    {P::RuleRunBlock, P::FORWARD, P::RuleEntryStmt, "forward",
     "forward with NAME: VALUE, … [every STEPS]"},
};

} // namespace

const char *formOf(size_t rule) {
  if (rule == P::RuleAssignStmt) {
    return "NAME = VALUE";
  }
  for (const Form &form : forms) {
    if (form.rule == rule) {
      return form.form;
    }
  }
  return "";
}

size_t ruleOfHead(size_t tokenType, size_t blockRule) {
  for (const Form &form : forms) {
    if (form.token == tokenType && form.block == blockRule) {
      return form.rule;
    }
  }
  return noRule;
}

const std::vector<std::string> &headsOf(size_t blockRule) {
  static const auto collect = [](size_t block) {
    std::vector<std::string> heads;
    for (const Form &form : forms) {
      if (form.block == block) {
        heads.push_back(form.word);
      }
    }
    return heads;
  };
  static const std::vector<std::string> file = collect(P::RuleFile),
                                        code = collect(P::RuleCodeBlock),
                                        plan = collect(P::RulePlanBlock),
                                        run = collect(P::RuleRunBlock);
  return blockRule == P::RuleCodeBlock   ? code
         : blockRule == P::RulePlanBlock ? plan
         : blockRule == P::RuleRunBlock  ? run
                                         : file;
}

const char *homeOf(const std::string &head) {
  for (const Form &form : forms) {
    if (head == form.word) {
      return form.block == P::RuleCodeBlock   ? "a model or a function"
             : form.block == P::RulePlanBlock ? "a plan or a strategy"
             : form.block == P::RuleRunBlock  ? "a run"
                                              : "a file, outside of braces";
    }
  }
  return "";
}

} // namespace cleave
