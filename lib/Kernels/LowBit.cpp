//===- LowBit.cpp - Packed weights of 4 and 8 bits ------------------------===//

#include "fusion/Kernels/LowBit.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

PackedLayout kernels::getPackedLayout(KernelOp kernel, unsigned operand) {
  DictionaryAttr params = kernel.getConfig().getParams();
  auto lists = [&](StringRef name) {
    auto list = params.getAs<DenseI64ArrayAttr>(name);
    return list && llvm::is_contained(list.asArrayRef(), int64_t(operand));
  };
  if (lists(kFragmentsParam))
    return PackedLayout::Fragments;
  return lists(kStripsParam) ? PackedLayout::Strips : PackedLayout::RowMajor;
}

llvm::StringRef kernels::getLayoutName(KernelOp kernel, unsigned operand) {
  switch (getPackedLayout(kernel, operand)) {
  case PackedLayout::RowMajor:
    return "";
  case PackedLayout::Fragments:
    return kFragmentsLayout;
  case PackedLayout::Strips:
    return kStripsLayout;
  }
  llvm_unreachable("no such layout");
}

PackedLayout kernels::getPackedLayout(llvm::StringRef name) {
  if (name == kFragmentsLayout)
    return PackedLayout::Fragments;
  return name == kStripsLayout ? PackedLayout::Strips : PackedLayout::RowMajor;
}

bool kernels::isLowBitCode(Type element) {
  return element.isInteger(4) || element.isInteger(8) ||
         isa<Float4E2M1FNType, Float8E4M3FNType, Float8E5M2Type>(element);
}

unsigned kernels::codeBits(Type element) {
  return element.getIntOrFloatBitWidth();
}

int64_t kernels::unitColumns(unsigned bits) {
  return kUnitBytes * 8 / bits / kStripRows;
}

CodePlace kernels::getCodePlace(int64_t row, int64_t column, int64_t k,
                                unsigned bits) {
  int64_t columns = unitColumns(bits);
  int64_t units = llvm::divideCeil(k, columns);
  int64_t unit = row / kStripRows * units + column / columns;
  int64_t r = row % kStripRows, c = column % columns;
  int64_t step = c / 16, e = c % 2;
  int64_t lane = r % 8 * 4 + c % 8 / 2;
  int64_t j = r / 8 + c % 16 / 8 * 2;
  int64_t word = bits == 4 ? step : 2 * step + (j >> 1);
  unsigned slot = unsigned(bits == 4 ? j : j & 1);
  return {unit * (kUnitBytes / 2) + (lane * 4 + word) * 2 + e, slot};
}

unsigned kernels::getCodeFlip(Type element) {
  bool isSigned = isa<IntegerType>(element) && !element.isUnsignedInteger();
  return isSigned ? 1u << (element.getIntOrFloatBitWidth() - 1) : 0;
}

