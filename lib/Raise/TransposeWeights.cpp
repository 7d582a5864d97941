//===- TransposeWeights.cpp - Products read weights row by row ------------===//
//
// One stored layout for all users of a weight: [N, K], so that the elements
// that one result needs lie together. Quantised ones likewise.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"
#include "fusion/Raise/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion {
#define GEN_PASS_DEF_TRANSPOSEWEIGHTS
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

/// Whether the weight is a float matrix [K, N] that products alone read.
static bool isTransposable(WeightOp weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  Type element = type.getElementType();
  bool matrix =
      type.getRank() == 2 && isa<FloatType>(element) &&
      element.getIntOrFloatBitWidth() >= 16 &&
      !isa_and_nonnull<RankedTensorType>(weight.getSource().getStored());
  return matrix && !weight->use_empty() &&
         llvm::all_of(weight->getUses(), [](OpOperand &use) {
           auto product = dyn_cast<MatmulOp>(use.getOwner());
           return product && use.getOperandNumber() == 1 &&
                  !product.getTransposeRhs();
         });
}

static void transpose(WeightOp weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  WeightRefAttr source = weight.getSource();
  SymShape shape = getSymShape(type);
  weight.getResult().setType(
      getTensorType({shape[1], shape[0]}, type.getElementType()));
  weight.setSourceAttr(WeightRefAttr::get(
      weight.getContext(), source.getFile(), source.getOffset(),
      source.getLength(), source.getFileType(type)));
  for (Operation *product : weight->getUsers())
    cast<MatmulOp>(product).setTransposeRhs(true);
}

namespace {
struct TransposeWeightsPass final
    : fusion::impl::TransposeWeightsBase<TransposeWeightsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    raise::populateLowBitWeights(patterns);
    raise::populateDialectCanonicalizations(patterns);
    (void)raise::apply(getOperation(), std::move(patterns));
    getOperation().walk([](WeightOp weight) {
      if (isTransposable(weight))
        transpose(weight);
    });
  }
};
} // namespace
