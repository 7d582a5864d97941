//===- Quantize.cpp - Quantised weights and activations -------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// A constant of the file under another element type and shape of equal bytes.
static FailureOr<Value> reinterpret(NodeImport &n, size_t i, int32_t type,
                                    std::vector<int64_t> dims) {
  const Tensor *tensor = n.constant(i);
  if (!tensor)
    return n.fail("expected a constant in input " + Twine(i));
  auto count = elementCount(dims);
  int64_t bits;
  if (!count ||
      __builtin_mul_overflow(*count, int64_t(elemBits(type)), &bits) ||
      static_cast<uint64_t>(bits / 8 + (bits % 8 != 0)) != tensor->bytes)
    return n.fail("input " + Twine(i) + " has " + Twine(tensor->bytes) +
                  " bytes, which does not fit the attributes of the node");
  Tensor result = *tensor;
  result.elemType = type;
  result.dims = std::move(dims);
  return n.importer.materialize(result);
}

static int32_t unsignedType(int64_t bits) {
  return bits == 2 ? UInt2 : bits == 4 ? UInt4 : UInt8;
}

static Value dequantize(NodeImport &n, Value q, Value scale, Value zero,
                        Value group, int64_t axis, int64_t block,
                        int64_t implicitZero, Type element) {
  return DequantizeOp::create(n.builder, n.loc,
                              withElementType(q.getType(), element), q, scale,
                              zero, group, n.builder.getI64IntegerAttr(axis),
                              n.builder.getI64IntegerAttr(block),
                              n.builder.getI64IntegerAttr(implicitZero));
}

//===----------------------------------------------------------------------===//
// com.microsoft
//===----------------------------------------------------------------------===//

namespace {
/// The attributes of a blockwise weight of N rows and K columns.
struct Blocks {
  int64_t rows, columns, bits, block;
  int64_t perRow() const { return (columns + block - 1) / block; }
};
} // namespace

static LogicalResult checkBlocks(NodeImport &n, const Blocks &b) {
  constexpr int64_t limit = int64_t(1) << 31;
  if (b.bits != 2 && b.bits != 4 && b.bits != 8)
    return n.fail("expected 2, 4 or 8 bits, found " + Twine(b.bits));
  if (b.block < 16 || b.block > (1 << 20) || (b.block & (b.block - 1)))
    return n.fail("expected block_size to be a power of two from 16, found " +
                  Twine(b.block));
  if (b.rows < 1 || b.columns < 1 || b.rows > limit || b.columns > limit)
    return n.fail("expected positive sizes, found " + Twine(b.rows) + " x " +
                  Twine(b.columns));
  return success();
}

/// Packed zero points start each row on a byte; the padding is cut off.
static FailureOr<Value> zeroPoints(NodeImport &n, size_t i, const Blocks &b) {
  int32_t type = n.importer.getElemType(n.node.inputs[i]);
  if (type != UInt8) {
    if (failed(n.equate(numElements(n.shape(i)), b.rows * b.perRow(),
                        "zero points and blocks")))
      return failure();
    return n.reshape(n.input(i), {b.rows, b.perRow()});
  }
  int64_t perByte = 8 / b.bits;
  int64_t padded = (b.perRow() + perByte - 1) / perByte * perByte;
  auto packed = reinterpret(n, i, unsignedType(b.bits), {b.rows, padded});
  if (failed(packed) || padded == b.perRow())
    return packed;
  return n.slice(*packed, 1, 0, b.perRow());
}

static FailureOr<Value> groupIndex(NodeImport &n, size_t i, const Blocks &b) {
  if (!n.hasInput(i))
    return Value();
  SymShape shape = n.shape(i);
  if (shape.size() != 1 || shape[0] != SymExpr(b.columns))
    return n.fail("expected " + Twine(b.columns) + " elements in g_idx");
  if (const SymTensor *index = n.sym(i))
    for (const SymExpr &e : index->values)
      if (auto at = e.asConstant(); at && (*at < 0 || *at >= b.perRow()))
        return n.fail("g_idx names block " + Twine(*at) + " of " +
                      Twine(b.perRow()));
  return n.input(i);
}

