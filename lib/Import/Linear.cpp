//===- Linear.cpp - Matrix products ---------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

static bool isTrue(NodeImport &n, StringRef attribute) {
  return n.getInt(attribute, 0) != 0;
}

/// Merges the contracted and the batch sizes, and builds the product.
static FailureOr<Value> product(NodeImport &n, Value lhs, Value rhs,
                                bool transposeLhs, bool transposeRhs) {
  SymShape a = getSymShape(lhs), b = getSymShape(rhs);
  if (a.empty() || b.empty())
    return n.fail("expected operands of rank 1 or more");
  if ((transposeLhs && a.size() < 2) || (transposeRhs && b.size() < 2))
    return n.fail("expected operands of rank 2 or more");
  SymExpr k = transposeLhs ? a[a.size() - 2] : a.back();
  SymExpr k2 = b.size() == 1 || transposeRhs ? b.back() : b[b.size() - 2];
  if (failed(n.equate(k, k2, "the contracted axes")))
    return failure();
  auto batch = [](const SymShape &s) {
    return SymShape(s.begin(), s.size() > 2 ? s.end() - 2 : s.begin());
  };
  if (failed(n.broadcast({batch(a), batch(b)})))
    return failure();
  return Value(
      MatmulOp::create(n.builder, n.loc, lhs, rhs, transposeLhs, transposeRhs));
}

static LogicalResult matmul(NodeImport &n) {
  auto result = product(n, n.input(0), n.input(1), false, false);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

static Value scaled(NodeImport &n, Value value, float factor) {
  if (factor == 1.0f)
    return value;
  return MulOp::create(n.builder, n.loc, value,
                       n.scalar(factor, elementType(value)));
}

static LogicalResult fusedMatmul(NodeImport &n) {
  if (isTrue(n, "transBatchA") || isTrue(n, "transBatchB"))
    return n.fail("transBatchA and transBatchB are not supported");
  auto result = product(n, n.input(0), n.input(1), isTrue(n, "transA"),
                        isTrue(n, "transB"));
  if (failed(result))
    return failure();
  n.output(0, scaled(n, *result, n.getFloat("alpha", 1.0f)));
  return success();
}

/// alpha * A * B + beta * C
static FailureOr<Value> gemmOf(NodeImport &n) {
  if (n.rank(0) != 2 || n.rank(1) != 2)
    return n.fail("expected operands of rank 2");
  auto result = product(n, n.input(0), n.input(1), isTrue(n, "transA"),
                        isTrue(n, "transB"));
  if (failed(result))
    return failure();
  Value value = scaled(n, *result, n.getFloat("alpha", 1.0f));
  float beta = n.getFloat("beta", 1.0f);
  if (n.hasInput(2) && beta != 0.0f) {
    Value bias = n.input(2);
    auto shape = n.broadcast({getSymShape(value), getSymShape(bias)});
    if (failed(shape))
      return failure();
    if (shape->size() != 2)
      return n.fail("the bias does not broadcast to rank 2");
    value = AddOp::create(n.builder, n.loc, value, scaled(n, bias, beta));
  }
  return value;
}

static LogicalResult gemm(NodeImport &n) {
  auto result = gemmOf(n);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

static LogicalResult fusedGemm(NodeImport &n) {
  std::string activation = n.getString("activation", "");
  auto result = gemmOf(n);
  if (failed(result))
    return failure();
  Value value = *result;
  if (activation == "Relu")
    value = ReluOp::create(n.builder, n.loc, value);
  else if (activation == "Tanh")
    value = TanhOp::create(n.builder, n.loc, value);
  else if (activation == "Sigmoid")
    value = SigmoidOp::create(n.builder, n.loc, value);
  else if (!activation.empty())
    return n.fail("the activation '" + activation +
                  "' is not supported; expected Relu, Tanh or Sigmoid");
  n.output(0, value);
  return success();
}

void fusion::addLinearHandlers(HandlerMap &map) {
  map["::MatMul"] = matmul;
  map["::Gemm"] = gemm;
  map["com.microsoft::FusedGemm"] = fusedGemm;
  map["com.microsoft::FusedMatMul"] = fusedMatmul;
}
