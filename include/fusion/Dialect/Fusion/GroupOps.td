//===- GroupOps.td - What becomes one kernel --------------------*- tablegen -*-===//

#ifndef FUSION_GROUP_OPS_TD
#define FUSION_GROUP_OPS_TD

include "fusion/Dialect/Fusion/FusionBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"

def Fusion_GroupOp : Fusion_Op<"group", [
    Pure, IsolatedFromAbove, SingleBlock,
    SingleBlockImplicitTerminator<"::fusion::YieldOp">]> {
  let summary = "operations that run as one kernel";
  let description = [{
    An isolated region: `inputs` are its block arguments, its `fusion.yield`
    names the results that leave it. `kind` names what it is (add_rms_norm,
    matmul, swiglu, rope_attention, pointwise, ...), `kernel` the family that
    executes it once kernels are selected.

    Numerics: values inside keep the precision that they are computed in (see
    the dialect's notes); what `fusion.yield` names is rounded once to its
    element type. With --numerics=strict every op rounds.

    ```mlir
    %sum, %norm = fusion.group "add_rms_norm" (%a = %x, %b = %y, %g = %w)
        : (tensor<4x64xf32>, tensor<4x64xf32>, tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
      %0 = fusion.add %a, %b : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
      %1 = fusion.rms_norm %0, %g {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
      fusion.yield %0, %1 : tensor<4x64xf32>, tensor<4x64xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Fusion_Tensor>:$inputs,
                       OptionalAttr<Fusion_KernelAttr>:$kernel);
  let results = (outs Variadic<Fusion_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBlock() { return &getBody().front(); }
    YieldOp getYield();
  }];
}

def Fusion_YieldOp : Fusion_Op<"yield", [
    Pure, Terminator, ParentOneOf<["GroupOp", "KernelOp"]>]> {
  let summary = "the results of a group";
  let description = [{
    Numerics: each value is rounded to its element type here, once.

    ```mlir
    fusion.yield %sum, %norm : tensor<4x64xf32>, tensor<4x64xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

def Fusion_KernelOp : Fusion_Op<"kernel", [
    Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "the body of equal groups, once";
  let description = [{
    What the Plan phase makes of equal groups: the same region, whose symbolic
    sizes are renamed to `d0`, `d1`, ... in order of first appearance in the
    argument types, then the body. `num_sizes` says how many there are; a
    launch gives their values. Operands come first, results after them: a
    kernel is called with one pointer for each argument and each yielded value.

    Numerics: as fusion.group.

    ```mlir
    fusion.kernel @add_rms_norm_0 config #fusion.config<"row_reduction", {}> sizes 1
        (%a: tensor<?x64xf32, #fusion.shape<[d0, 64]>>, %g: tensor<64xf32>) {
      %0 = fusion.rms_norm %a, %g {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32, #fusion.shape<[d0, 64]>>, tensor<64xf32>) -> tensor<?x64xf32, #fusion.shape<[d0, 64]>>
      fusion.yield %0 : tensor<?x64xf32, #fusion.shape<[d0, 64]>>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fusion_KernelAttr:$config,
                       Fusion_I64Attr:$num_sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether programs of `device` ("host" or "card") launch the kernel;
    /// where nothing is said, any may.
    bool runsOn(::llvm::StringRef device);
    ::mlir::Block *getBlock() { return &getBody().front(); }
    YieldOp getYield();
  }];
}

#endif // FUSION_GROUP_OPS_TD
