//===- Wgmma.h - Matrix products of a warp group ----------------*- C++ -*-===//
//
// D[64, n] += A[64, 16] * B[16, n] in fp32, of 16-bit operands: A and B from
// swizzled tiles in shared memory (kernels::tileOffset), or A from registers.
// All 128 threads of a warp group call each function together.
//
// An accumulator is one struct value of n / 2 floats a thread. wgmma is
// asynchronous: fence() before the first product of a batch, commit() after
// the last, and wait() before accumulators are read or registers of A reused.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_WGMMA_H
#define FUSION_LIB_CODEGEN_HOPPER_WGMMA_H

#include "KernelBuilder.h"

#include "fusion/Kernels/WgmmaLayout.h"

namespace fusion::hopper {

using kernels::Major;

/// The descriptor (i64) of a swizzled tile that starts at `shared`, a multiple
/// of 1024 bytes (for K-major tiles, rows may be skipped in multiples of 8).
Val tileDescriptor(KernelBuilder &k, Val shared, Major major);
/// Descriptor `bytes` (i32, a multiple of 16) further on.
Val advanceDescriptor(KernelBuilder &k, Val descriptor, Val bytes);

/// The same in two halves, so that a loop's arithmetic is that of 32-bit words,
/// which ptxas can keep in uniform registers: the low word of a tile at
/// `sixteenths` of its address (advanced by addition), and the whole from it.
Val descriptorWord(Val sixteenths, Major major);
Val wholeDescriptor(KernelBuilder &k, Val word, Major major);
/// The address of the dynamic shared memory in units of 16 bytes, i32.
Val sharedSixteenths(KernelBuilder &k);

class Wgmma {
public:
  /// n: 8 to 256 in steps of 8; `element` is bf16 or f16.
  Wgmma(KernelBuilder &k, unsigned n, mlir::Type element)
      : k(k), n(n), element(element) {}
  unsigned registers() const { return n / 2; }
  mlir::Type accumulatorType();

  /// All zeros. Loops need it; where the first product starts afresh
  /// (Start::Fresh) undefined() costs nothing, but it must not reach a loop.
  Val zero();
  Val undefined();

  /// What becomes of the accumulator's old contents.
  enum class Start { Accumulate, Fresh };
  /// One product of depth 16.
  Val multiply(Val accumulator, Val descriptorA, Val descriptorB,
               Major majorA = Major::K, Major majorB = Major::K,
               Start start = Start::Accumulate);
  /// A from registers: four i32, each two elements, rows l / 4 and l / 4 + 8 of
  /// k 2 (l % 4), then the same of k + 8.
  Val multiply(Val accumulator, llvm::ArrayRef<Val> a, Val descriptorB,
               Major majorB = Major::K, Start start = Start::Accumulate);
  /// A whole stage: depth 64, A and B advancing along k.
  Val multiplyStage(Val accumulator, Val descriptorA, Val descriptorB,
                    Major majorA, Major majorB,
                    Start start = Start::Accumulate);

private:
  Val emit(llvm::ArrayRef<mlir::Value> a, llvm::StringRef aConstraint,
           Val accumulator, Val descriptorB, Major majorA, Major majorB,
           bool registersA, Start start);

  KernelBuilder &k;
  unsigned n;
  mlir::Type element;
};

void wgmmaFence(KernelBuilder &k);
void wgmmaCommit(KernelBuilder &k);
/// Waits until at most `pending` committed batches are under way.
void wgmmaWait(KernelBuilder &k, unsigned pending);
/// The same as data dependences: the values (accumulators, i32 registers of A)
/// that come back are what the waited-for (or fenced) products leave.
KernelBuilder::Vals wgmmaWait(KernelBuilder &k, unsigned pending,
                              llvm::ArrayRef<Val> tied);
KernelBuilder::Vals wgmmaFence(KernelBuilder &k, llvm::ArrayRef<Val> tied);

/// The fields of a struct value (an accumulator's registers), and back.
llvm::SmallVector<Val> unpackStruct(KernelBuilder &k, Val value);
Val packStruct(KernelBuilder &k, llvm::ArrayRef<Val> fields);

/// Moves 16 columns of an accumulator, as four packed pairs, into a tile of 64
/// rows of 128 bytes (kernels::fragmentAddress). `address` from
/// fragmentPointer().
/// `transposed`: 16 rows of the tile are 16 columns of the accumulator, two
/// pieces of each the warp's rows.
void storeFragment(KernelBuilder &k, Val address, llvm::ArrayRef<Val> pairs,
                   bool transposed = false);
KernelBuilder::Vals loadFragment(KernelBuilder &k, Val address);
/// The thread's address for columns [8 block, 8 block + 16) of the tile.
Val fragmentPointer(KernelBuilder &k, Val tile, unsigned block);
/// For rows [row, row + 16) of the tile, transposed.
Val transposedPointer(KernelBuilder &k, Val tile, unsigned row);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_WGMMA_H
