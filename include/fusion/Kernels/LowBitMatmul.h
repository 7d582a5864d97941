//===- LowBitMatmul.h - Products with packed weights ------------*- C++ -*-===//
//
// Which products of several rows the register-A template takes, and how it cuts
// them into tiles. Operands are swapped: rows of the weight are the 64 rows of
// a wgmma, decoded in registers (LowBit.h, "fragments"); rows of lhs are its
// columns. A block has a producer and two consumer warp groups; its tile is
// `blocks` times 64 rows of the weight for each warp group, or for both of
// them together, which then take turns along K. Blocks of a cluster divide K
// as well; sums meet in shared memory, always in one order.
//
// One function holds a few tile widths; which one runs follows from the rows
// that the launch really has, by a table made at compile time from a model.
//
// Of few rows, lhs may be the RMS norm of what lies in memory, or of a sum. The
// first blocks compute a row each while their weights are fetched, and leave it
// in memory of the launch's own, in the order of shared memory; a counter tells
// all blocks when lhs is there.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_LOWBITMATMUL_H
#define FUSION_KERNELS_LOWBITMATMUL_H

#include "fusion/Kernels/LowBit.h"
#include "fusion/Kernels/WgmmaMatmul.h"

namespace fusion::kernels {

constexpr unsigned kLowBitConsumers = 2;
constexpr unsigned kLowBitThreads = 128 * (1 + kLowBitConsumers);
/// What the sums of a streamed tile cost, in turns of the main loop.
constexpr int64_t kStreamTurns = 10;
/// Rows of lhs of a box of results, and its bytes: 64 columns of 16 bits.
constexpr unsigned kLowBitBoxRows = 32, kLowBitBoxBytes = kLowBitBoxRows * 128;
/// Columns of K of one turn of the main loop: an even number of batches.
constexpr unsigned kLowBitTurn = 128;

/// A tile: rows of the weight (of both of a gated product together) by rows of
/// lhs.
struct LowBitTile {
  unsigned columns = 64; ///< rows of lhs: 8 to 256
  unsigned blocks = 2;   ///< of 64 rows that a warp group has
  unsigned sharers = 1;  ///< warp groups that share rows and take turns along K
  unsigned cluster = 1;  ///< blocks that share rows and divide K
  /// Blocks that a multiprocessor has registers and shared memory for. With
  /// two, blocks of the next kernel fetch weights while this one ends.
  unsigned resident = 1;
  unsigned rows() const { return 64 * blocks * (kLowBitConsumers / sharers); }
  /// Columns of K of a stage.
  unsigned depth() const { return columns <= 64 ? 128 : 64; }
  bool divides() const { return sharers > 1 || cluster > 1; }
  bool operator==(const LowBitTile &o) const {
    return columns == o.columns && blocks == o.blocks && sharers == o.sharers &&
           cluster == o.cluster;
  }
};

/// Whether one multiply-add makes the scaled value of a code: the zero point
/// times the scale is exact in the product's type.
bool scalesInOneStep(const LowBitWeight &weight, mlir::Type element);

/// Rows of lhs up to which a product takes the norm before it, and columns.
constexpr int64_t kLowBitNormRows = 64, kLowBitNormColumns = 1 << 14;

/// What makes lhs of its operand within the launch.
struct LowBitNorm {
  RmsNormOp op;
  mlir::BlockArgument weight; ///< of k elements; null: none
  AddOp sum;                  ///< what is normalised; null: the operand itself
  std::optional<MatmulOperand> addend;
  /// The kernel's result that the sum leaves as.
  std::optional<unsigned> result;
};

/// What the model needs to know of a product.
struct LowBitProblem {
  int64_t n = 0, k = 0; ///< n: rows of the weights, of both of a gated product
  unsigned products = 1;
  double bits = 4.25; ///< a weight's, scales included
  double decode = 1; ///< instructions of the decode, relative to symmetric int4
  bool norm = false; ///< lhs is made within the launch
  bool sent = false; ///< results may leave as boxes
};
/// Microseconds by the model.
double lowBitTime(const LowBitProblem &problem, int64_t rows,
                  const LowBitTile &tile);

/// Tiles by the launch's rows: entry i is for [firstRow, next entry's).
struct LowBitPlanEntry {
  int64_t firstRow = 1;
  unsigned tile = 0; ///< index into tiles
};
struct LowBitPlan {
  llvm::SmallVector<LowBitTile, 4> tiles;
  std::vector<LowBitPlanEntry> entries;
  /// What a launch with so many rows runs.
  LowBitTile tileAt(int64_t rows) const;
};
/// All tiles of a plan have one size of clusters and of resident blocks: at
/// most `mostResident`.
LowBitPlan planLowBit(const LowBitProblem &problem, int64_t minRows,
                      int64_t maxRows, unsigned mostResident);

struct LowBitMatmul {
  llvm::SmallVector<LowBitWeight, 2> weights; ///< one a product
  SymShape space;                             ///< of the products: .., M, N
  SymExpr m;
  int64_t n = 0, k = 0; ///< n: of one product
  int64_t mostRows = 0; ///< of m
  MatmulOperand lhs;
  std::optional<LowBitNorm> norm;
  mlir::Type element; ///< of the products' operands
  /// Scales change along K: they are decoded with the codes. Else they are
  /// applied to the sums.
  bool scaled = false;
  /// One a result where all of them can leave by boxes and nothing but the
  /// products goes into them; else empty.
  std::vector<ResultBox> results;
  LowBitProblem problem;
  LowBitPlan plan;

