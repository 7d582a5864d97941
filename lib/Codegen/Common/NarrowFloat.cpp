//===- NarrowFloat.cpp - 16-, 8- and 4-bit floats as integer code ---------===//

#include "fusion/Codegen/Common/NarrowFloat.h"
#include "fusion/Codegen/Common/MathBuilder.h"
#include "fusion/Support/FloatTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

Type codegen::vectorOf(Type type, unsigned width) {
  return width > 1 ? VectorType::get({int64_t(width)}, type) : type;
}

bool codegen::isUnsigned(Type element) {
  return element.isUnsignedInteger() || element.isInteger(1);
}

Type codegen::computeType(Type element) {
  if (isa<FloatType>(element))
    return element.isF64() ? element : Float32Type::get(element.getContext());
  if (element.isIndex())
    return element;
  unsigned width = element.getIntOrFloatBitWidth();
  return IntegerType::get(element.getContext(),
                          width == 1 ? 1 : std::max(width, 8u));
}

static FloatFormat formatOf(Type element) {
  if (element.isF16())
    return kF16;
  if (element.isBF16())
    return kBF16;
  if (isa<Float8E5M2Type>(element))
    return kF8E5M2;
  if (isa<Float8E4M3FNUZType>(element))
    return kF8E4M3FNUZ;
  if (isa<Float8E5M2FNUZType>(element))
    return kF8E5M2FNUZ;
  if (isa<Float4E2M1FNType>(element))
    return kF4E2M1;
  return kF8E4M3FN;
}

static Type like(Value shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}

namespace {
/// Integer arithmetic on one type.
struct Bits {
  OpBuilder &b;
  Location loc;
  MathBuilder math{b, loc};

  Value constant(int64_t c, Value as) { return math.integer(c, as); }
  Value shl(Value a, int64_t n) {
    return arith::ShLIOp::create(b, loc, a, constant(n, a));
  }
  Value shr(Value a, int64_t n) {
    return arith::ShRUIOp::create(b, loc, a, constant(n, a));
  }
  Value mask(Value a, int64_t m) {
    return arith::AndIOp::create(b, loc, a, constant(m, a));
  }
  Value bitOr(Value a, Value c) { return arith::OrIOp::create(b, loc, a, c); }
  Value add(Value a, Value c) { return arith::AddIOp::create(b, loc, a, c); }
  Value add(Value a, int64_t c) { return add(a, constant(c, a)); }
  Value sub(Value a, Value c) { return arith::SubIOp::create(b, loc, a, c); }
  Value above(Value a, int64_t c) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, a,
                                 constant(c, a));
  }
  Value equals(Value a, int64_t c) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a,
                                 constant(c, a));
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  Value asFloat(Value a) { return math.fromBits(a, b.getF32Type()); }
  Value widen(Value a) {
    if (getElementTypeOrSelf(a).isInteger(32))
      return a;
    return arith::ExtUIOp::create(b, loc, like(a, b.getI32Type()), a);
  }
  Value narrow(Value a, unsigned width) {
    return arith::TruncIOp::create(b, loc, like(a, b.getIntegerType(width)), a);
  }
};
} // namespace

static Value decodeExponentOnly(Bits &k, Value bits) {
  Value wide = k.widen(bits);
  Value normal = k.shl(wide, 23);
  Value r = k.select(k.equals(wide, 0), k.constant(0x00400000, wide), normal);
  r = k.select(k.equals(wide, 255), k.constant(0x7fc00000, wide), r);
  return k.asFloat(r);
}

Value codegen::decodeFloat(OpBuilder &b, Location loc, Value bits,
                           Type element) {
  Bits k{b, loc};
  if (isa<Float8E8M0FNUType>(element))
    return decodeExponentOnly(k, bits);
  FloatFormat format = formatOf(element);
  Value wide = k.widen(bits);
  if (element.isBF16())
    return k.asFloat(k.shl(wide, 16));
  if (element.isF16()) {
    Value half =
        arith::BitcastOp::create(b, loc, like(bits, b.getF16Type()), bits);
    return arith::ExtFOp::create(b, loc, like(bits, b.getF32Type()), half);
  }
  // Exponent and mantissa at their places in an f32, then a product with the
  // difference of the biases; subnormal numbers come out right.
  unsigned magnitude = format.exponentBits + format.mantissaBits;
  Value m = k.mask(wide, (1 << magnitude) - 1);
  Value f = k.asFloat(k.shl(m, 23 - format.mantissaBits));
  f = k.math.mul(f, k.math.real(std::ldexp(1.0, 127 - format.bias), f));
  Value r = k.math.bits(f);
  int64_t top = ((1 << format.exponentBits) - 1) << format.mantissaBits;
  if (format.specials == FloatFormat::Specials::Ieee) {
    r = k.select(k.equals(m, top), k.constant(0x7f800000, r), r);
    r = k.select(k.above(m, top), k.constant(0x7fc00000, r), r);
  } else if (format.specials == FloatFormat::Specials::NanOnly) {
    r = k.select(k.equals(m, (1 << magnitude) - 1), k.constant(0x7fc00000, r),
                 r);
  }
  Value sign = k.shl(k.shr(k.mask(wide, 1 << magnitude), magnitude), 31);
  r = k.bitOr(r, sign);
  if (format.specials == FloatFormat::Specials::NegZero)
    r = k.select(k.equals(wide, 1 << magnitude), k.constant(0x7fc00000, r), r);
  return k.asFloat(r);
}

