//===- SkinnyShape.h - Products of few rows -----------------------*- C++
//-*-===//
//
// Products with one row of lhs, whose time is that of streaming the weights:
// which bodies the template takes, and how it splits the work. The threads of
// a block share a row of the weight (or each warp has one); each thread keeps
// its columns of lhs in registers or shared memory and streams 16-byte pieces
// of the weight past them.
//
// Kernels of one decode step form a chain with programmatic launches: all of
// them have this grid, this block and this footprint, so that the blocks of a
// kernel take exactly the places that those of its predecessor leave.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_SKINNYSHAPE_H
#define FUSION_KERNELS_SKINNYSHAPE_H

#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Kernels/LowBit.h"
#include "fusion/Kernels/WgmmaMatmul.h"

namespace fusion::kernels {

/// Streaming multiprocessors of an H100 or H200 (SXM).
constexpr unsigned kMultiprocessors = 132;
/// Of the kernels of a chain: blocks that share a multiprocessor (their
/// registers fill it, so that a block of the next kernel starts where one
/// ends), threads of a block, and the shared memory that makes it so many and
/// no more.
constexpr unsigned kChainBlocks = 2, kChainThreads = 256;
constexpr unsigned kChainSharedBytes = 96 * 1024;
constexpr unsigned kMostSharedBytes = 200 * 1024;

/// A weight as the template reads it.
struct SkinnyWeight {
  MatmulOp product;
  mlir::BlockArgument argument; ///< null: its elements are computed
  int64_t offset = 0;           ///< of the first element
};

/// Products of one shape that meet in a result. Their rows (N) are numbered
/// through all bundles.
struct SkinnyBundle {
  llvm::SmallVector<unsigned, 2> products;
  llvm::SmallVector<unsigned, 2> results; ///< that depend on them
  SymShape space;                         ///< of the products
  int64_t firstRow = 0, rows = 0;
};

struct SkinnyShape {
  mlir::Value lhs;
  RowSpace space; ///< of lhs
  int64_t k = 0;
  llvm::SmallVector<SkinnyWeight, 4> weights; ///< one a product
  llvm::SmallVector<SkinnyBundle, 4> bundles;
  /// Results that depend on no product; they lie over lhs's rows.
  llvm::SmallVector<unsigned, 2> rowResults;
  int64_t rows = 0;            ///< of all bundles
  unsigned productsPerRow = 1; ///< of each bundle

  /// Weights of 4 or 8 bits of one format, one a product; else empty. Rows are
  /// then numbered in strips of 16, and a bundle starts with a strip.
  llvm::SmallVector<LowBitWeight, 4> lowBit;
  bool isLowBit() const { return !lowBit.empty(); }
  /// Of low-bit weights: columns of a step of a warp (`pieces` units), steps
  /// of a strip, and columns whose products one sum takes before its scale.
  int64_t stepColumns() const { return pieces * lowBit[0].unitColumns(); }
  int64_t stepsPerStrip() const {
    return (lowBit[0].units() + pieces - 1) / pieces;
  }
  int64_t span = 0;
  /// Scales (and zero points) of a row that a step reads.
  int64_t scalesPerStep() const;
  /// Lanes that share a row's sums over spans: each scales its own ones. All
  /// columns of a tensor core's product are the same; of lhs in fp32 a lane
  /// sums up columns of its own.
  unsigned scaleLanes() const;
  /// Loads of scales that a lane makes in a step.
  unsigned scaleLoads() const {
    return unsigned(llvm::divideCeil(scalesPerStep(), int64_t(scaleLanes())));
  }
  /// Whether products need the sum of lhs over each span.
  bool needsLhsSums() const {
    return lowBit[0].zeros || lowBit[0].implicitZero != 0;
  }
  /// Columns of lhs in shared memory, all threads' vectors.
  int64_t paddedColumns() const {
    int64_t all = threads * int64_t(vector);
    return (k + all - 1) / all * all;
  }

