//===- SkinnyShape.cpp - Products of few rows -----------------------------===//

#include "fusion/Kernels/SkinnyShape.h"

#include "CardFamilies.h"

#include "fusion/Kernels/KernelShape.h"
#include "fusion/Kernels/StridedView.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

namespace {

/// Registers of a thread hold so many columns of lhs.
constexpr unsigned kRegisterColumns = 32;

/// Numbers of the products that `value` depends on.
SmallVector<unsigned> productsOf(Value value, ArrayRef<SkinnyWeight> weights) {
  SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<unsigned> found;
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    for (auto [i, weight] : llvm::enumerate(weights))
      if (weight.product == op)
        found.push_back(i);
    llvm::append_range(open, op->getOperands());
  }
  llvm::sort(found);
  return found;
}

bool isSupportedFloat(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 32;
}

/// An argument whose rows (N) of K elements follow each other in memory.
void findStreamed(SkinnyWeight &weight, int64_t k) {
  MatmulOp product = weight.product;
  Type element = elementType(product.getRhs());
  auto view = getStridedView(product.getRhs());
  if (!view || !(element.isBF16() || element.isF16() || element.isF32()))
    return;
  SymShape shape = getSymShape(product.getRhs());
  size_t rank = shape.size();
  bool transposed = product.getTransposeRhs();
  SymExpr n = shape[transposed ? rank - 2 : rank - 1];
  SymExpr alongN = view->strides[transposed ? rank - 2 : rank - 1];
  SymExpr alongK = view->strides[transposed ? rank - 1 : rank - 2];
  auto offset = view->offset.asConstant();
  bool dense = (alongK == SymExpr(1) || k == 1) &&
               (alongN == SymExpr(k) || n == SymExpr(1));
  if (!dense || !offset)
    return;
  weight.argument = view->argument;
  weight.offset = *offset;
}

/// Sorts products into bundles and results to them; a reason on failure.
std::string bundle(KernelOp kernel, SkinnyShape &shape) {
  llvm::EquivalenceClasses<unsigned> classes;
  for (unsigned i = 0; i < shape.weights.size(); ++i)
    classes.insert(i);
  auto results = kernel.getYield().getValues();
  SmallVector<SmallVector<unsigned>> needed;
  for (Value result : results) {
    needed.push_back(productsOf(result, shape.weights));
    for (unsigned product : needed.back())
      classes.unionSets(needed.back().front(), product);
  }
  llvm::DenseMap<unsigned, unsigned> bundleOf;
  for (unsigned i = 0; i < shape.weights.size(); ++i) {
    unsigned leader = classes.getLeaderValue(i);
    auto [it, inserted] = bundleOf.try_emplace(leader, shape.bundles.size());
    if (inserted)
      shape.bundles.emplace_back();
    shape.bundles[it->second].products.push_back(i);
  }
  for (auto [i, result] : llvm::enumerate(results)) {
    if (needed[i].empty()) {
      shape.rowResults.push_back(i);
      continue;
    }
    unsigned number = bundleOf[classes.getLeaderValue(needed[i].front())];
    shape.bundles[number].results.push_back(i);
  }
  for (SkinnyBundle &b : shape.bundles) {
    b.space = getSymShape(shape.weights[b.products[0]].product.getResult());
    for (unsigned product : b.products)
      if (getSymShape(shape.weights[product].product.getResult()) != b.space)
        return "products of different shapes meet";
    for (unsigned result : b.results)
      if (!getStridedOutput(results[result], b.space))
        return "a result is no view of the products' space";
    auto n = b.space.empty() ? std::nullopt : b.space.back().asConstant();
    if (!n || *n > (1 << 22))
      return "the number of columns is not known";
    b.firstRow = shape.rows;
    b.rows = *n;
    shape.rows +=
        shape.isLowBit() ? int64_t(llvm::alignTo(*n, kStripRows)) : *n;
    if (b.products.size() != shape.bundles[0].products.size())
      return "results of different numbers of products";
  }
  shape.productsPerRow = shape.bundles[0].products.size();
  return "";
}

/// The packed weights of all products, when they are of one format.
void findLowBit(KernelOp kernel, SkinnyShape &shape) {
  Type element = elementType(shape.lhs);
  if (!(element.isBF16() || element.isF16() || element.isF32()) ||
      shape.k % 8 != 0)
    return;
  SmallVector<LowBitWeight, 4> found;
  for (SkinnyWeight &weight : shape.weights) {
    std::string reason;
    auto own = getLowBitWeight(kernel, weight.product, reason);
    if (!own || elementType(weight.product.getRhs()) != element)
      return;
    if (own->oneScale && own->zeros)
      return;
    found.push_back(*own);
    const LowBitWeight &first = found.front();
    if (own->code() != first.code() || own->scale() != first.scale() ||
        own->zero() != first.zero() || own->group != first.group ||
        own->oneScale != first.oneScale ||
        own->implicitZero != first.implicitZero || own->k != shape.k)
      return;
  }
  shape.lowBit = std::move(found);
}

