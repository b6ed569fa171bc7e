//===- Clv.td - The dialect of global programs -------------*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_CLV_CLV
#define CLEAVE_DIALECTS_CLV_CLV

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Clv_Dialect : Dialect {
  let name = "clv";
  let cppNamespace = "::cleave::clv";
  let summary = "Operations on tensors whose dims have names";
  let description = [{
    A program of this dialect is a model, or a whole training step, with
    single-device meaning. Tensors are ranked and static; an encoding names
    their dims (`tensor<5x24xf32, #clv.dims<batch, seq>>`). A dim has one size
    in a program and appears at most once in a type. Operations match operands
    by name: there are no transposes and no positional broadcasts. The order of
    dims in a type is the order in memory, row major, and has no other meaning.

    The same operations stand in partitioned programs, where the encoding is
    `#spmd.local` and shapes are those of the largest piece.

    Products of dims (`head of kv * group`) appear as their factors, sums of
    dims as one value per part.

    Values of bf16 are stored and moved, cast from and to f32, and multiplied by
    contractions, whose results and gradients are f32. Nothing else computes
    with them.

    Every operation carries `clv.scope`, which says to which region of the model
    its results belong and in which role: layouts follow from it.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 0;
  let extraClassDeclaration = [{
    /// The discardable attribute that holds an operation's `ScopeAttr`.
    static constexpr llvm::StringLiteral kScope = "clv.scope";
    /// Of a repeat on local values: how its dim is cut (a #spmd.split). It then
    /// runs over the device's piece, and its index is global.
    static constexpr llvm::StringLiteral kSplit = "clv.split";
  }];
  let hasOperationAttrVerify = 1;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

def Clv_NamedDims : AttrInterface<"NamedDims"> {
  let cppNamespace = "::cleave::clv";
  let description = [{ A tensor encoding that names the dims of its type. }];
  let methods = [
    InterfaceMethod<"The names, one for each dim, in the type's order.",
                    "::llvm::ArrayRef<::mlir::StringAttr>", "getNames">,
    InterfaceMethod<"The global sizes of the dims of a local type, in its "
                    "order; none where the type's shape is global.",
                    "::llvm::ArrayRef<int64_t>", "getSizes", (ins), [{}],
                    [{ return {}; }]>
  ];
}

class Clv_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Clv_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Clv_DimsAttr : Clv_Attr<"Dims", "dims", [
    DeclareAttrInterfaceMethods<Clv_NamedDims>,
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding, ["verifyEncoding"]>]> {
  let summary = "The names of a global tensor's dims: `#clv.dims<batch, seq>`";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static DimsAttr get(::mlir::MLIRContext *context,
                        ::llvm::ArrayRef<::llvm::StringRef> names);
  }];
  let skipDefaultBuilders = 0;
}

def Clv_Role : I32EnumAttr<"Role", "what a value is to the training step", [
    I32EnumAttrCase<"Activations", 0, "activations">,
    I32EnumAttrCase<"Params", 1, "params">,
    I32EnumAttrCase<"Weights", 2, "weights">,
    I32EnumAttrCase<"Gradients", 3, "gradients">,
    I32EnumAttrCase<"Optimizer", 4, "optimizer">,
    I32EnumAttrCase<"Inputs", 5, "inputs">]> {
  let cppNamespace = "::cleave::clv";
}

def Clv_Phase : I32EnumAttr<"Phase", "the part of the step that computes it", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"Update", 2, "update">]> {
  let cppNamespace = "::cleave::clv";
}

def Clv_ScopeAttr : Clv_Attr<"Scope", "scope"> {
  let summary = "Role, phase, region path and label of an operation's results";
  let description = [{
    `path` is the region's path from the model's root, `layer/attention`, empty
    at the top. For params, gradients and optimizer values it is the
    parameter's own path, `layer/attention/wq`. For weights it is the
    parameter's path too, and `reader` is the region that reads it.
    `label` is the `let` that binds the value, or empty.
    Example: `#clv.scope<activations, forward, path = "layer/mlp", label = "h">`.
  }];
  let parameters = (ins EnumParameter<Clv_Role>:$role,
                        EnumParameter<Clv_Phase>:$phase,
                        StringRefParameter<"region path">:$path,
                        OptionalParameter<"::mlir::StringAttr">:$label,
                        OptionalParameter<"::mlir::StringAttr">:$reader);
  let assemblyFormat = [{
    `<` $role `,` $phase `,` struct($path, $label, $reader) `>`
  }];
}

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

