//===- LowBitResults.cpp - From transposed sums to results ----------------===//
//
// Sums of rows of the weight by rows of lhs go through shared memory in fp32;
// threads read neighbours along the results' rows, apply what the decode left
// out, and store what the group makes of them. Parts of tiles that blocks share
// go through the workspace to the block that has the tile's first part.
//
//===----------------------------------------------------------------------===//

#include "LowBitTemplate.h"
#include "WarpMma.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "fusion/Artifact/HostABI.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Sums of some columns (rows of lhs) to an area: [block][column][row]. In a
/// cluster each warp's rows go to the block that finishes them.
void LowBitTemplate::storeSums(const Sums &sums, unsigned firstColumn,
                               unsigned columns, Val area, bool remote) {
  int64_t stride = mm.sumStride(tile);
  unsigned slice = 64 / tile.cluster;
  Val warp = warpInGroup(k);
  Val row = (warp << 4) + (k.lane() >> 2);
  if (tile.cluster > 1)
    row = ((warp << 4) & int64_t(slice - 1)) + (k.lane() >> 2);
  if (remote)
    area = sharedOf(k, area, warp * int64_t(tile.cluster) / int64_t(4));
  Val base = k.at(area, ((k.lane() & 3) * (2 * stride) + row) << 2);
  for (unsigned block = 0; block < tile.blocks; ++block)
    for (unsigned column = 0; column < columns; column += 8)
      for (unsigned i = 0; i < 4; ++i) {
        int64_t at = int64_t(block) * columns + column + i % 2;
        unsigned number = (firstColumn + column) / 2 + i;
        k.store(sums[block][number],
                k.at(base, 4 * (at * stride + 8 * (i / 2))), k.i32(0), {});
      }
}

/// What the fragments left out of the sums of neighbouring rows n; null:
/// nothing.
Val LowBitTemplate::factorOf(const LowBitWeight &weight, Val n,
                             unsigned width) {
  double constant = formats[0].sumFactor() * weight.factor;
  Val factor = constant != 1 ? k.f32(constant) : Val();
  auto times = [&](Val other) { factor = factor ? other * factor : other; };
  auto load = [&](BlockArgument argument, bool one) {
    f.group().setWidth(one ? 1 : width);
    // Rows past the end give the last ones.
    Val row = k.min(n, k.i32(mm.n - width));
    Index at = one ? ix.index(0) : ix.index(k.toIndex(row), 1, width);
    Val value =
        k.wrap(f.target->load(f.group(), argument, at, one ? 1 : width));
    f.group().setWidth(width);
    return value;
  };
  if (weight.globalScale)
    times(load(weight.globalScale, true));
  if (!mm.scaled && weight.scales)
    times(load(weight.scales, weight.oneScale));
  return factor;
}

/// Where a thread's results of a tile's first row group begin.
Val LowBitTemplate::firstRow(const Item &item, Val thread) {
  int64_t slice = 64 / tile.cluster;
  Val n = item.row0 + (thread % (slice / width)) * int64_t(width);
  return tile.cluster > 1 ? n + blockInCluster(k) * slice : n;
}

/// The factors of a thread's rows in a row group, of each block or product.
LowBitTemplate::Factors LowBitTemplate::factorsOf(const Item &item, Val thread,
                                                  Val group) {
  unsigned all = kLowBitConsumers / tile.sharers;
  Val n = firstRow(item, thread) + group * int64_t(64);
  Factors factors;
  for (unsigned i = 0; i < tile.blocks; ++i)
    factors.push_back(
        mm.products() == 2
            ? factorOf(mm.weights[i], n, width)
            : factorOf(mm.weights[0], n + int64_t(64) * all * i, width));
  return factors;
}

