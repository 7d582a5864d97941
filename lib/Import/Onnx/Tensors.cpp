//===- Tensors.cpp - TensorProto to file, offset and length ---------------===//
//
// Bytes in raw_data or external files stay there. Typed fields (int64_data and
// the like), which hold small constants in practice, are decoded to bytes.
//
//===----------------------------------------------------------------------===//

#include "Proto.h"
#include "WireWalker.h"

#include <cstring>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

struct MappedPlace {
  uint64_t offset = 0, length = 0;
  std::string field;
};

[[noreturn]] void refuse(const Tensor &tensor, const std::string &why) {
  throw FileError("tensor '" + tensor.name + "': " + why);
}

template <typename Stored, typename Values>
void append(std::vector<uint8_t> &out, const Values &values) {
  out.resize(values.size() * sizeof(Stored));
  size_t at = 0;
  for (auto value : values) {
    auto stored = static_cast<Stored>(value);
    std::memcpy(out.data() + at, &stored, sizeof(Stored));
    at += sizeof(Stored);
  }
}

/// The bytes of a tensor whose values lie in a typed field. int32_data holds
/// bit patterns of 16- and 8-bit floats, and packed bytes of sub-byte types.
std::vector<uint8_t> decodeTyped(const onnx::TensorProto &proto) {
  std::vector<uint8_t> out;
  switch (proto.data_type()) {
  case Float:
    append<float>(out, proto.float_data());
    break;
  case Double:
    append<double>(out, proto.double_data());
    break;
  case Int64:
    append<int64_t>(out, proto.int64_data());
    break;
  case UInt64:
    append<uint64_t>(out, proto.uint64_data());
    break;
  case UInt32:
    append<uint32_t>(out, proto.uint64_data());
    break;
  case Int32:
    append<int32_t>(out, proto.int32_data());
    break;
  case Int16:
  case UInt16:
  case Float16:
  case BFloat16:
    append<uint16_t>(out, proto.int32_data());
    break;
  default:
    append<uint8_t>(out, proto.int32_data());
  }
  return out;
}

/// Reads the note that stripTensors() left.
std::optional<MappedPlace> mappedPlace(const onnx::TensorProto &proto) {
  for (const auto &entry : proto.external_data()) {
    if (entry.key() != mappedKey)
      continue;
    MappedPlace place;
    char field[16] = {};
    unsigned long long offset, length;
    if (std::sscanf(entry.value().c_str(), "%llu %llu %15s", &offset, &length,
                    field) == 3)
      return MappedPlace{offset, length, field};
  }
  return std::nullopt;
}

void placeExternal(const onnx::TensorProto &proto, ExternalFiles &externals,
                   Tensor &tensor) {
  ExternalPlace place;
  bool found = false;
  for (const auto &entry : proto.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
      found = true;
    } else if (entry.key() == "offset") {
      place.offset = entry.value();
    } else if (entry.key() == "length") {
      place.length = entry.value();
    }
  }
  if (!found)
    refuse(tensor, "external data without a location");
  Result<FileRange> range = externals.resolve(place, tensor.bytes);
  if (!range)
    refuse(tensor, range.status().message());
  tensor.file = range->file;
  tensor.offset = range->offset;
}

/// True when the bytes of `field` are the row-major bytes of the type.
bool isOwnLayout(const std::string &field, int32_t type) {
  return field == "raw_data" || (field == "float_data" && type == Float) ||
         (field == "double_data" && type == Double);
}

} // namespace

Tensor onnxfile::convertTensor(const onnx::TensorProto &proto,
                               const std::string &path,
                               ExternalFiles &externals) {
  Tensor tensor;
  tensor.name = proto.name();
  tensor.elemType = proto.data_type();
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  if (tensor.elemType == String)
    refuse(tensor, "string tensors are not supported");
  unsigned bits = elemBits(tensor.elemType);
  if (!bits)
    refuse(tensor, "unknown element type " + std::to_string(tensor.elemType));
  if (proto.has_segment())
    refuse(tensor, "segmented tensors are not supported");
  if (tensor.dims.size() > 64)
    refuse(tensor, "more than 64 dimensions");
  auto count = elementCount(tensor.dims);
  int64_t totalBits;
  if (!count)
    refuse(tensor, "its dimensions are negative or overflow");
  if (__builtin_mul_overflow(*count, int64_t(bits), &totalBits) ||
      totalBits > INT64_MAX - 7)
    refuse(tensor, "its size overflows");
  tensor.bytes = (static_cast<uint64_t>(totalBits) + 7) / 8;

  auto place = mappedPlace(proto);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    if (place)
      refuse(tensor, "data both in the model and outside");
    placeExternal(proto, externals, tensor);
    return tensor;
  }
  if (place) {
    if (!isOwnLayout(place->field, tensor.elemType))
      refuse(tensor, place->field + " cannot hold " +
                         elemName(tensor.elemType) + " elements");
    if (place->length != tensor.bytes)
      refuse(tensor, "has " + std::to_string(place->length) +
                         " bytes of data, but its type and shape need " +
                         std::to_string(tensor.bytes));
    tensor.file = path;
    tensor.offset = place->offset;
    return tensor;
  }
  tensor.owned = decodeTyped(proto);
  if (tensor.owned.size() != tensor.bytes)
    refuse(tensor, "has " + std::to_string(tensor.owned.size()) +
                       " bytes of data, but its type and shape need " +
                       std::to_string(tensor.bytes));
  return tensor;
}
