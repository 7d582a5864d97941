//===- CardLaunch.h - How a kernel is launched on the card ------*- C++ -*-===//
//
// Grid, block and vector width of a kernel on sm_90a: pure functions of the
// kernel's body and configuration, shared by Plan and Link (which write them
// into the launch) and Codegen/Hopper (whose code relies on them).
//
// A kernel is one or several functions, launched in order: artifact::CardStage
// says what their parameters are. The sizes are read when the kernel runs, so
// that one captured graph serves every length: a launch takes its grid from
// upper bounds, the kernel itself finds out what is left to do. Results do not
// overlap operands. Buffers are as on the host (HostABI.h): row-major, dense by
// storage shape, i1 in bytes, sub-byte elements packed; any alignment of the
// element is accepted, 16 bytes are fast.
//
// Parameters of #fusion.config that this target reads:
//   programmatic : unit            the launch may overlap its predecessor; the
//                                  kernel waits before it touches what another
//                                  kernel writes (griddepcontrol)
//   step_invariant : array<i64>    operands that no kernel of the program
//                                  writes; they are loaded before the wait
//   rows : array<i64: min, max>    token rows (M) of the bucket that the kernel
//                                  is for, bounds included; absent: any
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_CARDLAUNCH_H
#define FUSION_KERNELS_CARDLAUNCH_H

#include "fusion/Artifact/Model.h"
#include "fusion/Kernels/KernelShape.h"

namespace fusion::kernels {

/// The rows of a row reduction: a tensor shape of which the last `axes` axes
/// form the row and the others number the rows.
struct RowSpace {
  SymShape shape;
  unsigned axes = 1;
  SymExpr rows = 1, width = 1;
};

/// The rows that all reductions of the kernel share; nullopt, with a reason,
/// when there is none.
std::optional<RowSpace> getRowSpace(KernelOp kernel, std::string &reason);

/// Results of a kernel that are computed element by element: those of one class
/// have equally many elements.
struct PulledResult {
  unsigned number;    ///< of the result
  mlir::Value source; ///< the value whose elements are stored
  SymShape strides;   ///< of the result's memory, one an axis of the source
  SymExpr offset;     ///< of the source's first element in it
  /// Where each sequence has an offset of its own, the append that says it.
  KvAppendOp append;
  bool dense; ///< element i of the source is element i of the memory
};
using PulledClass = llvm::SmallVector<PulledResult, 2>;
/// The given results in classes. A cache that is session state is extended in
/// place: its source is the update.
llvm::SmallVector<PulledClass, 2>
getPulledClasses(KernelOp kernel, llvm::ArrayRef<unsigned> results);

/// The block tile of a matmul on the ordinary arithmetic units. Eight or four
/// warps lie in a grid; a warp's lanes are 4 x 8 threads of 4 x 4 elements, and
/// the block repeats that pattern along both sides.
struct SimtTile {
  unsigned warpRows = 4, warpColumns = 2;
  unsigned repeatRows = 1, repeatColumns = 1;
  unsigned depth = 16; ///< of K that is in shared memory at a time
  unsigned patternRows() const { return 16 * warpRows; }
  unsigned patternColumns() const { return 32 * warpColumns; }
  unsigned rows() const { return patternRows() * repeatRows; }
  unsigned columns() const { return patternColumns() * repeatColumns; }
  unsigned threads() const { return 32 * warpRows * warpColumns; }
  /// Shared memory: two tiles of each operand, or the sums of one pattern of
  /// rows, in elements of so many bytes.
  unsigned sharedBytes(unsigned products, unsigned bytes) const {
    unsigned tiles = rows() + 4 + products * (columns() + 4);
    unsigned sums = products * patternRows() * (columns() + 4);
    return bytes * std::max(2 * depth * tiles, sums);
  }
};

/// The block tile of an attention on the ordinary arithmetic units: so many
/// query rows (of all heads that share keys, the heads innermost) and keys at a
/// time. A thread has 4 x 4 scores.
struct SimtAttentionTile {
  unsigned rows = 64, keys = 64;
  unsigned threads() const { return rows * keys / 16; }
  /// Columns of the result, in whole patterns of the threads.
  int64_t paddedValue(int64_t dv) const {
    return (dv + keys - 1) / keys * keys;
  }
  /// Shared memory, in fp32 elements from its start.
  int64_t keyOffset(int64_t d) const { return d * (rows + 4); }
  int64_t valueOffset(int64_t d) const { return keyOffset(d) + d * (keys + 4); }
  int64_t termOffset(int64_t d, int64_t dv) const {
    return valueOffset(d) + keys * paddedValue(dv);
  }
  /// Results return where the operands were; behind them a factor a split and
  /// row.
  int64_t factorOffset(int64_t dv) const {
    return rows * (paddedValue(dv) + 4);
  }
  int64_t sharedBytes(int64_t d, int64_t dv, unsigned splits) const {
    return 4 * std::max(termOffset(d, dv) + keys * (rows + 4),
                        factorOffset(dv) + splits * rows);
  }
  /// What a split leaves in the workspace: results, maxima and sums of rows.
  int64_t partialSize(int64_t dv) const { return rows * (paddedValue(dv) + 2); }
};

/// One way to run a kernel.
struct CardLaunch {
  /// The template that builds it. `Pulled` takes every body.
  enum class Family {
    Pulled,
    RowReduction,
    SimtMatmul,
    SimtAttention,
    Skinny,
    SkinnyTiles,
    FewRows,
    WgmmaMatmul,
    LowBitMatmul,
    AttentionDecode,
    AttentionPrefill,
  };
  Family family = Family::Pulled;

