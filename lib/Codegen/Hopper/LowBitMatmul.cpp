//===- LowBitMatmul.cpp - Template: packed weights on the tensor cores ----===//
//
// One thread of the first warp group fetches stages of packed codes, their
// scales and zero points, and rows of lhs by TMA. Two warp groups decode the
// codes into fragments of A (LowBitFormat) and multiply them with rows of lhs,
// which are the columns of wgmma. Batches of four products alternate between
// the halves of a turn and the row blocks of a warp group: one is decoded while
// the other is multiplied. Where columns are few, scales that change along K
// are not decoded: the sums of a turn are multiplied by them, in fp32.
//
// The sums come out transposed. Where nothing else goes into the results, these
// are computed in place and turned round on their way out (LowBitBoxes). Else
// sums go through shared memory in fp32, from where each thread takes
// neighbouring columns of a result, has the group make of them what it makes,
// and stores. Warp groups that take turns along K, and
// blocks of a cluster, put their sums side by side there; they are added in one
// order.
//
//===----------------------------------------------------------------------===//

#include "LowBitTemplate.h"
#include "WarpMma.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

LowBitTemplate::LowBitTemplate(KernelFunction &f, const LowBitMatmul &mm)
    : f(f), k(f.k), ix(f.ix()), mm(mm) {
  programmatic = kernels::isProgrammatic(f.kernel);
  auto invariant = [&](BlockArgument argument) {
    return !argument || isStepInvariant(f.kernel, argument.getArgNumber());
  };
  weightsFirst =
      programmatic && llvm::all_of(mm.weights, [&](auto &w) {
        return invariant(w.codes) && invariant(w.scales) && invariant(w.zeros);
      });
  lhsFirst = weightsFirst && isStepInvariant(f.kernel, mm.lhs.argument);
  if (mm.norm) {
    bool ready = lhsFirst && invariant(mm.norm->weight) && !mm.norm->result &&
                 (!mm.norm->addend ||
                  isStepInvariant(f.kernel, mm.norm->addend->argument));
    normWaits = weightsFirst && !ready;
    // The producer waits for rows, consumers before they store.
    lhsFirst = weightsFirst;
  }
  width = mm.n % 4 == 0 ? 4 : mm.n % 2 == 0 ? 2 : 1;
}

//===----------------------------------------------------------------------===//
// The work
//===----------------------------------------------------------------------===//

/// The plan's entry for the rows that there are.
void LowBitTemplate::chooseTile() {
  rows = k.toI32(k.wrap(ix.size(mm.m)));
  chosen = k.i32(mm.plan.entries[0].tile);
  for (const LowBitPlanEntry &entry : ArrayRef(mm.plan.entries).drop_front())
    chosen = k.select(rows < entry.firstRow, chosen, k.i32(entry.tile));
}

void LowBitTemplate::eachTile(llvm::function_ref<void()> body) {
  for (unsigned i = 0; i < mm.plan.tiles.size(); ++i) {
    auto build = [&] {
      IndexBuilder::Scope scope(ix);
      tile = mm.plan.tiles[i];
      maps = mm.mapsOf(i);
      scalesSums = mm.scalesSums(tile);
      formats.clear();
      for (const LowBitWeight &w : mm.weights)
        formats.emplace_back(k, w, mm.element, mm.scaled && !scalesSums);
      body();
    };
    if (mm.plan.tiles.size() == 1)
      build();
    else
      k.when(chosen == int64_t(i), build);
  }
}

