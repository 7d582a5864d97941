//===- OneHot.cpp - Ones at the places that indices name ------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

/// The number of places, a size or a number that is known.
static FailureOr<SymExpr> depthOf(NodeImport &n) {
  SymExpr depth;
  if (const SymTensor *sym = n.sym(1)) {
    if (sym->values.size() != 1)
      return n.fail("expected one depth, found " + Twine(sym->values.size()));
    depth = n.symbols().resolve(sym->values[0]);
  } else {
    auto reals = n.reals(1);
    if (!reals)
      return n.failUnknown(1, "depth");
    if (reals->size() != 1 || !((*reals)[0] < double(INT32_MAX)) ||
        !((*reals)[0] > -double(INT32_MAX)))
      return n.fail("expected one depth below 2^31");
    depth = static_cast<int64_t>((*reals)[0]);
  }
  if (auto constant = depth.asConstant();
      constant && (*constant < 1 || *constant > INT32_MAX))
    return n.fail("expected a depth of 1 to 2^31 - 1, found " +
                  Twine(*constant));
  return depth;
}

/// values[1] where the place along the new axis is the index, counted from
/// either end, and values[0] elsewhere.
static LogicalResult oneHot(NodeImport &n) {
  SymShape shape = n.shape(0);
  int64_t rank = shape.size() + 1;
  auto axis = n.axis(n.getInt("axis", -1), rank);
  if (failed(axis))
    return failure();
  auto depth = depthOf(n);
  if (failed(depth))
    return failure();
  if (n.rank(2) != 1)
    return n.fail("expected values [off, on], found rank " + Twine(n.rank(2)));
  if (failed(n.equate(n.shape(2)[0], 2, "the values and [off, on]")))
    return failure();

  OpBuilder &b = n.builder;
  shape.insert(shape.begin() + *axis, SymExpr(1));
  Value index = n.reshape(n.cast(n.input(0), b.getI64Type()), shape);
  Value front = n.places(*depth, *axis, rank);
  Value back = n.places(*depth, *axis, rank, -*depth);
  Value isHot = OrOp::create(b, n.loc, EqualOp::create(b, n.loc, index, front),
                             EqualOp::create(b, n.loc, index, back));
  Value off = n.reshape(n.slice(n.input(2), 0, 0, 1), {});
  Value on = n.reshape(n.slice(n.input(2), 0, 1, 1), {});
  n.output(0, WhereOp::create(b, n.loc, isHot, on, off));
  return success();
}

/// 1 at the first of the largest elements along an axis, 0 elsewhere.
static LogicalResult hardmax(NodeImport &n) {
  Value x = n.input(0);
  int64_t rank = n.rank(0);
  auto axis = n.axis(n.getInt("axis", -1), rank);
  if (failed(axis))
    return failure();
  Value best = ArgMaxOp::create(n.builder, n.loc, x, *axis, /*keepdims=*/true,
                                /*last=*/false, /*smallest=*/false);
  Value isBest = EqualOp::create(n.builder, n.loc, best,
                                 n.places(n.shape(0)[*axis], *axis, rank));
  n.output(0, n.cast(isBest, elementType(x)));
  return success();
}

void fusion::addOneHotHandlers(HandlerMap &map) {
  map["::OneHot"] = oneHot;
  map["::Hardmax"] = hardmax;
}
