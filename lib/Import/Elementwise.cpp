//===- Elementwise.cpp - Arithmetic, comparisons, logic, casts ------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

template <typename OpTy>
static LogicalResult unary(NodeImport &n) {
  n.output(0, OpTy::create(n.builder, n.loc, n.input(0)));
  return success();
}

template <typename OpTy>
static LogicalResult binary(NodeImport &n) {
  Value lhs = n.input(0), rhs = n.input(1);
  if (failed(n.checkBroadcast({lhs, rhs})))
    return failure();
  n.output(0, OpTy::create(n.builder, n.loc, lhs, rhs));
  return success();
}

/// Max, Min and Sum take any number of operands.
template <typename OpTy>
static FailureOr<Value> fold(NodeImport &n) {
  Value result = n.input(0);
  for (size_t i = 1; i < n.numInputs(); ++i) {
    Value next = n.input(i);
    if (failed(n.checkBroadcast({result, next})))
      return failure();
    result = OpTy::create(n.builder, n.loc, result, next);
  }
  return result;
}

template <typename OpTy>
static LogicalResult variadic(NodeImport &n) {
  auto result = fold<OpTy>(n);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

static LogicalResult mean(NodeImport &n) {
  auto sum = fold<AddOp>(n);
  if (failed(sum))
    return failure();
  Value count = n.scalar(n.numInputs(), elementType(*sum));
  n.output(0, DivOp::create(n.builder, n.loc, *sum, count));
  return success();
}

static LogicalResult mod(NodeImport &n) {
  Value lhs = n.input(0), rhs = n.input(1);
  if (failed(n.checkBroadcast({lhs, rhs})))
    return failure();
  bool fmod = n.getInt("fmod", 0) != 0;
  n.output(0, ModOp::create(n.builder, n.loc, lhs, rhs, fmod));
  return success();
}

static LogicalResult bitShift(NodeImport &n) {
  return n.getString("direction", "") == "LEFT" ? binary<ShiftLeftOp>(n)
                                                : binary<ShiftRightOp>(n);
}

static LogicalResult where(NodeImport &n) {
  Value c = n.input(0), a = n.input(1), b = n.input(2);
  if (failed(n.checkBroadcast({c, a, b})))
    return failure();
  n.output(0, WhereOp::create(n.builder, n.loc, c, a, b));
  return success();
}

static LogicalResult castTo(NodeImport &n, int32_t to) {
  Type element = getElementType(to, n.builder.getContext());
  if (!element)
    return n.fail("cannot cast to " + elemName(to));
  std::string mode = n.getString("round_mode", "up");
  if (to == Float8E8M0 && mode != "up")
    return n.fail("expected round_mode 'up', found '" + mode + "'");
  Value input = n.input(0);
  bool saturate = n.getInt("saturate", 1) != 0;
  if (to == Float8E8M0 && !saturate)
    return n.fail("expected saturate = 1 in a cast to float8e8m0");
  if (elementType(input) == element) {
    n.importer.alias(n.node.outputs[0], n.node.inputs[0]);
    return success();
  }
  n.output(0, CastOp::create(n.builder, n.loc,
                             withElementType(input.getType(), element), input,
                             saturate ? UnitAttr() : n.builder.getUnitAttr()));
  return success();
}

static LogicalResult cast(NodeImport &n) {
  int64_t to = n.getInt("to", 0);
  if (to < 0 || to > INT32_MAX)
    return n.fail("cannot cast to type " + Twine(to));
  return castTo(n, static_cast<int32_t>(to));
}

static LogicalResult castLike(NodeImport &n) {
  return castTo(n, n.importer.getElemType(n.node.inputs[1]));
}

static LogicalResult identity(NodeImport &n) {
  n.importer.alias(n.node.outputs[0], n.node.inputs[0]);
  return success();
}

/// Whether an optional operand is absent or known; `isZero` says of what value.
static bool isKnown(NodeImport &n, size_t i, bool &isZero) {
  isZero = true;
  if (!n.hasInput(i))
    return true;
  const SymTensor *sym = n.sym(i);
  if (auto values = sym ? sym->constants() : std::nullopt) {
    isZero = llvm::all_of(*values, [](int64_t value) { return value == 0; });
    return true;
  }
  const Tensor *tensor = n.constant(i);
  if (!tensor)
    return false;
  auto bytes = readTensor(*tensor);
  isZero =
      bytes && llvm::all_of(*bytes, [](uint8_t byte) { return byte == 0; });
  return bool(bytes);
}

/// Inference, or training that drops nothing: the identity, with a mask of
/// ones.
static LogicalResult dropout(NodeImport &n) {
  bool inference, dropsNothing;
  if (!isKnown(n, 2, inference))
    return n.failUnknown(2, "training mode");
  if (!inference && !isKnown(n, 1, dropsNothing))
    return n.failUnknown(1, "ratio");
  if (!inference && (!dropsNothing || !n.hasInput(1)))
    return n.fail("training_mode is not false; export the model for inference");
  n.importer.alias(n.node.outputs[0], n.node.inputs[0]);
  if (n.hasOutput(1)) {
    Value one = n.scalar(-1, n.builder.getI1Type());
    n.output(1, n.expand(one, n.shape(0)));
  }
  return success();
}

static LogicalResult isInf(NodeImport &n) {
  n.output(0, IsInfOp::create(n.builder, n.loc, n.input(0),
                              n.getInt("detect_positive", 1) != 0,
                              n.getInt("detect_negative", 1) != 0));
  return success();
}

/// min(max(x, low), high); absent bounds do not bound.
static LogicalResult clip(NodeImport &n) {
  Value value = n.input(0);
  for (size_t i : {1, 2}) {
    if (!n.hasInput(i))
      continue;
    Value bound = n.input(i);
    if (numElements(bound.getType()) != SymExpr(1))
      return n.fail("expected a scalar bound in input " + Twine(i));
    bound = n.reshape(bound, {});
    value = i == 1 ? Value(MaxOp::create(n.builder, n.loc, value, bound))
                   : Value(MinOp::create(n.builder, n.loc, value, bound));
  }
  if (value == n.input(0))
    return identity(n);
  n.output(0, value);
  return success();
}

void fusion::addElementwiseHandlers(HandlerMap &map) {
  map["::Add"] = binary<AddOp>;
  map["::Sub"] = binary<SubOp>;
  map["::Mul"] = binary<MulOp>;
  map["::Div"] = binary<DivOp>;
  map["::Pow"] = binary<PowOp>;
  map["::Mod"] = mod;
  map["::Max"] = variadic<MaxOp>;
  map["::Min"] = variadic<MinOp>;
  map["::Sum"] = variadic<AddOp>;
  map["::Mean"] = mean;
  map["::And"] = map["::BitwiseAnd"] = binary<AndOp>;
  map["::Or"] = map["::BitwiseOr"] = binary<OrOp>;
  map["::Xor"] = map["::BitwiseXor"] = binary<XorOp>;
  map["::BitShift"] = bitShift;
  map["::Equal"] = binary<EqualOp>;
  map["::Less"] = binary<LessOp>;
  map["::LessOrEqual"] = binary<LessEqualOp>;
  map["::Greater"] = binary<GreaterOp>;
  map["::GreaterOrEqual"] = binary<GreaterEqualOp>;
  map["::Where"] = where;
  map["::Cast"] = cast;
  map["::CastLike"] = castLike;
  map["::Identity"] = identity;
  map["::Dropout"] = dropout;
  map["::Clip"] = clip;
  map["::IsNaN"] = unary<IsNanOp>;
  map["::IsInf"] = isInf;
  map["::Not"] = map["::BitwiseNot"] = unary<NotOp>;
  map["::Neg"] = unary<NegOp>;
  map["::Abs"] = unary<AbsOp>;
  map["::Exp"] = unary<ExpOp>;
  map["::Log"] = unary<LogOp>;
  map["::Sqrt"] = unary<SqrtOp>;
  map["::Reciprocal"] = unary<ReciprocalOp>;
  map["::Sin"] = unary<SinOp>;
  map["::Cos"] = unary<CosOp>;
  map["::Tan"] = unary<TanOp>;
  map["::Asin"] = unary<AsinOp>;
  map["::Acos"] = unary<AcosOp>;
  map["::Atan"] = unary<AtanOp>;
  map["::Sinh"] = unary<SinhOp>;
  map["::Cosh"] = unary<CoshOp>;
  map["::Asinh"] = unary<AsinhOp>;
  map["::Acosh"] = unary<AcoshOp>;
  map["::Atanh"] = unary<AtanhOp>;
  map["::Tanh"] = unary<TanhOp>;
  map["::Erf"] = unary<ErfOp>;
  map["::Sigmoid"] = unary<SigmoidOp>;
  map["::Relu"] = unary<ReluOp>;
  map["::Softplus"] = unary<SoftplusOp>;
  map["::Floor"] = unary<FloorOp>;
  map["::Ceil"] = unary<CeilOp>;
  map["::Round"] = unary<RoundOp>;
  map["::Sign"] = unary<SignOp>;
}
