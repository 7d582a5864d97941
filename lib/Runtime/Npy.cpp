//===- Npy.cpp - numpy's file format --------------------------------------===//

#include "fusion/Runtime/Npy.h"

#include "NpyHeader.h"
#include "fusion/Artifact/Encoding.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion;
using namespace fusion::artifact;

namespace {

/// How numpy spells a type. Empty for those that it has no name for.
struct Spelling {
  DType type;
  const char *descr;
};
constexpr Spelling kSpellings[] = {
    {DType::F32, "<f4"},        {DType::F64, "<f8"},
    {DType::F16, "<f2"},        {DType::I8, "|i1"},
    {DType::U8, "|u1"},         {DType::I16, "<i2"},
    {DType::U16, "<u2"},        {DType::I32, "<i4"},
    {DType::U32, "<u4"},        {DType::I64, "<i8"},
    {DType::U64, "<u8"},        {DType::Bool, "|b1"},
    {DType::BF16, "|V2"},       {DType::F8E4M3FN, "|V1"},
    {DType::F8E5M2, "|V1"},     {DType::F8E8M0, "|V1"},
    {DType::U4, "|V1"},         {DType::I4, "|V1"},
    {DType::F4E2M1, "|V1"},     {DType::U2, "|V1"},
    {DType::I2, "|V1"},         {DType::F8E4M3FNUZ, "|V1"},
    {DType::F8E5M2FNUZ, "|V1"},
};

const char *spellingOf(DType type) {
  for (const Spelling &s : kSpellings)
    if (s.type == type)
      return s.descr;
  return "";
}

/// Whether elements of `descr` hold elements of `type`. The byte order of
/// one-byte and void types has no meaning.
bool matches(std::string_view descr, DType type) {
  if (descr.size() != 3)
    return false;
  std::string_view own = spellingOf(type), kind = descr.substr(1);
  bool ordered = own[0] == '<';
  if (ordered ? descr[0] != '<' && descr[0] != '='
              : descr[0] != '|' && descr[0] != '<' && descr[0] != '=')
    return false;
  if (kind == own.substr(1))
    return true;
  // ml_dtypes calls float8_e5m2 a float of one byte, and elements of 2 and 4
  // bits are also found as small integers.
  if (kind == "f1")
    return type == DType::F8E5M2;
  bool isSigned = type == DType::I4 || type == DType::I2;
  bool isUnsigned = type == DType::U4 || type == DType::U2;
  return (isSigned && kind == "i1") || (isUnsigned && kind == "u1");
}

/// `f64 ('<f8')` where the spelling means one type, else the spelling.
std::string describe(const std::string &descr) {
  for (const Spelling &s : kSpellings)
    if (descr == s.descr && descr[1] != 'V')
      return std::string(name(s.type)) + " ('" + descr + "')";
  return "'" + descr + "'";
}

/// A file mapped for reading.
class MappedFile {
public:
  Status open(const std::string &path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      std::string why = fd < 0 ? strerror(errno) : "it is no regular file";
      if (fd >= 0)
        close(fd);
      return Status(StatusCode::InvalidInput,
                    "cannot read '" + path + "': " + why);
    }
    size = static_cast<size_t>(info.st_size);
    void *p =
        size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED) {
      size = 0;
      return Status(StatusCode::InvalidInput,
                    "cannot read '" + path + "': it is empty");
    }
    data = static_cast<const uint8_t *>(p);
    return {};
  }
  ~MappedFile() {
    if (data)
      munmap(const_cast<uint8_t *>(data), size);
  }
  const uint8_t *data = nullptr;
  size_t size = 0;
};

/// Bytes of an element in the file, where smaller elements take a whole byte.
size_t fileElementBytes(DType type) { return (bitWidth(type) + 7) / 8; }

/// Copies elements of `width` bytes from column-major to row-major order.
void fromFortran(const uint8_t *from, uint8_t *to, size_t width,
                 const std::vector<int64_t> &shape, uint64_t count) {
  std::vector<uint64_t> index(shape.size()), stride(shape.size());
  uint64_t step = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= static_cast<uint64_t>(shape[axis]);
  }
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t place = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      place += index[axis] * stride[axis];
    memcpy(to + i * width, from + place * width, width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < static_cast<uint64_t>(shape[axis]))
        break;
      index[axis] = 0;
    }
  }
}