/// 32-bit registers of the scales and zero points of two rows.
unsigned scaleRegisters(const LowBitWeight &weight) {
  unsigned count = 0;
  for (Type type : {weight.scale(), weight.zero()})
    if (type && !weight.oneScale)
      count += type.getIntOrFloatBitWidth() == 32 ? 2 : 1;
  return count;
}

/// All threads make lhs; a warp walks the strips of its block in steps, of
/// which it has the words in registers, twice.
void splitLowBit(SkinnyShape &shape, unsigned registerPieces) {
  const LowBitWeight &weight = shape.lowBit[0];
  shape.vector = 8;
  shape.threads = kChainBlocks * kChainThreads;
  shape.threadsPerRow = shape.threads;
  unsigned registers = 4 * registerPieces + registerPieces;
  // A warp has steps enough to take turns with the two in registers.
  constexpr int64_t kLeastSteps = 4;
  int64_t warps = shape.threads / 32;
  for (shape.pieces = registerPieces;; shape.pieces /= 2) {
    int64_t most = std::min<int64_t>(256, shape.stepColumns());
    shape.span = weight.group == weight.k ? most : std::gcd(weight.group, most);
    bool fits =
        4 * shape.pieces + shape.scaleLoads() * scaleRegisters(weight) <=
        registers;
    int64_t steps = shape.rowsPerBlock() / kStripRows * shape.productsPerRow *
                    shape.stepsPerStrip();
    bool many = shape.pieces <= 4 || steps >= kLeastSteps * warps;
    if (shape.pieces == 1 || (fits && many))
      break;
  }
}

/// How threads split a row, and what each of them holds.
void split(SkinnyShape &shape, unsigned registerPieces) {
  Type element = elementType(shape.weights[0].product.getRhs());
  unsigned bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  shape.vector = shape.streamed ? 16 / bytes : 1;
  unsigned vectors = unsigned(llvm::divideCeil(shape.k, shape.vector));
  unsigned most = std::max(1u, registerPieces / shape.productsPerRow);
  bool warpRow = shape.k <= 32 * kRegisterColumns && vectors <= 32 * most;
  shape.threadsPerRow = warpRow ? 32 : kChainThreads;
  unsigned pieces = unsigned(llvm::divideCeil(vectors, shape.threadsPerRow));
  shape.turns = unsigned(llvm::divideCeil(pieces, most));
  shape.pieces = unsigned(llvm::divideCeil(pieces, shape.turns));
  // Many columns and the pieces would not fit in the registers together.
  shape.sharedLhs =
      shape.turns > 1 || shape.pieces * shape.vector > kRegisterColumns;
  int64_t groups = kChainThreads / shape.threadsPerRow;
  unsigned useful = unsigned(llvm::divideCeil(shape.rowsPerBlock(), groups));
  shape.rowsAtOnce = shape.turns > 1 ? 1
                                     : std::clamp(most / shape.pieces, 1u,
                                                  std::max(1u, useful));
}

} // namespace

int64_t SkinnyShape::scalesPerStep() const {
  const LowBitWeight &weight = lowBit[0];
  if (weight.oneScale)
    return 0;
  int64_t columns = stepColumns();
  if (columns % weight.group == 0)
    return columns / weight.group;
  return weight.group % columns == 0 || weight.group == k ? 1 : columns / span;
}

unsigned SkinnyShape::scaleLanes() const {
  if (elementType(lhs).isF32())
    return 1;
  return unsigned(std::min<int64_t>(4, stepColumns() / span));
}

