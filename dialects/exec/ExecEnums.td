//===- ExecEnums.td - The kinds that a plan file knows -----*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// With the numbers of runtime/format/Plan.fbs; compiler/exec checks that they
// agree.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_EXEC_EXECENUMS
#define CLEAVE_DIALECTS_EXEC_EXECENUMS

include "mlir/IR/EnumAttr.td"

class Exec_Enum<string name, string text, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, text, cases> {
  let cppNamespace = "::cleave::exec";
}

def Exec_InitKind : Exec_Enum<"InitKind", "the first value of a leaf", [
    I32EnumAttrCase<"Constant", 0, "constant">,
    I32EnumAttrCase<"Normal", 1, "normal">,
    I32EnumAttrCase<"Uniform", 2, "uniform">]>;

def Exec_InputSource : Exec_Enum<"InputSource", "what fills an input", [
    I32EnumAttrCase<"Tokens", 0, "tokens">,
    I32EnumAttrCase<"Step", 1, "step">,
    I32EnumAttrCase<"Seed", 2, "seed">]>;

def Exec_CollectiveKind : Exec_Enum<"CollectiveKind", "a kind of collective", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Broadcast", 4, "broadcast">,
    I32EnumAttrCase<"Shift", 5, "shift">,
    I32EnumAttrCase<"Slice", 6, "slice">]>;

def Exec_OutputKind : Exec_Enum<"OutputKind", "what an output is", [
    I32EnumAttrCase<"Loss", 0, "loss">,
    I32EnumAttrCase<"GradientNorm", 1, "gradient_norm">,
    I32EnumAttrCase<"Gradient", 2, "gradient">,
    I32EnumAttrCase<"Output", 3, "output">]>;

def Exec_SectionKind : Exec_Enum<"SectionKind", "which step runs a section", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">]>;

def Exec_StepKind : Exec_Enum<"StepKind", "what a stage does in a step", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"InputGradient", 2, "input_gradient">,
    I32EnumAttrCase<"WeightGradient", 3, "weight_gradient">,
    I32EnumAttrCase<"SendActivation", 4, "send_activation">,
    I32EnumAttrCase<"ReceiveActivation", 5, "receive_activation">,
    I32EnumAttrCase<"SendGradient", 6, "send_gradient">,
    I32EnumAttrCase<"ReceiveGradient", 7, "receive_gradient">]>;

def Exec_Placement : Exec_Enum<"Placement", "where a stage's chunks stand", [
    I32EnumAttrCase<"Plain", 0, "plain">,
    I32EnumAttrCase<"Dealt", 1, "dealt">,
    I32EnumAttrCase<"Folded", 2, "folded">]>;

/// Which way a message goes: to the next position, or to the one before.
def Exec_Direction : Exec_Enum<"Direction", "which way a message goes", [
    I32EnumAttrCase<"Activation", 0, "activation">,
    I32EnumAttrCase<"Gradient", 1, "gradient">]>;

/// Of one integer of a kernel: its number is in the text, or comes from an
/// extent or an iteration.
def Exec_IntegerKind : Exec_Enum<"IntegerKind", "what an integer is", [
    I32EnumAttrCase<"Literal", 0, "literal">,
    I32EnumAttrCase<"ExtentSize", 1, "size">,
    I32EnumAttrCase<"ExtentBegin", 2, "begin">,
    I32EnumAttrCase<"Iteration", 3, "iteration">]>;

#endif // CLEAVE_DIALECTS_EXEC_EXECENUMS
