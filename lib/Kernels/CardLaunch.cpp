//===- CardLaunch.cpp - How a kernel is launched on the card --------------===//

#include "fusion/Kernels/CardLaunch.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

namespace {

struct Reduced {
  Value input;
  SmallVector<int64_t> axes;
};

/// The axes that an op reduces; nullopt for other ops.
std::optional<Reduced> getReduced(Operation *op) {
  auto last = [](Value v) {
    return SmallVector<int64_t>{cast<RankedTensorType>(v.getType()).getRank() -
                                1};
  };
  auto from = [](Value v, int64_t axis) {
    int64_t rank = cast<RankedTensorType>(v.getType()).getRank();
    SmallVector<int64_t> axes;
    for (int64_t i = axis < 0 ? axis + rank : axis; i < rank; ++i)
      axes.push_back(i);
    return axes;
  };
  auto one = [](Value v, int64_t axis) {
    int64_t rank = cast<RankedTensorType>(v.getType()).getRank();
    return SmallVector<int64_t>{axis < 0 ? axis + rank : axis};
  };
  return llvm::TypeSwitch<Operation *, std::optional<Reduced>>(op)
      .Case<RmsNormOp>(
          [&](auto o) { return Reduced{o.getInput(), last(o.getInput())}; })
      .Case<LayerNormOp>([&](auto o) {
        return Reduced{o.getInput(), from(o.getInput(), o.getAxis())};
      })
      .Case<SoftmaxOp, ArgMaxOp>([&](auto o) {
        return Reduced{o.getInput(), one(o.getInput(), o.getAxis())};
      })
      .Case<ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp,
            ReduceAndOp, ReduceOrOp>([&](auto o) {
        return Reduced{o.getInput(), SmallVector<int64_t>(o.getAxes())};
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// Axes are the last ones of `rank`, in order.
bool areTrailing(ArrayRef<int64_t> axes, int64_t rank) {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis != rank - int64_t(axes.size()) + int64_t(i))
      return false;
  return !axes.empty();
}

/// Bytes of the smallest floating-point or integer element that is as large as
/// the iteration space; booleans and others do not narrow the vector.
unsigned smallestElement(KernelOp kernel, const SymExpr &elements) {
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

/// Operands and results as large as the iteration space.
unsigned largeValues(KernelOp kernel, const SymExpr &elements) {
  unsigned n = 0;
  for (Value v : kernel.getBlock()->getArguments())
    n += numElements(v.getType()) == elements;
  return std::max(n, 1u);
}

CardLaunch unsupported(std::string reason) {
  CardLaunch launch;
  launch.reason = std::move(reason);
  return launch;
}

SymExpr ceilDiv(const SymExpr &a, int64_t b) {
  return *SymExpr::floorDiv(a + SymExpr(b - 1), SymExpr(b));
}

/// The next function of the kernel.
void addStage(CardLaunch &launch, KernelOp kernel, unsigned threads,
              SymExpr grid) {
  artifact::CardStage stage;
  stage.symbol = kernel.getSymName().str();
  if (!launch.stages.empty())
    stage.symbol += "_" + std::to_string(launch.stages.size());
  stage.threads = threads;
  stage.grid = std::move(grid);
  launch.stages.push_back(std::move(stage));
}

CardLaunch rowReduction(KernelOp kernel, RowSpace space) {
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
  launch.space = std::move(space);
  return launch;
}

CardLaunch pointwise(KernelOp kernel) {
  CardLaunch launch;
  launch.family = CardLaunch::Family::Pointwise;
  Type first = kernel.getYield().getValues().front().getType();
  SymExpr elements = numElements(first);
  for (Value v : kernel.getYield().getValues())
    if (numElements(v.getType()) != elements)
      return unsupported("results of a pointwise kernel differ in size");
  SymShape shape = getSymShape(first);
  // Flat accesses need the whole size to be a multiple of the vector,
  // others the innermost axis.
  SymExpr inner = 1;
  for (const SymExpr &d : shape)
    inner = d;
  launch.vector = vectorWidth(inner, smallestElement(kernel, elements));
  constexpr int64_t kThreads = 256;
  addStage(launch, kernel, kThreads,
           ceilDiv(elements, kThreads * launch.vector));
  return launch;
}

} // namespace

unsigned kernels::vectorWidth(const SymExpr &width, unsigned minBytes) {
  for (unsigned v = 16 / minBytes; v > 1; v /= 2)
    if (width.exactDiv(SymExpr(int64_t(v))))
      return v;
  return 1;
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
  unsigned wanted = few ? 1 : std::min(maxChunks, std::max(1u, 16 / vector));
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
    std::optional<Reduced> reduced = getReduced(&op);
    if (!reduced)
      continue;
    SymShape shape = getSymShape(reduced->input);
    if (!areTrailing(reduced->axes, shape.size())) {
      reason = "reduces axes that are not the last ones";
      return std::nullopt;
    }
    RowSpace found;
    found.shape = shape;
    found.axes = reduced->axes.size();
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

CardLaunch kernels::getCardLaunch(KernelOp kernel) {
  StringRef family = kernel.getConfig().getFamily().getValue();
  if (kernel.getYield().getValues().empty())
    return unsupported("kernel has no results");
  if (family == "pointwise")
    return pointwise(kernel);
  if (family == "row_reduction") {
    std::string reason;
    if (std::optional<RowSpace> space = getRowSpace(kernel, reason))
      return rowReduction(kernel, std::move(*space));
    // Each result element reduces its own operands.
    if (numElements(kernel.getYield().getValues()[0].getType()) ==
        numElements(kernel.getYield().getValues().back().getType()))
      return pointwise(kernel);
    return unsupported(reason);
  }
  return unsupported(
      ("kernel family '" + family + "' has no code for sm_90a yet").str());
}
