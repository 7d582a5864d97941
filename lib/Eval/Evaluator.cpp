//===- Evaluator.cpp - Order of evaluation --------------------------------===//

#include "Detail.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;
using namespace fusion::eval::detail;

void Evaluator::bind(Value value, Tensor tensor) {
  SmallVector<Value> stale;
  if (values.contains(value))
    stale.push_back(value);
  while (!stale.empty())
    for (Operation *user : stale.pop_back_val().getUsers())
      for (Value result : user->getResults())
        if (values.erase(result))
          stale.push_back(result);
  values[value] = std::move(tensor);
}

std::optional<int64_t> Evaluator::getSize(const SymExpr &expr) {
  return expr.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    auto it = sizes.find(std::string(name));
    if (it == sizes.end())
      return std::nullopt;
    return it->second;
  });
}

FailureOr<std::vector<int64_t>> Evaluator::getShape(Type type) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const SymExpr &e : getSymShape(type)) {
    auto size = getSize(e);
    if (!size || *size < 0) {
      error = "no value for size " + e.str();
      return failure();
    }
    if (__builtin_mul_overflow(count, *size, &count) || count > maxElements) {
      error = "a tensor is larger than the limit of evaluation";
      return failure();
    }
    shape.push_back(*size);
  }
  return shape;
}

FailureOr<Tensor> Evaluator::fail(Operation *op, const Twine &why) {
  error = (op->getName().getStringRef() + ": " + why).str();
  return failure();
}

/// Operands by position, null where an optional one is absent, so that each
/// kind has a fixed place.
static SmallVector<Value> operandSlots(Operation *op) {
  if (auto d = dyn_cast<DequantizeOp>(op))
    return {d.getInput(), d.getScale(), d.getZeroPoint(), d.getGroupIndex()};
  if (auto a = dyn_cast<AttentionOp>(op))
    return {a.getQuery(),   a.getKey(),          a.getValue(),  a.getBias(),
            a.getKeyMask(), a.getValidLengths(), a.getOffsets()};
  return SmallVector<Value>(op->getOperands());
}

/// Rounds; finite values stay finite.
static Tensor narrow(const Tensor &tensor, Type element) {
  Tensor result(element, tensor.shape);
  double most =
      APFloat::getLargest(cast<FloatType>(element).getFloatSemantics())
          .convertToDouble();
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = tensor.get(i);
    if (std::isfinite(value))
      value = std::clamp(value, -most, most);
    result.set(i, value);
  }
  return result;
}

static Tensor transposed(const Tensor &tensor) {
  int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  Tensor result(tensor.element, {columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result.set(j * rows + i, tensor.get(i * columns + j));
  return result;
}

/// Whether the op would verify with operands and result of these shapes. Sizes
/// that differ as symbols may be equal when a module is verified, and differ at
/// the sizes that are tried here.
static bool shapesAgree(Operation *op,
                        const llvm::DenseMap<Value, Tensor> &values,
                        ArrayRef<int64_t> shape) {
  auto isStatic = [](Type type) {
    return cast<RankedTensorType>(type).hasStaticShape();
  };
  if (llvm::all_of(op->getOperandTypes(), isStatic) &&
      llvm::all_of(op->getResultTypes(), isStatic))
    return true;
  Block block;
  IRMapping mapping;
  for (Value v : op->getOperands())
    if (!mapping.contains(v))
      mapping.map(v, block.addArgument(
                         RankedTensorType::get(values.find(v)->second.shape,
                                               elementType(v)),
                         op->getLoc()));
  Operation *probe = op->cloneWithoutRegions(mapping);
  block.push_back(probe);
  probe->getResult(0).setType(
      RankedTensorType::get(shape, elementType(op->getResult(0))));
  // Nobody is told, and what other threads have to say is left to others.
  uint64_t self = llvm::get_threadid();
  ScopedDiagnosticHandler quiet(op->getContext(), [self](Diagnostic &) {
    return success(llvm::get_threadid() == self);
  });
  OperationName name = op->getName();
  return succeeded(name.verifyInvariants(probe)) &&
         succeeded(name.verifyRegionInvariants(probe));
}

FailureOr<Tensor> Evaluator::evaluateOp(Operation *op) {
  if (op->getNumResults() != 1)
    return fail(op, "has no evaluation");
  auto shape = getShape(op->getResult(0).getType());
  if (failed(shape))
    return failure();
  if (auto weight = dyn_cast<WeightOp>(op)) {
    auto bytes = readWeight ? readWeight(weight.getSource()) : std::nullopt;
    if (!bytes)
      return fail(op, "the weight's bytes are not at hand");
    auto tensor = Tensor::fromBytes(
        weight.getSource().getFileType(weight.getType()), *bytes);
    if (!tensor)
      return fail(op, "the weight's type is not supported");
    if (isa_and_nonnull<RankedTensorType>(weight.getSource().getStored()))
      tensor = transposed(*tensor);
    if (tensor->element == elementType(weight.getType()))
      return std::move(*tensor);
    return narrow(*tensor, elementType(weight.getType()));
  }
  SmallVector<const Tensor *> operands;
  for (Value v : operandSlots(op))
    operands.push_back(v ? &values.find(v)->second : nullptr);
  if (!shapesAgree(op, values, *shape))
    return fail(op, "the shapes of its operands do not agree at these sizes");
  Frame frame{op, operands, *shape,
              [&](const SymExpr &e) { return getSize(e); }};
  std::string why;
  for (auto evaluate :
       {evaluateElementwise, evaluateView, evaluateReduction, evaluateSemantic})
    if (auto result = evaluate(frame, why); result || !why.empty())
      return result ? FailureOr<Tensor>(std::move(*result)) : fail(op, why);
  return fail(op, "has no evaluation");
}

FailureOr<Tensor> Evaluator::evaluate(Value root) {
  error.clear();
  // An explicit stack: graphs of thousands of nodes in a chain are usual.
  SmallVector<Value> stack{root};
  while (!stack.empty()) {
    Value value = stack.back();
    if (values.contains(value)) {
      stack.pop_back();
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!op) {
      error = "a function argument has no value";
      return failure();
    }
    bool ready = true;
    for (Value operand : op->getOperands())
      if (!values.contains(operand)) {
        stack.push_back(operand);
        ready = false;
      }
    if (!ready)
      continue;
    auto tensor = evaluateOp(op);
    if (failed(tensor))
      return failure();
    values[value] = std::move(*tensor);
    stack.pop_back();
  }
  return values[root];
}
