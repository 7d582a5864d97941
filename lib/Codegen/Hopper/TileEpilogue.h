//===- TileEpilogue.h - From accumulators to results ------------*- C++ -*-===//
//
// Stores what a group makes of a tile of accumulators: each thread of a warp
// group holds pieces of two rows (kernels::accumulatorElement). The group's
// body is emitted for two neighbouring columns at a time. 16-bit results whose
// rows allow it are gathered in shared memory, 64 columns at a time, and leave
// in rows of 128 bytes: as boxes, which one thread sends on their way, where
// the kernel has tensor maps of its results; else by the threads. Others leave
// from the fragments.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_TILEEPILOGUE_H
#define FUSION_LIB_CODEGEN_HOPPER_TILEEPILOGUE_H

#include "KernelFunction.h"

#include "fusion/Kernels/StridedView.h"
#include "fusion/Kernels/WgmmaMatmul.h"

namespace fusion::hopper {

/// What the tile is a part of.
struct TileSpace {
  llvm::ArrayRef<MatmulOp> products;
  SymShape shape; ///< batch.., M, N
  bool flat;      ///< all axes but the last are rows
  SymExpr rows;   ///< M, or the product of all axes but the last
  int64_t columns;
  /// One a result, and their tensor maps, where whole chunks leave so.
  llvm::ArrayRef<kernels::ResultBox> boxes = {};
  llvm::ArrayRef<Val> maps = {};
};

class TileEpilogue {
public:
  /// `staging`: two chunks of 8 KiB of this warp group, 1024-byte aligned;
  /// `barrier`: a barrier id of its own.
  TileEpilogue(KernelFunction &f, const TileSpace &space, Val staging,
               Val barrier);

  /// The tile of 64 rows from row0 on and `columns` (a multiple of 16) columns
  /// from column0 on. `registers`: the accumulators of each product's columns,
  /// one product after the other. `whole`: no column lies past the end.
  void store(llvm::ArrayRef<Val> registers, unsigned columns, bool whole,
             const codegen::Indices &batch, Val row0, Val column0);

  /// After the last tile: what was sent has arrived.
  void finish();

private:
  struct Output {
    unsigned number;
    kernels::StridedOutput view;
    bool staged;
  };
  /// Columns [first, first + columns) of the tile: 64, 32 or 16.
  struct Chunk {
    unsigned first, columns;
  };
  bool canStage(const Output &output) const;
  bool sends() const { return !space.boxes.empty(); }
  codegen::Indices leading(const codegen::Indices &batch, Val row);
  codegen::Index offsetOf(const codegen::Indices &at, const SymShape &strides);
  /// Columns [8 block + 2 (lane % 4), + width) of row `half`.
  mlir::Value emitAt(mlir::Value value, unsigned block, unsigned half,
                     unsigned element);
  void provideProducts();
  /// A chunk's elements into `buffer`.
  void writeFragments(const Output &output, Chunk chunk, Val buffer);
  void sendBox(const Output &output, Chunk chunk, Val buffer);
  void stage(const Output &output, Chunk chunk);
  void copyOut(const Output &output, Chunk chunk, Val buffer);
  void storeDirect(const Output &output, Chunk chunk);

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  codegen::BodyEmitter &group;
  TileSpace space;
  Val staging, barrier;
  llvm::SmallVector<Output, 2> outputs;
  unsigned width;

  // The tile at hand.
  llvm::ArrayRef<Val> registers;
  unsigned perProduct = 0; ///< registers of one product
  unsigned stagedChunks = 0;
  bool whole = false;
  codegen::Indices batch;
  Val row0, column0, firstColumn, rowCount;
  codegen::Indices lead[2]; ///< of the thread's two rows
  Val inside[2];
  /// What is asked of the products.
  codegen::Indices at;
  unsigned firstRegister = 0;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_TILEEPILOGUE_H
