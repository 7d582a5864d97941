//===- AttentionPrefill.h - Template: flash attention with wgmma -*- C++
//-*-===//
//
// The state of the prefill template while it is built: AttentionPrefill.cpp has
// tiles, copies and products, PrefillSoftmax.cpp what is done to scores.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_ATTENTIONPREFILL_H
#define FUSION_LIB_CODEGEN_HOPPER_ATTENTIONPREFILL_H

#include "AttentionScores.h"
#include "KernelFunction.h"
#include "Pipeline.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "fusion/Kernels/CardAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fusion::hopper {

inline constexpr unsigned kConsumers = 2;
/// Threads of the producer's group beside its warp.
inline constexpr unsigned kHelpers = 96;

class PrefillTemplate {
public:
  PrefillTemplate(KernelFunction &f, const kernels::PrefillAttention &p)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), p(p), a(p.group),
        op(p.group.op), element(elementType(op.getKey())),
        depth(unsigned(p.group.depth)), scores(f, p.group),
        scoreProduct(k, p.blockKeys, element), sumProduct(k, depth, element) {}
  void build();

private:
  /// 64 or 128 rows of one or two heads, and the blocks of keys they see.
  struct Tile {
    Val batch, head, row;   ///< of its start
    Val firstBlock, blocks; ///< blocks - 1 ... 0 behind the first
    Val lastBlock() const { return firstBlock + blocks - 1; }
  };
  /// What a consumer carries from block to block.
  struct Sums {
    Val out;         ///< accumulator
    Vals weights;    ///< P, packed
    Vals top, total; ///< of rows l / 4 and l / 4 + 8
    Val count;       ///< blocks so far
  };
  /// The consumer's rows within the tile, and what they see.
  struct Half {
    Val head, row, myRow; ///< first row; this thread's first row
    Val begin[2], end[2]; ///< of keys, for the thread's two rows
  };

  void setUp();
  void waitForPrevious();
  bool queriesAreInvariant();
  Val tileOfRound(Val round);
  Tile decode(Val tile);
  Half halfOf(const Tile &tile);
  Half halfOf(const Tile &tile, Val which); ///< head and row alone
  void
  eachTile(Vals carried,
           llvm::function_ref<Vals(const Tile &, llvm::ArrayRef<Val>)> body);
  void produce();
  void copyBlock(bool keys, const Tile &tile, Val block, Val count);
  void consume(Val consumer);
  using Pieces = llvm::SmallVector<std::pair<Val, Val>>;
  void takePieces(const Tile &tile, const Half &half, Val base, Val number,
                  Pieces &pieces);
  void storePieces(const Pieces &pieces);
  void loadQueries(const Tile &tile, const Half &half, Val buffer);
  void fetchQueries(Val round);
  void clearBehind(Val valid, Val count, Val parity);
  void help();
  Val keyProduct(Val buffer, Val count);
  Val valueProduct(Val out, llvm::ArrayRef<Val> weights, Val count);
  void limit(llvm::MutableArrayRef<Val> s, const Tile &tile, const Half &half,
             Val block);
  Vals rowMaximum(llvm::ArrayRef<Val> s);
  void softmax(llvm::MutableArrayRef<Val> s, Sums &sums, Vals &factor);
  void exponentials(llvm::MutableArrayRef<Val> s, llvm::ArrayRef<Val> top,
                    Vals &sums);
  Val guard(llvm::SmallVectorImpl<Val> &s, Sums &sums, Vals &factor,
            Val buffer);
  Vals raise(llvm::ArrayRef<Val> s, const Sums &sums,
             llvm::ArrayRef<Val> blockSums);
  Vals again(const Sums &sums, Val buffer);
  llvm::SmallVector<Val> scoresAgain(Val buffer, Val count);
  Vals packWeights(llvm::ArrayRef<Val> s);
  Sums firstBlock(Val product, const Tile &tile, const Half &half, Val count);
  Sums step(Sums sums, const Tile &tile, const Half &half, Val block,
            Val buffer, bool masked);
  Sums runBlocks(Sums sums, const Tile &tile, const Half &half, Val buffer);
  void storeOut(Val out, Sums &sums, const Tile &tile, const Half &half);
  void storeRow(llvm::ArrayRef<Val> pieces, const Tile &tile, const Half &half,
                Val row);

  Vals flat(const Sums &s) const;
  Sums unflat(llvm::ArrayRef<Val> v) const;
  Val slot(Val count) { return count & 1; }
  Val parity(Val count) { return (count >> 1) & 1; }
  Barrier keyFull(Val count) { return barriers(0).at(k, slot(count)); }
  Barrier keyEmpty(Val count) { return barriers(1).at(k, slot(count)); }
  Barrier valueFull(Val count) { return barriers(2).at(k, slot(count)); }
  Barrier valueEmpty(Val count) { return barriers(3).at(k, slot(count)); }
  Barriers barriers(unsigned which) {
    return {k.dynamicShared(p.barriers + 16 * which)};
  }
  void release(Barrier barrier) {
    k.when(k.lane() == 0, [&] { barrier.arrive(); });
  }
  Val queryBase(Val buffer, Val which) {
    Val half =
        buffer * (int64_t(2) * p.halfBytes()) + which * int64_t(p.halfBytes());
    return k.at(k.dynamicShared(p.query), half);
  }
  /// Two buffers of queries in turn, which the producer's group fills from the
  /// second tile on; else consumers fill the one between tiles.
  bool alternates() const { return p.queryBuffers == 2; }
  Val bufferOf(Val round) { return alternates() ? round & 1 : k.i32(0); }
  Val parityOfFill(Val round) { return ((round - 1) >> 1) & 1; }
  /// Keys from the start of a block on.
  Val validKeys(Val block) { return keys - block * int64_t(p.blockKeys); }
  Barrier uncleared(Val count) { return barriers(6).at(k, slot(count)); }
  Barrier queryFull(Val round) { return barriers(4).at(k, bufferOf(round)); }
  Barrier queryEmpty(Val round) { return barriers(5).at(k, bufferOf(round)); }
  Val divide(Val x, Val y) {
    return k.wrap(mlir::arith::DivUIOp::create(k.builder(), mlir::Value(x),
                                               mlir::Value(y)));
  }
  Val divide(Val x, int64_t y) { return divide(x, k.i32(y)); }
  Val remainder(Val x, Val y) {
    return k.wrap(mlir::arith::RemUIOp::create(k.builder(), mlir::Value(x),
                                               mlir::Value(y)));
  }
  Val remainder(Val x, int64_t y) { return remainder(x, k.i32(y)); }
  Val max(Val x, Val y) {
    return k.wrap(mlir::arith::MaxSIOp::create(k.builder(), mlir::Value(x),
                                               mlir::Value(y)));
  }
  double factor() const { return p.general ? 1.0 : scores.factor(); }
  Val size(const SymExpr &e) { return k.toI32(k.wrap(ix.size(e))); }
  codegen::Index index(Val v) { return ix.index(mlir::Value(k.toIndex(v))); }

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  codegen::BodyEmitter &group;
  const kernels::PrefillAttention &p;
  const kernels::AttentionGroup &a;
  AttentionOp op;
  mlir::Type element;
  const unsigned depth;
  AttentionScores scores;
  Wgmma scoreProduct, sumProduct;

  Val rows, keys, headTiles, rowTiles, tiles, block, blocks;
  Val shared;   ///< address of the shared memory, in units of 16 bytes
  Val consumer; ///< number of the warp group
};

/// Row of the pair that register i of an accumulator belongs to, and its
/// column but for the lane's part.
constexpr unsigned rowOf(unsigned i) { return i >> 1 & 1; }
constexpr unsigned columnOf(unsigned i) { return (i >> 2) * 8 + (i & 1); }

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_ATTENTIONPREFILL_H
