//===- View.cpp - Reshapes, transposes, expansions ------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// Reshapes a constant of the file without IR: the bytes are the same.
static bool reshapeConstant(NodeImport &n, ArrayRef<SymExpr> shape) {
  const Tensor *tensor = n.constant(0);
  if (!tensor)
    return false;
  std::vector<int64_t> dims;
  for (const SymExpr &size : shape) {
    auto constant = size.asConstant();
    if (!constant)
      return false;
    dims.push_back(*constant);
  }
  if (elementCount(dims) != std::optional<int64_t>(tensor->elements()))
    return false;
  Tensor result = *tensor;
  result.dims = dims;
  n.importer.setConstant(n.node.outputs[0], result);
  return true;
}

static LogicalResult finishReshape(NodeImport &n, ArrayRef<SymExpr> shape) {
  if (reshapeConstant(n, shape))
    return success();
  n.output(0, n.reshape(n.input(0), shape));
  return success();
}

static LogicalResult reshape(NodeImport &n) {
  auto target = n.sizes(1, "shape");
  if (failed(target))
    return failure();
  SymShape from = n.shape(0);
  bool allowZero = n.getInt("allowzero", 0) != 0;
  SymExpr known = 1;
  std::optional<size_t> open;
  for (auto [i, size] : llvm::enumerate(*target)) {
    if (size == SymExpr(0) && !allowZero) {
      if (i >= from.size())
        return n.fail("shape element " + Twine(i) +
                      " is 0, but the input has rank " + Twine(from.size()));
      size = from[i];
    }
    if (size == SymExpr(-1)) {
      if (open)
        return n.fail("the shape has more than one -1");
      open = i;
      continue;
    }
    if (auto constant = size.asConstant(); constant && *constant < 0)
      return n.fail("the shape has the size " + Twine(*constant));
    known = known * size;
  }
  SymExpr total = numElements(from);
  if (known.overflowed() || total.overflowed())
    return n.fail("the number of elements overflows");
  if (open) {
    // Sizes that both shapes have may be zero; what is left must divide.
    auto exact = total.exactDiv(known);
    auto quotient = exact ? exact : SymExpr::floorDiv(total, known);
    if (!quotient)
      return n.fail("cannot tell the size that -1 stands for");
    if (auto all = total.asConstant(), part = known.asConstant();
        !exact && all && part && *all % *part)
      return n.fail("cannot divide " + Twine(*all) + " elements by " +
                    Twine(*part));
    (*target)[*open] = *quotient;
  } else if (failed(n.equate(total, known, "the numbers of elements"))) {
    return failure();
  }
  return finishReshape(n, *target);
}

static LogicalResult flatten(NodeImport &n) {
  SymShape shape = n.shape(0);
  int64_t rank = shape.size(), axis = n.getInt("axis", 1);
  if (axis < -rank || axis > rank)
    return n.fail("axis " + Twine(axis) + " is out of range for rank " +
                  Twine(rank));
  axis = axis < 0 ? axis + rank : axis;
  SymExpr rows = numElements(ArrayRef(shape).take_front(axis));
  SymExpr columns = numElements(ArrayRef(shape).drop_front(axis));
  return finishReshape(n, {rows, columns});
}

static LogicalResult squeeze(NodeImport &n) {
  auto axes = n.axes("axes", 1);
  if (failed(axes))
    return failure();
  SymShape from = n.shape(0), to;
  SmallVector<bool> drop(from.size(), false);
  if (*axes) {
    auto distinct = n.distinctAxes(**axes, from.size());
    if (failed(distinct))
      return failure();
    for (int64_t axis : *distinct) {
      if (failed(n.equate(from[axis], 1, "a squeezed axis and 1")))
        return failure();
      drop[axis] = true;
    }
  } else {
    for (auto [i, size] : llvm::enumerate(from))
      drop[i] = size == SymExpr(1);
  }
  for (auto [i, size] : llvm::enumerate(from))
    if (!drop[i])
      to.push_back(size);
  return finishReshape(n, to);
}

static LogicalResult unsqueeze(NodeImport &n) {
  auto axes = n.axes("axes", 1);
  if (failed(axes))
    return failure();
  if (!*axes || (*axes)->size() > 16)
    return n.fail("expected constant axes");
  SymShape from = n.shape(0);
  size_t rank = from.size() + (*axes)->size(), next = 0;
  SmallVector<bool> added(rank, false);
  auto distinct = n.distinctAxes(**axes, rank);
  if (failed(distinct))
    return failure();
  for (int64_t axis : *distinct)
    added[axis] = true;
  SymShape to;
  for (bool isNew : added)
    to.push_back(isNew ? SymExpr(1) : from[next++]);
  return finishReshape(n, to);
}

static LogicalResult transpose(NodeImport &n) {
  int64_t rank = n.rank(0);
  SmallVector<int64_t> perm;
  if (auto given = n.getInts("perm")) {
    perm.assign(given->begin(), given->end());
    SmallVector<int64_t> sorted(perm);
    llvm::sort(sorted);
    if (!llvm::equal(sorted, llvm::seq<int64_t>(rank)))
      return n.fail("perm is no permutation of " + Twine(rank) + " axes");
  } else {
    for (int64_t axis = rank - 1; axis >= 0; --axis)
      perm.push_back(axis);
  }
  n.output(0, n.transpose(n.input(0), perm));
  return success();
}

