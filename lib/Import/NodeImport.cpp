//===- NodeImport.cpp - What handlers use ---------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

NodeImport::NodeImport(Importer &importer, const Node &node, Location location)
    : node(node), builder(importer.builder), loc(location), importer(importer) {
}

Symbols &NodeImport::symbols() { return importer.symbols; }

Value NodeImport::input(size_t i) {
  return hasInput(i) ? importer.getValue(node.inputs[i]) : Value();
}

SymShape NodeImport::shape(size_t i) {
  auto shape = importer.getShape(node.inputs[i]);
  SymShape resolved;
  for (const SymExpr &size : shape.value_or(SymShape()))
    resolved.push_back(symbols().resolve(size));
  return resolved;
}

const SymTensor *NodeImport::sym(size_t i) {
  return hasInput(i) ? importer.getSym(node.inputs[i]) : nullptr;
}

const Tensor *NodeImport::constant(size_t i) {
  return hasInput(i) ? importer.getConstant(node.inputs[i]) : nullptr;
}

void NodeImport::output(size_t i, Value value) {
  if (!hasOutput(i) || !value)
    return;
  SymExpr bytes = numBytes(value.getType());
  auto constant = bytes.asConstant();
  if (bytes.overflowed() || (constant && *constant > (int64_t(1) << 46)))
    (void)fail("its result " + llvm::Twine(i) + " is absurdly large");
  importer.setValue(node.outputs[i], value);
}

int64_t NodeImport::getInt(StringRef name, int64_t otherwise) const {
  const onnxfile::Attribute *a = node.find(name.str());
  return a && a->kind == onnxfile::Attribute::Kind::Int ? a->i : otherwise;
}

float NodeImport::getFloat(StringRef name, float otherwise) const {
  const onnxfile::Attribute *a = node.find(name.str());
  return a && a->kind == onnxfile::Attribute::Kind::Float ? a->f : otherwise;
}

std::string NodeImport::getString(StringRef name, StringRef otherwise) const {
  const onnxfile::Attribute *a = node.find(name.str());
  return a && a->kind == onnxfile::Attribute::Kind::String ? a->s
                                                           : otherwise.str();
}

std::optional<std::vector<int64_t>> NodeImport::getInts(StringRef name) const {
  const onnxfile::Attribute *a = node.find(name.str());
  if (!a || a->kind != onnxfile::Attribute::Kind::Ints)
    return std::nullopt;
  return a->ints;
}

LogicalResult NodeImport::fail(const Twine &why) {
  importer.problems.push_back({&node, why.str()});
  return failure();
}

LogicalResult NodeImport::equate(const SymExpr &a, const SymExpr &b,
                                 const Twine &what) {
  if (symbols().unify(a, b))
    return success();
  return fail("expected equal sizes of " + what + ", found " +
              symbols().resolve(a).str() + " and " +
              symbols().resolve(b).str());
}

static std::string spell(ArrayRef<SymExpr> shape) {
  std::string text = "[";
  for (const SymExpr &size : shape)
    text += (text.size() > 1 ? ", " : "") + size.str();
  return text + "]";
}

FailureOr<SymShape> NodeImport::broadcast(ArrayRef<SymShape> shapes) {
  SymShape result;
  for (const SymShape &shape : shapes) {
    SymShape longer = shape.size() > result.size() ? shape : result;
    const SymShape &shorter = shape.size() > result.size() ? result : shape;
    size_t skip = longer.size() - shorter.size();
    for (size_t i = 0; i < shorter.size(); ++i) {
      SymExpr a = symbols().resolve(longer[skip + i]);
      SymExpr b = symbols().resolve(shorter[i]);
      // x[:1] is one element wide where it meets another size.
      if (a != b && b != SymExpr(1) && symbols().learnOne(a))
        longer[skip + i] = a = 1;
      if (a != b && a != SymExpr(1) && symbols().learnOne(b))
        b = 1;
      if (b == SymExpr(1) || a == b)
        continue;
      if (a != SymExpr(1) && !symbols().unify(a, b))
        return fail("shapes " + spell(result) + " and " + spell(shape) +
                    " do not broadcast");
      longer[skip + i] = a == SymExpr(1) || b.isConstant() ? b : a;
    }
    result = longer;
  }
  return result;
}

LogicalResult NodeImport::checkBroadcast(ArrayRef<Value> values) {
  SmallVector<SymShape> shapes;
  for (Value value : values)
    shapes.push_back(getSymShape(value));
  return broadcast(shapes);
}

FailureOr<int64_t> NodeImport::axis(int64_t value, int64_t rank) {
  if (auto axis = normalizeAxis(value, rank))
    return *axis;
  return fail("axis " + Twine(value) + " is out of range for rank " +
              Twine(rank));
}

FailureOr<SmallVector<int64_t>>
NodeImport::distinctAxes(ArrayRef<int64_t> values, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t value : values) {
    auto normal = axis(value, rank);
    if (failed(normal))
      return failure();
    if (llvm::is_contained(result, *normal))
      return fail("axis " + Twine(value) + " is given twice, expected " +
                  "distinct axes of rank " + Twine(rank));
    result.push_back(*normal);
  }
  return result;
}

