//===- SkinnyTiles.cpp - Template: products of 2 to 16 rows ---------------===//
//
// Weights are streamed once, as for one row, and multiplied by the tensor
// cores. A tile is 16 rows of the weight (8 of each, where two products meet in
// a gate). The warps of a block share K in blocks of 32, next to each other; a
// lane loads 8 neighbouring elements of a weight's row and of a row of lhs, and
// both operands of mma.m16n8k16 take the same order of k from them: no element
// moves between lanes. Lhs stays in the first-level cache.
//
// Sums of a few tiles are kept in shared memory, then all threads add up those
// of the warps, in one order, and finish the results.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"

#include "fusion/Kernels/SkinnyShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::SkinnyTiles;

namespace {

using Vals = KernelBuilder::Vals;

/// Blocks of 32 along K that a warp has in one register buffer.
constexpr int64_t kBuffer = 4;

class TilesTemplate {
public:
  TilesTemplate(KernelFunction &f, const SkinnyTiles &shape)
      : f(f), k(f.k), ix(f.ix()), shape(shape) {}
  void build();
  /// The same element by element, for operands of any alignment.
  void buildPulled();

private:
  void place();
  /// Words of `kBuffer` blocks of two rows of a tile, for step `step`.
  Vals loadWeights(Val step);
  Vals loadLhs(Val block, unsigned rowTile);
  void multiply(Val step, ArrayRef<Val> words, Vals &sums);
  void storeSums(Val step, ArrayRef<Val> sums);
  void finishBatch(Epilogue &epilogue, Val firstTile, Val tiles);
  void turn(Epilogue &epilogue, Val step, Val steps, Vals &words, Vals &totals);

  // Steps: buffers of a tile, then the next tile.
  Val tileOf(Val step) { return firstTile + step / stepsPerTile; }
  Val blockOf(Val step, int64_t i) {
    return ((step % stepsPerTile) * kBuffer + i) * int64_t(kWarps) + k.warp();
  }

