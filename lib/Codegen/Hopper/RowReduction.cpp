//===- RowReduction.cpp - Template: rows that are reduced -----------------===//
//
// Norms, softmax and reductions over the last axes, with the pointwise
// operations around them. A row belongs to a few lanes of a warp, to a warp or
// to a block (kernels::rowLadder). Where it fits, a thread keeps its columns
// in registers: elements are computed once, the emitter remembers them by
// column, and every later pass reuses them. Else each pass reads the row again.
//
// Threads beyond the end of a row, and blocks beyond the last row, read the
// last columns and the last row again: loads need no branch and all of them
// are in flight at once. Reductions ignore such columns, stores are predicated.
//
//===----------------------------------------------------------------------===//

#include "RowTemplate.h"

#include "fusion/Codegen/Common/NarrowFloat.h"
#include "fusion/Kernels/KernelShape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::CardLaunch;

using Vals = KernelBuilder::Vals;
using Column = RowTemplate::Column;
using Output = RowTemplate::Output;

//===----------------------------------------------------------------------===//
// Where things are
//===----------------------------------------------------------------------===//

void RowTemplate::placeRow(const CardLaunch &launch) {
  unsigned perBlock = launch.rowsPerBlock;
  Val rows = k.wrap(ix.size(space.rows));
  Val first = k.toIndex(k.block()) * int64_t(perBlock);
  if (perBlock == 1)
    return place(ix.index(Value(first)), k.thread(), Val());
  Val inBlock = k.thread() / int64_t(threadsPerRow);
  Val mine = first + k.toIndex(inBlock);
  place(ix.index(k.min(mine, rows - 1)), k.thread() % int64_t(threadsPerRow),
        mine < rows);
}

void RowTemplate::place(Index at, Val inRow, Val exists) {
  row = at;
  position = inRow;
  rowExists = exists;
  width = ix.size(space.width);
  for (unsigned chunk = 0; chunk < chunks; ++chunk) {
    // (chunk * threads + position) * vector, clamped to the row's last vector.
    int64_t begin = int64_t(chunk) * threadsPerRow * vector;
    int64_t end = begin + int64_t(threadsPerRow) * vector;
    int64_t size = *space.width.asConstant();
    Val at = k.toIndex(position) * int64_t(vector) + begin;
    Column column;
    if (end > size) {
      column.active = at < k.wrap(width);
      at = k.min(at, k.wrap(ix.constant(size - vector)));
    }
    column.at = ix.index(Value(at), vector > 1, vector);
    columns.push_back(column);
  }
}

void RowTemplate::mapColumns(llvm::function_ref<void(const Column &)> body) {
  foldColumns({}, [&](const Column &column, ArrayRef<Val>) {
    body(column);
    return Vals();
  });
}

Vals RowTemplate::foldColumns(
    Vals init, llvm::function_ref<Vals(const Column &, ArrayRef<Val>)> step) {
  if (chunks) {
    for (const Column &column : columns) {
      Vals next = step(column, init);
      for (auto [value, old] : llvm::zip(next, init))
        value = column.active ? k.select(column.active, value, old) : value;
      init = next;
    }
    return init;
  }
  Value begin = k.toIndex(position) * int64_t(vector);
  SmallVector<Value> values(init.begin(), init.end());
  values = ix.loop(begin, width, int64_t(threadsPerRow) * vector, values,
                   [&](Value at, ValueRange carried) {
                     Vals old;
                     for (Value v : carried)
                       old.push_back(k.wrap(v));
                     Vals next =
                         step({ix.index(at, vector > 1, vector), Val()}, old);
                     return SmallVector<Value>(next.begin(), next.end());
                   });
  Vals result;
  for (Value v : values)
    result.push_back(k.wrap(v));
  return result;
}

/// Splits a shape into axes that number `rows` and axes of a row; nullopt when
/// it is no tensor of rows. Rows of one element leave no trailing axes.
static std::optional<unsigned> splitShape(ArrayRef<SymExpr> shape,
                                          const kernels::RowSpace &space) {
  SymExpr trailing = 1;
  for (size_t axis = shape.size();; --axis) {
    if (trailing == space.width &&
        numElements(shape.take_front(axis)) == space.rows)
      return axis;
    if (axis == 0)
      return std::nullopt;
    trailing = trailing * shape[axis - 1];
  }
}

