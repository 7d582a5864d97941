//===- WgmmaMatmul.cpp - Template: products on the tensor cores -----------===//
//
// Persistent blocks: one thread of the first warp group fetches stages of both
// operands by TMA, 64 deep; two warp groups multiply them, each 64 rows of a
// tile of 128, and store what the group makes of the sums. A gated product
// fetches its two weights into the two halves of B's tile, so that both sums
// meet in one thread. Which tile width runs, and how many blocks share the
// contracted axis, follows from the number of rows (kernels::planMatmul).
// Blocks of a cluster that share a tile exchange their sums through shared
// memory, and each of them finishes a slice of the columns; other blocks leave
// partial sums in the workspace, and the last one adds them. The order of
// the sums is always the same.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"
#include "Pipeline.h"
#include "TileEpilogue.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "fusion/Kernels/WgmmaMatmul.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <functional>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

namespace {

/// One piece of work: a tile of the result, and a part of the contracted axis.
struct Item {
  Indices batch;
  Val row0, column0;        ///< of the result
  Val firstStage, endStage; ///< along the contracted axis
  Val tile;                 ///< its number
};

class MatmulTemplate {
public:
  MatmulTemplate(KernelFunction &f, const WgmmaMatmul &mm)
      : f(f), k(f.k), ix(f.ix()), mm(mm),
        element(elementType(MatmulOp(mm.products[0]).getLhs())) {
    programmatic = kernels::isProgrammatic(f.kernel);
    weightsFirst = kernels::getEarlyLoads(f.kernel, mm).weights;
  }
  void build();

private:
  Pipeline pipeline(MatmulTile tile) {
    return {k, k.dynamicShared(mm.barrierOffset()), tile.stages()};
  }
  void start();
  void chooseSchedule();
  void eachWidth(llvm::function_ref<void(MatmulTile)> body);
  Val countItems(MatmulTile tile);
  Item itemAt(MatmulTile tile, Val number);

  void produce(MatmulTile tile);
  Val stageAt(MatmulTile tile, Place place) {
    return k.at(k.dynamicShared(), place.stage * int64_t(tile.stageBytes()));
  }
  /// Of a stage, by the copies.
  unsigned filledBytes(MatmulTile tile) {
    return (mm.boxRows + tile.columns) * kTileRowBytes;
  }
  void load(const MatmulOperand &operand, unsigned map, const Item &item,
            Val to, Barrier full, Val first, unsigned extent, unsigned box,
            Val depth);
  void loadLhs(MatmulTile tile, const Item &item, Place place, Val depth);
  void loadWeights(MatmulTile tile, const Item &item, Place place, Val depth);
  std::pair<Val, Place> loadAhead(MatmulTile tile);
  llvm::SmallVector<Val, 4> coordinates(const MatmulOperand &operand,
                                        const Item &item, Val index, Val depth);

  void consume(MatmulTile tile, Val consumer);
  Val multiply(MatmulTile tile, Pipeline &pipe, const Item &item, Val consumer,
               Place &place);
  KernelBuilder::Vals combine(MatmulTile tile, const Item &item, Val consumer,
                              Val sums);
  llvm::SmallVector<Val> exchangeInCluster(MatmulTile tile, Val consumer,
                                           Val sums);
  Val addPartials(MatmulTile tile, const Item &item, Val consumer);
  Val partialPointer(MatmulTile tile, const Item &item, Val split,
                     Val consumer);

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  const WgmmaMatmul &mm;
  Type element;
  Val rowTiles, width, splits;
  /// Of this block. Read before the roles part: of what one thread alone reads
  /// the assembler does not know that it is uniform.
  Val firstItem, itemStep;
  bool programmatic;
  /// No kernel of the program writes the weights: they are fetched before the
  /// previous kernel has ended.
  bool weightsFirst;
};

} // namespace

//===----------------------------------------------------------------------===//
// The work
//===----------------------------------------------------------------------===//

/// The plan's entry for the rows that there are.
void MatmulTemplate::chooseSchedule() {
  rowTiles = k.toI32(k.wrap(ix.ceilDiv(ix.size(mm.m), kMatmulTileRows)));
  width = k.i32(mm.plan[0].schedule.columns);
  splits = k.i32(mm.plan[0].schedule.splits);
  for (const MatmulPlanEntry &entry : ArrayRef(mm.plan).drop_front()) {
    Val before = rowTiles < entry.firstRowTiles;
    width = k.select(before, width, k.i32(entry.schedule.columns));
    splits = k.select(before, splits, k.i32(entry.schedule.splits));
  }
}

