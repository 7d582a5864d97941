//===- KeptTypes.cpp - Which fp32 values stay fp32 ------------------------===//

#include "KeptTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// Arithmetic on constants is left to Link, in fp32, up to this many elements.
static constexpr int64_t kMostEvaluatedElements = 1 << 22;

static bool isFloat(Value value) { return isa<FloatType>(elementType(value)); }

bool raise::isF32(Value value) { return elementType(value).isF32(); }

bool raise::isScalarConstant(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant && constant.getValue().getNumElements() == 1;
}

static OpClass classOf(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return fusable ? fusable.getOpClass() : OpClass::Opaque;
}

/// True when the cache is an input of the model and not the session's.
static bool isExposedCache(Value past) {
  auto argument = dyn_cast<BlockArgument>(past);
  auto main = argument
                  ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                  : func::FuncOp();
  return main &&
         !main.getArgAttr(argument.getArgNumber(), FusionDialect::kStateAttr);
}

/// Sums and elementwise arithmetic of any operands, constants among them: kept
/// when nothing in them is an activation.
bool KeptTypes::isKeptArithmetic(Operation *op) {
  bool onlyConstants = true;
  for (Value operand : op->getOperands()) {
    if (!isFloat(operand))
      continue;
    if (!contains(operand) && !isConstant(operand))
      return false;
    onlyConstants &= isConstant(operand) || isScalarConstant(operand);
  }
  auto count = numElements(op->getResult(0).getType()).asConstant();
  return !onlyConstants || !count || *count <= kMostEvaluatedElements;
}

/// Angles: frequencies times positions. A large constant is a weight.
bool KeptTypes::isKeptProduct(MatmulOp op) {
  auto isSmall = [&](Value value) {
    while (Operation *def = value.getDefiningOp()) {
      if (classOf(def) != OpClass::View)
        return isa<ConstantOp>(def);
      value = def->getOperand(0);
    }
    return false;
  };
  return (contains(op.getLhs()) || isSmall(op.getLhs())) &&
         (contains(op.getRhs()) || isSmall(op.getRhs())) &&
         (contains(op.getLhs()) || contains(op.getRhs()));
}

bool KeptTypes::isKept(Operation *op) {
  if (auto cast = dyn_cast<CastOp>(op))
    return !isFloat(cast.getInput()) ||
           (elementBits(elementType(cast.getInput())) < 32 &&
            !isConstant(cast.getInput()));
  if (auto append = dyn_cast<KvAppendOp>(op))
    return isExposedCache(append.getPast());
  if (auto product = dyn_cast<MatmulOp>(op))
    return isKeptProduct(product);
  // Tables and weights beside the input do not decide.
  if (isa<RopeOp, RmsNormOp, LayerNormOp, AttentionOp, SoftmaxOp>(op))
    return contains(op->getOperand(0));
  if (isa<DequantizeOp>(op))
    return false;
  if (isa<CumSumOp, IotaOp>(op))
    return true;
  switch (classOf(op)) {
  case OpClass::Constant:
    return isScalarConstant(op->getResult(0));
  case OpClass::Reduction:
    return true;
  case OpClass::Elementwise:
    return isKeptArithmetic(op);
  case OpClass::View:
    return contains(op->getOperand(0));
  default: // moves elements of its operands
    return llvm::all_of(op->getOperands(),
                        [&](Value v) { return !isFloat(v) || contains(v); });
  }
}

/// What only statistics read: a square whose mean is taken may exceed fp16.
bool KeptTypes::isStatistic(Operation *op) {
  if (classOf(op) != OpClass::Elementwise || isa<RopeOp, DequantizeOp>(op) ||
      op->use_empty())
    return false;
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    bool reads = classOf(user) == OpClass::Reduction ||
                 (classOf(user) == OpClass::Elementwise && !isa<CastOp>(user));
    return reads && contains(user->getResult(0));
  });
}

void KeptTypes::visit(Operation *op) {
  if (op->getNumResults() != 1)
    return;
  Value result = op->getResult(0);
  bool ofConstant =
      classOf(op) == OpClass::View && isConstant(op->getOperand(0));
  if (classOf(op) == OpClass::Constant ||
      (ofConstant && !contains(op->getOperand(0))) ||
      (isa<DequantizeOp>(op) && isConstant(op->getOperand(0))))
    constants.insert(result);
  if (isF32(result) && isKept(op))
    kept.insert(result);
}

bool KeptTypes::request(Value value) {
  llvm::SetVector<Value> slice;
  slice.insert(value);
  for (size_t i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (!op || contains(slice[i]) || classOf(op) == OpClass::Constant)
      continue;
    bool light = llvm::is_contained({OpClass::Elementwise, OpClass::View,
                                     OpClass::Gather, OpClass::Reduction},
                                    classOf(op)) &&
                 !isa<RopeOp>(op);
    if (!light)
      return false;
    for (Value operand : op->getOperands())
      if (isF32(operand))
        slice.insert(operand);
  }
  for (Value v : slice)
    if (Operation *op = v.getDefiningOp();
        op && isF32(v) && classOf(op) != OpClass::Constant)
      kept.insert(v);
  return true;
}

/// A bias of products (relative positions) is rounded, the numbers that hide
/// are not: beside the least one of fp16 a score still counts.
void KeptTypes::requestMask(Value bias) {
  Operation *op = bias.getDefiningOp();
  if (!isF32(bias) || contains(bias) || request(bias) || !op ||
      !isa<AddOp, WhereOp, MaxOp>(op))
    return;
  kept.insert(bias);
  for (Value operand : op->getOperands())
    requestMask(operand);
}

KeptTypes::KeptTypes(Block &block) {
  for (Operation &op : block)
    visit(&op);
  for (Operation &op : block) {
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](RopeOp rope) {
          request(rope.getCos());
          request(rope.getSin());
        })
        .Case([&](AttentionOp attention) {
          if (attention.getBias())
            requestMask(attention.getBias());
        })
        .Case([&](DequantizeOp dequantize) {
          request(dequantize.getScale());
          if (dequantize.getZeroPoint())
            request(dequantize.getZeroPoint());
        })
        .Case<SinOp, CosOp, TanOp>(
            [&](Operation *angle) { request(angle->getOperand(0)); });
  }
  for (Operation &op : llvm::reverse(block))
    if (op.getNumResults() == 1 && isF32(op.getResult(0)) && isStatistic(&op))
      kept.insert(op.getResult(0));
}
