//===- Spmd.td - The dialect of partitioned programs -------*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_SPMD_SPMD
#define CLEAVE_DIALECTS_SPMD_SPMD

include "dialects/clv/Clv.td"
include "dialects/spmd/SpmdInterfaces.td"

def Spmd_Dialect : Dialect {
  let name = "spmd";
  let cppNamespace = "::cleave::spmd";
  let dependentDialects = ["::cleave::clv::ClvDialect"];
  let summary = "Local values and the collectives between devices";
  let description = [{
    A program of this dialect is what every device of a mesh runs: operations of
    `clv` on local tensors, and collectives. A local tensor's encoding says the
    global size and the split of each dim and over which atoms the value is a
    pending reduction; its shape is that of the largest piece. The module's
    `spmd.mesh` names the atoms.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// The module's attribute that holds the mesh.
    static constexpr llvm::StringLiteral kMesh = "spmd.mesh";
  }];
}

class Spmd_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Spmd_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Spmd_AxisAttr : Spmd_Attr<"Axis", "axis"> {
  let summary = "A named ordered list of atoms: `#spmd.axis<\"data\" = [0, 1]>`";
  let parameters = (ins StringRefParameter<"name">:$label,
                        OptionalArrayRefParameter<"int64_t">:$atoms);
  let assemblyFormat = "`<` $label `=` `[` (`]`) : ($atoms^ `]`)? `>`";
}

def Spmd_MeshAttr : Spmd_Attr<"Mesh", "mesh"> {
  let summary = "The atoms and named axes of a mesh; see layout/Layout.h";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$atomNames,
                        ArrayRefParameter<"int64_t">:$atomSizes,
                        ArrayRefParameter<"::cleave::spmd::AxisAttr">:$axes,
                        "unsigned":$times);
  let hasCustomAssemblyFormat = 1;
}

def Spmd_SplitAttr : Spmd_Attr<"Split", "split"> {
  let summary = "How one dim is cut; see layout::Split";
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$atoms,
                        DefaultValuedParameter<"int64_t", "1">:$unit,
                        OptionalArrayRefParameter<"int64_t">:$cuts,
                        OptionalArrayRefParameter<"int64_t">:$places);
  let hasCustomAssemblyFormat = 1;
}

def Spmd_LocalAttr : Spmd_Attr<"Local", "local", [
    DeclareAttrInterfaceMethods<Clv_NamedDims>,
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let summary = "The layout of a local tensor";
  let description = [{
    `#spmd.local<[batch = 5 on [0], seq = 24, ff = 224 on [1]], sum over [0]>`:
    each dim with its global size and the atoms it is split on (`on #spmd.split<
    …>` where it has units, cuts or places), then the pending reduction.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes,
                        ArrayRefParameter<"::cleave::spmd::SplitAttr">:$splits,
                        OptionalArrayRefParameter<"int64_t">:$partial,
                        EnumParameter<Clv_Reduction>:$reduction);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// `reason`: why it is there; `avoid`: what would avoid it. For `explain`.
class Spmd_Collective<string mnemonic, string text>
    : Op<Spmd_Dialect, mnemonic, [Pure, Spmd_CollectiveInterface]> {
  let summary = text;
  let arguments = (ins Clv_Tensor:$x, DenseI64ArrayAttr:$atoms,
                       DefaultValuedAttr<StrAttr, "\"\"">:$reason,
                       DefaultValuedAttr<StrAttr, "\"\"">:$avoid);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x `over` $atoms attr-dict "
                       "`:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Spmd_AllReduceOp : Spmd_Collective<"all_reduce",
    "the pending reduction over the atoms, on every device">;
def Spmd_ReduceScatterOp : Spmd_Collective<"reduce_scatter",
    "the pending reduction over the atoms, each device its piece of a dim">;
def Spmd_AllGatherOp : Spmd_Collective<"all_gather",
    "the pieces of a dim (or several) that is split on the atoms, on every device">;
def Spmd_AllToAllOp : Spmd_Collective<"all_to_all",
    "atoms move from one dim to another, or change their order">;
def Spmd_ShiftOp : Spmd_Collective<"shift",
    "the pieces of a dim get other cuts on the same atoms, or move along it"> {
  let description = [{
    With `dim`, the result's index along that dim is x's plus `by`, around its
    end.
  }];
  let arguments = (ins Clv_Tensor:$x, DenseI64ArrayAttr:$atoms,
                       DefaultValuedAttr<StrAttr, "\"\"">:$reason,
                       DefaultValuedAttr<StrAttr, "\"\"">:$avoid,
                       OptionalAttr<StrAttr>:$dim,
                       DefaultValuedAttr<I64Attr, "0">:$by);
}
def Spmd_LocalSliceOp : Spmd_Collective<"local_slice",
    "each device keeps its piece of a dim; nothing is sent">;

#endif // CLEAVE_DIALECTS_SPMD_SPMD
