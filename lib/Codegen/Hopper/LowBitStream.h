//===- LowBitStream.h - Packed weights past one row of lhs ------*- C++ -*-===//
//
// The part of the template of one row (Skinny.cpp) that streams weights of 4
// and 8 bits, packed as Kernels/LowBit.h says. A strip of 16 rows is the M of
// mma.m16n8k16; lhs, in 16 bits in shared memory, is its N (each of the eight
// columns the same). The strips of a block are one line of steps, dealt to its
// warps in equal runs; a warp has the words of two steps in registers.
//
// Codes are not converted: masked in place they are bits of 16-bit floats,
// subnormal where they are integers, and tensor cores take those as they are. A
// power of two that is left over goes into the sums. The zero point, minus
// itself times the sum of lhs, is added to the fp32 sum of a span, which the
// scale then multiplies. Four lanes have the same sums: each of them has the
// scale and the zero point of one span of four, and its totals, which meet
// where a row ends.
//
// So that products with subnormal codes are normal numbers, lhs in bf16 is kept
// times 2^64: magnitudes from 2^64 on become infinity, and where zero points
// want the sum of a span (at most 256 columns), that has to stay below 2^64
// too, as it does with magnitudes below 2^56. Below 2^-57 products lose bits.
// Lhs in fp16 and fp32 has no such bounds, nor have products of more rows.
//
// Lhs in fp32 is multiplied by fused multiply-adds in the same order; codes are
// exact as fp16.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_LOWBITSTREAM_H
#define FUSION_LIB_CODEGEN_HOPPER_LOWBITSTREAM_H

#include "RowTemplate.h"
#include "WarpMma.h"

#include "fusion/Kernels/SkinnyShape.h"

namespace fusion::hopper {

/// Registers of an A fragment, as 16-bit floats, from a word of a unit: the
/// codes times 2^exponent(slot).
class CodeFragments {
public:
  CodeFragments(mlir::Type code, mlir::Type element)
      : code(code), element(element) {}
  /// The pair of codes in one slot of both halves of a word.
  Val take(KernelBuilder &k, Val word, unsigned slot) const;
  int exponent(unsigned slot) const;

private:
  mlir::Type code, element;
};

class LowBitStream {
public:
  LowBitStream(KernelFunction &f, const kernels::SkinnyShape &shape);

  /// The block's strips [first, end), i32, and its shared memory: for lhs, and
  /// for the sums of the warps.
  void place(Val firstStrip, Val endStrip, Val lhs, Val partial);
  /// The words of the warp's step `number`, 0 the first; anything when the warp
  /// has no such step. `isFirst`: before the loop.
  Vals load(Val number, bool isFirst);
  /// Warps that have no part of a row add nothing to it. Before keepLhs().
  void clearPartials();
  /// Lhs to shared memory; ends with a barrier.
  void keepLhs(RowTemplate &row);
  /// Everything, from the words of steps 0 and 1 on.
  void stream(Vals first, Vals second);
  /// The scale of all columns of a product, fp32; null: none.
  Val scaleOf(unsigned product);

private:
  Val storeLhs(Val values, Val number);
  void storeSums(llvm::ArrayRef<Val> rounded, llvm::ArrayRef<Val> numbers);
  /// Where a step is: of which strip and product of a row, which columns.
  struct Step {
    Val exists, strip, slot, part;
  };
  Step at(Val number);
  /// No step ends beyond its strip.
  bool hasWholeSteps() const {
    return weight.units() % shape.pieces == 0 &&
           weight.k % weight.unitColumns() == 0;
  }
  /// The address that a step of an operand starts from.
  Val base(const Step &step, unsigned operand);
  Val scaleIndex(const Step &step, Val number);
  void loadPairs(const Step &step, mlir::Type element, unsigned operand,
                 Val exists, Vals &words);
  Vals loadWords(const Step &step, Val exists);
  Vals pairOf(mlir::Type element, llvm::ArrayRef<Val> words);
  Vals floatsOf(mlir::Type element, Val low, Val high);
  /// Adds a step to the two rows' totals.
  void multiply(Val number, llvm::ArrayRef<Val> words, Vals &totals);
  /// What this lane has of the sums of `scaleLanes` spans: of its own one.
  Val ownOf(llvm::ArrayRef<Vals> sums, unsigned half);
  void addZeros(const Step &step, unsigned firstSpan, llvm::ArrayRef<Val> zeros,
                Vals &own);
  void addSpans(const Step &step, unsigned firstSpan, llvm::ArrayRef<Vals> sums,
                llvm::ArrayRef<Val> words, Vals &totals);
  void multiplyReal(const Step &step, int64_t number, llvm::ArrayRef<Val> words,
                    Vals &sums);
  void multiplyOnce(const Step &step, int64_t number, llvm::ArrayRef<Val> words,
                    llvm::SmallVector<Vals> &x, Vals &sums);
  void finish(Val number, Vals &totals);

  KernelFunction &f;
  KernelBuilder &k;
  codegen::BodyEmitter &group;
  CardTarget &target;
  const kernels::SkinnyShape &shape;
  const kernels::LowBitWeight &weight; ///< all are of its format
  mlir::Type element;                  ///< of lhs
  CodeFragments fragments;
  Val firstStrip, firstStep, endStep; ///< steps of this warp
  Val lhs, lhsSums, partial;
  Val high, low; ///< lane / 4, lane % 4
  Val ownLane;   ///< among those that share sums
  /// Addresses by operand (codes, scales, zero points), slot and bundle.
  llvm::SmallVector<llvm::SmallVector<llvm::SmallVector<Val>>, 3> bases;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_LOWBITSTREAM_H