/// Results of `columns` rows of lhs, 64 (or a slice of them) columns of each of
/// `groups` row groups from `group` on. `sumAt`: the sums of a block at a
/// position within its rows, of a column, of a row group. `known`: the factors
/// of the thread's rows, where it has one row group.
void LowBitTemplate::finish(
    Epilogue &epilogue, const Item &item, unsigned firstColumn,
    unsigned columns, Val firstThread, unsigned threads,
    llvm::function_ref<Val(unsigned, Val, Val, Val)> sumAt, Val group,
    unsigned groups, ArrayRef<Val> known) {
  bool gated = mm.products() == 2;
  int64_t slice = 64 / tile.cluster, perRow = slice / width;
  unsigned blocks = gated ? 1 : tile.blocks;
  unsigned all = kLowBitConsumers / tile.sharers;
  // A thread keeps its place along the results' rows.
  int64_t atOnce = threads / perRow, total = int64_t(columns) * groups;
  int64_t passes = llvm::divideCeil(total, atOnce);
  Val inSlice = (firstThread % perRow) * int64_t(width);
  Val first = firstThread / perRow;
  Val n0 = firstRow(item, firstThread);
  auto pass = [&](unsigned block, Val at) {
    IndexBuilder::Scope scope(ix);
    Val column = groups > 1 ? at % int64_t(columns) : at;
    Val inGroup = groups > 1 ? at / int64_t(columns) : group;
    Val n = n0 + inGroup * int64_t(64) + int64_t(64) * all * block;
    Val m = item.column0 + column + int64_t(firstColumn);
    Val inside = (n < mm.n) && (m < rows);
    if (total % atOnce != 0)
      inside = inside && at < total;
    k.when(inside, [&] {
      IndexBuilder::Scope inner(ix);
      SmallVector<Epilogue::Element> elements;
      for (unsigned p = 0; p < mm.products(); ++p) {
        Val sum = sumAt(gated ? p : block, inSlice, column, inGroup);
        unsigned number = gated ? p : block;
        Val factor =
            known.empty() ? factorOf(mm.weights[p], n, width) : known[number];
        MatmulOp product = mm.weights[p].product;
        elements.push_back({product.getResult(), factor ? sum * factor : sum});
      }
      Indices indices =
          *ix.delinearize(ix.index(Value(k.toIndex(m))),
                          ArrayRef<SymExpr>(mm.space).drop_back(), 1);
      indices.push_back(ix.index(Value(k.toIndex(n)), width > 1, width));
      epilogue.store(indices, elements);
    });
  };
  constexpr int64_t kMostUnrolled = 4;
  for (unsigned block = 0; block < blocks; ++block)
    if (passes <= kMostUnrolled)
      for (int64_t i = 0; i < passes; ++i)
        pass(block, first + i * atOnce);
    else
      k.loop(k.i32(0), k.i32(passes), k.i32(1),
             [&](Val i) { pass(block, first + i * atOnce); });
}

/// Through the warp group's area, a few columns at a time.
void LowBitTemplate::storeChunks(Epilogue &epilogue, const Item &item,
                                 Val consumer, const Sums &sums) {
  unsigned columns = mm.chunkColumns(tile);
  int64_t stride = mm.sumStride(tile);
  Val area = k.at(k.dynamicShared(mm.stages(tile) * mm.stageBytes(tile)),
                  consumer * int64_t(mm.areaBytes(tile)));
  Type type =
      width > 1
          ? Type(VectorType::get({int64_t(width)}, k.builder().getF32Type()))
          : Type(k.builder().getF32Type());
  auto sumAt = [&](unsigned block, Val row, Val column, Val) {
    Val place = (column + int64_t(block) * columns) * stride + row;
    return k.load(k.at(area, place << 2), k.i32(0), type, {4 * width, false});
  };
  Factors factors = factorsOf(item, threadInGroup(k), consumer);
  for (unsigned first = 0; first < tile.columns; first += columns) {
    k.when(item.column0 + int64_t(first) < rows, [&] {
      IndexBuilder::Scope scope(ix);
      storeSums(sums, first, columns, area, /*remote=*/false);
      meet(k, consumer + 1, kWarpgroup);
      finish(epilogue, item, first, columns, threadInGroup(k), kWarpgroup,
             sumAt, consumer, 1, factors);
      meet(k, consumer + 1, kWarpgroup);
    });
  }
}

/// All sums of the tile side by side, then a slice of the rows for each block.
void LowBitTemplate::storeDivided(Epilogue &epilogue, const Item &item,
                                  Val consumer, const Sums &sums) {
  int64_t stride = mm.sumStride(tile), bytes = mm.areaBytes(tile);
  constexpr unsigned kThreads = kLowBitConsumers * kWarpgroup;
  Val areas = k.dynamicShared(mm.stages(tile) * mm.stageBytes(tile));
  Val number = consumer;
  if (tile.cluster > 1)
    number = number + blockInCluster(k) * int64_t(kLowBitConsumers);
  storeSums(sums, 0, tile.columns, k.at(areas, number * bytes),
            tile.cluster > 1);
  if (tile.cluster > 1) {
    arriveCluster(k);
    waitCluster(k);
  } else {
    meet(k, k.i32(3), kThreads);
  }
  Type type =
      width > 1
          ? Type(VectorType::get({int64_t(width)}, k.builder().getF32Type()))
          : Type(k.builder().getF32Type());
  auto sumAt = [&](unsigned block, Val row, Val column, Val group) {
    Val place = (column + int64_t(block) * tile.columns) * stride + row;
    Val sum;
    for (unsigned rank = 0; rank < tile.cluster; ++rank)
      for (unsigned s = 0; s < tile.sharers; ++s) {
        int64_t area = rank * kLowBitConsumers + s;
        Val from = k.at(areas, area * bytes);
        if (tile.sharers == 1)
          from = k.at(from, group * bytes);
        Val part =
            k.load(k.at(from, place << 2), k.i32(0), type, {4 * width, false});
        sum = sum ? sum + part : part;
      }
    return sum;
  };
  unsigned groups = kLowBitConsumers / tile.sharers;
  Val thread = k.thread() - int64_t(kWarpgroup);
  Factors factors;
  if (groups == 1)
    factors = factorsOf(item, thread, k.i32(0));
  finish(epilogue, item, 0, tile.columns, thread, kThreads, sumAt, k.i32(0),
         groups, factors);
  if (tile.cluster == 1)
    meet(k, k.i32(3), kThreads);
}

