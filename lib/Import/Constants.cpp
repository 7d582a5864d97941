//===- Constants.cpp - Tensors of the file as attributes ------------------===//

#include "Importer.h"

#include <cstring>

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

Type fusion::getElementType(int32_t elemType, MLIRContext *context) {
  Builder b(context);
  auto unsignedType = [&](unsigned width) -> Type {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  };
  switch (elemType) {
  case Float:
    return b.getF32Type();
  case Float16:
    return b.getF16Type();
  case BFloat16:
    return b.getBF16Type();
  case Double:
    return b.getF64Type();
  case Bool:
    return b.getI1Type();
  case Int8:
    return b.getI8Type();
  case Int16:
    return b.getI16Type();
  case Int32:
    return b.getI32Type();
  case Int64:
    return b.getI64Type();
  case Int4:
    return b.getIntegerType(4);
  case Int2:
    return b.getIntegerType(2);
  case UInt8:
    return unsignedType(8);
  case UInt16:
    return unsignedType(16);
  case UInt32:
    return unsignedType(32);
  case UInt64:
    return unsignedType(64);
  case UInt4:
    return unsignedType(4);
  case UInt2:
    return unsignedType(2);
  case Float8E4M3FN:
    return Float8E4M3FNType::get(context);
  case Float8E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case Float8E5M2:
    return Float8E5M2Type::get(context);
  case Float8E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case Float8E8M0:
    return Float8E8M0FNUType::get(context);
  case Float4E2M1:
    return Float4E2M1FNType::get(context);
  default:
    return {};
  }
}

int32_t fusion::getElemTypeOf(Type type) {
  for (int32_t e = Float; e <= Int2; ++e)
    if (getElementType(e, type.getContext()) == type)
      return e;
  return Undefined;
}

/// Element `index` of packed elements of `bits` bits, first in the low bits.
static uint8_t unpack(ArrayRef<uint8_t> bytes, size_t index, unsigned bits) {
  size_t bit = index * bits;
  return (bytes[bit / 8] >> (bit % 8)) & ((1u << bits) - 1);
}

DenseElementsAttr fusion::getDenseAttr(ArrayRef<uint8_t> bytes,
                                       RankedTensorType type) {
  size_t count = type.getNumElements();
  Type element = type.getElementType();
  if (count == 0)
    return DenseElementsAttr::get(type, ArrayRef<mlir::Attribute>());
  if (element.isInteger(1)) {
    SmallVector<bool> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(bytes[i] != 0);
    return DenseElementsAttr::get(type, values);
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits >= 8)
    return DenseElementsAttr::getFromRawBuffer(
        type,
        ArrayRef(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  if (auto floating = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(APFloat(floating.getFloatSemantics(),
                               APInt(bits, unpack(bytes, i, bits))));
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<APInt> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(APInt(bits, unpack(bytes, i, bits)));
  return DenseElementsAttr::get(type, values);
}

template <typename T>
static int64_t load(const uint8_t *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<int64_t>(value);
}

std::optional<SymTensor> fusion::toSymTensor(const Tensor &tensor) {
  constexpr int64_t maxElements = 1024;
  int64_t count = tensor.elements();
  if (count > maxElements)
    return std::nullopt;
  unsigned size = elemBits(tensor.elemType) / 8;
  switch (tensor.elemType) {
  case Int64:
  case Int32:
  case Int8:
  case UInt8:
  case Bool:
    break;
  default:
    return std::nullopt;
  }
  auto bytes = readTensor(tensor);
  if (!bytes || bytes->size() != static_cast<size_t>(count) * size)
    return std::nullopt;
  SymTensor sym;
  sym.elemType = tensor.elemType;
  sym.dims = tensor.dims;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t *at = bytes->data() + i * size;
    // INT64_MIN is no SymExpr; as a bound of Slice, the only use that files
    // make of it, its neighbour means the same.
    sym.values.push_back(tensor.elemType == Int64
                             ? std::max(load<int64_t>(at), INT64_MIN + 1)
                         : tensor.elemType == Int32 ? load<int32_t>(at)
                         : tensor.elemType == Int8  ? load<int8_t>(at)
                         : tensor.elemType == Bool  ? load<uint8_t>(at) != 0
                                                    : load<uint8_t>(at));
  }
  return sym;
}

std::optional<std::vector<int64_t>> SymTensor::constants() const {
  std::vector<int64_t> result;
  for (const SymExpr &value : values) {
    auto constant = value.asConstant();
    if (!constant)
      return std::nullopt;
    result.push_back(*constant);
  }
  return result;
}
