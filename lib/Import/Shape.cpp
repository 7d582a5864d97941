//===- Shape.cpp - Constants, ranges, shapes as data ----------------------===//

#include "Importer.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;
using Kind = onnxfile::Attribute::Kind;

/// A tensor whose bytes are those of `values`.
template <typename T>
static Tensor tensorOf(NodeImport &n, int32_t type, ArrayRef<T> values,
                       bool isScalar) {
  Tensor tensor;
  tensor.name = n.node.outputs[0];
  tensor.elemType = type;
  if (!isScalar)
    tensor.dims = {static_cast<int64_t>(values.size())};
  tensor.bytes = values.size() * sizeof(T);
  tensor.owned.resize(tensor.bytes);
  if (tensor.bytes)
    std::memcpy(tensor.owned.data(), values.data(), tensor.bytes);
  return tensor;
}

static LogicalResult constant(NodeImport &n) {
  for (const onnxfile::Attribute &a : n.node.attributes) {
    Tensor tensor;
    if (a.name == "value" && a.kind == Kind::Tensor && a.tensor) {
      tensor = *a.tensor;
      tensor.name = n.node.outputs[0];
    } else if (a.name == "value_float" && a.kind == Kind::Float) {
      tensor = tensorOf<float>(n, Float, {a.f}, true);
    } else if (a.name == "value_int" && a.kind == Kind::Int) {
      tensor = tensorOf<int64_t>(n, Int64, {a.i}, true);
    } else if (a.name == "value_floats" && a.kind == Kind::Floats) {
      tensor = tensorOf<float>(n, Float, a.floats, false);
    } else if (a.name == "value_ints" && a.kind == Kind::Ints) {
      tensor = tensorOf<int64_t>(n, Int64, a.ints, false);
    } else {
      return n.fail("a constant by attribute '" + a.name +
                    "' is not supported");
    }
    n.importer.setConstant(n.node.outputs[0], tensor);
    return success();
  }
  return n.fail("the constant has no value");
}

/// A splat, broadcast to a symbolic shape.
static LogicalResult constantOfShape(NodeImport &n) {
  auto shape = n.sizes(0, "shape");
  if (failed(shape))
    return failure();
  for (const SymExpr &size : *shape)
    if (auto constant = size.asConstant(); constant && *constant < 0)
      return n.fail("negative size " + Twine(*constant));
  Value fill;
  const onnxfile::Attribute *a = n.node.find("value");
  if (a && a->tensor) {
    if (a->tensor->elements() != 1)
      return n.fail("expected a value of one element");
    Tensor tensor = *a->tensor;
    tensor.dims.clear();
    fill = n.importer.materialize(tensor);
  } else {
    fill = n.scalar(0, n.builder.getF32Type());
  }
  n.output(0, n.expand(fill, *shape));
  return success();
}

/// Ones where column - row == k.
static LogicalResult eyeLike(NodeImport &n) {
  if (n.rank(0) != 2)
    return n.fail("expected an input of rank 2, found " + Twine(n.rank(0)));
  SymShape shape = n.shape(0);
  int64_t code = n.getInt("dtype", n.importer.getElemType(n.node.inputs[0]));
  Type element = getElementType(code, n.builder.getContext());
  if (!element)
    return n.fail("element type " + Twine(code) + " is not supported");
  MLIRContext *context = n.builder.getContext();
  auto places = [&](const SymExpr &count, int64_t start) {
    return IotaOp::create(n.builder, n.loc,
                          getTensorType({count}, n.builder.getI64Type()),
                          getExprAttr(context, start), getExprAttr(context, 1));
  };
  Value rows = n.reshape(places(shape[0], n.getInt("k", 0)), {shape[0], 1});
  Value columns = places(shape[1], 0);
  n.output(0, CastOp::create(n.builder, n.loc, getTensorType(shape, element),
                             EqualOp::create(n.builder, n.loc, rows, columns),
                             false));
  return success();
}

/// A known size that was cast: `Range(0.0, Cast(length), 1.0)`.
static std::optional<double> castConstant(NodeImport &n, size_t i) {
  auto cast = n.input(i).getDefiningOp<CastOp>();
  auto constant =
      cast ? cast.getInput().getDefiningOp<ConstantOp>() : ConstantOp();
  Type element = elementType(n.input(i));
  if (!constant || !(element.isF32() || element.isF64()))
    return std::nullopt;
  auto values = dyn_cast<DenseIntElementsAttr>(constant.getValue());
  if (!values || values.getNumElements() != 1 ||
      values.getElementType().isUnsignedInteger())
    return std::nullopt;
  int64_t value = (*values.begin()).getSExtValue();
  // As many as either type holds exactly.
  return std::llabs(value) <= 1 << 24 ? std::optional<double>(value)
                                      : std::nullopt;
}