LowBitTemplate::Deal LowBitTemplate::deal() {
  Deal d;
  d.columnTiles = (rows + int64_t(tile.columns - 1)) / int64_t(tile.columns);
  d.tiles = d.columnTiles * mm.rowTiles(tile);
  d.worker = k.block();
  d.workers = k.blocks();
  if (tile.cluster > 1) {
    d.worker = d.worker / int64_t(tile.cluster);
    d.workers = d.workers / int64_t(tile.cluster);
  }
  // What is left of the tiles for this worker, when none is streamed.
  d.waves = (d.tiles - d.worker + d.workers - 1) / d.workers;
  d.items = d.waves;
  if (!canStream())
    return d;
  int64_t turns = mm.turns();
  Val whole = d.tiles / d.workers;
  Val rest = d.tiles - whole * d.workers;
  // Blocks that would have nothing to do, times what a tile takes, against
  // what sums across blocks cost.
  Val pays = d.workers * kStreamTurns < (d.workers - rest) * turns;
  Val streams = !(whole == 0) && !(rest == 0) && pays;
  Val before = (whole - 1) * d.workers;
  d.first = k.select(streams, before, d.tiles);
  d.turns = (d.tiles - d.first) * turns;
  d.begin = d.turns * d.worker / d.workers;
  d.end = d.turns * (d.worker + 1) / d.workers;
  Val pieces = (d.end - 1) / turns - d.begin / turns + 1;
  d.waves = k.select(streams, whole - 1, d.waves);
  d.items = k.select(streams, d.waves + pieces, d.waves);
  return d;
}

/// Tiles of lhs in bands; within a band, all of them before the next rows of
/// the weight, which are then read from memory once.
LowBitTemplate::Item LowBitTemplate::itemAt(const Deal &d, Val number) {
  Item item;
  item.firstTurn = k.i32(0);
  item.endTurn = k.i32(mm.turns());
  if (tile.cluster > 1) {
    Val rank = blockInCluster(k);
    item.firstTurn = rank * mm.turns() / int64_t(tile.cluster);
    item.endTurn = (rank + 1) * mm.turns() / int64_t(tile.cluster);
  }
  Val at = d.worker + number * d.workers;
  if (canStream()) {
    int64_t turns = mm.turns();
    Val whole = number < d.waves;
    Val inStream = d.begin / turns + (number - d.waves);
    item.streamEnd = (inStream + 1) * turns;
    Val from = d.begin - inStream * turns, to = d.end - inStream * turns;
    at = k.select(whole, at, d.first + inStream);
    Val zero = k.i32(0), all = k.i32(turns);
    item.firstTurn = k.select(whole || (from < 0), zero, from);
    item.endTurn = k.select(whole, all, k.min(to, all));
  }
  int64_t down = mm.rowTiles(tile);
  constexpr int64_t kBand = 16;
  Val band = at / (down * kBand);
  Val inBand = at - band * (down * kBand);
  Val firstColumn = band * kBand;
  Val across = k.min(d.columnTiles - firstColumn, k.i32(kBand));
  Val row = inBand / across;
  Val column = firstColumn + (inBand - row * across);
  item.row0 = row * int64_t(mm.productRows(tile));
  item.column0 = column * int64_t(tile.columns);
  return item;
}

//===----------------------------------------------------------------------===//
// The ring
//===----------------------------------------------------------------------===//

Place LowBitTemplate::advance(Place place, unsigned stages) {
  int64_t count = mm.stages(tile);
  Val stage = place.stage + int64_t(stages);
  Val inside = stage < count;
  return {k.select(inside, stage, stage - count),
          k.select(inside, place.phase, place.phase ^ 1)};
}

/// Any number of stages.
Place LowBitTemplate::advanceBy(Place place, Val stages) {
  int64_t count = mm.stages(tile);
  Val stage = place.stage + stages;
  Val around = stage / count;
  return {stage - around * count, (place.phase + around) & 1};
}

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

void LowBitTemplate::loadWeights(const Item &item, Val depth, Val stage) {
  // What one launch reads once does not stay in the L2 cache.
  CachePolicy policy = mm.mostRows <= int64_t(tile.columns)
                           ? CachePolicy::EvictFirst
                           : CachePolicy::Normal;
  Val strip = item.row0 / kStripRows;
  Val to = k.at(stageAt(stage), int64_t(mm.lhsBytes(tile)));
  for (auto [i, w] : llvm::enumerate(mm.weights)) {
    Val codes = k.at(to, int64_t(i) * mm.productBytes(tile));
    loadTile(k, f.maps[maps.codes[i]], codes, full(stage),
             {k.i32(0), depth / w.unitColumns(), strip}, policy);
    Val group = w.group == w.k ? k.i32(0) : depth / w.group;
    Val scales = k.at(codes, int64_t(mm.codeBytes(tile)));
    if (mm.scaled)
      loadTile(k, f.maps[maps.scales[i]], scales, full(stage),
               {k.i32(0), group, strip});
    int64_t behind = llvm::alignTo(mm.scaleBytes(tile), 128);
    if (w.zeros)
      loadTile(k, f.maps[maps.zeros[i]], k.at(scales, behind), full(stage),
               {k.i32(0), group, strip});
  }
}

