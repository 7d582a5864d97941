//===- LowBitTemplate.h - Products with packed weights ----------*- C++ -*-===//
//
// The template of LowBitMatmul.cpp; what becomes of its sums is in
// LowBitResults.cpp and LowBitBoxes.cpp, what makes lhs in LowBitNorm.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_LOWBITTEMPLATE_H
#define FUSION_LIB_CODEGEN_HOPPER_LOWBITTEMPLATE_H

#include "Epilogue.h"
#include "LowBitFormat.h"
#include "Pipeline.h"
#include "Wgmma.h"

#include "fusion/Kernels/LowBitMatmul.h"

namespace fusion::hopper {

/// The named barrier of the consumers while they make lhs.
constexpr int64_t kNormBarrier = 4;

class LowBitTemplate {
public:
  LowBitTemplate(KernelFunction &f, const kernels::LowBitMatmul &mm);
  void build();

private:
  /// One piece of work: a tile of the result, and a part of K.
  struct Item {
    Val row0, column0;      ///< of the weight, of lhs
    Val firstTurn, endTurn; ///< along K
    Val streamEnd;          ///< of the tile, in turns of the streamed tiles
  };
  using Sums = llvm::SmallVector<llvm::SmallVector<Val>, 2>;

  void start();
  void chooseTile();
  void eachTile(llvm::function_ref<void()> body);
  /// How the tiles are dealt to blocks: `waves` whole ones to each (or what
  /// there is); the turns of those that are left evenly, in one stream.
  struct Deal {
    Val tiles, columnTiles; ///< all; across lhs
    Val worker, workers;    ///< this block or cluster, all of them
    Val waves;              ///< whole tiles of this worker
    Val first;              ///< first streamed tile
    Val turns;              ///< of all streamed tiles
    Val begin, end;         ///< this worker's
    Val items;              ///< pieces of work
  };
  Deal deal();
  bool canStream() const { return mm.streams(tile); }
  Item itemAt(const Deal &d, Val number);

  // The ring. A turn takes one or two stages.
  unsigned turnStages() const { return kernels::kLowBitTurn / tile.depth(); }
  Barrier full(Val stage) { return {k, k.at(barriers(), stage << 3)}; }
  Barrier empty(Val stage) {
    return {k, k.at(barriers(), (stage << 3) + int64_t(8) * mm.stages(tile))};
  }
  Val barriers() { return k.dynamicShared(mm.barrierOffset(tile)); }
  Val stageAt(Val stage) {
    return k.at(k.dynamicShared(), stage * int64_t(mm.stageBytes(tile)));
  }
  Place advance(Place place, unsigned stages);
  Place advanceBy(Place place, Val stages);

  // The producer.
  void produce();
  void loadWeights(const Item &item, Val depth, Val stage);
  void loadLhs(const Item &item, Val depth, Val stage);
  Val isPart(const Item &item);
  void expectStage(const Item &item, Val stage);
  std::pair<Val, Place> loadAhead(const Deal &d);

  // The norm before the product.
  void normalise();
  void normaliseRow(Val row, Val thread, Val begin);
  Val loadPiece(Val row, Val number);
  Val rootOf(llvm::ArrayRef<Val> pieces, Val thread);
  void storePiece(Val row, Val number, Val piece, Val root);
  /// Of normalised rows: where a tile's turn is.
  Val normStage(Val columnTile, Val turn);
  Val runBegin();
  void awaitRows();