std::optional<SkinnyShape> kernels::getSkinnyShape(KernelOp kernel,
                                                   unsigned registerPieces,
                                                   std::string &reason) {
  auto refuse = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  SkinnyShape shape;
  for (auto product : kernel.getBlock()->getOps<MatmulOp>())
    shape.weights.push_back({product, {}, 0});
  if (shape.weights.empty())
    return refuse("has no product");
  MatmulOp first = shape.weights[0].product;
  shape.lhs = first.getLhs();
  SymShape lhs = getSymShape(shape.lhs);
  auto k = first.getContractedSize().asConstant();
  if (!k || *k < 1 || lhs.empty() || first.getTransposeLhs())
    return refuse("the contracted size is not known");
  shape.k = *k;
  shape.space = {lhs, 1, numElements(ArrayRef(lhs).drop_back()), lhs.back()};
  if (shape.space.rows != SymExpr(1))
    return refuse("lhs has more than one row");
  for (SkinnyWeight &weight : shape.weights) {
    MatmulOp product = weight.product;
    SymShape rhs = getSymShape(product.getRhs());
    bool matrix = rhs.size() >= 2 && llvm::all_of(ArrayRef(rhs).drop_back(2),
                                                  [](const SymExpr &e) {
                                                    return e == SymExpr(1);
                                                  });
    if (product.getLhs() != shape.lhs || product.getTransposeLhs() || !matrix ||
        !isSupportedFloat(elementType(product.getLhs())) ||
        !isSupportedFloat(elementType(product.getRhs())))
      return refuse("products of different operands or types");
    findStreamed(weight, *k);
  }
  // What is reduced before the products are lhs's rows.
  std::string none;
  if (std::optional<RowSpace> reduced = getRowSpace(kernel, none)) {
    if (reduced->rows != shape.space.rows ||
        reduced->width != shape.space.width)
      return refuse("reductions run over other rows than the products'");
  } else if (none != "has no reduction") {
    return refuse("reduces axes that are not the last ones");
  }
  findLowBit(kernel, shape);
  if (std::string why = bundle(kernel, shape); !why.empty()) {
    reason = why;
    return std::nullopt;
  }
  if (shape.rows > (1 << 22))
    return refuse("too many columns");
  Type element = elementType(first.getRhs());
  int64_t perPiece = 128 / std::max(1u, element.getIntOrFloatBitWidth());
  shape.streamed = shape.isLowBit() ||
                   (*k % perPiece == 0 &&
                    llvm::all_of(shape.weights, [&](const SkinnyWeight &w) {
                      return w.argument && w.offset % perPiece == 0 &&
                             elementType(w.argument) == element;
                    }));
  if (shape.isLowBit())
    splitLowBit(shape, registerPieces);
  else
    split(shape, registerPieces);
  if (shape.sharedBytes() > kMostSharedBytes)
    return refuse("lhs does not fit in shared memory");
  return shape;
}

/// Nothing but products of one space with operands where they lie.
static bool isPlain(const SkinnyShape &shape) {
  return getStridedView(shape.lhs) && shape.bundles.size() == 1 &&
         shape.productsPerRow <= 2 && shape.rowResults.empty();
}

std::vector<artifact::TensorMap> SkinnyTiles::maps() const {
  WgmmaMatmul boxes = product;
  boxes.boxRows = boxRows;
  std::vector<artifact::TensorMap> maps = boxes.operandMaps({columns()});
  if (tilesDeep == 1)
    return maps;
  // K is two axes.
  for (artifact::TensorMap &map : llvm::drop_begin(maps)) {
    map.dims = {SymExpr(kTileDepth), map.dims[1],
                SymExpr(product.k / kTileDepth)};
    map.strides.push_back(SymExpr(kTileRowBytes));
    map.box = {kTileDepth, 8, tilesDeep};
  }
  return maps;
}

llvm::SmallVector<SkinnyTiles, 3> SkinnyTiles::forRows() const {
  llvm::SmallVector<SkinnyTiles, 3> result;
  // A known number of rows is one box, of any height.
  for (unsigned most = boxRows; most < rows && most % 8 == 0; most *= 2) {
    result.push_back(*this);
    result.back().rows = most;
  }
  result.push_back(*this);
  return result;
}

namespace {

/// A product of few rows of lhs whose operands lie along K.
struct StreamedProduct {
  WgmmaMatmul product;
  RowBounds rows;
};

} // namespace

static std::optional<StreamedProduct>
getStreamedProduct(KernelOp kernel, int64_t mostRows, std::string &reason) {
  auto refuse = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  auto product = getWgmmaMatmul(kernel, reason);
  if (!product)
    return std::nullopt;
  auto rows = getRowBounds(kernel, product->m);
  if (!rows || rows->most > mostRows)
    return refuse("more rows than the template holds");
  if (rows->most < 1)
    return refuse("no rows");
  if (!product->flat || product->lhs.major != Major::K ||
      product->rhs[0].major != Major::K)
    return refuse("operands are not contiguous along K");
  if (product->n > (1 << 22) || product->k > (1 << 22))
    return refuse("more columns than are counted");
  return StreamedProduct{*product, *rows};
}