/// Rows of lhs come in one copy or, where a tile has fewer, in as many as cover
/// those. What the tile has beyond them is left as it is: its products are not
/// stored.
Val LowBitTemplate::isPart(const Item &item) {
  unsigned part = mm.partRows(tile);
  return rows - item.column0 < int64_t(mm.boxRows(tile)) - part + 1;
}

void LowBitTemplate::expectStage(const Item &item, Val stage) {
  int64_t all = mm.boxRows(tile), part = mm.partRows(tile);
  Val copied = k.i32(mm.norm ? tile.columns : all);
  if (part != all && !mm.norm) {
    Val parts = (rows - item.column0 + (part - 1)) / part;
    copied = k.select(isPart(item), parts * part, copied);
  }
  full(stage).arriveExpect(copied * (int64_t(2) * tile.depth()) +
                           int64_t(mm.filledBytes(tile)));
}

void LowBitTemplate::loadLhs(const Item &item, Val depth, Val stage) {
  if (mm.norm)
    return loadBytes(k,
                     normStage(item.column0 / int64_t(tile.columns),
                               depth / int64_t(kLowBitTurn)),
                     stageAt(stage), k.i32(mm.lhsBytes(tile)), full(stage));
  unsigned all = mm.boxRows(tile), part = mm.partRows(tile);
  auto copy = [&](unsigned map, Val row) {
    for (unsigned at = 0; at < tile.depth(); at += kTileDepth) {
      Val to = k.at(stageAt(stage),
                    int64_t(at / kTileDepth) * tile.columns * kTileRowBytes);
      loadTile(k, f.maps[map], k.at(to, row * int64_t(kTileRowBytes)),
               full(stage), {depth + int64_t(at), item.column0 + row});
    }
  };
  if (part == all)
    return copy(maps.lhs, k.i32(0));
  Val there = rows - item.column0;
  k.whenElse(
      isPart(item),
      [&] {
        k.loop(k.i32(0), there, k.i32(part), [&](Val row) {
          IndexBuilder::Scope scope(ix);
          copy(maps.lhsPart, row);
        });
      },
      [&] { copy(maps.lhs, k.i32(0)); });
}

/// Fills the first stages with weights before the previous kernel has ended,
/// then (or at once, when no kernel writes it) with lhs. Returns how many, and
/// where the ring goes on.
std::pair<Val, Place> LowBitTemplate::loadAhead(const Deal &d) {
  Item item = itemAt(d, k.i32(0));
  int64_t count = mm.stages(tile);
  Val stages = (item.endTurn - item.firstTurn) * int64_t(turnStages());
  Val first = item.firstTurn * int64_t(kLowBitTurn);
  Val ahead = k.select(d.items == 0, k.i32(0), k.min(k.i32(count), stages));
  auto depthOf = [&](Val i) { return first + i * int64_t(tile.depth()); };
  k.loop(k.i32(0), ahead, k.i32(1), [&](Val i) {
    IndexBuilder::Scope scope(ix);
    expectStage(item, i);
    loadWeights(item, depthOf(i), i);
  });
  if (mm.norm)
    awaitRows();
  else if (!lhsFirst)
    k.waitForPrevious();
  k.loop(k.i32(0), ahead, k.i32(1), [&](Val i) {
    IndexBuilder::Scope scope(ix);
    loadLhs(item, depthOf(i), i);
  });
  return {ahead, advanceBy({k.i32(0), k.i32(0)}, ahead)};
}

