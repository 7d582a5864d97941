//===- Views.cpp - Evaluation of constants, views, gathers ----------------===//

#include "Loops.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;
using namespace fusion::eval::detail;

static void copyElement(Tensor &out, int64_t i, const Tensor &in, int64_t j) {
  if (out.isFloat())
    out.floats[i] = in.floats[j];
  else
    out.ints[i] = in.ints[j];
}

static int64_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    flat = flat * size + i;
  return flat;
}

/// Fills the result from one place of `in` for each element; a place outside
/// of the tensor fails.
static Result gatherFrom(const Frame &f, const Tensor &in, std::string &why,
                         function_ref<int64_t(ArrayRef<int64_t>)> place) {
  Tensor out = f.makeResult();
  int64_t n = in.size();
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    int64_t j = place(index);
    if (j < 0 || j >= n)
      why = "an element outside of the tensor is read";
    else
      copyElement(out, i, in, j);
  });
  if (!why.empty())
    return std::nullopt;
  return out;
}

/// The elements of `in` from place `start`, `steps` apart along each axis.
static Tensor copySteps(const Frame &f, const Tensor &in, int64_t start,
                        const std::vector<int64_t> &steps) {
  Tensor out = f.makeResult();
  auto copy = [&](auto &to, const auto &from) {
    forEachPlace<1>(f.shape, {steps}, {start},
                    [&](int64_t i, const auto &at) { to[i] = from[at[0]]; });
  };
  if (out.isFloat())
    copy(out.floats, in.floats);
  else
    copy(out.ints, in.ints);
  return out;
}

static Tensor transpose(const Frame &f, TransposeOp op) {
  auto own = strides(f.operand(0).shape);
  std::vector<int64_t> steps;
  for (int64_t axis : op.getPerm())
    steps.push_back(own[axis]);
  return copySteps(f, f.operand(0), 0, steps);
}

static Result slice(const Frame &f, SliceOp op, std::string &why) {
  const Tensor &in = f.operand(0);
  std::vector<int64_t> steps = strides(in.shape);
  int64_t place = 0;
  for (auto [axis, e] : llvm::enumerate(getExprs(op.getStarts()))) {
    auto start = f.size(e);
    if (!start) {
      why = "no value for start " + e.str();
      return std::nullopt;
    }
    int64_t step = op.getSteps()[axis], count = f.shape[axis],
            last = *start + (count - 1) * step;
    int64_t low = std::min(*start, last), high = std::max(*start, last);
    if (count > 0 && (low < 0 || high >= in.shape[axis])) {
      why = "an element outside of the tensor is read";
      return std::nullopt;
    }
    place += *start * steps[axis];
    steps[axis] *= step;
  }
  return copySteps(f, in, place, steps);
}

static Tensor concat(const Frame &f, ConcatOp op) {
  Tensor out = f.makeResult();
  int64_t axis = op.getAxis();
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    for (const Tensor *in : f.operands) {
      if (at[axis] < in->shape[axis]) {
        copyElement(out, i, *in, flatten(at, in->shape));
        return;
      }
      at[axis] -= in->shape[axis];
    }
  });
  return out;
}

static Result gather(const Frame &f, GatherOp op, std::string &why) {
  const Tensor &in = f.operand(0), &indices = f.operand(1);
  int64_t axis = op.getAxis(), rank = indices.shape.size();
  bool fromFront = elementType(op.getIndices()).isUnsignedInteger();
  return gatherFrom(f, in, why, [&](ArrayRef<int64_t> index) {
    int64_t k = indices.ints[flatten(index.slice(axis, rank), indices.shape)];
    if (k < 0 && !fromFront)
      k += in.shape[axis];
    if (k < 0 || k >= in.shape[axis])
      return int64_t(-1);
    SmallVector<int64_t> at(index.take_front(axis));
    at.push_back(k);
    at.append(index.begin() + axis + rank, index.end());
    return flatten(at, in.shape);
  });
}

static Result gatherElements(const Frame &f, GatherElementsOp op,
                             std::string &why) {
  const Tensor &in = f.operand(0), &indices = f.operand(1);
  int64_t axis = op.getAxis();
  return gatherFrom(f, in, why, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    int64_t k = indices.ints[flatten(index, indices.shape)];
    at[axis] = k < 0 ? k + in.shape[axis] : k;
    if (at[axis] < 0 || at[axis] >= in.shape[axis])
      return int64_t(-1);
    return flatten(at, in.shape);
  });
}

