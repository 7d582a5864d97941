//===- Roots.h - Square roots of means of squares ---------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_ROOTS_H
#define FUSION_LIB_RAISE_ROOTS_H

#include "Matchers.h"

namespace fusion::raise {

/// factor * sqrt(radicand), or factor / sqrt(radicand).
struct Root {
  mlir::Value radicand;
  double factor = 1;
  bool inverse = false;
};

/// `value` as a root of something: sqrt, rsqrt, a power of +-1/2, exp of half
/// a logarithm, with reciprocals and scalar factors around it or below it.
std::optional<Root> getRoot(mlir::Value value, unsigned bits);

/// factor * mean(x^2) + epsilon, the mean along the last axis.
struct Variance {
  mlir::Value x;
  double factor = 1, epsilon = 0;
};
mlir::FailureOr<Variance> matchVariance(mlir::Value value, unsigned bits,
                                        Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_ROOTS_H
