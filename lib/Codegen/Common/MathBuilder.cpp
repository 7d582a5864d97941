//===- MathBuilder.cpp - Elementary functions as arithmetic ---------------===//
//
// The f32 polynomials of exp, log, tanh and erf are minimax fits; f64 uses
// series long enough for full precision.
//
//===----------------------------------------------------------------------===//

#include "fusion/Codegen/Common/MathBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fusion::codegen;

static Type withElement(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

static Value constantOf(OpBuilder &b, Location loc, Type type,
                        Attribute value) {
  auto typed = cast<TypedAttr>(value);
  if (auto vector = dyn_cast<VectorType>(type))
    typed = DenseElementsAttr::get(vector, value);
  return arith::ConstantOp::create(b, loc, typed);
}

//===----------------------------------------------------------------------===//
// Building blocks
//===----------------------------------------------------------------------===//

bool MathBuilder::isF64(Value v) { return getElementTypeOrSelf(v).isF64(); }

Value MathBuilder::real(double value, Value like) {
  Type element = getElementTypeOrSelf(like);
  return constantOf(builder, loc, like.getType(),
                    builder.getFloatAttr(element, value));
}
Value MathBuilder::integer(int64_t value, Value like) {
  Type element = getElementTypeOrSelf(like);
  unsigned width = element.getIntOrFloatBitWidth();
  Type type = builder.getIntegerType(width);
  return constantOf(
      builder, loc, withElement(like.getType(), type),
      builder.getIntegerAttr(type, APInt(width, value, /*isSigned=*/true,
                                         /*implicitTrunc=*/true)));
}
Value MathBuilder::add(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, a, b);
}
Value MathBuilder::sub(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, a, b);
}
Value MathBuilder::mul(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, a, b);
}
Value MathBuilder::div(Value a, Value b) {
  return arith::DivFOp::create(builder, loc, a, b);
}
Value MathBuilder::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(builder, loc, a, b, c);
}
Value MathBuilder::neg(Value a) {
  return arith::NegFOp::create(builder, loc, a);
}
Value MathBuilder::abs(Value a) {
  return math::AbsFOp::create(builder, loc, a);
}
Value MathBuilder::sqrt(Value a) {
  return math::SqrtOp::create(builder, loc, a);
}
Value MathBuilder::copySign(Value magnitude, Value sign) {
  return math::CopySignOp::create(builder, loc, magnitude, sign);
}
Value MathBuilder::trunc(Value a) {
  return math::TruncOp::create(builder, loc, a);
}
Value MathBuilder::less(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, a, b);
}
Value MathBuilder::equal(Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, a, b);
}
Value MathBuilder::isNan(Value a) {
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, a, a);
}
Value MathBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}
Value MathBuilder::max(Value a, Value b) {
  // `a > b or a is NaN`: one comparison and one of the hardware's maxima.
  Value larger = select(less(b, a), a, b);
  return select(isNan(a), a, larger);
}
Value MathBuilder::min(Value a, Value b) {
  Value smaller = select(less(a, b), a, b);
  return select(isNan(a), a, smaller);
}
Value MathBuilder::bits(Value a) {
  unsigned width = getElementTypeOrSelf(a).getIntOrFloatBitWidth();
  return arith::BitcastOp::create(
      builder, loc, withElement(a.getType(), builder.getIntegerType(width)), a);
}
Value MathBuilder::fromBits(Value a, Type like) {
  Type element = getElementTypeOrSelf(like);
  return arith::BitcastOp::create(builder, loc,
                                  withElement(a.getType(), element), a);
}
Value MathBuilder::toF64(Value a) {
  if (isF64(a))
    return a;
  return arith::ExtFOp::create(
      builder, loc, withElement(a.getType(), builder.getF64Type()), a);
}
Value MathBuilder::toType(Value a, Value like) {
  Type to = getElementTypeOrSelf(like);
  if (getElementTypeOrSelf(a) == to)
    return a;
  Type type = withElement(a.getType(), to);
  if (isF64(a))
    return arith::TruncFOp::create(builder, loc, type, a);
  return arith::ExtFOp::create(builder, loc, type, a);
}