Indices RowTemplate::indicesOf(Value tensor, const Index &column) {
  SymShape shape = getSymShape(tensor);
  ArrayRef<SymExpr> axes(shape);
  std::optional<unsigned> split = splitShape(axes, space);
  auto rowAxes = split ? axes.take_front(*split) : axes;
  Indices indices = *ix.delinearize(row, rowAxes, 1);
  if (split)
    if (auto inner = ix.delinearize(column, axes.drop_front(*split), vector))
      indices.append(*inner);
  if (indices.size() == shape.size())
    return indices;
  f.fail("a vector of columns crosses the end of an axis");
  return Indices(shape.size(), ix.index(0));
}

bool RowTemplate::isThisRow(Value tensor, ArrayRef<Index> indices) {
  SymShape shape = getSymShape(tensor);
  std::optional<unsigned> split = splitShape(shape, space);
  unsigned leading = split ? *split : shape.size();
  Indices mine =
      *ix.delinearize(row, ArrayRef<SymExpr>(shape).take_front(leading), 1);
  for (unsigned axis = 0; axis < leading; ++axis)
    if (shape[axis] != SymExpr(1) &&
        (indices[axis].base != mine[axis].base || indices[axis].lane != 0))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Val RowTemplate::reduceRow(Val neutral, llvm::function_ref<Val(Val, Val)> step,
                           llvm::function_ref<Val(const Column &)> value) {
  Vals partial = foldColumns({splat(neutral)},
                             [&](const Column &column, ArrayRef<Val> sum) {
                               return Vals{step(sum[0], value(column))};
                             });
  Val mine = k.reduceLanes(partial[0], step);
  return k.reduce({mine}, threadsPerRow, [&](ArrayRef<Val> a, ArrayRef<Val> b) {
    return Vals{step(a[0], b[0])};
  })[0];
}

Val RowTemplate::sumRow(Value like,
                        llvm::function_ref<Val(const Column &)> value) {
  return reduceRow(real(like, 0), [](Val a, Val b) { return a + b; }, value);
}

Val RowTemplate::real(Value like, double value) {
  Type type = computeType(elementType(like));
  return k.wrap(arith::ConstantOp::create(
      k.builder(), k.builder().getFloatAttr(type, value)));
}

Val RowTemplate::countOf(Value like) {
  if (auto columns = space.width.asConstant())
    return real(like, double(*columns));
  return k.wrap(arith::SIToFPOp::create(k.builder(),
                                        computeType(elementType(like)),
                                        Value(k.toI64(k.wrap(width)))));
}

Val RowTemplate::exp(Val x) {
  if (!getElementTypeOrSelf(x.type()).isF32())
    return k.wrap(group.math().exp(x));
  return static_cast<CardTarget &>(group.getTarget()).exp(x);
}

void RowTemplate::provide(Operation *op,
                          std::function<Val(ArrayRef<Index>)> value) {
  Value result = op->getResult(0);
  group.provide(
      result, [this, op, result, value](ArrayRef<Index> indices) -> Value {
        if (!isThisRow(result, indices))
          return group.unsupported(op, "another row's result is needed");
        Value v = value(indices);
        if (group.isStrict() && isa<FloatType>(elementType(result)))
          v = group.getTarget().round(group, v, elementType(result), true);
        return v;
      });
}

/// The weight of a norm at a position of its result.
static Indices weightIndices(Value weight, ArrayRef<Index> indices) {
  return Indices(
      indices.take_back(cast<RankedTensorType>(weight.getType()).getRank()));
}

static Val rsqrt(KernelBuilder &k, Val x) {
  return k.wrap(
      math::RsqrtOp::create(k.builder(), Value(x), arith::FastMathFlags::afn));
}

void RowTemplate::reduceRmsNorm(RmsNormOp op) {
  Value input = op.getInput();
  Val sum = sumRow(input, [&](const Column &c) {
    Val x = element(input, c);
    return x * x;
  });
  Val mean = space.width.isConstant()
                 ? sum * real(input, 1.0 / *space.width.asConstant())
                 : sum / countOf(input);
  Val scale = rsqrt(k, mean + real(input, op.getEpsilon().convertToDouble()));
  provide(op, [this, op, scale](ArrayRef<Index> indices) mutable {
    Val y = k.wrap(group.emit(op.getInput(), indices)) * scale;
    if (!op.getWeight())
      return y;
    if (group.isStrict() && op.getCastBeforeScale())
      y = k.wrap(
          group.getTarget().round(group, y, elementType(op.getResult()), true));
    return y * k.wrap(group.emit(op.getWeight(),
                                 weightIndices(op.getWeight(), indices)));
  });
}

void RowTemplate::reduceLayerNorm(LayerNormOp op) {
  Value input = op.getInput();
  Val count = countOf(input);
  Val mean =
      sumRow(input, [&](const Column &c) { return element(input, c); }) / count;
  Val variance = sumRow(input,
                        [&](const Column &c) {
                          Val d = element(input, c) - mean;
                          return d * d;
                        }) /
                 count;
  Val scale =
      rsqrt(k, variance + real(input, op.getEpsilon().convertToDouble()));
  provide(op, [this, op, mean, scale](ArrayRef<Index> indices) mutable {
    Val y = (k.wrap(group.emit(op.getInput(), indices)) - mean) * scale *
            k.wrap(group.emit(op.getWeight(),
                              weightIndices(op.getWeight(), indices)));
    if (Value bias = op.getBias())
      y = y + k.wrap(group.emit(bias, weightIndices(bias, indices)));
    return y;
  });
}

/// Larger of two floats; NaN wins.
static Val maximum(KernelBuilder &k, Val a, Val b) {
  return k.wrap(arith::MaximumFOp::create(k.builder(), Value(a), Value(b)));
}

void RowTemplate::reduceSoftmax(SoftmaxOp op) {
  Value input = op.getInput();
  Val lowest = real(input, -std::numeric_limits<double>::infinity());
  Val top = reduceRow(
      lowest, [&](Val a, Val b) { return maximum(k, a, b); },
      [&](const Column &c) { return element(input, c); });
  Val sum = sumRow(
      input, [&](const Column &c) { return exp(element(input, c) - top); });
  if (op.getLog()) {
    Val logSum = k.wrap(group.math().log(sum));
    provide(op, [this, input, top, logSum](ArrayRef<Index> indices) mutable {
      return k.wrap(group.emit(input, indices)) - top - logSum;
    });
    return;
  }
  Val scale = real(input, 1) / sum;
  provide(op, [this, input, top, scale](ArrayRef<Index> indices) mutable {
    return exp(k.wrap(group.emit(input, indices)) - top) * scale;
  });
}

void RowTemplate::reducePlain(Operation *op) {
  Value input = op->getOperand(0);
  Type type = getElementTypeOrSelf(Value(k.f32(0)));
  // The accumulator's type is the one in which elements are computed.
  auto make = [&](Type t) { return k.wrap(group.neutral(op, t)); };
  Type element0 = elementType(input);
  type = isa<FloatType>(element0)
             ? (element0.isF64() ? element0 : type)
             : IntegerType::get(
                   op->getContext(),
                   element0.isInteger(1)
                       ? 1
                       : std::max(8u, element0.getIntOrFloatBitWidth()));
  Val total = reduceRow(
      make(type),
      [&](Val a, Val b) { return k.wrap(group.accumulate(op, a, b)); },
      [&](const Column &c) { return element(input, c); });
  Val result = k.wrap(group.finish(op, total));
  provide(op, [result](ArrayRef<Index>) { return result; });
}

void RowTemplate::reduceArgMax(ArgMaxOp op) {
  ImplicitLocOpBuilder &b = k.builder();
  // A pair (value, position) is better when its value is, or else its position.
  auto better = [&](Val x, Val i, Val y, Val j) {
    bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.type()));
    if (isUnsigned(elementType(op.getInput()))) {
      // Signed order of what the highest bit was changed in.
      auto flip = [&](Val v) {
        return k.wrap(arith::XOrIOp::create(
            b, Value(v),
            Value(k.constant(v.type(),
                             int64_t(1)
                                 << (v.type().getIntOrFloatBitWidth() - 1)))));
      };
      x = flip(x);
      y = flip(y);
    }
    Val larger = op.getSmallest() ? x < y : y < x;
    Val equal = x == y;
    Val first = op.getLast() ? j < i : i < j;
    Val wins = larger || (equal && first);
    if (isFloat) { // the first NaN wins
      Val nan = k.wrap(arith::CmpFOp::create(b, arith::CmpFPredicate::UNO,
                                             Value(x), Value(x)));
      Val other = k.wrap(arith::CmpFOp::create(b, arith::CmpFPredicate::UNO,
                                               Value(y), Value(y)));
      Val both = nan && other && first;
      Val only = nan && k.wrap(arith::CmpFOp::create(
                            b, arith::CmpFPredicate::ORD, Value(y), Value(y)));
      return wins || both || only;
    }
    return wins;
  };
  auto step = [&](ArrayRef<Val> a, ArrayRef<Val> c) {
    Val wins = better(c[0], c[1], a[0], a[1]);
    return Vals{k.wrap(arith::SelectOp::create(b, wins, c[0], a[0])),
                k.wrap(arith::SelectOp::create(b, wins, c[1], a[1]))};
  };
  auto scalars = [&](const Column &c, unsigned lane) {
    Val x = element(op.getInput(), c);
    Val at = k.toI64(k.wrap(c.at.base)) + int64_t(lane);
    return Vals{vector == 1 ? x : k.extract(x, lane), at};
  };
  // Starts with the row's first column: any element beats nothing.
  Column start{ix.index(0), Val()};
  unsigned lanes = group.width();
  group.setWidth(1);
  Val first =
      k.wrap(group.emit(op.getInput(), indicesOf(op.getInput(), start.at)));
  group.setWidth(lanes);
  Vals best = foldColumns({first, k.i64(0)},
                          [&](const Column &column, ArrayRef<Val> sum) {
                            Vals next(sum.begin(), sum.end());
                            for (unsigned lane = 0; lane < vector; ++lane)
                              next = step(next, scalars(column, lane));
                            return next;
                          });
  best = k.reduce(best, threadsPerRow, step);
  Val position = best[1];
  provide(op, [position](ArrayRef<Index>) { return position; });
}

