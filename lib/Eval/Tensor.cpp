//===- Tensor.cpp - Static tensors of the interpreter ---------------------===//

#include "Detail.h"

#include "llvm/Support/Endian.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;

Tensor::Tensor(Type element, std::vector<int64_t> shape)
    : element(element), shape(std::move(shape)) {
  if (isFloat())
    floats.resize(size());
  else
    ints.resize(size());
}

int64_t Tensor::size() const {
  int64_t n = 1;
  for (int64_t s : shape)
    n *= s;
  return n;
}

static double roundTo(FloatType type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  APFloat f(value);
  bool loses;
  f.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
  f.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return f.convertToDouble();
}

void Tensor::set(int64_t i, double value) {
  if (hasFloats()) {
    floats[i] = roundTo(cast<FloatType>(element), value);
    return;
  }
  // Out of range is undefined in ONNX; saturate so that nothing traps.
  double limit = 9.2233720368547748e18;
  setInt(i, std::isnan(value) ? 0
            : value >= limit  ? INT64_MAX
            : value <= -limit ? INT64_MIN
                              : static_cast<int64_t>(value));
}

void Tensor::setInt(int64_t i, int64_t value) {
  if (hasFloats()) {
    set(i, static_cast<double>(value));
    return;
  }
  unsigned width = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  if (width >= 64) {
    ints[i] = value;
    return;
  }
  uint64_t bits = static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
  bool isSigned = width > 1 && !element.isUnsignedInteger();
  ints[i] =
      isSigned ? llvm::SignExtend64(bits, width) : static_cast<int64_t>(bits);
}

Tensor Tensor::fromAttr(DenseElementsAttr attr) {
  Tensor t(attr.getElementType(), attr.getType().getShape().vec());
  int64_t i = 0;
  if (t.isFloat())
    for (APFloat value : attr.getValues<APFloat>()) {
      bool loses;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                    &loses);
      t.floats[i++] = value.convertToDouble();
    }
  else
    for (const APInt &value : attr.getValues<APInt>())
      t.setInt(i++, static_cast<int64_t>(value.getZExtValue()));
  return t;
}

DenseElementsAttr Tensor::toAttr() const {
  auto type = RankedTensorType::get(shape, element);
  if (auto f = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double d : floats) {
      APFloat v(d);
      bool loses;
      v.convert(f.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
      values.push_back(v);
    }
    return DenseElementsAttr::get(type, values);
  }
  unsigned width = element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t v : ints)
    values.push_back(APInt(width, static_cast<uint64_t>(v), /*isSigned=*/true,
                           /*implicitTrunc=*/true));
  return DenseElementsAttr::get(type, values);
}

static uint64_t bitsAt(StringRef bytes, int64_t i, unsigned width) {
  if (width < 8) {
    unsigned perByte = 8 / width;
    uint8_t byte = bytes[i / perByte];
    return (byte >> (i % perByte * width)) & ((1u << width) - 1);
  }
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * (width / 8), width / 8);
  return bits;
}

std::optional<Tensor> Tensor::fromBytes(RankedTensorType type,
                                        StringRef bytes) {
  Type element = type.getElementType();
  unsigned width = elementBits(element);
  bool known = width == 1 || width == 2 || width == 4 || width == 8 ||
               width == 16 || width == 32 || width == 64;
  auto needed = numBytes(type).asConstant();
  if (!known || !needed || static_cast<uint64_t>(*needed) > bytes.size())
    return std::nullopt;
  Tensor t(element, type.getShape().vec());
  auto f = dyn_cast<FloatType>(element);
  for (int64_t i = 0, n = t.size(); i < n; ++i) {
    uint64_t bits = bitsAt(bytes, i, width);
    if (!f) {
      t.setInt(i,
               element.isInteger(1) ? bits != 0 : static_cast<int64_t>(bits));
      continue;
    }
    APFloat value(f.getFloatSemantics(), APInt(width, bits));
    bool loses;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    t.floats[i] = value.convertToDouble();
  }
  return t;
}

std::string Tensor::toBytes() const {
  unsigned width = elementBits(element);
  std::string bytes((size() * width + 7) / 8, '\0');
  auto f = dyn_cast<FloatType>(element);
  for (int64_t i = 0, n = size(); i < n; ++i) {
    uint64_t bits = 0;
    if (f) {
      APFloat v(floats[i]);
      bool loses;
      v.convert(f.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
      bits = v.bitcastToAPInt().getZExtValue();
    } else {
      bits = static_cast<uint64_t>(ints[i]);
    }
    if (width < 8)
      bytes[i * width / 8] |=
          static_cast<char>((bits & ((1u << width) - 1)) << (i * width % 8));
    else
      std::memcpy(bytes.data() + i * (width / 8), &bits, width / 8);
  }
  return bytes;
}

std::vector<int64_t> eval::detail::strides(ArrayRef<int64_t> shape) {
  std::vector<int64_t> result(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    result[i] = result[i + 1] * shape[i + 1];
  return result;
}

void eval::detail::forEach(ArrayRef<int64_t> shape,
                           function_ref<void(int64_t, ArrayRef<int64_t>)> fn) {
  int64_t count = 1;
  for (int64_t s : shape)
    count *= s;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    fn(flat, index);
    for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
         --axis) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

int64_t eval::detail::broadcastIndex(ArrayRef<int64_t> index,
                                     ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  size_t skip = index.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : index[skip + i]);
  return flat;
}
