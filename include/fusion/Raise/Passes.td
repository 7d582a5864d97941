//===- Passes.td - Passes of the Raise phase --------------------*- tablegen -*-===//

#ifndef FUSION_RAISE_PASSES_TD
#define FUSION_RAISE_PASSES_TD

include "mlir/Pass/PassBase.td"

def CanonicalizeSpellings
    : Pass<"fusion-canonicalize-spellings", "::mlir::func::FuncOp"> {
  let summary = "few spellings for arithmetic and views";
  let description = [{
    Rewrites what exporters spell in several ways to one spelling each, so that
    the patterns after it match algebra: `x*x` and `pow(x, 2)` are `square`,
    `1/sqrt(x)` is `rsqrt`, `1/(1 + exp(-x))` is `sigmoid`, a broadcast before
    a broadcasting op is dropped, a split after a transpose moves before it,
    slices of slices merge, batched products over merged axes are unmerged.
  }];
}

def RaiseNorms : Pass<"fusion-raise-norms", "::mlir::func::FuncOp"> {
  let summary = "decomposed norms become rms_norm and layer_norm";
  let description = [{
    `x * rsqrt(mean(x^2) + epsilon)` over the last axis is `rms_norm`; casts
    around it and a factor that varies along the last axis only are absorbed.
    An `rms_norm` of `x - mean(x)` is `layer_norm`, with a bias added behind.
  }];
}

def RaiseActivations
    : Pass<"fusion-raise-activations", "::mlir::func::FuncOp"> {
  let summary = "products with sigmoid, erf and tanh become silu and gelu";
}

def RaiseRotations : Pass<"fusion-raise-rotations", "::mlir::func::FuncOp"> {
  let summary = "decomposed rotary embeddings become rope";
  let description = [{
    Half-rotated and interleaved, over all of the last axis or its first
    elements, with tables of full or half width.
  }];
}

def RaiseAttention : Pass<"fusion-raise-attention", "::mlir::func::FuncOp"> {
  let summary = "softmax between two products becomes attention";
  let description = [{
    Scale (anywhere), soft cap, mask (added or selected), casts and a guard
    against NaN are taken in; scalar factors on query and key move into the
    scale; repeats of key and value heads are dropped where the order of the
    heads is proven to be that of grouped attention.
  }];
}

def RaiseAppends : Pass<"fusion-raise-appends", "::mlir::func::FuncOp"> {
  let summary = "concatenations with a cached key or value become kv_append";
}

def EqualLengths : Pass<"fusion-equal-lengths", "::mlir::func::FuncOp"> {
  let summary = "lengths of sequences that are one size become that size";
  let description = [{
    Where the lengths of a `kv_append`, or the offsets and valid lengths of an
    attention, are computed from sizes alone and equal for all sequences, the
    operand is dropped and the size says the same.
  }];
}

def ProveMasks : Pass<"fusion-prove-masks", "::mlir::func::FuncOp"> {
  let summary = "masks that are proven to be causal become attributes";
  let description = [{
    Evaluates the sub-graph that computes an attention's bias for several
    sizes and several contents of the arguments that it reads. When it is, in
    each case, exactly a causal mask (with a window, with a padding mask given
    as [batch, T]), the bias is dropped and attributes say the same.
    Otherwise the bias stays: it is always right.
  }];
}

def SetComputeType : Pass<"fusion-set-compute-type", "::mlir::func::FuncOp"> {
  let summary = "an fp32 model deployed in 16 bits";
  let description = [{
    Gives fp32 activations, weights and session caches the type `type`. Weights
    are rounded once, by Link, when their bytes are streamed; constants in the
    IR at once; finite values stay finite. What keeps fp32: scalars, positions,
    angles and masks (all that comes from integers and constants alone), tables
    of rotations, biases of attentions, statistics, scales of quantised weights,
    and what the model itself widens to fp32. Inputs and outputs keep their
    types: a cast stands at the border. Works on raised and on imported modules.
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "bf16 or fp16">,
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def TransposeWeights
    : Pass<"fusion-transpose-weights", "::mlir::func::FuncOp"> {
  let summary = "weights of products are stored row by row of their results";
  let description = [{
    A weight [K, N] that only products read, as their rhs, becomes a weight
    [N, K] that they read with `transpose_rhs`; Link transposes its bytes. One
    layout then serves products of any number of rows on a card. Weights with
    other readers, and of integers, stay as they are; quantised weights become
    `dequantize`d matrices [N, K] in the same way, whatever axis their blocks
    had.
  }];
}

def VerifyRaised : Pass<"fusion-verify-raised", "::mlir::func::FuncOp"> {
  let summary = "say what was left decomposed, and why";
  let description = [{
    Every decomposed leftover (softmax, sigmoid, erf, root, mean) is tried
    against the pattern that it could belong to; a remark says where matching
    stopped, what was expected and what was found. Never fails.
  }];
}

#endif // FUSION_RAISE_PASSES_TD
