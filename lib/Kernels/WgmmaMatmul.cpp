//===- WgmmaMatmul.cpp - Products on the tensor cores ---------------------===//

#include "fusion/Kernels/WgmmaMatmul.h"

#include "CardFamilies.h"

#include "fusion/Kernels/CardLaunch.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// What a block may have, less the barriers.
static constexpr unsigned kSharedBytes = 232448 - 1024;

unsigned MatmulTile::stageBytes() const {
  return (kMatmulTileRows + columns) * kTileRowBytes;
}

unsigned MatmulTile::stagingBytes() const {
  // A slice of a warp group's accumulators of each other block.
  unsigned sums = (cluster - 1) * (registers() / cluster) * 128 * 4;
  return std::max(2 * kStagingBytes, sums);
}

unsigned MatmulTile::stages() const {
  return std::min(
      (kSharedBytes - kMatmulConsumers * stagingBytes()) / stageBytes(), 8u);
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

llvm::SmallVector<unsigned, 4> WgmmaMatmul::widths() const {
  llvm::SmallVector<unsigned, 4> result;
  for (const MatmulPlanEntry &entry : plan)
    if (!llvm::is_contained(result, entry.schedule.columns))
      result.push_back(entry.schedule.columns);
  llvm::sort(result, std::greater<unsigned>());
  return result;
}

bool WgmmaMatmul::splits(unsigned columns) const {
  return llvm::any_of(plan, [&](const MatmulPlanEntry &entry) {
    return entry.schedule.columns == columns && entry.schedule.splits > 1;
  });
}

unsigned WgmmaMatmul::stagingOffset() const {
  unsigned bytes = 0;
  for (unsigned columns : widths()) {
    MatmulTile t = tile(columns);
    bytes = std::max(bytes, t.stages() * t.stageBytes());
  }
  return bytes;
}

unsigned WgmmaMatmul::stagingBytes() const {
  unsigned bytes = 0;
  for (unsigned columns : widths())
    bytes = std::max(bytes, tile(columns).stagingBytes());
  return bytes;
}

unsigned WgmmaMatmul::barrierOffset() const {
  return stagingOffset() + kMatmulConsumers * stagingBytes();
}
unsigned WgmmaMatmul::sharedBytes() const { return barrierOffset() + 256; }

/// Row tiles of the last launch that an entry serves, at most.
static int64_t lastRowTiles(const std::vector<MatmulPlanEntry> &plan, size_t i,
                            int64_t tilesPerRow) {
  int64_t most = kCardMultiprocessors /
                 std::max<int64_t>(1, tilesPerRow * plan[i].schedule.splits);
  if (i + 1 < plan.size())
    most = std::min(most, plan[i + 1].firstRowTiles - 1);
  return most;
}

int64_t WgmmaMatmul::workspaceBytes() const {
  int64_t bytes = 0;
  for (const auto &[i, entry] : llvm::enumerate(plan)) {
    if (entry.schedule.splits == 1 || entry.schedule.clustered)
      continue;
    int64_t columns = entry.schedule.columns;
    int64_t perRow = llvm::divideCeil(n * int64_t(products.size()), columns) *
                     batch.asConstant().value_or(1);
    bytes = std::max(bytes, lastRowTiles(plan, i, perRow) * perRow *
                                entry.schedule.splits * columns *
                                kMatmulTileRows * 4);
  }
  return bytes;
}

unsigned WgmmaMatmul::counterBytes() const {
  if (workspaceBytes() == 0)
    return 0;
  // A counter for each tile and consumer; at most half of the blocks' number of
  // tiles is split.
  return kCardMultiprocessors / 2 * kMatmulConsumers * 4;
}

int64_t WgmmaMatmul::gridBlocks() const {
  auto count = batch.asConstant();
  const MatmulSchedule &s = plan[0].schedule;
  if (!count || rowTiles == 0 || plan.size() != 1)
    return kCardMultiprocessors;
  int64_t items =
      *count * rowTiles *
      int64_t(llvm::divideCeil(n * int64_t(products.size()), s.columns)) *
      s.splits;
  return std::clamp<int64_t>(items, 1, kCardMultiprocessors);
}

llvm::SmallVector<unsigned, 4> WgmmaMatmul::boxColumns() const {
  if (rhs[0].major == Major::MN)
    return {64};
  llvm::SmallVector<unsigned, 4> columns = widths();
  for (unsigned &c : columns)
    c = resultColumns(c);
  return columns;
}

unsigned WgmmaMatmul::weightMap(unsigned columns) const {
  llvm::SmallVector<unsigned, 4> boxes = boxColumns();
  const unsigned *set = llvm::find(boxes, resultColumns(columns));
  return 1 + (set == boxes.end() ? 0 : set - boxes.begin()) * rhs.size();
}

std::vector<artifact::TensorMap>
WgmmaMatmul::operandMaps(llvm::ArrayRef<unsigned> columns) const {
  bool bf16 = elementType(MatmulOp(products[0]).getLhs()).isBF16();
  auto make = [&](const MatmulOperand &o, const SymExpr &extent, unsigned box) {
    artifact::TensorMap map;
    map.argument = o.argument;
    map.type = bf16 ? artifact::DType::BF16 : artifact::DType::F16;
    map.byteOffset = o.offset * SymExpr(2);
    bool alongK = o.major == Major::K;
    map.dims = {alongK ? SymExpr(k) : extent, alongK ? extent : SymExpr(k)};
    map.strides = {o.stride * SymExpr(2)};
    map.box = {64, alongK ? box : 64};
    // The innermost batch axis first.
    for (size_t i = o.batchAxes.size(); i-- > 0;) {
      map.dims.push_back(space[o.batchAxes[i]]);
      map.strides.push_back(o.batchStrides[i] * SymExpr(2));
      map.box.push_back(1);
    }
    map.swizzle = 128;
    return map;
  };
  std::vector<artifact::TensorMap> result{make(lhs, m, boxRows)};
  for (unsigned box : columns)
    for (const MatmulOperand &o : rhs)
      result.push_back(make(o, n, box));
  return result;
}

std::vector<artifact::TensorMap> WgmmaMatmul::maps() const {
  std::vector<artifact::TensorMap> result = operandMaps(boxColumns());
  for (const ResultBox &box : results)
    result.push_back(box.map);
  return result;
}

//===----------------------------------------------------------------------===//
// What the template takes
//===----------------------------------------------------------------------===//

static bool isMultipleOf8(const SymExpr &e) {
  return bool(e.exactDiv(SymExpr(8)));
}

std::optional<MatmulOperand>
kernels::getMatmulOperand(Value value, const SymExpr &rows, int64_t depth,
                          bool transposed, bool flat, unsigned spaceRank,
                          std::string &reason) {
  auto view = getStridedView(value);
  if (!view) {
    reason = "an operand is computed element by element";
    return std::nullopt;
  }
  SymShape shape = getSymShape(value), strides = view->strides;
  size_t rank = shape.size();
  // Axes of rows and k; with `flat`, all leading axes are rows.
  SymExpr rowStride, depthStride = strides[transposed ? rank - 2 : rank - 1];
  if (flat) {
    auto merged = reshapeStrides(ArrayRef(shape).drop_back(),
                                 ArrayRef(strides).drop_back(), {rows});
    if (!merged) {
      reason = "rows of the lhs do not lie at one distance";
      return std::nullopt;
    }
    rowStride = (*merged)[0];
  } else {
    rowStride = strides[transposed ? rank - 1 : rank - 2];
  }
  MatmulOperand o;
  o.argument = view->argument.getArgNumber();
  o.offset = view->offset;
  // A single row may lie anywhere.
  if (depthStride == SymExpr(1)) {
    o.major = Major::K;
    o.stride = rows == SymExpr(1) ? SymExpr(depth) : rowStride;
  } else if (rowStride == SymExpr(1)) {
    o.major = Major::MN;
    o.stride = depthStride;
  } else {
    reason = "an operand is contiguous along neither of its axes";
    return std::nullopt;
  }
  if (!flat)
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      if (strides[axis] != SymExpr(0)) {
        o.batchAxes.push_back(spaceRank - rank + axis);
        o.batchStrides.push_back(strides[axis]);
      }
  if (o.batchAxes.size() > 3) {
    reason = "more than three batch axes";
    return std::nullopt;
  }
  bool aligned = isMultipleOf8(o.stride) && isMultipleOf8(o.offset) &&
                 llvm::all_of(o.batchStrides, isMultipleOf8) &&
                 o.stride.isConstant() && *o.stride.asConstant() > 0;
  if (!aligned) {
    reason = "rows of an operand are not at constant multiples of 16 bytes";
    return std::nullopt;
  }
  return o;
}

bool kernels::isTileOp(Operation &op) {
  if (isa<MatmulOp, YieldOp>(op))
    return true;
  auto fusable = dyn_cast<FusableOpInterface>(op);
  return fusable && llvm::is_contained({OpClass::Constant, OpClass::Elementwise,
                                        OpClass::View},
                                       fusable.getOpClass());
}

std::optional<ProductShape>
kernels::getTileProducts(KernelOp kernel, std::string &reason,
                         ArrayRef<Operation *> before) {
  auto refuse = [&](const char *why) {
    if (reason.empty())
      reason = why;
    return std::nullopt;
  };
  auto shape = getProductShape(kernel);
  if (!shape)
    return refuse("no product, or its results lie over another space");
  for (Operation &op : *kernel.getBlock())
    if (!isTileOp(op) && !llvm::is_contained(before, &op))
      return refuse("an op of the epilogue is not elementwise");
  for (Value result : kernel.getYield().getValues())
    if (!getStridedOutput(result, shape->space) &&
        !llvm::is_contained(before, result.getDefiningOp()))
      return refuse("a result does not lie over the product");
  return shape;
}

std::optional<WgmmaMatmul> kernels::getWgmmaMatmul(KernelOp kernel,
                                                   std::string &reason) {
  auto refuse = [&](const char *why) {
    if (reason.empty())
      reason = why;
    return std::nullopt;
  };
  auto shape = getTileProducts(kernel, reason);
  if (!shape)
    return std::nullopt;
  WgmmaMatmul mm;
  mm.products = shape->products;
  mm.space = shape->space;
  mm.flat = shape->flat;
  mm.m = shape->m;
  mm.batch = shape->batch;
  auto n = shape->n.asConstant(), k = shape->k.asConstant();
  if (!n || !k || *n < 1 || *k < 1)
    return refuse("columns and depth have to be constants");
  mm.n = *n;
  mm.k = *k;
  MatmulOp first = mm.products[0];
  Type element = elementType(first.getLhs());
  if (!element.isBF16() && !element.isF16())
    return refuse("operands are not 16-bit floats");
  for (MatmulOp product : mm.products)
    if (elementType(product.getRhs()) != element)
      return refuse("operands differ in type");
  unsigned rank = mm.space.size();
  auto lhs = getMatmulOperand(first.getLhs(), mm.m, mm.k,
                              first.getTransposeLhs(), mm.flat, rank, reason);
  if (!lhs)
    return std::nullopt;
  mm.lhs = *lhs;
  for (MatmulOp product : mm.products) {
    SymExpr columns(mm.n);
    // rhs is [K, N]: what the function calls transposed is K before rows.
    auto rhs = getMatmulOperand(product.getRhs(), columns, mm.k,
                                !product.getTransposeRhs(),
                                /*flat=*/false, rank, reason);
    if (!rhs)
      return std::nullopt;
    if (mm.flat && !rhs->batchAxes.empty())
      return refuse("a weight of several matrices");
    if (!mm.rhs.empty() && mm.rhs[0].major != rhs->major)
      return refuse("weights of a gated product lie differently");
    mm.rhs.push_back(*rhs);
  }
  bool gated = mm.products.size() == 2;
  MatmulProblem &problem = mm.problem;
  problem.n = mm.n * int64_t(mm.products.size());
  problem.k = mm.k;
  problem.products = mm.products.size();
  problem.batch = std::max<int64_t>(1, mm.batch.asConstant().value_or(1));
  auto [minRows, maxRows] =
      getRowBounds(kernel, mm.m).value_or(RowBounds{1, INT64_MAX});
  // Widths of which boxes along the other axis, 64 columns of one weight, are
  // a part; K-major tiles have boxes of their own width.
  bool anyBox = mm.rhs[0].major == Major::K;
  llvm::SmallVector<unsigned> widths{256};
  if (anyBox)
    widths.push_back(224);
  if (!gated)
    widths.push_back(192);
  widths.push_back(128);
  // Two rows of tiles: enough of them for the card.
  if (!gated && maxRows > kMatmulTileRows && maxRows <= 2 * kMatmulTileRows) {
    if (anyBox)
      widths.push_back(96);
    widths.push_back(64);
  }
  // One row of tiles: narrow ones, of which there are enough for the card.
  if (maxRows <= kMatmulTileRows) {
    if (!gated || anyBox)
      widths.push_back(64);
    if (!gated && anyBox)
      widths.push_back(48);
  }
  mm.plan = planMatmul(problem, minRows, maxRows, widths,
                       /*maySplit=*/mm.batch.isConstant());
  if (mm.lhs.major == Major::K)
    mm.boxRows = unsigned(std::clamp<int64_t>(maxRows, 1, kMatmulTileRows));
  int64_t fewest =
      llvm::divideCeil(std::max<int64_t>(minRows, 1), kMatmulTileRows);
  if (maxRows <= fewest * kMatmulTileRows)
    mm.rowTiles = fewest;
  mm.results = getResultBoxes(kernel, mm.space, mm.flat, mm.m);
  return mm;
}

EarlyLoads kernels::getEarlyLoads(KernelOp kernel, const WgmmaMatmul &product) {
  auto unwritten = [&](const MatmulOperand &o) {
    return isStepInvariant(kernel, o.argument);
  };
  EarlyLoads early;
  early.weights =
      isProgrammatic(kernel) && llvm::all_of(product.rhs, unwritten);
  early.lhs = early.weights && unwritten(product.lhs);
  return early;
}