Value MathBuilder::polynomial(Value x, ArrayRef<double> coefficients) {
  Value r = real(coefficients.front(), x);
  for (double c : coefficients.drop_front())
    r = fma(r, x, real(c, x));
  return r;
}

template <typename Fn>
Value MathBuilder::inF64(Value x, Fn &&fn) {
  return toType(fn(toF64(x)), x);
}

//===----------------------------------------------------------------------===//
// exp, log
//===----------------------------------------------------------------------===//

// Multiplies by 2^power (an integer) in two steps, so that results below the
// smallest normal number are rounded and those above the largest overflow.
Value MathBuilder::scaleByPowerOfTwo(Value x, Value power) {
  bool wide = isF64(x);
  int64_t mantissa = wide ? 52 : 23, bias = wide ? 1023 : 127;
  Value half = arith::ShRSIOp::create(builder, loc, power, integer(1, power));
  Value rest = arith::SubIOp::create(builder, loc, power, half);
  for (Value part : {half, rest}) {
    Value biased =
        arith::AddIOp::create(builder, loc, part, integer(bias, part));
    Value exponent =
        arith::ShLIOp::create(builder, loc, biased, integer(mantissa, part));
    x = mul(x, fromBits(exponent, x.getType()));
  }
  return x;
}

// x = k ln 2 + f. Adding 1.5 * 2^mantissa rounds k to an integer that then
// stands in the low bits.
Value MathBuilder::exp32(Value x) {
  Value clamped = select(less(x, real(-105.0, x)), real(-105.0, x), x);
  clamped = select(less(real(90.0, x), clamped), real(90.0, x), clamped);
  Value magic = real(12582912.0, x);
  Value t = fma(clamped, real(1.44269502, x), magic);
  Value k = sub(t, magic);
  Value f = fma(k, real(-6.93145752e-1, x), clamped);
  f = fma(k, real(-1.42860677e-6, x), f);
  Value p = polynomial(f, {1.37805939e-3, 8.37312452e-3, 4.16695364e-2,
                           1.66664720e-1, 4.99999851e-1, 1.0, 1.0});
  Value power =
      arith::SubIOp::create(builder, loc, bits(t), integer(0x4b400000, x));
  return scaleByPowerOfTwo(p, power);
}

Value MathBuilder::exp64(Value x) {
  Value clamped = select(less(x, real(-750.0, x)), real(-750.0, x), x);
  clamped = select(less(real(715.0, x), clamped), real(715.0, x), clamped);
  Value magic = real(6755399441055744.0, x);
  Value t = fma(clamped, real(1.4426950408889634, x), magic);
  Value k = sub(t, magic);
  Value f = fma(k, real(-6.93147180369123816490e-01, x), clamped);
  f = fma(k, real(-1.90821492927058770002e-10, x), f);
  SmallVector<double> series;
  double factorial = 1;
  for (int n = 1; n <= 13; ++n)
    factorial *= n;
  for (int n = 13; n >= 0; --n) {
    series.push_back(1 / factorial);
    factorial /= std::max(n, 1);
  }
  Value p = polynomial(f, series);
  Value power = arith::SubIOp::create(builder, loc, bits(t),
                                      integer(0x4338000000000000, x));
  return scaleByPowerOfTwo(p, power);
}

Value MathBuilder::exp(Value x) { return isF64(x) ? exp64(x) : exp32(x); }

// The result where x is positive and finite; C's values elsewhere.
Value MathBuilder::logSpecials(Value x, Value result) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value zero = real(0.0, x), inf = real(infinity, x);
  result = select(less(x, inf), result, x); // infinity and NaN
  result = select(equal(x, zero), real(-infinity, x), result);
  return select(less(x, zero),
                real(std::numeric_limits<double>::quiet_NaN(), x), result);
}

