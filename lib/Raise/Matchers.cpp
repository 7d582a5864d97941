//===- Matchers.cpp - Sub-matchers that raising patterns share ------------===//

#include "Matchers.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

std::string Mismatch::str() const {
  std::string text = code.str() + " at " + describe(at) + ": expected " +
                     expected + ", found " + found;
  return text;
}

LogicalResult Trace::fail(StringRef code, Operation *at, const Twine &expected,
                          const Twine &found) {
  // What stops at a cast stops at its rounding.
  if (code == "PATTERN" && isa_and_nonnull<CastOp>(at))
    code = "CAST_ORDER";
  if (!furthest || steps >= furthestSteps) {
    furthest = Mismatch{code, at, expected.str(), found.str()};
    furthestSteps = steps;
  }
  return failure();
}

std::string Trace::reason() const {
  return furthest ? furthest->str() : std::string("no match");
}

std::string raise::nodeName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string name = nodeName(part); !name.empty())
        return name;
  return "";
}

std::string raise::describe(Operation *op) {
  if (!op)
    return "an argument";
  std::string name = nodeName(op->getLoc());
  std::string text = op->getName().getStringRef().str();
  return name.empty() ? text : text + " '" + name + "'";
}

std::string raise::describe(Value value) {
  return describe(value.getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

static std::optional<double> splatOf(ElementsAttr attr) {
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return std::nullopt;
  Type element = dense.getElementType();
  if (isa<FloatType>(element)) {
    APFloat value = dense.getSplatValue<APFloat>();
    bool inexact;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &inexact);
    return value.convertToDouble();
  }
  APInt value = dense.getSplatValue<APInt>();
  return element.isInteger(1) || element.isUnsignedInteger()
             ? static_cast<double>(value.getZExtValue())
             : static_cast<double>(value.getSExtValue());
}

/// `value` as the element type stores it.
static std::optional<double> roundTo(Type element, double value) {
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return std::trunc(value);
  APFloat rounded(value);
  bool inexact;
  rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &inexact);
  rounded.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &inexact);
  return rounded.convertToDouble();
}

static std::optional<double> getScalarImpl(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return splatOf(constant.getValue());
  if (auto shape = dyn_cast<ShapeValueOp>(op)) {
    if (shape.getValues().size() != 1)
      return std::nullopt;
    auto size = getExprs(shape.getValues())[0].asConstant();
    return size ? std::optional<double>(*size) : std::nullopt;
  }
  SmallVector<double, 2> in;
  if (!isa<CastOp, ReshapeOp, ExpandOp, TransposeOp, SqrtOp, RsqrtOp, SquareOp,
           ExpOp, LogOp, ReciprocalOp, NegOp, AddOp, SubOp, MulOp, DivOp,
           PowOp>(op))
    return std::nullopt;
  for (Value operand : op->getOperands()) {
    auto scalar = getScalarImpl(operand, depth - 1);
    if (!scalar)
      return std::nullopt;
    in.push_back(*scalar);
  }
  bool isReal = isa<FloatType>(elementType(value));
  if (!isReal && isa<DivOp>(op) && in[1] == 0)
    return std::nullopt;
  double result = llvm::TypeSwitch<Operation *, double>(op)
                      .Case([&](SqrtOp) { return std::sqrt(in[0]); })
                      .Case([&](RsqrtOp) { return 1 / std::sqrt(in[0]); })
                      .Case([&](SquareOp) { return in[0] * in[0]; })
                      .Case([&](ExpOp) { return std::exp(in[0]); })
                      .Case([&](LogOp) { return std::log(in[0]); })
                      .Case([&](PowOp) { return std::pow(in[0], in[1]); })
                      .Case([&](ReciprocalOp) { return 1 / in[0]; })
                      .Case([&](NegOp) { return -in[0]; })
                      .Case([&](AddOp) { return in[0] + in[1]; })
                      .Case([&](SubOp) { return in[0] - in[1]; })
                      .Case([&](MulOp) { return in[0] * in[1]; })
                      .Case([&](DivOp) { return in[0] / in[1]; })
                      .Default([&](Operation *) { return in[0]; });
  return roundTo(elementType(value), result);
}

std::optional<double> raise::getScalar(Value value) {
  return getScalarImpl(value, 12);
}

double raise::toleranceOf(Type element) {
  if (element.isBF16())
    return 1e-2;
  if (element.isF16())
    return 2e-3;
  return 2e-6;
}

bool raise::isNear(double value, double expected, double tolerance) {
  return std::abs(value - expected) <= tolerance * std::abs(expected);
}