def Clv_RuleInterface : OpInterface<"RuleInterface"> {
  let cppNamespace = "::cleave::clv";
  let description = [{
    How an operation behaves when its dims are split. Declared once;
    partitioning, partial values, resharding and byte counts read only this.
  }];
  let methods = [
    InterfaceMethod<"The operation's factors and how operands' pending "
                    "reductions pass through it; see Rule.h.",
                    "::cleave::clv::Rule", "getRule">
  ];
}

def Clv_GradientInterface : OpInterface<"GradientInterface"> {
  let cppNamespace = "::cleave::clv";
  let methods = [
    InterfaceMethod<[{
      Builds the gradients of the operands from those of the results, at the
      builder's insertion point. `results[i]` is null where result i has no
      gradient. `gradients` has one entry per operand, left null where the
      operand has none (integers, booleans, no dependence). A gradient has its
      operand's dims, in any order, and may lack dims or have more: the caller
      sums those the operand lacks and broadcasts those it misses.
    }], "::mlir::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$results,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$gradients)>
  ];
}

def Clv_AttentionInterface : OpInterface<"AttentionInterface"> {
  let cppNamespace = "::cleave::clv";
  let description = [{ What the operations of attention have in common. }];
  let methods = [
    InterfaceMethod<"The dim of the queries.", "::llvm::StringRef", "getSeq">,
    InterfaceMethod<"The dim of the keys.", "::llvm::StringRef", "getKeys">,
    InterfaceMethod<"The dims over which a score sums.", "::mlir::ArrayAttr",
                    "getOver">,
    InterfaceMethod<"The factor of the scores.", "::llvm::APFloat", "getScale">,
    InterfaceMethod<"Whether later keys are hidden.", "bool", "getCausal">,
    InterfaceMethod<"The position of query 0 less that of key 0.", "uint64_t",
                    "getAhead">,
    InterfaceMethod<"Sets it.", "void", "setAhead", (ins "uint64_t":$ahead)>
  ];
}