// E2M1: bits 15, 8, 7, 6 after a shift by 0, 3 or 6 (three codes tile twelve
// bits; the last one is in what they leave). E4M3: bits 15, 10..4 of the even
// slot; the odd slot has the gaps, 4 bits below where its exponent's low bits
// and mantissa are wanted and 4 above its sign and exponent's high bits. E5M2:
// bits 15, 11..5, and the gaps.
llvm::SmallVector<BitMove, 3> kernels::getCodeMoves(Type element,
                                                    unsigned slot) {
  if (isa<Float4E2M1FNType>(element)) {
    if (slot < 3)
      return {{8, 12 - 3 * int(slot)}, {7, 6 - 3 * int(slot)}};
    return {{8, 11}, {4, 11}, {3, 10}};
  }
  if (isa<Float8E4M3FNType>(element)) {
    if (slot == 0)
      return {{0x80, 8}, {0x7f, 4}};
    return {{0x80, 4}, {0x70, 8}, {0x0f, 0}};
  }
  if (isa<Float8E5M2Type>(element)) {
    if (slot == 0)
      return {{0x80, 8}, {0x7f, 5}};
    return {{0x80, 7}, {0x60, 7}, {0x1f, 0}};
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  return {{(1u << bits) - 1, int(bits * slot)}};
}

static unsigned shiftLeft(unsigned value, int left) {
  return left < 0 ? value >> -left : value << left;
}

uint16_t kernels::placeCode(Type element, unsigned slot, unsigned code) {
  code ^= getCodeFlip(element);
  unsigned half = 0;
  for (BitMove move : getCodeMoves(element, slot))
    half |= shiftLeft(code & move.mask, move.left);
  return uint16_t(half);
}

unsigned kernels::takeCode(Type element, unsigned slot, uint16_t half) {
  unsigned code = 0;
  for (BitMove move : getCodeMoves(element, slot))
    code |= shiftLeft(half, -move.left) & move.mask;
  return code ^ getCodeFlip(element);
}

int64_t kernels::getStripPlace(int64_t row, int64_t group, int64_t groups) {
  int64_t r = row % kStripRows;
  return (row / kStripRows * groups + group) * kStripRows + 2 * (r % 8) + r / 8;
}

unsigned kernels::stripBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

int64_t kernels::fragmentBytes(int64_t rows, int64_t columns, unsigned bits) {
  return int64_t(llvm::divideCeil(rows, kStripRows)) *
         int64_t(llvm::divideCeil(columns, unitColumns(bits))) * kUnitBytes;
}

int64_t kernels::packedBytes(PackedLayout layout, RankedTensorType type) {
  int64_t rows = type.getDimSize(0);
  int64_t columns = type.getRank() > 1 ? type.getDimSize(1) : 1;
  Type element = type.getElementType();
  if (layout == PackedLayout::Fragments)
    return fragmentBytes(rows, columns, codeBits(element));
  return int64_t(llvm::divideCeil(rows, kStripRows)) * columns * kStripRows *
         stripBytes(element);
}

//===----------------------------------------------------------------------===//
// Weights of products
//===----------------------------------------------------------------------===//

Type LowBitWeight::scale() const {
  return scales ? elementType(scales) : Type();
}
Type LowBitWeight::zero() const { return zeros ? elementType(zeros) : Type(); }

/// The number that all elements of a constant are.
static std::optional<double> splatOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                        : SplatElementsAttr();
  if (!splat)
    return std::nullopt;
  Type element = splat.getElementType();
  if (isa<FloatType>(element)) {
    llvm::APFloat number = splat.getSplatValue<llvm::APFloat>();
    bool lost;
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  }
  llvm::APInt number = splat.getSplatValue<llvm::APInt>();
  return element.isUnsignedInteger() ? double(number.getZExtValue())
                                     : double(number.getSExtValue());
}

/// An operand of one element or of one a row and group; an error otherwise.
static bool setScale(LowBitWeight &weight, Value scale, std::string &reason) {
  if (auto number = splatOf(scale)) {
    weight.factor *= *number;
    weight.oneScale = true;
    return true;
  }
  // Two levels: scales of narrow floats and one more for all of them.
  if (auto outer = scale.getDefiningOp<DequantizeOp>()) {
    bool plain = !outer.getZeroPoint() && !outer.getGroupIndex() &&
                 outer.getImplicitZeroPoint() == 0 &&
                 numElements(outer.getScale().getType()) == SymExpr(1);
    if (!plain) {
      reason = "the scales are quantised in a form of their own";
      return false;
    }
    if (auto number = splatOf(outer.getScale())) {
      weight.factor *= *number;
    } else if (auto global = dyn_cast<BlockArgument>(outer.getScale())) {
      weight.globalScale = global;
    } else {
      reason = "the scale of the scales is computed";
      return false;
    }
    scale = outer.getInput();
  }
  weight.scales = dyn_cast<BlockArgument>(scale);
  if (!weight.scales) {
    reason = "the scales are computed";
    return false;
  }
  if (!isa<FloatType>(elementType(scale)) ||
      elementType(scale).getIntOrFloatBitWidth() < 8 ||
      elementType(scale).getIntOrFloatBitWidth() > 32) {
    reason = "scales of an unknown type";
    return false;
  }
  weight.oneScale = numElements(scale.getType()) == SymExpr(1);
  return true;
}

