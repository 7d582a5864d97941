//===- FloatTypesTest.cpp - Narrow floating point formats -----------------===//
//
// Expected patterns were printed by numpy with ml_dtypes; the exhaustive
// tests compare with the definition of rounding instead.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/FloatTypes.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace fusion;

namespace {

struct Pattern {
  float value;
  unsigned bf16, f16, f8e4m3fn, f8e5m2, f4e2m1;
};

const Pattern kPatterns[] = {
    // value, bf16, f16, f8e4m3fn, f8e5m2, f4e2m1
    {1.0f, 0x3f80, 0x3c00, 0x38, 0x3c, 0x2},
    {0.10000000149011612f, 0x3dcd, 0x2e66, 0x1d, 0x2e, 0x0},
    {-2.5f, 0xc020, 0xc100, 0xc2, 0xc1, 0xc},
    {3.1415927410125732f, 0x4049, 0x4248, 0x45, 0x42, 0x5},
    {65504.0f, 0x4780, 0x7bff, 0x7f, 0x7c, 0x7},
    {65519.8984375f, 0x4780, 0x7bff, 0x7f, 0x7c, 0x7},
    {65520.0f, 0x4780, 0x7c00, 0x7f, 0x7c, 0x7},
    {9.99999993922529e-09f, 0x322c, 0x0, 0x0, 0x0, 0x0},
    {5.99999978589949e-08f, 0x3381, 0x1, 0x0, 0x0, 0x0},
    {5.960464477539063e-08f, 0x3380, 0x1, 0x0, 0x0, 0x0},
    {2.9802322387695312e-08f, 0x3300, 0x0, 0x0, 0x0, 0x0},
    {3.010034532735517e-08f, 0x3301, 0x1, 0x0, 0x0, 0x0},
    {448.0f, 0x43e0, 0x5f00, 0x7e, 0x5f, 0x7},
    {464.0f, 0x43e8, 0x5f40, 0x7e, 0x5f, 0x7},
    {465.0f, 0x43e8, 0x5f44, 0x7f, 0x5f, 0x7},
    {240.0f, 0x4370, 0x5b80, 0x77, 0x5c, 0x7},
    {57344.0f, 0x4760, 0x7b00, 0x7f, 0x7b, 0x7},
    {61440.0f, 0x4770, 0x7b80, 0x7f, 0x7c, 0x7},
    {0.001953125f, 0x3b00, 0x1800, 0x1, 0x18, 0x0},
    {0.0009765625f, 0x3a80, 0x1400, 0x0, 0x14, 0x0},
    {0.0010000000474974513f, 0x3a83, 0x1419, 0x1, 0x14, 0x0},
    {0.25f, 0x3e80, 0x3400, 0x28, 0x34, 0x0},
    {0.75f, 0x3f40, 0x3a00, 0x34, 0x3a, 0x2},
    {1.25f, 0x3fa0, 0x3d00, 0x3a, 0x3d, 0x2},
    {1.75f, 0x3fe0, 0x3f00, 0x3e, 0x3f, 0x4},
    {2.5f, 0x4020, 0x4100, 0x42, 0x41, 0x4},
    {3.5f, 0x4060, 0x4300, 0x46, 0x43, 0x6},
    {5.0f, 0x40a0, 0x4500, 0x4a, 0x45, 0x6},
    {7.0f, 0x40e0, 0x4700, 0x4e, 0x47, 0x7},
    {-0.20000000298023224f, 0xbe4d, 0xb266, 0xa5, 0xb2, 0x8},
    {1.0000000150474662e+30f, 0x714a, 0x7c00, 0x7f, 0x7c, 0x7},
    {3.4028234663852886e+38f, 0x7f80, 0x7c00, 0x7f, 0x7c, 0x7},
    {9.99994610111476e-41f, 0x1, 0x0, 0x0, 0x0, 0x0},
};

TEST(FloatTypes, PatternsOfMlDtypes) {
  for (const Pattern &p : kPatterns) {
    EXPECT_EQ(p.bf16, floatToBf16(p.value)) << p.value;
    EXPECT_EQ(p.bf16, encodeFloat(kBF16, p.value)) << p.value;
    EXPECT_EQ(p.f16, floatToF16(p.value)) << p.value;
    EXPECT_EQ(p.f8e4m3fn, encodeFloat(kF8E4M3FN, p.value)) << p.value;
    EXPECT_EQ(p.f8e5m2, encodeFloat(kF8E5M2, p.value)) << p.value;
    EXPECT_EQ(p.f4e2m1, encodeFloat(kF4E2M1, p.value)) << p.value;
  }
}

TEST(FloatTypes, KnownValues) {
  EXPECT_EQ(1.0f, f16ToFloat(0x3c00));
  EXPECT_EQ(-65504.0f, f16ToFloat(0xfbff));
  EXPECT_EQ(std::ldexp(1.0f, -24), f16ToFloat(1));
  EXPECT_EQ(448.0f, decodeFloat(kF8E4M3FN, 0x7e));
  EXPECT_TRUE(std::isnan(decodeFloat(kF8E4M3FN, 0x7f)));
  EXPECT_EQ(57344.0f, decodeFloat(kF8E5M2, 0x7b));
  EXPECT_TRUE(std::isinf(decodeFloat(kF8E5M2, 0x7c)));
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(fp4[i], decodeFloat(kF4E2M1, i));
    EXPECT_EQ(-fp4[i], decodeFloat(kF4E2M1, i | 8));
  }
}

