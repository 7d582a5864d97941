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

/// transBatch says that the axis before the last one stands in front of the
/// batch: [rows, batch.., columns] becomes [batch.., rows, columns].
static FailureOr<Value> batchFirst(NodeImport &n, size_t input,
                                   StringRef attribute) {
  int64_t rank = n.rank(input);
  if (!isTrue(n, attribute))
    return n.input(input);
  if (rank < 3)
    return n.fail(attribute + " needs an operand of rank 3 or more, found " +
                  Twine(rank));
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(1, rank - 1));
  perm.append({0, rank - 1});
  return n.transpose(n.input(input), perm);
}

static LogicalResult fusedMatmul(NodeImport &n) {
  auto a = batchFirst(n, 0, "transBatchA");
  auto b = failed(a) ? a : batchFirst(n, 1, "transBatchB");
  if (failed(b))
    return failure();
  auto result = product(n, *a, *b, isTrue(n, "transA"), isTrue(n, "transB"));
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
  auto result = gemmOf(n);
  if (failed(result))
    return failure();
  SmallVector<float> parameters;
  for (StringRef name : {"activation_alpha", "activation_beta"})
    if (n.node.find(name.str()))
      parameters.push_back(n.getFloat(name, 0));
  result = activate(n, *result, parameters);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

void fusion::addLinearHandlers(HandlerMap &map) {
  map["::MatMul"] = matmul;
  map["::Gemm"] = gemm;
  map["com.microsoft::FusedGemm"] = fusedGemm;
  map["com.microsoft::FusedMatMul"] = fusedMatmul;
  map["com.microsoft::TransposeMatMul"] = fusedMatmul; // its old name
}
