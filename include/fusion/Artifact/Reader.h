//===- Reader.h - Maps a .fusion file ---------------------------*- C++ -*-===//
//
// Opens an artifact: maps the file, verifies every byte against its checksums
// and decodes the model. Whatever the file holds, the outcome is an Artifact
// or an error that names the file; messages contain "not a fusion artifact",
// "version", "truncated", "checksum" or "corrupt".
//
// Checksums find accidents, not attacks: an artifact holds native code and is
// to be trusted like a program.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_ARTIFACT_READER_H
#define FUSION_ARTIFACT_READER_H

#include "fusion/Artifact/Model.h"
#include "fusion/Support/Status.h"

#include <memory>

namespace fusion::artifact {

/// What open() checks against the checksums. Who leaves the weights out checks
/// their chunks while copying them.
enum class Verification { All, AllButWeights };

class Artifact {
public:
  /// `threads` verify in parallel; 0 takes one per processor.
  static Result<std::unique_ptr<Artifact>>
  open(const std::string &path, unsigned threads = 0,
       Verification verification = Verification::All);
  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  const std::string &path() const { return thePath; }
  const Model &model() const { return theModel; }

  /// Read-only bytes in the mapping, 64-aligned and page-aligned.
  const uint8_t *weight(uint32_t index) const;
  const uint8_t *image(uint32_t index) const;
  /// For mapping an image executable: the open file and where it lies.
  int descriptor() const { return fd; }
  uint64_t imageFileOffset(uint32_t index) const;

  /// Bytes of the file that have a checksum of their own.
  struct Chunk {
    uint64_t offset, bytes; ///< in the file
  };
  uint64_t chunkCount() const;
  Chunk chunk(uint64_t index) const;
  /// Whether `bytes`, a copy of the chunk, are what was written.
  Status checkChunk(uint64_t index, const uint8_t *bytes) const;
  /// Whether a copy of the chunk with this xxh64 is what was written.
  Status checkChunkHash(uint64_t index, uint64_t hash) const;
  /// The weight section in the file.
  Chunk weights() const { return {weightOffset, weightBytes}; }

private:
  explicit Artifact(std::string path) : thePath(std::move(path)) {}
  Status map();
  Status readHeader();
  Status verify(unsigned threads, Verification verification);
  Status decode();
  Status bad(const std::string &why) const;

  std::string thePath;
  int fd = -1;
  const uint8_t *data = nullptr;
  uint64_t size = 0;
  uint64_t codeOffset = 0, weightOffset = 0, weightBytes = 0;
  uint64_t tableOffset = 0;
  Model theModel;
};

} // namespace fusion::artifact

#endif // FUSION_ARTIFACT_READER_H
