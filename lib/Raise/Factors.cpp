//===- Factors.cpp - Products, whatever their association -----------------===//

#include "Factors.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// Products of more factors than this are no pattern's.
static constexpr size_t maxFactors = 12;

static void collect(Value value, Type element, bool inverse,
                    llvm::function_ref<bool(Value)> isLeaf,
                    SmallVectorImpl<Factor> &factors) {
  Operation *op = value.getDefiningOp();
  bool isProduct = op && isFloat(value) && elementType(value) == element &&
                   factors.size() < maxFactors && !(isLeaf && isLeaf(value));
  if (isProduct && isa<MulOp, DivOp>(op)) {
    collect(op->getOperand(0), element, inverse, isLeaf, factors);
    collect(op->getOperand(1), element, inverse != isa<DivOp>(op), isLeaf,
            factors);
  } else if (isProduct && isa<ReciprocalOp>(op)) {
    collect(op->getOperand(0), element, !inverse, isLeaf, factors);
  } else {
    factors.push_back({value, inverse});
  }
}

SmallVector<Factor> raise::getFactors(Value value,
                                      llvm::function_ref<bool(Value)> isLeaf) {
  SmallVector<Factor> factors;
  collect(value, elementType(value), false, isLeaf, factors);
  return factors;
}

Value raise::createProduct(OpBuilder &builder, Location loc, Value value,
                           ArrayRef<Factor> factors) {
  for (const Factor &factor : factors)
    value = factor.inverse
                ? DivOp::create(builder, loc, value, factor.value).getResult()
                : MulOp::create(builder, loc, value, factor.value).getResult();
  return value;
}

Value raise::createMultiple(OpBuilder &builder, Location loc, Value value,
                            double factor) {
  Type element = elementType(value);
  Attribute attr = FloatAttr::get(element, factor);
  Value number = ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(RankedTensorType::get({}, element), attr));
  return MulOp::create(builder, loc, value.getType(), value, number);
}

bool raise::meetIn(Operation *root, Value a, Value b,
                   llvm::function_ref<bool(Value)> isLeaf) {
  if (!isa<MulOp, DivOp>(root))
    return false;
  bool has[2][2];
  for (unsigned i : {0u, 1u}) {
    SmallVector<Factor> factors = getFactors(root->getOperand(i), isLeaf);
    for (unsigned j : {0u, 1u})
      has[i][j] = llvm::any_of(factors, [&](const Factor &factor) {
        return factor.value == (j == 0 ? a : b);
      });
  }
  bool together = (has[0][0] && has[0][1]) || (has[1][0] && has[1][1]);
  return !together && ((has[0][0] && has[1][1]) || (has[1][0] && has[0][1]));
}