void LowBitTemplate::produce() {
  Place first{k.i32(0), k.i32(0)};
  Deal d = deal();
  Val ahead;
  if (weightsFirst)
    std::tie(ahead, first) = loadAhead(d);
  else if (mm.norm)
    awaitRows();
  k.loop(k.i32(0), d.items, k.i32(1), first.values(),
         [&](Val number, ArrayRef<Val> outer) {
           IndexBuilder::Scope scope(ix);
           Item item = itemAt(d, number);
           Val begin = item.firstTurn * int64_t(turnStages());
           Val end = item.endTurn * int64_t(turnStages());
           if (ahead)
             begin = k.select(number == 0, begin + ahead, begin);
           return k.loop(begin, end, k.i32(1), outer,
                         [&](Val at, ArrayRef<Val> carried) {
                           IndexBuilder::Scope inner(ix);
                           Place place{carried[0], carried[1]};
                           empty(place.stage).wait(place.phase ^ 1);
                           expectStage(item, place.stage);
                           Val depth = at * int64_t(tile.depth());
                           loadWeights(item, depth, place.stage);
                           loadLhs(item, depth, place.stage);
                           Place next = advance(place, 1);
                           return KernelBuilder::Vals{next.stage, next.phase};
                         });
         });
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

/// The warp's strip of a row block in a stage.
Val LowBitTemplate::codesAt(Val stage, unsigned block, Val consumer) {
  bool gated = mm.products() == 2;
  unsigned groups = kLowBitConsumers / tile.sharers;
  Val strip = rowGroup(consumer) * int64_t(4) + warpInGroup(k);
  if (!gated)
    strip = strip + int64_t(block) * groups * 4;
  int64_t offset = mm.lhsBytes(tile);
  if (gated)
    offset += int64_t(block) * mm.productBytes(tile);
  int64_t perStrip = kStripRows * tile.depth() * mm.weights[0].bits / 8;
  return k.at(k.at(stageAt(stage), offset), strip * perStrip);
}

/// What the lane's two rows have of a row block's scales or zero points, which
/// lie `offset` behind the stage's codes; `index`: among the stage's groups.
Val LowBitTemplate::pairAt(Type element, Val stage, unsigned block,
                           Val consumer, unsigned index, int64_t offset) {
  bool gated = mm.products() == 2;
  unsigned groups = kLowBitConsumers / tile.sharers;
  Val strip = rowGroup(consumer) * int64_t(4) + warpInGroup(k);
  offset += mm.lhsBytes(tile) + mm.codeBytes(tile);
  if (gated)
    offset += int64_t(block) * mm.productBytes(tile);
  else
    strip = strip + int64_t(block) * groups * 4;
  Val place = (strip * int64_t(mm.stageGroups(tile)) + int64_t(index)) * 16 +
              ((k.lane() >> 2) << 1);
  unsigned bytes = stripBytes(element);
  return k.load(k.at(k.at(stageAt(stage), offset), place * int64_t(bytes)),
                k.i32(0), LowBitFormat::pairType(k, element),
                {2 * bytes, false});
}

/// Scales, where fragments take them, and zero points of a row block's strip.
LowBitFormat::Group LowBitTemplate::groupAt(Val stage, unsigned block,
                                            Val consumer, unsigned index) {
  const LowBitWeight &w = mm.weights[mm.products() == 2 ? block : 0];
  Val scales, zeros;
  if (mm.scaled && !scalesSums)
    scales = pairAt(w.scale(), stage, block, consumer, index, 0);
  if (w.zeros)
    zeros = pairAt(w.zero(), stage, block, consumer, index,
                   int64_t(llvm::alignTo(mm.scaleBytes(tile), 128)));
  return formats[mm.products() == 2 ? block : 0].group(scales, zeros);
}

/// The scales of the two rows, in fp32, in a stage of one group.
KernelBuilder::Vals LowBitTemplate::scalesAt(Val stage, unsigned block,
                                             Val consumer) {
  Type type = mm.weights[0].scale();
  Val pair = pairAt(type, stage, block, consumer, 0, 0);
  return {LowBitFormat::toF32(k, pair, type, 0),
          LowBitFormat::toF32(k, pair, type, 1)};
}

/// All words of a turn: of half h and block r in words[h * blocks + r].
void LowBitTemplate::loadWords(Turn &turn, Val consumer) {
  Type vector = VectorType::get({4}, k.builder().getI32Type());
  int64_t columns = mm.weights[0].unitColumns();
  for (unsigned half = 0; half < 2; ++half) {
    Val stage = turn.stages.size() == 2 ? turn.stages[half] : turn.stages[0];
    int64_t first = turn.stages.size() == 2 ? 0 : half * 64 / columns;
    for (unsigned block = 0; block < tile.blocks; ++block) {
      Val from = k.at(codesAt(stage, block, consumer), k.lane() << 4);
      KernelBuilder::Vals words;
      for (int64_t unit = 0; unit < 64 / columns; ++unit) {
        Val loaded = k.load(k.at(from, (first + unit) * kUnitBytes), k.i32(0),
                            vector, {16, false});
        for (unsigned i = 0; i < 4; ++i)
          words.push_back(k.extract(loaded, i));
      }
      turn.words.push_back(words);
    }
  }
}

/// Scales and zero points of a group as long as a turn, with the words: the
/// decode would wait for them.
void LowBitTemplate::loadGroups(Turn &turn, Val consumer) {
  turn.factors.resize(tile.blocks);
  turn.current.assign(tile.blocks, -1);
  if (mm.weights[0].group < int64_t(kLowBitTurn))
    return;
  for (unsigned block = 0; block < tile.blocks; ++block) {
    turn.factors[block] = groupAt(turn.stages[0], block, consumer, 0);
    turn.current[block] = 0;
  }
}

/// The fragments of four steps: 16 registers.
KernelBuilder::Vals LowBitTemplate::decode(Turn &turn, unsigned half,
                                           unsigned block, Val consumer) {
  bool twoStages = turn.stages.size() == 2;
  Val stage = turn.stages[twoStages ? half : 0];
  LowBitFormat &format = formats[mm.products() == 2 ? block : 0];
  ArrayRef<Val> words = turn.words[half * tile.blocks + block];
  int64_t group = mm.weights[0].group;
  KernelBuilder::Vals registers;
  for (unsigned step = 0; step < 4; ++step) {
    int64_t column = half * 64 + step * kWgmmaDepth;
    int64_t number = column / std::min<int64_t>(group, kLowBitTurn);
    if (number != turn.current[block]) {
      int64_t before = twoStages ? half * 64 / group : 0;
      turn.factors[block] =
          groupAt(stage, block, consumer, unsigned(number - before));
      turn.current[block] = number;
    }
    registers.append(
        format.fragment(words.slice(step * format.words(), format.words()),
                        turn.factors[block]));
  }
  return registers;
}

/// Gives a stage back without a branch: ptxas would wait for the products that
/// are under way.
void LowBitTemplate::release(Val stage, Val condition) {
  Val flag = k.select(condition, k.i32(1), k.i32(0));
  ptx(k, {},
      "{ .reg .pred p; setp.ne.b32 p, $1, 0; @p "
      "mbarrier.arrive.shared::cta.b64 "
      "_, [$0]; }",
      "r,r", {sharedAddress(k, empty(stage).address()), flag});
}

/// Four products of a turn's half with the fragments `a`.
void LowBitTemplate::issue(const Turn &turn, unsigned half, ArrayRef<Val> a,
                           Val &sums, Wgmma::Start start) {
  bool twoStages = turn.stages.size() == 2;
  Val b = stageAt(turn.stages[twoStages ? half : 0]);
  if (!twoStages)
    b = k.at(b, int64_t(half) * tile.columns * kTileRowBytes);
  Val low = uniform(k, (sharedAddress(k, b) & 0x3FFFF) >> 4);
  Val descriptor = k.wrap(arith::ExtUIOp::create(
                       k.builder(), k.builder().getI64Type(), Value(low))) |
                   int64_t(descriptorBits(Major::K));
  Wgmma wgmma(k, tile.columns, mm.element);
  KernelBuilder::Vals fragments = wgmmaFence(k, a);
  for (unsigned step = 0; step < 4; ++step)
    sums = wgmma.multiply(
        sums, ArrayRef(fragments).slice(4 * step, 4),
        descriptor + int64_t(step) * descriptorDepthStep(Major::K), Major::K,
        step == 0 ? start : Wgmma::Start::Accumulate);
  wgmmaCommit(k);
}

KernelBuilder::Vals LowBitTemplate::State::flat() const {
  KernelBuilder::Vals values(sums);
  values.append(scales);
  for (const KernelBuilder::Vals &block : totals)
    values.append(block);
  return values;
}

LowBitTemplate::State LowBitTemplate::stateOf(ArrayRef<Val> flat) const {
  State state;
  auto take = [&](size_t count) {
    KernelBuilder::Vals taken(flat.take_front(count));
    flat = flat.drop_front(count);
    return taken;
  };
  state.sums = take(tile.blocks);
  if (!scalesSums)
    return state;
  state.scales = take(2 * tile.blocks);
  for (unsigned block = 0; block < tile.blocks; ++block)
    state.totals.push_back(take(tile.columns / 2));
  return state;
}

/// Adds the finished sums of a turn, times their scales, to the totals.
void LowBitTemplate::addTurn(State &state) {
  state.sums = wgmmaWait(k, 0, state.sums);
  for (unsigned block = 0; block < tile.blocks; ++block)
    for (auto [i, sum] : llvm::enumerate(unpackStruct(k, state.sums[block]))) {
      Val &total = state.totals[block][i];
      total = fma(k, state.scales[2 * block + i % 4 / 2], sum, total);
    }
}

/// `afterWait`: what can be done before batch `number`, of which all but the
/// one before it are done.
void LowBitTemplate::multiplyTurn(
    Turn &turn, Val consumer, State &state,
    llvm::function_ref<void(unsigned)> afterWait) {
  unsigned number = 0;
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned block = 0; block < tile.blocks; ++block, ++number) {
      auto start = Wgmma::Start::Accumulate;
      Val &sums = state.sums[block];
      // The batch before the last one is done: its registers are free, and the
      // stage that it was the last to read.
      wgmmaWait(k, 1);
      afterWait(number);
      KernelBuilder::Vals a = decode(turn, half, block, consumer);
      if (scalesSums && half == 0) {
        addTurn(state);
        // In the same registers: copies would wait for the products.
        start = Wgmma::Start::Fresh;
      }
      issue(turn, half, a, sums, start);
    }
  if (scalesSums)
    for (unsigned block = 0; block < tile.blocks; ++block) {
      KernelBuilder::Vals own = scalesAt(turn.stages[0], block, consumer);
      llvm::copy(own, state.scales.begin() + 2 * block);
    }
}

