//===- SkinnyTiles.cpp - Template: products of 2 to 64 rows ---------------===//
//
// Weights are streamed once, by TMA, past the tensor cores; they are the M of
// wgmma, the few rows of lhs its N (kernels::SkinnyTiles). The last warp of a
// block copies stages of weights and lhs; weights that no kernel writes are
// under way before the previous kernel has ended. A warp group multiplies, for
// each tile that its block's piece of the work touches. Sums then change to the
// usual layout (rows of lhs are rows) through shared memory, and leave through
// the group's epilogue. A kernel for a range of rows holds the template several
// times, for different numbers of them, and chooses by its sizes.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"
#include "Pipeline.h"
#include "TileEpilogue.h"
#include "WarpMma.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "fusion/Kernels/SkinnyShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

namespace {

using Vals = KernelBuilder::Vals;

class TilesTemplate {
public:
  TilesTemplate(KernelFunction &f, const SkinnyTiles &shape, Val rows)
      : f(f), k(f.k), ix(f.ix()), shape(shape), mm(shape.product),
        element(elementType(MatmulOp(mm.products[0]).getLhs())),
        pipe(k, k.dynamicShared(shape.barrierOffset()), shape.stages()),
        depth(shape.depth()), programmatic(isProgrammatic(f.kernel)),
        rows(rows) {
    EarlyLoads early = getEarlyLoads(f.kernel, mm);
    weightsFirst = early.weights;
    lhsFirst = early.lhs;
  }
  void build();

private:
  void start();
  void produce();
  void loadWeights(Val unit, Place place);
  void loadLhs(Val unit, Place place);
  Val filledBytes();
  void consume();
  Val multiply(Val first, Val end, Place &place);
  Vals combine(Val tile, Val sums);
  Vals loadPart(Val tile, Val block);
  Vals restOfTile(Val tile, Val last);
  Val addRest(Val tile, Val sums, ArrayRef<Val> rest);
  Val addParts(Val tile, Val firstBlock, Val lastBlock);
  void finish(TileEpilogue &epilogue, Val tile, Val sums);

  /// The first unit of a block's piece, and the block that has a unit.
  Val beginOf(Val block) {
    return block * shape.units() / int64_t(shape.blocks());
  }
  Val ownerOf(Val unit) {
    return ((unit + 1) * int64_t(shape.blocks()) - 1) / shape.units();
  }
  Val stageAt(Val stage) {
    return k.at(k.dynamicShared(), stage * int64_t(shape.stageBytes()));
  }
  Val partial(Val block, Val which);
  /// How many parts of a tile have arrived; in shared memory, what one thread
  /// has found there.
  Val counter(Val tile) { return k.at(f.counters, k.toI64(tile << 2)); }
  Val ticket() { return k.dynamicShared(shape.barrierOffset() + 384); }

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  const SkinnyTiles &shape;
  const WgmmaMatmul &mm;
  Type element;
  Pipeline pipe;
  int64_t depth;
  bool programmatic;
  /// What no kernel of the step writes is loaded before the wait.
  bool weightsFirst, lhsFirst;

  Val rows;       ///< of lhs
  Val begin, end; ///< the block's units
};

} // namespace

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

void TilesTemplate::loadWeights(Val unit, Place place) {
  Val tile = unit / depth, number = unit - tile * depth;
  int64_t columns = shape.columns(), products = mm.products.size();
  Val stage = stageAt(place.stage);
  auto load = [&](int64_t product, int64_t row, ArrayRef<Val> at) {
    int64_t before = (product * columns + row) * kTileRowBytes;
    loadTile(k, f.maps[1 + product], k.at(stage, before * shape.tilesDeep),
             pipe.fullBarrier(place), at, CachePolicy::EvictFirst);
  };
  for (int64_t product = 0; product < products; ++product) {
    if (shape.tilesDeep == 1) {
      load(product, 0, {number * int64_t(kTileDepth), tile * columns});
      continue;
    }
    for (int64_t row = 0; row < columns; row += 8)
      load(product, row,
           {k.i32(0), tile * columns + row, number * int64_t(shape.tilesDeep)});
  }
}