  /// In order; the symbol of stage i is the kernel's name, and for i > 0 the
  /// name, an underscore and i. Registers and spills are not known yet.
  std::vector<artifact::CardStage> stages;
  SymExpr workspaceBytes = 0;
  unsigned counterBytes = 0;
  /// Bytes of spilled registers that the template can bear: scalars of its
  /// outer loops, not what its inner loop works on.
  unsigned spillAllowance = 0;

  unsigned vector = 1; ///< elements that a thread handles at once
  /// Blocks that a multiprocessor has to have registers for; 0: any number.
  unsigned residentBlocks = 0;

  // Matmuls and attentions.
  SimtTile tile;
  SimtAttentionTile attention;
  /// Blocks that share K (or the keys) when the rows fit one tile. Each leaves
  /// its sums in the workspace, and the last one to arrive adds them up in
  /// order.
  unsigned splits = 1;

  /// 16-byte pieces of weights in a thread's registers, twice.
  unsigned registerPieces = 8;

  // Row reductions.
  RowSpace space;
  unsigned threadsPerRow = 32;
  unsigned rowsPerBlock = 1;
  /// Vectors of a row that a thread keeps in registers; 0 when the row is
  /// read once for each reduction.
  unsigned chunks = 0;
};

/// The ways to run the kernel, the preferred one first. Code generation goes on
/// to the next when a template turns out not to fit (or would spill); the last
/// one takes everything.
std::vector<CardLaunch> getCardLaunches(KernelOp kernel);

/// Whether the kernel waits for its predecessor by itself.
bool isProgrammatic(KernelOp kernel);

/// Whether no kernel of the program writes the operand, so that it may be
/// loaded before the wait.
bool isStepInvariant(KernelOp kernel, unsigned operand);

struct RowBounds {
  int64_t least, most; ///< inclusive
};
/// The rows that `m` can be in this kernel: its own value, or those of the
/// bucket that the kernel is for; nullopt where neither is known.
std::optional<RowBounds> getRowBounds(KernelOp kernel, const SymExpr &m);

/// Widest vector, in elements, such that no access to elements of
/// `minBytes` bytes is wider than 16 bytes and `width` is a multiple of it.
unsigned vectorWidth(const SymExpr &width, unsigned minBytes);

/// The shape of a block for rows of `width` elements.
struct RowLadder {
  unsigned threadsPerRow, rowsPerBlock, chunks;
};
/// `rows` is the number of rows where it is known (0: unknown, many).
/// `values` says how many row-sized values a thread keeps alive at once.
RowLadder rowLadder(int64_t width, int64_t rows, unsigned vector,
                    unsigned values);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_CARDLAUNCH_H
