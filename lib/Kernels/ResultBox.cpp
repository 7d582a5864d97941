//===- ResultBox.cpp - Results of products as tensor maps see them --------===//

#include "fusion/Kernels/StridedView.h"
#include "fusion/Kernels/WgmmaMatmul.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// A multiple of the 16 bytes that tensor maps count in.
static bool isWholePieces(const SymExpr &stride) {
  return bool(stride.exactDiv(SymExpr(8)));
}

static std::optional<ResultBox> getResultBox(Value result, unsigned argument,
                                             const SymShape &space, bool flat,
                                             const SymExpr &m) {
  Type element = elementType(result);
  auto output = getStridedOutput(result, space);
  if (!output || !(element.isBF16() || element.isF16()))
    return std::nullopt;
  const SymShape &strides = output->strides;
  size_t rank = space.size();
  SymExpr rowStride = strides[rank - 2];
  if (flat) {
    auto merged = reshapeStrides(ArrayRef(space).drop_back(),
                                 ArrayRef(strides).drop_back(), {m});
    if (!merged)
      return std::nullopt;
    rowStride = (*merged)[0];
  }
  // Of a single row, or column, no stride is known.
  bool known = strides.back() == SymExpr(1) && rowStride.isConstant() &&
               *rowStride.asConstant() > 0;
  if (!known || !isWholePieces(rowStride) || !isWholePieces(space.back()))
    return std::nullopt;
  ResultBox box;
  box.map.argument = argument;
  box.map.type =
      element.isBF16() ? artifact::DType::BF16 : artifact::DType::F16;
  box.map.byteOffset = SymExpr(0);
  box.map.dims = {space.back(), m};
  box.map.strides = {rowStride * SymExpr(2)};
  box.map.box = {kResultBoxColumns, kWgmmaRows};
  box.map.swizzle = 128;
  for (size_t axis = flat ? 0 : rank - 2; axis-- > 0;) {
    if (space[axis] == SymExpr(1))
      continue;
    if (!isWholePieces(strides[axis]) || strides[axis] == SymExpr(0))
      return std::nullopt;
    box.batchAxes.insert(box.batchAxes.begin(), unsigned(axis));
    box.map.dims.push_back(space[axis]);
    box.map.strides.push_back(strides[axis] * SymExpr(2));
    box.map.box.push_back(1);
  }
  if (box.batchAxes.size() > 3)
    return std::nullopt;
  return box;
}

std::vector<ResultBox> kernels::getResultBoxes(KernelOp kernel,
                                               const SymShape &space, bool flat,
                                               const SymExpr &m) {
  std::vector<ResultBox> boxes;
  unsigned argument = kernel.getBlock()->getNumArguments();
  for (Value result : kernel.getYield().getValues()) {
    auto box = getResultBox(result, argument++, space, flat, m);
    if (!box)
      return {};
    boxes.push_back(std::move(*box));
  }
  return boxes;
}
