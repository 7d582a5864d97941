//===- LowBit.h - Packed weights of 4 and 8 bits ----------------*- C++ -*-===//
//
// How quantised weights lie in the card's memory, and which of them a product
// reads: shared by the pass that chooses to pack, Link which packs, and the
// templates which read. One layout serves every number of rows of lhs.
//
// Codes ("fragments"): a unit of 512 bytes has 16 rows (n) and 64 columns (k)
// of 4-bit codes or 32 of 8-bit codes. Units are ordered [N/16][K/columns], so
// that a strip of 16 rows is streamed along K. In a unit lane l has the 16
// bytes at 16 l, in the order in which the A fragment of mma.m16n8k16 (and of
// wgmma) wants them: register j (0..3), half e (0..1) of step s (16 columns)
// is row l/4 + 8 (j & 1), column 16 s + 2 (l % 4) + 8 (j >> 1) + e.
//   4 bits: word s is step s; the 16-bit half e holds register j in slot j.
//   8 bits: words 2s and 2s+1 are step s; half e of word 2s + (j >> 1) holds
//           register j in slot j & 1.
// Integers are in slot i at bit i * bits; signed ones with the sign flipped, so
// that all are unsigned. Floats are spread so that masks and shifts leave them
// as bits of a 16-bit float (see codeMoves).
//
// Scales and zero points ("strips"): [N/16][G][16], row r of a strip at
// 2 (r % 8) + r / 8. Elements of at least a byte; signed integer zero points
// have their sign flipped like the codes.
//
// Rows past N and columns past K are zero bits.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_LOWBIT_H
#define FUSION_KERNELS_LOWBIT_H

#include "fusion/Dialect/Fusion/FusionOps.h"

namespace fusion::kernels {

enum class PackedLayout { RowMajor, Fragments, Strips };
/// The names in plan.constant and artifact::Weight.
constexpr const char *kFragmentsLayout = "fragments";
constexpr const char *kStripsLayout = "strips";
/// #fusion.config lists the packed operands of a kernel: fragments, strips =
/// array<i64: operands>.
constexpr const char *kFragmentsParam = "fragments";
constexpr const char *kStripsParam = "strips";
/// And why a quantised weight is not packed: unpacked = "..".
constexpr const char *kUnpackedParam = "unpacked";

/// How an operand of the kernel lies in memory.
PackedLayout getPackedLayout(KernelOp kernel, unsigned operand);
/// Its name; "" for row-major.
llvm::StringRef getLayoutName(KernelOp kernel, unsigned operand);
/// The layout of that name.
PackedLayout getPackedLayout(llvm::StringRef name);

constexpr int64_t kStripRows = 16, kUnitBytes = 512;

/// Codes that the layout has: integers of 4 and 8 bits, E2M1, E4M3, E5M2.
bool isLowBitCode(mlir::Type element);
/// Bits of a code as stored; 4 or 8.
unsigned codeBits(mlir::Type element);
/// Columns of a unit: 64 of 4-bit codes, 32 of 8-bit codes.
int64_t unitColumns(unsigned bits);

/// Where a code lies: the number of a 16-bit half of the packed memory, and a
/// slot in it (0..3 or 0..1).
struct CodePlace {
  int64_t half;
  unsigned slot;
};
CodePlace getCodePlace(int64_t row, int64_t column, int64_t k, unsigned bits);

/// The bits `mask` of a code are in its half `left` bits further up (down,
/// when negative).
struct BitMove {
  unsigned mask;
  int left;
};
llvm::SmallVector<BitMove, 3> getCodeMoves(mlir::Type element, unsigned slot);
/// What is flipped in a code before it is placed: the sign of signed integers.
unsigned getCodeFlip(mlir::Type element);
/// The bits of a half that hold the code, and back.
uint16_t placeCode(mlir::Type element, unsigned slot, unsigned code);
unsigned takeCode(mlir::Type element, unsigned slot, uint16_t half);

/// Number of the element (row, group) of scales or zero points in strips.
int64_t getStripPlace(int64_t row, int64_t group, int64_t groups);
/// Bytes of an element in strips.
unsigned stripBytes(mlir::Type element);

/// Bytes of a packed tensor of row-major shape [rows, columns].
int64_t fragmentBytes(int64_t rows, int64_t columns, unsigned bits);
int64_t packedBytes(PackedLayout layout, mlir::RankedTensorType type);

/// A quantised weight of a product as the low-bit templates read it:
/// value = (code - zero point) * scale * globalScale * factor.
struct LowBitWeight {
  MatmulOp product;
  DequantizeOp dequantize;
  mlir::BlockArgument codes;
  mlir::BlockArgument scales;      ///< null: the constant in `factor`
  mlir::BlockArgument zeros;       ///< null: `implicitZero`
  mlir::BlockArgument globalScale; ///< of one element (NVFP4), or null
  double factor = 1;               ///< constant scales
  int64_t n = 0, k = 0;
  int64_t group = 0;     ///< columns that share a scale; k: one a row
  bool oneScale = false; ///< scales have one element, or are null
  /// Of codes as stored (sign flipped). Floating-point zero points are to be
  /// raised by it; integer ones are stored like the codes.
  int64_t implicitZero = 0;
  unsigned bits = 4; ///< of a code

  mlir::Type code() const { return elementType(codes); }
  mlir::Type scale() const; ///< null without scales
  mlir::Type zero() const;  ///< null without zero points
  int64_t unitColumns() const { return kernels::unitColumns(bits); }
  int64_t units() const { return (k + unitColumns() - 1) / unitColumns(); }
  int64_t strips() const { return (n + kStripRows - 1) / kStripRows; }
  int64_t groups() const { return oneScale ? 1 : (k + group - 1) / group; }
};

/// The weight of a product inside a group or kernel, however its operands lie;
/// nullopt, with a reason, when the templates do not take its form.
std::optional<LowBitWeight> describeLowBitWeight(MatmulOp product,
                                                 std::string &reason);
/// The same for operands that the kernel has packed.
std::optional<LowBitWeight> getLowBitWeight(KernelOp kernel, MatmulOp product,
                                            std::string &reason);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_LOWBIT_H
