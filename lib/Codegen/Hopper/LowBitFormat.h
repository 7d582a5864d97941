//===- LowBitFormat.h - Packed codes to fragments of A ----------*- C++ -*-===//
//
// How the words of a packed weight (fusion/Kernels/LowBit.h) become fragments
// of A of mma.m16n8k16 and wgmma, in bf16 or fp16, in registers. One
// description serves every template; a format differs in how its bits are
// masked, in a power of two, and in how scales and zero points come in:
//
//   Scaled    fragments are (q - z) * scale, times 1 / sumFactor()
//   Unscaled  fragments are exactly q - z, times 1 / sumFactor(): the caller
//             applies the scale to its sums
//
// bf16: the low 8 bits of a half are linear, value = bits * 2^-133, subnormals
// included, and fma.rn.bf16x2 honours them. So an integer masked in place is a
// number already, and one fma rescales it, subtracts the zero point and applies
// the scale with a single rounding; zero points of 4 bits are subtracted from
// four codes at once, in bytes, before. fp16: the integer is or'ed into 1024.
// Floats: exponent and mantissa lie so that a mask leaves a (tiny) number,
// subnormals of the format included.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_LOWBITFORMAT_H
#define FUSION_LIB_CODEGEN_HOPPER_LOWBITFORMAT_H

#include "KernelBuilder.h"

#include "fusion/Kernels/LowBit.h"

namespace fusion::hopper {

class LowBitFormat {
public:
  /// `element`: bf16 or f16. `scaled`: whether group() gets scales.
  LowBitFormat(KernelBuilder &k, const kernels::LowBitWeight &weight,
               mlir::Type element, bool scaled);

  /// i32 words of a lane in a step of 16 columns: 1 or 2.
  unsigned words() const { return weight.bits / 4; }
  /// A power of two.
  double sumFactor() const;

  /// What a lane loads of scales or zero points of one group: those of rows
  /// l / 4 and l / 4 + 8, neighbours in a strip. i16, i32 or <2 x i32>.
  static mlir::Type pairType(KernelBuilder &k, mlir::Type element);
  /// One element of such a pair in fp32.
  static Val toF32(KernelBuilder &k, Val pair, mlir::Type element,
                   unsigned row);

  /// Factors and offsets of the lane's two rows within one group.
  struct Group {
    Val factor[2], oddFactor[2]; ///< pairs; of even and odd registers' slots
    Val factorLow[2];            ///< what rounding to pairs left, or null
    Val offset[2], oddOffset[2];
    Val offsetLow[2]; ///< added to the scaled value, or null
    Val raise[2];     ///< kRaised less the zero point in each byte, or null
  };
  Group group(Val scales, Val zeros);
  /// The four registers of a step.
  KernelBuilder::Vals fragment(llvm::ArrayRef<Val> words, const Group &group);

private:
  bool isInteger() const { return mlir::isa<mlir::IntegerType>(code); }
  bool bf16() const { return element.isBF16(); }
  /// One fma makes the scaled value.
  bool isFused() const;
  /// Zero points are subtracted from codes as bytes.
  bool subtractsBytes() const;
  /// value = bits left by base() * 2^unit().
  int unit() const;
  /// Power of two that scaled floats are kept below their value by.
  int headroom() const;

  Val base(llvm::ArrayRef<Val> words, unsigned j);
  Val integerBase(llvm::ArrayRef<Val> words, unsigned j);
  KernelBuilder::Vals raisedBases(Val word, const Group &group);
  Val floatBase(llvm::ArrayRef<Val> words, unsigned j);

  struct Split {
    Val high, low; ///< pairs; low may be null
  };
  /// A row's scale times 2^exponent, twice.
  Split scalePair(Val scales, unsigned row, int exponent);
  Split split(Val f32, bool low);
  void setZeros(Group &group, Val zeros);

  Val pairConstant(double value);
  Val pairPower(int exponent);
  Val duplicate(Val f32);
  Val fma(Val a, Val b, Val c);
  Val mul(Val a, Val b);

  KernelBuilder &k;
  kernels::LowBitWeight weight;
  mlir::Type element, code;
  bool scaled;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_LOWBITFORMAT_H
