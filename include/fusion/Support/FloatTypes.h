//===- FloatTypes.h - Narrow floating point formats -------------*- C++ -*-===//
//
// Conversions between float and the 16-, 8- and 4-bit formats of ONNX. A
// narrow value is its bit pattern in the low bits of an integer. Rounding is
// to nearest, ties to even; plain C++, the same on every machine.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SUPPORT_FLOATTYPES_H
#define FUSION_SUPPORT_FLOATTYPES_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace fusion {

/// A format with one sign bit, `exponentBits` and `mantissaBits`.
struct FloatFormat {
  unsigned exponentBits, mantissaBits;
  int bias;
  enum class Specials : uint8_t {
    Ieee,    ///< the largest exponent holds infinity and NaN
    NanOnly, ///< no infinity; all exponent and mantissa bits set is NaN (FN)
    NegZero, ///< no infinity, no negative zero: its pattern is NaN (FNUZ)
    None,    ///< every pattern is a finite number
  } specials;
};

constexpr FloatFormat kF16{5, 10, 15, FloatFormat::Specials::Ieee};
constexpr FloatFormat kBF16{8, 7, 127, FloatFormat::Specials::Ieee};
constexpr FloatFormat kF8E4M3FN{4, 3, 7, FloatFormat::Specials::NanOnly};
constexpr FloatFormat kF8E5M2{5, 2, 15, FloatFormat::Specials::Ieee};
constexpr FloatFormat kF8E4M3FNUZ{4, 3, 8, FloatFormat::Specials::NegZero};
constexpr FloatFormat kF8E5M2FNUZ{5, 2, 16, FloatFormat::Specials::NegZero};
constexpr FloatFormat kF4E2M1{2, 1, 1, FloatFormat::Specials::None};

/// What becomes of a magnitude beyond the largest finite value.
enum class Overflow : uint8_t {
  Ieee,     ///< infinity, or NaN where the format has no infinity
  Saturate, ///< the largest finite value (ONNX Cast with saturate = 1)
};

/// Nearest value of `format`. NaN stays NaN; where there is none (Specials
/// None) it becomes the largest magnitude. A format without infinities and
/// NaNs always saturates.
uint16_t encodeFloat(const FloatFormat &format, float value,
                     Overflow overflow = Overflow::Ieee);
/// Exact.
float decodeFloat(const FloatFormat &format, uint16_t bits);

inline float bitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t floatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bf16ToFloat(uint16_t bits) {
  return bitsToFloat(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t floatToBf16(float value) {
  uint32_t bits = floatToBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40); // keep it a quiet NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline float f16ToFloat(uint16_t bits) { return decodeFloat(kF16, bits); }
inline uint16_t floatToF16(float value) { return encodeFloat(kF16, value); }

/// Rounds `count` floats to bf16 or fp16. Finite values stay finite: beyond the
/// largest they become that one.
void narrowToBf16(const float *values, uint16_t *bits, size_t count);
void narrowToF16(const float *values, uint16_t *bits, size_t count);

/// F8E8M0: an unsigned power of two, 2^(bits - 127); 255 is NaN.
float f8e8m0ToFloat(uint8_t bits);
/// Rounds to the nearest power of two (ties up) and saturates; NaN, zero and
/// negative values become NaN, 2^-127 and NaN.
uint8_t floatToF8e8m0(float value);

} // namespace fusion

#endif // FUSION_SUPPORT_FLOATTYPES_H
