//===- WgmmaMatmul.h - Products on the tensor cores -------------*- C++ -*-===//
//
// Which matrix products the tensor-core template takes, how it reads their
// operands (tensor maps), and how it cuts the result into tiles: persistent
// blocks of a producer and two consumer warp groups, each of which holds 64
// rows of a tile of 128. One function holds a few tile widths; which one runs,
// and into how many parts the contracted axis is split, follows from the rows
// that the launch really has, by a table made at compile time from a model of
// waves.
//
// Operands: 16-bit floats whose rows lie 16 bytes apart or a multiple of it,
// contiguous along K or along the other axis. Pointers are 16-byte aligned.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_WGMMAMATMUL_H
#define FUSION_KERNELS_WGMMAMATMUL_H

#include "fusion/Artifact/Model.h"
#include "fusion/Kernels/KernelShape.h"
#include "fusion/Kernels/WgmmaLayout.h"

namespace fusion::kernels {

/// Multiprocessors of an H100 or H200 (SXM).
constexpr unsigned kCardMultiprocessors = 132;

/// A tile of results, 128 rows high.
struct MatmulTile {
  unsigned columns = 256;
  unsigned cluster = 1; ///< blocks that share the contracted axis
  unsigned stages() const;
  unsigned stageBytes() const;
  /// Of one consumer.
  unsigned stagingBytes() const;
  /// Registers of an accumulator.
  unsigned registers() const { return columns / 2; }
};
constexpr unsigned kMatmulTileRows = 128, kMatmulConsumers = 2;
constexpr unsigned kMatmulThreads = 128 * (1 + kMatmulConsumers);
/// Rows of tiles that follow each other in one column of tiles.
constexpr unsigned kMatmulRasterRows = 16;
/// Bytes of a chunk of results on its way out: 64 rows of 64 16-bit values.
/// Each consumer has two; in a cluster, the other blocks' sums come here.
constexpr unsigned kStagingBytes = 8192;

/// How a launch with so many rows of tiles is run.
struct MatmulSchedule {
  unsigned columns = 256; ///< of a tile
  unsigned splits = 1;    ///< parts of the contracted axis
  /// The parts are a cluster of blocks, which exchange their sums through
  /// shared memory; else through the workspace.
  bool clustered = false;
  bool operator==(const MatmulSchedule &o) const {
    return columns == o.columns && splits == o.splits &&
           clustered == o.clustered;
  }
};

/// What a launch costs, in microseconds, by the model.
struct MatmulProblem {
  int64_t n = 0, k = 0; ///< n: columns of B (of both products of a gated one)
  int64_t batch = 1;
  unsigned products = 1; ///< that share a tile of B
  unsigned multiprocessors = kCardMultiprocessors;
};
double matmulTime(const MatmulProblem &problem, int64_t rowTiles,
                  const MatmulSchedule &schedule);

/// The schedule of each number of row tiles: entry i is for [first, next
/// entry's first). Parts are clustered where all launches have equally many row
/// tiles, since a launch has one size of clusters.
struct MatmulPlanEntry {
  int64_t firstRowTiles = 1;
  MatmulSchedule schedule;
};
/// For launches with `minRows` to `maxRows` rows. `widths` are the allowed
/// columns of a tile, `maySplit` whether the contracted axis can be split.
std::vector<MatmulPlanEntry> planMatmul(const MatmulProblem &problem,
                                        int64_t minRows, int64_t maxRows,
                                        llvm::ArrayRef<unsigned> widths,
                                        bool maySplit);

/// A matrix (or a batch of them) as tensor maps read it.
struct MatmulOperand {
  unsigned argument = 0;
  Major major = Major::K;
  SymExpr offset; ///< elements
  SymExpr stride; ///< elements between rows of the tensor map
  llvm::SmallVector<unsigned>
      batchAxes;         ///< of the products' space, outer first
  SymShape batchStrides; ///< elements, of those
};

/// The last two axes of a view as a tensor map reads them; `rows` is the axis
/// of m or n, `depth` that of k. With `flat`, all leading axes are rows.
std::optional<MatmulOperand> getMatmulOperand(mlir::Value value,
                                              const SymExpr &rows,
                                              int64_t depth, bool transposed,
                                              bool flat, unsigned spaceRank,
                                              std::string &reason);

/// A 16-bit result in row-major order, as boxes leave shared memory for it: 64
/// columns of a consumer's rows. (Boxes of the 16 rows that one warp holds made
/// products 1.5 % slower.)
struct ResultBox {
  artifact::TensorMap map;
  llvm::SmallVector<unsigned>
      batchAxes; ///< of the products' space, outer first
};
constexpr unsigned kResultBoxColumns = 64;

struct WgmmaMatmul {
  llvm::SmallVector<MatmulOp, 2> products;
  SymShape space; ///< of the products: batch.., M, N
  bool flat = true;
  SymExpr m, batch;
  int64_t n = 0, k = 0;
  MatmulOperand lhs;
  llvm::SmallVector<MatmulOperand, 2> rhs;
  /// Rows of lhs that one box of a tensor map holds. It ends with the most rows
  /// that there are: boxes that lie outside their tensor are slow, and what a
  /// tile's further rows hold does not matter.
  unsigned boxRows = kMatmulTileRows;
  /// One a result where all of them can leave by boxes; else empty.
  std::vector<ResultBox> results;
  MatmulProblem problem;
  std::vector<MatmulPlanEntry> plan;
  int64_t rowTiles = 0; ///< where all launches have equally many; else 0