// x = 2^e m with m in [2/3, 4/3); log x = e ln 2 + log1p(m - 1).
Value MathBuilder::log32(Value x) {
  Value tiny = less(x, real(1.17549435e-38, x));
  Value scaled = select(tiny, mul(x, real(8388608.0, x)), x);
  Value offset = select(tiny, real(-23.0, x), real(0.0, x));
  Value i = bits(scaled);
  Value e = arith::AndIOp::create(
      builder, loc,
      arith::SubIOp::create(builder, loc, i, integer(0x3f2aaaab, x)),
      integer(int32_t(0xff800000), x));
  Value m = fromBits(arith::SubIOp::create(builder, loc, i, e), x.getType());
  Value exponent = fma(arith::SIToFPOp::create(builder, loc, x.getType(), e),
                       real(1.1920928955078125e-7, x), offset);
  Value f = sub(m, real(1.0, x)), s = mul(f, f);
  Value r = fma(real(-0.130310059, x), f, real(0.140869141, x));
  Value t = fma(real(-0.121483512, x), f, real(0.139814854, x));
  r = fma(r, s, t);
  for (double c : {-0.166846126, 0.200120345, -0.249996200, 0.333331972, -0.5})
    r = fma(r, f, real(c, x));
  r = fma(r, s, f);
  return logSpecials(x, fma(exponent, real(0.693147182, x), r));
}

// log m = 2 atanh((m - 1) / (m + 1)).
Value MathBuilder::log64(Value x) {
  Value tiny = less(x, real(2.2250738585072014e-308, x));
  Value scaled = select(tiny, mul(x, real(18014398509481984.0, x)), x);
  Value offset = select(tiny, real(-54.0, x), real(0.0, x));
  Value i = bits(scaled);
  Value e = arith::ShRSIOp::create(
      builder, loc,
      arith::SubIOp::create(builder, loc, i, integer(0x3fe6a09e667f3bcd, x)),
      integer(52, x));
  Value m =
      fromBits(arith::SubIOp::create(
                   builder, loc, i,
                   arith::ShLIOp::create(builder, loc, e, integer(52, x))),
               x.getType());
  Value exponent =
      add(arith::SIToFPOp::create(builder, loc, x.getType(), e), offset);
  Value f = div(sub(m, real(1.0, x)), add(m, real(1.0, x)));
  Value s = mul(f, f);
  SmallVector<double> series;
  for (int n = 21; n >= 1; n -= 2)
    series.push_back(2.0 / n);
  Value p = polynomial(s, series);
  Value r = fma(exponent, real(1.90821492927058770002e-10, x), mul(f, p));
  return logSpecials(x, fma(exponent, real(6.93147180369123816490e-01, x), r));
}

Value MathBuilder::log(Value x) { return isF64(x) ? log64(x) : log32(x); }

// log(u) corrected for what 1 + x lost.
Value MathBuilder::log1p(Value x) {
  Value one = real(1.0, x);
  Value u = add(one, x);
  Value lost = sub(sub(u, one), x);
  Value r = sub(log(u), div(lost, u));
  return select(less(u, real(std::numeric_limits<double>::infinity(), x)), r,
                u);
}

//===----------------------------------------------------------------------===//
// Inverse trigonometry
//===----------------------------------------------------------------------===//

// Reduced by atan x = pi/4 + atan((x - 1) / (x + 1)) and reciprocals to
// |x| <= tan(pi/8), then once more by half the angle.
Value MathBuilder::atan64(Value x) {
  Value a = abs(x), one = real(1.0, x);
  Value large = less(real(2.414213562373095, x), a);
  Value middle = less(real(0.4142135623730950, x), a);
  Value y = select(large, div(real(-1.0, x), a),
                   select(middle, div(sub(a, one), add(a, one)), a));
  Value base = select(large, real(M_PI_2, x),
                      select(middle, real(M_PI_4, x), real(0.0, x)));
  // atan y = 2 atan(y / (1 + sqrt(1 + y^2)))
  Value h = div(y, add(one, sqrt(fma(y, y, one))));
  Value s = mul(h, h);
  SmallVector<double> series;
  for (int n = 23; n >= 1; n -= 2)
    series.push_back((n % 4 == 1 ? 2.0 : -2.0) / n);
  Value r = fma(h, polynomial(s, series), base);
  return select(isNan(x), x, copySign(r, x));
}

