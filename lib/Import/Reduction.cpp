//===- Reduction.cpp - Reductions, softmax, cumulative sums ---------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

/// The axes to reduce over, ascending; all of them when none are given. An
/// empty list with `noop_with_empty_axes` reduces nothing.
static FailureOr<SmallVector<int64_t>> reducedAxes(NodeImport &n) {
  auto given = n.axes("axes", 1);
  if (failed(given))
    return failure();
  int64_t rank = n.rank(0);
  SmallVector<int64_t> result;
  if (!*given || (*given)->empty()) {
    if (!n.getInt("noop_with_empty_axes", 0))
      result.assign(llvm::seq(rank).begin(), llvm::seq(rank).end());
    return result;
  }
  auto distinct = n.distinctAxes(**given, rank);
  if (succeeded(distinct))
    llvm::sort(*distinct);
  return distinct;
}

template <typename OpTy>
static Value reduce(NodeImport &n, Value x, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return x;
  return OpTy::create(n.builder, n.loc, x, axes, n.getInt("keepdims", 1) != 0);
}

namespace {
enum class Pre { None, Abs, Square, Exp };
enum class Post { None, Sqrt, Log };
} // namespace

static Value apply(NodeImport &n, Pre pre, Value x) {
  switch (pre) {
  case Pre::None:
    return x;
  case Pre::Abs:
    return AbsOp::create(n.builder, n.loc, x);
  case Pre::Square:
    return MulOp::create(n.builder, n.loc, x, x);
  case Pre::Exp:
    return ExpOp::create(n.builder, n.loc, x);
  }
  return x;
}

template <typename OpTy, Pre pre = Pre::None, Post post = Post::None>
static LogicalResult reduction(NodeImport &n) {
  auto axes = reducedAxes(n);
  if (failed(axes))
    return failure();
  Value x = apply(n, pre, n.input(0));
  x = reduce<OpTy>(n, x, *axes);
  if (post == Post::Sqrt)
    x = SqrtOp::create(n.builder, n.loc, x);
  if (post == Post::Log)
    x = LogOp::create(n.builder, n.loc, x);
  n.output(0, x);
  return success();
}

/// log(sum(exp(x - max))) + max, which does not overflow.
static LogicalResult logSumExp(NodeImport &n) {
  auto axes = reducedAxes(n);
  if (failed(axes))
    return failure();
  Value x = n.input(0);
  if (axes->empty()) {
    n.output(0, x);
    return success();
  }
  if (!isa<FloatType>(elementType(x)))
    return n.fail("expected a floating-point input");
  Value top = ReduceMaxOp::create(n.builder, n.loc, x, *axes, true);
  // An infinite maximum leaves no difference to take.
  Value infinite = IsInfOp::create(n.builder, n.loc, top, true, true);
  Value safe = WhereOp::create(n.builder, n.loc, infinite,
                               n.scalar(0, elementType(x)), top);
  Value shifted = SubOp::create(n.builder, n.loc, x, safe);
  Value sum = ReduceSumOp::create(
      n.builder, n.loc, ExpOp::create(n.builder, n.loc, shifted), *axes, true);
  Value result = AddOp::create(n.builder, n.loc,
                               LogOp::create(n.builder, n.loc, sum), safe);
  if (!n.getInt("keepdims", 1)) {
    SymShape shape;
    for (auto [axis, size] : llvm::enumerate(getSymShape(x)))
      if (!llvm::is_contained(*axes, static_cast<int64_t>(axis)))
        shape.push_back(size);
    result = n.reshape(result, shape);
  }
  n.output(0, result);
  return success();
}

template <bool smallest>
static LogicalResult argExtreme(NodeImport &n) {
  auto axis = n.axis(n.getInt("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  n.output(0,
           ArgMaxOp::create(n.builder, n.loc, n.input(0), *axis,
                            n.getInt("keepdims", 1) != 0,
                            n.getInt("select_last_index", 0) != 0, smallest));
  return success();
}

template <bool log>
static LogicalResult softmax(NodeImport &n) {
  Value x = n.input(0);
  if (n.rank(0) == 0) { // one element: its own sum
    n.output(0, n.scalar(log ? 0 : 1, elementType(x)));
    return success();
  }
  auto axis = n.axis(n.getInt("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  n.output(0, SoftmaxOp::create(n.builder, n.loc, x, *axis, log));
  return success();
}

static LogicalResult cumSum(NodeImport &n) {
  auto constants = n.constants(1, "axis");
  if (failed(constants))
    return failure();
  if (constants->size() != 1)
    return n.fail("expected one axis, found " + Twine(constants->size()));
  auto axis = n.axis((*constants)[0], n.rank(0));
  if (failed(axis))
    return failure();
  n.output(0, CumSumOp::create(n.builder, n.loc, n.input(0), *axis,
                               n.getInt("exclusive", 0) != 0,
                               n.getInt("reverse", 0) != 0));
  return success();
}

/// i1 maxima and minima are disjunctions and conjunctions.
template <typename OpTy, typename BoolOpTy>
static LogicalResult extreme(NodeImport &n) {
  return elementType(n.input(0)).isInteger(1) ? reduction<BoolOpTy>(n)
                                              : reduction<OpTy>(n);
}

void fusion::addReductionHandlers(HandlerMap &map) {
  map["::ReduceSum"] = reduction<ReduceSumOp>;
  map["::ReduceMean"] = reduction<ReduceMeanOp>;
  map["::ReduceMax"] = extreme<ReduceMaxOp, ReduceOrOp>;
  map["::ReduceMin"] = extreme<ReduceMinOp, ReduceAndOp>;
  map["::ReduceProd"] = reduction<ReduceProdOp>;
  map["::ReduceL1"] = reduction<ReduceSumOp, Pre::Abs>;
  map["::ReduceL2"] = reduction<ReduceSumOp, Pre::Square, Post::Sqrt>;
  map["::ReduceSumSquare"] = reduction<ReduceSumOp, Pre::Square>;
  map["::ReduceLogSum"] = reduction<ReduceSumOp, Pre::None, Post::Log>;
  map["::ReduceLogSumExp"] = logSumExp;
  map["::ArgMax"] = argExtreme<false>;
  map["::ArgMin"] = argExtreme<true>;
  map["::Softmax"] = softmax<false>;
  map["::LogSoftmax"] = softmax<true>;
  map["::CumSum"] = cumSum;
}