static LogicalResult matmulNBits(NodeImport &n) {
  Blocks b{n.getInt("N", 0), n.getInt("K", 0), n.getInt("bits", 4),
           n.getInt("block_size", 0)};
  if (failed(checkBlocks(n, b)))
    return failure();
  if (int64_t packing = n.getInt("weight_prepacked", 0))
    return n.fail("weight_prepacked " + Twine(packing) +
                  " is not supported; export with the plain layout");
  if (n.rank(0) < 1 ||
      failed(n.equate(n.shape(0).back(), b.columns, "A's last axis and K")))
    return failure();

  int64_t blocks = b.perRow(), padded = blocks * b.block;
  auto q = reinterpret(n, 1, unsignedType(b.bits), {b.rows, padded});
  if (failed(q))
    return failure();
  if (failed(n.equate(numElements(n.shape(2)), b.rows * blocks,
                      "scales and blocks")))
    return failure();
  Value scale = n.reshape(n.input(2), {b.rows, blocks}), zero;
  if (n.hasInput(3)) {
    auto points = zeroPoints(n, 3, b);
    if (failed(points))
      return failure();
    zero = *points;
  }
  auto group = groupIndex(n, 4, b);
  if (failed(group))
    return failure();
  Value packed = *q;
  if (padded != b.columns)
    packed = n.slice(packed, 1, 0, b.columns);
  Value weight =
      dequantize(n, packed, scale, zero, *group, 1, b.block,
                 zero ? 0 : int64_t(1) << (b.bits - 1), elementType(scale));
  Value a = n.input(0);
  weight = n.cast(weight, elementType(a));
  Value result = MatmulOp::create(n.builder, n.loc, a, weight,
                                  /*transpose_lhs=*/false,
                                  /*transpose_rhs=*/true);
  auto biased = n.plusInput(result, 5);
  if (failed(biased))
    return failure();
  n.output(0, *biased);
  return success();
}

/// Scales of one element along an axis other than `axis` are for all of it.
static Value spread(NodeImport &n, Value scale, ArrayRef<int64_t> dims,
                    int64_t axis) {
  SymShape shape = getSymShape(scale);
  if (shape.size() != dims.size())
    return scale;
  for (size_t i = 0; i < dims.size(); ++i)
    if (static_cast<int64_t>(i) != axis && shape[i] == SymExpr(1))
      shape[i] = dims[i];
  return n.expand(scale, shape);
}

