//===- FoldConstants.cpp - Constant folding by interpretation -------------===//
//
// An op whose operands are all small constants becomes a constant. Results
// above the limit stay ops: Link evaluates them, or kernels do.
//
//===----------------------------------------------------------------------===//

#include "fusion/Eval/Eval.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace fusion;

namespace {
struct FoldConstantsPass
    : PassWrapper<FoldConstantsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldConstantsPass)

  explicit FoldConstantsPass(int64_t maxBytes = 65536) : maxBytes(maxBytes) {}
  FoldConstantsPass(const FoldConstantsPass &other)
      : PassWrapper(other), maxBytes(other.maxBytes) {}

  StringRef getArgument() const override { return "fusion-fold-constants"; }
  StringRef getDescription() const override {
    return "evaluate ops whose operands are small constants";
  }

  bool isFoldable(Operation *op) {
    if (op->getNumResults() != 1 || op->getNumRegions() != 0 ||
        isa<ConstantOp, WeightOp>(op) || !isa<FusableOpInterface>(op))
      return false;
    auto bytes = numBytes(op->getResult(0).getType()).asConstant();
    if (!bytes || *bytes > maxBytes)
      return false;
    return llvm::all_of(op->getOperands(), [](Value v) {
      auto constant = v.getDefiningOp<ConstantOp>();
      return constant && isa<DenseElementsAttr>(constant.getValue());
    });
  }

  void runOnOperation() override {
    SmallVector<Operation *> dead;
    getOperation().walk([&](Operation *op) {
      if (!isFoldable(op))
        return;
      eval::Evaluator evaluator({}, maxBytes * 8);
      auto tensor = evaluator.evaluate(op->getResult(0));
      if (failed(tensor))
        return;
      OpBuilder builder(op);
      auto constant =
          ConstantOp::create(builder, op->getLoc(), tensor->toAttr());
      op->getResult(0).replaceAllUsesWith(constant);
      dead.push_back(op);
      ++numFolded;
    });
    for (Operation *op : llvm::reverse(dead))
      op->erase();
  }

  int64_t maxBytes;
  Statistic numFolded{this, "folded", "ops evaluated at compile time"};
};
} // namespace

std::unique_ptr<Pass> eval::createFoldConstantsPass(int64_t maxBytes) {
  return std::make_unique<FoldConstantsPass>(maxBytes);
}

void eval::registerFoldConstantsPass() {
  PassRegistration<FoldConstantsPass>();
}