//===----------------------------------------------------------------------===//
// Parts of a tile
//===----------------------------------------------------------------------===//

static constexpr int64_t kVectorBytes = kWarpgroup * 16;

/// A worker leaves at most one part, of the first tile in its stream.
Val LowBitTemplate::partAt(Val worker, Val consumer) {
  Val slot = worker * int64_t(kLowBitConsumers) + consumer;
  int64_t bytes = int64_t(tile.blocks) * tile.columns / 2 * kWarpgroup * 4;
  return k.at(k.at(f.workspace, k.toI64(slot) * bytes),
              k.toI64(threadInGroup(k) << 4));
}

Val LowBitTemplate::flagAt(Val worker, Val consumer) {
  Val slot = worker * int64_t(kLowBitConsumers) + consumer;
  return k.at(f.counters, k.toI64(slot << 2));
}

void LowBitTemplate::publish(const Deal &d, Val consumer, const Sums &sums) {
  Val to = partAt(d.worker, consumer);
  unsigned number = 0;
  for (const auto &block : sums)
    for (unsigned i = 0; i < block.size(); i += 4)
      k.store(k.vector(ArrayRef(block).slice(i, 4)),
              k.at(to, int64_t(number++) * kVectorBytes), k.i32(0),
              {16, false});
  fenceDevice(k);
  meet(k, consumer + 1, kWarpgroup);
  k.when(threadInGroup(k) == 0, [&] {
    ptx(k, {}, "st.release.gpu.global.u32 [$0], $1;", "l,r",
        {flagAt(d.worker, consumer), k.i32(1)});
  });
}

/// A flag that stays down for seconds stops the wait, and is reported.
void LowBitTemplate::awaitFlag(Val flag) {
  constexpr int64_t kPatience = 1 << 24;
  auto read = [&] {
    return ptx(k, {k.builder().getI32Type()},
               "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l", {flag})[0];
  };
  KernelBuilder::Vals found = whileLoop(
      k, {read(), k.i32(0)},
      [&](ArrayRef<Val> v) { return v[0] == 0 && v[1] < k.i32(kPatience); },
      [&](ArrayRef<Val> v) { return KernelBuilder::Vals{read(), v[1] + 1}; });
  k.when(found[0] == 0, [&] {
    k.store(k.i32(kHostStalled), f.target->status, k.i64(0), {4, false});
  });
}

/// The sums of a tile's first part, and those of all later parts in order.
LowBitTemplate::Sums LowBitTemplate::addOthers(const Deal &d, const Item &item,
                                               Val consumer, const Sums &sums) {
  KernelBuilder::Vals flat;
  for (const auto &block : sums)
    flat.append(block.begin(), block.end());
  Type vector = VectorType::get({4}, k.builder().getF32Type());
  Val partial = item.endTurn < k.i32(mm.turns());
  // Workers whose turns begin before the tile's end.
  Val end = (item.streamEnd * d.workers + d.turns - 1) /
            k.select(partial, d.turns, k.i32(1));
  end = k.select(partial, end, k.i32(0));
  KernelBuilder::Vals all = k.loop(
      d.worker + 1, end, k.i32(1), flat, [&](Val other, ArrayRef<Val> carried) {
        Val flag = flagAt(other, consumer);
        k.when(threadInGroup(k) == 0, [&] { awaitFlag(flag); });
        meet(k, consumer + 1, kWarpgroup);
        Val from = partAt(other, consumer);
        KernelBuilder::Vals next;
        for (unsigned i = 0; i < carried.size(); i += 4) {
          Val part = k.load(k.at(from, int64_t(i) / 4 * kVectorBytes), k.i32(0),
                            vector, {16, false});
          for (unsigned lane = 0; lane < 4; ++lane)
            next.push_back(carried[i + lane] + k.extract(part, lane));
        }
        meet(k, consumer + 1, kWarpgroup);
        // Ready for the next launch.
        k.when(threadInGroup(k) == 0,
               [&] { k.store(k.i32(0), flag, k.i32(0), {4, false}); });
        return next;
      });
  Sums result;
  unsigned per = tile.columns / 2;
  for (unsigned block = 0; block < tile.blocks; ++block) {
    ArrayRef<Val> mine = ArrayRef<Val>(all).slice(block * per, per);
    result.emplace_back(mine.begin(), mine.end());
  }
  return result;
}
