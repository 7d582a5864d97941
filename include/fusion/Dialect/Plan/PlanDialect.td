//===- PlanDialect.td - The plan dialect, its type --------------*- tablegen -*-===//
//
// A compiled model as launches over buffers. There are no tensor values here:
// after this point memory is explicit.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_DIALECT_PLAN_TD
#define FUSION_DIALECT_PLAN_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::fusion::plan";
  let summary = "Launches of kernels over buffers: what an artifact holds";
  let description = [{
    A planned module holds one `plan.model` (symbols, inputs, outputs, states,
    guards), the constants (`plan.constant`), the kernels (`fusion.kernel`) and
    one `plan.program` for each bucket class. A program is a list of buffers and
    `plan.launch` operations, executed in order. Sizes are expressions over the
    model's symbols. The ops mirror `include/fusion/Artifact/Model.h`.

    Values of type `!plan.buffer` are places in memory, not contents.

    Numerics: no op of this dialect computes or converts elements. Constants and
    weights keep their bytes, buffers hold what the kernels rounded.
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerOps();
  }];
}

def Plan_BufferType : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a place in memory";
  let description = [{
    The start of an input, output, weight, state or arena slice, or of a part of
    one. Element types and shapes belong to the kernels.

    ```mlir
    !plan.buffer
    ```
  }];
}

def Plan_Buffer : Type<
    CPred<"::llvm::isa<::fusion::plan::BufferType>($_self)">, "buffer",
    "::fusion::plan::BufferType">,
    BuildableType<"::fusion::plan::BufferType::get($_builder.getContext())">;

/// A 64-bit attribute whose accessor is signed.
def Plan_I64Attr : TypedSignlessIntegerAttrBase<
    I64, "int64_t", "64-bit signless integer attribute">;

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

#endif // FUSION_DIALECT_PLAN_TD
