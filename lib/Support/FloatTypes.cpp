//===- FloatTypes.cpp - Narrow floating point formats ---------------------===//
//
// One algorithm serves every format: align the significand to the format's
// spacing at the value's exponent, round it, and let a carry ripple into the
// exponent field.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/FloatTypes.h"

#include <cmath>
#include <limits>

using namespace fusion;

using Specials = FloatFormat::Specials;

/// The pattern of the largest finite magnitude.
static uint32_t largestFinite(const FloatFormat &format) {
  uint32_t all = (1u << (format.exponentBits + format.mantissaBits)) - 1;
  switch (format.specials) {
  case Specials::Ieee:
    return (((1u << format.exponentBits) - 1) << format.mantissaBits) - 1;
  case Specials::NanOnly:
    return all - 1;
  case Specials::NegZero:
  case Specials::None:
    return all;
  }
  return all;
}

static uint32_t nanPattern(const FloatFormat &format) {
  uint32_t all = (1u << (format.exponentBits + format.mantissaBits)) - 1;
  if (format.specials == Specials::NanOnly)
    return all;
  if (format.specials == Specials::None || format.specials == Specials::NegZero)
    return all + 1; // the negative zero
  return ((1u << format.exponentBits) - 1) << format.mantissaBits |
         1u << (format.mantissaBits - 1);
}

/// Rounds a finite magnitude; the result may lie beyond largestFinite().
static uint32_t roundMagnitude(const FloatFormat &format, uint32_t bits) {
  int exponent = static_cast<int>(bits >> 23) - 127;
  uint64_t significand = bits & 0x7fffff;
  if (bits >> 23 == 0)
    exponent = -126; // subnormal float
  else
    significand |= 1u << 23;
  int least = 1 - format.bias; // exponent of the smallest normal number
  int shift = 23 - static_cast<int>(format.mantissaBits);
  if (exponent < least)
    shift += least - exponent;
  if (shift > 40)
    return 0;
  // `shift` bits of the significand are dropped; 0 keeps them all (bf16's
  // exponents, for one, equal float's).
  uint64_t kept = significand >> shift;
  uint64_t rest = significand - (kept << shift);
  uint64_t half = shift ? 1ull << (shift - 1) : 0;
  if (shift && (rest > half || (rest == half && (kept & 1))))
    ++kept;
  if (exponent < least)
    return static_cast<uint32_t>(kept); // a carry gives the smallest normal
  uint64_t biased = static_cast<uint64_t>(exponent) + format.bias;
  // `kept` holds the hidden bit, which adds one to the exponent field.
  return static_cast<uint32_t>(((biased - 1) << format.mantissaBits) + kept);
}

uint16_t fusion::encodeFloat(const FloatFormat &format, float value,
                             Overflow overflow) {
  uint32_t bits = floatToBits(value), magnitude = bits & 0x7fffffff;
  uint32_t sign = bits >> 31 << (format.exponentBits + format.mantissaBits);
  uint32_t largest = largestFinite(format);
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>(format.specials == Specials::NegZero
                                     ? nanPattern(format)
                                     : sign | nanPattern(format));
  uint32_t result = magnitude == 0x7f800000
                        ? std::numeric_limits<uint32_t>::max()
                        : roundMagnitude(format, magnitude);
  if (result > largest) {
    bool saturate =
        overflow == Overflow::Saturate || format.specials == Specials::None;
    result = saturate ? largest : largest + 1; // infinity, or NaN of FN
  }
  if (format.specials == Specials::NegZero && (result == 0 || result > largest))
    sign = 0;
  return static_cast<uint16_t>(sign | result);
}

float fusion::decodeFloat(const FloatFormat &format, uint16_t bits) {
  unsigned width = format.exponentBits + format.mantissaBits;
  uint32_t magnitude = bits & ((1u << width) - 1);
  uint32_t mantissa = magnitude & ((1u << format.mantissaBits) - 1);
  int exponent = static_cast<int>(magnitude >> format.mantissaBits);
  float sign = bits >> width & 1 ? -1.0f : 1.0f;
  if (format.specials == Specials::NegZero && bits == 1u << width)
    return std::numeric_limits<float>::quiet_NaN();
  if (magnitude > largestFinite(format)) {
    if (format.specials == Specials::Ieee && mantissa == 0)
      return sign * std::numeric_limits<float>::infinity();
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  if (exponent == 0)
    exponent = 1;
  else
    mantissa |= 1u << format.mantissaBits;
  return sign * std::ldexp(static_cast<float>(mantissa),
                           exponent - format.bias -
                               static_cast<int>(format.mantissaBits));
}

// Without branches, so that the loops become vector code: weights are narrowed
// at the speed of the copy.
void fusion::narrowToBf16(const float *values, uint16_t *bits, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t raw = floatToBits(values[i]), magnitude = raw & 0x7fffffff;
    uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
    uint32_t finite = rounded > 0x7f7f ? 0x7f7f : rounded;
    uint32_t special = magnitude > 0x7f800000 ? 0x7fc0 : 0x7f80;
    uint32_t result = magnitude < 0x7f800000 ? finite : special;
    bits[i] = static_cast<uint16_t>(result | (raw >> 16 & 0x8000));
  }
}

void fusion::narrowToF16(const float *values, uint16_t *bits, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t raw = floatToBits(values[i]), magnitude = raw & 0x7fffffff;
    // The exponent's bias goes from 127 to 15.
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    uint32_t normal = (rounded - (112u << 23)) >> 13;
    normal = normal > 0x7bff ? 0x7bff : normal;
    // Adding 1/2 rounds to multiples of 2^-24, the subnormals' spacing.
    float shifted = bitsToFloat(magnitude) + 0.5f;
    uint32_t subnormal = floatToBits(shifted) - 0x3f000000;
    uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    uint32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t result = magnitude < 0x7f800000 ? finite : special;
    bits[i] = static_cast<uint16_t>(result | (raw >> 16 & 0x8000));
  }
}

float fusion::f8e8m0ToFloat(uint8_t bits) {
  if (bits == 255)
    return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

uint8_t fusion::floatToF8e8m0(float value) {
  if (std::isnan(value) || value < 0)
    return 255;
  if (std::isinf(value))
    return 254;
  if (value == 0)
    return 0;
  int exponent;
  float fraction = std::frexp(value, &exponent); // in [0.5, 1)
  int biased = exponent - 1 + 127 + (fraction > 0.5f ? 1 : 0);
  if (biased < 0)
    return 0;
  return static_cast<uint8_t>(biased > 254 ? 254 : biased);
}