void RowTemplate::reduce(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RmsNormOp o) { reduceRmsNorm(o); })
      .Case([&](LayerNormOp o) { reduceLayerNorm(o); })
      .Case([&](SoftmaxOp o) { reduceSoftmax(o); })
      .Case([&](ArgMaxOp o) { reduceArgMax(o); })
      .Default([&](Operation *o) { reducePlain(o); });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static bool isReduction(Operation *op) {
  return kernels::getReduction(op).has_value();
}

static bool dependsOnReduction(Value value) {
  Operation *op = value.getDefiningOp();
  return op && (isReduction(op) ||
                llvm::any_of(op->getOperands(), dependsOnReduction));
}

Output RowTemplate::traceOutput(unsigned number) {
  Output output;
  output.number = number;
  output.source = f.kernel.getYield().getValues()[number];
  SymExpr elements = numElements(output.source.getType());
  output.perRow =
      elements == space.rows && elements != space.rows * space.width;
  while (Operation *op = output.source.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp>(op))
      break;
    output.views.insert(output.views.begin(), op);
    output.source = op->getOperand(0);
  }
  output.early = !dependsOnReduction(output.source);
  return output;
}

/// Where the source's element of this row and column lies in the result.
Index RowTemplate::placeOf(const Output &output, const Index &column) {
  SymShape shape = getSymShape(output.source);
  Indices indices = indicesOf(output.source, column);
  Index flat = output.perRow ? row : ix.add(ix.scale(row, space.width), column);
  for (Operation *view : output.views) {
    SymShape next = getSymShape(view->getResult(0));
    if (auto transpose = dyn_cast<TransposeOp>(view)) {
      Indices moved;
      for (int64_t axis : transpose.getPerm())
        moved.push_back(indices[axis]);
      indices = moved;
      flat = ix.linearize(indices, next);
    } else if (auto split = ix.delinearize(flat, next, vector)) {
      indices = *split;
    } else {
      f.fail("a vector of columns crosses the end of an axis");
    }
  }
  return flat;
}

