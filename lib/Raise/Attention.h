//===- Attention.h - The algebra of attention -------------------*- C++ -*-===//
//
//   softmax(cap(scale * q k^T) + mask) v
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_ATTENTION_H
#define FUSION_LIB_RAISE_ATTENTION_H

#include "Matchers.h"

namespace fusion::raise {

struct AttentionMatch {
  MatmulOp scores; ///< q k^T
  double scale = 1, softcap = 0;
  llvm::SmallVector<Scaled> added; ///< float masks and biases
  mlir::Value visible;             ///< i1: scores are kept where...
  bool visibleWhen = true;         ///< ... it has this value
  double hidden = 0;               ///< the score of the others
  /// What masked scores are raised to where they are lower: a number that
  /// hides them still.
  std::optional<double> floor;
  bool guarded = false; ///< NaN rows give zeros
};

/// `root` is the product of the probabilities with v.
mlir::FailureOr<AttentionMatch> matchAttention(MatmulOp root, Trace &trace);

/// True when a score of `value` never gets weight beside a finite one of the
/// graph's element type.
bool isHidden(double value, mlir::Type element);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_ATTENTION_H
