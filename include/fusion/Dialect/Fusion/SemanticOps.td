//===- SemanticOps.td - The ideas of a language model -----------*- tablegen -*-===//
//
// What Raise produces: matmul, norms, rotation, attention, KV append,
// dequantisation.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SEMANTIC_OPS_TD
#define FUSION_SEMANTIC_OPS_TD

include "fusion/Dialect/Fusion/FusionBase.td"

def Fusion_MatmulOp : Fusion_InferringOp<"matmul", "Contraction"> {
  let summary = "matrix product, batched with ONNX broadcasting";
  let description = [{
    `lhs [..., M, K] x rhs [..., K, N] -> [..., M, N]`; with `transpose_rhs`,
    `rhs` is `[..., N, K]`; with `transpose_lhs`, `lhs` is `[..., K, M]`.
    Operands of rank 1 follow numpy. Accumulates in fp32 (integers in i32) and
    rounds once. The result has the element type of `lhs`, i32 for integers.

    ```mlir
    %y = fusion.matmul %x, %w {transpose_rhs} : (tensor<1x4x8xf32>, tensor<16x8xf32>) -> tensor<1x4x16xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$lhs, Fusion_Tensor:$rhs,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let hasCanonicalizer = 1;
  let extraClassDeclaration = classDeclaration # [{
    /// Symbolic size of the contracted dimension.
    ::fusion::SymExpr getContractedSize();
    double getFlopsPerElement();
  }];
}

def Fusion_DequantizeOp : Fusion_TypedOp<"dequantize", "Elementwise",
    [AttrSizedOperandSegments]> {
  let summary = "(q - zero point) * scale, per tensor, axis or block";
  let description = [{
    `scale` has rank 0 or one element (per tensor), rank 1 (per `axis`), or the
    rank of `input` with `axis` divided into blocks of `block_size` elements
    (the last block may be short). `zero_point` has the shape of `scale` and
    either the type of `input` or a floating-point type; absent, it is
    `implicit_zero_point` (0 for ONNX DequantizeLinear, 2^(bits-1) for
    MatMulNBits). The difference is exact; product and result are rounded once
    to the result type. `group_index`, when present, gives for each element of
    `axis` the block whose scale it takes (GPTQ's g_idx).

    Two-level scales (NVFP4) are a dequantize whose scale is the result of
    another one.

    ```mlir
    %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<16x64xui4>, tensor<16x2xf32>) -> tensor<16x64xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, Fusion_Tensor:$scale,
                       Optional<Fusion_Tensor>:$zero_point,
                       Optional<Fusion_Tensor>:$group_index,
                       DefaultValuedAttr<Fusion_I64Attr, "0">:$axis,
                       DefaultValuedAttr<Fusion_I64Attr, "0">:$block_size,
                       DefaultValuedAttr<Fusion_I64Attr, "0">:$implicit_zero_point);
  let assemblyFormat = [{
    $input `,` $scale (`zero_point` $zero_point^)? (`group_index` $group_index^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration # [{
    double getFlopsPerElement() { return 2; }
    /// Scales lie by axis or block: only the input has a map.
    std::optional<::mlir::AffineMap> getOperandMap(unsigned operand) {
      if (operand != 0)
        return std::nullopt;
      return ::fusion::defaultOperandMap(getOperation(), operand);
    }
  }];
}

def Fusion_RmsNormOp : Fusion_TypedOp<"rms_norm", "RowReduction"> {
  let summary = "x / sqrt(mean(x^2) + epsilon), times a weight";
  let description = [{
    Over the last axis, in fp32. `weight`, when present, broadcasts over the
    last axis (and may vary along others of size 1 only). With
    `cast_before_scale` the normalised value is rounded to the result type
    before the product (Llama's order) where the numerics mode rounds at all;
    else the product is rounded once (Gemma's order). `epsilon` is inside the
    root. Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).

    ```mlir
    %y = fusion.rms_norm %x, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Optional<Fusion_FloatTensor>:$weight,
                       F32Attr:$epsilon, UnitAttr:$cast_before_scale);
  let assemblyFormat = [{
    $input (`,` $weight^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration
      # "double getFlopsPerElement() { return 4; }\n";
}

def Fusion_LayerNormOp : Fusion_TypedOp<"layer_norm", "RowReduction"> {
  let summary = "(x - mean) / sqrt(variance + epsilon), times weight, plus bias";
  let description = [{
    Over the axes from `axis` (default: the last one) to the last, in fp32.
    Ba, Kiros and Hinton, "Layer Normalization" (2016).

    ```mlir
    %y = fusion.layer_norm %x, %w, %b {epsilon = 1.0e-5 : f32, axis = -1 : i64} : (tensor<4x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$weight,
                       Optional<Fusion_FloatTensor>:$bias, F32Attr:$epsilon,
                       DefaultValuedAttr<Fusion_I64Attr, "-1">:$axis);
  let assemblyFormat = [{
    $input `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration # [{
    double getFlopsPerElement() { return 7; }
    ::llvm::SmallVector<int64_t> getReducedAxes();
  }];
}

def Fusion_RopeOp : Fusion_InferringOp<"rope", "Elementwise"> {
  let summary = "rotary position embedding";
  let description = [{
    Rotates the first R elements of the last axis of `input` [..., D], in
    pairs: element i with i + R/2 (half-rotated), or 2i with 2i+1
    (`interleaved`); the rest passes through.

    `cos` and `sin` broadcast to `input` over all axes but the last, which is
    either R/2 (one angle a pair) or R (one value an element):

        half, element i < R/2:     x[i] * cos[i] - x[i+R/2] * sin[i]
        half, element i >= R/2:    x[i] * cos[i] + x[i-R/2] * sin[i]

    where the index into a table of width R/2 is the pair's. R is
    `rotary_dim`, or D when that is 0. Computed in fp32.
    Su et al., "RoFormer" (2021).

    ```mlir
    %y = fusion.rope %x, %c, %s : (tensor<1x8x4x64xf32>, tensor<1x1x4x32xf32>, tensor<1x1x4x32xf32>) -> tensor<1x8x4x64xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input, Fusion_FloatTensor:$cos,
                       Fusion_FloatTensor:$sin, UnitAttr:$interleaved,
                       DefaultValuedAttr<Fusion_I64Attr, "0">:$rotary_dim);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration # [{
    double getFlopsPerElement() { return 3; }
    /// An element reads its pair: no map.
    std::optional<::mlir::AffineMap> getOperandMap(unsigned) {
      return std::nullopt;
    }
  }];
}

def Fusion_KvAppendOp : Fusion_InferringOp<"kv_append", "Append"> {
  let summary = "new keys or values behind the cached ones";
  let description = [{
    `past` [batch, heads, past, D] and `update` [batch, heads, seq, D] give
    [batch, heads, past + seq, D]; `axis` is the one that grows. With a cache
    that is session state (`past` has a storage shape), the result is the same
    memory and only the new rows are written.

    ```mlir
    %k = fusion.kv_append %past, %new axis = 2 : (tensor<1x8x3x64xf32>, tensor<1x8x1x64xf32>) -> tensor<1x8x4x64xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$past, Fusion_Tensor:$update, Fusion_I64Attr:$axis);
  let assemblyFormat =
      "$past `,` $update `axis` `=` $axis attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Fusion_AttentionOp : Fusion_TypedOp<"attention", "Attention",
    [AttrSizedOperandSegments]> {
  let summary = "softmax(scale * q k^T, capped and masked) v, with grouped heads";
  let description = [{
    `query` [batch, heads, S, D], `key` [batch, kv heads, T, D], `value`
    [batch, kv heads, T, Dv] give [batch, heads, S, Dv]. Query head h reads kv
    head h / (heads / kv heads). In this order, in fp32:

    1. `x = scale * dot(q[i], k[j])`
    2. `x = softcap * tanh(x / softcap)` when `softcap` is not 0
    3. key j is visible to query i only when
       `causal` implies `j <= i + causal_offset`, and
       `window_left >= 0` implies `j >= i + causal_offset - window_left`, and
       `window_right >= 0` implies `j <= i + causal_offset + window_right`, and
       `valid_lengths` [batch] implies `j < valid_lengths[b]`, and
       `key_mask` [batch, T] (i1) is true at j, and a boolean `bias` is true
    4. a float `bias`, broadcast to [batch, heads, S, T], is added
    5. softmax over j, then the product with v

    `causal_offset` is an expression over symbolic sizes. A query that sees no
    key gives zeros (`masked_rows` = zero), NaN (nan) or the mean over all keys
    (uniform, what a finite minimum as mask value gives).
    Vaswani et al. (2017); grouped heads: Ainslie et al. (2023).

    ```mlir
    %y = fusion.attention %q, %k, %v {scale = 0.125 : f32, causal, causal_offset = "past"} : (tensor<1x8x4x64xf32>, tensor<1x2x4x64xf32>, tensor<1x2x4x64xf32>) -> tensor<1x8x4x64xf32>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$query, Fusion_FloatTensor:$key,
                       Fusion_FloatTensor:$value,
                       Optional<Fusion_Tensor>:$bias,
                       Optional<Fusion_BoolTensor>:$key_mask,
                       Optional<Fusion_Tensor>:$valid_lengths,
                       F32Attr:$scale,
                       DefaultValuedAttr<F32Attr, "0.0f">:$softcap,
                       UnitAttr:$causal,
                       DefaultValuedAttr<StrAttr, "\"0\"">:$causal_offset,
                       DefaultValuedAttr<Fusion_I64Attr, "-1">:$window_left,
                       DefaultValuedAttr<Fusion_I64Attr, "-1">:$window_right,
                       DefaultValuedAttr<StrAttr, "\"zero\"">:$masked_rows);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^)? (`key_mask` $key_mask^)?
    (`valid_lengths` $valid_lengths^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration # [{
    double getFlopsPerElement();
  }];
}

#endif // FUSION_SEMANTIC_OPS_TD
