//===- View.cpp - Reshapes, transposes, slices, concatenations ------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// Symbolic elements of a shape operand.
static FailureOr<SymShape> shapeOperand(NodeImport &n, size_t i,
                                        StringRef what) {
  const SymTensor *value = n.sym(i);
  if (!value)
    return n.fail("the " + what + " (input " + Twine(i) +
                  ") depends on data; only shapes that follow from the sizes "
                  "of the inputs are supported");
  if (value->dims.size() > 1)
    return n.fail("expected a " + what + " of rank 1");
  SymShape result;
  for (const SymExpr &e : value->values)
    result.push_back(n.symbols().resolve(e));
  return result;
}

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
  auto target = shapeOperand(n, 1, "shape");
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
    for (int64_t value : **axes) {
      auto axis = n.axis(value, from.size());
      if (failed(axis) ||
          failed(n.equate(from[*axis], 1, "a squeezed axis and 1")))
        return failure();
      drop[*axis] = true;
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
  for (int64_t value : **axes) {
    auto axis = n.axis(value, rank);
    if (failed(axis))
      return failure();
    if (added[*axis])
      return n.fail("axis " + Twine(value) + " is given twice");
    added[*axis] = true;
  }
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

/// Whether a size is smaller than the one it is to be expanded to unless some
/// symbol is zero: `seq` towards `past + seq`. Exporters write that where seq
/// is 1 or past is 0.
static bool growsUnlessZero(NodeImport &n, const SymExpr &from,
                            const SymExpr &to) {
  return from != to && from != SymExpr(1) && !(to - from).isConstant() &&
         n.symbols().provesAtMost(from, to);
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
      n.symbols().addGuard((a * a + b).str() + " == " + (a * b + a).str());
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
  auto target = shapeOperand(n, 1, "shape");
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

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

namespace {
struct Span {
  SymExpr start, count;
};
} // namespace

/// `at` counted from the front and clamped to [0, size]. What cannot be decided
/// is taken to lie inside, which becomes a guard, except that a place counted
/// from the end may lie before the start.
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
    return symbols.provesAtMost(place, 0) ? SymExpr(0) : SymExpr::max(place, 0);
  }
  if (constant && *constant >= INT32_MAX)
    return size;
  if (symbols.provesAtMost(size, at))
    return size;
  // An expression that is negative for every size counts from the end.
  if (symbols.provesAtMost(at, -1))
    return SymExpr::max(size + at, 0);
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
  SymExpr distance = clampPlace(n, end, size) - span.start;
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
  auto starts = shapeOperand(n, 1, "starts");
  auto ends = shapeOperand(n, 2, "ends");
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
  SmallVector<bool> seen(rank, false);
  for (size_t i = 0; i < count; ++i) {
    auto axis = n.axis(*given ? (**given)[i] : i, rank);
    if (failed(axis))
      return failure();
    int64_t step = *stepped ? (**stepped)[i] : 1;
    if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
      return n.fail("the step " + Twine(step) + " is not supported");
    if (seen[*axis])
      return n.fail("axis " + Twine(*axis) + " is given twice");
    seen[*axis] = true;
    auto span =
        step > 0
            ? forwardSpan(n, (*starts)[i], (*ends)[i], shape[*axis], step)
            : backwardSpan(n, (*starts)[i], (*ends)[i], shape[*axis], step);
    if (failed(span))
      return failure();
    from[*axis] = span->start;
    shape[*axis] = span->count;
    steps[*axis] = step;
  }
  n.output(0, SliceOp::create(n.builder, n.loc,
                              getTensorType(shape, elementType(n.input(0))),
                              n.input(0),
                              getExprsAttr(n.builder.getContext(), from),
                              n.builder.getDenseI64ArrayAttr(steps)));
  return success();
}

//===----------------------------------------------------------------------===//
// Split, concat, pad, tile
//===----------------------------------------------------------------------===//

static LogicalResult split(NodeImport &n) {
  SymShape shape = n.shape(0);
  auto axis = n.axis(n.getInt("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  int64_t count = n.node.outputs.size();
  SymShape sizes;
  if (n.hasInput(1)) {
    auto given = shapeOperand(n, 1, "split");
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
  auto pads = shapeOperand(n, 1, "pads");
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
  for (size_t i = 0; i < count; ++i) {
    auto axis = n.axis(*axes ? (**axes)[i] : i, rank);
    if (failed(axis))
      return failure();
    low[*axis] = (*pads)[i];
    shape[*axis] = shape[*axis] + (*pads)[i] + (*pads)[count + i];
    if (auto size = shape[*axis].asConstant(); size && *size < 0)
      return n.fail("more is cropped than axis " + Twine(*axis) + " has");
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
  auto repeats = shapeOperand(n, 1, "repeats");
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

void fusion::addViewHandlers(HandlerMap &map) {
  map["::Reshape"] = reshape;
  map["::Flatten"] = flatten;
  map["::Squeeze"] = squeeze;
  map["::Unsqueeze"] = unsqueeze;
  map["::Transpose"] = transpose;
  map["::Expand"] = expand;
  map["::Slice"] = slice;
  map["::Split"] = split;
  map["::Concat"] = concat;
  map["::Pad"] = pad;
  map["::Tile"] = tile;
}