/// The quantised table as [rows, columns] elements; uint8 data holds packed
/// elements of `bits` bits along the last axis.
static LogicalResult gatherBlockQuantized(NodeImport &n) {
  const Tensor *data = n.constant(0);
  if (!data)
    return n.fail("expected constant data");
  int64_t rank = data->dims.size(), bits = n.getInt("bits", 4);
  auto gatherAxis = n.axis(n.getInt("gather_axis", 0), rank);
  auto quantizeAxis = n.axis(n.getInt("quantize_axis", 1), rank);
  if (failed(gatherAxis) || failed(quantizeAxis))
    return failure();
  int32_t type = data->elemType;
  std::vector<int64_t> dims = data->dims;
  if (type == UInt8) {
    if (bits != 2 && bits != 4 && bits != 8)
      return n.fail("expected 2, 4 or 8 bits, found " + Twine(bits));
    if (*quantizeAxis != rank - 1)
      return n.fail("packed data must be quantised along the last axis");
    type = unsignedType(bits);
    if (__builtin_mul_overflow(dims.back(), 8 / bits, &dims.back()))
      return n.fail("data is absurdly large");
  }
  int64_t block = n.getInt("block_size", 128);
  // Small floats may have one scale for a whole axis, and for all of another.
  bool isFloat = isa<FloatType>(getElementType(type, n.builder.getContext()));
  if (isFloat && block == 0)
    block = std::max<int64_t>(dims[*quantizeAxis], 1);
  else if (block < 16 || (block & (block - 1)) || block > (1 << 20))
    return n.fail("expected block_size to be a power of two from 16, found " +
                  Twine(block));
  auto q = reinterpret(n, 0, type, dims);
  if (failed(q))
    return failure();
  Value scale = n.input(2), zero;
  SymShape scaleShape = n.shape(2);
  if (isFloat) {
    if (n.hasInput(3))
      return n.fail("zero points of floating-point data are not defined");
    scale = spread(n, scale, dims, *quantizeAxis);
  }
  if (n.hasInput(3)) {
    const Tensor *points = n.constant(3);
    if (!points)
      return n.fail("expected constant zero points");
    std::vector<int64_t> pointDims = points->dims;
    if (points->elemType == UInt8 && !pointDims.empty() &&
        __builtin_mul_overflow(pointDims.back(), 8 / bits, &pointDims.back()))
      return n.fail("zero points are absurdly large");
    auto value = reinterpret(n, 3, type, pointDims);
    if (failed(value))
      return failure();
    zero = *value;
    auto blocks =
        scaleShape.empty() ? std::nullopt : scaleShape.back().asConstant();
    if (blocks && !pointDims.empty() && pointDims.back() > *blocks)
      zero = n.slice(zero, pointDims.size() - 1, 0, *blocks);
  }
  int64_t implicitZero =
      zero || data->elemType != UInt8 ? 0 : int64_t(1) << (bits - 1);
  Value table = dequantize(n, *q, scale, zero, {}, *quantizeAxis, block,
                           implicitZero, elementType(scale));
  n.output(0,
           GatherOp::create(n.builder, n.loc, table, n.input(1), *gatherAxis));
  return success();
}

//===----------------------------------------------------------------------===//
// ai.onnx
//===----------------------------------------------------------------------===//

/// Element type that a node names by attribute, else `otherwise`.
static FailureOr<Type> namedType(NodeImport &n, StringRef attribute,
                                 Type otherwise) {
  int64_t type = n.getInt(attribute, 0);
  if (type == 0)
    return otherwise;
  Type element =
      type > 0 && type < 64
          ? getElementType(static_cast<int32_t>(type), n.builder.getContext())
          : Type();
  if (!element)
    return n.fail(attribute + " " + Twine(type) + " is not supported");
  return element;
}

namespace {
/// How scales apply: per tensor (axis 0, block 0), per axis, or per block.
struct Granularity {
  int64_t axis = 0, block = 0;
};
} // namespace

static FailureOr<Granularity> granularity(NodeImport &n) {
  SymShape input = n.shape(0), scale = n.shape(1);
  Granularity g;
  int64_t block = n.getInt("block_size", 0);
  if (block < 0)
    return n.fail("expected a block_size of 0 or more, found " + Twine(block));
  bool perTensor = numElements(scale) == SymExpr(1) && block == 0;
  if (perTensor)
    return g;
  auto axis = n.axis(n.getInt("axis", 1), input.size());
  if (failed(axis))
    return failure();
  g.axis = *axis;
  if (block == 0) {
    if (scale.size() != 1)
      return n.fail("expected a scale of rank 1, found rank " +
                    Twine(scale.size()));
    if (failed(n.equate(scale[0], input[*axis], "scale and axis")))
      return failure();
    return g;
  }
  if (scale.size() != input.size())
    return n.fail("expected a blocked scale of rank " + Twine(input.size()));
  g.block = block;
  return g;
}

/// The zero point, in the scale's shape; null when it is absent.
static FailureOr<Value> zeroPoint(NodeImport &n) {
  if (!n.hasInput(2))
    return Value();
  SymShape scale = n.shape(1), zero = n.shape(2);
  // One element is one element, whatever its rank.
  if (numElements(scale) == SymExpr(1) && numElements(zero) == SymExpr(1))
    return n.reshape(n.input(2), scale);
  if (scale.size() != zero.size())
    return n.fail("scale and zero point differ in rank");
  for (auto [a, b] : llvm::zip(scale, zero))
    if (failed(n.equate(a, b, "scale and zero point")))
      return failure();
  return n.input(2);
}

