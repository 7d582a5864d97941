//===- AttentionUtils.h - Parts that attention operators share --*- C++ -*-===//

#ifndef FUSION_LIB_IMPORT_ATTENTIONUTILS_H
#define FUSION_LIB_IMPORT_ATTENTIONUTILS_H

#include "Importer.h"

#include <limits>

namespace fusion {

/// [batch, seq, heads * size] to [batch, heads, seq, size].
llvm::FailureOr<mlir::Value> splitHeads(NodeImport &n, mlir::Value value,
                                        int64_t heads);
/// [batch, heads, seq, size] to [batch, seq, heads * size].
mlir::Value mergeHeads(NodeImport &n, mlir::Value value);

struct Heads {
  mlir::Value q, k, v; ///< [batch, heads, seq, size]
};
/// Cuts one packed tensor [batch, seq, (heads + 2 * kvHeads) * size].
llvm::FailureOr<Heads> unpackHeads(NodeImport &n, mlir::Value packed,
                                   int64_t heads, int64_t kvHeads);

/// `update` behind `past` along axis 2; `update` alone when there is no past.
/// `lengths` [batch], where given, says how many rows of `past` each sequence
/// has; `inBuffer`: the result is as large as `past`.
llvm::FailureOr<mlir::Value> append(NodeImport &n, mlir::Value past,
                                    mlir::Value update,
                                    mlir::Value lengths = {},
                                    bool inBuffer = false);
/// Keys and values behind what inputs `pastKey` and `pastValue` hold; they are
/// outputs 1 and 2 of the node, and take the place of `keys` and `values`.
llvm::LogicalResult appendCaches(NodeImport &n, size_t pastKey,
                                 size_t pastValue, mlir::Value &keys,
                                 mlir::Value &values, mlir::Value lengths = {},
                                 bool inBuffer = false);

/// Everything of `fusion.attention` but its operands q, k and v.
struct AttentionParts {
  mlir::Value bias, validLengths;
  mlir::Value offsets; ///< of each sequence, instead of causalOffset
  /// [heads]: a score that takes part in the softmax and has no value.
  mlir::Value sink;
  float scale = 0; ///< 0: 1 / sqrt(head size)
  float softcap = 0;
  bool causal = false;
  SymExpr causalOffset;
  int64_t windowLeft = -1, windowRight = -1;
};
llvm::FailureOr<mlir::Value> attention(NodeImport &n, mlir::Value q,
                                       mlir::Value k, mlir::Value v,
                                       const AttentionParts &parts);

/// What keys an input of com.microsoft's operators leaves, as bool [batch, 1,
/// rows or 1, keys]: lengths [batch], ends and then starts [2 * batch], lengths
/// and then running sums of them [3 * batch + 2], 1 for a key [batch, keys], or
/// 1 for a query and a key [batch, rows, keys].
llvm::FailureOr<mlir::Value> readMask(NodeImport &n, size_t input,
                                      const SymExpr &batch, const SymExpr &rows,
                                      const SymExpr &keys);
/// A mask of com.microsoft's operators, of bool and with the axes of scores,
/// joins the bias: unseen scores are lowered by mask_filter_value, so a row
/// that sees no key is a softmax all the same.
llvm::LogicalResult addMask(NodeImport &n, AttentionParts &parts,
                            mlir::Value seen, mlir::Type element);

/// The scores that Attention's output qk_matmul_output asks for: 0 scaled, 1
/// capped, 2 masked, 3 after the softmax. [batch, heads, rows, keys]. `hidden`
/// is what the mask puts where a key is not seen.
llvm::FailureOr<mlir::Value>
scores(NodeImport &n, mlir::Value q, mlir::Value k, const AttentionParts &parts,
       int64_t mode, double hidden = -std::numeric_limits<double>::infinity());

/// Attention as products and a softmax: f64 and sinks, of which there is no
/// kernel.
llvm::FailureOr<mlir::Value> spelledAttention(NodeImport &n, mlir::Value q,
                                              mlir::Value k, mlir::Value v,
                                              const AttentionParts &parts);

/// Rotates [batch, heads, seq, size] by tables of rows gathered at `positions`
/// [batch or 1, seq]; null positions: the tables are [batch, seq, width]
/// already.
struct Rotation {
  mlir::Value cos, sin, positions;
  bool interleaved = false;
  int64_t width = 0; ///< rotated elements; 0: the head size
};
llvm::FailureOr<mlir::Value> rotate(NodeImport &n, mlir::Value x,
                                    const Rotation &rotation);

} // namespace fusion

#endif // FUSION_LIB_IMPORT_ATTENTIONUTILS_H
