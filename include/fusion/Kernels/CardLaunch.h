//===- CardLaunch.h - How a kernel is launched on the card ------*- C++ -*-===//
//
// Grid, block and vector width of a kernel on sm_90a: pure functions of the
// kernel's body and configuration, shared by Plan and Link (which write them
// into the launch) and Codegen/Hopper (whose code relies on them).
//
// A kernel's parameters are pointers to device memory, 64 bits each, in this
// order: its operands, its results, and an array of int64 with the values of
// its sizes d0, d1, ... (always there, also when there are none). The sizes
// are read when the kernel runs, so that one captured graph serves every
// length: a launch takes its grid from upper bounds, the kernel itself finds
// out what is left to do. Results do not overlap operands. Buffers are as on
// the host (HostABI.h): row-major, dense by storage shape, i1 in bytes,
// sub-byte elements packed; any alignment of the element is accepted, 16
// bytes are fast.
//
// Parameters of #fusion.config that this target reads:
//   programmatic : unit            the launch may overlap its predecessor; the
//                                  kernel waits before it touches what another
//                                  kernel writes (griddepcontrol)
//   step_invariant : array<i64>    operands that no kernel of the program
//                                  writes; they are loaded before the wait
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_CARDLAUNCH_H
#define FUSION_KERNELS_CARDLAUNCH_H

#include "fusion/Dialect/Fusion/FusionOps.h"

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

struct CardLaunch {
  enum class Family { Unsupported, Pointwise, RowReduction };
  Family family = Family::Unsupported;
  std::string reason; ///< why unsupported, lower case

  unsigned threads = 128; ///< of a block
  SymExpr grid = 1;       ///< blocks, along x
  unsigned vector = 1;    ///< elements that a thread handles at once

  // Row reductions.
  RowSpace space;
  unsigned threadsPerRow = 32;
  unsigned rowsPerBlock = 1;
  /// Vectors of a row that a thread keeps in registers; 0 when the row is
  /// read once for each reduction.
  unsigned chunks = 0;
};

CardLaunch getCardLaunch(KernelOp kernel);

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
