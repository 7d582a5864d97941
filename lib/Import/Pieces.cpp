//===- Pieces.cpp - Split, concat, pad, tile ------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

static LogicalResult split(NodeImport &n) {
  SymShape shape = n.shape(0);
  auto axis = n.axis(n.getInt("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  int64_t count = n.node.outputs.size();
  SymShape sizes;
  if (n.hasInput(1)) {
    auto given = n.sizes(1, "split");
    if (failed(given))
      return failure();
    sizes = *given;
    if (sizes.size() != size_t(count))
      return n.fail("split has " + Twine(sizes.size()) + " sizes for " +
                    Twine(count) + " outputs");
    SymExpr sum = 0;
    for (const SymExpr &size : sizes)
      sum = sum + size;
    if (failed(n.equate(sum, shape[*axis], "the split axis and its parts")))
      return failure();
  } else {
    // Equal parts; the last one may be smaller.
    if (n.getInt("num_outputs", count) != count)
      return n.fail("num_outputs is not the number of outputs");
    auto part = SymExpr::floorDiv(shape[*axis] + SymExpr(count - 1), count);
    if (auto exact = shape[*axis].exactDiv(SymExpr(count)))
      part = exact;
    if (!part)
      return n.fail("the sizes of the parts cannot be expressed");
    SymExpr left = shape[*axis];
    for (int64_t i = 0; i + 1 < count; ++i) {
      sizes.push_back(*part);
      left = left - *part;
    }
    sizes.push_back(left);
  }
  SymExpr start = 0;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (auto constant = size.asConstant(); constant && *constant < 0)
      return n.fail("a part has the size " + Twine(*constant));
    n.output(i, n.slice(n.input(0), *axis, start, size));
    start = start + size;
  }
  return success();
}

static LogicalResult concat(NodeImport &n) {
  auto axis = n.axis(n.getInt("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  SmallVector<Value> values;
  SymShape first = n.shape(0);
  for (size_t i = 0; i < n.numInputs(); ++i) {
    SymShape next = n.shape(i);
    if (next.size() != first.size())
      return n.fail("expected inputs of rank " + Twine(first.size()) +
                    ", found rank " + Twine(next.size()) + " at input " +
                    Twine(i));
    for (size_t d = 0; d < first.size(); ++d)
      if (static_cast<int64_t>(d) != *axis &&
          failed(n.equate(first[d], next[d], "axis " + Twine(d))))
        return failure();
    // Parts of no elements along the axis add nothing.
    if (next[*axis] != SymExpr(0))
      values.push_back(n.input(i));
  }
  if (values.empty())
    values.push_back(n.input(0));
  if (values.size() == 1)
    n.output(0, values[0]);
  else
    n.output(0, ConcatOp::create(n.builder, n.loc, values, *axis));
  return success();
}

static LogicalResult pad(NodeImport &n) {
  auto pads = n.sizes(1, "pads");
  auto axes = n.axes("", 3);
  if (failed(pads) || failed(axes))
    return failure();
  SymShape shape = n.shape(0);
  size_t rank = shape.size(), count = *axes ? (*axes)->size() : rank;
  if (pads->size() != 2 * count)
    return n.fail("expected " + Twine(2 * count) + " pads, found " +
                  Twine(pads->size()));
  std::string mode = n.getString("mode", "constant");
  SymShape low(rank, SymExpr(0));
  auto padded = llvm::to_vector(llvm::seq<int64_t>(count));
  auto distinct = n.distinctAxes(*axes ? ArrayRef(**axes) : padded, rank);
  if (failed(distinct))
    return failure();
  for (auto [i, axis] : llvm::enumerate(*distinct)) {
    low[axis] = (*pads)[i];
    shape[axis] = shape[axis] + (*pads)[i] + (*pads)[count + i];
    if (auto size = shape[axis].asConstant(); size && *size < 0)
      return n.fail("more is cropped than axis " + Twine(axis) + " has");
  }
  Type element = elementType(n.input(0));
  Value fill;
  if (n.hasInput(2)) {
    if (numElements(n.shape(2)) != SymExpr(1))
      return n.fail("expected a scalar in input 2");
    fill = n.reshape(n.input(2), {});
  } else {
    fill = n.scalar(0, element);
  }
  n.output(0, PadOp::create(n.builder, n.loc, getTensorType(shape, element),
                            n.input(0), fill,
                            getExprsAttr(n.builder.getContext(), low),
                            n.builder.getStringAttr(mode)));
  return success();
}

static LogicalResult tile(NodeImport &n) {
  auto repeats = n.sizes(1, "repeats");
  if (failed(repeats))
    return failure();
  SymShape shape = n.shape(0);
  if (repeats->size() != shape.size())
    return n.fail("expected " + Twine(shape.size()) + " repeats, found " +
                  Twine(repeats->size()));
  for (auto [size, times] : llvm::zip(shape, *repeats)) {
    if (auto constant = times.asConstant(); constant && *constant < 0)
      return n.fail("a repeat is negative");
    size = size * times;
  }
  Type element = elementType(n.input(0));
  n.output(0, TileOp::create(n.builder, n.loc, getTensorType(shape, element),
                             n.input(0)));
  return success();
}

void fusion::addPieceHandlers(HandlerMap &map) {
  map["::Split"] = split;
  map["::Concat"] = concat;
  map["::Pad"] = pad;
  map["::Tile"] = tile;
}