/// Reads the index tuple that starts at `at` in `indices`, wrapping negative
/// ones; nullopt when out of range.
static std::optional<SmallVector<int64_t>> readTuple(const Tensor &indices,
                                                     int64_t at, int64_t count,
                                                     ArrayRef<int64_t> bounds) {
  SmallVector<int64_t> tuple;
  for (int64_t i = 0; i < count; ++i) {
    int64_t k = indices.ints[at + i];
    k = k < 0 ? k + bounds[i] : k;
    if (k < 0 || k >= bounds[i])
      return std::nullopt;
    tuple.push_back(k);
  }
  return tuple;
}

static Result gatherNd(const Frame &f, GatherNdOp op, std::string &why) {
  const Tensor &in = f.operand(0), &indices = f.operand(1);
  int64_t batch = op.getBatchDims(), count = indices.shape.back();
  int64_t outer = indices.shape.size() - 1;
  return gatherFrom(f, in, why, [&](ArrayRef<int64_t> index) {
    int64_t at =
        flatten(index.take_front(outer), ArrayRef(indices.shape).drop_back()) *
        count;
    auto tuple =
        readTuple(indices, at, count, ArrayRef(in.shape).drop_front(batch));
    if (!tuple)
      return int64_t(-1);
    SmallVector<int64_t> place(index.take_front(batch));
    place.append(*tuple);
    place.append(index.begin() + outer, index.end());
    return flatten(place, in.shape);
  });
}

static double reduce(StringRef how, double old, double update) {
  if (how == "add")
    return old + update;
  if (how == "mul")
    return old * update;
  if (how == "max")
    return std::max(old, update);
  if (how == "min")
    return std::min(old, update);
  return update;
}

static Result scatterNd(const Frame &f, ScatterNdOp op, std::string &why) {
  Tensor out = f.operand(0);
  const Tensor &indices = f.operand(1), &updates = f.operand(2);
  int64_t count = indices.shape.back();
  ArrayRef<int64_t> inner = ArrayRef(out.shape).drop_front(count);
  int64_t block = 1;
  for (int64_t s : inner)
    block *= s;
  for (int64_t i = 0, n = updates.size() / std::max<int64_t>(block, 1); i < n;
       ++i) {
    auto tuple = readTuple(indices, i * count, count, out.shape);
    if (!tuple) {
      why = "a scatter index is out of range";
      return std::nullopt;
    }
    int64_t base = flatten(*tuple, ArrayRef(out.shape).take_front(count));
    for (int64_t j = 0; j < block; ++j)
      out.set(base * block + j,
              reduce(op.getReduction(), out.get(base * block + j),
                     updates.get(i * block + j)));
  }
  return out;
}

static Result scatterElements(const Frame &f, ScatterElementsOp op,
                              std::string &why) {
  Tensor out = f.operand(0);
  const Tensor &indices = f.operand(1), &updates = f.operand(2);
  forEach(indices.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    int64_t k = indices.ints[i], size = out.shape[op.getAxis()];
    at[op.getAxis()] = k < 0 ? k + size : k;
    if (at[op.getAxis()] < 0 || at[op.getAxis()] >= size) {
      why = "a scatter index is out of range";
      return;
    }
    int64_t j = flatten(at, out.shape);
    out.set(j, reduce(op.getReduction(), out.get(j), updates.get(i)));
  });
  if (!why.empty())
    return std::nullopt;
  return out;
}