/// Blocks of places become channels or the other way round: three views. `DCR`
/// has the places of a block before the channels, `CRD` behind them.
template <bool ToDepth>
static LogicalResult moveBlocks(NodeImport &n) {
  SymShape shape = n.shape(0);
  int64_t size = n.getInt("blocksize", 0);
  std::string mode = n.getString("mode", "DCR");
  if (shape.size() != 4 || size < 1 || size > (1 << 15))
    return n.fail("expected an input of rank 4 and a block size from 1 to "
                  "32768, found rank " +
                  Twine(shape.size()) + " and " + Twine(size));
  if (mode != "DCR" && mode != "CRD")
    return n.fail("expected mode DCR or CRD, found " + mode);
  SymExpr block(size), area(size * size);
  bool first = mode == "DCR";
  if constexpr (ToDepth) {
    auto rows = shape[2].exactDiv(block), columns = shape[3].exactDiv(block);
    if (!rows || !columns)
      return n.fail("expected rows and columns in whole blocks of " +
                    Twine(size) + ", found " + shape[2].str() + " and " +
                    shape[3].str());
    Value x = n.reshape(n.input(0),
                        {shape[0], shape[1], *rows, block, *columns, block});
    x = first ? n.transpose(x, {0, 3, 5, 1, 2, 4})
              : n.transpose(x, {0, 1, 3, 5, 2, 4});
    n.output(0, n.reshape(x, {shape[0], shape[1] * area, *rows, *columns}));
  } else {
    auto depth = shape[1].exactDiv(area);
    if (!depth)
      return n.fail("expected a multiple of " + Twine(size * size) +
                    " channels, found " + shape[1].str());
    SymShape parts = {shape[0], *depth, block, block, shape[2], shape[3]};
    if (first)
      std::rotate(parts.begin() + 1, parts.begin() + 2, parts.begin() + 4);
    Value x = n.reshape(n.input(0), parts);
    x = first ? n.transpose(x, {0, 3, 4, 1, 5, 2})
              : n.transpose(x, {0, 1, 4, 2, 5, 3});
    n.output(0, n.reshape(
                    x, {shape[0], *depth, shape[2] * block, shape[3] * block}));
  }
  return success();
}

/// Whether a size is smaller than the one it is to be expanded to unless some
/// symbol is zero: `seq` towards `past + seq`. Exporters write that where seq
/// is 1 or past is 0.
static bool growsUnlessZero(NodeImport &n, const SymExpr &from,
                            const SymExpr &to) {
  return from != to && from != SymExpr(1) && !(to - from).isConstant() &&
         n.symbols().provesAtMost(from, to);
}

/// `a == b` as text, without the terms that both have.
static std::string equality(const SymExpr &a, const SymExpr &b) {
  SymExpr sides[2] = {0, 0};
  SymExpr difference = a - b;
  for (const auto &[factors, coefficient] : difference.polynomial()) {
    SymExpr term = std::abs(coefficient);
    for (const std::string &factor : factors)
      if (auto parsed = SymExpr::parse(factor))
        term = term * *parsed;
    SymExpr &side = sides[coefficient < 0];
    side = side + term;
  }
  return sides[0].str() + " == " + sides[1].str();
}

/// An expansion whose sizes are equal or 1 at run time, without saying which:
/// the element i of an axis reads i modulo the axis, right in both cases.
static LogicalResult expandByTiling(NodeImport &n, SymShape target) {
  SymShape from = n.shape(0);
  auto widen = [](SymShape &shape, ArrayRef<SymExpr> with) {
    SymShape wide(with.begin(), with.end() - shape.size());
    wide.append(shape.begin(), shape.end());
    shape = wide;
  };
  if (target.size() < from.size())
    widen(target, from);
  SymShape ones(target.size(), SymExpr(1));
  widen(from, ones);
  for (auto [a, b] : llvm::zip(from, target)) {
    if (growsUnlessZero(n, a, b)) {
      // (a - 1) * (a - b) == 0, without subtraction: a is 1 or equal to b.
      n.symbols().addGuard(equality(a * a + b, a * b + a));
      continue;
    }
    SymShape sides[] = {SymShape(1, a), SymShape(1, b)};
    auto size = n.broadcast(sides);
    if (failed(size))
      return failure();
    b = size->front();
  }
  Value input = n.reshape(n.input(0), from);
  n.output(0, TileOp::create(n.builder, n.loc,
                             getTensorType(target, elementType(input)), input));
  return success();
}

static LogicalResult expand(NodeImport &n) {
  auto target = n.sizes(1, "shape");
  if (failed(target))
    return failure();
  for (const SymExpr &size : *target)
    if (auto constant = size.asConstant(); constant && *constant < 0)
      return n.fail("the shape has the size " + Twine(*constant));
  SymShape from = n.shape(0);
  for (size_t i = 1; i <= std::min(from.size(), target->size()); ++i)
    if (growsUnlessZero(n, from[from.size() - i],
                        (*target)[target->size() - i]))
      return expandByTiling(n, *target);
  auto shape = n.broadcast({from, *target});
  if (failed(shape))
    return failure();
  n.output(0, n.expand(n.input(0), *shape));
  return success();
}

void fusion::addViewHandlers(HandlerMap &map) {
  map["::Reshape"] = reshape;
  map["::Flatten"] = flatten;
  map["::Squeeze"] = squeeze;
  map["::Unsqueeze"] = unsqueeze;
  map["::Transpose"] = transpose;
  map["::DepthToSpace"] = moveBlocks<false>;
  map["::SpaceToDepth"] = moveBlocks<true>;
  map["::Expand"] = expand;
}