static LogicalResult dequantizeLinear(NodeImport &n) {
  auto g = granularity(n);
  auto element = namedType(n, "output_dtype", elementType(n.input(1)));
  auto zero = zeroPoint(n);
  if (failed(g) || failed(element) || failed(zero))
    return failure();
  n.output(0, dequantize(n, n.input(0), n.input(1), *zero, {}, g->axis,
                         g->block, 0, *element));
  return success();
}

/// A scale for each block of an axis, repeated for each element of the block.
static Value repeatBlocks(NodeImport &n, Value value, const Granularity &g) {
  SymShape shape = getSymShape(value), split = shape, wide = shape;
  split.insert(split.begin() + g.axis + 1, SymExpr(1));
  wide.insert(wide.begin() + g.axis + 1, SymExpr(g.block));
  SymShape joined = shape;
  joined[g.axis] = shape[g.axis] * SymExpr(g.block);
  value = n.reshape(n.expand(n.reshape(value, split), wide), joined);
  // The last block may be a short one.
  return n.slice(value, g.axis, 0, n.shape(0)[g.axis]);
}

/// Scales or zero points, shaped to broadcast over the input.
static Value alongAxis(NodeImport &n, Value value, const Granularity &g) {
  if (g.block)
    return repeatBlocks(n, value, g);
  if (numElements(value.getType()) == SymExpr(1))
    return n.reshape(value, {});
  SymShape shape(n.rank(0), SymExpr(1));
  shape[g.axis] = getSymShape(value)[0];
  return n.reshape(value, shape);
}

/// saturate(round(x / scale) + zero point); floating-point types convert.
static LogicalResult quantizeLinear(NodeImport &n) {
  auto g = granularity(n);
  auto zero = zeroPoint(n);
  if (failed(g) || failed(zero))
    return failure();
  MLIRContext *context = n.builder.getContext();
  auto element = namedType(n, "output_dtype",
                           n.hasInput(2) ? elementType(n.input(2))
                                         : getElementType(UInt8, context));
  if (failed(element))
    return failure();
  Type f32 = n.builder.getF32Type();
  Value x = n.cast(n.input(0), f32);
  Value scale = alongAxis(n, n.cast(n.input(1), f32), *g);
  Value y = DivOp::create(n.builder, n.loc, x, scale);
  auto integer = dyn_cast<IntegerType>(*element);
  if (!integer) {
    n.output(0, n.cast(y, *element));
    return success();
  }
  y = RoundOp::create(n.builder, n.loc, y);
  if (*zero)
    y = AddOp::create(n.builder, n.loc, y,
                      alongAxis(n, n.cast(*zero, f32), *g));
  int64_t width = integer.getWidth();
  if (width > 16)
    return n.fail("expected a result of at most 16 bits");
  bool isUnsigned = integer.isUnsigned();
  double low = isUnsigned ? 0 : -static_cast<double>(int64_t(1) << (width - 1));
  double high =
      static_cast<double>((int64_t(1) << (isUnsigned ? width : width - 1)) - 1);
  y = MaxOp::create(n.builder, n.loc, y, n.scalar(low, f32));
  y = MinOp::create(n.builder, n.loc, y, n.scalar(high, f32));
  n.output(0, n.cast(y, *element));
  return success();
}

void fusion::addQuantizeHandlers(HandlerMap &map) {
  map["com.microsoft::MatMulNBits"] = matmulNBits;
  map["com.microsoft::GatherBlockQuantized"] = gatherBlockQuantized;
  map["::DequantizeLinear"] = dequantizeLinear;
  map["::QuantizeLinear"] = quantizeLinear;
  map["com.microsoft::DequantizeLinear"] = dequantizeLinear;
  map["com.microsoft::QuantizeLinear"] = quantizeLinear;
}
