//===- Hash.cpp - XXH64 ---------------------------------------------------===//
//
// Written from the algorithm's published description
// (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/Hash.h"

#include <cstring>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "words are read in the machine's order");

using fusion::Xxh64;

namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                   kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                   kPrime5 = 0x27D4EB2F165667C5;

inline uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

template <typename T>
inline T read(const unsigned char *p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

inline uint64_t round(uint64_t lane, uint64_t word) {
  return rotate(lane + word * kPrime2, 31) * kPrime1;
}

inline uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

} // namespace

Xxh64::Xxh64(uint64_t seed)
    : seed(seed),
      lanes{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Xxh64::addStripes(const void *data, size_t size) {
  const auto *p = static_cast<const unsigned char *>(data), *end = p + size;
  auto [a, b, c, d] = lanes;
  for (; p < end; p += 32) {
    a = round(a, read<uint64_t>(p));
    b = round(b, read<uint64_t>(p + 8));
    c = round(c, read<uint64_t>(p + 16));
    d = round(d, read<uint64_t>(p + 24));
  }
  lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
  total += size;
}

uint64_t Xxh64::finish(const void *data, size_t size) {
  const auto *p = static_cast<const unsigned char *>(data), *end = p + size;
  addStripes(p, size / 32 * 32);
  p += size / 32 * 32;
  total += size % 32;
  uint64_t hash = seed + kPrime5;
  if (total >= 32) {
    hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) +
           rotate(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = merge(hash, lane);
  }
  hash += total;
  for (; end - p >= 8; p += 8)
    hash = rotate(hash ^ round(0, read<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  if (end - p >= 4) {
    hash ^= read<uint32_t>(p) * kPrime1;
    hash = rotate(hash, 23) * kPrime2 + kPrime3;
    p += 4;
  }
  for (; p < end; ++p)
    hash = rotate(hash ^ *p * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

uint64_t fusion::xxh64(const void *data, size_t size, uint64_t seed) {
  return Xxh64(seed).finish(data, size);
}
