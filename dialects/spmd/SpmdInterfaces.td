//===- SpmdInterfaces.td - What all collectives answer -----*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SPMD_SPMDINTERFACES
#define CLEAVE_DIALECTS_SPMD_SPMDINTERFACES

include "mlir/IR/OpBase.td"

def Spmd_CollectiveInterface : OpInterface<"CollectiveInterface"> {
  let cppNamespace = "::cleave::spmd";
  let description = [{
    Operations that make a value of one layout from the same value of another.
    What each device must fetch follows from the two types; the atoms say along
    which devices differ, the pending atoms that the result no longer has are
    reduced.
  }];
  let methods = [
    InterfaceMethod<"The atoms along which devices take part, major first.",
                    "::llvm::ArrayRef<int64_t>", "getGroup", (ins), [{}],
                    [{ return $_op.getAtoms(); }]>,
    InterfaceMethod<"all_reduce, all_gather, …", "::llvm::StringRef",
                    "getKindName", (ins), [{}],
                    [{ return $_op->getName().stripDialect(); }]>
  ];
}

#endif // CLEAVE_DIALECTS_SPMD_SPMDINTERFACES
