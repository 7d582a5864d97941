//===- ComputeType.cpp - An fp32 model deployed in 16 bits ----------------===//

#include "KeptTypes.h"

#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Raise/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fusion {
#define GEN_PASS_DEF_SETCOMPUTETYPE
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {

/// Rounds; finite values stay finite.
APFloat narrow(APFloat value, FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  bool finite = value.isFinite(), loses;
  value.convert(semantics, APFloat::rmNearestTiesToEven, &loses);
  if (finite && !value.isFinite())
    value = APFloat::getLargest(semantics, value.isNegative());
  return value;
}

/// Gives the values of one function their types, from the first op on.
class Retyper {
public:
  Retyper(func::FuncOp main, FloatType type)
      : main(main), type(type), kept(main.front()) {}

  void run() {
    retypeStates();
    for (Operation &op : llvm::make_early_inc_range(main.front()))
      if (!isa<fusion::ConstantOp, WeightOp>(op))
        rewrite(&op);
    clampConstants();
    for (const auto &entry : constants)
      if (entry.first.use_empty())
        entry.first.getDefiningOp()->erase();
  }

private:
  void retypeStates() {
    for (BlockArgument argument : main.getArguments())
      if (isF32(argument) &&
          main.getArgAttr(argument.getArgNumber(), FusionDialect::kStateAttr))
        setElement(argument, type);
    main.setFunctionType(
        FunctionType::get(main.getContext(), main.front().getArgumentTypes(),
                          main.getFunctionType().getResults()));
  }

  /// Keeps shape and storage.
  void setElement(Value value, Type element) {
    value.setType(cast<RankedTensorType>(value.getType()).clone(element));
    if (element == type)
      retyped.insert(value);
  }

  /// The type that an op computes in: that of its result, or for a test of
  /// floats that of the widest operand.
  Type computeType(Operation *op) {
    if (op->getNumResults() == 1 && isF32(op->getResult(0)))
      return kept.contains(op->getResult(0))
                 ? Float32Type::get(op->getContext())
                 : Type(type);
    bool all = llvm::all_of(op->getOperands(), [&](Value v) {
      return !isRetyped(v) || kept.contains(v);
    });
    return all ? Float32Type::get(op->getContext()) : Type(type);
  }

  void rewrite(Operation *op) {
    if (auto returned = dyn_cast<func::ReturnOp>(op))
      return rewriteReturn(returned);
    if (auto convert = dyn_cast<CastOp>(op))
      return rewriteCast(convert);
    Type element = computeType(op);
    for (OpOperand &operand : op->getOpOperands())
      if (isRetyped(operand.get()) && !isFree(operand))
        operand.set(as(operand.get(), element, op));
    if (op->getNumResults() == 1 && isF32(op->getResult(0)))
      setElement(op->getResult(0), element);
  }

  /// An operand that is fp32 or was.
  bool isRetyped(Value value) const {
    return isF32(value) || retyped.contains(value);
  }

  /// Operands that may be of another type than the result.
  bool isFree(OpOperand &operand) {
    unsigned i = operand.getOperandNumber();
    Value value = operand.get();
    bool stays = kept.contains(value) || !isF32(value);
    return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
        .Case<RopeOp, RmsNormOp, LayerNormOp>(
            [&](Operation *) { return i > 0 && stays; })
        .Case([&](AttentionOp op) { return value == op.getBias() && stays; })
        .Case([&](PowOp) { return i == 1 && stays; })
        .Case<DequantizeOp, ArgMaxOp, IsNanOp, IsInfOp>(
            [](Operation *) { return true; })
        .Default(false);
  }

  void rewriteCast(CastOp op) {
    if (!isF32(op.getResult()))
      return;
    setElement(op.getResult(), computeType(op));
    // A rounding that has become one of a type to itself.
    if (op.getInput().getType() == op.getType()) {
      op.replaceAllUsesWith(op.getInput());
      op.erase();
    }
  }

  /// The model's outputs keep their types.
  void rewriteReturn(func::ReturnOp op) {
    OpBuilder builder(op);
    for (auto [operand, result] :
         llvm::zip(op->getOpOperands(), main.getResultTypes())) {
      Value value = operand.get();
      if (elementType(value) == elementType(result))
        continue;
      operand.set(CastOp::create(builder, value.getLoc(), result, value));
    }
  }

  /// `value` in another element type, for one user.
  Value as(Value value, Type element, Operation *user) {
    if (elementType(value) == element)
      return value;
    bool constant =
        isa_and_nonnull<fusion::ConstantOp, WeightOp>(value.getDefiningOp());
    if (constant && !isScalarConstant(value))
      return narrowConstant(value);
    if (element == type)
      narrowed.insert(value);
    OpBuilder builder(user);
    auto to =
        logicalType(cast<RankedTensorType>(value.getType()).clone(element));
    return CastOp::create(builder, user->getLoc(), to, value);
  }

  /// A weight or constant in the 16-bit type, one for all its users.
  Value narrowConstant(Value value) {
    Value &result = constants[value];
    if (result)
      return result;
    Operation *op = value.getDefiningOp();
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    auto to = cast<RankedTensorType>(value.getType()).clone(type);
    if (auto weight = dyn_cast<WeightOp>(op)) {
      WeightRefAttr source = weight.getSource();
      result = WeightOp::create(
          builder, op->getLoc(), to, weight.getNameAttr(),
          WeightRefAttr::get(op->getContext(), source.getFile(),
                             source.getOffset(), source.getLength(),
                             Float32Type::get(op->getContext())));
      return result;
    }
    auto dense =
        cast<DenseElementsAttr>(cast<fusion::ConstantOp>(op).getValue());
    result = fusion::ConstantOp::create(
        builder, op->getLoc(),
        cast<DenseElementsAttr>(dense.mapValues(type, [&](const APFloat &x) {
          return narrow(x, type).bitcastToAPInt();
        })));
    return result;
  }

  /// A mask's lowest float would become an infinity where the mask is rounded,
  /// and rows that see nothing NaN.
  void clampConstants() {
    SmallVector<Value> work(narrowed.begin(), narrowed.end());
    llvm::DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!op || !isF32(value) || !seen.insert(value).second)
        continue;
      if (auto constant = dyn_cast<fusion::ConstantOp>(op))
        clamp(constant);
      else if (auto fusable = dyn_cast<FusableOpInterface>(op);
               fusable && llvm::is_contained({OpClass::Elementwise,
                                              OpClass::View, OpClass::Gather},
                                             fusable.getOpClass()))
        llvm::append_range(work, op->getOperands());
    }
  }

  void clamp(fusion::ConstantOp constant) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    auto widest = APFloat::getLargest(type.getFloatSemantics());
    bool loses;
    widest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &loses);
    auto clamped =
        dense.mapValues(dense.getElementType(), [&](const APFloat &x) {
          bool over = x.isFinite() && abs(x) > widest;
          return (over ? x.isNegative() ? neg(widest) : widest : x)
              .bitcastToAPInt();
        });
    constant.setValueAttr(cast<DenseElementsAttr>(clamped));
  }

  func::FuncOp main;
  FloatType type;
  KeptTypes kept;
  llvm::DenseMap<Value, Value> constants;
  llvm::DenseSet<Value> retyped;
  llvm::SetVector<Value> narrowed;
};

struct SetComputeTypePass final
    : fusion::impl::SetComputeTypeBase<SetComputeTypePass> {
  using SetComputeTypeBase::SetComputeTypeBase;

  void runOnOperation() override {
    func::FuncOp main = getOperation();
    if (main.isDeclaration())
      return;
    if (failed(checkGraph(main)))
      return signalPassFailure();
    MLIRContext *context = &getContext();
    if (type == "bf16")
      return Retyper(main, BFloat16Type::get(context)).run();
    if (type == "fp16")
      return Retyper(main, Float16Type::get(context)).run();
    main.emitError() << "unknown compute type '" << type
                     << "', expected bf16 or fp16";
    signalPassFailure();
  }
};
} // namespace
