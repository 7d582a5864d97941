//===- CardRowReduction.cpp - Rows that are reduced, on the card ----------===//

#include "CardFamilies.h"
#include "fusion/Kernels/KernelShape.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// Axes are the last ones of `rank`, in order.
static bool areTrailing(ArrayRef<int64_t> axes, int64_t rank) {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis != rank - int64_t(axes.size()) + int64_t(i))
      return false;
  return !axes.empty();
}

/// Operands and results as large as the iteration space.
static unsigned largeValues(KernelOp kernel, const SymExpr &elements) {
  unsigned n = 0;
  for (Value v : kernel.getBlock()->getArguments())
    n += numElements(v.getType()) == elements;
  return std::max(n, 1u);
}

RowLadder kernels::rowLadder(int64_t width, int64_t rows, unsigned vector,
                             unsigned values) {
  constexpr unsigned kMaxThreads = 1024, kBlock = 128;
  // A row of unknown width: a block and a loop.
  if (width == 0)
    return {256, 1, 0};
  unsigned vectors = unsigned(llvm::divideCeil(width, vector));
  // Registers bound the elements that a thread keeps: fp32 copies of each
  // value.
  unsigned budget = std::max(vector, 32u / std::max(1u, (values + 1) / 2));
  unsigned maxChunks = std::max(1u, budget / vector);
  if (vectors <= 32) {
    unsigned threads = unsigned(llvm::PowerOf2Ceil(vectors));
    return {threads, kBlock / threads, 1};
  }
  // With few rows, more threads a row: latency counts, not occupancy.
  bool few = rows > 0 && rows <= 64;
  if (!few && vectors <= 32 * std::min(maxChunks, 4u))
    return {32, kBlock / 32, unsigned(llvm::divideCeil(vectors, 32u))};
  // 32 bytes of each thread are under way, from one operand or from two.
  bool one = few || (values > 1 && vectors <= 512);
  unsigned wanted = one ? 1 : std::min(maxChunks, std::max(1u, 16 / vector));
  unsigned threads =
      unsigned(llvm::alignTo(llvm::divideCeil(vectors, wanted), 32u));
  // Whole warps that split the row evenly; a power of two balances best.
  threads = std::min(kMaxThreads, unsigned(llvm::PowerOf2Ceil(threads)));
  unsigned chunks = unsigned(llvm::divideCeil(vectors, threads));
  if (threads > 32 && chunks * (threads / 2) >= vectors && !few)
    threads /= 2;
  chunks = unsigned(llvm::divideCeil(vectors, threads));
  // Beyond the registers of 1024 threads the row is read again.
  unsigned perThread = threads == kMaxThreads
                           ? std::min(maxChunks * vector, 16u)
                           : maxChunks * vector;
  if (chunks * vector > std::max(perThread, vector))
    return {threads, 1, 0};
  return {threads, 1, chunks};
}

std::optional<RowSpace> kernels::getRowSpace(KernelOp kernel,
                                             std::string &reason) {
  std::optional<RowSpace> space;
  for (Operation &op : *kernel.getBlock()) {
    auto reduced = getReduction(&op);
    if (!reduced)
      continue;
    SymShape shape = getSymShape(reduced->first);
    if (!areTrailing(reduced->second, shape.size())) {
      reason = "reduces axes that are not the last ones";
      return std::nullopt;
    }
    RowSpace found;
    found.shape = shape;
    found.axes = reduced->second.size();
    unsigned leading = shape.size() - found.axes;
    found.rows = numElements(ArrayRef<SymExpr>(shape).take_front(leading));
    found.width = numElements(ArrayRef<SymExpr>(shape).drop_front(leading));
    if (space && (space->rows != found.rows || space->width != found.width)) {
      reason = "reductions run over different rows";
      return std::nullopt;
    }
    if (!space)
      space = found;
  }
  if (!space)
    reason = "has no reduction";
  return space;
}

static CardLaunch rowReduction(KernelOp kernel, const RowSpace &space) {
  CardLaunch launch;
  launch.family = CardLaunch::Family::RowReduction;
  SymExpr elements = space.rows * space.width;
  // A vector lies in the innermost axis.
  launch.vector =
      vectorWidth(space.shape.back(), smallestElement(kernel, elements));
  RowLadder ladder = rowLadder(space.width.asConstant().value_or(0),
                               space.rows.asConstant().value_or(0),
                               launch.vector, largeValues(kernel, elements));
  launch.threadsPerRow = ladder.threadsPerRow;
  launch.rowsPerBlock = ladder.rowsPerBlock;
  launch.chunks = ladder.chunks;
  addStage(launch, kernel, ladder.threadsPerRow * ladder.rowsPerBlock,
           ceilDiv(space.rows, ladder.rowsPerBlock));
  launch.space = space;
  return launch;
}

void kernels::addRowReductions(KernelOp kernel,
                               std::vector<CardLaunch> &launches) {
  std::string reason;
  std::optional<RowSpace> space = getRowSpace(kernel, reason);
  if (!space || hasPackedResult(kernel))
    return;
  launches.push_back(rowReduction(kernel, *space));
  if (!launches.back().chunks)
    return;
  // The row is read again for each reduction: no register holds it.
  launches.push_back(launches.back());
  launches.back().chunks = 0;
}
