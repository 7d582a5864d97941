//===- Skinny.cpp - Template: products of one row -------------------------===//
//
// The weights are streamed once, 16 bytes a load, with two register buffers:
// while one is multiplied the other is on its way. A block has a range of the
// weights' rows; all its threads share a row, or each warp has rows of its
// own. A thread keeps its columns of lhs, which a norm and an addition before
// the product make on the way, in registers, or in shared memory where it has
// many. Partial sums meet in shared memory once, at the end, and each thread
// finishes one result: the epilogue.
//
// In a programmatic launch the first two buffers of weights, and a norm's
// weight, are loaded before the wait for the previous kernel. Where no other
// kernel writes what this one reads, only results wait.
//
// Packed weights of 4 and 8 bits have a main loop of their own (LowBitStream).
//
// Where weights do not lie row by row, or a pointer is not aligned, elements
// are pulled one by one: the same sums, slower.
//
//===----------------------------------------------------------------------===//

#include "LowBitStream.h"

#include "fusion/Kernels/KernelShape.h"
#include "fusion/Kernels/SkinnyShape.h"
#include "fusion/Kernels/StridedView.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::SkinnyBundle;
using kernels::SkinnyShape;

namespace {

using Vals = KernelBuilder::Vals;

class SkinnyTemplate {
public:
  SkinnyTemplate(KernelFunction &f, const SkinnyShape &shape)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), shape(shape),
        target(static_cast<CardTarget &>(group.getTarget())),
        results(f.kernel.getYield().getValues()) {}
  void build(bool streamed);

private:
  // Launch.
  bool isInvariant(unsigned argument) const;
  bool weightsAreInvariant() const;
  bool waitsLate() const;
  void findBases();
  void placeBlock();

  // The row of lhs.
  void makeRow(RowTemplate &row);
  void keepColumns(RowTemplate &row);
  void spreadRow(RowTemplate &row);
  bool hasNarrowLhs() const;
  Vals columnsOf(unsigned piece, Val turn);

  // Weights in pieces of 16 bytes.
  Val addressOf(Val row, unsigned slot);
  Vals loadStep(Val step);
  void multiply(Val step, ArrayRef<Val> words);
  void stream(Vals first, Vals second);
  Vals toFloats(ArrayRef<Val> words, Type element);

  // Weights element by element.
  void pullAlongK();
  void pullAlongN();
  void forBundles(Val row, llvm::function_ref<void(const SkinnyBundle &)> body);
  Val weightElement(unsigned product, Val n, Val at);

  // Results.
  Val partialAt(Val row, unsigned slot, Val part);
  void storePartial(Val row, unsigned slot, Val part, Val value);
  Indices indicesAt(const SkinnyBundle &bundle, Val row);
  void loadEpilogueOperands();
  void finishRows();
  void finishRow(Val number);

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  BodyEmitter &group;
  SkinnyShape shape;
  CardTarget &target;
  ValueRange results;
  Val firstRow, endRow;      ///< of this block, i32
  Val shared, partial;       ///< lhs, sums
  unsigned usedParts = 1;    ///< sums of a row of one product
  Val position, rowGroup;    ///< of the thread: among those of a row, which row
  SmallVector<Vals> columns; ///< of lhs, fp32, one list a piece
  SmallVector<SmallVector<Val>> bases; ///< addresses, by slot and bundle
  std::optional<LowBitStream> lowBit;  ///< where packed weights are streamed
};

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

bool SkinnyTemplate::isInvariant(unsigned argument) const {
  return !kernels::isProgrammatic(f.kernel) ||
         kernels::isStepInvariant(f.kernel, argument);
}

bool SkinnyTemplate::weightsAreInvariant() const {
  for (const kernels::LowBitWeight &w : shape.lowBit)
    for (BlockArgument argument : {w.codes, w.scales, w.zeros})
      if (argument && !isInvariant(argument.getArgNumber()))
        return false;
  return shape.isLowBit() || llvm::all_of(shape.weights, [&](auto &w) {
           return isInvariant(w.argument.getArgNumber());
         });
}

/// Nothing that the kernel reads is written by another: only its results have
/// to wait.
bool SkinnyTemplate::waitsLate() const {
  return shape.rowResults.empty() && hopper::waitsLate(f);
}

