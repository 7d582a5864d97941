//===- WeightBytes.cpp - The bytes of planned constants -------------------===//
//
// Weights are read with pread into one small buffer, not mapped: what has been
// copied then costs no memory of the process.
//
//===----------------------------------------------------------------------===//

#include "WeightBytes.h"

#include "PackingSink.h"

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

kernels::PackedLayout fusion::getLayout(plan::ConstantOp constant) {
  return kernels::getPackedLayout(constant.getLayout().value_or(""));
}

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

Status WeightBytes::put(WeightRefAttr source, Type element, const char *data,
                        size_t bytes, artifact::ByteSink &sink) {
  Type stored = source.getStored();
  if (!stored || getElementTypeOrSelf(stored) == element)
    return sink.write(data, bytes);
  // A vector's memory is aligned for any element, and pieces are whole
  // elements.
  auto *values = reinterpret_cast<const float *>(data);
  narrow.resize(bytes / sizeof(float));
  (element.isBF16() ? narrowToBf16 : narrowToF16)(values, narrow.data(),
                                                  narrow.size());
  return sink.write(narrow.data(), narrow.size() * sizeof(uint16_t));
}

/// `to` [columns, rows] becomes the transpose of `from` [rows, columns].
template <typename T>
static void transpose(const char *from, char *to, size_t rows, size_t columns) {
  auto *in = reinterpret_cast<const T *>(from);
  auto *out = reinterpret_cast<T *>(to);
  constexpr size_t kTile = 32; // both sides of a tile stay in the cache
  for (size_t r0 = 0; r0 < rows; r0 += kTile)
    for (size_t c0 = 0; c0 < columns; c0 += kTile)
      for (size_t c = c0; c < std::min(columns, c0 + kTile); ++c)
        for (size_t r = r0; r < std::min(rows, r0 + kTile); ++r)
          out[c * rows + r] = in[r * columns + c];
}

/// Elements of a byte each from elements of `bits` bits, the first one `skip`
/// bits into the bytes.
static void spread(const char *from, char *to, size_t count, unsigned bits,
                   size_t skip) {
  for (size_t i = 0; i < count; ++i) {
    size_t bit = skip + i * bits;
    to[i] = char(static_cast<unsigned char>(from[bit / 8]) >> (bit % 8) &
                 ((1u << bits) - 1));
  }
}

/// The other way.
static size_t gather(char *elements, size_t count, unsigned bits) {
  for (size_t i = 0; i < count; ++i) {
    auto value = static_cast<unsigned char>(elements[i]);
    char &byte = elements[i * bits / 8];
    byte = char(i * bits % 8 ? byte | value << (i * bits % 8) : value);
  }
  return (count * bits + 7) / 8;
}

// A range of the file's columns at a time: rows of the result. Elements of less
// than a byte have one each on the way.
Status WeightBytes::copyTransposed(WeightRefAttr source, RankedTensorType type,
                                   artifact::ByteSink &sink) {
  std::string file = source.getFile().str();
  Result<int> fd = open(file);
  if (!fd)
    return fd.status();
  RankedTensorType stored = source.getFileType(type);
  size_t rows = size_t(stored.getDimSize(0)),
         columns = size_t(stored.getDimSize(1));
  unsigned bits = stored.getElementTypeBitWidth();
  size_t bytes = std::max(1u, bits / 8);
  // An even number of rows ends with a byte.
  size_t atOnce = std::min(
      std::max<size_t>(4 * kChunkBytes / (rows * bytes) / 2 * 2, 2), columns);
  std::vector<char> line;
  for (size_t first = 0; first < columns; first += atOnce) {
    size_t count = std::min(atOnce, columns - first);
    chunk.resize(rows * count * bytes);
    turned.resize(chunk.size());
    for (size_t row = 0; row < rows; ++row) {
      size_t begin = (row * columns + first) * bits;
      size_t end = begin + count * bits;
      line.resize((end + 7) / 8 - begin / 8);
      char *to = chunk.data() + row * count * bytes;
      if (Status s = readAll(*fd, file, bits < 8 ? line.data() : to,
                             line.size(), source.getOffset() + begin / 8);
          !s)
        return s;
      if (bits < 8)
        spread(line.data(), to, count, bits, begin % 8);
    }
    (bytes == 1   ? transpose<uint8_t>
     : bytes == 2 ? transpose<uint16_t>
     : bytes == 4
         ? transpose<uint32_t>
         : transpose<uint64_t>)(chunk.data(), turned.data(), rows, count);
    size_t length =
        bits < 8 ? gather(turned.data(), turned.size(), bits) : turned.size();
    if (Status s =
            put(source, type.getElementType(), turned.data(), length, sink);
        !s)
      return s;
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
    if (Status s = put(source, element, chunk.data(), bytes, sink); !s)
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
  kernels::PackedLayout layout = getLayout(constant);
  if (layout == kernels::PackedLayout::RowMajor)
    return writeRows(constant, sink);
  PackingSink packing(layout, cast<RankedTensorType>(constant.getTensor()),
                      sink);
  Status status = writeRows(constant, packing);
  return status ? packing.finish() : status;
}

Status WeightBytes::writeRows(plan::ConstantOp constant,
                              artifact::ByteSink &sink) {
  if (auto source = dyn_cast_or_null<WeightRefAttr>(constant.getValueAttr()))
    return isa_and_nonnull<RankedTensorType>(source.getStored())
               ? copyTransposed(
                     source, cast<RankedTensorType>(constant.getTensor()), sink)
               : copyFile(source, elementType(constant.getTensor()), sink);
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
  if (Status s = writeRows(constant, sink); !s)
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
