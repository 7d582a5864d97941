//===- RowReduction.cpp - Norms, softmax and reductions, row by row -------===//
//
// A work item is a row: the reduced axes' elements for one position of the
// others. Each reduction is one pass over the row (softmax and layer norm take
// two), then one pass stores all results. What a reduction reads and had to
// compute is kept in scratch, so that later passes load it.
//
//===----------------------------------------------------------------------===//

#include "RowPasses.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

/// Positions of one element of the row in a value of the reduced tensor's rank.
Indices RowPasses::positions(ArrayRef<Index> columns) const {
  Indices at(row);
  for (auto [axis, column] : llvm::zip(shape.axes, columns))
    at[axis] = column;
  return at;
}

/// Whether `indices` of a value of the space's rank lie in this row.
bool RowPasses::inRow(ArrayRef<Index> indices) const {
  if (indices.size() != row.size())
    return false;
  return llvm::all_of(shape.rowAxes, [&](int64_t axis) {
    return indices[axis].lane == 0 && indices[axis].base == row[axis].base;
  });
}

/// The same for a reduction's result, whose reduced axes are 1 or gone.
bool RowPasses::inReducedRow(ArrayRef<Index> indices) const {
  if (indices.size() == row.size())
    return inRow(indices);
  if (indices.size() != shape.rowAxes.size())
    return false;
  return llvm::all_of(llvm::enumerate(shape.rowAxes), [&](auto p) {
    const Index &i = indices[p.index()];
    return i.lane == 0 && i.base == row[p.value()].base;
  });
}

KernelBuilder::Carried RowPasses::pass(
    ValueRange neutral,
    llvm::function_ref<KernelBuilder::Carried(ArrayRef<Index>, ValueRange)>
        body,
    KernelBuilder::Combine combine) {
  Indices columns;
  std::function<KernelBuilder::Carried(size_t, ValueRange)> over =
      [&](size_t axis, ValueRange carried) -> KernelBuilder::Carried {
    Value upper = k.size(shape.space[shape.axes[axis]]);
    if (axis + 1 < shape.axes.size())
      return k.ix().loop(k.c(0), upper, 1, carried,
                         [&](Value iv, ValueRange inner) {
                           columns.push_back(k.ix().index(iv));
                           auto next = over(axis + 1, inner);
                           columns.pop_back();
                           return next;
                         });
    // Each innermost row starts afresh and is merged in.
    auto found = k.reduceColumns(
        k.c(0), upper, neutral,
        [&](Index column, ValueRange inner) {
          columns.push_back(column);
          auto next = body(columns, inner);
          columns.pop_back();
          return next;
        },
        combine);
    if (shape.axes.size() == 1)
      return found;
    for (unsigned i = 0; i < found.size(); ++i)
      found[i] = combine(i, carried[i], found[i]);
    return found;
  };
  return over(0, neutral);
}

Value RowPasses::reduce(Value neutral,
                        llvm::function_ref<Value(ArrayRef<Index>)> element,
                        llvm::function_ref<Value(Value, Value)> combine) {
  auto found = pass(
      neutral,
      [&](ArrayRef<Index> columns, ValueRange carried) {
        // A lane-independent element still counts once a lane.
        Value x = element(columns);
        if (isa<VectorType>(carried[0].getType()))
          x = k.e().broadcast(x);
        return KernelBuilder::Carried{combine(carried[0], x)};
      },
      [&](unsigned, Value a, Value b) { return combine(a, b); });
  return found[0];
}

// The reduced tensor's element, kept in scratch by its first pass where it is
// more than a load.
Value RowPasses::stage(Value input, ArrayRef<Index> columns) {
  Value x = k.e().emit(input, positions(columns));
  if (staged.contains(input) || columns.size() != 1 || getStridedView(input))
    return x;
  auto [it, isNew] = pending.try_emplace(input, Value());
  if (isNew)
    it->second = allocate();
  Value stored = columns[0].lane ? k.e().broadcast(x) : x;
  k.storeVector(it->second, getElementTypeOrSelf(x.getType()), columns[0].base,
                stored);
  return x;
}

