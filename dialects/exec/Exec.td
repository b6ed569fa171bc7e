//===- Exec.td - The dialect of plan files -----------------*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_EXEC_EXEC
#define CLEAVE_DIALECTS_EXEC_EXEC

include "dialects/exec/ExecEnums.td"
include "dialects/spmd/Spmd.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::cleave::exec";
  let dependentDialects = ["::cleave::spmd::SpmdDialect"];
  let summary = "Plan files: buffers, instructions and what they refer to";
  let description = [{
    One operation for each table of the plan file (runtime/format/Plan.fbs),
    which says what each means; compiler/exec converts both ways and loses
    nothing. What the file refers to by number is a value here: leaves, inputs,
    extents, sites, buffers, the iteration of a loop, a collective that is under
    way. So the order of their declarations is the order of the file's tables,
    and a reference to what is not there cannot be written.

    ```
    exec.set "toy" starts @wide {
      exec.kernels ["scale"]
      %leaf.w = exec.leaf "w" : f32[layer = 3, out = 7] init normal(0.0, 0.02)
      exec.plan @wide mesh <[data = 2], [#spmd.axis<"data" = [0]>]> {
        exec.layout %leaf.w [whole, <[0]>]
        %layer = exec.extent "layer" = 3
        %out = exec.extent "out" = 7 on <[0]>
        %exp = exec.site "exp" in "layer/mlp" at "toy.clv":12
        exec.program @train arena 64 {
          %w = exec.value leaf %leaf.w bytes 0 : f32[%layer, %out]
          %0 = exec.value arena 0 bytes 16 : f32[%out]
          exec.loop %i from 0 count 3 {
            exec.kernel @scale(%w[%i], %0) with [size %out, %i, 5] at %exp
          }
        }
      }
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Types. None has parameters: what a value is, its declaration says.
//===----------------------------------------------------------------------===//

class Exec_Type<string name, string typeMnemonic, string text>
    : TypeDef<Exec_Dialect, name> {
  let mnemonic = typeMnemonic;
  let summary = text;
}

def Exec_Leaf : Exec_Type<"Leaf", "leaf", "one tensor of the state">;
def Exec_Input : Exec_Type<"Input", "input", "what is filled before a program">;
def Exec_Extent : Exec_Type<"Extent", "extent",
    "a dim of local values: each device has its piece">;
def Exec_Site : Exec_Type<"Site", "site", "where an instruction comes from">;
def Exec_Buffer : Exec_Type<"Buffer", "buffer", "a dense local tensor">;
def Exec_Iteration : Exec_Type<"Iteration", "iteration", "the index of a loop">;
def Exec_Slots : Exec_Type<"Slots", "slots",
    "what a pipeline keeps for each microbatch">;
def Exec_Token : Exec_Type<"Token", "token", "a collective that was started">;

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

/// Declares one thing that others refer to.
class Exec_Declaration<string mnemonic, Type type, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let results = (outs type:$result);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The set
//===----------------------------------------------------------------------===//

def Exec_SetOp : Exec_Op<"set", [SymbolTable, SingleBlock, NoTerminator]> {
  let summary = "a plan file: one model, its state, and several plans";
  let description = [{
    `by` says what made it, `needs` what the processor must have, `starts` with
    which plan a run begins, `evaluates every` after how many steps it
    evaluates, `mathematics` what the loss and the optimizer are (two hashes,
    hexadecimal).
  }];
  let arguments = (ins StrAttr:$model, OptionalAttr<StrAttr>:$producer,
                       OptionalAttr<StrArrayAttr>:$features,
                       FlatSymbolRefAttr:$start,
                       OptionalAttr<I32Attr>:$every,
                       OptionalAttr<StrArrayAttr>:$mathematics);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $model (`by` $producer^)? (`needs` $features^)? `starts` $start
    (`evaluates` `every` $every^)? (`mathematics` $mathematics^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Exec_KernelsOp : Exec_Op<"kernels", [HasParent<"SetOp">]> {
  let summary = "the symbols of the kernels' shared object";
  let arguments = (ins StrArrayAttr:$symbols);
  let assemblyFormat = "$symbols attr-dict";
}

def Exec_RunOp : Exec_Op<"run", [HasParent<"SetOp">]> {
  let summary = "what happens between steps";
  let description = [{
    `exec.run "tr11" snapshots every 300 batches [0, 192, 40000, 208]`: pairs of
    the sample from which on steps have a batch, and the batch. `averages
    "first" keeping 0.9 under 1.0`: the optimizer's leaf that is a mean of
    gradients, and to what norm they are clipped. Its rules follow.
  }];
  let arguments = (ins StrAttr:$name,
                       DefaultValuedAttr<I64Attr, "0">:$snapshots,
                       UnitAttr:$reproducible,
                       OptionalAttr<DenseI64ArrayAttr>:$batches,
                       OptionalAttr<StrAttr>:$mean,
                       OptionalAttr<F64Attr>:$keep,
                       OptionalAttr<F64Attr>:$limit);
  let assemblyFormat = [{
    $name (`snapshots` `every` $snapshots^)? (`reproducible` $reproducible^)?
    (`batches` $batches^)? (`averages` $mean^ `keeping` $keep `under` $limit)?
    attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_RuleOp : Exec_Op<"rule", [HasParent<"SetOp">]> {
  let summary = "when something is done between steps";
  let description = [{
    `exec.rule [["Batch", "Last", 1, "Collectives", ""], 784.0, "GreaterEqual"]
    for 1 apart 0 -> "Go" plan "full" said "when …" at "b.clv":76`: the condition
    in postfix order, in the words of the file's enumerations. A metric has its
    statistic, its window, and the kind and axis of traffic that it is of.
  }];
  let arguments = (ins ArrayAttr:$condition, I64Attr:$during, I64Attr:$apart,
                       StrAttr:$action, OptionalAttr<StrAttr>:$plan,
                       UnitAttr:$overlapped, DefaultValuedAttr<I64Attr, "0">:$amount, StrAttr:$text,
                       StrAttr:$file, I64Attr:$line);
  let assemblyFormat = [{
    $condition `for` $during `apart` $apart `->` $action (`plan` $plan^)?
    (`overlapped` $overlapped^)? (`of` $amount^)? `said` $text `at` $file `` `:` `` $line attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_LeafOp : Exec_Declaration<"leaf", Exec_Leaf, [HasParent<"SetOp">]> {
  let summary = "a parameter, or a state of its optimizer";
  let description = [{
    `%leaf.w.first = exec.leaf "w" state "first" : f32[out = 7] init
    constant(0.0, 0.0)`: global sizes, and the two numbers of its first value.
  }];
  let arguments = (ins StrAttr:$path, OptionalAttr<StrAttr>:$state,
                       TypeAttr:$element, StrArrayAttr:$dims,
                       DenseI64ArrayAttr:$sizes, Exec_InitKind:$init,
                       F64Attr:$a, F64Attr:$b);
  let assemblyFormat = [{
    $path (`state` $state^)? `:` $element `` custom<Dims>($dims, $sizes)
    `init` $init `` `(` $a `,` $b `)` attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// A plan
//===----------------------------------------------------------------------===//

def Exec_PlanOp : Exec_Op<"plan", [
    HasParent<"SetOp">, Symbol, SymbolTable, SingleBlock, NoTerminator]> {
  let summary = "one plan of the set: layouts, extents, sites and programs";
  let description = [{
    `of "deep" batch 32 micros 8`: a variant of a plan of the run, and its
    samples a step and number of microbatches. `sends [["AllReduce", "data",
    4096]]`: bytes of the busiest device in a step, by kind and axis.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Spmd_MeshAttr:$mesh,
                       OptionalAttr<StrAttr>:$of,
                       DefaultValuedAttr<I64Attr, "0">:$batch,
                       DefaultValuedAttr<I64Attr, "0">:$micros,
                       OptionalAttr<ArrayAttr>:$traffic);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `mesh` $mesh (`of` $of^)? (`batch` $batch^)? (`micros` $micros^)?
    (`sends` $traffic^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Exec_LayoutOp : Exec_Op<"layout", [HasParent<"PlanOp">]> {
  let summary = "how the plan splits a leaf; one for each, in their order";
  let description = [{
    A split for each dim, `whole` where it is not cut. `residing [0, 1, 3]`:
    only on coordinates 1 and 2 of atom 0 (triples of atom, begin and end; of
    several ranges of one atom, in any).
  }];
  let arguments = (ins Exec_Leaf:$leaf, ArrayAttr:$splits,
                       OptionalAttr<DenseI64ArrayAttr>:$residence);
  let assemblyFormat = [{
    $leaf custom<Splits>($splits) (`residing` $residence^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_ExtentOp : Exec_Declaration<"extent", Exec_Extent,
                                     [HasParent<"PlanOp">]> {
  let summary = "a dim, its global size, and how it is cut";
  let arguments = (ins StrAttr:$dim, I64Attr:$size,
                       OptionalAttr<Spmd_SplitAttr>:$split);
  let assemblyFormat = "$dim `=` $size (`on` $split^)? attr-dict";
}

def Exec_SiteOp : Exec_Declaration<"site", Exec_Site, [HasParent<"PlanOp">]> {
  let summary = "where instructions come from";
  let description = [{
    `exec.site "all_reduce tensor" in "layer/mlp" at "gpt.clv":31 because "…"`.
  }];
  let arguments = (ins StrAttr:$label, OptionalAttr<StrAttr>:$path,
                       OptionalAttr<StrAttr>:$file,
                       DefaultValuedAttr<I64Attr, "0">:$line,
                       OptionalAttr<StrAttr>:$reason);
  let assemblyFormat = [{
    $label (`in` $path^)? (`at` $file^ `` `:` `` $line)? (`because` $reason^)?
    attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// A program
//===----------------------------------------------------------------------===//

def Exec_ProgramOp : Exec_Op<"program", [
    HasParent<"PlanOp">, Symbol, SingleBlock, NoTerminator]> {
  let summary = "inputs, values, instructions, outputs; on each device";
  let description = [{ `arena` is the bytes that its values need on a device. }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `arena` $arena_bytes attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def Exec_InputOp : Exec_Declaration<"input", Exec_Input,
                                    [HasParent<"ProgramOp">]> {
  let summary = "what is filled before the program runs";
  let description = [{
    `exec.input "ids" tokens shift 1 below 65 : i32[batch = 5, seq = 24]`.
  }];
  let arguments = (ins StrAttr:$label, Exec_InputSource:$source,
                       DefaultValuedAttr<I64Attr, "0">:$shift,
                       DefaultValuedAttr<I64Attr, "0">:$bound,
                       TypeAttr:$element, StrArrayAttr:$dims,
                       DenseI64ArrayAttr:$sizes);
  let assemblyFormat = [{
    $label $source (`shift` $shift^)? (`below` $bound^)?
    `:` $element `` custom<Dims>($dims, $sizes) attr-dict
  }];
}

def Exec_SlotsOp : Exec_Declaration<"slots", Exec_Slots,
                                    [HasParent<"ProgramOp">]> {
  let summary = "room for each microbatch that is under way";
  let description = [{
    `exec.slots 4096 at 0 to 2`: devices at positions 0 and 1 of the pipeline
    keep 4096 bytes for a microbatch, from the first step that uses values in
    them to the last. How many microbatches are so under way at once, the
    streams say.
  }];
  let arguments = (ins I64Attr:$bytes, I64Attr:$begin, I64Attr:$end);
  let assemblyFormat = "$bytes `at` $begin `to` $end attr-dict";
}

def Exec_ValueOp : Exec_Declaration<"value", Exec_Buffer, [
    HasParent<"ProgramOp">, AttrSizedOperandSegments]> {
  let summary = "a piece of the arena, a leaf, an input or slots; its shape";
  let description = [{
    `exec.value arena 128 bytes 64 : f32[%batch, %out]` begins 128 bytes into
    the arena, `exec.value slots %slots at 128 …` 128 bytes into the slot of the
    running microbatch. `bytes` is the room that it has on every device. Of
    several values in one place each is a view of its own; with `chunks` it is
    that of the running chunk, where those of all stand one after the other.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset, Optional<Exec_Leaf>:$leaf,
                       Optional<Exec_Input>:$input, Optional<Exec_Slots>:$slots,
                       OptionalAttr<I64Attr>:$place, UnitAttr:$chunks,
                       I64Attr:$bytes, TypeAttr:$element,
                       Variadic<Exec_Extent>:$extents);
  let assemblyFormat = [{
    (`arena` $offset^)? (`leaf` $leaf^)? (`input` $input^)?
    (`slots` $slots^ `at` $place)? (`chunks` $chunks^)? `bytes` $bytes
    `:` $element `` `[` $extents `]` attr-dict
  }];
}

def Exec_UpdateOp : Exec_Op<"update", [HasParent<"ProgramOp">]> {
  let summary = "from here on the program updates the state";
  let description = [{
    What follows reads nothing of what stands before but the `handover`s.
  }];
  let assemblyFormat = "attr-dict";
}

def Exec_HandoverOp : Exec_Op<"handover", [HasParent<"ProgramOp">]> {
  let summary = "a gradient as the update reads it";
  let description = [{
    `exec.handover "layer/mlp/up" = %12 after 31 : [layer = 4, embed = 128]`:
    whole after 31 instructions of the program. With `by 30` the instruction at
    position 30 is a loop that makes a slice of the first dim in each iteration.
  }];
  let arguments = (ins StrAttr:$label, Exec_Buffer:$value, I64Attr:$ready,
                       OptionalAttr<I64Attr>:$loop, StrArrayAttr:$dims,
                       DenseI64ArrayAttr:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$residence);
  let assemblyFormat = [{
    $label `=` $value `after` $ready (`by` $loop^)? `:`
    custom<Dims>($dims, $sizes) (`residing` $residence^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_OutputOp : Exec_Op<"output", [HasParent<"ProgramOp">]> {
  let summary = "what the program gives beside the new state";
  let description = [{
    `exec.output loss "loss" = %12 : []`. With `residing [1, 3, 4]` only the
    devices at coordinate 3 of atom 1 have it.
  }];
  let arguments = (ins Exec_OutputKind:$kind, StrAttr:$label,
                       Exec_Buffer:$value, StrArrayAttr:$dims,
                       DenseI64ArrayAttr:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$residence);
  let assemblyFormat = [{
    $kind $label `=` $value `:` custom<Dims>($dims, $sizes)
    (`residing` $residence^)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// A list of views in one list of operands: each a buffer, followed by an
/// iteration where the view is a slice: `%a, %w[%i]`. See `viewsIn`.
def Exec_Views : Variadic<AnyTypeOf<[Exec_Buffer, Exec_Iteration]>>;

class Exec_Instruction<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(traits,
                                    [ParentOneOf<["ProgramOp", "LoopOp",
                                                  "OnlyOp", "SectionOp"]>])> {
  let hasVerifier = 1;
}

def Exec_KernelOp : Exec_Instruction<"kernel", [AttrSizedOperandSegments]> {
  let summary = "calls a kernel with views and integers";
  let description = [{
    Integers are literals, the `size` or the `begin` of an extent on the device,
    or the index of a loop. `kinds` has one `IntegerKind` for each; `literals`
    and `sources` hold, in order, those that are literals and those that are
    not.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Exec_Views:$views,
                       Variadic<AnyTypeOf<[Exec_Extent, Exec_Iteration]>>:$sources,
                       DenseI32ArrayAttr:$kinds, DenseI64ArrayAttr:$literals,
                       Optional<Exec_Site>:$site);
  let assemblyFormat = [{
    $kernel `` `(` `` custom<Views>($views, type($views)) `)` `with`
    custom<Integers>($sources, type($sources), $kinds, $literals)
    (`at` $site^)? attr-dict
  }];
}

def Exec_ContractOp : Exec_Instruction<"contract", [AttrSizedOperandSegments]> {
  let summary = "sums products of two views over the dims that the third lacks";
  let description = [{
    `exec.contract %x, %w[%i] -> %h with [%batch(0, _, 0), %in(1, 0, _), %out(_,
    1, 1)]`: each dim with its position in the three views, `_` where it is
    absent (-1 in `positions`, three for each dim). `ordered`: terms are added
    by index; `terms`: of the first view alone.
  }];
  let arguments = (ins Exec_Views:$views, Variadic<Exec_Extent>:$dims,
                       DenseI32ArrayAttr:$positions, UnitAttr:$ordered,
                       UnitAttr:$terms, Optional<Exec_Site>:$site);
  let assemblyFormat = [{
    custom<Arrow>($views, type($views)) `with`
    custom<Positions>($dims, $positions)
    (`ordered` $ordered^)? (`terms` $terms^)? (`at` $site^)? attr-dict
  }];
}

def Exec_FillOp : Exec_Instruction<"fill"> {
  let summary = "sets every byte of a view to zero";
  let arguments = (ins Exec_Views:$views);
  let assemblyFormat = "custom<Views>($views, type($views)) attr-dict";
}

def Exec_MoveOp : Exec_Instruction<"move", [AttrSizedOperandSegments]> {
  let summary = "copies what two views share, at a distance";
  let description = [{
    `exec.move %a -> %b by [0, 1]`: b[i, j + 1] = a[i, j] in global indices.
  }];
  let arguments = (ins Exec_Views:$views, DenseI64ArrayAttr:$shift,
                       Optional<Exec_Site>:$site);
  let assemblyFormat = [{
    custom<Arrow>($views, type($views)) `by` $shift (`at` $site^)? attr-dict
  }];
}

def Exec_StartOp : Exec_Instruction<"start", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "starts a collective";
  let description = [{
    `%c3 = exec.start 3 all_reduce %a -> %b among [0, 1], sum over [1]`: among
    the devices that differ along these atoms, pieces of `%a` make `%b`; what
    differs along the atoms of the reduction is combined. Until the `exec.wait`
    `%a` must not be written nor `%b` read. `by [0, 3]` moves `%a` along a dim,
    around its end: b[i, (j + 3) mod n] = a[i, j]. With `from [0, 1, 2]` only
    devices at coordinate 1 of atom 0 have a piece to give.
  }];
  let arguments = (ins I64Attr:$id, Exec_CollectiveKind:$kind,
                       Exec_Views:$views, DenseI64ArrayAttr:$group,
                       Clv_Reduction:$reduction, DenseI64ArrayAttr:$partial,
                       OptionalAttr<DenseI64ArrayAttr>:$by,
                       OptionalAttr<DenseI64ArrayAttr>:$holders,
                       Optional<Exec_Site>:$site);
  let results = (outs Exec_Token:$token);
  let assemblyFormat = [{
    $id $kind custom<Arrow>($views, type($views)) (`by` $by^)? `among` $group ``
    custom<Pending>($reduction, $partial) (`from` $holders^)? (`at` $site^)?
    attr-dict
  }];
}

def Exec_WaitOp : Exec_Instruction<"wait"> {
  let summary = "until a collective is complete";
  let arguments = (ins Exec_Token:$token);
  let assemblyFormat = "$token attr-dict";
}

def Exec_LoopOp : Exec_Instruction<"loop", [
    SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "runs its body for iterations first, first + 1, … or backwards";
  let description = [{
    `exec.loop %i from 0 count 3 {…}`, or `exec.loop %i over %layer {…}` for the
    device's piece of an extent: then views count from the piece's begin, while
    `%i` as an integer is the global index.
  }];
  let arguments = (ins I64Attr:$first, I64Attr:$count, UnitAttr:$reverse,
                       Optional<Exec_Extent>:$extent);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Exec_OnlyOp : Exec_Instruction<"only", [SingleBlock, NoTerminator]> {
  let summary = "runs its body on some devices";
  let description = [{
    `exec.only [1, 0, 1, 1, 3, 4] {…}`: on those at coordinates 0 and 3 of atom
    1 (triples as in `exec.layout`).
  }];
  let arguments = (ins DenseI64ArrayAttr:$residence);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$residence attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

//===----------------------------------------------------------------------===//
// A pipeline
//===----------------------------------------------------------------------===//

def Exec_PipelineOp : Exec_Op<"pipeline", [
    HasParent<"ProgramOp">, SingleBlock, NoTerminator]> {
  let summary = "sections that stages run for each microbatch, by streams";
  let description = [{
    ```
    exec.pipeline among [0] micro [2] chunk [] plain {
      exec.section forward 0 to 2 { … }
      exec.message activation 0 to 1 %x -> %start
      exec.stream [forward 0, send_activation 0]
      exec.stream [receive_activation 0, forward 0]
    }
    ```
    `among` are the atoms whose coordinates are the stages, `micro` and `chunk`
    the times. Inside, extents are those of the running microbatch.
  }];
  let arguments = (ins DenseI64ArrayAttr:$pipe, DenseI64ArrayAttr:$micro,
                       DenseI64ArrayAttr:$chunk, Exec_Placement:$placement);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `among` $pipe `micro` $micro `chunk` $chunk $placement
    attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Exec_SectionOp : Exec_Op<"section", [
    HasParent<"PipelineOp">, SingleBlock, NoTerminator]> {
  let summary = "work of one microbatch at the positions [begin, end)";
  let arguments = (ins Exec_SectionKind:$kind, I64Attr:$begin, I64Attr:$end);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $kind $begin `to` $end attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Exec_MessageOp : Exec_Op<"message", [HasParent<"PipelineOp">]> {
  let summary = "what a position sends to the next, or to the one before";
  let description = [{
    Over the boundaries [begin, end), of which number i lies between positions
    i and i + 1.
  }];
  let arguments = (ins Exec_Direction:$direction, I64Attr:$begin, I64Attr:$end,
                       Exec_Views:$views);
  let assemblyFormat = [{
    $direction $begin `to` $end custom<Arrow>($views, type($views)) attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_StreamOp : Exec_Op<"stream", [HasParent<"PipelineOp">]> {
  let summary = "what a stage does, in order; one for each stage";
  let description = [{
    Each step is a kind, a microbatch, and `in` which chunk where that is not
    the first: `backward 3 in 1`. `steps` has three numbers for each: the kind,
    the chunk and the microbatch.
  }];
  let arguments = (ins DenseI64ArrayAttr:$steps);
  let assemblyFormat = "custom<Steps>($steps) attr-dict";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_EXEC_EXEC
