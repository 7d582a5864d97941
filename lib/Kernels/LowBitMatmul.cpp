//===- LowBitMatmul.cpp - Products with packed weights --------------------===//

#include "fusion/Kernels/LowBitMatmul.h"

#include "CardFamilies.h"

#include "fusion/Kernels/CardLaunch.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// What a block may have.
static constexpr unsigned kSharedBytes = 232448;
/// What each of two has: 1 KiB of every block is the system's.
static constexpr unsigned kHalfBytes = 233472 / 2 - 1024;
static constexpr unsigned kBarrierBytes = 256, kMostStages = 16;

static unsigned alignTo(unsigned bytes, unsigned to) {
  return (bytes + to - 1) / to * to;
}

bool kernels::scalesInOneStep(const LowBitWeight &weight, Type element) {
  return element.isBF16() && isa<IntegerType>(weight.code()) && !weight.zeros &&
         weight.scale().isBF16() &&
         (weight.implicitZero == 0 ||
          llvm::isPowerOf2_64(uint64_t(weight.implicitZero)));
}

bool LowBitMatmul::scalesSums(const LowBitTile &t) const {
  const LowBitWeight &w = weights[0];
  // Of a second block, ptxas would read sums while products are under way.
  if (!scaled || t.columns > 32 || t.blocks > 1 || w.group % kLowBitTurn != 0 ||
      scalesInOneStep(w, element))
    return false;
  // Floats are multiplied by a power of two as it is.
  return isa<IntegerType>(w.code()) || !element.isBF16() || !w.scale().isBF16();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

unsigned LowBitMatmul::stageGroups(const LowBitTile &t) const {
  return unsigned(std::max<int64_t>(1, t.depth() / weights[0].group));
}

unsigned LowBitMatmul::boxRows(const LowBitTile &t) const {
  return unsigned(std::min<int64_t>(t.columns, std::max<int64_t>(mostRows, 1)));
}

unsigned LowBitMatmul::lhsBytes(const LowBitTile &t) const {
  return t.columns * t.depth() * 2;
}

unsigned LowBitMatmul::codeBytes(const LowBitTile &t) const {
  return productRows(t) * t.depth() * weights[0].bits / 8;
}

unsigned LowBitMatmul::scaleBytes(const LowBitTile &t) const {
  if (!scaled)
    return 0;
  return productRows(t) * stageGroups(t) * stripBytes(weights[0].scale());
}

unsigned LowBitMatmul::zeroBytes(const LowBitTile &t) const {
  if (!weights[0].zeros)
    return 0;
  return productRows(t) * stageGroups(t) * stripBytes(weights[0].zero());
}

unsigned LowBitMatmul::productBytes(const LowBitTile &t) const {
  return codeBytes(t) + alignTo(scaleBytes(t), 128) +
         alignTo(zeroBytes(t), 128);
}

unsigned LowBitMatmul::filledBytes(const LowBitTile &t) const {
  return products() * (codeBytes(t) + scaleBytes(t) + zeroBytes(t));
}

unsigned LowBitMatmul::stageBytes(const LowBitTile &t) const {
  return alignTo(lhsBytes(t) + products() * productBytes(t), kTileAlignment);
}

unsigned LowBitMatmul::chunkColumns(const LowBitTile &t) const {
  return std::min(t.columns, 32 / t.blocks);
}

static unsigned roomOf(const LowBitTile &t) {
  return (t.resident == 2 ? kHalfBytes : kSharedBytes) - kBarrierBytes;
}

unsigned LowBitMatmul::tileBoxes(const LowBitTile &t) const {
  return t.columns / kLowBitBoxRows * (products() == 2 ? 1 : t.blocks);
}

// As many as cost no stage (one more of three is worth more than two boxes at a
// time); or all of eight, which then wait for nothing, where three turns
// remain.
unsigned LowBitMatmul::sendBuffers(const LowBitTile &t) const {
  constexpr unsigned kEach = kLowBitBoxBytes * kLowBitConsumers;
  unsigned all = tileBoxes(t);
  auto stagesWith = [&](unsigned buffers) {
    return std::min((roomOf(t) - buffers * kEach) / stageBytes(t), kMostStages);
  };
  if (all == 8 && stagesWith(8) >= 3 * kLowBitTurn / t.depth())
    return 8;
  unsigned buffers = 4;
  while (buffers > 1 && (stagesWith(buffers) < stagesWith(1) || buffers > all))
    buffers /= 2;
  return buffers;
}

unsigned LowBitMatmul::areaBytes(const LowBitTile &t) const {
  if (sends(t))
    return sendBuffers(t) * kLowBitBoxBytes;
  unsigned columns = t.divides() ? t.columns : chunkColumns(t);
  return t.blocks * columns * sumStride(t) * 4;
}

unsigned LowBitMatmul::sumsBytes(const LowBitTile &t) const {
  return areaBytes(t) * kLowBitConsumers * t.cluster;
}

// Warp groups that take turns have stages of their own: of one that the other
// has not yet seen filled, the parity of its barrier says nothing.
unsigned LowBitMatmul::stages(const LowBitTile &t) const {
  unsigned room = roomOf(t) - sumsBytes(t);
  unsigned turnStages = kLowBitTurn / t.depth();
  unsigned all = std::min(room / stageBytes(t), kMostStages);
  return t.sharers > 1 ? all / (turnStages * t.sharers) * turnStages * t.sharers
                       : all;
}

unsigned LowBitMatmul::barrierOffset(const LowBitTile &t) const {
  return stages(t) * stageBytes(t) + sumsBytes(t);
}

unsigned LowBitMatmul::sharedBytes() const {
  unsigned bytes = 0;
  for (const LowBitTile &t : plan.tiles)
    bytes = std::max(bytes, barrierOffset(t) + kBarrierBytes);
  return bytes;
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

int64_t LowBitMatmul::gridBlocks() const {
  int64_t most =
      int64_t(kCardMultiprocessors) * resident() / cluster() * cluster();
  int64_t items = 0;
  for (const LowBitTile &t : plan.tiles) {
    int64_t columnTiles =
        mostRows > most * int64_t(t.columns)
            ? most
            : int64_t(llvm::divideCeil(std::max<int64_t>(mostRows, 1),
                                       int64_t(t.columns)));
    items = std::max(items, rowTiles(t) * columnTiles * t.cluster);
  }
  return std::clamp<int64_t>(items, 1, most);
}

bool LowBitMatmul::streams(const LowBitTile &t) const {
  int64_t columnTiles = llvm::divideCeil(
      std::min<int64_t>(std::max<int64_t>(mostRows, 1), 1 << 20),
      int64_t(t.columns));
  return !t.divides() && t.columns >= 128 &&
         rowTiles(t) * columnTiles > kCardMultiprocessors;
}

int64_t LowBitMatmul::workspaceBytes() const {
  int64_t bytes = 0;
  for (const LowBitTile &t : plan.tiles)
    if (streams(t))
      bytes = std::max(bytes, gridBlocks() * int64_t(t.rows()) * t.columns * 4);
  return bytes;
}

unsigned LowBitMatmul::counterBytes() const {
  // The counter of rows, and the rows.
  if (norm) {
    int64_t rows = 0;
    for (const LowBitTile &t : plan.tiles)
      rows = std::max(rows, int64_t(llvm::alignTo(mostRows, t.columns)));
    return unsigned(kNormOffset + rows * turns() * kLowBitTurn * 2);
  }
  return workspaceBytes() ? unsigned(gridBlocks()) * kLowBitConsumers * 4 : 0;
}

static artifact::DType elementsOf(unsigned bytes) {
  return bytes == 1   ? artifact::DType::U8
         : bytes == 2 ? artifact::DType::U16
                      : artifact::DType::U32;
}

static bool isSame(const artifact::TensorMap &a, const artifact::TensorMap &b) {
  return a.argument == b.argument && a.box == b.box && a.dims == b.dims;
}

std::pair<std::vector<artifact::TensorMap>, std::vector<LowBitMatmul::TileMaps>>
LowBitMatmul::allMaps() const {
  std::vector<artifact::TensorMap> maps;
  auto add = [&](const artifact::TensorMap &map) {
    for (unsigned i = 0; i < maps.size(); ++i)
      if (isSame(maps[i], map))
        return i;
    maps.push_back(map);
    return unsigned(maps.size() - 1);
  };
  auto strips = [&](BlockArgument argument, const LowBitWeight &w,
                    const LowBitTile &t) {
    unsigned bytes = stripBytes(elementType(argument));
    artifact::TensorMap map;
    map.argument = argument.getArgNumber();
    map.type = elementsOf(bytes);
    map.dims = {SymExpr(kStripRows), SymExpr(w.groups()), SymExpr(w.strips())};
    map.strides = {SymExpr(int64_t(16 * bytes)),
                   SymExpr(int64_t(16 * bytes) * w.groups())};
    map.box = {16, stageGroups(t), productRows(t) / 16};
    return add(map);
  };
  std::vector<TileMaps> tiles;
  for (const LowBitTile &t : plan.tiles) {
    TileMaps of;
    artifact::TensorMap x;
    x.argument = lhs.argument;
    x.type = element.isBF16() ? artifact::DType::BF16 : artifact::DType::F16;
    x.byteOffset = lhs.offset * SymExpr(2);
    x.dims = {SymExpr(k), m};
    x.strides = {lhs.stride * SymExpr(2)};
    x.box = {64, boxRows(t)};
    x.swizzle = 128;
    if (!norm) {
      of.lhs = add(x);
      x.box[1] = partRows(t);
      of.lhsPart = add(x);
    }
    for (const LowBitWeight &w : weights) {
      artifact::TensorMap map;
      map.argument = w.codes.getArgNumber();
      map.type = artifact::DType::U32;
      map.dims = {SymExpr(int64_t(kUnitBytes / 4)), SymExpr(w.units()),
                  SymExpr(w.strips())};
      map.strides = {SymExpr(kUnitBytes), SymExpr(kUnitBytes * w.units())};
      map.box = {unsigned(kUnitBytes / 4),
                 unsigned(t.depth() / w.unitColumns()), productRows(t) / 16};
      of.codes.push_back(add(map));
      if (scaled)
        of.scales.push_back(strips(w.scales, w, t));
      if (w.zeros)
        of.zeros.push_back(strips(w.zeros, w, t));
    }
    tiles.push_back(std::move(of));
  }
  for (const ResultBox &box : results)
    maps.push_back(box.map);
  return {std::move(maps), std::move(tiles)};
}

std::vector<artifact::TensorMap> LowBitMatmul::maps() const {
  return allMaps().first;
}
LowBitMatmul::TileMaps LowBitMatmul::mapsOf(unsigned tile) const {
  return allMaps().second[tile];
}
unsigned LowBitMatmul::resultMap() const {
  return unsigned(maps().size() - results.size());
}

//===----------------------------------------------------------------------===//
// What the template takes
//===----------------------------------------------------------------------===//

static bool areAlike(const LowBitWeight &a, const LowBitWeight &b) {
  return a.code() == b.code() && a.scale() == b.scale() &&
         a.zero() == b.zero() && a.group == b.group &&
         a.oneScale == b.oneScale && a.implicitZero == b.implicitZero;
}

/// Whether all that follows the products is made of their own elements: what
/// else it read would lie across the threads, whose sums are transposed.
static bool readsProductsAlone(KernelOp kernel) {
  return llvm::all_of(*kernel.getBlock(), [](Operation &op) {
    return isa<MatmulOp, DequantizeOp>(op) ||
           llvm::none_of(op.getOperands(), llvm::IsaPred<BlockArgument>);
  });
}

/// Groups that a stage and a turn divide evenly.
static bool takesGroup(const LowBitWeight &w) {
  return w.group == w.k || w.group == 16 || w.group == 32 || w.group == 64 ||
         w.group % kLowBitTurn == 0;
}

static LowBitProblem problemOf(const LowBitMatmul &mm) {
  const LowBitWeight &w = mm.weights[0];
  LowBitProblem p;
  p.products = mm.products();
  p.n = mm.n * p.products;
  p.k = mm.k;
  p.bits = w.bits;
  p.norm = mm.norm.has_value();
  p.sent = !mm.results.empty();
  if (mm.scaled)
    p.bits += 8.0 * stripBytes(w.scale()) / double(w.group);
  if (w.zeros)
    p.bits += 8.0 * stripBytes(w.zero()) / double(w.group);
  if (isa<FloatType>(w.code()))
    p.decode = w.bits == 4 ? 1.5 : 1.2;
  else if (w.zeros || !mm.element.isBF16())
    p.decode = 1.25;
  return p;
}

/// The norm that makes lhs, of an operand or of a sum of two.
static std::optional<LowBitNorm> findNorm(KernelOp kernel, Value lhs) {
  LowBitNorm norm;
  norm.op = lhs.getDefiningOp<RmsNormOp>();
  if (!norm.op)
    return std::nullopt;
  norm.sum = norm.op.getInput().getDefiningOp<AddOp>();
  if (norm.sum)
    for (auto [i, value] : llvm::enumerate(kernel.getYield().getValues()))
      if (value == norm.sum.getResult())
        norm.result = unsigned(i);
  return norm;
}

/// What of a norm the template computes; else why not.
static const char *checkNorm(const LowBitMatmul &mm) {
  RmsNormOp op = mm.norm->op;
  if (mm.mostRows > kLowBitNormRows)
    return "many rows have their norm computed before";
  if (mm.k > kLowBitNormColumns || mm.k % 8 != 0)
    return "rows of the norm before the product are too long";
  if (elementType(op.getInput()) != mm.element)
    return "the norm before the product is of another type";
  if (!mm.lhs.offset.isConstant() ||
      (mm.norm->addend && !mm.norm->addend->offset.isConstant()))
    return "the norm's rows begin at an unknown place";
  if (Value weight = op.getWeight()) {
    if (!isa<BlockArgument>(weight) || elementType(weight) != mm.element ||
        numElements(weight.getType()) != SymExpr(mm.k))
      return "the norm's weight is no operand of k elements of lhs's type";
  }
  if (llvm::any_of(op->getUsers(),
                   [](Operation *user) { return !isa<MatmulOp>(user); }))
    return "others read the norm";
  AddOp sum = mm.norm->sum;
  if (sum && hasStorage(cast<RankedTensorType>(sum.getType())))
    return "the normalised sum is a state";
  if (sum && llvm::any_of(sum->getUsers(), [&](Operation *user) {
        return user != op && !isa<YieldOp>(user);
      }))
    return "the product's epilogue reads the normalised sum";
  return nullptr;
}

std::optional<LowBitMatmul> kernels::getLowBitMatmul(KernelOp kernel,
                                                     unsigned mostResident,
                                                     std::string &reason) {
  auto refuse = [&](const char *why) {
    if (reason.empty())
      reason = why;
    return std::nullopt;
  };
  LowBitMatmul mm;
  SmallVector<Operation *> before;
  for (auto product : kernel.getBlock()->getOps<MatmulOp>())
    if ((mm.norm = findNorm(kernel, product.getLhs())))
      break;
  if (mm.norm) {
    before.push_back(mm.norm->op);
    if (mm.norm->sum)
      before.push_back(mm.norm->sum);
  }
  auto shape = getTileProducts(kernel, reason, before);
  if (!shape)
    return std::nullopt;
  if (!shape->flat)
    return refuse("no product of matrices");
  mm.space = shape->space;
  mm.m = shape->m;
  auto n = shape->n.asConstant();
  for (MatmulOp product : shape->products) {
    auto weight = getLowBitWeight(kernel, product, reason);
    if (!weight)
      return std::nullopt;
    if (!mm.weights.empty() && !areAlike(mm.weights[0], *weight))
      return refuse("weights of a gated product differ in form");
    mm.weights.push_back(*weight);
  }
  const LowBitWeight &first = mm.weights[0];
  if (!n || *n != first.n)
    return refuse("a weight is used in part");
  mm.n = first.n;
  mm.k = first.k;
  if (!takesGroup(first))
    return refuse("groups of columns that share a scale are neither 16, 32 or "
                  "64 nor a multiple of 128");
  if (first.zeros && first.oneScale)
    return refuse("one zero point for all");
  MatmulOp product = first.product;
  mm.element = elementType(product.getLhs());
  if ((!mm.element.isBF16() && !mm.element.isF16()) ||
      elementType(product.getRhs()) != mm.element)
    return refuse("operands are not 16-bit floats of one type");
  auto rowsOf = [&](Value value) {
    auto operand =
        getMatmulOperand(value, mm.m, mm.k, product.getTransposeLhs(),
                         /*flat=*/true, mm.space.size(), reason);
    if (operand && operand->major != Major::K) {
      refuse("lhs is not contiguous along k");
      operand.reset();
    }
    return operand;
  };
  Value source = product.getLhs();
  if (mm.norm) {
    source = mm.norm->op.getInput();
    if (Value weight = mm.norm->op.getWeight())
      mm.norm->weight = dyn_cast<BlockArgument>(weight);
    if (mm.norm->sum) {
      source = mm.norm->sum.getLhs();
      Value other = mm.norm->sum.getRhs();
      if (getSymShape(other) != getSymShape(source) ||
          elementType(other) != elementType(source))
        return refuse("the normalised sum is of different tensors");
      mm.norm->addend = rowsOf(other);
      if (!mm.norm->addend)
        return std::nullopt;
    }
  }
  auto lhs = rowsOf(source);
  if (!lhs)
    return std::nullopt;
  mm.lhs = *lhs;
  mm.scaled = !first.oneScale && first.group < first.k;
  auto [minRows, maxRows] =
      getRowBounds(kernel, mm.m).value_or(RowBounds{1, INT64_MAX});
  mm.mostRows = maxRows;
  if (mm.norm)
    if (const char *why = checkNorm(mm))
      return refuse(why);
  if (!mm.norm && readsProductsAlone(kernel))
    mm.results = getResultBoxes(kernel, mm.space, /*flat=*/true, mm.m);
  for (ResultBox &box : mm.results)
    box.map.box[1] = kLowBitBoxRows;
  mm.problem = problemOf(mm);
  mm.plan = planLowBit(mm.problem, minRows, maxRows, mostResident);
  if (llvm::none_of(mm.plan.tiles,
                    [&](const LowBitTile &t) { return mm.sends(t); }))
    mm.results.clear();
  return mm;
}
