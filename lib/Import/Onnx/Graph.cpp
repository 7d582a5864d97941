//===- Graph.cpp - An ONNX model as plain data ----------------------------===//

#include "Graph.h"

#include <cstdio>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {
struct TypeRow {
  const char *name;
  unsigned bits;
};
} // namespace

static const TypeRow typeTable[] = {
    {"undefined", 0},      {"float", 32},     {"uint8", 8},
    {"int8", 8},           {"uint16", 16},    {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"string", 0},
    {"bool", 8},           {"float16", 16},   {"double", 64},
    {"uint32", 32},        {"uint64", 64},    {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16},  {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4},          {"int4", 4},       {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},      {"int2", 2},
};
static constexpr int32_t numTypes = sizeof(typeTable) / sizeof(typeTable[0]);

unsigned onnxfile::elemBits(int32_t type) {
  return type >= 0 && type < numTypes ? typeTable[type].bits : 0;
}

std::string onnxfile::elemName(int32_t type) {
  return type >= 0 && type < numTypes ? typeTable[type].name
                                      : "type " + std::to_string(type);
}

std::optional<int64_t>
onnxfile::elementCount(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count))
      return std::nullopt;
  return count;
}

const Attribute *Node::find(const std::string &attribute) const {
  for (const Attribute &a : attributes)
    if (a.name == attribute)
      return &a;
  return nullptr;
}

Result<std::vector<uint8_t>> onnxfile::readTensor(const Tensor &tensor) {
  if (tensor.file.empty())
    return tensor.owned;
  auto failure = [&](const char *what) {
    return Status(StatusCode::InvalidInput,
                  tensor.file + ": tensor '" + tensor.name + "': " + what);
  };
  std::vector<uint8_t> bytes(tensor.bytes);
  FILE *file = std::fopen(tensor.file.c_str(), "rb");
  if (!file)
    return failure("the file cannot be opened");
  bool ok = fseeko(file, static_cast<off_t>(tensor.offset), SEEK_SET) == 0 &&
            std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size();
  std::fclose(file);
  if (!ok)
    return failure("its bytes cannot be read");
  return bytes;
}
