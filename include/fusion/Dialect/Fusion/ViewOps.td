//===- ViewOps.td - Elements in other places --------------------*- tablegen -*-===//

#ifndef FUSION_VIEW_OPS_TD
#define FUSION_VIEW_OPS_TD

include "fusion/Dialect/Fusion/FusionBase.td"

def Fusion_WeightOp : Fusion_TypedOp<"weight", "Constant"> {
  let summary = "a constant whose bytes stay in a file";
  let description = [{
    The tensor's elements are the bytes that `source` names. `name` is the
    initializer's name in the model.
    Numerics: exact.

    ```mlir
    %w = fusion.weight "lm_head.weight" at <"m.data", 0, 1024> : tensor<16x16xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Fusion_WeightAttr:$source);
  let assemblyFormat = "$name `at` $source attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Fusion_ConstantOp : Fusion_TypedOp<"constant", "Constant",
    [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant";
  let description = [{
    At most 64 KiB; larger tensors are `fusion.weight`.
    Numerics: exact.

    ```mlir
    %c = fusion.constant dense<1.0e-5> : tensor<f32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = classDeclaration;
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{
    build($_builder, $_state, value.getType(), value);
  }]>];
}

def Fusion_ShapeValueOp : Fusion_TypedOp<"shape_value", "Constant"> {
  let summary = "an integer tensor computed from symbolic sizes";
  let description = [{
    Element i (row-major) is the value of the i-th expression. What is left of
    ONNX's Shape arithmetic where a size is needed as data.
    Numerics: exact.

    ```mlir
    %s = fusion.shape_value ["past + seq", "1"] : tensor<2xi64>
    ```
  }];
  let arguments = (ins StrArrayAttr:$values);
  let assemblyFormat = "$values attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Fusion_IotaOp : Fusion_TypedOp<"iota", "Elementwise"> {
  let summary = "start, start + step, start + 2*step, ...";
  let description = [{
    `start` and `step` are expressions over symbolic sizes; rank 1.
    Numerics: exact: integers.

    ```mlir
    %p = fusion.iota "past" step "1" : tensor<?xi64, #fusion.shape<[seq]>>
    ```
  }];
  let arguments = (ins StrAttr:$start, StrAttr:$step);
  let assemblyFormat = "$start `step` $step attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Fusion_ReshapeOp : Fusion_TypedOp<"reshape", "View"> {
  let summary = "the same elements, in order, under another shape";
  let description = [{
    Also stands for Squeeze, Unsqueeze and Flatten.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.reshape %x : (tensor<4x8xf32>) -> tensor<4x2x4xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_TransposeOp : Fusion_InferringOp<"transpose", "View"> {
  let summary = "axes in another order";
  let description = [{
    Axis i of the result is axis `perm[i]` of the input.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.transpose %x perm = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$perm);
  let assemblyFormat =
      "$input `perm` `=` $perm attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = classDeclaration
      # "std::optional<::mlir::AffineMap> getOperandMap(unsigned operand);\n";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_ExpandOp : Fusion_TypedOp<"expand", "View"> {
  let summary = "broadcast to a larger shape";
  let description = [{
    ONNX broadcasting towards the result type.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.expand %x : (tensor<1x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_SliceOp : Fusion_TypedOp<"slice", "View"> {
  let summary = "every step-th element from a start, along each axis";
  let description = [{
    `result[i] = input[starts + i * steps]`, per axis, for all axes. Starts are
    expressions over symbolic sizes (already clamped and non-negative), steps
    non-zero integers. The result type says how many elements.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, StrArrayAttr:$starts,
                       DenseI64ArrayAttr:$steps);
  let assemblyFormat = [{
    $input `starts` `=` $starts `steps` `=` $steps attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Fusion_ConcatOp : Fusion_InferringOp<"concat", "Gather"> {
  let summary = "tensors one after another along an axis";
  let description = [{
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.concat %a, %b axis = 1 : (tensor<4x2xf32>, tensor<4x6xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, Fusion_I64Attr:$axis);
  let assemblyFormat =
      "$inputs `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Fusion_PadOp : Fusion_TypedOp<"pad", "Gather"> {
  let summary = "a constant border (or a repeated one) around a tensor";
  let description = [{
    `low[i]` elements before axis i (expressions; negative ones crop); the
    result type says how many in all. `mode` is constant, edge, reflect or wrap.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.pad %x, %v low = ["0", "1"] {mode = "constant"} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_Tensor:$value,
                       StrArrayAttr:$low, DefaultValuedAttr<StrAttr, "\"constant\"">:$mode);
  let assemblyFormat =
      "operands `low` `=` $low attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Fusion_TileOp : Fusion_TypedOp<"tile", "Gather"> {
  let summary = "a tensor repeated along its axes";
  let description = [{
    `result[i] = input[i mod size]` per axis; ranks are equal.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.tile %x : (tensor<1x4xf32>) -> tensor<3x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Fusion_GatherOp : Fusion_InferringOp<"gather", "Gather"> {
  let summary = "slices of a tensor, by index along one axis";
  let description = [{
    `result[i.., j.., k..] = data[i.., indices[j..], k..]`; the index replaces
    `axis`. Negative indices count from the end (unsigned ones all from the
    front); others out of range are an
    error at run time (the read is clamped).
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.gather %data, %i axis = 0 : (tensor<100x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$data, Fusion_Tensor:$indices, Fusion_I64Attr:$axis);
  let assemblyFormat =
      "$data `,` $indices `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Fusion_GatherElementsOp : Fusion_InferringOp<"gather_elements", "Gather"> {
  let summary = "elements of a tensor, by an index for each";
  let description = [{
    `result[i, j] = data[indices[i, j], j]` for axis 0, and so on.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.gather_elements %d, %i axis = 0 : (tensor<4x8xf32>, tensor<2x8xi64>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$data, Fusion_Tensor:$indices, Fusion_I64Attr:$axis);
  let assemblyFormat =
      "$data `,` $indices `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Fusion_GatherNdOp : Fusion_TypedOp<"gather_nd", "Gather"> {
  let summary = "slices of a tensor, by index tuples";
  let description = [{
    As ONNX's GatherND with `batch_dims`.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.gather_nd %d, %i {batch_dims = 0 : i64} : (tensor<4x8xf32>, tensor<3x2xi64>) -> tensor<3xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$data, Fusion_Tensor:$indices,
                       DefaultValuedAttr<Fusion_I64Attr, "0">:$batch_dims);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Fusion_ScatterNdOp : Fusion_InferringOp<"scatter_nd", "Opaque"> {
  let summary = "a copy of a tensor with slices replaced, by index tuples";
  let description = [{
    As ONNX's ScatterND; `reduction` is none, add, mul, max or min. With `none`
    and equal indices the last update wins.
    Numerics: elements are copied; with a reduction, updates are combined in
    fp32 (f64 in f64) in the order of the indices and rounded once.

    ```mlir
    %y = fusion.scatter_nd %d, %i, %u : (tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$data, Fusion_Tensor:$indices,
                       Fusion_Tensor:$updates,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Fusion_ScatterElementsOp : Fusion_InferringOp<"scatter_elements", "Opaque"> {
  let summary = "a copy of a tensor with elements replaced, by an index for each";
  let description = [{
    As ONNX's ScatterElements; `reduction` is none, add, mul, max or min.
    Numerics: elements are copied; with a reduction, updates are combined in
    fp32 (f64 in f64) in the order of the indices and rounded once.

    ```mlir
    %y = fusion.scatter_elements %d, %i, %u axis = 0 : (tensor<4x8xf32>, tensor<1x8xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$data, Fusion_Tensor:$indices,
                       Fusion_Tensor:$updates, Fusion_I64Attr:$axis,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let assemblyFormat =
      "operands `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
}

def Fusion_TriluOp : Fusion_InferringOp<"trilu", "Elementwise"> {
  let summary = "upper or lower triangle of the last two axes";
  let description = [{
    Keeps elements with `column - row >= k` (upper) or `<= k` (lower), zero
    elsewhere. `k` is an expression over symbolic sizes.
    Numerics: elements are copied, never rounded.

    ```mlir
    %y = fusion.trilu %x k = "1" {upper} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, StrAttr:$k, UnitAttr:$upper);
  let assemblyFormat =
      "$input `k` `=` $k attr-dict `:` functional-type(operands, results)";
}

#endif // FUSION_VIEW_OPS_TD
