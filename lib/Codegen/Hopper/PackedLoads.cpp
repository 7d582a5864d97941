//===- PackedLoads.cpp - Single elements of packed operands ---------------===//
//
// What general templates read of weights that lie in the layouts of
// Kernels/LowBit.h: the same places as getCodePlace and getStripPlace give, as
// code.
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::kStripRows;
using kernels::kUnitBytes;

/// Integers of less than a byte with a sign, in a byte.
static Val extendSign(KernelBuilder &k, Val byte, Type element) {
  unsigned bits = element.getIntOrFloatBitWidth();
  if (!kernels::getCodeFlip(element) || bits >= 8)
    return byte;
  ImplicitLocOpBuilder &b = k.builder();
  Val up = k.constant(byte.type(), 8 - bits);
  Value high = arith::ShLIOp::create(b, Value(byte), Value(up));
  return k.wrap(arith::ShRSIOp::create(b, high, Value(up)));
}

static Val toByte(KernelBuilder &k, Val value) {
  ImplicitLocOpBuilder &b = k.builder();
  return k.wrap(arith::TruncIOp::create(b, b.getI8Type(), Value(value)));
}

/// The code in a slot of a half (i32).
static Val takeCode(KernelBuilder &k, Val half, Val slot, Type element) {
  Val code;
  for (unsigned s = 0; s < 16 / kernels::codeBits(element); ++s) {
    Val own;
    for (kernels::BitMove move : kernels::getCodeMoves(element, s)) {
      Val moved = move.left < 0 ? half << -move.left : half >> move.left;
      Val part = moved & int64_t(move.mask);
      own = own ? own | part : part;
    }
    code = s ? k.select(slot == k.i32(s), own, code) : own;
  }
  return code ^ int64_t(kernels::getCodeFlip(element));
}

Val CardTarget::loadFragment(Val pointer, Val number, RankedTensorType type) {
  Type element = type.getElementType();
  unsigned bits = kernels::codeBits(element);
  int64_t columns = type.getDimSize(1), width = kernels::unitColumns(bits);
  int64_t units = (columns + width - 1) / width;
  Val row = number / columns, column = number % columns;
  Val unit = row / kStripRows * units + column / width;
  Val r = k.toI32(row % kStripRows), c = k.toI32(column % width);
  Val step = c / 16, j = r / 8 + c % 16 / 8 * 2;
  Val lane = r % 8 * 4 + c % 8 / 2;
  Val word = bits == 4 ? step : step * 2 + j / 2;
  Val slot = bits == 4 ? j : j % 2;
  Val half = unit * (kUnitBytes / 2) + k.toI64((lane * 4 + word) * 2 + c % 2);
  ImplicitLocOpBuilder &b = k.builder();
  Val loaded = k.load(pointer, half, b.getIntegerType(16), {2, readOnly});
  Val wide = k.wrap(arith::ExtUIOp::create(b, b.getI32Type(), Value(loaded)));
  return extendSign(k, toByte(k, takeCode(k, wide, slot, element)), element);
}

Val CardTarget::loadStrip(Val pointer, Val number, RankedTensorType type) {
  Type element = type.getElementType();
  int64_t groups = type.getRank() > 1 ? type.getDimSize(1) : 1;
  Val row = number / groups, group = number % groups;
  Val r = row % kStripRows;
  Val place =
      (row / kStripRows * groups + group) * kStripRows + r % 8 * 2 + r / 8;
  if (element.isF32() || element.isF64() || element.isF16() || element.isBF16())
    return k.load(pointer, place, element, {0, readOnly});
  Val byte = k.load(pointer, place, k.builder().getI8Type(), {0, readOnly});
  if (unsigned flip = kernels::getCodeFlip(element))
    byte = byte ^ int64_t(flip);
  return extendSign(k, byte, element);
}

Val CardTarget::loadFromLayout(kernels::PackedLayout layout, Val pointer,
                               const Index &offset, RankedTensorType type,
                               unsigned width) {
  SmallVector<Value> lanes;
  for (unsigned lane = 0; lane < width; ++lane) {
    Val number = k.toI64(k.wrap(offset.base)) + int64_t(lane);
    lanes.push_back(layout == kernels::PackedLayout::Fragments
                        ? loadFragment(pointer, number, type)
                        : loadStrip(pointer, number, type));
  }
  if (width == 1)
    return k.wrap(lanes.front());
  return k.wrap(vector::FromElementsOp::create(
      k.builder(), VectorType::get({width}, lanes.front().getType()), lanes));
}