static Result pad(const Frame &f, PadOp op, std::string &why) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  SmallVector<int64_t> low;
  for (const SymExpr &e : getExprs(op.getLow())) {
    auto size = f.size(e);
    if (!size) {
      why = "no value for padding " + e.str();
      return std::nullopt;
    }
    low.push_back(*size);
  }
  StringRef mode = op.getMode();
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    SmallVector<int64_t> at;
    bool inside = true;
    for (size_t a = 0; a < index.size(); ++a) {
      int64_t k = index[a] - low[a], n = in.shape[a];
      inside &= k >= 0 && k < n;
      if (n > 0 && mode == "edge")
        k = std::clamp<int64_t>(k, 0, n - 1);
      else if (n > 0 && mode == "wrap")
        k = ((k % n) + n) % n;
      else if (n > 1 && mode == "reflect") {
        int64_t period = 2 * (n - 1);
        k = ((k % period) + period) % period;
        k = k < n ? k : period - k;
      }
      at.push_back(n == 1 && mode == "reflect" ? 0 : k);
    }
    if (inside || mode != "constant")
      copyElement(out, i, in, flatten(at, in.shape));
    else
      copyElement(out, i, f.operand(1), 0);
  });
  return out;
}

static Result trilu(const Frame &f, TriluOp op, std::string &why) {
  Tensor out = f.makeResult();
  auto diagonal = f.size(getExpr(op.getKAttr()));
  if (!diagonal) {
    why = "no value for diagonal " + getExpr(op.getKAttr()).str();
    return std::nullopt;
  }
  int64_t k = *diagonal;
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    int64_t d = index.back() - index[index.size() - 2];
    if (op.getUpper() ? d >= k : d <= k)
      copyElement(out, i, f.operand(0), i);
  });
  return out;
}

static Result iota(const Frame &f, IotaOp op, std::string &why) {
  auto start = f.size(getExpr(op.getStartAttr()));
  auto step = f.size(getExpr(op.getStepAttr()));
  if (!start || !step) {
    why = "no value for the start or step";
    return std::nullopt;
  }
  Tensor out = f.makeResult();
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    out.setInt(i, *start + i * *step);
  return out;
}

static Result shapeValue(const Frame &f, ShapeValueOp op, std::string &why) {
  Tensor out = f.makeResult();
  for (auto [i, e] : llvm::enumerate(getExprs(op.getValues()))) {
    auto value = f.size(e);
    if (!value) {
      why = "no value for " + e.str();
      return std::nullopt;
    }
    out.setInt(i, *value);
  }
  return out;
}

eval::detail::Result eval::detail::evaluateView(const Frame &f,
                                                std::string &why) {
  if (auto op = dyn_cast<ConstantOp>(f.op)) {
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!dense)
      return std::nullopt;
    return Tensor::fromAttr(dense);
  }
  if (isa<ReshapeOp>(f.op)) {
    Tensor out = f.operand(0);
    if (Tensor(out.element, f.shape).size() != out.size()) {
      why = "the number of elements changes";
      return std::nullopt;
    }
    out.shape = f.shape;
    return out;
  }
  if (auto op = dyn_cast<TransposeOp>(f.op))
    return transpose(f, op);
  if (isa<ExpandOp>(f.op))
    return copySteps(f, f.operand(0), 0,
                     broadcastSteps(f.operand(0).shape, f.shape));
  if (auto op = dyn_cast<SliceOp>(f.op))
    return slice(f, op, why);
  if (auto op = dyn_cast<ConcatOp>(f.op))
    return concat(f, op);
  if (auto op = dyn_cast<GatherOp>(f.op))
    return gather(f, op, why);
  if (auto op = dyn_cast<GatherElementsOp>(f.op))
    return gatherElements(f, op, why);
  if (auto op = dyn_cast<GatherNdOp>(f.op))
    return gatherNd(f, op, why);
  if (auto op = dyn_cast<ScatterNdOp>(f.op))
    return scatterNd(f, op, why);
  if (auto op = dyn_cast<ScatterElementsOp>(f.op))
    return scatterElements(f, op, why);
  if (auto op = dyn_cast<PadOp>(f.op))
    return pad(f, op, why);
  if (isa<TileOp>(f.op))
    return gatherFrom(f, f.operand(0), why, [&](ArrayRef<int64_t> index) {
      int64_t flat = 0;
      for (auto [i, size] : llvm::zip(index, f.operand(0).shape))
        flat = flat * size + (size ? i % size : 0);
      return flat;
    });
  if (auto op = dyn_cast<TriluOp>(f.op))
    return trilu(f, op, why);
  if (auto op = dyn_cast<IotaOp>(f.op))
    return iota(f, op, why);
  if (auto op = dyn_cast<ShapeValueOp>(f.op))
    return shapeValue(f, op, why);
  return std::nullopt;
}
