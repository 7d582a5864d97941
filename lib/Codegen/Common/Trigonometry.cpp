//===- Trigonometry.cpp - Sine, cosine, tangent of any angle --------------===//
//
// An angle is a number of quarter turns and a rest of at most an eighth turn.
// Small angles lose their quarter turns by subtraction (pi / 2 in three parts);
// large ones are multiplied with the bits of 2 / pi that matter for their
// exponent, in integers (Payne and Hanek), so that the rest keeps its precision
// for every finite angle. No branches: both are computed, one is selected.
//
//===----------------------------------------------------------------------===//

#include "fusion/Codegen/Common/MathBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace fusion::codegen;

/// 64 bits of zero, then the bits of 2 / pi behind the point.
static constexpr uint32_t kTwoOverPi[] = {
    0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
    0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0,
    0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
    0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea,
    0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab};

namespace {
/// How much of 2 / pi an input type needs.
struct Precision {
  double threshold;      ///< larger angles take the integer path
  unsigned mantissa;     ///< bits of the input's mantissa
  unsigned limbs;        ///< 32-bit words of it
  unsigned words;        ///< words of the window of 2 / pi
  unsigned first, steps; ///< windows begin at word first .. first + 2^steps - 1
};
constexpr Precision kSingle{1073741824.0, 24, 1, 3, 2, 2};
constexpr Precision kDouble{1048576.0, 53, 2, 6, 0, 6};

/// The integer path, on 64-bit lanes that hold 32-bit words.
class Reducer {
public:
  Reducer(OpBuilder &builder, Location loc, MathBuilder &m, Value magnitude,
          const Precision &precision)
      : b(builder), loc(loc), m(m), x(magnitude), p(precision) {}

  /// |x| 2 / pi modulo 4: quarter turns (rounded) and the rest in quarters.
  std::pair<Value, Value> reduce() {
    split();
    SmallVector<Value> product = multiply(window());
    Value high = either(left(product[0], 32), product[1]);
    Value low =
        p.words > 3 ? either(left(product[2], 32), product[3]) : number(0);
    // Behind the two bits of whole quarters: the rest, from -1/2 to 1/2.
    Value quarters = right(
        arith::AddIOp::create(b, loc, high, number(int64_t(1) << 61)), 62);
    Value rest = either(left(high, 2), right(low, 62));
    Value fraction = m.mul(toReal(rest), m.real(0x1p-64, x));
    if (p.words > 3)
      fraction =
          m.fma(toReal(right(left(low, 2), 1)), m.real(0x1p-127, x), fraction);
    return {quarters, fraction};
  }

private:
  Value number(int64_t n) { return m.integer(n, x); }
  Value both(Value v, Value w) { return arith::AndIOp::create(b, loc, v, w); }
  Value either(Value v, Value w) { return arith::OrIOp::create(b, loc, v, w); }
  Value plus(Value v, Value w) { return arith::AddIOp::create(b, loc, v, w); }
  Value left(Value v, int64_t n) {
    return arith::ShLIOp::create(b, loc, v, number(n));
  }
  Value right(Value v, int64_t n) {
    return arith::ShRUIOp::create(b, loc, v, number(n));
  }
  Value lowWord(Value v) { return both(v, number(0xffffffff)); }
  Value toReal(Value v) {
    return arith::SIToFPOp::create(b, loc, x.getType(), v);
  }

  /// x = mantissa * 2^e, and where 2 / pi begins to matter for that e.
  void split() {
    Value bits = m.bits(x);
    Value whole = either(both(bits, number((int64_t(1) << 52) - 1)),
                         number(int64_t(1) << 52));
    whole = right(whole, 53 - p.mantissa);
    limbs.push_back(p.limbs == 1 ? whole : lowWord(whole));
    if (p.limbs == 2)
      limbs.push_back(right(whole, 32));
    // Bit j of 2 / pi counts 2^(e - j), and multiples of 4 do not matter: the
    // window begins at j = e - 1, which is bit e + 62 of the table.
    int64_t bias = 1022 + p.mantissa;
    Value place = plus(right(bits, 52), number(62 - bias));
    word = plus(right(place, 5), number(-int64_t(p.first)));
    shift = both(place, number(31));
  }

  /// Words of 2 / pi from `word`, picked bit by bit of the index, then shifted.
  SmallVector<Value> window() {
    unsigned needed = p.words + 1;
    SmallVector<Value> table;
    for (unsigned i = 0; i < (1u << p.steps) + needed - 1; ++i) {
      size_t at = p.first + i;
      // Beyond the table lie windows that no finite angle has.
      table.push_back(number(at < std::size(kTwoOverPi) ? kTwoOverPi[at] : 0));
    }
    for (unsigned step = p.steps; step-- > 0;) {
      Value taken = arith::CmpIOp::create(
          b, loc, arith::CmpIPredicate::ne,
          both(word, number(int64_t(1) << step)), number(0));
      SmallVector<Value> next;
      for (unsigned i = 0; i < (1u << step) + needed - 1; ++i)
        next.push_back(m.select(taken, table[i + (1u << step)], table[i]));
      table = std::move(next);
    }
    SmallVector<Value> words;
    for (unsigned i = 0; i < p.words; ++i) {
      Value pair = either(left(table[i], 32), table[i + 1]);
      words.push_back(right(arith::ShLIOp::create(b, loc, pair, shift), 32));
    }
    return words;
  }

