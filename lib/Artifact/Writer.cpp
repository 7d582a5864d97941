//===- Writer.cpp - Writes a .fusion file ---------------------------------===//

#include "fusion/Artifact/Writer.h"

#include "Format.h"
#include "fusion/Artifact/Encoding.h"
#include "fusion/Artifact/HostABI.h"
#include "fusion/Support/Hash.h"
#include "fusion/Support/TemporaryFile.h"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace fusion;
using namespace fusion::artifact;

namespace {

/// Everything after the header: collects chunks, hashes and writes them.
class ChunkedSink : public ByteSink {
public:
  explicit ChunkedSink(TemporaryFile &file)
      : file(file), chunk(new char[kChunkBytes]) {}

  uint64_t offset() const { return kHeaderBytes + flushed + filled; }
  const std::vector<uint64_t> &checksums() const { return sums; }

  Status write(const void *data, size_t bytes) override {
    const char *p = static_cast<const char *>(data);
    while (bytes > 0) {
      size_t n = std::min<size_t>(bytes, kChunkBytes - filled);
      memcpy(chunk.get() + filled, p, n);
      filled += n;
      p += n;
      bytes -= n;
      if (filled == kChunkBytes)
        if (Status status = flush(); !status)
          return status;
    }
    return {};
  }
  Status padTo(uint64_t alignment) {
    static const char zeros[kPageBytes] = {};
    return write(zeros, alignTo(offset(), alignment) - offset());
  }
  Status flush() {
    if (filled == 0)
      return {};
    sums.push_back(xxh64(chunk.get(), filled));
    Status status = file.writeAt(kHeaderBytes + flushed, chunk.get(), filled);
    flushed += filled;
    filled = 0;
    return status;
  }

private:
  TemporaryFile &file;
  std::unique_ptr<char[]> chunk;
  uint64_t flushed = 0;
  size_t filled = 0;
  std::vector<uint64_t> sums;
};

/// Counts what one weight writes and stops it at its declared size.
class WeightSink : public ByteSink {
public:
  WeightSink(ByteSink &sink, const Weight &weight)
      : sink(sink), weight(weight) {}

  Status write(const void *data, size_t bytes) override {
    if (bytes > weight.bytes - written)
      return mismatch();
    written += bytes;
    return sink.write(data, bytes);
  }
  Status finish() const {
    return written == weight.bytes ? Status() : mismatch();
  }

private:
  Status mismatch() const {
    return Status(StatusCode::Failed,
                  "weight '" + weight.name + "' did not write its " +
                      std::to_string(weight.bytes) + " bytes");
  }
  ByteSink &sink;
  const Weight &weight;
  uint64_t written = 0;
};

/// Chooses the offsets inside the code and weight sections; returns the sizes
/// of the sections.
std::pair<uint64_t, uint64_t>
layOut(Model &model, const std::vector<std::string_view> &images) {
  uint64_t code = 0, weights = 0;
  for (size_t i = 0; i < model.images.size(); ++i) {
    code = alignTo(code, kPageBytes);
    model.images[i].offset = code;
    model.images[i].bytes = images[i].size();
    code += images[i].size();
  }
  for (Weight &w : model.weights) {
    weights = alignTo(weights, kWeightAlign);
    w.offset = weights;
    weights += w.bytes;
  }
  return {code, weights};
}

Status writeBody(ChunkedSink &out, const Model &model,
                 const std::string &encoded,
                 const std::vector<std::string_view> &images,
                 const WeightSource &source, Header &header) {
  header.model = {out.offset(), encoded.size()};
  if (Status s = out.write(encoded.data(), encoded.size()); !s)
    return s;
  if (Status s = out.padTo(kPageBytes); !s)
    return s;
  header.code.offset = out.offset();
  for (std::string_view image : images) {
    if (Status s = out.padTo(kPageBytes); !s)
      return s;
    if (Status s = out.write(image.data(), image.size()); !s)
      return s;
  }
  header.code.bytes = out.offset() - header.code.offset;
  if (Status s = out.padTo(kPageBytes); !s)
    return s;
  header.weights.offset = out.offset();
  for (size_t i = 0; i < model.weights.size(); ++i) {
    if (Status s = out.padTo(kWeightAlign); !s)
      return s;
    WeightSink sink(out, model.weights[i]);
    if (Status s = source(i, sink); !s)
      return s;
    if (Status s = sink.finish(); !s)
      return s;
  }
  header.weights.bytes = out.offset() - header.weights.offset;
  if (Status s = out.padTo(sizeof(uint64_t)); !s)
    return s;
  header.tableOffset = out.offset();
  return out.flush();
}

Status writeTableAndHeader(TemporaryFile &file, const ChunkedSink &out,
                           Header &header) {
  const std::vector<uint64_t> &sums = out.checksums();
  uint64_t tableBytes = sums.size() * sizeof(uint64_t);
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kFormatVersion;
  header.hostAbi = kHostAbiVersion;
  header.totalBytes = header.tableOffset + tableBytes;
  header.chunkBytes = kChunkBytes;
  header.tableCount = sums.size();
  header.tableChecksum = xxh64(sums.data(), tableBytes);
  header.checksum = xxh64(&header, offsetof(Header, checksum));
  if (Status s = file.writeAt(header.tableOffset, sums.data(), tableBytes); !s)
    return s;
  return file.writeAt(0, &header, sizeof header);
}

} // namespace

Status
fusion::artifact::writeArtifact(const std::string &path, Model model,
                                const std::vector<std::string_view> &images,
                                const WeightSource &weights) {
  if (images.size() != model.images.size())
    return Status(StatusCode::Failed, "the artifact has another number of "
                                      "images than the model names");
  auto [codeBytes, weightBytes] = layOut(model, images);
  // No file is written that its reader refuses.
  std::string encoded = encodeModel(model);
  if (auto decoded = decodeModel(encoded, codeBytes, weightBytes); !decoded)
    return decoded.status();
  TemporaryFile file(path);
  if (!file.isOpen())
    return file.error("create");
  auto header = std::make_unique<Header>(); // zero-filled
  ChunkedSink out(file);
  if (Status s = writeBody(out, model, encoded, images, weights, *header); !s)
    return s;
  if (Status s = writeTableAndHeader(file, out, *header); !s)
    return s;
  return file.publish();
}
