//===- PlanOps.td - Model, constants, programs, launches --------*- tablegen -*-===//

#ifndef FUSION_PLAN_OPS_TD
#define FUSION_PLAN_OPS_TD

include "fusion/Dialect/Plan/PlanDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

def Plan_ModelOp : Plan_Op<"model", [
    SingleBlock, NoTerminator, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "what the outside sees of a model";
  let description = [{
    Declares symbols, inputs, outputs, states and guards; their order is their
    index. `appended` is the number of tokens that a run adds to the states,
    `max_context` the tokens that they hold (0 without states).

    ```mlir
    plan.model "main" {
      plan.symbol "seq" input 0 axis 1 in 1 to 4096
      plan.model_input "input_ids" : tensor<1x?xi64, #fusion.shape<[1, seq]>> role "token_ids"
      plan.model_output "logits" : tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name,
                       DefaultValuedAttr<StrAttr, "\"0\"">:$appended,
                       DefaultValuedAttr<Plan_I64Attr, "0">:$max_context);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Plan_SymbolOp : Plan_Op<"symbol", [HasParent<"ModelOp">]> {
  let summary = "a size that is known when a session is bound to inputs";
  let description = [{
    Its value is a dimension of an input, or the number of cached tokens. `in`
    gives the compiled range, inclusive.

    ```mlir
    plan.symbol "past" cached_length in 0 to 8191
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<Plan_I64Attr>:$input,
                       OptionalAttr<Plan_I64Attr>:$axis, Plan_I64Attr:$lower,
                       Plan_I64Attr:$upper);
  let assemblyFormat = [{
    $name (`input` $input^ `axis` $axis) : (`cached_length`)?
    `in` $lower `to` $upper attr-dict
  }];
  let hasVerifier = 1;
}

class Plan_ModelTensorOp<string mnemonic>
    : Plan_Op<mnemonic, [HasParent<"ModelOp">]> {
  let arguments = (ins StrAttr:$name, TypeAttr:$tensor,
                       OptionalAttr<StrAttr>:$role);
  let assemblyFormat = "$name `:` $tensor (`role` $role^)? attr-dict";
}

def Plan_ModelInputOp : Plan_ModelTensorOp<"model_input"> {
  let summary = "an input of the model";
  let description = [{
    Name and type as in the ONNX file; `role` is what it means to a decoder.

    ```mlir
    plan.model_input "input_ids" : tensor<1x4xi64> role "token_ids"
    ```
  }];
}

def Plan_ModelOutputOp : Plan_ModelTensorOp<"model_output"> {
  let summary = "an output of the model";
  let description = [{
    ```mlir
    plan.model_output "logits" : tensor<1x4x8xf32> role "logits"
    ```
  }];
}

def Plan_ModelStateOp : Plan_Op<"model_state", [HasParent<"ModelOp">]> {
  let summary = "a buffer that lives as long as the session";
  let description = [{
    `tensor` is the allocated shape; tokens are appended along `length_axis`.

    ```mlir
    plan.model_state "past_key_values.0.key" : tensor<1x8x2048x64xf32> length_axis 2
    ```
  }];
  let arguments = (ins StrAttr:$name, TypeAttr:$tensor,
                       Plan_I64Attr:$length_axis);
  let assemblyFormat = "$name `:` $tensor `length_axis` $length_axis attr-dict";
}

def Plan_GuardOp : Plan_Op<"guard", [HasParent<"ModelOp">]> {
  let summary = "an equality of sizes that was assumed and not proven";
  let description = [{
    Checked whenever a session is bound to inputs.

    ```mlir
    plan.guard "seq" equals "total" because "inputs 'ids' and 'mask' are added"
    ```
  }];
  let arguments = (ins StrAttr:$left, StrAttr:$right, StrAttr:$reason);
  let assemblyFormat = "$left `equals` $right `because` $reason attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

def Plan_ConstantOp : Plan_Op<"constant", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a constant of the artifact's weight section";
  let description = [{
    Its bytes come from one of three places: a file (`#fusion.weight`), elements
    in the IR, or a kernel over other constants, which Link evaluates.

    ```mlir
    plan.constant @w "lm_head.weight" : tensor<16x16xf32> = #fusion.weight<"m.data", 0, 1024>
    plan.constant @one "one" : tensor<2xf32> = dense<1.0> : tensor<2xf32>
    plan.constant @w1 "w + 1" : tensor<16x16xf32> evaluates @pointwise_0 result 0 of [@w, @one]
    ```

    `layout` names the packed layout in which Link stores them (Kernels/LowBit.h);
    absent, they are row-major.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$name,
                       TypeAttr:$tensor, OptionalAttr<AnyAttr>:$value,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel,
                       OptionalAttr<Plan_I64Attr>:$result,
                       OptionalAttr<FlatSymbolRefArrayAttr>:$sources,
                       OptionalAttr<StrAttr>:$layout);
  let assemblyFormat = [{
    $sym_name $name `:` $tensor (`layout` $layout^)? (`=` $value^)?
    (`evaluates` $kernel^ `result` $result `of` $sources)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program", [
    Symbol, SingleBlock, NoTerminator, NoRegionArguments, IsolatedFromAbove]> {
  let summary = "the model, fused for one class of sizes";
  let description = [{
    Runs when `rows` (the number of token rows) lies in the given range and each
    symbol of `fixed` has the given value. Launches execute in order; launch i
    is the i-th `plan.launch`. Programs of set "" run; those of set "unfused"
    have one kernel an ONNX node and serve verification. `device "card"` says
    that the program was fused for a card, and runs there. `arena` gives the
    planned bytes and their lower bound at the upper sizes.

    ```mlir
    plan.program @decode rows "1" in 1 to 1 fixed {seq = 1 : i64} {
      %x = plan.input 0
      %y = plan.output 0
      plan.launch @relu (%x) to (%y) sizes ["1"] grid "1" grain "1" scratch "0"
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$rows,
                       Plan_I64Attr:$min_rows, Plan_I64Attr:$max_rows,
                       OptionalAttr<DictionaryAttr>:$fixed,
                       OptionalAttr<StrAttr>:$set,
                       OptionalAttr<StrAttr>:$device,
                       OptionalAttr<DenseI64ArrayAttr>:$arena);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `rows` $rows `in` $min_rows `to` $max_rows
    (`fixed` $fixed^)? (`set` $set^)? (`device` $device^)? (`arena` $arena^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

class Plan_HandleOp<string mnemonic, list<Trait> traits = [Pure]>
    : Plan_Op<mnemonic, traits # [HasParent<"ProgramOp">]> {
  let results = (outs Plan_Buffer:$buffer);
}

class Plan_IndexedOp<string mnemonic> : Plan_HandleOp<mnemonic> {
  let arguments = (ins Plan_I64Attr:$index);
  let assemblyFormat = "$index attr-dict";
}

def Plan_InputOp : Plan_IndexedOp<"input"> {
  let summary = "the buffer of a model input";
  let description = [{
    ```mlir
    %x = plan.input 0
    ```
  }];
}

def Plan_OutputOp : Plan_IndexedOp<"output"> {
  let summary = "the buffer of a model output";
  let description = [{
    ```mlir
    %y = plan.output 0
    ```
  }];
}

def Plan_StateOp : Plan_IndexedOp<"state"> {
  let summary = "the buffer of a session state";
  let description = [{
    ```mlir
    %cache = plan.state 3
    ```
  }];
}

def Plan_WeightOp : Plan_HandleOp<"weight", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the buffer of a constant";
  let description = [{
    ```mlir
    %w = plan.weight @lm_head.weight
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$constant);
  let assemblyFormat = "$constant attr-dict";
}

def Plan_AllocOp : Plan_HandleOp<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "a slice of the arena";
  let description = [{
    `bytes` is its exact size, `tensor` what it holds (for dumps and for
    `value`, the ONNX value that fills it). `live` gives the indices of the
    first and the last launch that use it, once memory is planned.

    ```mlir
    %b = plan.alloc "256*seq" : tensor<?x64xf32, #fusion.shape<[seq, 64]>> value "/norm" live 0 to 3
    ```
  }];
  let arguments = (ins StrAttr:$bytes, TypeAttr:$tensor,
                       OptionalAttr<StrAttr>:$value,
                       OptionalAttr<Plan_I64Attr>:$first,
                       OptionalAttr<Plan_I64Attr>:$last);
  let assemblyFormat = [{
    $bytes `:` $tensor (`value` $value^)? (`live` $first^ `to` $last)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ViewOp : Plan_HandleOp<"view"> {
  let summary = "a part of a buffer; costs nothing";
  let description = [{
    ```mlir
    %v = plan.view %b at "256*seq"
    ```
  }];
  let arguments = (ins Plan_Buffer:$source, StrAttr:$offset);
  let assemblyFormat = "$source `at` $offset attr-dict";
  let hasVerifier = 1;
}

def Plan_LaunchOp : Plan_Op<"launch", [
    HasParent<"ProgramOp">, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one launch of a kernel";
  let description = [{
    The kernel reads `inputs` and writes `outputs` (an in-place append has the
    same buffer on both sides); `sizes` are the values of its symbols d0, d1,
    ... `grid` is the number of work items, `grain` the least number worth one
    worker, `scratch` the bytes of scratch of each worker.

    In braces behind a buffer: `evict_first` or `evict_last` (cache hint),
    `invariant` (no launch of this program writes it, so that its loads may move
    before the wait for the previous kernel) or `older_invariant` (a cache: only
    the rows of this step are written).

    `chain` launches share one class of grid, shared memory and registers, so
    that consecutive ones are resident together; a `programmatic` launch is
    split into prologue, wait and body and may start before its predecessor
    ends. `at` names the ONNX nodes.

    ```mlir
    plan.launch @matmul_0 (%x, %w {evict_first, invariant}) to (%y) sizes ["seq"] grid "64" grain "1" scratch "0" chain programmatic at "/lm_head/MatMul"
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
                       Variadic<Plan_Buffer>:$inputs,
                       Variadic<Plan_Buffer>:$outputs,
                       DenseI32ArrayAttr:$hints, DenseI32ArrayAttr:$invariance,
                       StrArrayAttr:$sizes, StrAttr:$grid, StrAttr:$grain,
                       StrAttr:$scratch, UnitAttr:$chain,
                       UnitAttr:$programmatic, OptionalAttr<StrAttr>:$site);
  let assemblyFormat = [{
    $kernel custom<LaunchArgs>($inputs, $outputs, $hints, $invariance)
    `sizes` $sizes `grid` $grid `grain` $grain `scratch` $scratch
    (`chain` $chain^)? (`programmatic` $programmatic^)? (`at` $site^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::fusion::artifact::CacheHint getHint(unsigned argument) {
      return static_cast<::fusion::artifact::CacheHint>(getHints()[argument]);
    }
    ::fusion::artifact::Invariance getInvariant(unsigned argument) {
      return static_cast<::fusion::artifact::Invariance>(
          getInvariance()[argument]);
    }
  }];
}

#endif // FUSION_PLAN_OPS_TD
