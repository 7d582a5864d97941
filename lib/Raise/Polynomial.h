//===- Polynomial.h - Values as polynomials ---------------------*- C++ -*-===//
//
// An activation is spelled in many associations of the same few factors. Its
// value as a polynomial in its input (and in the one function of it) is the
// same for all of them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_POLYNOMIAL_H
#define FUSION_LIB_RAISE_POLYNOMIAL_H

#include "Matchers.h"

#include <map>

namespace fusion::raise {

/// The exponents of x and of t.
using Power = std::pair<int, int>;
using Polynomial = std::map<Power, double>;

/// `value` as a polynomial in `x` and `t` (which may be null): sums, products,
/// quotients by constants, small powers, casts. Nullopt when something else
/// takes part or the shape differs from that of x.
std::optional<Polynomial> getPolynomial(mlir::Value value, mlir::Value x,
                                        mlir::Value t);
bool isPolynomial(const Polynomial &value, const Polynomial &expected,
                  double tolerance);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_POLYNOMIAL_H
