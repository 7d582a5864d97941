//===- LowBitTest.cpp - The packed layouts of quantised weights -----------===//

#include "fusion/Kernels/LowBit.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>
#include <set>

using namespace fusion::kernels;
using namespace mlir;

namespace {

// As the fragments are described: by lane and register.
TEST(LowBit, PlacesOfCodes) {
  for (unsigned bits : {4u, 8u}) {
    int64_t k = 200, width = bits == 4 ? 64 : 32;
    int64_t units = (k + width - 1) / width;
    std::set<std::pair<int64_t, unsigned>> seen;
    for (int64_t strip = 0; strip < 2; ++strip)
      for (int64_t unit = 0; unit < units; ++unit)
        for (int64_t lane = 0; lane < 32; ++lane)
          for (int64_t step = 0; step < width / 16; ++step)
            for (int64_t j = 0; j < 4; ++j)
              for (int64_t e = 0; e < 2; ++e) {
                int64_t row = 16 * strip + lane / 4 + 8 * (j & 1);
                int64_t column = width * unit + 16 * step + 2 * (lane % 4) +
                                 8 * (j >> 1) + e;
                int64_t byte = (strip * units + unit) * 512 + lane * 16;
                int64_t word = bits == 4 ? step : 2 * step + (j >> 1);
                CodePlace place = getCodePlace(row, column, k, bits);
                EXPECT_EQ(byte / 2 + 2 * word + e, place.half);
                EXPECT_EQ(bits == 4 ? j : j & 1, place.slot);
                seen.insert({place.half, place.slot});
              }
    EXPECT_EQ(size_t(2 * units * 512 * 8 / bits), seen.size());
    EXPECT_EQ(2 * units * 512, fragmentBytes(17, k, bits));
  }
}

TEST(LowBit, CodesComeBack) {
  MLIRContext context;
  Type types[] = {IntegerType::get(&context, 4),
                  IntegerType::get(&context, 4, IntegerType::Unsigned),
                  IntegerType::get(&context, 8),
                  IntegerType::get(&context, 8, IntegerType::Unsigned),
                  Float4E2M1FNType::get(&context),
                  Float8E4M3FNType::get(&context),
                  Float8E5M2Type::get(&context)};
  for (Type type : types) {
    unsigned bits = codeBits(type), flip = getCodeFlip(type);
    unsigned taken = 0;
    for (unsigned slot = 0; slot < 16 / bits; ++slot) {
      unsigned all = 0;
      for (unsigned code = 0; code < 1u << bits; ++code) {
        uint16_t half = placeCode(type, slot, code);
        EXPECT_EQ(code, takeCode(type, slot, half));
        all |= half;
      }
      EXPECT_EQ(0, placeCode(type, slot, flip));
      EXPECT_EQ(0u, taken & all) << "slots overlap";
      taken |= all;
    }
    EXPECT_EQ(0xffffu, taken);
  }
}

TEST(LowBit, PlacesOfScales) {
  for (int64_t row = 0; row < 40; ++row)
    for (int64_t group = 0; group < 3; ++group) {
      int64_t lane = row % 8, upper = row % 16 / 8;
      EXPECT_EQ(row / 16 * 48 + group * 16 + lane * 2 + upper,
                getStripPlace(row, group, 3));
    }
}

} // namespace
