//===- Sample.cpp - cleave sample -----------------------------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "numerics/Random.h"
#include "runtime/state/Checkpoint.h"
#include "tools/cleave/Options.h"
#include "tools/cleave/Training.h"

#include <algorithm>
#include <cmath>
#include <iostream>

namespace cleave::tools {

/// The id drawn from `logits` at a temperature; `u` is uniform in [0, 1).
static int32_t draw(const float *logits, int64_t count, double temperature,
                    double u) {
  int32_t best =
      static_cast<int32_t>(std::max_element(logits, logits + count) - logits);
  if (temperature == 0) {
    return best;
  }
  std::vector<double> weights(count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    weights[i] = std::exp((logits[i] - logits[best]) / temperature);
    sum += weights[i];
  }
  double rest = u * sum;
  for (int64_t i = 0; i < count; ++i) {
    rest -= weights[i];
    if (rest < 0) {
      return static_cast<int32_t>(i);
    }
  }
  return best;
}

static Status sample(const Options &options) {
  Result<std::unique_ptr<executor::Session>> opened =
      openSession(options.file, options.plan);
  if (!opened) {
    return opened.status();
  }
  executor::Session &session = **opened;
  if (!session.hasProgram("forward")) {
    return Status::error("the model has no `output`, so there is nothing to "
                         "sample from: add `output logits`");
  }
  Result<state::Metadata> metadata = state::loadCheckpoint(
      options.load, session.state(), {.paramsOnly = true});
  if (!metadata) {
    return metadata.status();
  }
  auto found = metadata->find(vocabularyKey);
  if (found == metadata->end()) {
    return Status::error(options.load + " has no vocabulary: it was not "
                                        "trained on a text");
  }
  Result<data::Vocabulary> vocabulary = data::Vocabulary::parse(found->second);
  if (!vocabulary) {
    return vocabulary.status().in(options.load);
  }
  Result<std::vector<int32_t>> prompt = vocabulary->encode(options.prompt);
  if (!prompt) {
    return prompt.status().in("--prompt");
  }
  if (prompt->empty()) {
    return Status::error("--prompt is empty: give at least one character");
  }

  const format::ProgramT &program = session.program("forward");
  if (program.inputs.empty() || program.inputs[0]->sizes.size() != 2 ||
      program.outputs.empty()) {
    return Status::error("`forward` does not go from tokens to one output");
  }
  const format::InputT &input = *program.inputs[0];
  const format::OutputT &output = *program.outputs[0];
  int64_t length = input.sizes[1];
  int64_t classes = output.sizes.empty() ? 0 : output.sizes.back();
  if (output.sizes != std::vector<int64_t>{input.sizes[0], length, classes}) {
    return Status::error("output `" + output.name +
                         "` is not a row of scores for each position");
  }
  classes =
      std::min<int64_t>(classes, static_cast<int64_t>(vocabulary->size()));

  std::vector<int32_t> text = *prompt;
  std::vector<int32_t> window(input.sizes[0] * length);
  std::cout << options.prompt << std::flush;
  for (int64_t i = 0; i < options.length; ++i) {
    // What comes after the last character is masked by causality.
    int64_t used = std::min<int64_t>(static_cast<int64_t>(text.size()), length);
    std::fill(window.begin(), window.end(), 0);
    std::copy(text.end() - used, text.end(), window.begin());
    CLEAVE_TRY(session.run("forward", {{input.name, window}}));
    Result<std::vector<float>> scores =
        session.output("forward", format::OutputKind::Output, output.name);
    if (!scores) {
      return scores.status();
    }
    const float *row = scores->data() + (used - 1) * output.sizes.back();
    int32_t id = draw(row, classes, options.temperature,
                      numerics::uniform(options.seed, "sample", i));
    text.push_back(id);
    std::cout << vocabulary->decode(std::span(&id, 1)) << std::flush;
  }
  std::cout << "\n";
  return Status();
}

int sampleCommand(const Options &options) {
  if (Status status = sample(options); !status) {
    std::cerr << "error: " << status.message() << "\n";
    return status.kind() == ErrorKind::Peer ? Lost : WrongInput;
  }
  return Done;
}

} // namespace cleave::tools
