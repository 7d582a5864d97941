//===- AttentionScores.h - From products to visible scores ------*- C++ -*-===//
//
// Scale, soft cap, bias, and which keys a query sees, as fusion.attention says;
// and what leaves an attention. The attention templates share it.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_ATTENTIONSCORES_H
#define FUSION_LIB_CODEGEN_HOPPER_ATTENTIONSCORES_H

#include "KernelFunction.h"
#include "WarpMma.h"

#include "fusion/Kernels/CardAttention.h"

namespace fusion::hopper {

/// Stands for minus infinity where the difference of two is needed.
inline constexpr double kLowest = -1e30;

class AttentionScores {
public:
  AttentionScores(KernelFunction &f, const kernels::AttentionGroup &group);

  /// Where a score lies; all i32.
  struct Place {
    Val batch, head, row, key;
  };
  /// The score in units of log2 e of one product of query and key; what is not
  /// visible becomes minus infinity, or `lowest` where a row that sees nothing
  /// averages all keys.
  Val masked(Val product, const Place &at, double lowest);
  /// The same without the limits of the row and of the keys.
  Val scaled(Val product, const Place &at);
  /// Scores are products times this, up to what is masked by data.
  bool isPlain() const;
  double factor() const; ///< scale times log2 e

  /// The first key that row sees, and the first one that it does not.
  Val leftLimit(Val row);
  Val rightLimit(Val row, Val batch);
  bool limitsLeft();

  /// The result of a query that sees nothing.
  Val blindValue();
  /// Stores a vector of the attention's results through the epilogue.
  void store(Val value, const codegen::Indices &at, unsigned width);

private:
  Val size(const SymExpr &e);

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  codegen::BodyEmitter &emitter;
  const kernels::AttentionGroup &group;
  AttentionOp op;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_ATTENTIONSCORES_H