void MatmulTemplate::eachWidth(llvm::function_ref<void(MatmulTile)> body) {
  llvm::SmallVector<unsigned, 4> widths = mm.widths();
  if (widths.size() == 1) {
    IndexBuilder::Scope scope(ix);
    return body(mm.tile(widths[0]));
  }
  for (unsigned columns : widths)
    k.when(width == int64_t(columns), [&] {
      IndexBuilder::Scope scope(ix);
      body(mm.tile(columns));
    });
}

static int64_t columnTiles(const WgmmaMatmul &mm, MatmulTile tile) {
  return llvm::divideCeil(mm.n, mm.resultColumns(tile.columns));
}

Val MatmulTemplate::countItems(MatmulTile tile) {
  Val items = rowTiles * columnTiles(mm, tile);
  if (!mm.flat)
    items = items * k.toI32(k.wrap(ix.size(mm.batch)));
  return mm.splits(tile.columns) ? items * splits : items;
}

/// Row tiles in groups that go down before they go right: operands of
/// neighbouring blocks stay in the L2 cache.
Item MatmulTemplate::itemAt(MatmulTile tile, Val number) {
  int64_t depth = llvm::divideCeil(mm.k, int64_t(kTileDepth));
  int64_t across = columnTiles(mm, tile);
  Item item;
  item.tile = number;
  item.firstStage = k.i32(0);
  item.endStage = k.i32(depth);
  if (mm.splits(tile.columns)) {
    item.tile = number / splits;
    Val split = number - item.tile * splits;
    item.firstStage = split * depth / splits;
    item.endStage = (split + 1) * depth / splits;
  }
  Val rest = item.tile;
  if (!mm.flat) {
    Val perMatrix = rowTiles * across;
    Val matrix = rest / perMatrix;
    rest = rest - matrix * perMatrix;
    item.batch = *ix.delinearize(ix.index(k.toIndex(matrix)),
                                 ArrayRef(mm.space).drop_back(2), 1);
  }
  Val band = rest / (across * int64_t(kMatmulRasterRows));
  Val inBand = rest - band * (across * int64_t(kMatmulRasterRows));
  Val firstRow = band * int64_t(kMatmulRasterRows);
  Val rows = k.min(rowTiles - firstRow, k.i32(kMatmulRasterRows));
  Val column = inBand / rows;
  Val row = firstRow + (inBand - column * rows);
  item.row0 = row * int64_t(kMatmulTileRows);
  item.column0 = column * int64_t(mm.resultColumns(tile.columns));
  return item;
}

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

llvm::SmallVector<Val, 4>
MatmulTemplate::coordinates(const MatmulOperand &operand, const Item &item,
                            Val index, Val depth) {
  llvm::SmallVector<Val, 4> at = {depth, index};
  if (operand.major == Major::MN)
    std::swap(at[0], at[1]);
  for (unsigned axis : llvm::reverse(operand.batchAxes))
    at.push_back(k.toI32(k.wrap(item.batch[axis].base)));
  return at;
}

/// One stage of an operand: `extent` rows (or columns) of it from `first` on,
/// 64 deep.
void MatmulTemplate::load(const MatmulOperand &operand, unsigned map,
                          const Item &item, Val to, Barrier full, Val first,
                          unsigned extent, unsigned box, Val depth) {
  if (operand.major == Major::MN)
    box = 64;
  assert(extent % box == 0 && "copies fill more than the stage expects");
  for (unsigned i = 0; i < extent; i += box)
    loadTile(k, f.maps[map], k.at(to, int64_t(i) * kTileRowBytes), full,
             coordinates(operand, item, first + int64_t(i), depth));
}

void MatmulTemplate::loadLhs(MatmulTile tile, const Item &item, Place place,
                             Val depth) {
  load(mm.lhs, 0, item, stageAt(tile, place), pipeline(tile).fullBarrier(place),
       item.row0, mm.boxRows, mm.boxRows, depth * int64_t(kTileDepth));
}

void MatmulTemplate::loadWeights(MatmulTile tile, const Item &item, Place place,
                                 Val depth) {
  unsigned columns = mm.resultColumns(tile.columns);
  for (auto [i, weight] : llvm::enumerate(mm.rhs)) {
    int64_t row = kMatmulTileRows + i * columns;
    load(weight, mm.weightMap(tile.columns) + i, item,
         k.at(stageAt(tile, place), row * kTileRowBytes),
         pipeline(tile).fullBarrier(place), item.column0, columns, columns,
         depth * int64_t(kTileDepth));
  }
}