void RowTemplate::storeColumn(const Output &output, const Column &column) {
  auto &target = static_cast<CardTarget &>(group.getTarget());
  Val value = element(output.source, column);
  bool moves = llvm::any_of(output.views,
                            [](Operation *v) { return isa<TransposeOp>(v); });
  if (!moves || vector == 1)
    return target.store(group, value, output.number,
                        placeOf(output, column.at));
  for (unsigned lane = 0; lane < vector; ++lane) {
    Index at = ix.index(ix.add(column.at.base, ix.constant(lane)));
    target.store(group, k.extract(value, lane), output.number,
                 placeOf(output, at));
  }
}

void RowTemplate::storePerRow(const Output &output) {
  auto &target = static_cast<CardTarget &>(group.getTarget());
  Val first = position == k.i32(0);
  if (rowExists)
    first = first && rowExists;
  ix.when(first, [&] {
    group.setWidth(1);
    Index none = ix.index(0);
    Val value =
        k.wrap(group.emit(output.source, indicesOf(output.source, none)));
    target.store(group, value, output.number, placeOf(output, none));
    group.setWidth(vector);
  });
}

void RowTemplate::storeOutputs(
    llvm::function_ref<bool(const Output &)> wanted) {
  SmallVector<const Output *> perColumn;
  for (const Output &output : outputs)
    if (wanted(output)) {
      if (output.perRow)
        storePerRow(output);
      else
        perColumn.push_back(&output);
    }
  if (perColumn.empty())
    return;
  mapColumns([&](const Column &column) {
    auto store = [&] {
      for (const Output *output : perColumn)
        storeColumn(*output, column);
    };
    Val condition = rowExists;
    if (column.active)
      condition = condition ? condition && column.active : column.active;
    // Values first: what the branch computes is forgotten at its end.
    for (const Output *output : perColumn)
      element(output->source, column);
    if (condition)
      ix.when(condition, store);
    else
      store();
  });
}