/// Addresses of the weights, of the first row of all bundles.
void SkinnyTemplate::findBases() {
  for (unsigned slot = 0; slot < shape.productsPerRow; ++slot) {
    bases.emplace_back();
    for (const SkinnyBundle &bundle : shape.bundles) {
      auto &weight = shape.weights[bundle.products[slot]];
      int64_t start = weight.offset - bundle.firstRow * shape.k;
      bases.back().push_back(
          k.toInteger(target.pointers[weight.argument.getArgNumber()]) +
          start * int64_t(16 / shape.vector));
    }
  }
}

/// Blocks that share a multiprocessor have neighbouring rows, so that each
/// multiprocessor has the same number of them, give or take one.
void SkinnyTemplate::placeBlock() {
  constexpr unsigned kMulti = kernels::kMultiprocessors;
  Val block = k.block();
  Val place = (block % kMulti) * int64_t(shape.residentBlocks()) +
              block / int64_t(kMulti);
  int64_t unit = shape.isLowBit() ? kernels::kStripRows : 1;
  int64_t units = shape.rows / unit;
  firstRow = place * units / int64_t(shape.blocks()) * unit;
  endRow = (place + 1) * units / int64_t(shape.blocks()) * unit;
  shared = k.dynamicShared();
  partial = k.at(shared, shape.lhsBytes());
  unsigned threads = shape.threadsPerRow;
  position = threads == 32 ? k.lane() : k.thread();
  rowGroup = threads == 32 ? k.warp() : k.i32(0);
}

//===----------------------------------------------------------------------===//
// The row of lhs
//===----------------------------------------------------------------------===//

/// Computes what comes before the products; block 0 stores its results.
void SkinnyTemplate::makeRow(RowTemplate &row) {
  SmallVector<Operation *> reductions;
  for (Operation &op : *f.kernel.getBlock())
    if (kernels::getReduction(&op))
      reductions.push_back(&op);
  row.reduceRows(reductions, [] {});
}

/// Lhs lies in memory in 16 bits.
bool SkinnyTemplate::hasNarrowLhs() const {
  Type element = elementType(shape.lhs);
  return kernels::getStridedView(shape.lhs) &&
         (element.isBF16() || element.isF16());
}

void SkinnyTemplate::keepColumns(RowTemplate &row) {
  if (lowBit)
    return lowBit->keepLhs(row);
  Type element = elementType(shape.lhs), real = k.f32(0).type();
  bool narrow = hasNarrowLhs();
  for (auto [piece, column] : llvm::enumerate(row.getColumns())) {
    Val values = row.element(shape.lhs, column);
    if (column.active)
      values = k.select(column.active, values, k.constant(values.type(), 0));
    if (!shape.sharedLhs) {
      Vals lanes;
      for (unsigned lane = 0; lane < shape.vector; ++lane)
        lanes.push_back(k.extract(values, lane));
      columns.push_back(lanes);
      continue;
    }
    // Own slots: a thread reads what it has written.
    unsigned bytes = narrow ? 2 : 4;
    Val stored = k.round(values, narrow ? element : real);
    Val at = (position + int64_t(piece * shape.threadsPerRow)) *
             int64_t(shape.vector);
    auto store = [&] {
      for (unsigned part = 0; part < shape.vector * bytes / 16; ++part) {
        unsigned lanes = 16 / bytes;
        Val slice = k.slice(stored, part * lanes, lanes);
        k.store(slice, shared, at + (int64_t(part) * lanes), {16, false});
      }
    };
    if (shape.threadsPerRow == 32)
      k.when(rowGroup == k.i32(0), store); // all warps have the same row
    else
      store();
  }
  if (shape.sharedLhs)
    k.barrier();
}

