//===- CardLaunch.cpp - How a kernel is launched on the card --------------===//

#include "CardFamilies.h"

#include "fusion/Kernels/SkinnyShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

SymExpr kernels::ceilDiv(const SymExpr &a, int64_t b) {
  return *SymExpr::floorDiv(a + SymExpr(b - 1), SymExpr(b));
}

unsigned kernels::smallestElement(KernelOp kernel, const SymExpr &elements) {
  unsigned bytes = 4;
  auto look = [&](Value v) {
    unsigned bits = elementBits(elementType(v));
    if (bits == 16 && numElements(v.getType()) == elements)
      bytes = 2;
  };
  for (Value v : kernel.getBlock()->getArguments())
    look(v);
  for (Value v : kernel.getYield().getValues())
    look(v);
  return bytes;
}

bool kernels::hasPackedResult(KernelOp kernel) {
  return llvm::any_of(kernel.getYield().getValues(),
                      [](Value v) { return isPacked(elementType(v)); });
}

void kernels::addStage(CardLaunch &launch, KernelOp kernel, unsigned threads,
                       SymExpr grid) {
  artifact::CardStage stage;
  stage.symbol = kernel.getSymName().str();
  if (!launch.stages.empty())
    stage.symbol += "_" + std::to_string(launch.stages.size());
  stage.threads = threads;
  stage.grid = std::move(grid);
  launch.stages.push_back(std::move(stage));
}

unsigned kernels::vectorWidth(const SymExpr &width, unsigned minBytes) {
  for (unsigned v = 16 / minBytes; v > 1; v /= 2)
    if (width.exactDiv(SymExpr(int64_t(v))))
      return v;
  return 1;
}

std::vector<CardLaunch> kernels::getCardLaunches(KernelOp kernel) {
  std::vector<CardLaunch> launches;
  StringRef family = kernel.getConfig().getFamily().getValue();
  if (family == "row_reduction")
    addRowReductions(kernel, launches);
  else if (family == "matmul")
    addMatmuls(kernel, launches);
  else if (family == "attention")
    addAttentions(kernel, launches);
  addPulled(kernel, launches);
  // The kernels of a chain have one footprint: blocks of the next kernel take
  // the places of those that end, evenly, and no multiprocessor has to change
  // what it gives to shared memory in between. Larger grids need the room.
  if (isProgrammatic(kernel))
    for (CardLaunch &launch : launches)
      for (artifact::CardStage &stage : launch.stages)
        if (auto blocks = stage.grid.asConstant();
            blocks && *blocks <= kMultiprocessors * kChainBlocks)
          stage.sharedBytes = std::max(stage.sharedBytes, kChainSharedBytes);
  return launches;
}

bool kernels::isProgrammatic(KernelOp kernel) {
  return bool(kernel.getConfig().getParams().get("programmatic"));
}

bool kernels::isStepInvariant(KernelOp kernel, unsigned operand) {
  auto list =
      kernel.getConfig().getParams().getAs<DenseI64ArrayAttr>("step_invariant");
  return list && llvm::is_contained(list.asArrayRef(), operand);
}

std::optional<RowBounds> kernels::getRowBounds(KernelOp kernel,
                                               const SymExpr &m) {
  if (auto rows = m.asConstant())
    return RowBounds{*rows, *rows};
  auto bucket = kernel.getConfig().getParams().getAs<DenseI64ArrayAttr>("rows");
  if (bucket && bucket.size() == 2)
    return RowBounds{bucket[0], bucket[1]};
  return std::nullopt;
}
