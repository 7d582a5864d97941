//===- ShapeUtils.cpp - Symbolic shapes of tensors ------------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

using namespace mlir;
using namespace fusion;

const char *fusion::stringify(OpClass opClass) {
  switch (opClass) {
  case OpClass::Constant:
    return "constant";
  case OpClass::Elementwise:
    return "elementwise";
  case OpClass::View:
    return "view";
  case OpClass::Gather:
    return "gather";
  case OpClass::Reduction:
    return "reduction";
  case OpClass::RowReduction:
    return "row reduction";
  case OpClass::Contraction:
    return "contraction";
  case OpClass::Attention:
    return "attention";
  case OpClass::Append:
    return "append";
  case OpClass::Opaque:
    return "opaque";
  }
  return "";
}

static ShapeAttr encodingOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<ShapeAttr>(tensor.getEncoding())
                : ShapeAttr();
}

static SymShape parseAll(ArrayRef<StringAttr> texts) {
  SymShape shape;
  for (StringAttr text : texts)
    shape.push_back(getExpr(text));
  return shape;
}

SymShape fusion::getSymShape(Type type) {
  if (ShapeAttr encoding = encodingOf(type))
    return parseAll(encoding.getDims());
  SymShape shape;
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return shape;
  for (auto [axis, size] : llvm::enumerate(shaped.getShape()))
    shape.push_back(ShapedType::isDynamic(size)
                        ? SymExpr::symbol("unnamed" + std::to_string(axis))
                        : SymExpr(size));
  return shape;
}

SymShape fusion::getSymShape(Value value) {
  return getSymShape(value.getType());
}

bool fusion::hasStorage(Type type) {
  ShapeAttr encoding = encodingOf(type);
  return encoding && !encoding.getStorage().empty();
}

SymShape fusion::getStorageShape(Type type) {
  return hasStorage(type) ? parseAll(encodingOf(type).getStorage())
                          : getSymShape(type);
}

static SmallVector<StringAttr> spell(MLIRContext *context,
                                     ArrayRef<SymExpr> shape) {
  SmallVector<StringAttr> texts;
  for (const SymExpr &e : shape)
    texts.push_back(getExprAttr(context, e));
  return texts;
}

RankedTensorType fusion::getTensorType(ArrayRef<SymExpr> shape,
                                       ArrayRef<SymExpr> storage,
                                       Type element) {
  MLIRContext *context = element.getContext();
  SmallVector<int64_t> sizes;
  bool dynamic = !storage.empty();
  for (const SymExpr &e : shape) {
    auto constant = e.asConstant();
    // A negative constant is no size; the op's verifier names the fault.
    bool known = constant && *constant >= 0;
    dynamic |= !known;
    sizes.push_back(known ? *constant : ShapedType::kDynamic);
  }
  Attribute encoding;
  if (dynamic)
    encoding =
        ShapeAttr::get(context, spell(context, shape), spell(context, storage));
  return RankedTensorType::get(sizes, element, encoding);
}

RankedTensorType fusion::getTensorType(ArrayRef<SymExpr> shape, Type element) {
  return getTensorType(shape, {}, element);
}

RankedTensorType fusion::logicalType(Type type) {
  if (!hasStorage(type))
    return cast<RankedTensorType>(type);
  return getTensorType(getSymShape(type), elementType(type));
}

RankedTensorType fusion::withElementType(Type type, Type element) {
  return getTensorType(getSymShape(type), element);
}

Type fusion::elementType(Type type) {
  return cast<ShapedType>(type).getElementType();
}
Type fusion::elementType(Value value) { return elementType(value.getType()); }

SymExpr fusion::numElements(ArrayRef<SymExpr> shape) {
  SymExpr product = 1;
  for (const SymExpr &e : shape)
    product = product * e;
  return product;
}
SymExpr fusion::numElements(Type type) {
  return numElements(getSymShape(type));
}

unsigned fusion::elementBits(Type element) {
  if (element.isInteger(1))
    return 8;
  if (element.isIndex())
    return 64;
  return element.getIntOrFloatBitWidth();
}

SymExpr fusion::numBytes(Type type) {
  SymExpr elements = numElements(getStorageShape(type));
  unsigned bits = elementBits(elementType(type));
  if (bits % 8 == 0)
    return elements * SymExpr(bits / 8);
  return *SymExpr::floorDiv(elements * SymExpr(bits) + SymExpr(7), SymExpr(8));
}