Value RowPasses::allocate() {
  SymExpr columns = *SymExpr::floorDiv(shape.columns + SymExpr(15), 16);
  return k.scratch(scratchStart + columns * SymExpr(16 * 8 * buffers++));
}

/// From now on elements of `value` in this row are loaded from a buffer.
void RowPasses::readFrom(Value value, Value buffer) {
  staged.insert(value);
  Type type = computeType(elementType(value));
  provide(value, [this, buffer, type](ArrayRef<Index> indices) -> Value {
    if (!inRow(indices))
      return nullptr;
    const Index &column = indices[shape.axes[0]];
    if (column.lane != 0 && column.lane != 1)
      return nullptr;
    return k.loadVector(buffer, type, column.base,
                        column.lane ? k.e().width() : 1);
  });
}

void RowPasses::endPass() {
  for (auto &[value, buffer] : pending)
    readFrom(value, buffer);
  pending.clear();
}

void RowPasses::provide(Value value, BodyEmitter::Provider provider) {
  k.e().provide(value, std::move(provider));
  provided.push_back(value);
}

RowPasses::~RowPasses() {
  for (Value v : provided)
    k.e().withdraw(v);
}

//===----------------------------------------------------------------------===//
// One reduction each
//===----------------------------------------------------------------------===//

Value RowPasses::meanOf(Value sum) {
  Value n = arith::SIToFPOp::create(k.builder, k.loc, sum.getType(),
                                    k.toI64(k.size(shape.columns)));
  return k.math().div(sum, n);
}

void RowPasses::reduction(Operation *op) {
  Value input = op->getOperand(0);
  Type type = computeType(elementType(input));
  Value neutral = k.e().neutral(op, type);
  Value sum = reduce(
      neutral, [&](ArrayRef<Index> c) { return stage(input, c); },
      [&](Value a, Value b) { return k.e().accumulate(op, a, b); });
  endPass();
  Value result = k.e().finish(op, sum);
  if (k.e().isStrict())
    result = k.round(k.e(), result, elementType(op->getResult(0)), true);
  provide(op->getResult(0), [this, result](ArrayRef<Index> indices) {
    return inReducedRow(indices) ? result : Value();
  });
}

void RowPasses::softmax(SoftmaxOp op) {
  MathBuilder &m = k.math();
  Value input = op.getInput();
  Type type = computeType(elementType(input));
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getZeroAttr(type));
  Value lowest = m.real(-std::numeric_limits<double>::infinity(), zero);
  Value top = reduce(
      lowest, [&](ArrayRef<Index> c) { return stage(input, c); },
      [&](Value a, Value b) { return m.max(a, b); });
  endPass();
  Value terms = allocate();
  Value sum = reduce(
      zero,
      [&](ArrayRef<Index> c) {
        Value x = k.e().emit(input, positions(c));
        Value shift = isa<VectorType>(x.getType()) ? k.e().broadcast(top) : top;
        Value term = m.exp(m.sub(x, shift));
        if (c[0].lane)
          term = k.e().broadcast(term);
        k.storeVector(terms, type, c[0].base, term);
        return term;
      },
      [&](Value a, Value b) { return m.add(a, b); });
  bool log = op.getLog();
  Value shift = log ? m.log(sum) : m.div(m.real(1.0, sum), sum);
  provide(op.getResult(), [=](ArrayRef<Index> indices) mutable -> Value {
    if (!inRow(indices))
      return nullptr;
    MathBuilder &m = k.math();
    const Index &column = indices[shape.axes[0]];
    Value r;
    if (log) {
      // Two steps: a large maximum would swallow the logarithm.
      Value x = k.e().emit(input, indices);
      bool lanes = isa<VectorType>(x.getType());
      x = m.sub(x, lanes ? k.e().broadcast(top) : top);
      r = m.sub(x, lanes ? k.e().broadcast(shift) : shift);
    } else {
      if (column.lane != 0 && column.lane != 1)
        return nullptr;
      Value x = k.loadVector(terms, type, column.base,
                             column.lane ? k.e().width() : 1);
      r = m.mul(x, column.lane ? k.e().broadcast(shift) : shift);
    }
    return k.e().isStrict()
               ? k.round(k.e(), r, elementType(op.getResult()), true)
               : r;
  });
}