/// The columns of lhs that go with a piece, in fp32.
Vals SkinnyTemplate::columnsOf(unsigned piece, Val turn) {
  if (!shape.sharedLhs)
    return columns[piece];
  Type element = hasNarrowLhs() ? elementType(shape.lhs) : k.f32(0).type();
  unsigned bytes = element.getIntOrFloatBitWidth() / 8;
  int64_t threads = shape.threadsPerRow;
  Val at = (turn * int64_t(shape.pieces) + int64_t(piece)) * threads + position;
  Vals words;
  for (unsigned part = 0; part < shape.vector * bytes / 16; ++part) {
    // In the order of the vectors: part `part` of vector `at`.
    Val offset = (at * int64_t(shape.vector * bytes / 16) + int64_t(part)) * 4;
    Val loaded = k.loadVolatile(shared, offset, k.vectorType(4, 32));
    for (unsigned word = 0; word < 4; ++word)
      words.push_back(k.extract(loaded, word));
  }
  return toFloats(words, element);
}

//===----------------------------------------------------------------------===//
// Weights in pieces of 16 bytes
//===----------------------------------------------------------------------===//

/// fp32 values of elements that lie in 32-bit words.
Vals SkinnyTemplate::toFloats(ArrayRef<Val> words, Type element) {
  Vals values;
  for (Val word : words) {
    if (element.isF32()) {
      values.push_back(k.bitcast(word, element));
    } else if (element.isBF16()) {
      Type real = k.f32(0).type();
      values.push_back(k.bitcast(word << 16, real));
      values.push_back(k.bitcast(word & -65536, real));
    } else {
      Val pair = k.extend(k.bitcast(word, VectorType::get({2}, element)));
      values.push_back(k.extract(pair, 0));
      values.push_back(k.extract(pair, 1));
    }
  }
  return values;
}

/// Address of a row's element 0 in the weight of slot `slot` of its bundle.
Val SkinnyTemplate::addressOf(Val row, unsigned slot) {
  int64_t bytes = 16 / shape.vector;
  Val base = bases[slot][0];
  for (auto [i, bundle] : llvm::enumerate(shape.bundles))
    if (i)
      base = k.select(row < k.i32(bundle.firstRow), base, bases[slot][i]);
  return base + k.toI64(row) * (shape.k * bytes);
}

/// The 32-bit words of a step: pieces of `rowsAtOnce` rows of each slot, zeros
/// beyond the block's rows and the row's end.
Vals SkinnyTemplate::loadStep(Val step) {
  if (lowBit)
    return lowBit->load(step, /*isFirst=*/true);
  Vals words;
  int64_t threads = shape.threadsPerRow;
  int64_t groups = shape.threads / threads;
  Val turn = shape.turns > 1 ? step % int64_t(shape.turns) : k.i32(0);
  Val rows = shape.turns > 1 ? step / int64_t(shape.turns) : step;
  int64_t vectors = shape.k / shape.vector;
  for (unsigned i = 0; i < shape.rowsAtOnce; ++i) {
    Val row = firstRow +
              (rows * groups + rowGroup) * int64_t(shape.rowsAtOnce) +
              int64_t(i);
    Val exists = row < endRow;
    for (unsigned slot = 0; slot < shape.productsPerRow; ++slot) {
      Val address = addressOf(row, slot) + k.toI64(position) * 16;
      if (shape.turns > 1)
        address = address + k.toI64(turn) * (shape.pieces * threads * 16);
      for (int64_t piece = 0; piece < shape.pieces; ++piece) {
        Val active = exists;
        bool tail =
            (shape.turns - 1) * shape.pieces * threads + (piece + 1) * threads >
            vectors;
        if (tail) {
          Val at = (turn * int64_t(shape.pieces) + piece) * threads + position;
          active = active && at < k.i32(vectors);
        }
        words.append(k.loadStreamed(address + piece * threads * 16, active));
      }
    }
  }
  return words;
}

