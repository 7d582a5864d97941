//===- CardPulled.cpp - Results pulled element by element -----------------===//

#include "CardFamilies.h"
#include "fusion/Kernels/KernelShape.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// A result, and which elements are stored where.
static PulledResult getPulledResult(KernelOp kernel, unsigned number) {
  Value value = kernel.getYield().getValues()[number];
  PulledResult result{
      number, value, getStrides(getStorageShape(value.getType())),
      0,      {},    !hasStorage(value.getType())};
  auto append = value.getDefiningOp<KvAppendOp>();
  if (append && isa<BlockArgument>(append.getPast()) &&
      hasStorage(append.getPast().getType())) {
    result.strides = getStrides(getStorageShape(append.getPast().getType()));
    int64_t axis = append.getAxis();
    SymExpr past = getSymShape(append.getPast())[axis];
    result.source = append.getUpdate();
    if (append.getLengths())
      result.append = append;
    else
      result.offset = past * result.strides[axis];
    result.dense = false;
  }
  return result;
}

SmallVector<PulledClass, 2>
kernels::getPulledClasses(KernelOp kernel, ArrayRef<unsigned> results) {
  SmallVector<PulledClass, 2> classes;
  for (unsigned number : results) {
    PulledResult result = getPulledResult(kernel, number);
    // Packed results go by the byte, alone.
    auto packed = [](const PulledResult &r) {
      return isPacked(elementType(r.source));
    };
    auto it = llvm::find_if(classes, [&](const PulledClass &c) {
      return !packed(c[0]) && !packed(result) &&
             numElements(c[0].source.getType()) ==
                 numElements(result.source.getType());
    });
    if (it == classes.end()) {
      classes.push_back({result});
      continue;
    }
    it->push_back(result);
  }
  return classes;
}

/// Ops of which an element is a loop: a vector of them is no help.
static bool loops(Operation &op) {
  return getReduction(&op) ||
         isa<MatmulOp, AttentionOp, CumSumOp, ScatterNdOp, ScatterElementsOp>(
             op);
}

void kernels::addPulled(KernelOp kernel, std::vector<CardLaunch> &launches) {
  constexpr int64_t kThreads = 256;
  SmallVector<unsigned> results(kernel.getYield().getNumOperands());
  std::iota(results.begin(), results.end(), 0);
  auto classes = getPulledClasses(kernel, results);
  auto add = [&](unsigned vector) {
    CardLaunch launch;
    launch.vector = vector;
    SymExpr grid = 0;
    for (const PulledClass &c : classes) {
      SymExpr blocks =
          ceilDiv(numElements(c[0].source.getType()), kThreads * vector);
      grid = grid == SymExpr(0) ? blocks : SymExpr::max(grid, blocks);
    }
    addStage(launch, kernel, kThreads, grid);
    launches.push_back(std::move(launch));
  };
  unsigned vector = 8;
  for (const PulledClass &c : classes)
    for (const PulledResult &r : c) {
      // A vector lies in the innermost axis.
      SymShape shape = getSymShape(r.source);
      unsigned least = smallestElement(kernel, numElements(r.source.getType()));
      vector = std::min(
          vector,
          vectorWidth(shape.empty() ? SymExpr(1) : shape.back(), least));
    }
  if (vector > 1 && llvm::none_of(*kernel.getBlock(), loops))
    add(vector);
  add(1);
}
