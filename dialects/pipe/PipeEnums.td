//===- PipeEnums.td - Kinds of sections and messages -------*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With the numbers of runtime/format/Plan.fbs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_PIPE_PIPEENUMS
#define CLEAVE_DIALECTS_PIPE_PIPEENUMS

include "mlir/IR/EnumAttr.td"

def Pipe_SectionKind : I32EnumAttr<"SectionKind", "which action runs it", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">]> {
  let cppNamespace = "::cleave::pipe";
}

def Pipe_Direction : I32EnumAttr<"Direction", "which way a message goes", [
    I32EnumAttrCase<"Activation", 0, "activation">,
    I32EnumAttrCase<"Gradient", 1, "gradient">]> {
  let cppNamespace = "::cleave::pipe";
}

#endif // CLEAVE_DIALECTS_PIPE_PIPEENUMS