SymShape fusion::getStrides(ArrayRef<SymExpr> storage) {
  SymShape strides(storage.size(), SymExpr(1));
  for (int64_t i = static_cast<int64_t>(storage.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * storage[i + 1];
  return strides;
}

std::optional<SymExpr> fusion::broadcastDim(const SymExpr &a,
                                            const SymExpr &b) {
  if (a == b || b == SymExpr(1))
    return a;
  if (a == SymExpr(1))
    return b;
  if (a.isConstant() && b.isConstant())
    return std::nullopt;
  // A constant above 1 against a symbol: the symbol is 1 or equal to it.
  return b.isConstant() ? b : a;
}

std::optional<SymShape> fusion::broadcastShapes(ArrayRef<SymExpr> a,
                                                ArrayRef<SymExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SymShape shape(a.begin(), a.end());
  size_t skip = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    auto dim = broadcastDim(a[skip + i], b[i]);
    if (!dim)
      return std::nullopt;
    shape[skip + i] = *dim;
  }
  return shape;
}

SymExpr fusion::getExpr(StringAttr attr) {
  auto e = SymExpr::parse(
      std::string_view(attr.getValue().data(), attr.getValue().size()));
  return e ? *e : SymExpr::symbol("invalid");
}

SymShape fusion::getExprs(ArrayAttr attr) {
  SymShape exprs;
  for (Attribute a : attr)
    exprs.push_back(getExpr(cast<StringAttr>(a)));
  return exprs;
}

StringAttr fusion::getExprAttr(MLIRContext *context, const SymExpr &expr) {
  return StringAttr::get(context, expr.str());
}

ArrayAttr fusion::getExprsAttr(MLIRContext *context, ArrayRef<SymExpr> exprs) {
  SmallVector<Attribute> attrs;
  for (const SymExpr &e : exprs)
    attrs.push_back(getExprAttr(context, e));
  return ArrayAttr::get(context, attrs);
}

std::optional<int64_t> fusion::normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

LogicalResult fusion::inferBroadcast(std::optional<Location> loc,
                                     ValueRange operands, Type element,
                                     SmallVectorImpl<Type> &types) {
  SymShape shape;
  for (Value operand : operands) {
    auto next = broadcastShapes(shape, getSymShape(operand));
    if (!next)
      return emitOptionalError(loc, "operand shapes do not broadcast");
    shape = *next;
  }
  types.push_back(getTensorType(shape, element));
  return success();
}

LogicalResult fusion::inferReduction(std::optional<Location> loc, Value input,
                                     ArrayRef<int64_t> axes, bool keepdims,
                                     SmallVectorImpl<Type> &types) {
  SymShape shape;
  for (auto [axis, size] : llvm::enumerate(getSymShape(input))) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(axis));
    if (!reduced)
      shape.push_back(size);
    else if (keepdims)
      shape.push_back(1);
  }
  types.push_back(getTensorType(shape, elementType(input)));
  return success();
}

LogicalResult fusion::verifyAxes(Operation *op, Value input,
                                 ArrayRef<int64_t> axes) {
  int64_t rank = getSymShape(input).size(), last = -1;
  for (int64_t axis : axes) {
    if (axis <= last || axis >= rank)
      return op->emitOpError("expected ascending axes below ")
             << rank << ", found " << axis;
    last = axis;
  }
  return success();
}

bool fusion::compatibleShapes(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b) {
  if (a.size() != b.size())
    return false;
  for (auto [x, y] : llvm::zip(a, b))
    if (x.isConstant() && y.isConstant() && x != y)
      return false;
  return true;
}

bool fusion::compatibleTypes(TypeRange a, TypeRange b) {
  if (a.size() != b.size())
    return false;
  for (auto [x, y] : llvm::zip(a, b))
    if (elementType(x) != elementType(y) ||
        !compatibleShapes(getSymShape(x), getSymShape(y)))
      return false;
  return true;
}

std::optional<AffineMap> fusion::defaultOperandMap(Operation *op,
                                                   unsigned operand) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable || fusable.getOpClass() != OpClass::Elementwise)
    return std::nullopt;
  SymShape from = getSymShape(op->getResult(0));
  SymShape to = getSymShape(op->getOperand(operand));
  if (to.size() > from.size())
    return std::nullopt;
  MLIRContext *context = op->getContext();
  SmallVector<AffineExpr> exprs;
  size_t skip = from.size() - to.size();
  for (size_t i = 0; i < to.size(); ++i)
    exprs.push_back(to[i] == SymExpr(1) && from[skip + i] != SymExpr(1)
                        ? getAffineConstantExpr(0, context)
                        : getAffineDimExpr(skip + i, context));
  return AffineMap::get(from.size(), 0, exprs, context);
}

SmallVector<int64_t> fusion::defaultReducedAxes(Operation *op) {
  if (auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes"))
    return SmallVector<int64_t>(axes.asArrayRef());
  int64_t rank = getSymShape(op->getOperand(0)).size(), axis = rank - 1;
  if (auto attr = op->getAttrOfType<IntegerAttr>("axis"))
    axis = normalizeAxis(attr.getInt(), rank).value_or(rank - 1);
  return {axis};
}