void SkinnyTemplate::multiply(Val step, ArrayRef<Val> words) {
  Type element = elementType(shape.weights[0].argument);
  int64_t groups = shape.threads / shape.threadsPerRow;
  Val turn = shape.turns > 1 ? step % int64_t(shape.turns) : k.i32(0);
  Val rows = shape.turns > 1 ? step / int64_t(shape.turns) : step;
  SmallVector<Vals> sums(shape.rowsAtOnce * shape.productsPerRow);
  for (unsigned piece = 0; piece < shape.pieces; ++piece) {
    Vals x = columnsOf(piece, turn);
    for (auto [number, sum] : llvm::enumerate(sums)) {
      unsigned from = (number * shape.pieces + piece) * 4;
      Vals w = toFloats(words.slice(from, 4), element);
      for (auto [lane, value] : llvm::enumerate(w)) {
        Val product = value * x[lane];
        if (sum.size() < 2)
          sum.push_back(product);
        else
          sum[lane % 2] = sum[lane % 2] + product;
      }
    }
  }
  Vals totals;
  for (Vals &sum : sums) {
    Val total = sum.size() > 1 ? sum[0] + sum[1] : sum[0];
    totals.push_back(
        k.reduce({total}, 32, [](ArrayRef<Val> a, ArrayRef<Val> b) {
          return Vals{a[0] + b[0]};
        })[0]);
  }
  int64_t warps = shape.threadsPerRow / 32;
  Val part = turn * warps;
  if (warps > 1)
    part = part + k.warp();
  k.when(k.lane() == k.i32(0), [&] {
    for (unsigned number = 0; number < totals.size(); ++number) {
      Val row = firstRow +
                (rows * groups + rowGroup) * int64_t(shape.rowsAtOnce) +
                int64_t(number / shape.productsPerRow);
      k.when(row < endRow, [&] {
        storePartial(row, number % shape.productsPerRow, part, totals[number]);
      });
    }
  });
}

void SkinnyTemplate::stream(Vals first, Vals second) {
  if (lowBit)
    return lowBit->stream(first, second);
  int64_t atOnce = shape.threads / shape.threadsPerRow * shape.rowsAtOnce;
  Val steps =
      (endRow - firstRow + (atOnce - 1)) / atOnce * int64_t(shape.turns);
  unsigned half = first.size();
  Vals init = first;
  init.append(second);
  k.loop(k.i32(0), steps, k.i32(2), init, [&](Val step, ArrayRef<Val> words) {
    IndexBuilder::Scope scope(ix);
    multiply(step, words.take_front(half));
    Vals next = loadStep(step + 2);
    multiply(step + 1, words.drop_front(half));
    next.append(loadStep(step + 3));
    return next;
  });
}

//===----------------------------------------------------------------------===//
// Weights element by element
//===----------------------------------------------------------------------===//

/// Lhs in fp32 in shared memory, for all threads.
void SkinnyTemplate::spreadRow(RowTemplate &row) {
  row.mapColumns([&](const RowTemplate::Column &column) {
    k.store(row.element(shape.lhs, column), shared, k.wrap(column.at.base),
            {4, false});
  });
  k.barrier();
}

void SkinnyTemplate::forBundles(
    Val row, llvm::function_ref<void(const SkinnyBundle &)> body) {
  if (shape.bundles.size() == 1 && shape.bundles[0].rows == shape.rows)
    return body(shape.bundles[0]);
  for (const SkinnyBundle &bundle : shape.bundles) {
    Val inside = row < k.i32(bundle.firstRow + bundle.rows);
    if (bundle.firstRow)
      inside = inside && k.i32(bundle.firstRow - 1) < row;
    ix.when(inside, [&] { body(bundle); });
  }
}

Val SkinnyTemplate::weightElement(unsigned product, Val n, Val at) {
  MatmulOp op = shape.weights[product].product;
  Indices indices(getSymShape(op.getRhs()).size(), ix.index(0));
  bool transposed = op.getTransposeRhs();
  indices[indices.size() - (transposed ? 2 : 1)] = ix.index(Value(n));
  indices[indices.size() - (transposed ? 1 : 2)] = ix.index(Value(at));
  return k.wrap(group.emit(op.getRhs(), indices));
}

void SkinnyTemplate::pullAlongK() {
  k.loop(firstRow, endRow, k.i32(1), [&](Val row) {
    IndexBuilder::Scope scope(ix);
    forBundles(row, [&](const SkinnyBundle &bundle) {
      Val n = k.toIndex(row - bundle.firstRow);
      for (unsigned slot = 0; slot < bundle.products.size(); ++slot) {
        unsigned product = bundle.products[slot];
        Value from = k.toIndex(k.thread());
        auto sums =
            ix.loop(from, ix.constant(shape.k), shape.threads,
                    ValueRange{Value(k.f32(0))}, [&](Value at, ValueRange sum) {
                      Val x = k.load(shared, k.wrap(at), k.f32(0).type(), {});
                      Val next = k.wrap(sum[0]) +
                                 weightElement(product, n, k.wrap(at)) * x;
                      return SmallVector<Value>{next};
                    });
        Val total = k.reduce({k.wrap(sums[0])}, 32,
                             [](ArrayRef<Val> a, ArrayRef<Val> b) {
                               return Vals{a[0] + b[0]};
                             })[0];
        k.when(k.lane() == k.i32(0),
               [&] { storePartial(row, slot, k.warp(), total); });
      }
    });
  });
}