  /// All weights are [N, K] in memory, in one type (or packed): they are
  /// streamed. Else elements are pulled, slowly.
  bool streamed = false;
  unsigned vector = 1;        ///< elements of 16 bytes of a weight
  unsigned threadsPerRow = 0; ///< 32 or all of a block
  /// Of a block. Packed weights have one block a multiprocessor, so that all
  /// its warps share its strips.
  unsigned threads = kChainThreads;
  unsigned residentBlocks() const {
    return kChainBlocks * kChainThreads / threads;
  }
  /// Loads of 16 bytes that a thread makes of a row: `pieces` at a time,
  /// `turns` times; `rowsAtOnce` rows at a time when there is one turn.
  unsigned pieces = 1, turns = 1, rowsAtOnce = 1;
  /// Vectors of a row of lhs that a thread makes.
  unsigned rowChunks() const {
    return isLowBit() ? unsigned(paddedColumns() / (threads * vector))
                      : pieces * turns;
  }
  /// Columns of lhs are kept in shared memory, not in registers.
  bool sharedLhs = false;
  unsigned blocks() const { return kMultiprocessors * residentBlocks(); }
  /// Rows of a block, at most.
  int64_t rowsPerBlock() const {
    int64_t unit = isLowBit() ? kStripRows : 1;
    return (rows / unit + blocks() - 1) / blocks() * unit;
  }
  /// Partial sums of one product's row, and where they lie: neighbouring rows
  /// side by side, so that threads which finish them meet no bank conflicts.
  unsigned partials() const {
    return std::max(turns * threadsPerRow / 32, threads / 32);
  }
  int64_t partialStride() const { return rowsPerBlock() * productsPerRow; }
  /// Shared memory: lhs in fp32 (or in 16 bits, with its sums), then the
  /// partial sums.
  int64_t storedLhsBytes() const {
    return paddedColumns() * (elementType(lhs).isF32() ? 4 : 2);
  }
  int64_t lhsBytes() const {
    int64_t packed =
        isLowBit() ? storedLhsBytes() + paddedColumns() / span * 4 : 0;
    return std::max((4 * k + 15) / 16 * 16, packed);
  }
  unsigned sharedBytes() const {
    return unsigned(lhsBytes() +
                    4 * rowsPerBlock() * productsPerRow * partials());
  }
};

/// Products of 2 to 64 rows in 16 bits, by wgmma with its sides swapped: 64
/// rows of a weight (32 of each of two that meet in a gate) are its M, the rows
/// of lhs its N. The stages of all tiles form one line (64 deep each), of which
/// every block takes an equal piece: weights stream evenly whatever N and K
/// are. Blocks that share a tile leave their sums in the workspace; the last
/// one to arrive adds them up, in order.
struct SkinnyTiles {
  WgmmaMatmul product;
  /// Rows of lhs: of the tensor cores' tile (a multiple of 8), and of a box of
  /// its tensor map.
  unsigned rows = 8, boxRows = 8;
  /// Tiles of 64 along K that a stage holds. With several of them, 8 rows of
  /// all come as one box and lie together: pieces of rows are longer in memory.
  unsigned tilesDeep = 1;
  /// Chunks of results that are gathered before they leave.
  unsigned chunks = 2;
  /// Shared memory that a block may have.
  unsigned mostBytes = 112 * 1024;

  unsigned columns() const { ///< results of a tile
    return kWgmmaRows / unsigned(product.products.size());
  }
  int64_t tiles() const { return (product.n + columns() - 1) / columns(); }
  /// Stages of a tile.
  int64_t depth() const {
    int64_t columns = int64_t(kTileDepth) * tilesDeep;
    return (product.k + columns - 1) / columns;
  }
  int64_t units() const { return tiles() * depth(); }
  unsigned blocks() const {
    // One a multiprocessor. Where half its memory is enough, there is room for
    // one of the next kernel, which fetches its weights while this one ends.
    constexpr int64_t kLeastTiles = 6;
    return unsigned(std::clamp<int64_t>(units() * tilesDeep / kLeastTiles, 1,
                                        kMultiprocessors));
  }
  /// A warp group, and the warp that copies.
  static constexpr unsigned kThreads = 128 + 32;