  unsigned products() const { return unsigned(weights.size()); }
  unsigned cluster() const { return plan.tiles[0].cluster; }
  unsigned resident() const { return plan.tiles[0].resident; }
  /// Rows of each product that a tile has.
  unsigned productRows(const LowBitTile &t) const {
    return t.rows() / products();
  }
  int64_t rowTiles(const LowBitTile &t) const {
    return llvm::divideCeil(n, int64_t(productRows(t)));
  }
  int64_t turns() const { return llvm::divideCeil(k, int64_t(kLowBitTurn)); }
  /// Scales of a row in a stage.
  unsigned stageGroups(const LowBitTile &t) const;

  /// Scales multiply the sums of each turn, not the fragments: fewer
  /// instructions where columns are few.
  bool scalesSums(const LowBitTile &t) const;

  // A stage: lhs, then of each product codes, scales and zero points.
  /// Rows of lhs that one copy brings: all of a full tile, or few of a tile
  /// that has less of them. Rows past the end are slow to copy.
  unsigned boxRows(const LowBitTile &t) const;
  unsigned partRows(const LowBitTile &t) const {
    return std::min(boxRows(t), t.columns > 128 ? 16u : 8u);
  }
  unsigned lhsBytes(const LowBitTile &t) const;
  unsigned codeBytes(const LowBitTile &t) const;
  unsigned scaleBytes(const LowBitTile &t) const;
  unsigned zeroBytes(const LowBitTile &t) const;
  unsigned productBytes(const LowBitTile &t) const;
  /// Bytes of weights that are copied into a stage, and those it takes.
  unsigned filledBytes(const LowBitTile &t) const;
  unsigned stageBytes(const LowBitTile &t) const;
  unsigned stages(const LowBitTile &t) const;

  /// Sums on their way to results, in fp32: a chunk of a warp group, or all
  /// those of the blocks and warp groups that divide K. Floats between
  /// neighbouring rows of lhs: no bank conflicts.
  unsigned chunkColumns(const LowBitTile &t) const;
  /// Whether results leave as boxes, in 16 bits, instead.
  bool sends(const LowBitTile &t) const {
    return !results.empty() && !t.divides() && t.columns >= kLowBitBoxRows;
  }
  /// How many a warp group has of a tile, and has room for: all, or two halves
  /// that take turns.
  unsigned tileBoxes(const LowBitTile &t) const;
  unsigned sendBuffers(const LowBitTile &t) const;
  unsigned sumStride(const LowBitTile &t) const { return 64 / t.cluster + 4; }
  unsigned areaBytes(const LowBitTile &t) const;
  unsigned sumsBytes(const LowBitTile &t) const;

  unsigned barrierOffset(const LowBitTile &t) const;
  unsigned sharedBytes() const;
  int64_t gridBlocks() const;
  /// Whether the last tiles may be dealt to blocks turn by turn: wide tiles of
  /// more rows than one wave has.
  bool streams(const LowBitTile &t) const;
  int64_t workspaceBytes() const;
  /// Where normalised rows begin behind the counters.
  static constexpr int64_t kNormOffset = 128;
  unsigned counterBytes() const;

  /// Tensor maps, each once; where those of a tile are.
  struct TileMaps {
    unsigned lhs = 0, lhsPart = 0; ///< but where a norm makes lhs
    llvm::SmallVector<unsigned, 2> codes, scales, zeros;
  };
  std::vector<artifact::TensorMap> maps() const;
  TileMaps mapsOf(unsigned tile) const;
  /// Where those of results begin: the last ones.
  unsigned resultMap() const;

private:
  std::pair<std::vector<artifact::TensorMap>, std::vector<TileMaps>>
  allMaps() const;
};

/// Nullopt, with a reason, when the template does not take the kernel. Two
/// resident blocks may turn out to have too few registers.
std::optional<LowBitMatmul>
getLowBitMatmul(KernelOp kernel, unsigned mostResident, std::string &reason);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_LOWBITMATMUL_H