std::optional<Scaled> raise::getScaled(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op) || !isFloat(value))
    return std::nullopt;
  for (unsigned i : {0u, 1u}) {
    if (isa<DivOp>(op) && i == 1)
      break;
    auto scalar = getScalar(other(op, i));
    Value x = op->getOperand(i);
    if (!scalar || x.getType() != value.getType() ||
        (isa<DivOp>(op) && *scalar == 0))
      continue;
    return Scaled{x, isa<DivOp>(op) ? 1 / *scalar : *scalar};
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Types and casts
//===----------------------------------------------------------------------===//

bool raise::sameShape(Value a, Value b) {
  return getSymShape(a) == getSymShape(b);
}

bool raise::isFloat(Value value) { return isa<FloatType>(elementType(value)); }

unsigned raise::floatBits(Value value) {
  auto type = dyn_cast<FloatType>(elementType(value));
  return type ? type.getWidth() : 0;
}

Value raise::stripCasts(Value value, unsigned bits) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isFloat(cast.getInput()) || !isFloat(value) || floatBits(value) < bits)
      break;
    value = cast.getInput();
  }
  return value;
}

static bool isWidening(Type from, Type to) {
  auto f = dyn_cast<FloatType>(from), t = dyn_cast<FloatType>(to);
  if (!f || !t)
    return false;
  return ((f.isBF16() || f.isF16()) && (t.isF32() || t.isF64())) ||
         (f.isF32() && t.isF64());
}

Value raise::stripWidening(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isWidening(elementType(cast.getInput()), elementType(value)))
      break;
    value = cast.getInput();
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Shapes of values
//===----------------------------------------------------------------------===//

static bool isConstantDerivedImpl(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isa<ConstantOp, WeightOp>(op))
    return true;
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable || op->getNumOperands() == 0)
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isConstantDerivedImpl(operand, depth - 1);
  });
}

bool raise::isConstantDerived(Value value) {
  return isConstantDerivedImpl(value, 6);
}

bool raise::isVectorAlongLast(Value value, Value like) {
  SymShape shape = getSymShape(value), whole = getSymShape(like);
  if (shape.empty() || shape.size() > whole.size() ||
      shape.back() != whole.back() || !isFloat(value))
    return false;
  // A vector cannot vary along another axis; of others only constants are
  // known not to be data of one token.
  if (shape.size() == 1)
    return true;
  return llvm::all_of(ArrayRef(shape).drop_back(),
                      [](const SymExpr &e) { return e == SymExpr(1); }) &&
         isConstantDerived(value);
}

Part raise::getPart(Value value) {
  SymShape shape = getSymShape(value);
  Part part{value, SymShape(shape.size(), SymExpr(0)), shape,
            SmallVector<int64_t>(shape.size(), 1)};
  while (auto slice = part.base.getDefiningOp<SliceOp>()) {
    SymShape starts = getExprs(slice.getStarts());
    for (size_t i = 0; i < starts.size(); ++i) {
      int64_t step = slice.getSteps()[i];
      part.starts[i] = starts[i] + part.starts[i] * SymExpr(step);
      part.steps[i] *= step;
    }
    part.base = slice.getInput();
  }
  return part;
}

bool raise::isPartOfLast(Value value, Value whole, int64_t start, int64_t step,
                         int64_t size) {
  Part a = getPart(value), b = getPart(whole);
  if (a.base != b.base || a.sizes.size() != b.sizes.size() || a.sizes.empty())
    return false;
  size_t last = a.sizes.size() - 1;
  for (size_t i = 0; i < last; ++i)
    if (a.starts[i] != b.starts[i] || a.steps[i] != b.steps[i] ||
        a.sizes[i] != b.sizes[i])
      return false;
  return a.sizes[last] == SymExpr(size) &&
         a.steps[last] == b.steps[last] * step &&
         a.starts[last] == b.starts[last] + SymExpr(start * b.steps[last]);
}

int64_t raise::lastSize(Value value) {
  SymShape shape = getSymShape(value);
  auto size = shape.empty() ? std::nullopt : shape.back().asConstant();
  return size ? *size : -1;
}

bool raise::leadsToSoftmax(Value value, unsigned depth) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isa<SoftmaxOp>(user))
      return true;
    return depth > 0 &&
           isa<AddOp, SubOp, MulOp, DivOp, WhereOp, TanhOp, CastOp, MaxOp,
               ReshapeOp, TransposeOp>(user) &&
           leadsToSoftmax(user->getResult(0), depth - 1);
  });
}
