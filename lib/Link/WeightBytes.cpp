//===- WeightBytes.cpp - The bytes of planned constants -------------------===//
//
// Weights are read with pread into one small buffer, not mapped: what has been
// copied then costs no memory of the process.
//
//===----------------------------------------------------------------------===//

#include "WeightBytes.h"

#include "fusion/Eval/Eval.h"
#include "fusion/Support/FloatTypes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace mlir;
using namespace fusion;

static constexpr size_t kChunkBytes = 4 << 20;

namespace {
/// Collects in memory what a weight would write.
class StringSink final : public artifact::ByteSink {
public:
  Status write(const void *data, size_t bytes) override {
    text.append(static_cast<const char *>(data), bytes);
    return {};
  }
  std::string text;
};
} // namespace

WeightBytes::~WeightBytes() {
  for (auto &entry : files)
    ::close(entry.second);
}

static Status fileError(const std::string &file, const char *what) {
  return Status(StatusCode::InvalidInput,
                "weight file '" + file + "': " + what);
}

Result<int> WeightBytes::open(const std::string &file) {
  auto [it, inserted] = files.try_emplace(file, -1);
  if (inserted) {
    int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      files.erase(file);
      return fileError(file, strerror(errno));
    }
    it->second = fd;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  return it->second;
}

/// Reads exactly `bytes` bytes.
static Status readAll(int fd, const std::string &file, char *data, size_t bytes,
                      uint64_t offset) {
  while (bytes > 0) {
    ssize_t n = pread(fd, data, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fileError(file, strerror(errno));
    if (n == 0)
      return fileError(file, "ends before the weights that it should hold; it "
                             "changed while the model was compiled");
    data += n;
    bytes -= static_cast<size_t>(n);
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status WeightBytes::copyFile(WeightRefAttr source, Type element,
                             artifact::ByteSink &sink) {
  std::string file = source.getFile().str();
  Result<int> fd = open(file);
  if (!fd)
    return fd.status();
  chunk.resize(kChunkBytes);
  uint64_t offset = source.getOffset(), left = source.getLength();
  while (left > 0) {
    size_t bytes = std::min<uint64_t>(left, chunk.size());
    if (Status s = readAll(*fd, file, chunk.data(), bytes, offset); !s)
      return s;
    const char *data = chunk.data();
    size_t written = bytes;
    if (source.getStored()) {
      // A vector's memory is aligned for any element, and the chunk's size is
      // a multiple of one.
      auto *values = reinterpret_cast<const float *>(chunk.data());
      narrow.resize(bytes / sizeof(float));
      (element.isBF16() ? narrowToBf16 : narrowToF16)(values, narrow.data(),
                                                      narrow.size());
      data = reinterpret_cast<const char *>(narrow.data());
      written = narrow.size() * sizeof(uint16_t);
    }
    if (Status s = sink.write(data, written); !s)
      return s;
    offset += bytes;
    left -= bytes;
  }
  return {};
}

/// Row-major elements, sub-byte ones packed low bits first, i1 as bytes.
static std::string packElements(DenseElementsAttr elements) {
  Type element = elements.getElementType();
  unsigned bits = elementBits(element);
  uint64_t count = static_cast<uint64_t>(elements.getNumElements());
  std::string bytes((count * bits + 7) / 8, '\0');
  auto put = [&](uint64_t index, const llvm::APInt &value) {
    uint64_t raw = value.getZExtValue();
    if (bits < 8)
      bytes[index * bits / 8] |=
          static_cast<char>(raw << (index * bits % 8) & 0xff);
    else
      memcpy(&bytes[index * (bits / 8)], &raw, bits / 8);
  };
  uint64_t index = 0;
  if (isa<FloatType>(element))
    for (const llvm::APFloat &value : elements.getValues<llvm::APFloat>())
      put(index++, value.bitcastToAPInt());
  else
    for (const llvm::APInt &value : elements.getValues<llvm::APInt>())
      put(index++, value);
  return bytes;
}

Status WeightBytes::write(plan::ConstantOp constant, artifact::ByteSink &sink) {
  if (auto source = dyn_cast_or_null<WeightRefAttr>(constant.getValueAttr()))
    return copyFile(source, elementType(constant.getTensor()), sink);
  Result<std::string> bytes =
      constant.getKernelAttr()
          ? evaluate(constant)
          : Result<std::string>(
                packElements(cast<DenseElementsAttr>(constant.getValueAttr())));
  if (!bytes)
    return bytes.status();
  return sink.write(bytes->data(), bytes->size());
}

Result<std::string> WeightBytes::read(plan::ConstantOp constant) {
  StringSink sink;
  if (Status s = write(constant, sink); !s)
    return s;
  return std::move(sink.text);
}

Result<std::string> WeightBytes::evaluate(plan::ConstantOp constant) {
  auto kernel = symbols.lookup<KernelOp>(constant.getKernelAttr().getAttr());
  eval::Evaluator evaluator;
  auto failed = [&](const std::string &why) {
    return Status(StatusCode::Failed, "cannot evaluate the constant '" +
                                          constant.getName().str() +
                                          "': " + why);
  };
  for (auto [argument, source] :
       llvm::zip(kernel.getBlock()->getArguments(),
                 constant.getSources()->getAsRange<FlatSymbolRefAttr>())) {
    auto input = symbols.lookup<plan::ConstantOp>(source.getAttr());
    Result<std::string> bytes = read(input);
    if (!bytes)
      return bytes.status();
    auto tensor = eval::Tensor::fromBytes(
        cast<RankedTensorType>(argument.getType()), *bytes);
    if (!tensor)
      return failed("element type of '" + input.getName().str() +
                    "' is not supported");
    evaluator.bind(argument, std::move(*tensor));
  }
  auto value = evaluator.evaluate(
      kernel.getYield()
          .getValues()[static_cast<size_t>(*constant.getResult())]);
  if (mlir::failed(value))
    return failed(evaluator.getError());
  return value->toBytes();
}