/// Loads operands that are one row (the weights of a norm) for the columns in
/// registers, so that they do not arrive after the threads have met.
void RowTemplate::loadSingleRows(llvm::function_ref<bool(unsigned)> wanted) {
  if (!chunks || vector == 1)
    return;
  for (BlockArgument operand : f.kernel.getBlock()->getArguments()) {
    SymShape shape = getSymShape(operand);
    bool single = !shape.empty() && shape.back() == space.width &&
                  numElements(shape) == shape.back();
    if (!single || !wanted(operand.getArgNumber()))
      continue;
    for (const Column &column : columns) {
      Indices indices(shape.size() - 1, ix.index(0));
      indices.push_back(column.at);
      group.emit(operand, indices);
    }
  }
}

/// The part of a programmatic launch that may run before its predecessor ends:
/// loads of what no kernel of the program writes.
void RowTemplate::buildPrologue() {
  if (!kernels::isProgrammatic(f.kernel))
    return;
  k.releaseNext();
  loadSingleRows([&](unsigned number) {
    return kernels::isStepInvariant(f.kernel, number);
  });
  k.waitForPrevious();
}

void RowTemplate::reduceRows(ArrayRef<Operation *> reductions,
                             llvm::function_ref<void()> meanwhile) {
  for (Operation *op : reductions) {
    // With the row in registers its elements are loaded now; what needs no
    // reduction is done before the threads meet.
    if (chunks && op == reductions.front()) {
      for (const Column &column : columns)
        element(op->getOperand(0), column);
      // With one row alone everything would look like a weight.
      loadSingleRows([&](unsigned) { return space.rows != SymExpr(1); });
      meanwhile();
    }
    reduce(op);
  }
}

void RowTemplate::build(const CardLaunch &launch) {
  group.setWidth(vector);
  placeRow(launch);
  buildPrologue();
  for (unsigned i = 0; i < f.kernel.getYield().getNumOperands(); ++i)
    outputs.push_back(traceOutput(i));
  SmallVector<Operation *> reductions;
  for (Operation &op : *f.kernel.getBlock())
    if (isReduction(&op))
      reductions.push_back(&op);
  bool stored = false;
  reduceRows(reductions, [&] {
    storeOutputs([](const Output &o) { return o.early; });
    stored = true;
  });
  storeOutputs([&](const Output &o) { return !(o.early && stored); });
  for (Operation *op : reductions)
    group.withdraw(op->getResult(0));
}

void hopper::buildRowReduction(KernelFunction &f) {
  const CardLaunch &launch = f.launch;
  // Blocks beyond the last row have nothing to do.
  Val rows = f.k.wrap(f.ix().size(launch.space.rows));
  Val first = f.k.toIndex(f.k.block()) * int64_t(launch.rowsPerBlock);
  f.ix().when(first < rows, [&] {
    auto build = [&](unsigned vector, unsigned chunks) {
      RowTemplate(f, launch.space, launch.threadsPerRow, vector, chunks)
          .build(launch);
    };
    auto fast = [&] { build(launch.vector, launch.chunks); };
    if (launch.vector == 1)
      return fast();
    f.whenAligned(fast, [&] { build(1, 0); });
  });
}
