//===- Slice.cpp - Bounds and steps over symbolic sizes -------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

namespace {
struct Span {
  SymExpr start, count;
};
} // namespace

/// `at` counted from the front and clamped to [0, size]. Constants are clamped
/// where the size may be smaller, unless the size is known to equal another
/// that says otherwise. A symbolic place that cannot be decided is taken to lie
/// inside, which becomes a guard.
static SymExpr clampPlace(NodeImport &n, const SymExpr &at,
                          const SymExpr &size) {
  Symbols &symbols = n.symbols();
  auto constant = at.asConstant();
  if (constant && *constant < 0) {
    SymExpr place = *constant <= INT32_MIN ? SymExpr(0) : size + at;
    if (symbols.provesAtMost(0, place))
      return place;
    // The last element: there is one.
    if (*constant == -1) {
      symbols.assumeAtMost(1, size);
      return place;
    }
    if (symbols.mustBeAtMost(0, place)) {
      symbols.assumeAtMost(0, place);
      return place;
    }
    return symbols.provesAtMost(place, 0) ? SymExpr(0) : SymExpr::max(place, 0);
  }
  if (constant && *constant >= INT32_MAX)
    return size;
  if (symbols.provesAtMost(size, at))
    return size;
  // An expression that is negative for every size counts from the end.
  if (symbols.provesAtMost(at, -1))
    return SymExpr::max(size + at, 0);
  // -seq does so unless seq is 0, when it would be the front: there is one.
  if (!constant && symbols.provesAtMost(at, 0)) {
    symbols.assumeAtMost(1, -at);
    symbols.assumeAtMost(0, size + at);
    return size + at;
  }
  if (constant && !symbols.provesAtMost(at, size) &&
      !symbols.mustBeAtMost(at, size))
    return SymExpr::min(at, size);
  symbols.assumeAtMost(at, size);
  if (!symbols.provesAtMost(0, at))
    symbols.assumeAtMost(0, at);
  return at;
}

static FailureOr<Span> forwardSpan(NodeImport &n, const SymExpr &start,
                                   const SymExpr &end, const SymExpr &size,
                                   int64_t step) {
  Span span;
  span.start = clampPlace(n, start, size);
  SymExpr last = clampPlace(n, end, size);
  SymExpr distance = last - span.start;
  // A start that was clamped: last - min(start, size) = max(last - start, 0).
  if (auto place = start.asConstant();
      place && *place > 0 && span.start != start)
    distance = SymExpr::max(last - start, 0);
  if (auto constant = distance.asConstant(); constant && *constant <= 0)
    return Span{0, 0};
  span.count = distance;
  if (step != 1) {
    auto count = SymExpr::floorDiv(distance + SymExpr(step - 1), step);
    if (!count)
      return n.fail("the number of elements cannot be expressed");
    span.count = *count;
  }
  return span;
}

/// Negative steps run from `start` down to above `end`.
static FailureOr<Span> backwardSpan(NodeImport &n, const SymExpr &start,
                                    const SymExpr &end, const SymExpr &size,
                                    int64_t step) {
  auto first = start.asConstant(), last = end.asConstant();
  if (!first || !last)
    return n.fail("a negative step needs constant bounds");
  auto length = size.asConstant();
  SymExpr from, past; // last element, and the one before the final element
  if (length) {
    int64_t a = *first < 0 ? *first + *length : *first;
    int64_t b = *last < 0 ? *last + *length : *last;
    a = std::clamp<int64_t>(a, -1, *length - 1);
    b = std::clamp<int64_t>(b, -1, *length - 1);
    if (*length == 0 || a <= b)
      return Span{0, 0};
    int64_t stride = -step;
    return Span{a, (a - b + stride - 1) / stride};
  }
  // The whole axis, reversed, is the one case that symbolic sizes have.
  bool fromEnd = *first == -1 || *first >= INT32_MAX;
  if (!fromEnd || *last > INT32_MIN || step != -1)
    return n.fail("a negative step over an axis of symbolic size must reverse "
                  "the whole axis");
  return Span{size - SymExpr(1), size};
}

static LogicalResult slice(NodeImport &n) {
  auto starts = n.sizes(1, "starts");
  auto ends = n.sizes(2, "ends");
  if (failed(starts) || failed(ends))
    return failure();
  auto given = n.axes("", 3);
  auto stepped = n.axes("", 4);
  if (failed(given) || failed(stepped))
    return failure();
  SymShape shape = n.shape(0);
  size_t rank = shape.size(), count = starts->size();
  if (ends->size() != count || (*given && (*given)->size() != count) ||
      (*stepped && (*stepped)->size() != count) || count > rank)
    return n.fail("starts, ends, axes and steps differ in length");

  SymShape from(rank, SymExpr(0));
  SmallVector<int64_t> steps(rank, 1);
  auto first = llvm::to_vector(llvm::seq<int64_t>(count));
  auto axes = n.distinctAxes(*given ? ArrayRef(**given) : first, rank);
  if (failed(axes))
    return failure();
  for (size_t i = 0; i < count; ++i) {
    int64_t axis = (*axes)[i];
    int64_t step = *stepped ? (**stepped)[i] : 1;
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
      return n.fail("the step " + Twine(step) + " is not supported");
    auto span =
        step > 0 ? forwardSpan(n, (*starts)[i], (*ends)[i], shape[axis], step)
                 : backwardSpan(n, (*starts)[i], (*ends)[i], shape[axis], step);
    if (failed(span))
      return failure();
    from[axis] = span->start;
    shape[axis] = span->count;
    steps[axis] = step;
  }
  n.output(0, SliceOp::create(n.builder, n.loc,
                              getTensorType(shape, elementType(n.input(0))),
                              n.input(0),
                              getExprsAttr(n.builder.getContext(), from),
                              n.builder.getDenseI64ArrayAttr(steps)));
  return success();
}

void fusion::addSliceHandlers(HandlerMap &map) { map["::Slice"] = slice; }