/// The value of a floating-point scalar that is known.
static std::optional<double> floatConstant(NodeImport &n, size_t i) {
  const Tensor *tensor = n.constant(i);
  if (!tensor)
    return castConstant(n, i);
  if (tensor->elements() != 1)
    return std::nullopt;
  auto bytes = readTensor(*tensor);
  Type element = getElementType(tensor->elemType, n.builder.getContext());
  if (!bytes || bytes->size() != tensor->bytes || !isa<FloatType>(element))
    return std::nullopt;
  auto dense = getDenseAttr(*bytes, RankedTensorType::get({}, element));
  APFloat value = dense.getSplatValue<APFloat>();
  bool inexact;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return value.convertToDouble();
}

/// start + i * delta, computed here.
static LogicalResult floatRange(NodeImport &n) {
  auto start = floatConstant(n, 0), limit = floatConstant(n, 1),
       delta = floatConstant(n, 2);
  if (!start || !limit || !delta || *delta == 0)
    return n.fail("the bounds are not known at compile time");
  double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
  if (!(count <= 8192))
    return n.fail("a range of more than 8192 floating-point values");
  SmallVector<double> values;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
    values.push_back(*start + i * *delta);
  Type element = getElementType(n.importer.getElemType(n.node.inputs[0]),
                                n.builder.getContext());
  auto type =
      RankedTensorType::get({static_cast<int64_t>(values.size())}, element);
  SmallVector<mlir::Attribute> attrs;
  for (double value : values)
    attrs.push_back(n.builder.getFloatAttr(element, value));
  n.output(0, ConstantOp::create(n.builder, n.loc,
                                 DenseElementsAttr::get(type, attrs)));
  return success();
}

/// An integer range becomes `fusion.iota`; its length is a size expression.
static LogicalResult range(NodeImport &n) {
  const SymTensor *start = n.sym(0), *limit = n.sym(1), *delta = n.sym(2);
  int32_t type = n.importer.getElemType(n.node.inputs[0]);
  if (type == Float || type == Double || type == Float16 || type == BFloat16)
    return floatRange(n);
  const char *names[] = {"start", "limit", "delta"};
  const SymTensor *bounds[] = {start, limit, delta};
  for (auto [i, bound] : llvm::enumerate(bounds)) {
    if (!bound)
      return n.failUnknown(i, names[i]);
    if (bound->values.size() != 1)
      return n.fail("expected one element of " + Twine(names[i]) + ", found " +
                    Twine(bound->values.size()));
  }
  SymExpr step = delta->values[0];
  auto constantStep = step.asConstant();
  if (!constantStep || *constantStep == 0)
    return n.fail("expected a constant, non-zero delta");
  SymExpr distance = limit->values[0] - start->values[0];
  SymExpr count = distance;
  if (*constantStep != 1) {
    SymExpr size = *constantStep > 0 ? step : -step;
    SymExpr span = *constantStep > 0 ? distance : -distance;
    auto rounded = SymExpr::floorDiv(span + size - SymExpr(1), size);
    if (!rounded)
      return n.fail("the length cannot be expressed");
    count = *rounded;
  }
  count = n.symbols().resolve(count);
  if (auto constant = count.asConstant(); constant && *constant < 0)
    count = 0;
  Type element = getElementType(type, n.builder.getContext());
  n.output(0,
           IotaOp::create(n.builder, n.loc, getTensorType({count}, element),
                          getExprAttr(n.builder.getContext(), start->values[0]),
                          getExprAttr(n.builder.getContext(), step)));
  return success();
}

/// Sizes `start` to `end` of a tensor, which need no operation.
static LogicalResult shape(NodeImport &n) {
  if (!n.importer.getShape(n.node.inputs[0]))
    return n.fail("expected a tensor");
  SymShape shape = n.shape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  int64_t start = clamp(n.getInt("start", 0));
  int64_t end = clamp(n.getInt("end", rank));
  SymTensor sizes;
  for (int64_t i = start; i < end; ++i)
    sizes.values.push_back(shape[i]);
  sizes.dims = {static_cast<int64_t>(sizes.values.size())};
  n.importer.setSym(n.node.outputs[0], std::move(sizes));
  return success();
}

static LogicalResult size(NodeImport &n) {
  if (!n.importer.getShape(n.node.inputs[0]))
    return n.fail("expected a tensor");
  SymTensor count;
  count.values = {numElements(n.shape(0))};
  if (count.values[0].overflowed())
    return n.fail("the number of elements overflows 64 bits");
  n.importer.setSym(n.node.outputs[0], std::move(count));
  return success();
}

void fusion::addShapeHandlers(HandlerMap &map) {
  map["::Constant"] = constant;
  map["::ConstantOfShape"] = constantOfShape;
  map["::EyeLike"] = eyeLike;
  map["::Range"] = range;
  map["::Shape"] = shape;
  map["::Size"] = size;
}
