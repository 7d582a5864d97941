//===- Pool.cpp - Maxima and means of windows -----------------------------===//
//
// A window's maximum, or sum, is that of its rows': one axis after the other,
// each from one strided slice for each element of the kernel. Windows that lie
// side by side are an axis of their own.
//
//===----------------------------------------------------------------------===//

#include "Window.h"

using namespace mlir;
using namespace fusion;

namespace {
struct Pool : Window {
  using Window::Window;

  LogicalResult readKernel();
  Value combine(bool isMax, Value a, Value b);
  Value alongAxis(bool isMax, Value x, size_t axis);
  Value reduced(bool isMax, Value x);
  Value counts(size_t axis, bool withBorder);
  FailureOr<Value> mean(Value x, bool withBorder);
  Value places(bool byColumn);
  std::pair<Value, Value> maximumAndPlace(Value x, Value places);
};
} // namespace

LogicalResult Pool::readKernel() {
  int64_t rank = n.rank(0);
  auto sizes = n.getInts("kernel_shape");
  if (rank < 3 || !sizes || static_cast<int64_t>(sizes->size()) != rank - 2)
    return n.fail("expected an input [N, C, sizes..] and a kernel_shape of its "
                  "sizes, found rank " +
                  Twine(rank) + " and " + Twine(sizes ? sizes->size() : 0) +
                  " numbers");
  for (int64_t size : *sizes) {
    if (size < 1 || size > kMaxNumber)
      return n.fail("expected a kernel_shape of positive numbers, found " +
                    Twine(size));
    axes.emplace_back(size);
  }
  if (failed(read()))
    return failure();
  for (const WindowAxis &axis : axes)
    if (std::max(axis.low, axis.high) >= axis.kernel * axis.dilation)
      return n.fail("expected pads smaller than the kernel, found " +
                    Twine(std::max(axis.low, axis.high)) +
                    " beside a kernel of " + Twine(axis.kernel));
  for (const WindowAxis &axis : axes)
    if (!axis.isTiled() && axis.kernel > kMaxSlices)
      return n.fail("a kernel of more than " + Twine(kMaxSlices) +
                    " elements along an axis is supported only where its "
                    "stride is its size");
  return success();
}

Value Pool::combine(bool isMax, Value a, Value b) {
  if (isMax)
    return MaxOp::create(n.builder, n.loc, a, b);
  return AddOp::create(n.builder, n.loc, a, b);
}

/// The windows of one axis of a padded tensor.
Value Pool::alongAxis(bool isMax, Value x, size_t i) {
  const WindowAxis &axis = axes[i];
  if (axis.kernel == 1 && axis.stride == 1)
    return x;
  if (!axis.isTiled()) {
    Value result = strided(x, i, 0);
    for (int64_t k = 1; k < axis.kernel; ++k)
      result = combine(isMax, result, strided(x, i, k * axis.dilation));
    return result;
  }
  SymExpr covered = axis.out * SymExpr(axis.kernel);
  if (covered != axis.size)
    x = n.slice(x, 2 + i, 0, covered);
  SymShape split = getSymShape(x);
  split[2 + i] = axis.out;
  split.insert(split.begin() + 3 + i, SymExpr(axis.kernel));
  x = n.reshape(x, split);
  SmallVector<int64_t> reducedAxes{static_cast<int64_t>(3 + i)};
  if (isMax)
    return ReduceMaxOp::create(n.builder, n.loc, x, reducedAxes, false);
  return ReduceSumOp::create(n.builder, n.loc, x, reducedAxes, false);
}

/// The windows of a tensor, without its border.
Value Pool::reduced(bool isMax, Value x) {
  if (hasBorder())
    x = padded(x, isMax ? n.extreme(elementType(x), /*least=*/true)
                        : n.scalar(0, elementType(x)));
  for (size_t i = 0; i < axes.size(); ++i)
    x = alongAxis(isMax, x, i);
  return x;
}

/// How many elements each window has along one axis; null where that is the
/// kernel's size for all.
Value Pool::counts(size_t i, bool withBorder) {
  const WindowAxis &axis = axes[i];
  int64_t low = withBorder ? 0 : axis.low;
  int64_t high = axis.extra + (withBorder ? 0 : axis.high);
  if (!low && !high)
    return {};
  Type f32 = n.builder.getF32Type();
  SymShape shape(2 + axes.size(), SymExpr(1)), starts(shape.size(), SymExpr(0));
  shape[2 + i] = axis.size - SymExpr(low + high);
  Value ones = n.expand(n.scalar(1, f32), shape);
  starts[2 + i] = low;
  shape[2 + i] = axis.size;
  Value x = PadOp::create(n.builder, n.loc, getTensorType(shape, f32), ones,
                          n.scalar(0, f32),
                          getExprsAttr(n.builder.getContext(), starts),
                          n.builder.getStringAttr("constant"));
  return alongAxis(/*isMax=*/false, x, i);
}

