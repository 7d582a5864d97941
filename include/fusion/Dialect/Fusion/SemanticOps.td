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
    Operands of rank 1 follow numpy. The result has the element type of `lhs`,
    i32 for integers.
    Numerics: products and sums in fp32 (f64 in f64, integers in i32, which
    wraps), in an order that the target chooses and keeps from run to run;
    rounded once. On the card 16-bit operands are multiplied exactly by the
    tensor cores; fp32 ones never lose bits to tf32.

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
    MatMulNBits). `group_index`, when present, gives for each element of `axis`
    the block whose scale it takes (GPTQ's g_idx).
    Numerics: the difference and its product with the scale in fp32; a value
    that leaves its group, or --numerics=strict, is rounded once to the
    result type, the operand of a matmul in the same group stays as exact as
    the target multiplies it.

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
    Over the last axis. `weight`, when present, broadcasts over the
    last axis (and may vary along others of size 1 only). With
    `cast_before_scale` the normalised value is rounded to the result type
    before the product (Llama's order) where the numerics mode rounds at all;
    else the product is rounded once (Gemma's order). `epsilon` is inside the
    root. Numerics: fp32; the squares are summed in the target's order.
    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).

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
    Over the axes from `axis` (default: the last one) to the last.
    Numerics: fp32, the mean first and the variance about it; the result is
    rounded once.
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
    `rotary_dim`, or D when that is 0. Numerics: fp32, rounded once.
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
    [batch, heads, past + seq, D]; `axis` is the one that grows, the batch is
    axis 0. With a cache that is session state (`past` has a storage shape), the
    result is the same memory and only the new rows are written.

    `lengths` [batch] says how many rows of `past` each sequence has: element j
    along `axis` of sequence b is `update[j - lengths[b]]` where
    `0 <= j - lengths[b] < seq`, else `past[j]`, and zero behind both. Without
    it all sequences have as many as `past`. With `in_buffer` the result has the
    size of `past`, a buffer with room for more. A length that is negative or
    leaves no room for the update is an error of the run.

    Numerics: elements are copied, never rounded.

    ```mlir
    %k = fusion.kv_append %past, %new axis = 2 : (tensor<1x8x3x64xf32>, tensor<1x8x1x64xf32>) -> tensor<1x8x4x64xf32>
    %b = fusion.kv_append %past, %new lengths %n axis = 2 {in_buffer} : (tensor<2x8x32x64xf32>, tensor<2x8x1x64xf32>, tensor<2xi64>) -> tensor<2x8x32x64xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$past, Fusion_Tensor:$update,
                       Optional<Fusion_Tensor>:$lengths, Fusion_I64Attr:$axis,
                       UnitAttr:$in_buffer);
  let assemblyFormat = [{
    $past `,` $update (`lengths` $lengths^)? `axis` `=` $axis attr-dict
    `:` functional-type(operands, results)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$past, "::mlir::Value":$update, "int64_t":$axis), [{
      build($_builder, $_state, past, update, /*lengths=*/::mlir::Value(), axis,
            /*in_buffer=*/false);
    }]>,
  ];
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

    `causal_offset` is an expression over symbolic sizes: how many keys lie in
    front of query 0. Where `offsets` [batch] is given, sequence b has
    `offsets[b]` of them instead, and `causal_offset` is 0. A query that sees no
    key gives zeros (`masked_rows` = zero), NaN (nan) or the mean over all keys
    (uniform, what a finite minimum as mask value gives).
    Numerics: fp32 in this order, one rounding at the result. On the card
    the products of 16-bit operands run on tensor cores: the probabilities
    are rounded to the operands' type before the last product, exponentials
    are the card's own powers of two.
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
                       Optional<Fusion_Tensor>:$offsets,
                       F32Attr:$scale,
                       DefaultValuedAttr<F32Attr, "0.0f">:$softcap,
                       UnitAttr:$causal,
                       DefaultValuedAttr<StrAttr, "\"0\"">:$causal_offset,
                       DefaultValuedAttr<Fusion_I64Attr, "-1">:$window_left,
                       DefaultValuedAttr<Fusion_I64Attr, "-1">:$window_right,
                       DefaultValuedAttr<StrAttr, "\"zero\"">:$masked_rows);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^)? (`key_mask` $key_mask^)?
    (`valid_lengths` $valid_lengths^)? (`offsets` $offsets^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = classDeclaration # [{
    double getFlopsPerElement();
  }];
}

#endif // FUSION_SEMANTIC_OPS_TD
