//===- HashTest.cpp - XXH64 -----------------------------------------------===//
//
// Expected values were printed by the xxhash package of PyPI.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/Hash.h"

#include <gtest/gtest.h>
#include <vector>

using namespace fusion;

namespace {

struct Known {
  size_t size;
  uint64_t seed0, seed1;
};

const Known kKnown[] = {
    {0, 0xef46db3751d8e999, 0xac75fda2929b17ef},
    {1, 0xa96c7f0ce858bbb7, 0x84e535b36672440d},
    {3, 0xbed43740ee6332bb, 0xb77b485431ce5d},
    {4, 0xfa212ae44b3bb23d, 0x60492c4bfcb70cac},
    {7, 0x2744460dd675d2c0, 0xcdf83b729545b016},
    {8, 0x994b676b71ce94dd, 0xf424edebfea8d23f},
    {12, 0xb92f588ce720786e, 0xddd89bdbf8aa26e0},
    {31, 0x6711d55e306b5d8f, 0xfa1259cc8b20eb58},
    {32, 0x7f7b8e3bc5d6e25, 0x920f3e10a5db09c6},
    {33, 0x9f85eeb4e1cbe9f, 0x3d805e8712cb4890},
    {63, 0xb7c9968c066cb6a5, 0x184bc5097530bb9a},
    {64, 0x50d4159a0411632e, 0x94667e10d68b3991},
    {100, 0x9ddada11d3dc2d8f, 0x5766be6782b96389},
    {4096, 0xcf05adf75aca30cf, 0xae8ec14876f9602e},
};

TEST(Hash, KnownValues) {
  std::vector<uint8_t> data(4096);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<uint8_t>(i * 131 + 7);
  for (const Known &k : kKnown) {
    EXPECT_EQ(k.seed0, xxh64(data.data(), k.size)) << k.size;
    EXPECT_EQ(k.seed1, xxh64(data.data(), k.size, 0x9e3779b1)) << k.size;
  }
}

TEST(Hash, PieceByPiece) {
  std::vector<uint8_t> data(4096 + 13);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<uint8_t>(i * 131 + 7);
  for (size_t whole : {0, 32, 64, 2048, 4096})
    for (size_t rest : {0, 1, 12, 13}) {
      Xxh64 hash;
      for (size_t at = 0; at < whole; at += 32)
        hash.addStripes(data.data() + at, 32);
      EXPECT_EQ(hash.finish(data.data() + whole, rest),
                xxh64(data.data(), whole + rest))
          << whole << " + " << rest;
    }
}

} // namespace
