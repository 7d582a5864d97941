//===- ReductionOps.td - Many elements in, one out --------------*- tablegen -*-===//

#ifndef FUSION_REDUCTION_OPS_TD
#define FUSION_REDUCTION_OPS_TD

include "fusion/Dialect/Fusion/FusionBase.td"

class Fusion_ReduceOp<string mnemonic>
    : Fusion_InferringOp<mnemonic, "Reduction"> {
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$axes,
                       UnitAttr:$keepdims);
  let assemblyFormat =
      "$input `axes` `=` $axes attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *,
        std::optional<::mlir::Location> loc, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::fusion::inferReduction(loc, adaptor.getInput(), adaptor.getAxes(),
          adaptor.getKeepdims(), types);
    }
    ::llvm::LogicalResult $cppClass::verify() {
      return ::fusion::verifyAxes(getOperation(), getInput(), getAxes());
    }
  }];
}

def Fusion_ReduceSumOp : Fusion_ReduceOp<"reduce_sum"> {
  let summary = "sum over axes";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: floats accumulate in fp32 (f64 in f64), in an order that the
    target chooses and keeps from run to run; integers wrap.

    ```mlir
    %y = fusion.reduce_sum %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
}

def Fusion_ReduceMeanOp : Fusion_ReduceOp<"reduce_mean"> {
  let summary = "arithmetic mean over axes";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: the sum as reduce_sum, then one division; integers round
    towards zero.

    ```mlir
    %y = fusion.reduce_mean %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
}

def Fusion_ReduceMaxOp : Fusion_ReduceOp<"reduce_max"> {
  let summary = "largest element over axes; NaN wins";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: exact.

    ```mlir
    %y = fusion.reduce_max %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
}

def Fusion_ReduceMinOp : Fusion_ReduceOp<"reduce_min"> {
  let summary = "smallest element over axes; NaN wins";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: exact.

    ```mlir
    %y = fusion.reduce_min %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
}

def Fusion_ReduceProdOp : Fusion_ReduceOp<"reduce_prod"> {
  let summary = "product over axes";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: floats multiply in fp32 (f64 in f64), in an order that the
    target chooses and keeps; integers wrap.

    ```mlir
    %y = fusion.reduce_prod %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
}

def Fusion_ReduceAndOp : Fusion_ReduceOp<"reduce_and"> {
  let summary = "logical and over axes";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: exact.

    ```mlir
    %y = fusion.reduce_and %x axes = [1] {keepdims} : (tensor<4x8xi1>) -> tensor<4x1xi1>
    ```
  }];
}

def Fusion_ReduceOrOp : Fusion_ReduceOp<"reduce_or"> {
  let summary = "logical or over axes";
  let description = [{
    `axes` are non-negative and ascending.
    Numerics: exact.

    ```mlir
    %y = fusion.reduce_or %x axes = [1] {keepdims} : (tensor<4x8xi1>) -> tensor<4x1xi1>
    ```
  }];
}

def Fusion_ArgMaxOp : Fusion_InferringOp<"arg_max", "Reduction"> {
  let summary = "index of the largest (or smallest) element along an axis";
  let description = [{
    The first such index, or the last with `last`; `smallest` turns it into
    ArgMin. The result is i64.
    Numerics: exact; NaN beats every number.

    ```mlir
    %y = fusion.arg_max %x axis = 1 {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xi64>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_I64Attr:$axis, UnitAttr:$keepdims,
                       UnitAttr:$last, UnitAttr:$smallest);
  let assemblyFormat =
      "$input `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
}

def Fusion_SoftmaxOp : Fusion_InferringOp<"softmax", "RowReduction"> {
  let summary = "exp(x - max) / sum of it, along an axis";
  let description = [{
    A row of minus infinities gives NaN, as ONNX's Softmax. With `log`, the
    logarithm of it.
    Numerics: fp32 throughout (f64 in f64): the exponentials are as exact as
    exp, the sum is in the target's order.

    ```mlir
    %y = fusion.softmax %x axis = 1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_I64Attr:$axis, UnitAttr:$log);
  let assemblyFormat =
      "$input `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = classDeclaration
      # "double getFlopsPerElement() { return 14; }\n";
}

def Fusion_CumSumOp : Fusion_InferringOp<"cumsum", "Opaque"> {
  let summary = "running sum along an axis";
  let description = [{
    Numerics: floats accumulate in fp32 (f64 in f64) along the axis;
    integers wrap.

    ```mlir
    %y = fusion.cumsum %x axis = 1 {exclusive} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_I64Attr:$axis, UnitAttr:$exclusive,
                       UnitAttr:$reverse);
  let assemblyFormat =
      "$input `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
}

#endif // FUSION_REDUCTION_OPS_TD