/// `x` op `scalar`, whichever has lanes.
Value RowPasses::mix(Value x, Value scalar,
                     llvm::function_ref<Value(Value, Value)> op) {
  if (isa<VectorType>(x.getType()))
    scalar = k.e().broadcast(scalar);
  else if (isa<VectorType>(scalar.getType()))
    x = k.e().broadcast(x);
  return op(x, scalar);
}

Value RowPasses::parameter(Value tensor, ArrayRef<Index> indices) {
  size_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  return k.e().emit(tensor, indices.take_back(rank));
}

void RowPasses::rmsNorm(RmsNormOp op) {
  MathBuilder &m = k.math();
  Value input = op.getInput();
  Type type = computeType(elementType(input));
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getZeroAttr(type));
  Value sum = reduce(
      zero,
      [&](ArrayRef<Index> c) {
        Value x = stage(input, c);
        return m.mul(x, x);
      },
      [&](Value a, Value b) { return m.add(a, b); });
  endPass();
  Value variance =
      m.add(meanOf(sum), m.real(op.getEpsilon().convertToFloat(), sum));
  Value scale = m.div(m.real(1.0, sum), m.sqrt(variance));
  provide(op.getResult(), [=](ArrayRef<Index> indices) mutable -> Value {
    if (!inRow(indices))
      return nullptr;
    auto mul = [&](Value a, Value b) { return k.math().mul(a, b); };
    Type element = elementType(op.getResult());
    Value r = mix(k.e().emit(input, indices), scale, mul);
    bool strict = k.e().isStrict();
    if (strict && op.getCastBeforeScale())
      r = k.round(k.e(), r, element, true);
    if (Value w = op.getWeight())
      r = mix(r, parameter(w, indices), mul);
    return strict ? k.round(k.e(), r, element, true) : r;
  });
}

void RowPasses::layerNorm(LayerNormOp op) {
  MathBuilder &m = k.math();
  Value input = op.getInput();
  Type type = computeType(elementType(input));
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getZeroAttr(type));
  auto add = [&](Value a, Value b) { return k.math().add(a, b); };
  Value mean = meanOf(
      reduce(zero, [&](ArrayRef<Index> c) { return stage(input, c); }, add));
  endPass();
  Value variance = meanOf(reduce(
      zero,
      [&](ArrayRef<Index> c) {
        Value d = mix(k.e().emit(input, positions(c)), mean,
                      [&](Value a, Value b) { return m.sub(a, b); });
        return m.mul(d, d);
      },
      add));
  Value root =
      m.sqrt(m.add(variance, m.real(op.getEpsilon().convertToFloat(), zero)));
  Value scale = m.div(m.real(1.0, zero), root);
  provide(op.getResult(), [=](ArrayRef<Index> indices) mutable -> Value {
    if (!inRow(indices))
      return nullptr;
    MathBuilder &m = k.math();
    auto mul = [&](Value a, Value b) { return m.mul(a, b); };
    Value r = mix(k.e().emit(input, indices), mean,
                  [&](Value a, Value b) { return m.sub(a, b); });
    r = mix(mix(r, scale, mul), parameter(op.getWeight(), indices), mul);
    if (Value bias = op.getBias())
      r = mix(r, parameter(bias, indices),
              [&](Value a, Value b) { return m.add(a, b); });
    return k.e().isStrict()
               ? k.round(k.e(), r, elementType(op.getResult()), true)
               : r;
  });
}