  /// Mantissa times window, without what carries out of the first word.
  SmallVector<Value> multiply(ArrayRef<Value> window) {
    SmallVector<Value> columns(p.words, number(0));
    for (auto [l, limb] : llvm::enumerate(limbs))
      for (unsigned i = l; i < p.words; ++i) {
        Value product = arith::MulIOp::create(b, loc, limb, window[i]);
        unsigned column = i - l;
        columns[column] = plus(columns[column], lowWord(product));
        if (column > 0)
          columns[column - 1] = plus(columns[column - 1], right(product, 32));
      }
    for (unsigned i = p.words - 1; i > 0; --i) {
      columns[i - 1] = plus(columns[i - 1], right(columns[i], 32));
      columns[i] = lowWord(columns[i]);
    }
    columns[0] = lowWord(columns[0]);
    return columns;
  }

  OpBuilder &b;
  Location loc;
  MathBuilder &m;
  Value x;
  Precision p;
  SmallVector<Value> limbs;
  Value word, shift;
};
} // namespace

MathBuilder::Angle MathBuilder::reduceAngle(Value x) {
  const bool single = !getElementTypeOrSelf(x).isF64();
  const Precision &precision = single ? kSingle : kDouble;
  Value wide = toF64(x), magnitude = abs(wide);
  Value magic = real(6755399441055744.0, wide);
  Value t = fma(wide, real(0.63661977236758134308, wide), magic);
  Value k = sub(t, magic);
  Value rest = fma(k, real(-1.5707963267948966, wide), wide);
  rest = fma(k, real(-6.123233995736766e-17, wide), rest);
  if (!single)
    rest = fma(k, real(1.4973849048591698e-33, wide), rest);

  auto [quarters, fraction] =
      Reducer(builder, loc, *this, magnitude, precision).reduce();
  Value negative = less(wide, real(0.0, wide));
  Value far = mul(fraction, real(1.5707963267948966, wide));
  far = select(negative, neg(far), far);
  Value turned = select(
      negative, arith::SubIOp::create(builder, loc, integer(0, wide), quarters),
      quarters);

  Value large = less(real(precision.threshold, wide), magnitude);
  Value finite =
      less(magnitude, real(std::numeric_limits<double>::infinity(), wide));
  rest = select(large, far, rest);
  rest = select(finite, rest,
                real(std::numeric_limits<double>::quiet_NaN(), wide));
  return {rest, select(large, turned, bits(t))};
}

Value MathBuilder::sineOf(Value rest) {
  Value s = mul(rest, rest);
  Value p =
      isF64(rest)
          ? polynomial(
                s, {2.81145725434552076320e-15, -7.64716373181981647590e-13,
                    1.60590438368216145994e-10, -2.50521083854417187751e-08,
                    2.75573192239858906526e-06, -1.98412698412698412698e-04,
                    8.33333333333333333333e-03, -1.66666666666666666667e-01})
          : polynomial(s, {2.86567956e-6, -1.98559923e-4, 8.33338592e-3,
                           -1.66666672e-1});
  return fma(mul(p, s), rest, rest);
}

Value MathBuilder::cosineOf(Value rest) {
  Value s = mul(rest, rest);
  return isF64(rest)
             ? polynomial(
                   s, {4.77947733238738529744e-14, -1.14707455977297247139e-11,
                       2.08767569878680989792e-09, -2.75573192239858906526e-07,
                       2.48015873015873015873e-05, -1.38888888888888888889e-03,
                       4.16666666666666666667e-02, -0.5, 1.0})
             : polynomial(s, {2.44677067e-5, -1.38877297e-3, 4.16666567e-2,
                              -0.5, 1.0});
}

Value MathBuilder::hasBit(Value number, int64_t bit) {
  Value masked =
      arith::AndIOp::create(builder, loc, number, integer(bit, number));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, masked,
                               integer(0, number));
}

Value MathBuilder::sinOrCos(Value x, bool cosine) {
  Angle angle = reduceAngle(x);
  Value rest = toType(angle.rest, x), quarters = angle.quarters;
  if (!isF64(x))
    quarters =
        arith::TruncIOp::create(builder, loc, bits(x).getType(), quarters);
  if (cosine)
    quarters =
        arith::AddIOp::create(builder, loc, quarters, integer(1, quarters));
  Value result = select(hasBit(quarters, 1), cosineOf(rest), sineOf(rest));
  return select(hasBit(quarters, 2), neg(result), result);
}

Value MathBuilder::sin(Value x) {
  // The sum of the series loses the sign of -0.
  return select(equal(x, real(0.0, x)), x, sinOrCos(x, false));
}
Value MathBuilder::cos(Value x) { return sinOrCos(x, true); }

Value MathBuilder::tan(Value x) {
  Angle angle = reduceAngle(x);
  Value s = sineOf(angle.rest), c = cosineOf(angle.rest);
  Value odd = hasBit(angle.quarters, 1);
  Value quotient = div(select(odd, neg(c), s), select(odd, s, c));
  return select(equal(x, real(0.0, x)), x, toType(quotient, x));
}