/// Boxes that hold rows.
void TilesTemplate::loadLhs(Val unit, Place place) {
  Val at = (unit % depth) * (int64_t(kTileDepth) * shape.tilesDeep);
  Val stage = k.at(stageAt(place.stage), int64_t(shape.weightBytes()));
  for (unsigned row = 0; row < shape.rows; row += shape.boxRows) {
    auto load = [&] {
      for (unsigned i = 0; i < shape.tilesDeep; ++i)
        loadTile(k, f.maps[0],
                 k.at(stage, (int64_t(i) * shape.rows + row) * kTileRowBytes),
                 pipe.fullBarrier(place),
                 {at + int64_t(i) * kTileDepth, k.i32(row)});
    };
    if (row == 0)
      load();
    else
      k.when(k.i32(row) < rows, load);
  }
}

Val TilesTemplate::filledBytes() {
  int64_t box = int64_t(shape.tilesDeep) * shape.boxRows * kTileRowBytes;
  if (shape.boxRows >= shape.rows)
    return k.i32(shape.weightBytes() + box);
  Val boxes = (rows + int64_t(shape.boxRows - 1)) / int64_t(shape.boxRows);
  return boxes * box + int64_t(shape.weightBytes());
}

void TilesTemplate::produce() {
  for (Val map : f.maps)
    prefetchMap(k, map);
  Val bytes = filledBytes();
  Place first = pipe.start();
  Val next = begin;
  if (weightsFirst && !lhsFirst) {
    // Weights of the first stages, then, when the previous kernel has ended,
    // lhs.
    Val count = k.min(end - begin, k.i32(shape.stages()));
    k.loop(k.i32(0), count, k.i32(1), [&](Val i) {
      pipe.fullBarrier({i, k.i32(0)}).arriveExpect(bytes);
      loadWeights(begin + i, {i, k.i32(0)});
    });
    k.waitForPrevious();
    k.loop(k.i32(0), count, k.i32(1),
           [&](Val i) { loadLhs(begin + i, {i, k.i32(0)}); });
    Val around = count == int64_t(shape.stages());
    first = {k.select(around, k.i32(0), count),
             k.select(around, k.i32(1), k.i32(0))};
    next = begin + count;
  } else if (programmatic && !lhsFirst) {
    k.waitForPrevious();
  }
  k.loop(next, end, k.i32(1), first.values(),
         [&](Val unit, ArrayRef<Val> carried) {
           Place place = pipe.place(carried);
           pipe.acquire(place);
           pipe.fullBarrier(place).arriveExpect(bytes);
           loadWeights(unit, place);
           loadLhs(unit, place);
           Place after = pipe.next(place);
           return Vals{after.stage, after.phase};
         });
}

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

/// The sums of units [first, end) of one tile.
Val TilesTemplate::multiply(Val first, Val end, Place &place) {
  Wgmma wgmma(k, shape.rows, element);
  Val memory = k.dynamicShared();
  // Groups of 8 rows of weights lie as many tiles apart as a stage has.
  constexpr int64_t kGroup = 8 * kTileRowBytes / 16;
  int64_t apart = (int64_t(shape.tilesDeep) - 1) * kGroup << 32;
  Val a0 = tileDescriptor(k, memory, Major::K) + apart;
  Val b0 =
      tileDescriptor(k, k.at(memory, int64_t(shape.weightBytes())), Major::K);
  auto product = [&](Val sums, Val stage, Wgmma::Start start) {
    Val offset = stage * int64_t(shape.stageBytes());
    Val a = advanceDescriptor(k, a0, offset);
    Val b = advanceDescriptor(k, b0, offset);
    wgmmaFence(k);
    Val result = sums;
    for (unsigned i = 0; i < shape.tilesDeep; ++i)
      result = wgmma.multiplyStage(
          result, a + int64_t(i) * kGroup,
          b + int64_t(i) * descriptorExtentStep(shape.rows, Major::K), Major::K,
          Major::K, i ? Wgmma::Start::Accumulate : start);
    wgmmaCommit(k);
    return result;
  };
  Val signals = threadInGroup(k) == 0;
  pipe.wait(place);
  Val sums = product(wgmma.undefined(), place.stage, Wgmma::Start::Fresh);
  Place next = pipe.next(place);
  // A stage is given back once the next one's products are under way.
  Vals last = k.loop(
      first + 1, end, k.i32(1), {next.stage, next.phase, place.stage, sums},
      [&](Val, ArrayRef<Val> carried) {
        Place here = pipe.place(carried);
        pipe.wait(here);
        Val more = product(carried[3], here.stage, Wgmma::Start::Accumulate);
        wgmmaWait(k, 1);
        pipe.release(carried[2], signals);
        Place after = pipe.next(here);
        return Vals{after.stage, after.phase, here.stage, more};
      });
  sums = wgmmaWait(k, 0, {last[3]})[0];
  pipe.release(last[2], signals);
  place = pipe.place(last);
  return sums;
}