/// The sums of the item's part of K. `place`: of the item's first turn.
LowBitTemplate::Sums LowBitTemplate::multiply(const Item &item, Val consumer,
                                              Place &place) {
  Wgmma wgmma(k, tile.columns, mm.element);
  unsigned perTurn = turnStages();
  Val mine = sharer(consumer);
  Place first =
      tile.sharers > 1 ? advanceBy(place, mine * int64_t(perTurn)) : place;
  place = advanceBy(place, (item.endTurn - item.firstTurn) * int64_t(perTurn));
  KernelBuilder::Vals init = {first.stage, first.phase, k.i32(-1)};
  for (unsigned block = 0; block < tile.blocks; ++block)
    init.push_back(wgmma.zero());
  if (scalesSums)
    init.append(tile.blocks * (2 + tile.columns / 2), k.f32(0));
  Val leader = k.lane() == 0;
  KernelBuilder::Vals last =
      k.loop(item.firstTurn + mine, item.endTurn, k.i32(tile.sharers), init,
             [&](Val, ArrayRef<Val> carried) {
               IndexBuilder::Scope scope(ix);
               Place here{carried[0], carried[1]};
               Val previous = carried[2];
               State state = stateOf(carried.drop_front(3));
               Turn turn;
               // All waits come before the first product: a loop between
               // products would make ptxas wait for each of them.
               Place other = advance(here, 1);
               full(here.stage).wait(here.phase);
               turn.stages.push_back(here.stage);
               if (perTurn == 2) {
                 full(other.stage).wait(other.phase);
                 turn.stages.push_back(other.stage);
               }
               loadWords(turn, consumer);
               loadGroups(turn, consumer);
               multiplyTurn(turn, consumer, state, [&](unsigned number) {
                 if (number == 1)
                   release(previous, leader && !(previous < 0));
                 if (perTurn == 2 && number == tile.blocks + 1)
                   release(here.stage, leader);
               });
               // With one block the first half's products are not known to be
               // done.
               Val open =
                   perTurn == 2 && tile.blocks > 1 ? other.stage : here.stage;
               if (perTurn == 2 && tile.blocks == 1) {
                 wgmmaWait(k, 1);
                 release(here.stage, leader);
                 open = other.stage;
               }
               Place next = advance(here, perTurn * tile.sharers);
               KernelBuilder::Vals result = {next.stage, next.phase, open};
               result.append(state.flat());
               return result;
             });
  State state = stateOf(ArrayRef<Val>(last).drop_front(3));
  Sums sums;
  if (scalesSums)
    addTurn(state);
  else
    state.sums = wgmmaWait(k, 0, state.sums);
  release(last[2], leader && !(last[2] < 0));
  if (scalesSums)
    for (const KernelBuilder::Vals &block : state.totals)
      sums.emplace_back(block.begin(), block.end());
  for (Val block : state.sums)
    sums.push_back(unpackStruct(k, block));
  return sums;
}

