//===- LowBitNorm.cpp - The norm before a product, in its launch ----------===//
//
// The consumers of the first blocks have nothing to do while the first weights
// are fetched. They take a row of lhs each: its pieces of eight elements are in
// registers, so that it is read once; normalised, they go to memory of the
// launch's own, in the order that stages have in shared memory (a tile of lhs
// by 128 columns is one bulk copy, halves of 64 columns after each other, rows
// of 128 bytes permuted as wgmma wants them). Columns past the end stay zero,
// as the session left them.
//
// A counter of finished rows, above it the number of the run, tells the
// producers of all blocks.
//
// Measured on an H200, 16 rows, int4, 4096 to twice 14336: 16.6 us where no
// kernel writes what is normalised (the product alone 16.0), 20.6 us in a
// chain, as with the norm in a launch of its own (20.5); 64 rows 30.9 (31.2).
// Warps that normalised the stages of each block on their way took 20.7
// and 36.5: a product of few rows is bound by instructions.
//
//===----------------------------------------------------------------------===//

#include "LowBitTemplate.h"
#include "WarpMma.h"
#include "Warpgroup.h"

#include "fusion/Artifact/HostABI.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

static constexpr int64_t kPiece = 8;
static constexpr unsigned kNormThreads = kLowBitConsumers * kWarpgroup;

/// Orders global memory between ordinary accesses and bulk copies.
static void fenceGlobalForAsync(KernelBuilder &k) {
  ptx(k, {}, "fence.proxy.async;", "", {});
}

/// A piece of a row as the norm reads it, of a sum rounded as the graph does.
Val LowBitTemplate::loadPiece(Val row, Val number) {
  Type type = VectorType::get({kPiece}, mm.element);
  auto load = [&](const MatmulOperand &o) {
    Val at = k.toI64(row) * *o.stride.asConstant() + *o.offset.asConstant() +
             k.toI64(number * kPiece);
    return k.load(f.target->pointers[o.argument], at, type, {16, false});
  };
  Val piece = load(mm.lhs);
  if (!mm.norm->addend)
    return piece;
  Val sum =
      k.round(k.extend(piece) + k.extend(load(*mm.norm->addend)), mm.element);
  if (mm.norm->result) {
    unsigned argument = f.kernel.getBlock()->getNumArguments();
    Val at = k.toI64(row) * mm.k + k.toI64(number * kPiece);
    k.store(sum, f.target->pointers[argument + *mm.norm->result], at,
            {16, false});
  }
  return sum;
}

/// 1 / sqrt(mean + epsilon) of the row that the threads have pieces of, added
/// in one order.
Val LowBitTemplate::rootOf(ArrayRef<Val> pieces, Val thread) {
  auto add = [](Val a, Val b) { return a + b; };
  Val sum;
  for (Val piece : pieces) {
    Val x = k.extend(piece), part = k.reduceLanes(x * x, add);
    sum = sum ? sum + part : part;
  }
  sum = k.reduce({sum}, 32, [](ArrayRef<Val> a, ArrayRef<Val> b) {
    return KernelBuilder::Vals{a[0] + b[0]};
  })[0];
  // Nobody has sums of products yet.
  Val area = k.dynamicShared(mm.stages(tile) * mm.stageBytes(tile));
  k.when(k.lane() == 0, [&] { k.store(sum, area, thread >> 5, {4, false}); });
  meet(k, k.i32(kNormBarrier), kNormThreads);
  Val total;
  for (unsigned warp = 0; warp < kNormThreads / 32; ++warp) {
    Val part = k.load(area, k.i32(warp), sum.type(), {4, false});
    total = total ? total + part : part;
  }
  RmsNormOp op = mm.norm->op;
  Val mean = fma(k, total, k.f32(1.0 / double(mm.k)),
                 k.f32(op.getEpsilon().convertToDouble()));
  return purePtx(k, {mean.type()}, "rsqrt.approx.f32 $0, $1;", "=f,f",
                 {mean})[0];
}

Val LowBitTemplate::normStage(Val columnTile, Val turn) {
  Val stage = columnTile * mm.turns() + turn;
  return k.at(f.counters, k.toI64(stage) * int64_t(mm.lhsBytes(tile)) +
                              LowBitMatmul::kNormOffset);
}