void SkinnyTemplate::pullAlongN() {
  k.loop(firstRow, endRow, k.i32(32), [&](Val first) {
    IndexBuilder::Scope scope(ix);
    Val row = first + k.lane();
    ix.when(row < endRow, [&] {
      forBundles(row, [&](const SkinnyBundle &bundle) {
        Val n = k.toIndex(row - bundle.firstRow);
        for (unsigned slot = 0; slot < bundle.products.size(); ++slot) {
          unsigned product = bundle.products[slot];
          Value from = k.toIndex(k.warp());
          auto sums = ix.loop(
              from, ix.constant(shape.k), shape.threads / 32,
              ValueRange{Value(k.f32(0))}, [&](Value at, ValueRange sum) {
                Val x = k.load(shared, k.wrap(at), k.f32(0).type(), {});
                Val next =
                    k.wrap(sum[0]) + weightElement(product, n, k.wrap(at)) * x;
                return SmallVector<Value>{next};
              });
          storePartial(row, slot, k.warp(), k.wrap(sums[0]));
        }
      });
    });
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Val SkinnyTemplate::partialAt(Val row, unsigned slot, Val part) {
  return part * shape.partialStride() + int64_t(slot) * shape.rowsPerBlock() +
         (row - firstRow);
}

void SkinnyTemplate::storePartial(Val row, unsigned slot, Val part, Val value) {
  k.store(value, partial, partialAt(row, slot, part), {4, false});
}

Indices SkinnyTemplate::indicesAt(const SkinnyBundle &bundle, Val row) {
  Indices indices(bundle.space.size(), ix.index(0));
  indices.back() = ix.index(Value(k.toIndex(row - bundle.firstRow)));
  return indices;
}

/// What the epilogue reads arrives while the weights do, where each thread
/// finishes one result of one bundle.
void SkinnyTemplate::loadEpilogueOperands() {
  if (shape.bundles.size() > 1 || shape.rowsPerBlock() > int64_t(shape.threads))
    return;
  const SkinnyBundle &bundle = shape.bundles[0];
  Val row = k.min(firstRow + k.thread(), k.i32(bundle.rows - 1));
  Indices indices = indicesAt(bundle, row);
  group.setWidth(1);
  for (Operation &op : *f.kernel.getBlock()) {
    auto fusable = dyn_cast<FusableOpInterface>(&op);
    if (!fusable || fusable.getOpClass() != OpClass::Elementwise ||
        getSymShape(op.getResult(0)) != bundle.space)
      continue;
    for (Value operand : op.getOperands()) {
      SymShape own = getSymShape(operand);
      bool row = !own.empty() && own.back() == bundle.space.back() &&
                 own.size() <= bundle.space.size();
      if (isa<BlockArgument>(operand) && row)
        group.emit(operand, ArrayRef(indices).take_back(own.size()));
    }
  }
}

void SkinnyTemplate::finishRow(Val number) {
  Val row = k.min(firstRow + number, k.i32(shape.rows - 1));
  forBundles(row, [&](const SkinnyBundle &bundle) {
    Indices here = indicesAt(bundle, row);
    for (auto [slot, number] : llvm::enumerate(bundle.products)) {
      MatmulOp product = shape.weights[number].product;
      Val at = partialAt(row, slot, k.i32(0));
      Val total;
      for (unsigned part = 0; part < usedParts; ++part) {
        Val value = k.load(partial, at + part * shape.partialStride(),
                           k.f32(0).type(), {});
        total = part ? total + value : value;
      }
      if (lowBit)
        if (Val scale = lowBit->scaleOf(number))
          total = total * scale;
      if (group.isStrict())
        total = k.wrap(
            target.round(group, total, elementType(product.getResult()), true));
      // An axis of one element has the position 0 whatever was asked for.
      bool single = bundle.rows == 1;
      Value base = here.back().base;
      group.provide(product.getResult(), [=](ArrayRef<Index> at) -> Value {
        if (!single && at.back().base != base)
          return group.unsupported(product,
                                   "another column's result is needed");
        return total;
      });
    }
    for (unsigned result : bundle.results) {
      auto output = *kernels::getStridedOutput(results[result], bundle.space);
      Val value = k.wrap(group.emit(output.anchor, here));
      Index at = ix.scale(here.back(), output.strides.back());
      target.store(group, value, result, at);
    }
    for (unsigned number : bundle.products)
      group.withdraw(shape.weights[number].product.getResult());
  });
}

void SkinnyTemplate::finishRows() {
  k.barrier();
  group.setWidth(1);
  Val count = endRow - firstRow;
  if (shape.rowsPerBlock() <= int64_t(shape.threads))
    return ix.when(k.thread() < count, [&] { finishRow(k.thread()); });
  k.loop(k.thread(), count, k.i32(shape.threads), [&](Val number) {
    IndexBuilder::Scope scope(ix);
    finishRow(number);
  });
}

void SkinnyTemplate::build(bool streamed) {
  placeBlock();
  usedParts = streamed && !shape.isLowBit()
                  ? shape.turns * shape.threadsPerRow / 32
                  : shape.threads / 32;
  if (streamed && shape.isLowBit())
    lowBit.emplace(f, shape);
  unsigned vector = streamed ? shape.vector : 1;
  unsigned chunks = streamed ? shape.rowChunks() : 0;
  unsigned threads = streamed ? shape.threadsPerRow : shape.threads;
  RowTemplate row(f, shape.space, threads, vector, chunks);
  Val stores = k.block() == k.i32(0);
  if (threads == 32)
    stores = stores && k.warp() == k.i32(0);
  group.setWidth(vector);
  row.place(ix.index(0), streamed ? position : k.thread(), stores);

  Vals first, second;
  bool early = streamed && weightsAreInvariant();
  auto loadFirst = [&] {
    first = loadStep(k.i32(0));
    second = loadStep(k.i32(1));
  };
  if (lowBit)
    lowBit->place(firstRow / kernels::kStripRows, endRow / kernels::kStripRows,
                  shared, partial);
  else if (streamed)
    findBases();
  if (early)
    loadFirst();
  if (lowBit)
    lowBit->clearPartials();
  if (kernels::isProgrammatic(f.kernel)) {
    row.loadSingleRows([&](unsigned number) { return isInvariant(number); });
    if (!waitsLate())
      k.waitForPrevious();
  }
  if (streamed && !early)
    loadFirst();
  makeRow(row);
  if (streamed)
    keepColumns(row);
  else
    spreadRow(row);
  for (unsigned result : shape.rowResults)
    row.addOutput(row.traceOutput(result));
  row.storeOutputs([](const RowTemplate::Output &) { return true; });
  group.setWidth(1);
  loadEpilogueOperands();
  if (streamed)
    stream(first, second);
  else if (shape.weights[0].argument ||
           shape.weights[0].product.getTransposeRhs())
    pullAlongK();
  else
    pullAlongN();
  if (waitsLate())
    k.waitForPrevious();
  finishRows();
  for (Operation &op : *f.kernel.getBlock())
    if (kernels::getReduction(&op))
      group.withdraw(op.getResult(0));
}

} // namespace

void hopper::buildSkinny(KernelFunction &f) {
  std::string reason;
  std::optional<SkinnyShape> shape =
      kernels::getSkinnyShape(f.kernel, f.launch.registerPieces, reason);
  if (!shape)
    return f.fail(reason);
  if (kernels::isProgrammatic(f.kernel))
    f.k.releaseNext();
  auto fast = [&] { SkinnyTemplate(f, *shape).build(true); };
  auto slow = [&] { SkinnyTemplate(f, *shape).build(false); };
  if (!shape->streamed)
    return slow();
  f.whenAligned(fast, slow);
}