void RowPasses::run() {
  for (Operation &op : *k.kernel.getBlock()) {
    if (isa<MatmulOp, AttentionOp>(op))
      break; // what follows reads its result
    auto reduction = getReduction(&op);
    if (!reduction || getSymShape(reduction->first) != shape.space ||
        reduction->second != shape.axes)
      continue;
    if (auto softmax = dyn_cast<SoftmaxOp>(op))
      this->softmax(softmax);
    else if (auto norm = dyn_cast<RmsNormOp>(op))
      rmsNorm(norm);
    else if (auto norm = dyn_cast<LayerNormOp>(op))
      layerNorm(norm);
    else if (!isa<ArgMaxOp>(op))
      this->reduction(&op);
  }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

namespace {
/// A result and how its elements are found from a row.
struct RowResult {
  unsigned number;
  StridedOutput output;
  bool wholeRow;  ///< an element a column, else one a row
  bool keepsAxes; ///< reduced axes are 1, else they are gone
};
} // namespace

static std::optional<RowResult> classify(unsigned number, Value value,
                                         const RowShape &shape) {
  if (auto output = getStridedOutput(value, shape.space))
    return RowResult{number, *output, true, true};
  SymShape kept = shape.space, gone;
  for (int64_t axis : shape.axes)
    kept[axis] = SymExpr(1);
  if (auto output = getStridedOutput(value, kept))
    return RowResult{number, *output, false, true};
  for (int64_t axis : shape.rowAxes)
    gone.push_back(shape.space[axis]);
  if (auto output = getStridedOutput(value, gone))
    return RowResult{number, *output, false, false};
  return std::nullopt;
}

static void storeRow(KernelBuilder &k, RowPasses &passes,
                     ArrayRef<RowResult> results) {
  for (const RowResult &r : results) {
    if (r.wholeRow)
      continue;
    Indices at;
    if (r.keepsAxes)
      at = passes.row;
    else
      for (int64_t axis : passes.shape.rowAxes)
        at.push_back(passes.row[axis]);
    k.storeResult(r.number, k.offsetOf(at, r.output.strides),
                  k.e().emit(r.output.anchor, at));
  }
  if (llvm::none_of(results, [](const RowResult &r) { return r.wholeRow; }))
    return;
  passes.pass(
      {},
      [&](ArrayRef<Index> columns, ValueRange) {
        Indices at = passes.positions(columns);
        for (const RowResult &r : results)
          if (r.wholeRow)
            k.storeResult(r.number, k.offsetOf(at, r.output.strides),
                          k.e().emit(r.output.anchor, at));
        return KernelBuilder::Carried();
      },
      [](unsigned, Value, Value) { return Value(); });
}

Indices host::rowIndices(KernelBuilder &k, const RowShape &shape, Value row) {
  SymShape rows;
  for (int64_t axis : shape.rowAxes)
    rows.push_back(shape.space[axis]);
  Indices split = *k.ix().delinearize(k.ix().index(row), rows, 1);
  Indices at(shape.space.size(), k.ix().index(0));
  for (auto [axis, i] : llvm::zip(shape.rowAxes, split))
    at[axis] = i;
  return at;
}

void host::emitRowReduction(KernelBuilder &k, const RowShape &shape) {
  SmallVector<RowResult> results;
  SmallVector<unsigned> others;
  for (auto [number, value] :
       llvm::enumerate(k.kernel.getYield().getValues())) {
    if (auto r = classify(number, value, shape))
      results.push_back(*r);
    else
      others.push_back(number);
  }
  if (!results.empty())
    k.ix().loop(k.begin, k.end, 1, [&](Value item) {
      RowPasses passes(k, shape, rowIndices(k, shape, item));
      passes.run();
      storeRow(k, passes, results);
    });
  if (!others.empty())
    emitPulledResults(k, others);
}
