//===- Hash.h - XXH64 -------------------------------------------*- C++ -*-===//
//
// The 64-bit xxHash: the checksum of artifacts and a stable content hash. Any
// change of one 8-byte word changes the result; about 9 GB/s a core.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SUPPORT_HASH_H
#define FUSION_SUPPORT_HASH_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fusion {

uint64_t xxh64(const void *data, size_t size, uint64_t seed = 0);

inline uint64_t xxh64(std::string_view text, uint64_t seed = 0) {
  return xxh64(text.data(), text.size(), seed);
}

/// The same of bytes that come piece by piece.
class Xxh64 {
public:
  explicit Xxh64(uint64_t seed = 0);
  /// Of a multiple of 32 bytes.
  void addStripes(const void *data, size_t size);
  /// The hash, with the last bytes of any number.
  uint64_t finish(const void *data, size_t size);

private:
  uint64_t seed, lanes[4], total = 0;
};

} // namespace fusion

#endif // FUSION_SUPPORT_HASH_H
