//===- StridedView.cpp - Views of arguments as strides --------------------===//

#include "fusion/Kernels/StridedView.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

SmallVector<ReshapeSegment> kernels::getReshapeSegments(const SymShape &in,
                                                        const SymShape &out) {
  SmallVector<ReshapeSegment> segments;
  unsigned i = 0, j = 0, iBegin = 0, jBegin = 0;
  SymExpr a = 1, b = 1;
  // Takes one axis from the side whose product cannot be the larger one.
  while (i < in.size() || j < out.size()) {
    bool closed = a == b && (i > iBegin || j > jBegin);
    if (closed && i > iBegin && j > jBegin) {
      segments.push_back({iBegin, i, jBegin, j});
      iBegin = i;
      jBegin = j;
      a = b = SymExpr(1);
      continue;
    }
    bool takeIn;
    if (i == in.size() || j == out.size())
      takeIn = i < in.size();
    else if (i == iBegin)
      takeIn = true;
    else if (j == jBegin)
      takeIn = false;
    else
      takeIn = !a.exactDiv(b) || a == b; // a = b * rest: b has to grow
    if (takeIn)
      a = a * in[i++];
    else
      b = b * out[j++];
  }
  if (i > iBegin || j > jBegin) {
    bool mergeable = (i == iBegin || j == jBegin) && !segments.empty();
    if (mergeable) { // trailing axes of size 1
      segments.back().inEnd = i;
      segments.back().outEnd = j;
    } else {
      segments.push_back({iBegin, i, jBegin, j});
    }
  }
  return segments;
}

std::optional<SymShape> kernels::reshapeStrides(ArrayRef<SymExpr> in,
                                                ArrayRef<SymExpr> inStrides,
                                                ArrayRef<SymExpr> out) {
  SymShape sizes, strides; // without axes of size 1
  for (auto [size, stride] : llvm::zip(in, inStrides))
    if (size != SymExpr(1)) {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  SymExpr inner = strides.empty() ? SymExpr(0) : strides.back();
  for (size_t k = sizes.size(); k > 1; --k)
    if (strides[k - 2] != strides[k - 1] * sizes[k - 1])
      return std::nullopt;
  SymShape result(out.size(), SymExpr(0));
  for (size_t k = out.size(); k-- > 0;) {
    if (out[k] == SymExpr(1))
      continue;
    result[k] = inner;
    inner = inner * out[k];
  }
  return result;
}

/// The same over all segments of a reshape.
static std::optional<SymShape>
reshapeAll(const SymShape &in, const SymShape &strides, const SymShape &out) {
  SymShape result(out.size(), SymExpr(0));
  for (const ReshapeSegment &s : getReshapeSegments(in, out)) {
    unsigned inCount = s.inEnd - s.inBegin, outCount = s.outEnd - s.outBegin;
    auto part = reshapeStrides(ArrayRef(in).slice(s.inBegin, inCount),
                               ArrayRef(strides).slice(s.inBegin, inCount),
                               ArrayRef(out).slice(s.outBegin, outCount));
    if (!part)
      return std::nullopt;
    llvm::copy(*part, result.begin() + s.outBegin);
  }
  return result;
}

static std::optional<StridedView> viewOf(ReshapeOp op) {
  auto view = getStridedView(op.getInput());
  if (!view)
    return std::nullopt;
  auto strides = reshapeAll(getSymShape(op.getInput()), view->strides,
                            getSymShape(op.getResult()));
  if (!strides)
    return std::nullopt;
  view->strides = *strides;
  return view;
}

static std::optional<StridedView> viewOf(ExpandOp op) {
  auto view = getStridedView(op.getInput());
  if (!view)
    return std::nullopt;
  SymShape in = getSymShape(op.getInput()), out = getSymShape(op.getResult());
  if (in.size() > out.size())
    return std::nullopt;
  size_t lead = out.size() - in.size();
  SymShape strides(out.size(), SymExpr(0));
  for (size_t k = 0; k < in.size(); ++k)
    if (in[k] != SymExpr(1))
      strides[lead + k] = view->strides[k];
  view->strides = strides;
  return view;
}

static std::optional<StridedView> viewOf(SliceOp op) {
  auto view = getStridedView(op.getInput());
  if (!view)
    return std::nullopt;
  SymShape starts = getExprs(op.getStarts());
  for (size_t k = 0; k < starts.size(); ++k) {
    view->offset = view->offset + starts[k] * view->strides[k];
    view->strides[k] = view->strides[k] * SymExpr(op.getSteps()[k]);
  }
  return view;
}

static std::optional<StridedView> viewOf(TransposeOp op) {
  auto view = getStridedView(op.getInput());
  if (!view)
    return std::nullopt;
  SymShape strides;
  for (int64_t axis : op.getPerm())
    strides.push_back(view->strides[axis]);
  view->strides = strides;
  return view;
}

std::optional<StridedView> kernels::getStridedView(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    SymShape shape = getSymShape(value);
    SymShape strides = getStrides(getStorageShape(value.getType()));
    for (size_t k = 0; k < shape.size(); ++k)
      if (shape[k] == SymExpr(1))
        strides[k] = SymExpr(0);
    return StridedView{argument, SymExpr(0), strides};
  }
  using Result = std::optional<StridedView>;
  return llvm::TypeSwitch<Operation *, Result>(value.getDefiningOp())
      .Case<ReshapeOp, ExpandOp, SliceOp, TransposeOp>(
          [](auto op) { return viewOf(op); })
      .Default([](Operation *) { return Result(); });
}

std::optional<StridedOutput> kernels::getStridedOutput(Value output,
                                                       const SymShape &space) {
  SymShape strides = getStrides(getStorageShape(output.getType()));
  Value value = output;
  // The innermost value: a transposition may have the shape that it is of.
  std::optional<StridedOutput> found;
  while (true) {
    if (getSymShape(value) == space)
      found = StridedOutput{value, strides};
    Operation *op = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
      SymShape in(strides.size(), SymExpr(0));
      for (auto [k, axis] : llvm::enumerate(transpose.getPerm()))
        in[axis] = strides[k];
      strides = in;
      value = transpose.getInput();
      continue;
    }
    auto reshape = dyn_cast_or_null<ReshapeOp>(op);
    if (!reshape)
      return found;
    auto in = reshapeAll(getSymShape(value), strides,
                         getSymShape(reshape.getInput()));
    if (!in)
      return found;
    strides = *in;
    value = reshape.getInput();
  }
}