  // The consumers.
  void consume(Val consumer);
  Val sharer(Val consumer) { return tile.sharers > 1 ? consumer : k.i32(0); }
  Val rowGroup(Val consumer) { return tile.sharers > 1 ? k.i32(0) : consumer; }
  struct Turn {
    llvm::SmallVector<Val, 2> stages; ///< one, or one a half
    llvm::SmallVector<KernelBuilder::Vals, 4> words;
    /// Of each block, the group at hand and its number in the turn.
    llvm::SmallVector<LowBitFormat::Group, 2> factors;
    llvm::SmallVector<int64_t, 2> current;
  };
  Val codesAt(Val stage, unsigned block, Val consumer);
  Val pairAt(mlir::Type element, Val stage, unsigned block, Val consumer,
             unsigned index, int64_t offset);
  LowBitFormat::Group groupAt(Val stage, unsigned block, Val consumer,
                              unsigned index);
  void loadWords(Turn &turn, Val consumer);
  void loadGroups(Turn &turn, Val consumer);
  KernelBuilder::Vals decode(Turn &turn, unsigned half, unsigned block,
                             Val consumer);
  KernelBuilder::Vals scalesAt(Val stage, unsigned block, Val consumer);
  void issue(const Turn &turn, unsigned half, llvm::ArrayRef<Val> a, Val &sums,
             Wgmma::Start start);
  void release(Val stage, Val condition);
  /// What a turn leaves to the next one: sums of products that may be under
  /// way, and, where scales multiply sums, those scales and the totals.
  struct State {
    KernelBuilder::Vals sums, scales;
    llvm::SmallVector<KernelBuilder::Vals, 2> totals;
    KernelBuilder::Vals flat() const;
  };
  State stateOf(llvm::ArrayRef<Val> flat) const;
  void addTurn(State &state);
  void multiplyTurn(Turn &turn, Val consumer, State &state,
                    llvm::function_ref<void(unsigned)> afterWait);
  Sums multiply(const Item &item, Val consumer, Place &place);

  // Results.
  void storeSums(const Sums &sums, unsigned firstColumn, unsigned columns,
                 Val area, bool remote);
  void finish(Epilogue &epilogue, const Item &item, unsigned firstColumn,
              unsigned columns, Val firstThread, unsigned threads,
              llvm::function_ref<Val(unsigned, Val, Val, Val)> sumAt, Val group,
              unsigned groups, llvm::ArrayRef<Val> known);
  void storeChunks(Epilogue &epilogue, const Item &item, Val consumer,
                   const Sums &sums);
  void storeDivided(Epilogue &epilogue, const Item &item, Val consumer,
                    const Sums &sums);
  void sendBoxes(const Item &item, Val consumer, const Sums &sums);
  void sendBlock(const Item &item, Val consumer, const Sums &sums,
                 unsigned block);
  struct Fragments;
  void writeBox(Fragments &from, mlir::Value result, unsigned first, Val to);
  void finishBoxes();
  using Factors = llvm::SmallVector<Val, 2>;
  Val factorOf(const kernels::LowBitWeight &weight, Val n, unsigned width);
  Val firstRow(const Item &item, Val thread);
  Factors factorsOf(const Item &item, Val thread, Val group);

  // Tiles that several blocks have parts of.
  Val partAt(Val worker, Val consumer);
  Val flagAt(Val worker, Val consumer);
  void publish(const Deal &d, Val consumer, const Sums &sums);
  void awaitFlag(Val flag);
  Sums addOthers(const Deal &d, const Item &item, Val consumer,
                 const Sums &sums);

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  const kernels::LowBitMatmul &mm;
  llvm::SmallVector<LowBitFormat, 2> formats; ///< one a product, of the tile
  kernels::LowBitTile tile;                   ///< the one that is built
  bool scalesSums = false;                    ///< mm.scalesSums(tile)
  kernels::LowBitMatmul::TileMaps maps;
  Val chosen;         ///< its number
  Val rows;           ///< of lhs
  unsigned width = 1; ///< neighbouring results of a thread
  /// Whether weights, and lhs too, are fetched before the wait for the
  /// previous kernel: no kernel writes them.
  bool programmatic, weightsFirst, lhsFirst;
  bool normWaits = false; ///< what the norm reads, or who reads its sum
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_LOWBITTEMPLATE_H
