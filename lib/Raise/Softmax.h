//===- Softmax.h - The algebra of softmax -----------------------*- C++ -*-===//
//
//   exp(x) / sum(exp(x)), exp(x - log(sum(exp(x))))
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_SOFTMAX_H
#define FUSION_LIB_RAISE_SOFTMAX_H

#include "Matchers.h"

namespace fusion::raise {

struct SoftmaxMatch {
  mlir::Value input;
  int64_t axis;
  /// Where this is given, all other elements get no weight.
  mlir::Value visible;
};

/// `root` is the quotient of an exponential by its sum, or the product with
/// the reciprocal.
mlir::FailureOr<SoftmaxMatch> matchSoftmax(mlir::Operation *root, Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_SOFTMAX_H