Value MathBuilder::atan(Value x) {
  return inF64(x, [&](Value w) { return atan64(w); });
}
Value MathBuilder::asin(Value x) {
  return inF64(x, [&](Value w) {
    Value one = real(1.0, w);
    Value root = sqrt(mul(sub(one, w), add(one, w)));
    return atan64(div(w, root)); // |w| = 1 divides by zero: pi / 2
  });
}
Value MathBuilder::acos(Value x) {
  return inF64(x, [&](Value w) {
    Value one = real(1.0, w);
    // 2 atan(sqrt((1 - x) / (1 + x))) keeps precision near 1.
    Value r = atan64(sqrt(div(sub(one, w), add(one, w))));
    return add(r, r);
  });
}

//===----------------------------------------------------------------------===//
// Hyperbolic functions and what is built of exp and log
//===----------------------------------------------------------------------===//

Value MathBuilder::sinh(Value x) {
  return inF64(x, [&](Value w) {
    Value e = exp64(w);
    Value r = mul(sub(e, div(real(1.0, w), e)), real(0.5, w));
    // Below 1 the difference cancels: the series to x^19.
    SmallVector<double> series;
    for (int n = 19; n >= 3; n -= 2)
      series.push_back(1 / std::tgamma(n + 1.0));
    Value s = mul(w, w);
    Value small = fma(mul(w, s), polynomial(s, series), w);
    return select(less(abs(w), real(1.0, w)), small, r);
  });
}
Value MathBuilder::cosh(Value x) {
  return inF64(x, [&](Value w) {
    Value e = exp64(w);
    return mul(add(e, div(real(1.0, w), e)), real(0.5, w));
  });
}
Value MathBuilder::asinh(Value x) {
  return inF64(x, [&](Value w) {
    Value a = abs(w), one = real(1.0, w);
    // a + sqrt(a^2 + 1) - 1, without the cancellation near zero.
    Value root = sqrt(fma(a, a, one));
    Value grown = add(a, div(mul(a, a), add(one, root)));
    Value r = select(less(a, real(1e150, w)), log1p(grown),
                     add(log64(a), real(M_LN2, w)));
    return select(isNan(w), w, copySign(r, w));
  });
}
Value MathBuilder::acosh(Value x) {
  return inF64(x, [&](Value w) {
    Value one = real(1.0, w);
    // With x = 1 + t: log1p(t + sqrt(2t + t^2)), exact near 1.
    Value t = sub(w, one);
    Value r = log1p(add(t, sqrt(fma(t, t, add(t, t)))));
    r = select(less(w, real(1e150, w)), r, add(log64(w), real(M_LN2, w)));
    return select(less(w, one),
                  real(std::numeric_limits<double>::quiet_NaN(), w), r);
  });
}
Value MathBuilder::atanh(Value x) {
  return inF64(x, [&](Value w) {
    Value a = abs(w), one = real(1.0, w);
    // 1/2 log1p(2a / (1 - a)); a = 1 gives infinity, above it NaN.
    Value r = mul(real(0.5, w), log1p(div(add(a, a), sub(one, a))));
    Value bad = less(one, a);
    Value nan = real(std::numeric_limits<double>::quiet_NaN(), w);
    return select(bad, nan, copySign(r, w));
  });
}

Value MathBuilder::tanh(Value x) {
  Value t = abs(x), one = real(1.0, x);
  if (isF64(x)) {
    // (e^2t - 1) / (e^2t + 1), with sinh's series near zero.
    Value quotient = div(sinh(x), cosh(x));
    return select(less(t, real(20.0, x)), quotient,
                  select(isNan(x), x, copySign(one, x)));
  }
  Value e = exp32(add(t, t));
  Value large = sub(one, div(real(2.0, x), add(e, one)));
  Value s = mul(x, x);
  Value p = polynomial(
      s, {1.57394409e-2, -5.23025580e-2, 1.33152470e-1, -3.33327681e-1, 0.0});
  Value small = fma(p, x, x);
  return select(less(t, real(0.55, x)), small, copySign(large, x));
}