def Clv_CostInterface : OpInterface<"CostInterface"> {
  let cppNamespace = "::cleave::clv";
  let methods = [
    InterfaceMethod<"Floating-point operations for the shapes of its types.",
                    "int64_t", "getFlops", (ins), [{}], [{
      return ::cleave::clv::flopsOf($_op);
    }]>
  ];
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

def Clv_Tensor : StaticShapeTensorOf<[F32, F64, I32, I1, BF16]>;
def Clv_FloatTensor : StaticShapeTensorOf<[F32, F64]>;
/// What a contraction multiplies. Of bf16 the products are added in f32.
def Clv_FactorTensor : StaticShapeTensorOf<[F32, F64, BF16]>;
def Clv_IntTensor : StaticShapeTensorOf<[I32]>;
def Clv_BoolTensor : StaticShapeTensorOf<[I1]>;

class Clv_Op<string mnemonic, list<Trait> traits = []>
    : Op<Clv_Dialect, mnemonic, traits>;

/// An operation with a rule, a gradient and a cost.
class Clv_ComputeOp<string mnemonic, list<Trait> traits = []>
    : Clv_Op<mnemonic, !listconcat(traits, [
        Pure, DeclareOpInterfaceMethods<Clv_RuleInterface>,
        DeclareOpInterfaceMethods<Clv_GradientInterface>,
        DeclareOpInterfaceMethods<Clv_CostInterface>])> {
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// The functions of scalars, each with the mnemonic of its operation. The
/// functions up to Pow are arithmetic; those from Less to NotEqual compare.
def Clv_ElementwiseFunction : I32EnumAttr<"Elementwise",
    "the function of scalars that an elementwise operation computes", [
    I32EnumAttrCase<"Add", 0, "add">,
    I32EnumAttrCase<"Sub", 1, "sub">,
    I32EnumAttrCase<"Mul", 2, "mul">,
    I32EnumAttrCase<"Div", 3, "div">,
    I32EnumAttrCase<"Maximum", 4, "maximum">,
    I32EnumAttrCase<"Minimum", 5, "minimum">,
    I32EnumAttrCase<"Pow", 6, "pow">,
    I32EnumAttrCase<"Neg", 7, "neg">,
    I32EnumAttrCase<"Exp", 8, "exp">,
    I32EnumAttrCase<"Log", 9, "log">,
    I32EnumAttrCase<"Sqrt", 10, "sqrt">,
    I32EnumAttrCase<"Rsqrt", 11, "rsqrt">,
    I32EnumAttrCase<"Sin", 12, "sin">,
    I32EnumAttrCase<"Cos", 13, "cos">,
    I32EnumAttrCase<"Tanh", 14, "tanh">,
    I32EnumAttrCase<"Erf", 15, "erf">,
    I32EnumAttrCase<"Relu", 16, "relu">,
    I32EnumAttrCase<"Gelu", 17, "gelu">,
    I32EnumAttrCase<"Silu", 18, "silu">,
    I32EnumAttrCase<"Sigmoid", 19, "sigmoid">,
    I32EnumAttrCase<"Abs", 20, "abs">,
    I32EnumAttrCase<"Less", 21, "less">,
    I32EnumAttrCase<"LessEqual", 22, "less_equal">,
    I32EnumAttrCase<"Equal", 23, "equal">,
    I32EnumAttrCase<"NotEqual", 24, "not_equal">,
    I32EnumAttrCase<"And", 25, "and">,
    I32EnumAttrCase<"Or", 26, "or">,
    I32EnumAttrCase<"Not", 27, "not">,
    I32EnumAttrCase<"Select", 28, "select">,
    I32EnumAttrCase<"Cast", 29, "cast">,
    I32EnumAttrCase<"Identity", 30, "stop_gradient">]> {
  let cppNamespace = "::cleave::clv";
  let genSpecializedAttr = 0;
}

def Clv_ElementwiseInterface : OpInterface<"ElementwiseInterface"> {
  let cppNamespace = "::cleave::clv";
  let description = [{
    Operations that compute each element from the elements of the operands with
    the same indices by name. An operand that lacks a dim of the result is
    repeated along it; an operand has no dim that the result lacks. Result dims:
    those of the first operand, then the new ones of the next, and so on.
  }];
  let methods = [
    InterfaceMethod<"Which function of scalars it is.",
                    "::cleave::clv::Elementwise", "getFunction">
  ];
}

class Clv_Elementwise<string mnemonic, string function, dag operands,
                      list<Trait> traits = []>
    : Clv_ComputeOp<mnemonic, !listconcat(traits,
                    [Clv_ElementwiseInterface])> {
  let arguments = operands;
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    ::cleave::clv::Elementwise getFunction() {
      return ::cleave::clv::Elementwise::}] # function # [{;
    }
  }];
  let extraClassDefinition = [{
    ::cleave::clv::Rule $cppClass::getRule() {
      return elementwiseRule(getOperation(), getFunction());
    }
    ::llvm::LogicalResult $cppClass::buildGradient(
        ::mlir::OpBuilder &builder, ::mlir::ValueRange results,
        ::llvm::SmallVectorImpl<::mlir::Value> &gradients) {
      return elementwiseGradient(builder, getOperation(), getFunction(),
                                 results[0], gradients);
    }
    ::llvm::LogicalResult $cppClass::verify() {
      return verifyElementwise(getOperation(), getFunction());
    }
  }];
}
class Clv_Unary<string mnemonic, string function, string text>
    : Clv_Elementwise<mnemonic, function, (ins Clv_FloatTensor:$x)> {
  let summary = text;
}
class Clv_Binary<string mnemonic, string function, string text>
    : Clv_Elementwise<mnemonic, function,
                      (ins Clv_Tensor:$lhs, Clv_Tensor:$rhs)> {
  let summary = text;
}
class Clv_Compare<string mnemonic, string function, string text>
    : Clv_Elementwise<mnemonic, function,
                      (ins Clv_Tensor:$lhs, Clv_Tensor:$rhs)> {
  let summary = text # " (f32 or i32, giving i1)";
}