static bool setZero(LowBitWeight &weight, std::string &reason) {
  unsigned flip = getCodeFlip(weight.code());
  Value zero = weight.dequantize.getZeroPoint();
  int64_t implicit = weight.dequantize.getImplicitZeroPoint();
  if (zero) {
    auto number = splatOf(zero);
    if (number && *number == double(int64_t(*number))) {
      implicit = int64_t(*number);
    } else {
      weight.zeros = dyn_cast<BlockArgument>(zero);
      Type element = elementType(zero);
      unsigned bits = element.getIntOrFloatBitWidth();
      bool known = isa<FloatType>(element) ? bits >= 16 && bits <= 32
                                           : bits == 4 || bits == 8;
      if (!weight.zeros || !known) {
        reason = "zero points that are computed, or of an unknown type";
        return false;
      }
      if (weight.oneScale && numElements(zero.getType()) != SymExpr(1)) {
        reason = "one scale, but several zero points";
        return false;
      }
    }
  }
  bool isFloat = isa<FloatType>(weight.code());
  if (isFloat && (weight.zeros || implicit != 0)) {
    reason = "floating-point codes with a zero point";
    return false;
  }
  weight.implicitZero = (weight.zeros ? 0 : implicit) + int64_t(flip);
  if (weight.implicitZero < 0 || weight.implicitZero > 255) {
    reason = "a zero point outside the range of the codes";
    return false;
  }
  return true;
}

static bool setGroup(LowBitWeight &weight, std::string &reason) {
  DequantizeOp op = weight.dequantize;
  weight.group = weight.k;
  if (weight.oneScale)
    return true;
  SymShape scale = getSymShape(op.getScale());
  int64_t axis = op.getAxis(), block = op.getBlockSize();
  if (scale.size() == 1) {
    if (axis == 0)
      return true;
    reason = "scales of columns";
    return false;
  }
  if (axis != 1 || block < 1) {
    reason = "blocks along another axis";
    return false;
  }
  weight.group = std::min(block, weight.k);
  if (weight.group != weight.k && weight.group % 16 != 0) {
    reason = "the group size is no multiple of 16";
    return false;
  }
  return true;
}

std::optional<LowBitWeight> kernels::describeLowBitWeight(MatmulOp product,
                                                          std::string &reason) {
  LowBitWeight weight;
  weight.product = product;
  // A dequantize in fp32 and a cast of it: the cast is the product's rounding.
  Value rhs = product.getRhs();
  if (auto cast = rhs.getDefiningOp<CastOp>();
      cast && isa<FloatType>(elementType(cast.getInput())))
    rhs = cast.getInput();
  weight.dequantize = rhs.getDefiningOp<DequantizeOp>();
  auto refuse = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  if (!weight.dequantize || !product.getTransposeRhs())
    return refuse("rhs is no transposed quantised weight");
  if (weight.dequantize.getGroupIndex())
    return refuse("columns take their scales by a group index");
  weight.codes = dyn_cast<BlockArgument>(weight.dequantize.getInput());
  if (!weight.codes || !isLowBitCode(elementType(weight.codes)))
    return refuse("the codes are no operand of 4 or 8 bits");
  SymShape shape = getSymShape(weight.codes);
  auto n = shape.size() == 2 ? shape[0].asConstant() : std::nullopt;
  auto k = shape.size() == 2 ? shape[1].asConstant() : std::nullopt;
  if (!n || !k || *n < 1 || *k < 1)
    return refuse("the codes are no matrix of known size");
  weight.n = *n;
  weight.k = *k;
  weight.bits = codeBits(weight.code());
  if (!setScale(weight, weight.dequantize.getScale(), reason) ||
      !setZero(weight, reason) || !setGroup(weight, reason))
    return std::nullopt;
  return weight;
}

std::optional<LowBitWeight> kernels::getLowBitWeight(KernelOp kernel,
                                                     MatmulOp product,
                                                     std::string &reason) {
  auto weight = describeLowBitWeight(product, reason);
  if (!weight)
    return std::nullopt;
  auto is = [&](BlockArgument argument, PackedLayout layout) {
    return getPackedLayout(kernel, argument.getArgNumber()) == layout;
  };
  auto refuse = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  if (!is(weight->codes, PackedLayout::Fragments))
    return refuse("the codes are not packed");
  PackedLayout wanted =
      weight->oneScale ? PackedLayout::RowMajor : PackedLayout::Strips;
  if ((weight->scales && !is(weight->scales, wanted)) ||
      (weight->zeros && !is(weight->zeros, wanted)))
    return refuse("the scales or zero points are not packed");
  return weight;
}
