//===- Power.cpp - x to the y ---------------------------------------------===//
//
// y log x is up to 709, so that an error of its last bit is one of hundreds of
// units of the result: the logarithm of a double is a sum of two doubles.
//
//===----------------------------------------------------------------------===//

#include "fusion/Codegen/Common/MathBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"

#include <limits>

using namespace mlir;
using namespace fusion::codegen;

namespace {
/// Powers of non-negative doubles.
class Power {
public:
  Power(OpBuilder &builder, Location loc, MathBuilder &m)
      : b(builder), loc(loc), m(m) {}

  Value of(Value x, Value y) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    Sum log = logarithm(x);
    Value high = m.mul(y, log.high);
    Value low = m.fma(y, log.low, m.fma(y, log.high, m.neg(high)));
    // Of 0, infinity and NaN.
    Value zero = m.equal(x, m.real(0.0, x));
    Value edge = m.mul(y, m.select(zero, m.real(-infinity, x), x));
    Value inside = m.select(zero, m.real(infinity, x), x);
    high = m.select(m.less(inside, m.real(infinity, x)), high, edge);
    Value r = m.exp(high);
    // Beyond, r is 0, infinity or NaN already.
    return m.select(m.less(m.abs(high), m.real(800.0, x)), m.fma(r, low, r), r);
  }

private:
  struct Sum {
    Value high, low;
  };

  /// a + b where |a| >= |b|, or a = 0.
  Sum sum(Value a, Value b) {
    Value s = m.add(a, b);
    return {s, m.sub(b, m.sub(s, a))};
  }
  Sum product(Value a, Value b) {
    Value p = m.mul(a, b);
    return {p, m.fma(a, b, m.neg(p))};
  }
  Sum product(Sum a, Sum b) {
    Sum p = product(a.high, b.high);
    p.low = m.add(p.low, m.fma(a.high, b.low, m.mul(a.low, b.high)));
    return p;
  }

  /// x = 2^e n with n in [sqrt(1/2), sqrt(2)), and f = (n - 1) / (n + 1):
  /// log n = 2 atanh f = 2 f + f (2/3 f^2 + f^4 (2/5 + 2/7 f^2 + ...)).
  Sum logarithm(Value x) {
    Value one = m.real(1.0, x);
    auto [n, e] = split(x);
    Value numerator = m.sub(n, one), denominator = m.add(n, one);
    Value lost = m.sub(n, m.sub(denominator, one));
    Sum f{m.div(numerator, denominator), {}};
    Value rest = m.fma(m.neg(f.high), denominator, numerator);
    rest = m.fma(m.neg(f.high), lost, rest);
    f.low = m.div(rest, denominator);

    Sum square = product(f, f);
    Sum third = product(
        square, {m.real(2.0 / 3.0, x), m.real(3.700743415417188e-17, x)});
    llvm::SmallVector<double> series;
    for (int k = 23; k >= 5; k -= 2)
      series.push_back(2.0 / k);
    Value tail = m.mul(m.mul(square.high, square.high),
                       m.polynomial(square.high, series));
    Sum factor = sum(third.high, tail);
    factor.low = m.add(factor.low, third.low);
    Sum correction = product(f, factor);

    Sum r = sum(m.add(f.high, f.high), correction.high);
    r.low = m.add(r.low, m.add(correction.low, m.add(f.low, f.low)));
    // The leading bits of ln 2 times e are exact.
    Sum all = sum(m.mul(e, m.real(6.93147180369123816490e-01, x)), r.high);
    all.low =
        m.add(all.low, m.fma(e, m.real(1.90821492927058770002e-10, x), r.low));
    return sum(all.high, all.low);
  }

  std::pair<Value, Value> split(Value x) {
    Value tiny = m.less(x, m.real(2.2250738585072014e-308, x));
    Value scaled = m.select(tiny, m.mul(x, m.real(0x1p54, x)), x);
    Value offset = m.select(tiny, m.real(-54.0, x), m.real(0.0, x));
    Value i = m.bits(scaled);
    Value e = arith::ShRSIOp::create(
        b, loc,
        arith::SubIOp::create(b, loc, i, m.integer(0x3fe6a09e667f3bcd, x)),
        m.integer(52, x));
    Value n = m.fromBits(
        arith::SubIOp::create(
            b, loc, i, arith::ShLIOp::create(b, loc, e, m.integer(52, x))),
        x.getType());
    Value whole = arith::SIToFPOp::create(b, loc, x.getType(), e);
    return {n, m.add(whole, offset)};
  }

  OpBuilder &b;
  Location loc;
  MathBuilder &m;
};
} // namespace

// e^(y log |x|), with the sign of odd powers of negative numbers. C's special
// cases: x^0 = 1^y = 1, negative x to a fraction is NaN.
Value MathBuilder::pow(Value x, Value y) {
  Value base = toF64(x), exponent = toF64(y);
  Value zero = real(0.0, base), one = real(1.0, base);
  Value r = isF64(x) ? Power(builder, loc, *this).of(abs(base), exponent)
                     : exp64(mul(exponent, log64(abs(base))));
  Value whole = equal(trunc(exponent), exponent);
  Value half = mul(exponent, real(0.5, base));
  Value odd = arith::AndIOp::create(
      builder, loc, whole,
      arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::ONE,
                            trunc(half), half));
  // The sign bit, so that -0 counts as negative.
  Value sign = less(copySign(one, base), zero);
  r = select(arith::AndIOp::create(builder, loc, odd, sign), neg(r), r);
  Value nan = real(std::numeric_limits<double>::quiet_NaN(), base);
  Value finite =
      less(abs(base), real(std::numeric_limits<double>::infinity(), base));
  Value negative =
      arith::AndIOp::create(builder, loc, less(base, zero), finite);
  Value fraction = arith::CmpFOp::create(
      builder, loc, arith::CmpFPredicate::ONE, trunc(exponent), exponent);
  r = select(arith::AndIOp::create(builder, loc, negative, fraction), nan, r);
  r = select(equal(exponent, zero), one, r);
  r = select(equal(base, one), one, r);
  // (-1)^(+-infinity) = 1: the product was infinity times zero.
  Value unit = equal(abs(base), one);
  Value endless =
      equal(abs(exponent), real(std::numeric_limits<double>::infinity(), base));
  r = select(arith::AndIOp::create(builder, loc, unit, endless), one, r);
  return toType(r, x);
}
