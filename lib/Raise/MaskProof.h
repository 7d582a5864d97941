//===- MaskProof.h - Is a mask causal? --------------------------*- C++ -*-===//
//
// Evaluates the sub-graph of a mask for several sizes and contents of the
// arguments that it reads, and compares with what attributes can say.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_MASKPROOF_H
#define FUSION_LIB_RAISE_MASKPROOF_H

#include "Matchers.h"

namespace fusion::raise {

/// What a mask says, as attributes of an attention.
struct MaskFacts {
  bool causal = false;
  SymExpr offset;             ///< of the causal diagonal
  int64_t windowLeft = -1;    ///< keys before the diagonal, -1 for all
  mlir::Value padding;        ///< an argument [batch, T], or null
  std::optional<bool> finite; ///< rows without a visible key hold a finite
                              ///< minimum (else minus infinity)
  std::string str() const;
};

/// The sizes of the scores.
struct ScoreSizes {
  SymExpr batch, rows, keys;
};

/// The facts that `mask` is equal to, or a reason why there are none.
mlir::FailureOr<MaskFacts> proveMask(mlir::Value mask, const ScoreSizes &sizes,
                                     std::string &reason);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_MASKPROOF_H
