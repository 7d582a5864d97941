//===- MathBuilder.h - Elementary functions as arithmetic -------*- C++ -*-===//
//
// Elementary functions without calls: polynomials and bit tricks on f32 and
// f64, scalar or vector. NaN and infinities behave as in C's libm; errors are
// within two units in the last place of f32 for every argument, and within four
// of f64 (pow: 1e-12 relative).
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_COMMON_MATHBUILDER_H
#define FUSION_CODEGEN_COMMON_MATHBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace fusion::codegen {

class MathBuilder {
public:
  MathBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  // Building blocks; constants take the type of `like`.
  mlir::Value real(double value, mlir::Value like);
  mlir::Value integer(int64_t value, mlir::Value like);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value neg(mlir::Value a);
  mlir::Value abs(mlir::Value a);
  mlir::Value sqrt(mlir::Value a);
  mlir::Value copySign(mlir::Value magnitude, mlir::Value sign);
  mlir::Value trunc(mlir::Value a);
  mlir::Value less(mlir::Value a, mlir::Value b); ///< ordered
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value isNan(mlir::Value a);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// NaN wins.
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value bits(mlir::Value a);                      ///< float to integer
  mlir::Value fromBits(mlir::Value a, mlir::Type like); ///< and back
  mlir::Value toF64(mlir::Value a);
  mlir::Value toType(mlir::Value a, mlir::Value like); ///< between floats
  /// c[0] * x^n + ... + c[n], by Horner's rule.
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> coefficients);

  // Elementary functions of f32 or f64.
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value log1p(mlir::Value x); ///< of non-negative x
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value tan(mlir::Value x);
  mlir::Value asin(mlir::Value x);
  mlir::Value acos(mlir::Value x);
  mlir::Value atan(mlir::Value x);
  mlir::Value sinh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value atanh(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value softplus(mlir::Value x);
  mlir::Value pow(mlir::Value x, mlir::Value y);
  /// C's fmod; exact while |x / y| < 2^300.
  mlir::Value fmod(mlir::Value x, mlir::Value y);

private:
  mlir::Value exp32(mlir::Value x);
  mlir::Value exp64(mlir::Value x);
  mlir::Value scaleByPowerOfTwo(mlir::Value x, mlir::Value power);
  mlir::Value log32(mlir::Value x);
  mlir::Value log64(mlir::Value x);
  mlir::Value logSpecials(mlir::Value x, mlir::Value result);
  static bool isF64(mlir::Value v);
  /// x = quarters * pi / 2 + rest, |rest| <= pi / 4; f64 and 64-bit integers.
  struct Angle {
    mlir::Value rest, quarters;
  };
  Angle reduceAngle(mlir::Value x);
  mlir::Value sineOf(mlir::Value rest);
  mlir::Value cosineOf(mlir::Value rest);
  mlir::Value hasBit(mlir::Value number, int64_t bit);
  mlir::Value sinOrCos(mlir::Value x, bool cosine);
  mlir::Value atan64(mlir::Value x);
  mlir::Value erf64(mlir::Value x);
  /// Evaluates in f64 and rounds to the type of `x`.
  template <typename Fn>
  mlir::Value inF64(mlir::Value x, Fn &&fn);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_MATHBUILDER_H