  unsigned weightBytes() const {
    return tilesDeep * kWgmmaRows * kTileRowBytes;
  }
  unsigned stageBytes() const {
    return weightBytes() + tilesDeep * rows * kTileRowBytes;
  }
  /// Distance in shared memory between sums of neighbouring rows of lhs, in
  /// elements: no bank conflicts.
  static constexpr unsigned kSumStride = kWgmmaRows + 4;
  /// Sums on their way to the other layout, then results on their way out.
  unsigned stagingBytes() const {
    return std::max(chunks * kStagingBytes,
                    (4 * rows * kSumStride + 1023) / 1024 * 1024);
  }
  unsigned stages() const {
    return std::min((mostBytes - stagingBytes() - 512) / stageBytes(), 16u);
  }
  unsigned stagingOffset() const { return stages() * stageBytes(); }
  unsigned barrierOffset() const { return stagingOffset() + stagingBytes(); }
  unsigned sharedBytes() const { return barrierOffset() + 512; }

  /// Partial sums of a tile; a block leaves at most two.
  int64_t partialBytes() const { return int64_t(kWgmmaRows) * rows * 4; }
  int64_t workspaceBytes() const {
    return 2 * int64_t(blocks()) * partialBytes();
  }
  unsigned counterBytes() const { return unsigned(4 * tiles()); }
  std::vector<artifact::TensorMap> maps() const;

  /// Tiles of one kernel for different numbers of rows, least first: with few,
  /// tensor cores do less and more stages fit. The kernel chooses by its sizes.
  llvm::SmallVector<SkinnyTiles, 3> forRows() const;
};
std::optional<SkinnyTiles> getSkinnyTiles(KernelOp kernel, std::string &reason);

/// Products of 2 to 16 rows in 16 bits with large weights, by mma.sync: lhs
/// stays in registers, each warp having columns of its own, so that only
/// weights are streamed. Blocks have equal shares of the columns of results,
/// give or take one, and take strips of 16 rows of weights at a time (8 of each
/// of two that meet in a gate).
struct FewRows {
  WgmmaMatmul product;
  unsigned rows = 8; ///< of lhs, at most: 8 or 16

  static constexpr unsigned kWarps = 16, kStripRows = 16;
  static constexpr unsigned kThreads = 32 * kWarps;
  /// Of a row, in a slot of a warp's ring; of them one step of the loop takes.
  static constexpr unsigned kColumns = 128, kStepColumns = 32;
  static constexpr unsigned kRowBytes = 2 * kColumns;
  static constexpr unsigned kSlotBytes = kStripRows * kRowBytes;
  static constexpr unsigned kStages = 3;

  unsigned columns() const { ///< results of a strip
    return kStripRows / unsigned(product.products.size());
  }
  int64_t warpColumns() const { return product.k / kWarps; }
  int64_t pieces() const { return warpColumns() / kColumns; }
  static constexpr unsigned steps() { return kColumns / kStepColumns; }
  unsigned tiles() const { return rows / 8; }
  /// Of a thread, for lhs.
  int64_t registers() const {
    return pieces() * steps() * int64_t(tiles()) * 4;
  }
  unsigned blocks() const {
    return unsigned(std::min<int64_t>(product.n, kMultiprocessors));
  }
  /// Sums of the warps, of one strip; there are two.
  unsigned sumBytes() const { return kWarps * 32 * 16 * tiles(); }
  unsigned sumOffset() const { return kWarps * kStages * kSlotBytes; }
  unsigned sharedBytes() const { return sumOffset() + 2 * sumBytes(); }
};
std::optional<FewRows> getFewRows(KernelOp kernel, std::string &reason);

/// Nullopt, with a reason, when the template does not take the kernel. A thread
/// has registers for `registerPieces` pieces of 16 bytes, twice.
std::optional<SkinnyShape>
getSkinnyShape(KernelOp kernel, unsigned registerPieces, std::string &reason);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_SKINNYSHAPE_H
