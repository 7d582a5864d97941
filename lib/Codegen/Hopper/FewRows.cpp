//===- FewRows.cpp - Template: products of 2 to 16 rows -------------------===//
//
// Large weights are streamed once past mma.sync, of which they are the wide
// side; lhs stays in registers (kernels::FewRows). Every warp has columns of
// its own, of which it copies 16 rows of weights at a time into a ring of its
// own, in pieces of 256 bytes: whole rows of weights are under way together. No
// warp waits for another until 16 rows are done; then their sums meet in shared
// memory, and one warp for each 8 rows of lhs adds them up, in order, while the
// others go on: the epilogue.
//
// A fragment of weights or lhs is plain 16-byte reads of its rows: the
// contracted index is permuted alike on both sides. Lane 4 g + t has columns
// 8 t to 8 t + 7 of 32, of rows g (and g + 8). In shared memory odd rows have
// their halves of 128 bytes exchanged, so that no two lanes meet in a bank.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"
#include "WarpMma.h"
#include "Warpgroup.h"

#include "fusion/Kernels/SkinnyShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using namespace fusion::kernels;

namespace {

class RowsTemplate {
public:
  RowsTemplate(KernelFunction &f, const FewRows &shape)
      : f(f), k(f.k), ix(f.ix()), shape(shape), mm(shape.product),
        element(elementType(MatmulOp(mm.products[0]).getLhs())),
        epilogue(f, mm.space), programmatic(isProgrammatic(f.kernel)) {
    EarlyLoads early = getEarlyLoads(f.kernel, mm);
    weightsFirst = early.weights;
    lhsFirst = early.lhs;
  }
  void build();

private:
  void copy(Val strip, int64_t piece, Val slot);
  void stream();
  void loadLhs();
  void multiplyPiece(Val slot, int64_t piece, Vals &sums);
  Val sumsAt(Val strip, Val tile, Val warp, Val lane);
  void finish(Val strip, Val tile);
  void storeResult(Val row, Val column, ArrayRef<Val> sums);
  Val elementPointer(const MatmulOperand &operand, Val row, Val column);

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  const FewRows &shape;
  const WgmmaMatmul &mm;
  Type element;
  Epilogue epilogue;
  bool programmatic;
  /// What no kernel of the step writes is loaded before the wait.
  bool weightsFirst, lhsFirst;

  Val rows;                  ///< of lhs
  Val first, end, strips;    ///< columns of results of the block
  Val warp, lane, high, low; ///< lane / 4, lane % 4
  Val copyPlace;             ///< of the lane's copies in a slot, 32 bits
  Val ring;                  ///< of the warp
  Vals bases;                ///< of the weights, for each lane
  /// Words of lhs: [piece][step][tile][4].
  Vals lhs;
};

} // namespace

Val RowsTemplate::elementPointer(const MatmulOperand &operand, Val row,
                                 Val column) {
  Val at = k.toI64(row) * k.toI64(k.wrap(ix.size(operand.stride))) +
           k.toI64(column) + k.toI64(k.wrap(ix.size(operand.offset)));
  return k.at(f.target->pointers[operand.argument], at * 2);
}

/// A piece of a strip's rows into a slot of the warp's ring; zeros for rows
/// past the block's. Half a warp has a row.
void RowsTemplate::copy(Val strip, int64_t piece, Val slot) {
  int64_t columns = shape.columns();
  // Computed anew for each piece: addresses of all rows would fill registers.
  Val number = opaque(k, strip), place = opaque(k, copyPlace);
  Val to = slot + place;
  Val left = end - first - number * columns - (lane >> 4);
  for (unsigned weight = 0; weight < mm.rhs.size(); ++weight) {
    int64_t pitch = *mm.rhs[weight].stride.asConstant() * 2;
    Val from = k.toInteger(bases[weight]) + k.toI64(number) * (columns * pitch);
    for (int64_t row = 0; row < columns; row += 2) {
      Val exists = k.i32(row) < left;
      auto shift = [](int64_t bytes) { return std::to_string(bytes); };
      std::string text =
          "cp.async.cg.shared.global [$0 + " +
          shift((weight * columns + row) * FewRows::kRowBytes) + "], [$1 + " +
          shift(row * pitch + piece * FewRows::kRowBytes) + "], 16, $2;";
      ptx(k, {}, text, "r,l,r",
          {to, from, k.select(exists, k.i32(16), k.i32(0))});
    }
  }
  ptx(k, {}, "cp.async.commit_group;", "", {});
}