/// Where a block's sums of its first tile (`which` is 0) or last one lie: a
/// thread's next to its neighbours', four registers at a time.
Val TilesTemplate::partial(Val block, Val which) {
  Val slot = block * 2 + which;
  return k.at(k.at(f.workspace, k.toI64(slot) * shape.partialBytes()),
              k.toI64(threadInGroup(k) << 4));
}

static constexpr int64_t kVectorBytes = kWarpgroup * 16;

/// The part of a tile that a block has left.
Vals TilesTemplate::loadPart(Val tile, Val block) {
  Type vector = VectorType::get({4}, k.builder().getF32Type());
  Val which = k.select(beginOf(block) < tile * depth, k.i32(1), k.i32(0));
  Val from = partial(block, which);
  Vals sums;
  for (unsigned v = 0; v < shape.rows / 8; ++v) {
    // Rows that do not exist read what is loaded anyway.
    Val at = k.select(k.i32(8 * v) < rows, k.i32(v * kVectorBytes), k.i32(0));
    Val loaded = k.load(k.at(from, at), k.i32(0), vector, {16, false});
    for (unsigned i = 0; i < 4; ++i)
      sums.push_back(k.extract(loaded, i));
  }
  return sums;
}

/// Of a last tile that this block begins and the next one ends: whether that
/// one has left its part, with which it began, and the part. Asked before the
/// products, beside which it is loaded: at the block's end nothing is left to
/// wait for. After a tile before it, the block has waited for earlier kernels.
Vals TilesTemplate::restOfTile(Val tile, Val last) {
  Val start = tile * depth, stop = start + depth;
  Val next = k.block() + 1;
  Val shared = begin < start && last < stop && ownerOf(stop - 1) == next;
  Vals none(1 + shape.rows / 2, k.f32(0));
  none[0] = k.constant(k.builder().getI1Type(), 0);
  return k.choose(
      shared,
      [&] {
        Type word = k.builder().getI32Type();
        k.when(threadInGroup(k) == 0, [&] {
          Val arrived = ptx(k, {word}, "ld.acquire.gpu.global.b32 $0, [$1];",
                            "=r,l", {k.toInteger(counter(tile))})[0];
          k.store(arrived, ticket(), k.i32(0), {});
        });
        meet(k, k.i32(1), kWarpgroup);
        Val there = k.load(ticket(), k.i32(0), word, {}) == 1;
        return k.choose(
            there,
            [&] {
              Vals found{there};
              found.append(loadPart(tile, next));
              return found;
            },
            [&] { return none; });
      },
      [&] { return none; });
}

/// The block's part and the rest, as addParts() has them.
Val TilesTemplate::addRest(Val tile, Val sums, ArrayRef<Val> rest) {
  // The counter is ready for the next launch.
  k.when(threadInGroup(k) == 0,
         [&] { k.store(k.i32(0), counter(tile), k.i32(0), {}); });
  llvm::SmallVector<Val> total = unpackStruct(k, sums);
  for (auto [i, part] : llvm::enumerate(rest))
    total[i] = (k.f32(0) + total[i]) + part;
  return packStruct(k, total);
}