// x P(x^2) up to 1; beyond, 1 - Q(t) e^-x^2 with t = (x - 2.5) / (x + 2.5),
// both Chebyshev fits. The rounding of x^2 is given back to the exponential.
Value MathBuilder::erf64(Value x) {
  Value a = abs(x), s = mul(a, a), one = real(1.0, x);
  Value lost = fma(a, a, neg(s));
  Value small =
      mul(x, polynomial(s, {5.9571761477489114e-11, -1.13728488567916737e-9,
                            1.46597752740474358e-8, -1.6350312701054695e-7,
                            1.6461000484121368e-6, -0.0000149255952668311816,
                            0.000120553311116427109, -0.000854832698083378991,
                            0.00522397762481801447, -0.0268661706450767932,
                            0.112837916709548787, -0.376126389031837481,
                            1.12837916709551257}));
  Value t = div(sub(a, real(2.5, x)), add(a, real(2.5, x)));
  Value q = polynomial(t, {-5.26875435861153599e-8, 6.02373906961253681e-8,
                           3.85278884226688862e-7, 8.43773369541770498e-8,
                           -1.81537472369574262e-6, -2.30004494520594708e-6,
                           7.55494406057597201e-6, 0.0000186147557406202217,
                           -0.0000341824791584079438, -0.000128877197431952939,
                           0.000228380393453917079, 0.000875915451425545536,
                           -0.00264236596479126144, -0.00399370116589201514,
                           0.0399225390755931725, -0.12503305237882892,
                           0.25171319321744925, -0.371736733948973354,
                           0.210806364061143581});
  Value power = exp64(neg(s));
  power = fma(neg(power), lost, power);
  Value large = sub(one, mul(q, power));
  large = select(less(real(6.0, x), a), one, large);
  return select(less(a, one), small, copySign(large, x));
}

Value MathBuilder::erf(Value x) {
  if (isF64(x))
    return select(isNan(x), x, erf64(x));
  Value a = x;
  Value t = abs(a), s = mul(a, a);
  Value r = fma(real(-1.72853470e-5, a), t, real(3.83197126e-4, a));
  Value u = fma(real(-3.88396438e-3, a), t, real(2.42546219e-2, a));
  r = fma(r, s, u);
  for (double c : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1})
    r = fma(r, t, real(c, a));
  r = fma(r, t, neg(t));
  Value large = copySign(sub(real(1.0, a), exp32(r)), a);
  Value p = polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2,
                           1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  Value small = fma(p, a, a);
  // Beyond 4 the polynomial of `large` may turn; erf is 1 there.
  large = select(less(real(4.0, a), t), copySign(real(1.0, a), a), large);
  return select(less(t, real(0.927734375, a)), small, large);
}

Value MathBuilder::sigmoid(Value x) {
  // e^-|x| cannot overflow, so that small results keep their precision.
  Value one = real(1.0, x), e = exp(neg(abs(x)));
  return div(select(less(x, real(0.0, x)), e, one), add(one, e));
}

// max(x, 0) + log(1 + e^-|x|)
Value MathBuilder::softplus(Value x) {
  Value zero = real(0.0, x);
  return add(max(x, zero), log1p(exp(neg(abs(x)))));
}

Value MathBuilder::fmod(Value x, Value y) {
  return inF64(x, [&](Value w) {
    Value v = toF64(y);
    // A step subtracts the quotient's 53 leading bits times y, which is exact;
    // f32 has quotients below 2^277.
    Value r = w;
    for (int step = 0; step < 6; ++step)
      r = fma(neg(trunc(div(r, v))), v, r);
    // The quotient may have been rounded up to the next integer, or down.
    Value v1 = copySign(abs(v), w);
    Value overshot = less(mul(r, copySign(real(1.0, w), w)), real(0.0, w));
    r = select(overshot, add(r, v1), r);
    Value undershot = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::OGE, abs(r), abs(v));
    r = select(undershot, sub(r, v1), r);
    // A finite number modulo infinity is itself.
    Value endless =
        equal(abs(v), real(std::numeric_limits<double>::infinity(), w));
    Value finite =
        less(abs(w), real(std::numeric_limits<double>::infinity(), w));
    r = select(arith::AndIOp::create(builder, loc, endless, finite), w, r);
    return copySign(r, w);
  });
}