/// Elements of `bits` bits, from a byte each to their places, in place.
void pack(std::vector<uint64_t> &storage, uint64_t count, unsigned bits) {
  auto *bytes = reinterpret_cast<uint8_t *>(storage.data());
  unsigned perByte = 8 / bits, mask = (1u << bits) - 1;
  for (uint64_t i = 0; i < count; ++i) {
    unsigned value = bytes[i] & mask, shift = i % perByte * bits;
    unsigned others = shift ? bytes[i / perByte] & ((1u << shift) - 1) : 0;
    bytes[i / perByte] = static_cast<uint8_t>(others | value << shift);
  }
}

/// The inverse of pack(), with the sign of signed integers.
std::vector<uint8_t> unpack(const uint8_t *bytes, uint64_t count, DType type) {
  unsigned bits = bitWidth(type), mask = (1u << bits) - 1;
  bool isSigned = type == DType::I4 || type == DType::I2;
  std::vector<uint8_t> elements(count);
  for (uint64_t i = 0; i < count; ++i) {
    unsigned value = bytes[i * bits / 8] >> i * bits % 8 & mask;
    bool negative = isSigned && value >> (bits - 1);
    elements[i] = static_cast<uint8_t>(negative ? value | ~mask : value);
  }
  return elements;
}

std::string headerText(DType type, const std::vector<int64_t> &shape) {
  std::string dict = std::string("{'descr': '") + spellingOf(type) +
                     "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : shape)
    dict += std::to_string(dim) + ", ";
  if (shape.size() > 1)
    dict.resize(dict.size() - 2);
  dict += "), }";
  if (shape.size() == 1)
    dict.replace(dict.rfind(", )"), 3, ",)");
  size_t total = (10 + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - 10 - dict.size() - 1, ' ');
  dict += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dict.size() & 255);
  text += static_cast<char>(dict.size() >> 8);
  return text + dict;
}

} // namespace

Result<NpyTensor> fusion::readNpy(const std::string &path, DType type) {
  MappedFile file;
  if (Status s = file.open(path); !s)
    return s;
  auto bad = [&](const std::string &why) {
    return Status(StatusCode::InvalidInput, "'" + path + "': " + why);
  };
  auto header =
      parseNpyHeader({reinterpret_cast<const char *>(file.data), file.size});
  if (!header)
    return bad(header.status().message());
  if (!matches(header->descr, type))
    return bad("expected elements of type " + std::string(name(type)) + " ('" +
               spellingOf(type) + "'), found " + describe(header->descr));
  auto count = elementCount(header->shape);
  size_t width = fileElementBytes(type);
  size_t rest = file.size - header->dataOffset;
  if (!count || *count > rest / width)
    return bad("it is truncated: the shape needs more bytes than it has");
  if (rest > *count * width)
    return bad("it has " + std::to_string(rest - *count * width) +
               " bytes behind the " + std::to_string(*count) +
               " elements of its shape");
  NpyTensor tensor;
  tensor.type = type;
  tensor.shape = header->shape;
  uint64_t bytes = *count * width;
  tensor.storage.resize(bytes / 8 + 1);
  const uint8_t *from = file.data + header->dataOffset;
  auto *to = reinterpret_cast<uint8_t *>(tensor.storage.data());
  if (header->fortranOrder)
    fromFortran(from, to, width, tensor.shape, *count);
  else
    memcpy(to, from, bytes);
  if (bitWidth(type) < 8)
    pack(tensor.storage, *count, bitWidth(type));
  return tensor;
}

Status fusion::writeNpy(TemporaryFile &file, DType type,
                        const std::vector<int64_t> &shape, const void *data) {
  uint64_t count = elementCount(shape).value_or(0);
  const auto *bytes = static_cast<const uint8_t *>(data);
  std::vector<uint8_t> unpacked;
  if (bitWidth(type) < 8) {
    unpacked = unpack(bytes, count, type);
    bytes = unpacked.data();
  }
  std::string header = headerText(type, shape);
  if (Status s = file.writeAt(0, header.data(), header.size()); !s)
    return s;
  return file.writeAt(header.size(), bytes, count * fileElementBytes(type));
}

Status fusion::writeNpy(const std::string &path, DType type,
                        const std::vector<int64_t> &shape, const void *data) {
  TemporaryFile file(path);
  if (!file.isOpen())
    return file.error("create");
  Status status = writeNpy(file, type, shape, data);
  return status ? file.publish() : status;
}