/// Rows that do not exist are the last one.
void RowsTemplate::loadLhs() {
  Type words = VectorType::get({4}, k.builder().getI32Type());
  Vals rowsOfLhs;
  for (unsigned tile = 0; tile < shape.tiles(); ++tile) {
    Val row = k.min(high + int64_t(8) * tile, rows - 1);
    rowsOfLhs.push_back(
        elementPointer(mm.lhs, row, warp * shape.warpColumns() + low * 8));
  }
  for (int64_t piece = 0; piece < shape.pieces(); ++piece)
    for (unsigned step = 0; step < FewRows::steps(); ++step)
      for (unsigned tile = 0; tile < shape.tiles(); ++tile) {
        int64_t column =
            piece * FewRows::kColumns + int64_t(step) * FewRows::kStepColumns;
        Val loaded = k.load(k.at(rowsOfLhs[tile], 2 * column), k.i32(0), words,
                            {16, false});
        for (unsigned i = 0; i < 4; ++i)
          lhs.push_back(k.extract(loaded, i));
      }
}

/// sums: [tile][4].
void RowsTemplate::multiplyPiece(Val slot, int64_t piece, Vals &sums) {
  Val at = k.at(ring, slot + high * int64_t(FewRows::kRowBytes) + low * 16);
  Val odd = (high & 1) << 6;
  for (unsigned step = 0; step < FewRows::steps(); ++step) {
    Vals halves[2];
    for (unsigned half = 0; half < 2; ++half) {
      int64_t offset =
          int64_t(step / 2) * 128 + int64_t(half) * 8 * FewRows::kRowBytes;
      Val exchanged = step % 2 ? k.i32(64) - odd : odd;
      Val loaded = k.loadVolatile(k.at(k.at(at, exchanged), offset), k.i32(0),
                                  k.vectorType(4, 32));
      for (unsigned i = 0; i < 4; ++i)
        halves[half].push_back(k.extract(loaded, i));
    }
    for (unsigned tile = 0; tile < shape.tiles(); ++tile) {
      const Val *x =
          lhs.data() +
          ((piece * FewRows::steps() + step) * shape.tiles() + tile) * 4;
      for (unsigned i = 0; i < 4; i += 2) {
        Vals next = mma16x8x16(
            k, element, ArrayRef<Val>(sums).slice(4 * tile, 4),
            {halves[0][i], halves[1][i], halves[0][i + 1], halves[1][i + 1]},
            x[i], x[i + 1]);
        std::copy(next.begin(), next.end(), sums.begin() + 4 * tile);
      }
    }
  }
}

/// Where a lane's sums of a warp lie.
Val RowsTemplate::sumsAt(Val strip, Val tile, Val of, Val lane) {
  Val at = (strip & 1) * int64_t(shape.sumBytes()) +
           (tile * int64_t(FewRows::kWarps) + of) * int64_t(32 * 16) +
           lane * 16;
  return k.at(k.dynamicShared(shape.sumOffset()), at);
}

/// Sums of the products at a row of lhs and a column of results.
void RowsTemplate::storeResult(Val row, Val column, ArrayRef<Val> sums) {
  ix.when(row < rows && column < end, [&] {
    Indices at = *ix.delinearize(ix.index(Value(k.toIndex(row))),
                                 ArrayRef(mm.space).drop_back(), 1);
    at.push_back(ix.index(Value(k.toIndex(column))));
    SmallVector<Epilogue::Element> elements;
    for (auto [p, product] : llvm::enumerate(mm.products))
      elements.push_back({MatmulOp(product).getResult(), sums[p]});
    epilogue.store(at, elements);
  });
}

/// By one warp: adds up the sums of a strip for 8 rows of lhs.
void RowsTemplate::finish(Val strip, Val tile) {
  Type four = VectorType::get({4}, k.f32(0).type());
  // What follows from the lane is not kept through the loop over strips.
  Val own = opaque(k, lane);
  // Few loads at a time: registers are full of lhs.
  constexpr unsigned kAtOnce = 4;
  Vals total = k.loop(k.i32(0), k.i32(FewRows::kWarps), k.i32(kAtOnce),
                      Vals(4, k.f32(0)), [&](Val w, ArrayRef<Val> carried) {
                        Vals next(carried.begin(), carried.end());
                        for (unsigned i = 0; i < kAtOnce; ++i) {
                          Val part =
                              k.load(sumsAt(strip, tile, w + int64_t(i), own),
                                     k.i32(0), four, {16, false});
                          for (unsigned j = 0; j < 4; ++j)
                            next[j] = next[j] + k.extract(part, j);
                        }
                        return next;
                      });
  if (lhsFirst)
    k.waitForPrevious();
  f.group().setWidth(1);
  Val column = opaque(k, first) + strip * int64_t(shape.columns()) + (own >> 2);
  for (unsigned i = 0; i < 2; ++i) {
    Val row = tile * 8 + ((own & 3) << 1) + int64_t(i);
    if (mm.products.size() == 2) {
      storeResult(row, column, {total[i], total[2 + i]});
      continue;
    }
    storeResult(row, column, {total[i]});
    storeResult(row, column + 8, {total[2 + i]});
  }
}

