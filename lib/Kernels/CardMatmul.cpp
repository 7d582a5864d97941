//===- CardMatmul.cpp - Matrix products on the card -----------------------===//

#include "CardFamilies.h"

#include "fusion/Kernels/LowBitMatmul.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// At most this many rows are likely; nullopt: any number.
static std::optional<int64_t> likelyRows(KernelOp kernel,
                                         const ProductShape &shape) {
  if (auto rows = getRowBounds(kernel, shape.m))
    return rows->most;
  return std::nullopt;
}

static unsigned accumulatorBytes(const ProductShape &shape) {
  MatmulOp product = shape.products.front();
  return std::max(4u, elementBits(elementType(product.getResult())) / 8);
}

/// Large tiles where there are many; small ones fill the card sooner.
static SimtTile chooseTile(const ProductShape &shape,
                           std::optional<int64_t> rows) {
  SimtTile tile;
  if (rows && *rows <= 16) {
    tile.warpRows = 1;
    tile.warpColumns = 4;
    tile.depth = 32;
    return tile;
  }
  auto n = shape.n.asConstant();
  bool many = !rows || *rows > 64;
  bool wide = n && *n >= 2048;
  if (many && wide && accumulatorBytes(shape) == 4) {
    tile.repeatRows = 2;
    tile.repeatColumns = shape.products.size() == 1 ? 2 : 1;
  }
  return tile;
}

/// Blocks that share K, so that there are some for each multiprocessor.
static unsigned chooseSplits(const ProductShape &shape, const SimtTile &tile,
                             std::optional<int64_t> rows) {
  auto n = shape.n.asConstant(), k = shape.k.asConstant(),
       batch = shape.batch.asConstant();
  if (!n || !k || !rows || *rows > tile.rows() || batch != 1)
    return 1;
  int64_t tiles = (*n + tile.columns() - 1) / tile.columns();
  constexpr int64_t kBlocks = 528, kLeastDepth = 64;
  int64_t splits =
      std::min(kBlocks / std::max<int64_t>(tiles, 1), *k / kLeastDepth);
  return unsigned(std::clamp<int64_t>(splits, 1, 32));
}

/// Tiles through shared memory and fused multiply-adds: any element types,
/// layouts, prologues and epilogues.
static CardLaunch simt(KernelOp kernel, const ProductShape &product,
                       const SimtTile &tile) {
  CardLaunch launch;
  launch.family = CardLaunch::Family::SimtMatmul;
  auto rows = likelyRows(kernel, product);
  launch.tile = tile;
  launch.splits = chooseSplits(product, launch.tile, rows);
  SymExpr columnTiles = ceilDiv(product.n, launch.tile.columns());
  SymExpr tiles =
      product.batch * ceilDiv(product.m, launch.tile.rows()) * columnTiles;
  if (launch.splits > 1) {
    int64_t count = *columnTiles.asConstant();
    launch.counterBytes = unsigned(4 * count);
    launch.workspaceBytes = SymExpr(
        int64_t(launch.splits) * int64_t(product.products.size()) * count *
        launch.tile.rows() * launch.tile.columns() * accumulatorBytes(product));
  }
  addStage(launch, kernel, launch.tile.threads(),
           tiles * SymExpr(int64_t(launch.splits)));
  launch.stages.back().sharedBytes = launch.tile.sharedBytes(
      product.products.size(), accumulatorBytes(product));
  return launch;
}

/// 16-bit floats on the tensor cores.
static std::optional<CardLaunch> wgmma(KernelOp kernel) {
  std::string reason;
  auto mm = getWgmmaMatmul(kernel, reason);
  if (!mm)
    return std::nullopt;
  CardLaunch launch;
  launch.family = CardLaunch::Family::WgmmaMatmul;
  addStage(launch, kernel, kMatmulThreads, SymExpr(mm->gridBlocks()));
  launch.stages.back().sharedBytes = mm->sharedBytes();
  launch.stages.back().cluster = mm->cluster();
  launch.stages.back().maps = mm->maps();
  launch.workspaceBytes = SymExpr(mm->workspaceBytes());
  launch.counterBytes = mm->counterBytes();
  launch.spillAllowance = 64;
  return launch;
}

/// Packed weights, decoded on their way to the tensor cores.
static std::optional<CardLaunch> lowBit(KernelOp kernel,
                                        unsigned mostResident) {
  std::string reason;
  auto mm = getLowBitMatmul(kernel, mostResident, reason);
  if (!mm)
    return std::nullopt;
  CardLaunch launch;
  launch.family = CardLaunch::Family::LowBitMatmul;
  addStage(launch, kernel, kLowBitThreads, SymExpr(mm->gridBlocks()));
  launch.stages.back().sharedBytes = mm->sharedBytes();
  launch.stages.back().cluster = mm->cluster();
  launch.stages.back().maps = mm->maps();
  launch.workspaceBytes = SymExpr(mm->workspaceBytes());
  launch.counterBytes = mm->counterBytes();
  if (mm->resident() > 1)
    launch.residentBlocks = mm->resident();
  launch.spillAllowance = 64;
  return launch;
}

void kernels::addMatmuls(KernelOp kernel, std::vector<CardLaunch> &launches) {
  addSkinny(kernel, launches);
  for (unsigned resident : {2u, 1u})
    if (auto launch = lowBit(kernel, resident);
        launch && (resident == 1 || launch->residentBlocks > 1))
      launches.push_back(std::move(*launch));
  if (auto launch = wgmma(kernel))
    launches.push_back(std::move(*launch));
  auto shape = getProductShape(kernel);
  if (!shape || hasPackedResult(kernel))
    return;
  SimtTile tile = chooseTile(*shape, likelyRows(kernel, *shape));
  launches.push_back(simt(kernel, *shape, tile));
  if (tile.repeatRows == 1)
    return;
  // An epilogue that leaves too few registers for the large tile.
  launches.push_back(simt(kernel, *shape, SimtTile()));
}