/// Fills the first stages with weights before the previous kernel has ended,
/// then with the lhs. Returns how many, and where the ring goes on.
std::pair<Val, Place> MatmulTemplate::loadAhead(MatmulTile tile) {
  Pipeline pipe = pipeline(tile);
  Item item = itemAt(tile, firstItem);
  Val stages = k.i32(tile.stages());
  Val ahead =
      k.select(firstItem < countItems(tile),
               k.min(stages, item.endStage - item.firstStage), k.i32(0));
  k.loop(k.i32(0), ahead, k.i32(1), [&](Val i) {
    IndexBuilder::Scope scope(ix);
    pipe.expect({i, k.i32(0)}, filledBytes(tile));
    loadWeights(tile, item, {i, k.i32(0)}, item.firstStage + i);
  });
  k.waitForPrevious();
  k.loop(k.i32(0), ahead, k.i32(1), [&](Val i) {
    IndexBuilder::Scope scope(ix);
    loadLhs(tile, item, {i, k.i32(0)}, item.firstStage + i);
  });
  Val around = ahead == stages;
  return {ahead,
          {k.select(around, k.i32(0), ahead),
           k.select(around, k.i32(1), k.i32(0))}};
}

void MatmulTemplate::produce(MatmulTile tile) {
  Pipeline pipe = pipeline(tile);
  Place first = pipe.start();
  Val ahead;
  if (weightsFirst)
    std::tie(ahead, first) = loadAhead(tile);
  k.loop(firstItem, countItems(tile), itemStep, first.values(),
         [&](Val number, ArrayRef<Val> outer) {
           IndexBuilder::Scope scope(ix);
           Item item = itemAt(tile, number);
           Val begin = item.firstStage;
           if (ahead)
             begin = k.select(number == firstItem, begin + ahead, begin);
           return k.loop(begin, item.endStage, k.i32(1), outer,
                         [&](Val depth, ArrayRef<Val> carried) {
                           IndexBuilder::Scope inner(ix);
                           Place place = pipe.place(carried);
                           pipe.acquire(place);
                           pipe.expect(place, filledBytes(tile));
                           loadLhs(tile, item, place, depth);
                           loadWeights(tile, item, place, depth);
                           Place next = pipe.next(place);
                           return KernelBuilder::Vals{next.stage, next.phase};
                         });
         });
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

/// The sums of the item's part of the contracted axis. `place` is that of its
/// first stage, then of the next item's.
Val MatmulTemplate::multiply(MatmulTile tile, Pipeline &pipe, const Item &item,
                             Val consumer, Place &place) {
  Wgmma wgmma(k, tile.columns, element);
  Val memory = k.dynamicShared();
  Val a0 = tileDescriptor(
      k, k.at(memory, consumer * (int64_t(kWgmmaRows) * kTileRowBytes)),
      mm.lhs.major);
  Val b0 = tileDescriptor(
      k, k.at(memory, (int64_t(kMatmulTileRows) * kTileRowBytes)),
      mm.rhs[0].major);
  auto product = [&](Val sums, Val stage, Wgmma::Start start) {
    Val offset = stage * int64_t(tile.stageBytes());
    wgmmaFence(k);
    Val result = wgmma.multiplyStage(sums, advanceDescriptor(k, a0, offset),
                                     advanceDescriptor(k, b0, offset),
                                     mm.lhs.major, mm.rhs[0].major, start);
    wgmmaCommit(k);
    return result;
  };
  Val signals = threadInGroup(k) == 0;
  // The first stage starts the sums afresh.
  pipe.wait(place);
  Val sums = product(wgmma.undefined(), place.stage, Wgmma::Start::Fresh);
  Place next = pipe.next(place);
  // A stage is given back once the next one's products are under way.
  KernelBuilder::Vals last = k.loop(
      item.firstStage + 1, item.endStage, k.i32(1),
      {next.stage, next.phase, place.stage, sums},
      [&](Val, ArrayRef<Val> carried) {
        Place here = pipe.place(carried);
        pipe.wait(here);
        Val more = product(carried[3], here.stage, Wgmma::Start::Accumulate);
        wgmmaWait(k, 1);
        pipe.release(carried[2], signals);
        Place after = pipe.next(here);
        return KernelBuilder::Vals{after.stage, after.phase, here.stage, more};
      });
  sums = wgmmaWait(k, 0, {last[3]})[0];
  pipe.release(last[2], signals);
  place = pipe.place(last);
  return sums;
}

/// Where the sums of one part of a tile lie: a thread's next to its
/// neighbours', four registers at a time.
Val MatmulTemplate::partialPointer(MatmulTile tile, const Item &item, Val split,
                                   Val consumer) {
  Val slot =
      (item.tile * splits + split) * int64_t(kMatmulConsumers) + consumer;
  int64_t bytes = int64_t(tile.registers()) * kWarpgroup * 4;
  Val start = k.toI64(slot) * bytes;
  return k.at(k.at(f.workspace, start), k.toI64(threadInGroup(k) << 4));
}

static constexpr int64_t kVectorBytes = kWarpgroup * 16;

Val MatmulTemplate::addPartials(MatmulTile tile, const Item &item,
                                Val consumer) {
  KernelBuilder::Vals zeros(tile.registers(), k.f32(0));
  Type vector = VectorType::get({4}, k.builder().getF32Type());
  KernelBuilder::Vals sums = k.loop(
      k.i32(0), splits, k.i32(1), zeros, [&](Val split, ArrayRef<Val> carried) {
        Val from = partialPointer(tile, item, split, consumer);
        KernelBuilder::Vals next;
        for (unsigned i = 0; i < tile.registers(); i += 4) {
          Val part = k.load(k.at(from, i / 4 * kVectorBytes), k.i32(0), vector,
                            {16, false});
          for (unsigned lane = 0; lane < 4; ++lane)
            next.push_back(carried[i + lane] + k.extract(part, lane));
        }
        return next;
      });
  return packStruct(k, sums);
}

/// Of each product the slice of the columns that this block of the cluster
/// finishes; the other slices of its sums go to the other blocks. Each block
/// adds its own first, then those of its predecessors in the ring.
llvm::SmallVector<Val>
MatmulTemplate::exchangeInCluster(MatmulTile tile, Val consumer, Val sums) {
  llvm::SmallVector<Val> registers = unpackStruct(k, sums);
  unsigned blocks = tile.cluster, products = mm.products.size();
  unsigned perProduct = tile.registers() / products;
  unsigned perSlice = perProduct / blocks;
  auto sliceOf = [&](Val block) {
    // Registers have no index: a choice among all slices.
    std::function<Val(unsigned, unsigned, unsigned)> choose =
        [&](unsigned at, unsigned first, unsigned count) -> Val {
      if (count == 1)
        return registers[at + first * perSlice];
      Val low = choose(at, first, count / 2);
      Val high = choose(at, first + count / 2, count / 2);
      return k.select((block & int64_t(count / 2)) == 0, low, high);
    };
    llvm::SmallVector<Val> slice;
    for (unsigned product = 0; product < products; ++product)
      for (unsigned i = 0; i < perSlice; ++i)
        slice.push_back(choose(product * perProduct + i, 0, blocks));
    return slice;
  };
  Val block = blockInCluster(k);
  Val mine =
      k.at(k.dynamicShared(mm.stagingOffset()),
           consumer * int64_t(mm.stagingBytes()) + (threadInGroup(k) << 4));
  unsigned vectors = products * perSlice / 4;
  for (unsigned step = 1; step < blocks; ++step) {
    Val other = (block + int64_t(step)) & int64_t(blocks - 1);
    llvm::SmallVector<Val> given = sliceOf(other);
    Val to = sharedOf(k, mine, other);
    for (unsigned i = 0; i < vectors; ++i)
      k.store(k.vector(ArrayRef(given).slice(4 * i, 4)),
              k.at(to, ((step - 1) * vectors + i) * kVectorBytes), k.i32(0),
              {16, false});
  }
  arriveCluster(k);
  waitCluster(k);
  llvm::SmallVector<Val> kept = sliceOf(block);
  Type vector = VectorType::get({4}, k.builder().getF32Type());
  for (unsigned step = 1; step < blocks; ++step)
    for (unsigned i = 0; i < vectors; ++i) {
      Val part = k.load(k.at(mine, ((step - 1) * vectors + i) * kVectorBytes),
                        k.i32(0), vector, {16, false});
      for (unsigned lane = 0; lane < 4; ++lane)
        kept[4 * i + lane] = kept[4 * i + lane] + k.extract(part, lane);
    }
  // The results are staged where the sums were.
  meet(k, consumer + 1, kWarpgroup);
  return kept;
}

/// The whole sums, and whether this warp group has them: the last one of a
/// tile's parts to arrive does.
KernelBuilder::Vals MatmulTemplate::combine(MatmulTile tile, const Item &item,
                                            Val consumer, Val sums) {
  Val whole = splits == 1;
  if (!mm.splits(tile.columns))
    return {sums, whole};
  Val barrier = consumer + 1;
  Val thread = threadInGroup(k);
  auto exchange = [&]() -> KernelBuilder::Vals {
    int64_t depth = llvm::divideCeil(mm.k, int64_t(kTileDepth));
    // The part's number follows from where it begins.
    Val split = (item.firstStage * splits + (depth - 1)) / depth;
    Val to = partialPointer(tile, item, split, consumer);
    llvm::SmallVector<Val> registers = unpackStruct(k, sums);
    for (unsigned i = 0; i < registers.size(); i += 4)
      k.store(k.vector(ArrayRef(registers).slice(i, 4)),
              k.at(to, i / 4 * kVectorBytes), k.i32(0), {16, false});
    // The counting thread's release covers what the others wrote.
    meet(k, barrier, kWarpgroup);
    Val counter =
        k.at(f.counters,
             k.toI64((item.tile * int64_t(kMatmulConsumers) + consumer) << 2));
    Val ticket = k.at(k.dynamicShared(mm.barrierOffset() + 192), consumer << 2);
    k.when(thread == 0, [&] {
      Val before = atomicAdd(k, counter, k.i32(1));
      k.store(before, ticket, k.i32(0), {});
      // All parts have arrived: the counter is ready for the next launch.
      k.when(before == splits - 1,
             [&] { k.store(k.i32(0), counter, k.i32(0), {}); });
    });
    meet(k, barrier, kWarpgroup);
    Val arrived = k.load(ticket, k.i32(0), k.builder().getI32Type(), {});
    Val last = arrived == splits - 1;
    KernelBuilder::Vals all = k.choose(
        last,
        [&]() -> KernelBuilder::Vals {
          return {addPartials(tile, item, consumer)};
        },
        [&]() -> KernelBuilder::Vals { return {sums}; });
    return {all[0], last};
  };
  return k.choose(
      whole, [&]() -> KernelBuilder::Vals { return {sums, whole}; }, exchange);
}

void MatmulTemplate::consume(MatmulTile tile, Val consumer) {
  Pipeline pipe = pipeline(tile);
  unsigned columns = mm.resultColumns(tile.columns);
  TileSpace space{mm.products, mm.space, mm.flat, mm.m, mm.n};
  if (columns / tile.cluster >= kResultBoxColumns) {
    space.boxes = mm.results;
    space.maps = ArrayRef(f.maps).drop_front(mm.resultMap());
  }
  Val staging = k.at(k.dynamicShared(mm.stagingOffset()),
                     consumer * int64_t(mm.stagingBytes()));
  TileEpilogue epilogue(f, space, staging, consumer + 1);
  bool whole = mm.n % columns == 0;
  k.loop(firstItem, countItems(tile), itemStep, pipe.start().values(),
         [&](Val number, ArrayRef<Val> carried) {
           IndexBuilder::Scope scope(ix);
           Item item = itemAt(tile, number);
           Place place = pipe.place(carried);
           Val sums = multiply(tile, pipe, item, consumer, place);
           Val firstRow = item.row0 + consumer * int64_t(kWgmmaRows);
           if (tile.cluster > 1) {
             unsigned slice = columns / tile.cluster;
             epilogue.store(exchangeInCluster(tile, consumer, sums), slice,
                            whole, item.batch, firstRow,
                            item.column0 + blockInCluster(k) * int64_t(slice));
             return KernelBuilder::Vals{place.stage, place.phase};
           }
           KernelBuilder::Vals all = combine(tile, item, consumer, sums);
           auto store = [&] {
             epilogue.store(unpackStruct(k, all[0]), columns, whole, item.batch,
                            firstRow, item.column0);
           };
           if (mm.splits(tile.columns))
             k.when(all[1], store);
           else
             store();
           return KernelBuilder::Vals{place.stage, place.phase};
         });
  epilogue.finish();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void MatmulTemplate::start() {
  startPipelines(f, mm.cluster(), weightsFirst, [&] {
    eachWidth([&](MatmulTile t) { pipeline(t).init(1, kMatmulConsumers); });
  });
}

void MatmulTemplate::build() {
  f.target->aligned = true;
  f.target->approximate = roundsAllResults(f.kernel);
  firstItem = k.block();
  itemStep = k.blocks();
  chooseSchedule();
  start();
  splitRoles(
      k, RoleRegisters(), [&] { eachWidth([&](MatmulTile t) { produce(t); }); },
      [&](Val consumer) {
        if (weightsFirst)
          k.waitForPrevious();
        eachWidth([&](MatmulTile t) { consume(t, consumer); });
      });
}

void hopper::buildWgmmaMatmul(KernelFunction &f) {
  std::string reason;
  auto mm = getWgmmaMatmul(f.kernel, reason);
  if (!mm)
    return f.fail(reason);
  MatmulTemplate(f, *mm).build();
}
