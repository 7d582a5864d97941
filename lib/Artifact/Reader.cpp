//===- Reader.cpp - Maps a .fusion file -----------------------------------===//
//
// The header is checked first, field by field, so that nothing is read outside
// the file; then the table, then the chunks; the model is decoded last, from
// bytes that are known to be what the writer wrote.
//
//===----------------------------------------------------------------------===//

#include "fusion/Artifact/Reader.h"

#include "Format.h"
#include "fusion/Artifact/Encoding.h"
#include "fusion/Artifact/HostABI.h"
#include "fusion/Support/Hash.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace fusion;
using namespace fusion::artifact;

Result<std::unique_ptr<Artifact>> Artifact::open(const std::string &path,
                                                 unsigned threads,
                                                 Verification verification) {
  std::unique_ptr<Artifact> artifact(new Artifact(path));
  if (Status s = artifact->map(); !s)
    return s;
  if (Status s = artifact->readHeader(); !s)
    return s;
  if (Status s = artifact->verify(threads, verification); !s)
    return s;
  if (Status s = artifact->decode(); !s)
    return s;
  return artifact;
}

Artifact::~Artifact() {
  if (data)
    munmap(const_cast<uint8_t *>(data), size);
  if (fd >= 0)
    close(fd);
}

Status Artifact::bad(const std::string &why) const {
  return Status(StatusCode::BadArtifact, "'" + thePath + "': " + why);
}

Status Artifact::map() {
  fd = ::open(thePath.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0)
    return Status(StatusCode::InvalidInput,
                  "cannot open '" + thePath + "': " + strerror(errno));
  if (!S_ISREG(info.st_mode))
    return bad("not a fusion artifact: it is no regular file");
  size = static_cast<uint64_t>(info.st_size);
  if (size == 0)
    return bad("not a fusion artifact, or truncated: the file is empty");
  void *p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED)
    return Status(StatusCode::Failed,
                  "cannot map '" + thePath + "': " + strerror(errno));
  data = static_cast<const uint8_t *>(p);
  return {};
}

/// Whether [offset, offset + bytes) lies in [kHeaderBytes, end).
static bool inside(const Section &s, uint64_t end) {
  return s.offset >= kHeaderBytes && s.offset <= end &&
         s.bytes <= end - s.offset;
}

Status Artifact::readHeader() {
  if (memcmp(data, kMagic, std::min<uint64_t>(size, sizeof kMagic)) != 0)
    return bad("not a fusion artifact");
  if (size < kHeaderBytes)
    return bad("truncated: the file ends within its header");
  Header header;
  memcpy(&header, data, sizeof header);
  if (header.version != kFormatVersion)
    return bad("format version " + std::to_string(header.version) +
               ", this runtime reads version " +
               std::to_string(kFormatVersion) + "; compile the model again");
  if (header.checksum != xxh64(&header, offsetof(Header, checksum)))
    return bad("the header does not match its checksum; the file is corrupt");
  if (header.hostAbi != kHostAbiVersion)
    return bad("host kernel interface version " +
               std::to_string(header.hostAbi) + ", this runtime has version " +
               std::to_string(kHostAbiVersion) + "; compile the model again");
  if (size < header.totalBytes)
    return bad("truncated: " + std::to_string(size) + " of " +
               std::to_string(header.totalBytes) + " bytes");
  if (size > header.totalBytes)
    return bad("corrupt: bytes follow the end of the artifact");
  uint64_t end = header.tableOffset;
  bool right = header.chunkBytes == kChunkBytes && end >= kHeaderBytes &&
               end <= size && (size - end) % sizeof(uint64_t) == 0 &&
               header.tableCount == (size - end) / sizeof(uint64_t) &&
               header.tableCount ==
                   (end - kHeaderBytes + kChunkBytes - 1) / kChunkBytes &&
               inside(header.model, end) && inside(header.code, end) &&
               inside(header.weights, end) &&
               header.code.offset % kPageBytes == 0 &&
               header.weights.offset % kPageBytes == 0;
  if (!right)
    return bad("corrupt: the header contradicts itself");
  if (header.tableChecksum != xxh64(data + end, size - end))
    return bad("the checksum table does not match its checksum; the file is "
               "corrupt");
  codeOffset = header.code.offset;
  weightOffset = header.weights.offset;
  weightBytes = header.weights.bytes;
  tableOffset = header.tableOffset;
  return {};
}

uint64_t Artifact::chunkCount() const {
  return (tableOffset - kHeaderBytes + kChunkBytes - 1) / kChunkBytes;
}

Artifact::Chunk Artifact::chunk(uint64_t index) const {
  uint64_t begin = kHeaderBytes + index * kChunkBytes;
  return {begin, std::min(kChunkBytes, tableOffset - begin)};
}

Status Artifact::checkChunk(uint64_t index, const uint8_t *bytes) const {
  return checkChunkHash(index, xxh64(bytes, chunk(index).bytes));
}

Status Artifact::checkChunkHash(uint64_t index, uint64_t hash) const {
  Chunk c = chunk(index);
  uint64_t expected;
  memcpy(&expected, data + tableOffset + index * sizeof expected,
         sizeof expected);
  if (hash == expected)
    return {};
  return bad("the bytes from " + std::to_string(c.offset) + " to " +
             std::to_string(c.offset + c.bytes) +
             " do not match their checksum; the file is corrupt");
}

Status Artifact::verify(unsigned threads, Verification verification) {
  const uint64_t count = chunkCount();
  std::atomic<uint64_t> next{0}, wrong{UINT64_MAX};
  auto isWeights = [&](const Chunk &c) {
    return c.offset >= weightOffset &&
           c.offset + c.bytes <= weightOffset + weightBytes;
  };
  auto work = [&] {
    for (uint64_t i; (i = next.fetch_add(1)) < count;) {
      Chunk c = chunk(i);
      if (verification == Verification::AllButWeights && isWeights(c))
        continue;
#ifdef MADV_POPULATE_READ
      // One call instead of a fault every 64 KiB; older kernels refuse it.
      uint64_t page = c.offset / kPageBytes * kPageBytes;
      madvise(const_cast<uint8_t *>(data) + page, c.offset + c.bytes - page,
              MADV_POPULATE_READ);
#endif
      if (!checkChunk(i, data + c.offset))
        wrong = i;
    }
  };
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (uint64_t t = 1; t < std::min<uint64_t>(threads, count); ++t)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  return wrong == UINT64_MAX ? Status()
                             : checkChunk(wrong, data + chunk(wrong).offset);
}

Status Artifact::decode() {
  Header header;
  memcpy(&header, data, sizeof header);
  std::string_view bytes(
      reinterpret_cast<const char *>(data + header.model.offset),
      header.model.bytes);
  auto decoded = decodeModel(bytes, header.code.bytes, header.weights.bytes);
  if (!decoded)
    return bad(decoded.status().message());
  theModel = std::move(*decoded);
  return {};
}

const uint8_t *Artifact::weight(uint32_t index) const {
  return data + weightOffset + theModel.weights[index].offset;
}

const uint8_t *Artifact::image(uint32_t index) const {
  return data + codeOffset + theModel.images[index].offset;
}

uint64_t Artifact::imageFileOffset(uint32_t index) const {
  return codeOffset + theModel.images[index].offset;
}
