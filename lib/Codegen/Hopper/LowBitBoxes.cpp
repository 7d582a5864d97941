//===- LowBitBoxes.cpp - Transposed sums to boxes of results --------------===//
//
// Where nothing but the products goes into the results, they are computed where
// the sums lie. stmatrix turns them round on their way to shared memory, 64
// columns of the result by 32 rows at a time; from there they leave as boxes,
// while the next ones are written.
//
//===----------------------------------------------------------------------===//

#include "LowBitTemplate.h"
#include "WarpMma.h"
#include "Warpgroup.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

/// What a thread holds of 64 rows of the weight.
struct LowBitTemplate::Fragments {
  /// Of each product: its sums, and the factors of the thread's two rows.
  SmallVector<std::pair<MatmulOp, ArrayRef<Val>>, 2> products;
  SmallVector<Factors, 2> factors;
  Val row, column; ///< of the thread's first element: n, m
};

/// Rows [first, first + kLowBitBoxRows) of the tile of a result.
void LowBitTemplate::writeBox(Fragments &from, Value result, unsigned first,
                              Val to) {
  BodyEmitter &group = f.group();
  Indices position;
  SmallVector<Val, 2> values;
  for (auto [number, product] : llvm::enumerate(from.products)) {
    Value hero = product.first.getResult();
    group.provide(hero, [&, hero, number](ArrayRef<Index> asked) -> Value {
      return isSameElement(hero, asked, position) ? Value(values[number])
                                                  : nullptr;
    });
  }
  auto elementAt = [&](unsigned i) {
    unsigned half = i / 2 % 2;
    values.clear();
    for (auto [product, factors] : llvm::zip(from.products, from.factors)) {
      Val sum = product.second[i];
      Value value = factors[half] ? sum * factors[half] : sum;
      if (group.isStrict())
        value = f.target->round(group, value,
                                elementType(product.first.getResult()), true);
      values.push_back(k.wrap(value));
    }
    Val m = from.column + (8 * int64_t(i / 4) + i % 2);
    position = *ix.delinearize(ix.index(Value(k.toIndex(m))),
                               ArrayRef<SymExpr>(mm.space).drop_back(), 1);
    position.push_back(
        ix.index(Value(k.toIndex(from.row + 8 * int64_t(half)))));
    return k.wrap(group.emitVector(result, position));
  };
  Type element = elementType(result);
  for (unsigned row = 0; row < kLowBitBoxRows; row += 16) {
    SmallVector<Val, 4> pairs;
    for (unsigned i = (first + row) / 2; i < (first + row) / 2 + 8; i += 2) {
      Val low = elementAt(i), high = elementAt(i + 1);
      pairs.push_back(pack2(k, element, low, high));
    }
    storeFragment(k, transposedPointer(k, to, row), pairs, /*transposed=*/true);
  }
  for (const auto &product : from.products)
    group.withdraw(MatmulOp(product.first).getResult());
}

/// A row block's results, some boxes at once.
void LowBitTemplate::sendBlock(const Item &item, Val consumer, const Sums &sums,
                               unsigned block) {
  bool gated = mm.products() == 2;
  Val firstRow = item.row0 + consumer * int64_t(64) +
                 int64_t(64) * kLowBitConsumers * block;
  Val lane = k.lane();
  Fragments from;
  from.row = firstRow + (warpInGroup(k) << 4) + (lane >> 2);
  from.column = item.column0 + ((lane & 3) << 1);
  for (unsigned p = 0; p < mm.products(); ++p) {
    const LowBitWeight &w = mm.weights[p];
    from.products.push_back({w.product, sums[gated ? p : block]});
    from.factors.push_back(
        {factorOf(w, from.row, 1), factorOf(w, from.row + int64_t(8), 1)});
  }
  unsigned buffers = mm.sendBuffers(tile);
  unsigned atOnce = buffers >= mm.tileBoxes(tile)
                        ? tile.columns / kLowBitBoxRows
                        : std::max(1u, buffers / 2);
  bool halves = buffers >= 2 * atOnce;
  // Where each block sends once, none is left out, and blocks take turns.
  bool once = atOnce * kLowBitBoxRows >= tile.columns && mm.results.size() == 1;
  unsigned number = once ? block : 0;
  Val area = k.at(k.dynamicShared(mm.stages(tile) * mm.stageBytes(tile)),
                  consumer * int64_t(mm.areaBytes(tile)));
  Val leader = threadInGroup(k) == 0;
  auto results = f.kernel.getYield().getValues();
  for (unsigned first = 0; first < tile.columns;
       first += atOnce * kLowBitBoxRows)
    k.when(item.column0 + int64_t(first) < rows, [&] {
      IndexBuilder::Scope scope(ix);
      for (auto [i, box] : llvm::enumerate(mm.results)) {
        auto output = getStridedOutput(results[i], mm.space);
        unsigned half = halves ? number % 2 : 0;
        unsigned count =
            std::min(atOnce, (tile.columns - first) / kLowBitBoxRows);
        assert(half * atOnce + count <= buffers && "boxes without a buffer");
        auto bufferOf = [&](unsigned at) {
          return k.at(area, (int64_t(half) * atOnce + at) * kLowBitBoxBytes);
        };
        // The boxes that left the half before are read: all but the last ones.
        k.when(leader, [&] { waitStores(k, number == 0 || !halves ? 0 : 1); });
        meet(k, consumer + 1, kWarpgroup);
        for (unsigned at = 0; at < count; ++at)
          writeBox(from, output->anchor, first + at * kLowBitBoxRows,
                   bufferOf(at));
        fenceForAsync(k);
        meet(k, consumer + 1, kWarpgroup);
        k.when(leader, [&] {
          for (unsigned at = 0; at < count; ++at)
            storeTile(k, f.maps[mm.resultMap() + i], bufferOf(at),
                      {firstRow,
                       item.column0 + (int64_t(first) + at * kLowBitBoxRows)});
          commitStores(k);
        });
        ++number;
      }
    });
}

void LowBitTemplate::sendBoxes(const Item &item, Val consumer,
                               const Sums &sums) {
  f.group().setWidth(1);
  unsigned blocks = mm.products() == 2 ? 1 : tile.blocks;
  for (unsigned block = 0; block < blocks; ++block)
    sendBlock(item, consumer, sums, block);
  f.group().setWidth(width);
}

/// Shared memory stays until the last boxes are read; that they have arrived is
/// the launch's end.
void LowBitTemplate::finishBoxes() {
  k.when(threadInGroup(k) == 0, [&] { waitStores(k, 0); });
}