/// The parts of a tile in order; several are loaded at a time.
Val TilesTemplate::addParts(Val tile, Val firstBlock, Val lastBlock) {
  unsigned vectors = shape.rows / 8;
  unsigned atOnce = std::max(1u, 8 / vectors);
  Val zero = k.f32(0);
  Vals init(4 * vectors, zero);
  Vals sums = k.loop(
      firstBlock, lastBlock + 1, k.i32(atOnce), init,
      [&](Val first, ArrayRef<Val> carried) {
        Vals parts;
        for (unsigned i = 0; i < atOnce; ++i)
          parts.append(loadPart(tile, k.min(first + int64_t(i), lastBlock)));
        Vals next(carried.begin(), carried.end());
        for (unsigned i = 0; i < atOnce; ++i) {
          Val exists = !(lastBlock < first + int64_t(i));
          for (unsigned r = 0; r < next.size(); ++r) {
            Val part = parts[i * next.size() + r];
            next[r] = next[r] + (i ? k.select(exists, part, zero) : part);
          }
        }
        return next;
      });
  return packStruct(k, sums);
}

/// The sums of a tile of several parts, and whether this warp group has them:
/// the last one to arrive does.
Vals TilesTemplate::combine(Val tile, Val sums) {
  Val block = k.block(), start = tile * depth, thread = threadInGroup(k);
  Val which = k.select(begin < start, k.i32(1), k.i32(0));
  Val to = partial(block, which);
  llvm::SmallVector<Val> registers = unpackStruct(k, sums);
  for (unsigned i = 0; i < registers.size(); i += 4) {
    auto store = [&] {
      k.store(k.vector(ArrayRef(registers).slice(i, 4)),
              k.at(to, i / 4 * kVectorBytes), k.i32(0), {16, false});
    };
    // Eight rows of lhs a vector.
    if (i == 0)
      store();
    else
      k.when(k.i32(2 * i) < rows, store);
  }
  Val firstBlock = ownerOf(start), lastBlock = ownerOf(start + (depth - 1));
  // The counting thread's release covers what the others wrote.
  meet(k, k.i32(1), kWarpgroup);
  k.when(thread == 0, [&] {
    Val before = atomicAdd(k, counter(tile), k.i32(1));
    Val last = before == lastBlock - firstBlock;
    k.store(k.select(last, k.i32(1), k.i32(0)), ticket(), k.i32(0), {});
    // All parts have arrived: the counter is ready for the next launch.
    k.when(last, [&] { k.store(k.i32(0), counter(tile), k.i32(0), {}); });
  });
  meet(k, k.i32(1), kWarpgroup);
  Val last = k.load(ticket(), k.i32(0), k.builder().getI32Type(), {}) == 1;
  Vals all = k.choose(
      last, [&] { return Vals{addParts(tile, firstBlock, lastBlock)}; },
      [&] { return Vals{sums}; });
  return {all[0], last};
}