def Clv_AddOp : Clv_Binary<"add", "Add", "lhs + rhs">;
def Clv_SubOp : Clv_Binary<"sub", "Sub", "lhs - rhs">;
def Clv_MulOp : Clv_Binary<"mul", "Mul", "lhs * rhs">;
def Clv_DivOp : Clv_Binary<"div", "Div", "lhs / rhs">;
def Clv_MaximumOp : Clv_Binary<"maximum", "Maximum",
    "the larger; at a tie the gradient goes to lhs">;
def Clv_MinimumOp : Clv_Binary<"minimum", "Minimum",
    "the smaller; at a tie the gradient goes to lhs">;
def Clv_PowOp : Clv_Binary<"pow", "Pow", "lhs ** rhs">;

def Clv_NegOp : Clv_Unary<"neg", "Neg", "-x">;
def Clv_ExpOp : Clv_Unary<"exp", "Exp", "e ** x">;
def Clv_LogOp : Clv_Unary<"log", "Log", "natural logarithm">;
def Clv_SqrtOp : Clv_Unary<"sqrt", "Sqrt", "square root">;
def Clv_RsqrtOp : Clv_Unary<"rsqrt", "Rsqrt", "1 / sqrt(x)">;
def Clv_SinOp : Clv_Unary<"sin", "Sin", "sine of radians">;
def Clv_CosOp : Clv_Unary<"cos", "Cos", "cosine of radians">;
def Clv_TanhOp : Clv_Unary<"tanh", "Tanh", "hyperbolic tangent">;
def Clv_ErfOp : Clv_Unary<"erf", "Erf", "error function">;
def Clv_ReluOp : Clv_Unary<"relu", "Relu", "max(x, 0); its derivative at 0 is 0">;
def Clv_GeluOp : Clv_Unary<"gelu", "Gelu",
    "x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, arXiv 1606.08415)">;
def Clv_SiluOp : Clv_Unary<"silu", "Silu", "x * sigmoid(x)">;
def Clv_SigmoidOp : Clv_Unary<"sigmoid", "Sigmoid", "1 / (1 + e ** -x)">;
def Clv_AbsOp : Clv_Unary<"abs", "Abs", "absolute value; its derivative at 0 is 0">;

def Clv_LessOp : Clv_Compare<"less", "Less", "lhs < rhs">;
def Clv_LessEqualOp : Clv_Compare<"less_equal", "LessEqual", "lhs <= rhs">;
def Clv_EqualOp : Clv_Compare<"equal", "Equal", "lhs == rhs">;
def Clv_NotEqualOp : Clv_Compare<"not_equal", "NotEqual", "lhs != rhs">;

def Clv_AndOp : Clv_Elementwise<"and", "And",
    (ins Clv_BoolTensor:$lhs, Clv_BoolTensor:$rhs)>;
def Clv_OrOp : Clv_Elementwise<"or", "Or",
    (ins Clv_BoolTensor:$lhs, Clv_BoolTensor:$rhs)>;
def Clv_NotOp : Clv_Elementwise<"not", "Not", (ins Clv_BoolTensor:$x)>;

def Clv_SelectOp : Clv_Elementwise<"select", "Select",
    (ins Clv_BoolTensor:$condition, Clv_Tensor:$lhs, Clv_Tensor:$rhs)> {
  let summary = "lhs where condition holds, else rhs (`where` in the language)";
}
def Clv_CastOp : Clv_Elementwise<"cast", "Cast", (ins Clv_Tensor:$x)> {
  let summary = "to the result's element type; f32 to i32 rounds toward zero, "
                "f32 to bf16 to the nearest, ties to even";
}
def Clv_StopGradientOp : Clv_Elementwise<"stop_gradient", "Identity",
                                         (ins Clv_Tensor:$x)> {
  let summary = "x, whose gradient ends here";
}

//===----------------------------------------------------------------------===//
// Values from nothing
//===----------------------------------------------------------------------===//

def Clv_ConstantOp : Clv_ComputeOp<"constant", [ConstantLike]> {
  let summary = "a scalar: f32, i32 or i1, without dims";
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasFolder = 1;
}

