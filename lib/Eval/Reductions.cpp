//===- Reductions.cpp - Evaluation of reductions --------------------------===//

#include "Detail.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;
using namespace fusion::eval::detail;

/// Where an element of the input goes in the (kept) shape of the result.
static int64_t reducedIndex(ArrayRef<int64_t> index, ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> axes) {
  int64_t flat = 0;
  for (auto [axis, i] : llvm::enumerate(index))
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      flat = flat * shape[axis] + i;
  return flat;
}

static Tensor reduceOver(const Frame &f, ArrayRef<int64_t> axes, double start,
                         function_ref<double(double, double)> combine,
                         bool mean) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  std::vector<double> sums(out.size(), start);
  // Integer sums are carried exactly up to 2^53 by doubles.
  forEach(in.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    double &sum = sums[reducedIndex(index, in.shape, axes)];
    sum = combine(sum, in.get(i));
  });
  double count = out.size() ? double(in.size()) / out.size() : 1;
  for (size_t i = 0; i < sums.size(); ++i)
    out.set(i, mean ? sums[i] / count : sums[i]);
  return out;
}

/// Calls fn(base, stride, length) for every row along `axis`.
static void forEachRow(ArrayRef<int64_t> shape, int64_t axis,
                       function_ref<void(int64_t, int64_t, int64_t)> fn) {
  int64_t inner = 1, outer = 1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (static_cast<int64_t>(i) < axis)
      outer *= size;
    if (static_cast<int64_t>(i) > axis)
      inner *= size;
  }
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      fn(o * shape[axis] * inner + i, inner, shape[axis]);
}

static Tensor softmax(const Frame &f, SoftmaxOp op) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  forEachRow(f.shape, op.getAxis(), [&](int64_t b, int64_t s, int64_t n) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < n; ++i)
      top = std::max(top, in.get(b + i * s));
    for (int64_t i = 0; i < n; ++i)
      sum += std::exp(in.get(b + i * s) - top);
    for (int64_t i = 0; i < n; ++i) {
      double x = in.get(b + i * s) - top;
      out.set(b + i * s, op.getLog() ? x - std::log(sum) : std::exp(x) / sum);
    }
  });
  return out;
}

static Tensor argMax(const Frame &f, ArgMaxOp op) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  int64_t row = 0;
  forEachRow(in.shape, op.getAxis(), [&](int64_t b, int64_t s, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
      double x = in.get(b + i * s), y = in.get(b + best * s);
      bool better = op.getSmallest() ? x < y : x > y;
      if (better || (op.getLast() && x == y))
        best = i;
    }
    out.setInt(row++, best);
  });
  return out;
}

static Tensor cumSum(const Frame &f, CumSumOp op) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  forEachRow(f.shape, op.getAxis(), [&](int64_t b, int64_t s, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      int64_t i = op.getReverse() ? n - 1 - k : k;
      double x = in.get(b + i * s);
      out.set(b + i * s, op.getExclusive() ? sum : sum + x);
      sum += x;
    }
  });
  return out;
}

eval::detail::Result eval::detail::evaluateReduction(const Frame &f,
                                                     std::string &) {
  double inf = std::numeric_limits<double>::infinity();
  auto plus = [](double a, double b) { return a + b; };
  auto larger = [](double a, double b) {
    return std::isnan(a) || a > b ? a : b;
  };
  auto smaller = [](double a, double b) {
    return std::isnan(a) || a < b ? a : b;
  };
  if (auto op = dyn_cast<ReduceSumOp>(f.op))
    return reduceOver(f, op.getAxes(), 0, plus, false);
  if (auto op = dyn_cast<ReduceMeanOp>(f.op))
    return reduceOver(f, op.getAxes(), 0, plus, true);
  if (auto op = dyn_cast<ReduceMaxOp>(f.op))
    return reduceOver(f, op.getAxes(), -inf, larger, false);
  if (auto op = dyn_cast<ReduceMinOp>(f.op))
    return reduceOver(f, op.getAxes(), inf, smaller, false);
  if (auto op = dyn_cast<ReduceProdOp>(f.op))
    return reduceOver(
        f, op.getAxes(), 1, [](double a, double b) { return a * b; }, false);
  if (auto op = dyn_cast<ReduceAndOp>(f.op))
    return reduceOver(f, op.getAxes(), 1, smaller, false);
  if (auto op = dyn_cast<ReduceOrOp>(f.op))
    return reduceOver(f, op.getAxes(), 0, larger, false);
  if (auto op = dyn_cast<SoftmaxOp>(f.op))
    return softmax(f, op);
  if (auto op = dyn_cast<ArgMaxOp>(f.op))
    return argMax(f, op);
  if (auto op = dyn_cast<CumSumOp>(f.op))
    return cumSum(f, op);
  return std::nullopt;
}