/// Sums in fp32, over the number of elements that count.
FailureOr<Value> Pool::mean(Value x, bool withBorder) {
  Type element = elementType(x);
  bool widens = !element.isF64();
  Value sum =
      reduced(/*isMax=*/false, widens ? n.cast(x, n.builder.getF32Type()) : x);
  double all = 1;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    Value count = counts(i, withBorder);
    if (!count) {
      all *= double(axis.kernel);
      continue;
    }
    if (failed(n.checkBroadcast({sum, count})))
      return failure();
    sum = DivOp::create(n.builder, n.loc, sum, n.cast(count, elementType(sum)));
  }
  if (all != 1)
    sum = DivOp::create(n.builder, n.loc, sum, n.scalar(all, elementType(sum)));
  return n.cast(sum, element);
}

/// Of each element of the input its place in it, as a flat tensor.
Value Pool::places(bool byColumn) {
  SymShape shape = n.shape(0), order = shape;
  if (byColumn)
    std::reverse(order.begin() + 2, order.end());
  SymExpr count = numElements(shape);
  Value flat = n.reshape(n.places(count, 0, 1), order);
  if (!byColumn)
    return flat;
  SmallVector<int64_t> perm = {0, 1};
  for (size_t i = axes.size(); i-- > 0;)
    perm.push_back(2 + i);
  return n.transpose(flat, perm);
}

/// The first of the largest elements, and what `places` has there.
std::pair<Value, Value> Pool::maximumAndPlace(Value x, Value places) {
  OpBuilder &b = n.builder;
  if (hasBorder()) {
    x = padded(x, n.extreme(elementType(x), /*least=*/true));
    places = padded(places, n.scalar(0, b.getI64Type()));
  }
  int64_t kernel = 1;
  for (const WindowAxis &axis : axes)
    kernel *= axis.kernel;
  Value best, place;
  for (int64_t k = 0; k < kernel; ++k) {
    Value next = x, at = places;
    int64_t rest = k;
    for (size_t i = axes.size(); i-- > 0; rest /= axes[i].kernel) {
      int64_t offset = rest % axes[i].kernel * axes[i].dilation;
      next = strided(next, i, offset);
      at = strided(at, i, offset);
    }
    Value isBetter =
        best ? Value(GreaterOp::create(b, n.loc, next, best)) : Value();
    place = best ? Value(WhereOp::create(b, n.loc, isBetter, at, place)) : at;
    best = best ? Value(WhereOp::create(b, n.loc, isBetter, next, best)) : next;
  }
  return {best, place};
}

static LogicalResult maxPool(NodeImport &n) {
  Pool pool(n);
  if (failed(pool.readKernel()))
    return failure();
  if (!n.hasOutput(1)) {
    n.output(0, pool.reduced(/*isMax=*/true, n.input(0)));
    return success();
  }
  int64_t order = n.getInt("storage_order", 0), kernel = 1;
  if (order != 0 && order != 1)
    return n.fail("expected storage_order 0 or 1, found " + Twine(order));
  for (const WindowAxis &axis : pool.axes)
    kernel = std::min(kernel * axis.kernel, kMaxNumber);
  if (kernel > kMaxSlices)
    return n.fail("the indices of a kernel of more than " + Twine(kMaxSlices) +
                  " elements are not supported");
  auto [best, place] = pool.maximumAndPlace(n.input(0), pool.places(order));
  n.output(0, best);
  n.output(1, place);
  return success();
}

static LogicalResult averagePool(NodeImport &n) {
  Pool pool(n);
  if (failed(pool.readKernel()))
    return failure();
  auto mean = pool.mean(n.input(0), n.getInt("count_include_pad", 0) != 0);
  if (failed(mean))
    return failure();
  n.output(0, *mean);
  return success();
}

/// The whole of each channel is one window.
template <typename OpTy>
static LogicalResult globalPool(NodeImport &n) {
  int64_t rank = n.rank(0);
  if (rank < 3)
    return n.fail("expected an input [N, C, sizes..], found rank " +
                  Twine(rank));
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  n.output(0, OpTy::create(n.builder, n.loc, n.input(0), axes, true));
  return success();
}

void fusion::addPoolHandlers(HandlerMap &map) {
  map["::MaxPool"] = maxPool;
  map["::AveragePool"] = averagePool;
  map["::GlobalMaxPool"] = globalPool<ReduceMaxOp>;
  map["::GlobalAveragePool"] = globalPool<ReduceMeanOp>;
}