static Value encodeExponentOnly(Bits &k, Value value) {
  // Up to the next power of two; half of the last one is below the normals.
  Value raw = k.math.bits(value), magnitude = k.mask(raw, 0x7fffffff);
  Value normal = k.shr(k.add(magnitude, 0x7fffff), 23);
  Value lowest = k.shr(k.add(magnitude, 0x3fffff), 23);
  Value rounded = k.select(k.above(magnitude, 0x7fffff), normal, lowest);
  Value r = k.select(k.above(rounded, 254), k.constant(254, raw), rounded);
  Value bad = k.above(raw, 0x7f800000); // NaN, or the sign bit
  r = k.select(bad, k.constant(255, raw), r);
  r = k.select(k.equals(k.mask(raw, 0x7fffffff), 0), k.constant(0, raw), r);
  return k.narrow(r, 8);
}

Value codegen::encodeFloat(OpBuilder &b, Location loc, Value value,
                           Type element, bool saturate) {
  Bits k{b, loc};
  if (getElementTypeOrSelf(value).isF64())
    value = arith::TruncFOp::create(b, loc, like(value, b.getF32Type()), value);
  if (isa<Float8E8M0FNUType>(element))
    return encodeExponentOnly(k, value);
  if (element.isF16()) {
    Value half =
        arith::TruncFOp::create(b, loc, like(value, b.getF16Type()), value);
    return arith::BitcastOp::create(b, loc, like(value, b.getI16Type()), half);
  }
  Value raw = k.math.bits(value);
  if (element.isBF16()) {
    Value odd = k.mask(k.shr(raw, 16), 1);
    Value r = k.shr(k.add(k.add(raw, 0x7fff), odd), 16);
    Value nan = k.bitOr(k.shr(raw, 16), k.constant(0x40, raw));
    return k.narrow(k.select(k.math.isNan(value), nan, r), 16);
  }
  FloatFormat format = formatOf(element);
  int drop = 23 - format.mantissaBits;
  unsigned magnitude = format.exponentBits + format.mantissaBits;
  Value m = k.mask(raw, 0x7fffffff);
  // Normal results: round the mantissa in place, move the bias.
  Value odd = k.mask(k.shr(m, drop), 1);
  Value normal = k.add(k.add(m, odd), (int64_t(1) << (drop - 1)) - 1 -
                                          (int64_t(127 - format.bias) << 23));
  normal = k.shr(normal, drop);
  // Subnormal results: adding a power of two rounds to its last place.
  int64_t anchor = int64_t(127 - format.bias + drop + 1) << 23;
  Value a = k.asFloat(k.constant(anchor, m));
  Value sub =
      k.sub(k.math.bits(k.math.add(k.asFloat(m), a)), k.constant(anchor, m));
  int64_t smallest = int64_t(127 - format.bias + 1) << 23;
  Value r = k.select(k.above(m, smallest - 1), normal, sub);

  int64_t all = (1 << magnitude) - 1;
  int64_t top = ((1 << format.exponentBits) - 1) << format.mantissaBits;
  // A format without NaN makes it the negative zero.
  int64_t largest = all, overflow = all, nan = all + 1;
  if (format.specials == FloatFormat::Specials::Ieee) {
    largest = top - 1;
    overflow = saturate ? largest : top;
    nan = top | (1 << (format.mantissaBits - 1));
  } else if (format.specials == FloatFormat::Specials::NanOnly) {
    largest = all - 1;
    overflow = saturate ? largest : all;
    nan = all;
  } else if (format.specials == FloatFormat::Specials::NegZero) {
    overflow = saturate ? largest : nan;
  }
  // The comparison is unsigned and `normal` grows with the input up to the
  // largest f32, so one test finds every overflow.
  r = k.select(k.above(r, largest), k.constant(overflow, r), r);
  r = k.select(k.above(m, 0x7f800000), k.constant(nan, r), r);
  Value sign = k.shl(k.shr(raw, 31), magnitude);
  Value code = k.bitOr(r, sign);
  // Neither zero nor NaN has a sign: the pattern of the one is the other.
  if (format.specials == FloatFormat::Specials::NegZero)
    code = k.select(k.equals(k.mask(r, all), 0), r, code);
  return k.narrow(code, 8);
}

Value codegen::roundThrough(OpBuilder &b, Location loc, Value value,
                            Type element, bool saturate) {
  if (!isa<FloatType>(element) || element.isF64())
    return value;
  MathBuilder math(b, loc);
  if (element.isF32()) {
    if (!getElementTypeOrSelf(value).isF64())
      return value;
    return arith::TruncFOp::create(b, loc, like(value, b.getF32Type()), value);
  }
  return decodeFloat(b, loc, encodeFloat(b, loc, value, element, saturate),
                     element);
}
