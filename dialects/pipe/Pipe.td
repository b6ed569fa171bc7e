//===- Pipe.td - The dialect of microbatches and stages ----*- tablegen -*-===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_PIPE_PIPE
#define CLEAVE_DIALECTS_PIPE_PIPE

include "dialects/clv/Clv.td"
include "dialects/pipe/PipeEnums.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::cleave::pipe";
  let dependentDialects = ["::cleave::spmd::SpmdDialect"];
  let summary = "A partitioned step in microbatches and stages";
  let description = [{
    A partitioned program whose values are cut over times (microbatches) runs
    what is so cut once for each microbatch: `pipe.micro` holds that work, in
    `pipe.section`s, each of which some positions of the pipeline do. What
    stands before and after is done once a step; `pipe.only` says on which
    stages.

    ```
    %sum = pipe.micro(%acc = %zeros) {streams = [...]} {
      %x = pipe.section forward at 0 .. 1 { ... pipe.yield %start }
      %y = pipe.section forward at 0 .. 4 { ... pipe.yield %last }
      %dy, %g = pipe.section backward at 3 .. 4 { ... }
      ...
      pipe.message activation %y -> %x over 0 .. 3
      pipe.yield %added
    }
    ```

    The order of sections in the text respects dependences; the streams say in
    which order a stage runs them, and for which microbatch. A value that one
    section gives and another reads is kept for its microbatch in between.
    Carried values are sums that microbatches add to.
  }];
  let extraClassDeclaration = [{
    /// Of a function's argument or result that lives on some stages alone:
    /// triples of an atom, and begin and end of coordinates.
    static constexpr llvm::StringLiteral kResidence = "pipe.residence";
  }];
}

class Pipe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipe_Dialect, mnemonic, traits>;

def Pipe_MicroOp : Pipe_Op<"micro", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "work that each microbatch does";
  let description = [{
    `pipe` are the atoms whose coordinates are the stages, `micro` and `chunk`
    the times; `placement` is 0 plain, 1 dealt, 2 folded (Plan.fbs). `streams`
    has a list for each stage: step kind, chunk, microbatch, …
  }];
  let arguments = (ins Variadic<Clv_Tensor>:$carried,
                       DenseI64ArrayAttr:$pipe, DenseI64ArrayAttr:$micro,
                       DenseI64ArrayAttr:$chunk, I64Attr:$placement,
                       ArrayAttr:$streams);
  let results = (outs Variadic<Clv_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Operation *getYield() { return getBlock()->getTerminator(); }
  }];
}

def Pipe_SectionOp : Pipe_Op<"section", [
    HasParent<"MicroOp">, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "work of the positions [begin, end)";
  let arguments = (ins Pipe_SectionKind:$kind, I64Attr:$begin, I64Attr:$end);
  let results = (outs Variadic<Clv_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Operation *getYield() { return getBlock()->getTerminator(); }
  }];
}

def Pipe_OnlyOp : Pipe_Op<"only", [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "work of some stages, once a step";
  let description = [{
    `residence` holds triples: an atom, and the begin and end of coordinates.
  }];
  let arguments = (ins DenseI64ArrayAttr:$residence);
  let results = (outs Variadic<Clv_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    ::mlir::Operation *getYield() { return getBlock()->getTerminator(); }
  }];
}

def Pipe_ShareOp : Pipe_Op<"share"> {
  let summary = "a value of some stages, for all";
  let description = [{
    A collective over `pipe`: those of `residence` give, all have it afterwards.
  }];
  let arguments = (ins Clv_Tensor:$source, DenseI64ArrayAttr:$pipe,
                       DenseI64ArrayAttr:$residence);
  let results = (outs Clv_Tensor:$result);
  let hasVerifier = 1;
}

/// The same memory with another type.
class Pipe_View<string mnemonic> : Pipe_Op<mnemonic, [Pure]> {
  let arguments = (ins Clv_Tensor:$x);
  let results = (outs Clv_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Pipe_PendingOp : Pipe_View<"pending"> {
  let summary = "each stage's part of a sum over stages";
  let description = [{
    The same memory, with a type that is pending over the stages' atoms.
  }];
}

def Pipe_ChunkOp : Pipe_View<"chunk"> {
  let summary = "of all layers of a stage, those of the running chunk";
  let description = [{
    The same memory: chunks stand one after the other. `x` is cut over the
    stages, each of which holds several pieces; the result over the time of
    chunks too.
  }];
}

def Pipe_MergeOp : Pipe_View<"merge"> {
  let summary = "all layers of a stage, those of the running chunk written";
  let description = [{ The inverse of `pipe.chunk`, in the same memory. }];
}

def Pipe_StoreOp : Pipe_Op<"store", [Pure, AllTypesMatch<["whole", "result"]>]> {
  let summary = "a microbatch's part of a value, put in its place";
  let description = [{
    The memory of `whole`, with the elements that `part` has written into it.
    `part` has the same dims, cut over times as well. In a reproducible run
    microbatches store the terms of sums, which are added once all are there.
  }];
  let arguments = (ins Clv_Tensor:$part, Clv_Tensor:$whole);
  let results = (outs Clv_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$part `into` $whole attr-dict `:` type($part) `into` "
                       "type($whole)";
}

def Pipe_SpreadOp : Pipe_Op<"spread", [Pure]> {
  let summary = "the layers of a stage in their places among all";
  let description = [{
    The first dim of `x` lies in several pieces on each stage; the result has
    all of it, with zeros where other stages have theirs: a pending sum over the
    stages' atoms, whose terms but one are zero.
  }];
  let arguments = (ins Clv_Tensor:$x);
  let results = (outs Clv_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Pipe_MessageOp : Pipe_Op<"message", [HasParent<"MicroOp">]> {
  let summary = "what neighbouring positions send to each other";
  let description = [{
    Over the boundaries [begin, end), of which number i lies between positions
    i and i + 1: an activation from i to i + 1, a gradient the other way.
  }];
  let arguments = (ins Pipe_Direction:$direction, Clv_Tensor:$source,
                       Clv_Tensor:$target, I64Attr:$begin, I64Attr:$end);
  let hasVerifier = 1;
}

def Pipe_YieldOp : Pipe_Op<"yield", [
    Terminator, Pure, ParentOneOf<["MicroOp", "SectionOp", "OnlyOp"]>]> {
  let summary = "what the operation around it gives";
  let arguments = (ins Variadic<Clv_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // CLEAVE_DIALECTS_PIPE_PIPE