/// Rows of weights become columns of results.
void TilesTemplate::finish(TileEpilogue &epilogue, Val tile, Val sums) {
  constexpr int64_t kStride = SkinnyTiles::kSumStride;
  llvm::SmallVector<Val> registers = unpackStruct(k, sums);
  Val staging = k.dynamicShared(shape.stagingOffset());
  Val row = (warpInGroup(k) << 4) + (k.lane() >> 2);
  Val column = (k.lane() & 3) << 1;
  // The results of the tile before have left.
  meet(k, k.i32(1), kWarpgroup);
  for (unsigned i = 0; i < registers.size(); ++i) {
    Val at = (column + (int64_t(i) / 4 * 8 + i % 2)) * kStride + row +
             int64_t(i / 2 % 2 * 8);
    k.store(registers[i], staging, at, {4, false});
  }
  meet(k, k.i32(1), kWarpgroup);
  Type pair = VectorType::get({2}, k.builder().getF32Type());
  llvm::SmallVector<Val> turned;
  for (unsigned i = 0; i < kWgmmaRows / 2; i += 2) {
    Val at =
        k.min(row + int64_t(i / 2 % 2 * 8), k.i32(shape.rows - 1)) * kStride +
        column + int64_t(i) / 4 * 8;
    Val both = k.load(staging, at, pair, {8, false});
    turned.push_back(k.extract(both, 0));
    turned.push_back(k.extract(both, 1));
  }
  meet(k, k.i32(1), kWarpgroup);
  int64_t columns = shape.columns();
  epilogue.store(turned, unsigned(columns), /*whole=*/mm.n % columns == 0, {},
                 k.i32(0), tile * columns);
}

void TilesTemplate::consume() {
  TileSpace space{mm.products, mm.space, mm.flat, mm.m, mm.n};
  TileEpilogue epilogue(f, space, k.dynamicShared(shape.stagingOffset()),
                        k.i32(1));
  Val firstTile = begin / depth, endTile = (end - 1) / depth + 1;
  k.loop(firstTile, endTile, k.i32(1), pipe.start().values(),
         [&](Val tile, ArrayRef<Val> carried) {
           IndexBuilder::Scope scope(ix);
           Place place = pipe.place(carried);
           Val start = tile * depth, stop = start + depth;
           Val first = k.select(start < begin, begin, start);
           Val last = k.min(stop, end);
           Vals rest = restOfTile(tile, last);
           Val sums = multiply(first, last, place);
           // Until here only the producer has read what may be written before.
           if (programmatic)
             k.waitForPrevious();
           Val whole = first == start && last == stop;
           Vals all = k.choose(
               whole, [&] { return Vals{sums, whole}; },
               [&] {
                 return k.choose(
                     rest[0],
                     [&] {
                       return Vals{
                           addRest(tile, sums, ArrayRef(rest).drop_front()),
                           rest[0]};
                     },
                     [&] {
                       IndexBuilder::Scope inner(ix);
                       return combine(tile, sums);
                     });
               });
           k.when(all[1], [&] {
             IndexBuilder::Scope inner(ix);
             finish(epilogue, tile, all[0]);
           });
           return Vals{place.stage, place.phase};
         });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void TilesTemplate::start() {
  k.when(k.thread() == 0, [&] {
    pipe.init(1, 1);
    fenceBarrierInit(k);
  });
  if (programmatic)
    k.releaseNext();
  begin = beginOf(k.block());
  end = beginOf(k.block() + 1);
  k.barrier();
}

void TilesTemplate::build() {
  start();
  k.whenElse(
      warpgroup(k) == 1,
      [&] {
        IndexBuilder::Scope scope(ix);
        k.when(elect(k), [&] {
          IndexBuilder::Scope inner(ix);
          produce();
        });
      },
      [&] {
        IndexBuilder::Scope scope(ix);
        consume();
      });
}

void hopper::buildSkinnyTiles(KernelFunction &f) {
  auto shape = takeShape(f, getSkinnyTiles);
  if (!shape)
    return;
  f.target->aligned = true;
  llvm::SmallVector<SkinnyTiles, 3> ways = shape->forRows();
  Val rows = f.k.toI32(f.k.wrap(f.ix().size(shape->product.m)));
  // Each way is taken where those before it have too few rows.
  std::function<void(ArrayRef<SkinnyTiles>)> choose =
      [&](ArrayRef<SkinnyTiles> ways) {
        auto build = [&] {
          IndexBuilder::Scope scope(f.ix());
          TilesTemplate(f, ways.front(), rows).build();
        };
        if (ways.size() == 1)
          return build();
        f.k.whenElse(!(f.k.i32(ways.front().rows) < rows), build, [&] {
          IndexBuilder::Scope scope(f.ix());
          choose(ways.drop_front());
        });
      };
  choose(ways);
}
