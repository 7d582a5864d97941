//===- LowBitReason.cpp - Why a quantised weight is read slowly -----------===//

#include "fusion/Kernels/CardPrediction.h"
#include "fusion/Kernels/LowBitMatmul.h"
#include "fusion/Kernels/SkinnyShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// The dequantisation that a weight comes from, through views and elementwise
/// ops.
static DequantizeOp findDequantize(Value weight) {
  while (Operation *op = weight.getDefiningOp()) {
    if (auto dequantize = dyn_cast<DequantizeOp>(op))
      return dequantize;
    if (op->getNumOperands() == 0)
      return nullptr;
    weight = op->getOperand(0);
  }
  return nullptr;
}

static bool readsPacked(KernelOp kernel, const CardLaunch &launch) {
  if (launch.family == CardLaunch::Family::LowBitMatmul)
    return true;
  if (launch.family != CardLaunch::Family::Skinny)
    return false;
  std::string reason;
  auto shape = getSkinnyShape(kernel, launch.registerPieces, reason);
  return shape && shape->isLowBit();
}

static bool hasOneRow(MatmulOp product) {
  SymShape lhs = getSymShape(product.getLhs());
  return !product.getTransposeLhs() && !lhs.empty() &&
         numElements(ArrayRef(lhs).drop_back()) == SymExpr(1);
}

std::string kernels::whyNotLowBit(KernelOp kernel, const CardLaunch &launch) {
  MatmulOp quantised;
  for (auto product : kernel.getBlock()->getOps<MatmulOp>()) {
    if (!findDequantize(product.getRhs()))
      continue;
    quantised = product;
    std::string reason;
    if (!describeLowBitWeight(product, reason))
      return reason;
  }
  if (!quantised || readsPacked(kernel, launch))
    return "";
  auto params = kernel.getConfig().getParams();
  if (auto why = params.getAs<StringAttr>(kUnpackedParam))
    return why.str();
  std::string reason;
  if (!getLowBitWeight(kernel, quantised, reason))
    return reason;
  if (hasOneRow(quantised))
    return "products of one row differ in the form of their weights, or have "
           "other columns than a multiple of 8";
  if (getLowBitMatmul(kernel, /*mostResident=*/1, reason))
    return "too few registers";
  return reason;
}
