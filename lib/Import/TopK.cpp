//===- TopK.cpp - The largest few along an axis ---------------------------===//
//
// Routers of expert models choose a handful out of a hundred: one after the
// other, each the best of what has not been chosen yet.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

static constexpr int64_t maxChosen = 64;

namespace {
struct Chooser {
  NodeImport &n;
  Value x;
  int64_t axis;
  bool largest;
  Value places, worst, end; ///< the elements' indices; scalars behind them all
  Value open;               ///< what has not been chosen; null: everything

  Value extreme(Value value, bool maximum) {
    SmallVector<int64_t> axes{axis};
    if (maximum)
      return ReduceMaxOp::create(n.builder, n.loc, value, axes, true);
    return ReduceMinOp::create(n.builder, n.loc, value, axes, true);
  }

  /// The next value and its index; both keep the axis.
  std::pair<Value, Value> choose() {
    OpBuilder &b = n.builder;
    Value left = open ? Value(WhereOp::create(b, n.loc, open, x, worst)) : x;
    Value value = extreme(left, largest);
    Value place = ArgMaxOp::create(b, n.loc, left, axis, /*keepdims=*/true,
                                   /*last=*/false, /*smallest=*/!largest);
    if (open) {
      // Nothing but the worst is left: chosen elements look like it.
      Value first = extreme(WhereOp::create(b, n.loc, open, places, end),
                            /*maximum=*/false);
      Value alike = EqualOp::create(b, n.loc, value, worst);
      place = WhereOp::create(b, n.loc, alike, first, place);
    }
    Value other =
        NotOp::create(b, n.loc, EqualOp::create(b, n.loc, places, place));
    open = open ? Value(AndOp::create(b, n.loc, open, other)) : other;
    return {value, place};
  }
};
} // namespace

static LogicalResult topK(NodeImport &n) {
  auto constants = n.constants(1, "number of elements");
  if (failed(constants))
    return failure();
  if (constants->size() != 1)
    return n.fail("expected one number of elements, found " +
                  Twine(constants->size()));
  int64_t count = (*constants)[0];
  auto axis = n.axis(n.getInt("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  SymShape shape = n.shape(0);
  auto size = shape[*axis].asConstant();
  if (count < 1 || count > maxChosen || (size && count > *size))
    return n.fail("expected 1 to " +
                  Twine(size ? std::min(*size, maxChosen) : maxChosen) +
                  " elements, found " + Twine(count));
  if (!size)
    n.symbols().assumeAtMost(count, shape[*axis]);

  Type i64 = n.builder.getI64Type();
  Value places = n.expand(n.places(shape[*axis], *axis, shape.size()), shape);
  bool largest = n.getInt("largest", 1) != 0;
  Value x = n.input(0);
  Chooser chooser{n,
                  x,
                  *axis,
                  largest,
                  places,
                  n.extreme(elementType(x), largest),
                  n.scalar(double(INT32_MAX), i64),
                  {}};
  SmallVector<Value> values, indices;
  for (int64_t i = 0; i < count; ++i) {
    auto [value, place] = chooser.choose();
    values.push_back(value);
    indices.push_back(place);
  }
  n.output(0, ConcatOp::create(n.builder, n.loc, values, *axis));
  n.output(1, ConcatOp::create(n.builder, n.loc, indices, *axis));
  return success();
}

void fusion::addTopKHandlers(HandlerMap &map) { map["::TopK"] = topK; }