  /// Tile widths in use, widest first.
  llvm::SmallVector<unsigned, 4> widths() const;
  bool splits(unsigned columns) const; ///< whether a plan entry splits K
  /// Blocks that share each tile through shared memory; 1: none.
  unsigned cluster() const {
    return plan[0].schedule.clustered ? plan[0].schedule.splits : 1;
  }
  MatmulTile tile(unsigned columns) const { return {columns, cluster()}; }
  /// Columns of the result that a tile of B columns covers.
  unsigned resultColumns(unsigned columns) const {
    return columns / unsigned(products.size());
  }
  unsigned sharedBytes() const;
  /// Where staging (a consumer's after the other's) and barriers begin.
  unsigned stagingOffset() const;
  unsigned stagingBytes() const;
  unsigned barrierOffset() const;
  int64_t workspaceBytes() const;
  unsigned counterBytes() const;
  int64_t gridBlocks() const;
  /// Columns of a weight that one box holds, of each set of its tensor maps: a
  /// K-major tile is one box, so that each width has a set.
  llvm::SmallVector<unsigned, 4> boxColumns() const;
  /// Of the lhs, then of a set of weights for each of `columns`.
  std::vector<artifact::TensorMap>
  operandMaps(llvm::ArrayRef<unsigned> columns) const;
  /// Of operands, then of results.
  std::vector<artifact::TensorMap> maps() const;
  /// Where a tile's set of weights begins among them, and where results do.
  unsigned weightMap(unsigned columns) const;
  unsigned resultMap() const { return 1 + boxColumns().size() * rhs.size(); }
};

/// Boxes of all results of the kernel's products, or none.
std::vector<ResultBox> getResultBoxes(KernelOp kernel, const SymShape &space,
                                      bool flat, const SymExpr &m);

/// What a programmatic launch may load before it waits for the previous one:
/// what no kernel of the step writes; lhs after all weights only.
struct EarlyLoads {
  bool weights = false, lhs = false;
};
EarlyLoads getEarlyLoads(KernelOp kernel, const WgmmaMatmul &product);

/// Nullopt, with a reason, when the template does not take the kernel.
std::optional<WgmmaMatmul> getWgmmaMatmul(KernelOp kernel, std::string &reason);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_WGMMAMATMUL_H