std::optional<SkinnyTiles> kernels::getSkinnyTiles(KernelOp kernel,
                                                   std::string &reason) {
  auto streamed = getStreamedProduct(kernel, kWgmmaRows, reason);
  if (!streamed)
    return std::nullopt;
  const RowBounds &rows = streamed->rows;
  SkinnyTiles tiles;
  tiles.product = streamed->product;
  bool known = rows.least == rows.most;
  tiles.rows = unsigned(llvm::alignTo(rows.most, 8));
  // Boxes that lie outside the tensor are slow: one of all rows where their
  // number is known. Others fill the tile.
  tiles.boxRows = known ? unsigned(rows.most) : std::min(tiles.rows, 16u);
  if (!known)
    tiles.rows = unsigned(llvm::alignTo(tiles.rows, tiles.boxRows));
  // Blocks with much to stream (products beyond 20 us) take pieces of rows
  // twice as long, in stages of all of a multiprocessor's memory. With more
  // rows that gains nothing.
  constexpr int64_t kLongStream = 80;
  bool longer = tiles.units() >= kLongStream * int64_t(tiles.blocks()) &&
                tiles.product.k % (2 * kTileDepth) == 0 && rows.least <= 32;
  if (longer)
    tiles.tilesDeep = 2;
  // So do stages where rows are many or vary; else there is room for a block of
  // the next kernel beside this one's.
  bool alone = longer || tiles.rows > 32 || !known;
  tiles.mostBytes = alone ? 226 * 1024 : 112 * 1024;
  tiles.chunks = kernel.getYield().getNumOperands() > 1 ? 2 : 1;
  // With many rows, tiles of the usual layout, whose blocks share lhs, are
  // faster where a block has little to stream.
  constexpr int64_t kManyUnits = 40;
  if (rows.least > 32 && tiles.units() < kManyUnits * tiles.blocks()) {
    reason = "no launch has few rows";
    return std::nullopt;
  }
  return tiles;
}

std::optional<FewRows> kernels::getFewRows(KernelOp kernel,
                                           std::string &reason) {
  auto refuse = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  auto streamed = getStreamedProduct(kernel, 16, reason);
  if (!streamed)
    return std::nullopt;
  const WgmmaMatmul &product = streamed->product;
  if (streamed->rows.least < 1)
    return refuse("a launch may have no rows");
  FewRows few;
  few.product = product;
  few.rows = streamed->rows.most > 8 ? 16 : 8;
  if (product.k % (FewRows::kWarps * FewRows::kColumns))
    return refuse("warps have no whole pieces of rows");
  // With more registers of lhs, or few strips of weights, tiles are faster: lhs
  // takes longer to load than it gains. So they are where results wait for what
  // the epilogue reads.
  constexpr int64_t kMostRegisters = 48, kLeastStrips = 8;
  if (few.registers() > kMostRegisters)
    return refuse("lhs does not fit in registers");
  if (product.n / (few.columns() * int64_t(few.blocks())) < kLeastStrips)
    return refuse("weights are small");
  if (kernel.getBlock()->getNumArguments() != 1 + product.products.size())
    return refuse("the epilogue reads operands");
  return few;
}

// A thread that has no registers for the fewest pieces has none at all.
void kernels::addSkinny(KernelOp kernel, std::vector<CardLaunch> &launches) {
  for (unsigned pieces : {8u, 4u, 2u}) {
    std::string reason;
    auto shape = getSkinnyShape(kernel, pieces, reason);
    // The general template shares K between blocks: better than pulling.
    if (!shape || (!shape->streamed && isPlain(*shape)))
      break;
    CardLaunch launch;
    launch.family = CardLaunch::Family::Skinny;
    launch.vector = shape->vector;
    launch.residentBlocks = shape->residentBlocks();
    launch.registerPieces = pieces;
    launch.spillAllowance = shape->isLowBit() ? 32 : 0;
    addStage(launch, kernel, shape->threads, int64_t(shape->blocks()));
    launch.stages[0].sharedBytes = shape->sharedBytes();
    launches.push_back(std::move(launch));
  }
  if (!launches.empty())
    return;
  std::string reason;
  if (auto few = getFewRows(kernel, reason)) {
    CardLaunch launch;
    launch.family = CardLaunch::Family::FewRows;
    addStage(launch, kernel, FewRows::kThreads, int64_t(few->blocks()));
    launch.stages[0].sharedBytes = few->sharedBytes();
    launches.push_back(std::move(launch));
  }
  if (auto tiles = getSkinnyTiles(kernel, reason)) {
    CardLaunch launch;
    launch.family = CardLaunch::Family::SkinnyTiles;
    launch.residentBlocks = tiles->mostBytes > 114 * 1024 ? 1 : kChainBlocks;
    addStage(launch, kernel, SkinnyTiles::kThreads, int64_t(tiles->blocks()));
    for (const SkinnyTiles &t : tiles->forRows())
      launch.stages[0].sharedBytes =
          std::max(launch.stages[0].sharedBytes, t.sharedBytes());
    launch.stages[0].maps = tiles->maps();
    launch.workspaceBytes = SymExpr(tiles->workspaceBytes());
    launch.counterBytes = tiles->counterBytes();
    launches.push_back(std::move(launch));
  }
}