FailureOr<std::optional<std::vector<int64_t>>>
NodeImport::axes(StringRef attribute, size_t inputIndex) {
  using Axes = std::optional<std::vector<int64_t>>;
  if (auto ints = getInts(attribute))
    return Axes(*ints);
  if (!hasInput(inputIndex))
    return Axes();
  auto values = constants(inputIndex, "axes");
  if (failed(values))
    return failure();
  return Axes(*values);
}

LogicalResult NodeImport::failUnknown(size_t i, const Twine &what) {
  std::string why =
      hasInput(i) ? importer.whyUnknown(node.inputs[i]) : "it is absent";
  return fail("the " + what + " (input " + Twine(i) + ") " +
              (why.empty() ? "depends on data" : "is not known: " + why) +
              "; only values that follow from constants and the sizes of the "
              "inputs are supported: compute it from these, or export the "
              "model with a fixed value");
}

FailureOr<std::vector<int64_t>> NodeImport::constants(size_t i,
                                                      const Twine &what) {
  const SymTensor *value = sym(i);
  if (!value)
    return failUnknown(i, what);
  auto result = value->constants();
  if (!result)
    return fail("expected the " + what + " (input " + Twine(i) +
                ") to be constant, found " + spell(value->values) +
                "; give the symbols fixed values (--dim)");
  return *result;
}

std::optional<std::vector<double>> NodeImport::reals(size_t i) {
  const SymElements *elements =
      hasInput(i) ? importer.getElements(node.inputs[i]) : nullptr;
  if (!elements || !elements->isConstant())
    return std::nullopt;
  std::vector<double> result;
  for (const SymElement &e : elements->values)
    result.push_back(e.real ? *e.real : double(*e.num.asConstant()));
  return result;
}

FailureOr<SymShape> NodeImport::sizes(size_t i, StringRef what) {
  const SymTensor *value = sym(i);
  if (!value)
    return failUnknown(i, what);
  if (value->dims.size() > 1)
    return fail("expected a " + what + " of rank 1");
  SymShape result;
  for (const SymExpr &e : value->values)
    result.push_back(symbols().resolve(e));
  return result;
}

Value NodeImport::reshape(Value value, ArrayRef<SymExpr> shape) {
  RankedTensorType type = getTensorType(shape, elementType(value));
  if (value.getType() == type)
    return value;
  return ReshapeOp::create(builder, loc, type, value);
}

Value NodeImport::transpose(Value value, ArrayRef<int64_t> perm) {
  return TransposeOp::create(builder, loc, value, perm);
}

Value NodeImport::cast(Value value, Type element) {
  if (elementType(value) == element)
    return value;
  return CastOp::create(builder, loc, withElementType(value.getType(), element),
                        value, /*no_saturate=*/UnitAttr());
}

Value NodeImport::scalar(double value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (isa<FloatType>(element))
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, builder.getFloatAttr(element, value)));
  return ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getIntegerAttr(element, static_cast<int64_t>(value))));
}

Value NodeImport::extreme(Type element, bool least) {
  auto type = RankedTensorType::get({}, element);
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat endless = APFloat::getInf(floating.getFloatSemantics(), least);
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(type, endless));
  }
  unsigned width = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger();
  APInt value = least ? (isUnsigned ? APInt::getMinValue(width)
                                    : APInt::getSignedMinValue(width))
                      : (isUnsigned ? APInt::getMaxValue(width)
                                    : APInt::getSignedMaxValue(width));
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, value));
}

Value NodeImport::places(const SymExpr &count, int64_t axis, int64_t rank,
                         const SymExpr &start) {
  MLIRContext *context = builder.getContext();
  SymShape line(rank, SymExpr(1));
  line[axis] = count;
  return reshape(
      IotaOp::create(builder, loc, getTensorType({count}, builder.getI64Type()),
                     getExprAttr(context, start), getExprAttr(context, 1)),
      line);
}

Value NodeImport::slice(Value value, int64_t axis, const SymExpr &start,
                        const SymExpr &count) {
  SymShape shape = getSymShape(value);
  SymShape starts(shape.size(), SymExpr(0));
  starts[axis] = start;
  shape[axis] = count;
  return SliceOp::create(
      builder, loc, getTensorType(shape, elementType(value)), value,
      getExprsAttr(builder.getContext(), starts),
      builder.getDenseI64ArrayAttr(SmallVector<int64_t>(shape.size(), 1)));
}

Value NodeImport::expand(Value value, ArrayRef<SymExpr> shape) {
  RankedTensorType type = getTensorType(shape, elementType(value));
  if (value.getType() == type)
    return value;
  return ExpandOp::create(builder, loc, type, value);
}

FailureOr<Value> NodeImport::plusInput(Value value, size_t i) {
  if (!hasInput(i))
    return value;
  if (failed(checkBroadcast({value, input(i)})))
    return failure();
  return Value(AddOp::create(builder, loc, value, input(i)));
}
