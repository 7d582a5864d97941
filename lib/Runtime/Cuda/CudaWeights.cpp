//===- CudaWeights.cpp - The weights on the card --------------------------===//
//
// Several threads read chunks of the file into pinned memory, piece by piece,
// check them there and copy them to the card; each has several pieces under
// way. A piece is small enough to be in the processor's cache still when it is
// checked and copied, and large enough for the bus. Loading takes as long as
// the slowest of disk, memory and bus.
//
//===----------------------------------------------------------------------===//

#include "CudaWeights.h"

#include "fusion/Support/Hash.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <unistd.h>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

static constexpr unsigned kMostThreads = 16;
static constexpr uint64_t kPieceBytes = 1 << 20;
static constexpr unsigned kPieces = 4; ///< of a thread

namespace {

class WeightCopier {
public:
  WeightCopier(const CudaDevice &device, const Artifact &artifact, Address to)
      : device(device), artifact(artifact), to(to),
        section(artifact.weights()) {}

  Status run() {
    firstChunk = findChunk(section.offset);
    lastChunk = findChunk(section.offset + section.bytes - 1);
    next = firstChunk;
    uint64_t chunks = lastChunk - firstChunk + 1;
    unsigned count =
        std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
    count = static_cast<unsigned>(std::min<uint64_t>(count, chunks));
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < count; ++t)
      threads.emplace_back([this] { work(); });
    work();
    for (std::thread &thread : threads)
      thread.join();
    return failure;
  }

private:
  /// A thread's stream and its pieces of pinned memory.
  struct Lane {
    explicit Lane(const CudaDevice &device) : device(device), staging(device) {}
    ~Lane() {
      const Driver &driver = device.driver();
      for (Event event : copied)
        if (event)
          (void)driver.eventDestroy(event);
      if (stream)
        (void)driver.streamDestroy(stream);
    }
    Status make() {
      const Driver &driver = device.driver();
      Code code = driver.streamCreate(&stream, kStreamNonBlocking);
      for (Event &event : copied)
        if (code == Code::Success)
          code = driver.eventCreate(&event, kEventDisableTiming);
      if (Status s = driver.check(code, "making a stream"); !s)
        return s;
      return staging.reserve(kPieces * kPieceBytes, "staging");
    }
    const CudaDevice &device;
    Stream stream = nullptr;
    PinnedBuffer staging;
    Event copied[kPieces] = {};
    unsigned turn = 0;
    bool full = false; ///< every piece has been used
  };

  uint64_t findChunk(uint64_t offset) const {
    Artifact::Chunk first = artifact.chunk(0);
    return (offset - first.offset) / std::max<uint64_t>(first.bytes, 1);
  }

  void work() {
    ContextScope scope(device);
    Lane lane(device);
    Status status = lane.make();
    for (uint64_t i; status && (i = next.fetch_add(1)) <= lastChunk;)
      status = copyChunk(lane, i);
    if (lane.stream) {
      Code code = device.driver().streamSynchronize(lane.stream);
      if (status)
        status = device.driver().check(code, "copying the weights");
    }
    if (status)
      return;
    next = lastChunk + 1; // the others need not go on
    std::lock_guard<std::mutex> lock(mutex);
    if (failure)
      failure = status;
  }

  Status copyChunk(Lane &lane, uint64_t index) {
    Artifact::Chunk chunk = artifact.chunk(index);
    Xxh64 hash;
    for (uint64_t done = 0; done < chunk.bytes; done += kPieceBytes) {
      uint64_t bytes = std::min(kPieceBytes, chunk.bytes - done);
      uint8_t *piece = nullptr;
      if (Status s = copyPiece(lane, {chunk.offset + done, bytes}, piece); !s)
        return s;
      if (done + bytes == chunk.bytes)
        return artifact.checkChunkHash(index, hash.finish(piece, bytes));
      hash.addStripes(piece, bytes);
    }
    return {};
  }

  /// Reads these bytes of the file into a piece of the lane and has those of
  /// the weights copied.
  Status copyPiece(Lane &lane, Artifact::Chunk bytes, uint8_t *&piece) {
    const Driver &driver = device.driver();
    unsigned turn = lane.turn;
    lane.turn = (turn + 1) % kPieces;
    piece = lane.staging.data() + turn * kPieceBytes;
    Code code = Code::Success;
    if (lane.full)
      code = driver.eventSynchronize(lane.copied[turn]);
    lane.full |= lane.turn == 0;
    if (Status s = driver.check(code, "copying the weights"); !s)
      return s;
    if (Status s = read(bytes, piece); !s)
      return s;
    uint64_t begin = std::max(bytes.offset, section.offset);
    uint64_t end =
        std::min(bytes.offset + bytes.bytes, section.offset + section.bytes);
    if (begin < end)
      code = driver.copyToDevice(to + (begin - section.offset),
                                 piece + (begin - bytes.offset), end - begin,
                                 lane.stream);
    if (code == Code::Success)
      code = driver.eventRecord(lane.copied[turn], lane.stream);
    return driver.check(code, "copying the weights");
  }

  Status read(Artifact::Chunk bytes, uint8_t *out) const {
    for (uint64_t done = 0; done < bytes.bytes;) {
      ssize_t n = pread(artifact.descriptor(), out + done, bytes.bytes - done,
                        static_cast<off_t>(bytes.offset + done));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return Status(StatusCode::BadArtifact,
                      "cannot read '" + artifact.path() + "': " +
                          (n < 0 ? strerror(errno)
                                 : "it was truncated while it was open"));
      done += static_cast<uint64_t>(n);
    }
    return {};
  }

  const CudaDevice &device;
  const Artifact &artifact;
  const Address to;
  const Artifact::Chunk section;
  uint64_t firstChunk = 0, lastChunk = 0;
  std::atomic<uint64_t> next{0};
  std::mutex mutex; ///< of `failure`
  Status failure;
};

} // namespace

Result<std::unique_ptr<CudaWeights>>
CudaWeights::load(const CudaDevice &device, const Artifact &artifact) {
  std::unique_ptr<CudaWeights> weights(new CudaWeights(device));
  uint64_t bytes = artifact.weights().bytes;
  if (Status s = weights->memory.reserve(bytes, "the weights"); !s)
    return s;
  for (const Weight &w : artifact.model().weights)
    weights->theRegions.push_back(
        {weights->memory.address() + w.offset, w.bytes});
  if (bytes > 0)
    if (Status s =
            WeightCopier(device, artifact, weights->memory.address()).run();
        !s)
      return s;
  return weights;
}