void LowBitTemplate::consume(Val consumer) {
  if (mm.norm)
    normalise();
  f.group().setWidth(width);
  Epilogue epilogue(f, mm.space);
  Place start{k.i32(0), k.i32(0)};
  Deal d = deal();
  k.loop(k.i32(0), d.items, k.i32(1), start.values(),
         [&](Val number, ArrayRef<Val> carried) {
           IndexBuilder::Scope scope(ix);
           Item item = itemAt(d, number);
           Place place{carried[0], carried[1]};
           Sums sums = multiply(item, consumer, place);
           if (lhsFirst)
             k.waitForPrevious();
           auto store = [&](const Sums &all) {
             if (mm.sends(tile))
               sendBoxes(item, consumer, all);
             else
               storeChunks(epilogue, item, consumer, all);
           };
           if (tile.divides())
             storeDivided(epilogue, item, consumer, sums);
           else if (canStream())
             k.whenElse(
                 !(item.firstTurn == 0), [&] { publish(d, consumer, sums); },
                 [&] {
                   IndexBuilder::Scope owner(ix);
                   store(addOthers(d, item, consumer, sums));
                 });
           else
             store(sums);
           return KernelBuilder::Vals{place.stage, place.phase};
         });
  if (mm.sends(tile))
    finishBoxes();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void LowBitTemplate::start() {
  startPipelines(f, mm.cluster(), weightsFirst, [&] {
    eachTile([&] {
      unsigned warps = 4 * kLowBitConsumers / tile.sharers;
      for (unsigned stage = 0; stage < mm.stages(tile); ++stage) {
        full(k.i32(stage)).init(1);
        empty(k.i32(stage)).init(warps);
      }
    });
  });
}

void LowBitTemplate::build() {
  f.target->aligned = true;
  f.target->approximate = roundsAllResults(f.kernel);
  chooseTile();
  start();
  RoleRegisters registers;
  if (mm.resident() == 2)
    registers = {32, 104};
  splitRoles(
      k, registers, [&] { eachTile([&] { produce(); }); },
      [&](Val consumer) {
        if (weightsFirst && !lhsFirst)
          k.waitForPrevious();
        eachTile([&] { consume(consumer); });
        // Nor does a launch without rows end before the previous one.
        if (lhsFirst)
          k.waitForPrevious();
      });
}

void hopper::buildLowBitMatmul(KernelFunction &f) {
  std::string reason;
  auto mm =
      getLowBitMatmul(f.kernel, std::max(1u, f.launch.residentBlocks), reason);
  if (!mm)
    return f.fail(reason);
  LowBitTemplate(f, *mm).build();
}
