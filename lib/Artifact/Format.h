//===- Format.h - Layout of a .fusion file ----------------------*- C++ -*-===//
//
// A header page, the model, the code (4096-aligned), the weights, and a table
// with one checksum for each 4 MiB of what lies between header and table. The
// header holds the table's checksum and its own, so every byte of the file,
// padding included, is under a checksum. All numbers are little-endian.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_ARTIFACT_FORMAT_H
#define FUSION_LIB_ARTIFACT_FORMAT_H

#include <cstddef>
#include <cstdint>

namespace fusion::artifact {

constexpr unsigned char kMagic[8] = {0xF5, 'F', 'U', 'S', 'I', 'O', 'N', '\n'};
/// Changes with the layout of the file or the encoding of the model.
constexpr uint32_t kFormatVersion = 2;
constexpr uint64_t kHeaderBytes = 4096;
constexpr uint64_t kChunkBytes = 4 << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kWeightAlign = 64;

struct Section {
  uint64_t offset, bytes;
};

struct Header {
  unsigned char magic[8];
  uint32_t version;
  uint32_t hostAbi; ///< kHostAbiVersion of the host images
  uint64_t totalBytes;
  uint64_t chunkBytes;
  uint64_t tableOffset, tableCount;
  uint64_t tableChecksum;
  Section model, code, weights;
  unsigned char zeros[kHeaderBytes - 56 - 3 * sizeof(Section) - 8];
  uint64_t checksum; ///< of the header's bytes before this field
};
static_assert(sizeof(Header) == kHeaderBytes &&
                  offsetof(Header, checksum) == kHeaderBytes - 8,
              "the header is one page");

inline uint64_t alignTo(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace fusion::artifact

#endif // FUSION_LIB_ARTIFACT_FORMAT_H
