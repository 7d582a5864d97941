//===- Gelu.h - The algebra of GELU -----------------------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_GELU_H
#define FUSION_LIB_RAISE_GELU_H

#include "Polynomial.h"

namespace fusion::raise {

struct GeluMatch {
  mlir::Value x;
  bool tanh;
};

/// `root` computes x/2 + x*t/2, where t is erf or tanh of the right argument.
mlir::FailureOr<GeluMatch> matchGelu(mlir::Operation *root, Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_GELU_H