void LowBitTemplate::storePiece(Val row, Val number, Val piece, Val root) {
  Val y = k.extend(piece) * k.splat(root, kPiece);
  if (mm.norm->weight) {
    Type type = VectorType::get({kPiece}, mm.element);
    y = y * k.extend(k.load(f.target->pointers[mm.norm->weight.getArgNumber()],
                            k.toI64(number * kPiece), type, {16, false}));
  }
  int64_t columns = tile.columns;
  Val inTile = row % columns;
  Val at = ((number >> 3) & 1) * (columns * kTileRowBytes) +
           inTile * kTileRowBytes + (((number & 7) ^ (inTile & 7)) << 4);
  Val stage = normStage(row / columns, number >> 4);
  k.store(k.round(y, mm.element), k.at(stage, k.toI64(at)), k.i64(0),
          {16, false});
}

void LowBitTemplate::normaliseRow(Val row, Val thread, Val begin) {
  int64_t pieces = mm.k / kPiece;
  KernelBuilder::Vals mine;
  SmallVector<Val> numbers;
  Type type = VectorType::get({kPiece}, mm.element);
  for (int64_t first = 0; first < pieces; first += kNormThreads) {
    Val number = thread + first;
    bool all = first + int64_t(kNormThreads) <= pieces;
    auto load = [&] { return KernelBuilder::Vals{loadPiece(row, number)}; };
    mine.push_back(all ? load()[0] : k.choose(number < pieces, load, [&] {
      return KernelBuilder::Vals{k.constant(type, 0)};
    })[0]);
    numbers.push_back(number);
  }
  Val root = rootOf(mine, thread);
  for (auto [number, piece] : llvm::zip(numbers, mine)) {
    auto store = [&, number = number, piece = piece] {
      storePiece(row, number, piece, root);
    };
    k.when(number < pieces, store);
  }
  fenceGlobalForAsync(k);
  fenceDevice(k);
  meet(k, k.i32(kNormBarrier), kNormThreads);
  // From what an earlier run left to this run's, then one more.
  k.when(thread == 0, [&] {
    ptx(k, {},
        "red.relaxed.gpu.global.max.u64 [$0], $1; "
        "red.release.gpu.global.add.u64 [$0], $2;",
        "l,l,l", {f.counters, begin, k.i64(1)});
  });
}

/// What the counter starts from in this run.
Val LowBitTemplate::runBegin() {
  return k.load(f.sizes, k.i64(f.kernel.getNumSizes()),
                k.builder().getI64Type(), {8, true})
         << 32;
}

/// By the consumers of all blocks.
void LowBitTemplate::normalise() {
  Val thread = k.thread() - int64_t(kWarpgroup);
  k.when(k.block() < rows, [&] {
    IndexBuilder::Scope scope(ix);
    if (normWaits)
      k.waitForPrevious();
    Val begin = runBegin();
    k.loop(k.block(), rows, k.blocks(), [&](Val row) {
      IndexBuilder::Scope inner(ix);
      normaliseRow(row, thread, begin);
    });
  });
}

/// By one thread, before the first copy of lhs. A counter that stays behind for
/// seconds stops the wait, and is reported.
void LowBitTemplate::awaitRows() {
  constexpr int64_t kPatience = 1 << 24;
  Val all = runBegin() + k.toI64(rows);
  auto read = [&] {
    return ptx(k, {k.builder().getI64Type()},
               "ld.acquire.gpu.global.u64 $0, [$1];", "=l,l", {f.counters})[0];
  };
  KernelBuilder::Vals found = whileLoop(
      k, {read(), k.i32(0)},
      [&](ArrayRef<Val> v) { return v[0] < all && v[1] < k.i32(kPatience); },
      [&](ArrayRef<Val> v) { return KernelBuilder::Vals{read(), v[1] + 1}; });
  k.when(found[0] < all, [&] {
    k.store(k.i32(kHostStalled), f.target->status, k.i64(0), {4, false});
  });
  fenceGlobalForAsync(k);
}