def Clv_BroadcastOp : Clv_ComputeOp<"broadcast"> {
  let summary = "x repeated along the dims that only the result has";
  let description = [{
    By name: the result may have the dims of x in another order. A broadcast to
    the same dims in another order is how memory is transposed.
  }];
  let arguments = (ins Clv_Tensor:$x);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Clv_IndexOp : Clv_ComputeOp<"index"> {
  let summary = "the global position along the result's one dim, plus `first`";
  let arguments = (ins DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Clv_IntTensor:$result);
  let assemblyFormat = "attr-dict `->` type($result)";
}

def Clv_RandomOp : Clv_ComputeOp<"random"> {
  let summary = "uniform numbers in [0, 1) from counters";
  let description = [{
    Each element depends on (seed, step, site, iteration, its global row-major
    index) alone, by Philox4x32-10 as Random.h defines it. `iteration` is the
    index of the surrounding repeat, or 0.
  }];
  let arguments = (ins Clv_IntTensor:$seed, Clv_IntTensor:$step,
                       Clv_IntTensor:$iteration, StrAttr:$site);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$seed `,` $step `,` $iteration `at` $site attr-dict "
                       "`:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Contractions, reductions, gathers
//===----------------------------------------------------------------------===//

def Clv_Reduction : I32EnumAttr<"Reduction", "how a reduction combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::cleave::clv";
}

def Clv_ReduceOp : Clv_ComputeOp<"reduce"> {
  let summary = "sum, maximum or minimum over dims";
  let description = [{
    Result dims: those of x without `over`, in order. The gradient of max and
    min goes to the element with the lowest global index among the extreme ones.
  }];
  let arguments = (ins Clv_Tensor:$x, Clv_Reduction:$kind,
                       StrArrayAttr:$over);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$kind $x `over` $over attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_DotOp : Clv_ComputeOp<"dot"> {
  let summary = "the sum of products over dims that both operands have";
  let description = [{
    Result dims: those of lhs without `over`, then those of rhs that lhs lacks,
    without `over`. Dims that both have and that are not in `over` are kept.
    Any order of result dims is legal; builders choose the above.
    Both operands have one element type. The result has it too, but of bf16
    operands it is f32.
  }];
  let arguments = (ins Clv_FactorTensor:$lhs, Clv_FactorTensor:$rhs,
                       StrArrayAttr:$over);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `over` $over attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_LookupOp : Clv_ComputeOp<"lookup"> {
  let summary = "rows of a table by index";
  let description = [{
    Result dims: those of ids, then those of table without `dim`. An id outside
    the (local) table gives zeros, so that a split table gives a pending sum.
    table and ids share no dim.
  }];
  let arguments = (ins Clv_FloatTensor:$table, Clv_IntTensor:$ids, StrAttr:$dim);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$table `,` $ids `along` $dim attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_ScatterAddOp : Clv_ComputeOp<"scatter_add"> {
  let summary = "the gradient of lookup: rows of updates added where ids say";
  let description = [{
    Result dims: `dim` and those of updates that ids lack. Rows are added in
    the order of the global index of ids. An id outside the (local) result is
    skipped. updates has every dim of ids.
  }];
  let arguments = (ins Clv_FloatTensor:$updates, Clv_IntTensor:$ids,
                       StrAttr:$dim);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$updates `,` $ids `along` $dim attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_ExtremeOp : Clv_ComputeOp<"extreme"> {
  let summary = "the lowest global index along a dim that attains the reduction";
  let description = [{
    i32. `value` is the (whole) maximum or minimum of x over `dim`. Elements
    that differ from it do not count; among those that are equal the smallest
    index wins, a pending min over the atoms that split `dim`. Used by the
    gradient of max and min.
  }];
  let arguments = (ins Clv_FloatTensor:$x, Clv_FloatTensor:$value, StrAttr:$dim);
  let results = (outs Clv_IntTensor:$result);
  let assemblyFormat = "$x `,` $value `along` $dim attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_CumsumOp : Clv_ComputeOp<"cumsum"> {
  let summary = "running sums along a dim";
  let description = [{
    Element i is the sum of the elements of x up to and with i; with `reverse`,
    of i and those after it. Result dims: those of x. Any order of result dims
    is legal; builders keep the order of x.
  }];
  let arguments = (ins Clv_FloatTensor:$x, StrAttr:$dim, UnitAttr:$reverse);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$x `along` $dim (`reverse` $reverse^)? attr-dict "
                       "`:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Composite: decomposed after differentiation
//===----------------------------------------------------------------------===//

def Clv_SoftmaxOp : Clv_ComputeOp<"softmax"> {
  let summary = "exp(x - max) / sum(exp(x - max)) over dims";
  let arguments = (ins Clv_FloatTensor:$x, StrArrayAttr:$over);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$x `over` $over attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_LogsumexpOp : Clv_ComputeOp<"logsumexp"> {
  let summary = "log(sum(exp(x))) over dims, without overflow";
  let arguments = (ins Clv_FloatTensor:$x, StrArrayAttr:$over);
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "$x `over` $over attr-dict "
                       "`:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The scores s = scale * dot(query, key, over) have the dims of both but
/// `over`, `seq` of the query and `keys` of the key among them. Where `causal`,
/// the query at i sees the keys up to i + `ahead`; the others have no weight.
/// The weights are e ** (s - log_sum). No operation has the scores in memory:
/// all go over blocks (Dao, arXiv 2307.08691). The results' dims are in any
/// order. Where query, key, value and gradient are bf16, so is what they are
/// multiplied with: weights and the gradients of scores are rounded, forward
/// the weights before they are divided by their sum. All else is f32.
class Clv_OfAttention<string mnemonic, dag tensors>
    : Clv_ComputeOp<mnemonic, [Clv_AttentionInterface]> {
  let arguments = !con(tensors, (ins StrAttr:$seq, StrAttr:$keys,
      StrArrayAttr:$over, F64Attr:$scale, UnitAttr:$causal,
      DefaultValuedAttr<I64Attr, "0">:$ahead));
  let results = (outs Clv_FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Clv_AttentionSumOp : Clv_OfAttention<"attention_sum",
    (ins Clv_FactorTensor:$query, Clv_FactorTensor:$key)> {
  let summary = "the logsumexp of the scores over the keys";
  let description = [{
    What `attention` needs; the gradient of both is that of `attention`, and
    the sum itself has none.
  }];
}

def Clv_AttentionOp : Clv_OfAttention<"attention",
    (ins Clv_FactorTensor:$query, Clv_FactorTensor:$key,
         Clv_FactorTensor:$value, Clv_FloatTensor:$log_sum)> {
  let summary = "values summed over the keys with the weights of the scores";
  let description = [{
    Its gradient takes log_sum for the `attention_sum` of the same query and
    key, and includes what comes by way of it.
  }];
}

def Clv_AttentionQueryGradientOp : Clv_OfAttention<"attention_query_gradient",
    (ins Clv_FactorTensor:$query, Clv_FactorTensor:$key,
         Clv_FactorTensor:$value, Clv_FloatTensor:$log_sum,
         Clv_FloatTensor:$mean, Clv_FactorTensor:$gradient)> {
  let summary = "the gradient of attention with respect to the query";
  let description = [{
    `gradient` is that of the result; `mean` is sum(result * gradient) over the
    dims that only values have. With weights w and
    ds = scale * w * (dot(gradient, value) - mean): sum of ds * key.
  }];
}

def Clv_AttentionKeyGradientOp : Clv_OfAttention<"attention_key_gradient",
    (ins Clv_FactorTensor:$query, Clv_FactorTensor:$key,
         Clv_FactorTensor:$value, Clv_FloatTensor:$log_sum,
         Clv_FloatTensor:$mean, Clv_FactorTensor:$gradient)> {
  let summary = "the gradient of attention with respect to the key";
  let description = [{ As for the query: sum of ds * query. }];
}

def Clv_AttentionValueGradientOp : Clv_OfAttention<"attention_value_gradient",
    (ins Clv_FactorTensor:$query, Clv_FactorTensor:$key,
         Clv_FloatTensor:$log_sum, Clv_FactorTensor:$gradient)> {
  let summary = "the gradient of attention with respect to the value";
  let description = [{ As for the query: sum of w * gradient. }];
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

def Clv_RenameOp : Clv_ComputeOp<"rename"> {
  let summary = "the same elements under other dim names (same sizes, same order)";
  let arguments = (ins Clv_Tensor:$x);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Clv_SliceOp : Clv_ComputeOp<"slice"> {
  let summary = "elements [first, first + size) of one dim, under the name `to`";
  let description = [{
    The result has `to` where x has `dim`; its size is the result type's.
  }];
  let arguments = (ins Clv_Tensor:$x, StrAttr:$dim, StrAttr:$to, I64Attr:$first);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x `from` $dim `to` $to `at` $first attr-dict "
                       "`:` functional-type(operands, results)";
}

def Clv_PadOp : Clv_ComputeOp<"pad"> {
  let summary = "the inverse of slice: x at `first` of a larger dim, zeros around";
  let arguments = (ins Clv_Tensor:$x, StrAttr:$dim, StrAttr:$to, I64Attr:$first);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x `from` $dim `to` $to `at` $first attr-dict "
                       "`:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Scopes and edges: identities that mark where layouts may change
//===----------------------------------------------------------------------===//

class Clv_Identity<string mnemonic> : Clv_ComputeOp<mnemonic> {
  let arguments = (ins Clv_Tensor:$x);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Clv_EdgeOp : Clv_Identity<"edge"> {
  let summary = "x as a value of another region";
  let description = [{
    The result belongs to the region of this operation's scope. A region's
    arguments and results pass through edges, so that their layouts may differ
    inside and outside. `inner` is the path of the region entered or left: a
    collective made here belongs to it.
  }];
  let arguments = (ins Clv_Tensor:$x, StrAttr:$inner);
}

def Clv_WeightOp : Clv_Identity<"weight"> {
  let summary = "a parameter as one region reads it: from `params` to `weights`";
}

def Clv_GradientOp : Clv_Identity<"gradient"> {
  let summary = "the whole gradient of a parameter, in the role `gradients`";
}

//===----------------------------------------------------------------------===//
// Repeat
//===----------------------------------------------------------------------===//

def Clv_RepeatOp : Clv_Op<"repeat", [
    AttrSizedOperandSegments, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a loop over a dim, kept rolled";
  let description = [{
    Runs the body for each index of `dim`, from `first` up, or from the end
    down if `reverse`. Block arguments: the index (i32 scalar), the carried
    values, one slice (without `dim`) of each stacked operand. The body yields
    the carried values of the next iteration, then one slice for each stacked
    result. Results: the last carried values, then the stacked results, which
    have `dim` first. Stacks have `count` slices; that of index i stands at
    i - first, whichever way the loop runs. The body may use values from
    outside.
  }];
  let arguments = (ins Variadic<Clv_Tensor>:$carried,
                       Variadic<Clv_Tensor>:$stacked,
                       StrAttr:$dim, I64Attr:$count,
                       DefaultValuedAttr<I64Attr, "0">:$first, UnitAttr:$reverse);
  let results = (outs Variadic<Clv_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::BlockArgument getIndex() { return getBlock()->getArgument(0); }
    ::mlir::Block::BlockArgListType getCarriedArguments() {
      return getBlock()->getArguments().slice(1, getCarried().size());
    }
    ::mlir::Block::BlockArgListType getStackedArguments() {
      return getBlock()->getArguments().drop_front(1 + getCarried().size());
    }
    ::mlir::ResultRange getCarriedResults() {
      return getResults().take_front(getCarried().size());
    }
    ::mlir::ResultRange getStackedResults() {
      return getResults().drop_front(getCarried().size());
    }
    ::mlir::Operation *getYield() { return getBlock()->getTerminator(); }
  }];
}

def Clv_YieldOp : Clv_Op<"yield", [Pure, Terminator, ReturnLike,
                                   HasParent<"RepeatOp">]> {
  let summary = "ends an iteration: carried values, then stacked slices";
  let arguments = (ins Variadic<Clv_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // CLEAVE_DIALECTS_CLV_CLV
