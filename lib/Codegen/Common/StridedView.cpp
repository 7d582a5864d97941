//===- StridedView.cpp - Views of arguments as strides --------------------===//

#include "fusion/Codegen/Common/StridedView.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

SmallVector<ReshapeSegment> codegen::getReshapeSegments(const SymShape &in,
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

/// Strides of `sizes` when the axes (inSizes, inStrides) are laid out as one
/// row-major block with a common innermost stride; nullopt when they are not.
static std::optional<SymShape> reshapeStrides(ArrayRef<SymExpr> inSizes,
                                              ArrayRef<SymExpr> inStrides,
                                              ArrayRef<SymExpr> outSizes) {
  SymShape sizes, strides; // without axes of size 1
  for (auto [size, stride] : llvm::zip(inSizes, inStrides))
    if (size != SymExpr(1)) {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  SymExpr inner = strides.empty() ? SymExpr(0) : strides.back();
  for (size_t k = sizes.size(); k > 1; --k)
    if (strides[k - 2] != strides[k - 1] * sizes[k - 1])
      return std::nullopt;
  SymShape result(outSizes.size(), SymExpr(0));
  for (size_t k = outSizes.size(); k-- > 0;) {
    if (outSizes[k] == SymExpr(1))
      continue;
    result[k] = inner;
    inner = inner * outSizes[k];
  }
  return result;
}

static std::optional<StridedView> viewOf(ReshapeOp op) {
  auto view = getStridedView(op.getInput());
  if (!view)
    return std::nullopt;
  SymShape in = getSymShape(op.getInput()), out = getSymShape(op.getResult());
  SymShape strides(out.size(), SymExpr(0));
  for (const ReshapeSegment &s : getReshapeSegments(in, out)) {
    unsigned inCount = s.inEnd - s.inBegin, outCount = s.outEnd - s.outBegin;
    auto part =
        reshapeStrides(ArrayRef(in).slice(s.inBegin, inCount),
                       ArrayRef(view->strides).slice(s.inBegin, inCount),
                       ArrayRef(out).slice(s.outBegin, outCount));
    if (!part)
      return std::nullopt;
    llvm::copy(*part, strides.begin() + s.outBegin);
  }
  view->strides = strides;
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

std::optional<StridedView> codegen::getStridedView(Value value) {
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