TEST(FloatTypes, SpecialValues) {
  float inf = INFINITY, nan = NAN;
  EXPECT_EQ(0x7f80, floatToBf16(inf));
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(nan))));
  // A NaN whose set bits lie below bfloat16's mantissa must not become inf.
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(bitsToFloat(0x7f800001)))));
  EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(bitsToFloat(0xff800001)))));
  EXPECT_EQ(0xfc00, floatToF16(-inf));
  EXPECT_EQ(0x7f, encodeFloat(kF8E4M3FN, inf));
  EXPECT_EQ(0x7e, encodeFloat(kF8E4M3FN, inf, Overflow::Saturate));
  EXPECT_EQ(0xfe, encodeFloat(kF8E4M3FN, -1e9f, Overflow::Saturate));
  EXPECT_EQ(0x7b, encodeFloat(kF8E5M2, 1e9f, Overflow::Saturate));
  EXPECT_EQ(0x8000, floatToF16(-0.0f));
}

/// Formats whose negative zero is NaN; patterns of ml_dtypes.
TEST(FloatTypes, NegativeZeroIsNan) {
  for (const FloatFormat &format : {kF8E4M3FNUZ, kF8E5M2FNUZ}) {
    EXPECT_TRUE(std::isnan(decodeFloat(format, 0x80)));
    EXPECT_EQ(0x80, encodeFloat(format, -NAN));
    EXPECT_EQ(0, encodeFloat(format, -0.0f));
    EXPECT_EQ(0, encodeFloat(format, -1e-9f));
    EXPECT_EQ(0x80, encodeFloat(format, -INFINITY));
    EXPECT_EQ(0x80, encodeFloat(format, 1e9f));
    EXPECT_EQ(0x7f, encodeFloat(format, INFINITY, Overflow::Saturate));
    EXPECT_EQ(0xff, encodeFloat(format, -1e9f, Overflow::Saturate));
  }
  EXPECT_EQ(240.0f, decodeFloat(kF8E4M3FNUZ, 0x7f));
  EXPECT_EQ(57344.0f, decodeFloat(kF8E5M2FNUZ, 0x7f));
  EXPECT_EQ(0x37, encodeFloat(kF8E4M3FNUZ, 0.47892547f));
  EXPECT_EQ(0x3c, encodeFloat(kF8E5M2FNUZ, 0.47892547f));
}

/// Every code decodes and encodes to itself; between two neighbours the
/// nearest wins, and in the middle the even one.
void checkRounding(const FloatFormat &format, unsigned codes) {
  std::vector<float> values;
  for (unsigned code = 0; code < codes; ++code) {
    float v = decodeFloat(format, static_cast<uint16_t>(code));
    EXPECT_EQ(code, encodeFloat(format, v)) << code;
    values.push_back(v);
  }
  for (unsigned code = 0; code + 1 < codes; ++code) {
    EXPECT_LT(values[code], values[code + 1]);
    double middle = (double(values[code]) + values[code + 1]) / 2;
    auto exact = static_cast<float>(middle);
    if (exact != middle)
      continue; // below float's own spacing
    EXPECT_EQ(code % 2 ? code + 1 : code, encodeFloat(format, exact)) << code;
    EXPECT_EQ(code, encodeFloat(format, std::nextafter(exact, 0.0f))) << code;
    EXPECT_EQ(code + 1, encodeFloat(format, std::nextafter(exact, INFINITY)))
        << code;
  }
}

TEST(FloatTypes, RoundsToNearestEven) {
  checkRounding(kF16, 0x7c00);
  checkRounding(kBF16, 0x7f80);
  checkRounding(kF8E4M3FN, 0x7f);
  checkRounding(kF8E5M2, 0x7c);
  checkRounding(kF8E4M3FNUZ, 0x80);
  checkRounding(kF8E5M2FNUZ, 0x80);
  checkRounding(kF4E2M1, 8);
}

TEST(FloatTypes, PowersOfTwo) {
  EXPECT_EQ(1.0f, f8e8m0ToFloat(127));
  EXPECT_EQ(std::ldexp(1.0f, -127), f8e8m0ToFloat(0));
  EXPECT_TRUE(std::isnan(f8e8m0ToFloat(255)));
  for (unsigned code = 0; code < 255; ++code)
    EXPECT_EQ(code, floatToF8e8m0(f8e8m0ToFloat(static_cast<uint8_t>(code))));
  EXPECT_EQ(127, floatToF8e8m0(1.0f));
  EXPECT_EQ(128, floatToF8e8m0(1.01f));
  EXPECT_EQ(1, floatToF8e8m0(std::ldexp(1.01f, -127)));
  EXPECT_EQ(255, floatToF8e8m0(-1.0f));
  EXPECT_EQ(254, floatToF8e8m0(INFINITY));
}

void checkNarrowing(const FloatFormat &format,
                    void (*narrow)(const float *, uint16_t *, size_t)) {
  // Every sign, exponent and leading mantissa, with the rest of the mantissa
  // low, at the ties and high.
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0x0u, 0x1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u,
                         0x8001u, 0xffffu})
      values.push_back(bitsToFloat(high << 16 | low));
  std::vector<uint16_t> bits(values.size());
  narrow(values.data(), bits.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Overflow overflow =
        std::isfinite(values[i]) ? Overflow::Saturate : Overflow::Ieee;
    ASSERT_EQ(encodeFloat(format, values[i], overflow), bits[i]) << values[i];
  }
}

TEST(FloatTypes, NarrowingKeepsFiniteValuesFinite) {
  checkNarrowing(kBF16, narrowToBf16);
  checkNarrowing(kF16, narrowToF16);
}

} // namespace
