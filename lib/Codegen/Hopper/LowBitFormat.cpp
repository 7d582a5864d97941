//===- LowBitFormat.cpp - Packed codes to fragments of A ------------------===//

#include "LowBitFormat.h"
#include "WarpMma.h"

#include "fusion/Kernels/LowBitMatmul.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

LowBitFormat::LowBitFormat(KernelBuilder &k,
                           const kernels::LowBitWeight &weight, Type element,
                           bool scaled)
    : k(k), weight(weight), element(element), code(weight.code()),
      scaled(scaled) {}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

static Val twice(KernelBuilder &k, uint32_t half) {
  return k.i32(int32_t(half << 16 | half));
}

Val LowBitFormat::pairConstant(double value) {
  llvm::APFloat number(value);
  bool lost;
  number.convert(cast<FloatType>(element).getFloatSemantics(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  return twice(k, uint32_t(number.bitcastToAPInt().getZExtValue()));
}

Val LowBitFormat::pairPower(int exponent) {
  return pairConstant(std::ldexp(1.0, exponent));
}

// Inline, so that nothing flushes subnormals or widens to fp32.
Val LowBitFormat::fma(Val a, Val b, Val c) {
  llvm::StringRef text =
      bf16() ? "fma.rn.bf16x2 $0, $1, $2, $3;" : "fma.rn.f16x2 $0, $1, $2, $3;";
  return purePtx(k, {k.builder().getI32Type()}, text, "=r,r,r,r", {a, b, c})[0];
}

Val LowBitFormat::mul(Val a, Val b) {
  llvm::StringRef text =
      bf16() ? "mul.rn.bf16x2 $0, $1, $2;" : "mul.rn.f16x2 $0, $1, $2;";
  return purePtx(k, {k.builder().getI32Type()}, text, "=r,r,r", {a, b})[0];
}

Val LowBitFormat::duplicate(Val f32) { return pack2(k, element, f32, f32); }

LowBitFormat::Split LowBitFormat::split(Val value, bool low) {
  Split s{duplicate(value), Val()};
  if (!low)
    return s;
  // The pair's low half, back in fp32.
  Val back = bf16() ? bitcast(k, s.high << 16, k.builder().getF32Type())
                    : toF32(k, s.high, element, 0);
  s.low = duplicate(value - back);
  return s;
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// What is added to a difference of codes, so that it is positive. Times any
/// scale it is exact.
static constexpr unsigned kRaised = 16;

bool LowBitFormat::subtractsBytes() const {
  return scaled && bf16() && isInteger() && weight.bits == 4 && weight.zeros &&
         weight.zero().isInteger(4) && weight.scale().isBF16();
}

// The offset -z * s has to be exact in the product's type.
bool LowBitFormat::isFused() const {
  return subtractsBytes() ||
         (scaled && kernels::scalesInOneStep(weight, element));
}

int LowBitFormat::unit() const {
  if (isInteger())
    return bf16() ? 133 : 0;
  if (isa<Float8E4M3FNType>(code))
    return bf16() ? 120 : 8;
  if (isa<Float8E5M2Type>(code))
    return bf16() ? 112 : 0;
  return bf16() ? 126 : 14;
}

// bf16: scales up to 2^27 and more, and down to 2^-90, without overflow or
// loss. fp16: only scales of E4M3, up to 448, need room.
int LowBitFormat::headroom() const {
  if (bf16())
    return isInteger() ? 33 : isa<Float4E2M1FNType>(code) ? 26 : 30;
  bool narrow = scaled && isa<Float8E4M3FNType>(weight.scale());
  return narrow && isa<Float4E2M1FNType>(code) ? 7 : 0;
}

double LowBitFormat::sumFactor() const {
  if (isInteger() && !isFused())
    return bf16() ? 64 : 1;
  if (!isInteger() && !scaled)
    return 1;
  return std::ldexp(1.0, headroom());
}

Val LowBitFormat::integerBase(ArrayRef<Val> words, unsigned j) {
  Val half;
  if (weight.bits == 8) {
    Val word = words[j >> 1];
    half = (j & 1 ? word >> 8 : word) & 0x00ff00ff;
  } else {
    Val word = j & 2 ? words[0] >> 8 : words[0];
    half = word & (j & 1 ? 0x00f000f0 : 0x000f000f);
  }
  // fp16: 1024 + q, or 1024 + 16 q.
  return bf16() ? half : half | 0x64006400;
}

// Codes less zero points, raised: in the word's even bytes (of row l / 4) and
// odd ones (l / 4 + 8), then a byte in each half. LLVM would make more
// instructions of the first difference: it prefers masks.
KernelBuilder::Vals LowBitFormat::raisedBases(Val word, const Group &group) {
  Val odd = word & int64_t(int32_t(0xf0f0f0f0));
  Val low = purePtx(k, {word.type()},
                    "{ .reg .b32 t; sub.u32 t, $1, $2; add.u32 $0, t, $3; }",
                    "=r,r,r,r", {word, odd, group.raise[0]})[0];
  Val high = (odd >> 4) + group.raise[1];
  Val none = k.i32(0);
  return {low & 0x00ff00ff, high & 0x00ff00ff, permute(k, low, none, 0x4341),
          permute(k, high, none, 0x4341)};
}

Val LowBitFormat::floatBase(ArrayRef<Val> words, unsigned j) {
  auto mask = [&](uint32_t half) { return twice(k, half); };
  Val bits;
  uint32_t magnitude;
  if (isa<Float4E2M1FNType>(code)) {
    Val w = words[0];
    magnitude = 0x01c0;
    if (j < 3)
      bits = (w << (int64_t(j) * 3)) & mask(0x81c0);
    else
      bits = ((w << 1) & mask(0x8000)) | ((w >> 5) & mask(0x0100)) |
             ((w >> 4) & mask(0x00c0));
  } else if (isa<Float8E4M3FNType>(code)) {
    Val w = words[j >> 1];
    magnitude = 0x07f0;
    bits = j & 1 ? ((w << 4) & mask(0x80f0)) | ((w >> 4) & mask(0x0700))
                 : w & mask(0x87f0);
  } else {
    Val w = words[j >> 1];
    magnitude = 0x0fe0;
    bits = j & 1 ? ((w << 1) & mask(0x8000)) | ((w >> 2) & mask(0x0c00)) |
                       ((w << 5) & mask(0x03e0))
                 : w & mask(0x8fe0);
  }
  if (bf16())
    return bits;
  // fp16 has its exponent three bits further up.
  return (bits & mask(0x8000)) | ((bits << 3) & mask(magnitude << 3));
}

Val LowBitFormat::base(ArrayRef<Val> words, unsigned j) {
  return isInteger() ? integerBase(words, j) : floatBase(words, j);
}

//===----------------------------------------------------------------------===//
// Scales and zero points
//===----------------------------------------------------------------------===//

Type LowBitFormat::pairType(KernelBuilder &k, Type element) {
  unsigned bits = 8 * kernels::stripBytes(element);
  if (bits == 32)
    return VectorType::get({2}, k.builder().getI32Type());
  return k.builder().getIntegerType(2 * bits);
}

/// An i16 or i32 pair as i32.
static Val widened(KernelBuilder &k, Val pair) {
  if (pair.type().isInteger(32))
    return pair;
  return k.wrap(arith::ExtUIOp::create(k.builder(), k.builder().getI32Type(),
                                       Value(pair)));
}

Val LowBitFormat::toF32(KernelBuilder &k, Val pair, Type element,
                        unsigned row) {
  Type f32 = k.builder().getF32Type();
  if (element.isF32())
    return bitcast(k, k.extract(pair, row), f32);
  Val raw = widened(k, pair);
  if (element.isBF16())
    return bitcast(k, row ? raw & int64_t(int32_t(0xffff0000)) : raw << 16,
                   f32);
  Val half;
  if (element.isF16()) {
    half = row ? raw >> 16 : raw & 0xffff;
  } else {
    Val byte = row ? (raw >> 8) & 0xff : raw & 0xff;
    if (isa<Float8E8M0FNUType>(element))
      return bitcast(k, byte << 23, f32);
    // The bits of an fp16, 2^8 too small for E4M3.
    half = isa<Float8E5M2Type>(element)
               ? byte << 8
               : ((byte << 8) & 0x8000) | ((byte << 7) & 0x3f80);
  }
  Val value = purePtx(k, {f32},
                      "{ .reg .b16 l, h; mov.b32 {l, h}, $1; cvt.f32.f16 $0, "
                      "l; }",
                      "=f,r", {half})[0];
  return isa<Float8E4M3FNType>(element) ? value * k.f32(256) : value;
}

LowBitFormat::Split LowBitFormat::scalePair(Val scales, unsigned row,
                                            int exponent) {
  Type type = weight.scale();
  auto times = [&](Val pair, int power) {
    return power ? mul(pair, pairPower(power)) : pair;
  };
  if (type == element)
    return {times(permute(k, scales, scales, row ? 0x3232 : 0x1010), exponent),
            Val()};
  if (isa<Float8E4M3FNType>(type)) {
    // Of both rows at once, as floatBase() has codes; then the row's own.
    Val halves = permute(k, widened(k, scales), k.i32(0), 0x4140);
    Val bits = ((halves << 8) & twice(k, 0x8000)) |
               (bf16() ? (halves << 4) & twice(k, 0x07f0)
                       : (halves << 7) & twice(k, 0x3f80));
    Val both =
        bf16() ? times(times(bits, 120), exponent) : times(bits, 8 + exponent);
    return {permute(k, both, both, row ? 0x3232 : 0x1010), Val()};
  }
  if (isa<Float8E8M0FNUType>(type) && bf16()) {
    Val raw = widened(k, scales);
    Val byte = permute(k, raw, k.i32(0), row ? 0x4141 : 0x4040);
    return {times(byte << 7, exponent), Val()};
  }
  Val value = toF32(k, scales, type, row);
  if (exponent)
    value = value * k.f32(std::ldexp(1.0, exponent));
  bool low = type.isF32() || (type.isF16() && bf16());
  return split(value, low);
}

// bf16: -z / 64. fp16: -(1024 + z) for even slots, -(64 + z) for odd ones.
void LowBitFormat::setZeros(Group &group, Val zeros) {
  bool odd = weight.bits == 4 && !bf16();
  for (unsigned row = 0; row < 2; ++row) {
    Val &offset = group.offset[row];
    if (!weight.zeros) {
      double z = double(weight.implicitZero);
      offset = pairConstant(bf16() ? -z / 64 : -(1024 + z));
      if (odd)
        group.oddOffset[row] = pairConstant(-(64 + z));
      continue;
    }
    if (isa<IntegerType>(weight.zero())) {
      Val byte = permute(k, widened(k, zeros), k.i32(0), row ? 0x4141 : 0x4040);
      offset = bf16() ? mul(byte, pairConstant(-std::ldexp(1.0, 127)))
                      : byte | int64_t(int32_t(0xe400e400));
    } else {
      // The part that leaves q - z exact, and the rest.
      Val z = toF32(k, zeros, weight.zero(), row);
      z = z + k.f32(double(weight.implicitZero));
      double steps = bf16() && weight.bits == 4 ? 16 : 1;
      Val high = purePtx(k, {z.type()}, "cvt.rni.f32.f32 $0, $1;", "=f,f",
                         {z * k.f32(steps)})[0] *
                 k.f32(1 / steps);
      double unit = bf16() ? 1.0 / 64 : 1;
      offset = duplicate(bf16() ? high * k.f32(-unit) : k.f32(-1024) - high);
      group.offsetLow[row] = (high - z) * k.f32(unit);
    }
    if (odd)
      group.oddOffset[row] = fma(offset, pairConstant(1), pairConstant(960));
  }
}

LowBitFormat::Group LowBitFormat::group(Val scales, Val zeros) {
  Group g;
  bool odd = isInteger() && weight.bits == 4 && !subtractsBytes();
  double zero = subtractsBytes() ? kRaised : double(weight.implicitZero);
  if (subtractsBytes())
    for (unsigned row = 0; row < 2; ++row)
      g.raise[row] = k.i32(kRaised * 0x01010101) -
                     permute(k, widened(k, zeros), k.i32(0), row ? 0x1111 : 0);
  if (isFused()) {
    for (unsigned row = 0; row < 2; ++row) {
      Val s = scalePair(scales, row, 0).high;
      g.factor[row] = mul(s, pairPower(133 - headroom()));
      if (odd)
        g.oddFactor[row] = mul(s, pairPower(129 - headroom()));
      g.offset[row] = zero
                          ? mul(s, pairConstant(-std::ldexp(zero, -headroom())))
                          : k.i32(0);
    }
    return g;
  }
  if (isInteger())
    setZeros(g, zeros);
  if (!scaled) {
    for (Val &low : g.offsetLow)
      if (low)
        low = duplicate(low);
    return g;
  }
  // fp16 has no room for a unit in the scale, but for E4M3 scales.
  int exponent = isInteger()                 ? 0
                 : bf16() || headroom() != 0 ? unit() - headroom()
                                             : 0;
  for (unsigned row = 0; row < 2; ++row) {
    Split s = scalePair(scales, row, exponent);
    g.factor[row] = s.high;
    g.factorLow[row] = s.low;
    if (g.offsetLow[row])
      g.offsetLow[row] =
          duplicate(g.offsetLow[row] * toF32(k, scales, weight.scale(), row));
  }
  return g;
}

KernelBuilder::Vals LowBitFormat::fragment(ArrayRef<Val> words,
                                           const Group &g) {
  KernelBuilder::Vals registers;
  bool oddSlots = isInteger() && weight.bits == 4 && !subtractsBytes();
  KernelBuilder::Vals raised;
  if (subtractsBytes())
    raised = raisedBases(words[0], g);
  for (unsigned j = 0; j < 4; ++j) {
    unsigned row = j & 1;
    bool odd = oddSlots && (j & 1);
    Val x = raised.empty() ? base(words, j) : raised[j];
    if (isFused()) {
      registers.push_back(
          fma(x, odd ? g.oddFactor[row] : g.factor[row], g.offset[row]));
      continue;
    }
    if (isInteger()) {
      Val offset = odd && g.oddOffset[row] ? g.oddOffset[row] : g.offset[row];
      double step =
          bf16() ? std::ldexp(1.0, odd ? 123 : 127) : (odd ? 1.0 / 16 : 1.0);
      x = fma(x, pairConstant(step), offset);
    } else if (!scaled || (!bf16() && headroom() == 0)) {
      if (unit())
        x = mul(x, pairPower(unit()));
    }
    Val low = g.offsetLow[row];
    if (!scaled) {
      if (low)
        x = fma(low, pairConstant(1), x);
    } else if (bool(g.factorLow[row]) || bool(low)) {
      if (g.factorLow[row])
        low = low ? fma(x, g.factorLow[row], low) : mul(x, g.factorLow[row]);
      x = fma(x, g.factor[row], low);
    } else {
      x = mul(x, g.factor[row]);
    }
    registers.push_back(x);
  }
  return registers;
}
