//===- RmsNorm.h - The algebra of root-mean-square norms --------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_RMSNORM_H
#define FUSION_LIB_RAISE_RMSNORM_H

#include "Matchers.h"

namespace fusion::raise {

/// factor * x * rsqrt(mean(x^2) + epsilon)
struct RmsNormMatch {
  mlir::Value x; ///< without casts to a wider type
  double epsilon, factor;
};

/// `root` is the product of x and the reciprocal root, or the quotient of x by
/// the root.
mlir::FailureOr<RmsNormMatch> matchRmsNorm(mlir::Operation *root, Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_RMSNORM_H