void RowsTemplate::stream() {
  unsigned tiles = shape.tiles();
  int64_t pieces = shape.pieces(), ahead = FewRows::kStages - 1;
  int64_t slotBytes = FewRows::kSlotBytes;
  k.loop(k.i32(0), strips, k.i32(1), {k.i32(0), k.i32(ahead * slotBytes)},
         [&](Val strip, ArrayRef<Val> carried) {
           IndexBuilder::Scope scope(ix);
           Val slot = carried[0], before = carried[1];
           Vals sums(4 * tiles, k.f32(0));
           for (int64_t piece = 0; piece < pieces; ++piece) {
             ptx(k, {},
                 "cp.async.wait_group " + std::to_string(ahead - 1) + ";", "",
                 {});
             // All lanes' copies are there, and all have read the slot before.
             syncWarp(k);
             copy(strip + (piece + ahead) / pieces, (piece + ahead) % pieces,
                  before);
             multiplyPiece(slot, piece, sums);
             before = slot;
             Val next = slot + slotBytes;
             slot = k.select(next == int64_t(FewRows::kStages) * slotBytes,
                             k.i32(0), next);
           }
           for (unsigned tile = 0; tile < tiles; ++tile)
             k.store(k.vector(ArrayRef<Val>(sums).slice(4 * tile, 4)),
                     sumsAt(strip, k.i32(tile), warp, lane), k.i32(0),
                     {16, false});
           // Of this strip all sums are there, and those of the one before the
           // last have been read.
           k.barrier();
           // Strips take turns with the warps.
           Val tile =
               (warp - strip * int64_t(tiles)) & int64_t(FewRows::kWarps - 1);
           k.when(tile < int64_t(tiles), [&] {
             IndexBuilder::Scope inner(ix);
             finish(strip, tile);
           });
           return Vals{slot, before};
         });
}

void RowsTemplate::build() {
  if (programmatic)
    k.releaseNext();
  rows = k.toI32(k.wrap(ix.size(mm.m)));
  first = k.block() * mm.n / int64_t(shape.blocks());
  end = (k.block() + 1) * mm.n / int64_t(shape.blocks());
  int64_t columns = shape.columns();
  strips = (end - first + (columns - 1)) / columns;
  warp = uniform(k, k.warp());
  lane = k.lane();
  high = lane >> 2;
  low = lane & 3;
  ring = k.at(k.dynamicShared(),
              warp * int64_t(FewRows::kStages) * FewRows::kSlotBytes);
  Val half = lane >> 4, chunk = lane & 15;
  copyPlace = sharedAddress(k, ring) + half * int64_t(FewRows::kRowBytes) +
              ((chunk ^ (half << 2)) << 4);
  for (const MatmulOperand &o : mm.rhs)
    bases.push_back(elementPointer(o, first + half,
                                   warp * shape.warpColumns() + chunk * 8));
  if (programmatic && !weightsFirst)
    k.waitForPrevious();
  for (int64_t use = 0; use + 1 < int64_t(FewRows::kStages); ++use)
    copy(k.i32(use / shape.pieces()), use % shape.pieces(),
         k.i32(use * FewRows::kSlotBytes));
  if (weightsFirst && !lhsFirst)
    k.waitForPrevious();
  loadLhs();
  stream();
}

void hopper::buildFewRows(KernelFunction &f) {
  auto shape = takeShape(f, getFewRows);
  if (!shape)
    return;
  auto fast = [&] { RowsTemplate(f, *shape).build(); };
  auto slow = [&] {
    waitIfProgrammatic(f);
    SmallVector<unsigned> results;
    for (unsigned i = 0; i < f.kernel.getYield().getNumOperands(); ++i)
      results.push_back(i);
    emitPulled(f, results, 1);
  };
  f.whenAligned(fast, slow);
}
