//===- Activation.h - The algebra of SiLU and GELU --------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_ACTIVATION_H
#define FUSION_LIB_RAISE_ACTIVATION_H

#include "Polynomial.h"

namespace fusion::raise {

/// x * t, or x/2 + x*t/2, of a function t of x.
struct ActivationMatch {
  enum Kind { Silu, GeluErf, GeluTanh } kind;
  mlir::Value x;
  double alpha; ///< of SiLU
};

/// `root` computes an activation of a sigmoid, erf or tanh among its operands.
mlir::FailureOr<ActivationMatch> matchActivation(mlir::Operation *root,
                                                 Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_ACTIVATION_H