  static constexpr unsigned kWarps = SkinnyTiles::kWarps;
  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  const SkinnyTiles &shape;
  int64_t blocksOfK = 0, stepsPerTile = 0;
  Val firstTile, endTile;    ///< of this block
  Val rows;                  ///< of lhs, i32
  Val high, low;             ///< lane / 4, lane % 4
  Val sums;                  ///< shared memory
  Val lhs;                   ///< address
  SmallVector<Val, 2> bases; ///< addresses of the weights
};

void TilesTemplate::place() {
  blocksOfK = (shape.k + 31) / 32;
  stepsPerTile = (blocksOfK + kBuffer * kWarps - 1) / (kBuffer * kWarps);
  constexpr unsigned kMulti = kernels::kMultiprocessors;
  Val block = k.block();
  Val at = (block % kMulti) * int64_t(kernels::kChainBlocks) +
           block / int64_t(kMulti);
  firstTile = at * shape.tiles() / int64_t(shape.blocks());
  endTile = (at + 1) * shape.tiles() / int64_t(shape.blocks());
  rows = k.toI32(k.wrap(ix.size(shape.m)));
  high = k.lane() / 4;
  low = k.lane() % 4;
  sums = k.dynamicShared();
  lhs = k.toInteger(f.target->pointers[shape.lhs.getArgNumber()]);
  for (const kernels::SkinnyWeight &weight : shape.weights)
    bases.push_back(
        k.toInteger(f.target->pointers[weight.argument.getArgNumber()]) +
        weight.offset * 2);
}

Vals TilesTemplate::loadWeights(Val step) {
  Vals words;
  Val tile = tileOf(step);
  bool gated = shape.weights.size() == 2;
  int64_t columns = shape.columns();
  for (int64_t i = 0; i < kBuffer; ++i) {
    Val column = blockOf(step, i) * 32 + low * 8;
    Val inside = (column < k.i32(shape.k)) && (tile < endTile);
    for (unsigned half = 0; half < 2; ++half) {
      Val row = tile * columns + high;
      if (half && !gated)
        row = row + 8;
      Val address = bases[gated ? half : 0] + k.toI64(row) * (shape.k * 2) +
                    k.toI64(column) * 2;
      words.append(k.loadStreamed(address, inside && row < k.i32(shape.n),
                                  /*piecewise=*/true));
    }
  }
  return words;
}

Vals TilesTemplate::loadLhs(Val block, unsigned rowTile) {
  Val row = high + (int64_t(rowTile) * 8);
  Val column = block * 32 + low * 8;
  Val address = lhs + k.toI64(row) * (shape.k * 2) + k.toI64(column) * 2;
  return k.loadKept(address, row < rows && column < k.i32(shape.k));
}

void TilesTemplate::multiply(Val step, ArrayRef<Val> words, Vals &sums) {
  bool half = elementType(shape.lhs).isF16();
  for (int64_t i = 0; i < kBuffer; ++i) {
    ArrayRef<Val> top = words.slice(i * 8, 4),
                  bottom = words.slice(i * 8 + 4, 4);
    for (unsigned tile = 0; tile < shape.rowTiles(); ++tile) {
      Vals x = loadLhs(blockOf(step, i), tile);
      for (unsigned part = 0; part < 2; ++part) {
        Val a[] = {top[2 * part], bottom[2 * part], top[2 * part + 1],
                   bottom[2 * part + 1]};
        Val b[] = {x[2 * part], x[2 * part + 1]};
        Vals next = k.mma16816(a, b, ArrayRef(sums).slice(tile * 4, 4), half);
        std::copy(next.begin(), next.end(), sums.begin() + tile * 4);
      }
    }
  }
}

/// Sums of a finished tile go to this warp's place in the batch.
void TilesTemplate::storeSums(Val step, ArrayRef<Val> values) {
  constexpr int64_t kStride = SkinnyTiles::kSumStride;
  Val inBatch = (step / stepsPerTile) % int64_t(SkinnyTiles::kBatch);
  Val base =
      (inBatch * int64_t(kWarps) + k.warp()) * int64_t(shape.sumsOfWarp());
  for (unsigned tile = 0; tile < shape.rowTiles(); ++tile)
    for (unsigned i = 0; i < 4; ++i) {
      Val row = low * 2 + (int64_t(tile) * 8 + i % 2);
      Val column = high + (int64_t(i) / 2 * 8);
      k.store(values[tile * 4 + i], sums, base + row * kStride + column,
              {4, false});
    }
}

void TilesTemplate::finishBatch(Epilogue &epilogue, Val first, Val tiles) {
  constexpr int64_t kStride = SkinnyTiles::kSumStride;
  k.barrier();
  int64_t columns = shape.columns();
  Val count = tiles * rows * columns;
  k.loop(k.thread(), count, k.i32(kernels::kChainThreads), [&](Val at) {
    IndexBuilder::Scope scope(ix);
    // Columns of one row of one tile are neighbours.
    Val column = at % columns, row = at / columns % rows;
    Val tile = at / columns / rows;
    Val n = (first + tile) * columns + column;
    ix.when(n < k.i32(shape.n), [&] {
      SmallVector<Epilogue::Element> elements;
      for (unsigned slot = 0; slot < shape.weights.size(); ++slot) {
        Val total;
        for (unsigned warp = 0; warp < kWarps; ++warp) {
          Val base = (tile * int64_t(kWarps) + int64_t(warp)) *
                     int64_t(shape.sumsOfWarp());
          Val part = k.load(
              sums, base + row * kStride + column + int64_t(slot * columns),
              k.f32(0).type(), {});
          total = warp ? total + part : part;
        }
        MatmulOp product = shape.weights[slot].product;
        elements.push_back({product.getResult(), total});
      }
      Indices indices =
          *ix.delinearize(ix.index(Value(k.toIndex(row))),
                          ArrayRef<SymExpr>(shape.space).drop_back(), 1);
      indices.push_back(ix.index(Value(k.toIndex(n))));
      epilogue.store(indices, elements);
    });
  });
  k.barrier();
}

void TilesTemplate::buildPulled() {
  f.group().setWidth(1);
  Epilogue epilogue(f, shape.space);
  Val m = k.wrap(ix.size(shape.m));
  Val threads = k.blocks() * int64_t(kernels::kChainThreads);
  Val first = k.block() * int64_t(kernels::kChainThreads) + k.thread();
  k.loop(k.toIndex(first), m * shape.n, k.toIndex(threads), [&](Val at) {
    IndexBuilder::Scope scope(ix);
    Index row = ix.index(Value(at / shape.n)),
          n = ix.index(Value(at % shape.n));
    SmallVector<Epilogue::Element> elements;
    for (const kernels::SkinnyWeight &weight : shape.weights) {
      MatmulOp product = weight.product;
      SymShape left = getSymShape(product.getLhs());
      Indices x = *ix.delinearize(row, ArrayRef<SymExpr>(left).drop_back(), 1);
      Indices w(getSymShape(product.getRhs()).size(), ix.index(0));
      bool transposed = product.getTransposeRhs();
      auto sum = ix.loop(
          ix.constant(0), ix.constant(shape.k), 1, ValueRange{Value(k.f32(0))},
          [&](Value position, ValueRange carried) {
            Indices a(x), c(w);
            a.push_back(ix.index(position));
            c[c.size() - 1] = transposed ? ix.index(position) : n;
            c[c.size() - 2] = transposed ? n : ix.index(position);
            Val next = k.wrap(carried[0]) +
                       k.wrap(f.group().emit(product.getLhs(), a)) *
                           k.wrap(f.group().emit(product.getRhs(), c));
            return SmallVector<Value>{next};
          });
      elements.push_back({product.getResult(), k.wrap(sum[0])});
    }
    Indices indices =
        *ix.delinearize(row, ArrayRef<SymExpr>(shape.space).drop_back(), 1);
    indices.push_back(n);
    epilogue.store(indices, elements);
  });
}

/// One step: multiplies a buffer, loads it again for the step after the next,
/// and where a tile or a batch ends, stores sums or results.
void TilesTemplate::turn(Epilogue &epilogue, Val step, Val steps, Vals &words,
                         Vals &totals) {
  constexpr int64_t kBatch = SkinnyTiles::kBatch;
  multiply(step, words, totals);
  words = loadWeights(step + 2);
  Val last = (step % stepsPerTile == k.i32(stepsPerTile - 1)) && step < steps;
  k.when(last, [&] { storeSums(step, totals); });
  Val tile = step / stepsPerTile, inBatch = tile % kBatch;
  Val full = inBatch == k.i32(kBatch - 1) || step + 1 == steps;
  ix.when(last && full, [&] {
    finishBatch(epilogue, firstTile + tile - inBatch, inBatch + 1);
  });
  for (Val &total : totals)
    total = k.select(last, k.f32(0), total);
}

// The buffers take turns, two steps an iteration: a register that a load is
// still to fill cannot be moved.
void TilesTemplate::build() {
  place();
  f.group().setWidth(1);
  Epilogue epilogue(f, shape.space);
  Vals state = loadWeights(k.i32(0));
  unsigned half = state.size();
  state.append(loadWeights(k.i32(1)));
  state.append(4 * shape.rowTiles(), k.f32(0));
  Val steps = (endTile - firstTile) * stepsPerTile;
  k.loop(k.i32(0), steps, k.i32(2), state, [&](Val step, ArrayRef<Val> old) {
    IndexBuilder::Scope scope(ix);
    Vals even(old.take_front(half)), odd(old.slice(half, half)),
        totals(old.drop_front(2 * half));
    turn(epilogue, step, steps, even, totals);
    turn(epilogue, step + 1, steps, odd, totals);
    Vals next = even;
    next.append(odd);
    next.append(totals);
    return next;
  });
}

} // namespace

void hopper::buildSkinnyTiles(KernelFunction &f) {
  auto shape = kernels::getSkinnyTiles(f.kernel);
  if (!shape)
    return f.fail("products of other shapes");
  waitIfProgrammatic(f);
  f.whenAligned([&] { TilesTemplate(f, *shape).build(); },
                [&] { TilesTemplate(f, *shape).buildPulled(); });
}
