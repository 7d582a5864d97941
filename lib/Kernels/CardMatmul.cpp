//===- CardMatmul.cpp - Matrix products on the card -----------------------===//

#include "CardFamilies.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// At most this many rows are likely; nullopt: any number.
static std::optional<int64_t> likelyRows(KernelOp kernel,
                                         const ProductShape &shape) {
  if (auto rows = shape.m.asConstant())
    return rows;
  auto bucket = kernel.getConfig().getParams().getAs<DenseI64ArrayAttr>("rows");
  if (bucket && bucket.size() == 2)
    return bucket[1];
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
  bool wide = n && *n >= 1024;
  if (many && wide && accumulatorBytes(shape) == 4) {
    tile.repeatRows = 2;
    tile.repeatColumns = shape.products.size() == 1 ? 2 : 1;
  }
  return tile;
}

/// Blocks that share K, so that there is about one for each multiprocessor.
static unsigned chooseSplits(const ProductShape &shape, const SimtTile &tile,
                             std::optional<int64_t> rows) {
  auto n = shape.n.asConstant(), k = shape.k.asConstant(),
       batch = shape.batch.asConstant();
  if (!n || !k || !rows || *rows > tile.rows() || batch != 1)
    return 1;
  int64_t tiles = (*n + tile.columns() - 1) / tile.columns();
  constexpr int64_t kBlocks = 264, kLeastDepth = 128;
  int64_t splits =
      std::min(kBlocks / std::max<int64_t>(tiles, 1), *k / kLeastDepth);
  return unsigned(std::clamp<int64_t>(splits, 1, 32));
}

/// Tiles through shared memory and fused multiply-adds: any element types,
/// layouts, prologues and epilogues.
static std::optional<CardLaunch> simt(KernelOp kernel) {
  auto shape = getProductShape(kernel);
  if (!shape || hasPackedResult(kernel))
    return std::nullopt;
  CardLaunch launch;
  launch.family = CardLaunch::Family::SimtMatmul;
  auto rows = likelyRows(kernel, *shape);
  launch.tile = chooseTile(*shape, rows);
  launch.splits = chooseSplits(*shape, launch.tile, rows);
  SymExpr columnTiles = ceilDiv(shape->n, launch.tile.columns());
  SymExpr tiles =
      shape->batch * ceilDiv(shape->m, launch.tile.rows()) * columnTiles;
  if (launch.splits > 1) {
    int64_t count = *columnTiles.asConstant();
    launch.counterBytes = unsigned(4 * count);
    launch.workspaceBytes = SymExpr(
        int64_t(launch.splits) * int64_t(shape->products.size()) * count *
        launch.tile.rows() * launch.tile.columns() * accumulatorBytes(*shape));
  }
  addStage(launch, kernel, launch.tile.threads(),
           tiles * SymExpr(int64_t(launch.splits)));
  launch.stages.back().sharedBytes =
      launch.tile.sharedBytes(shape->products.size(), accumulatorBytes(*shape));
  return launch;
}

void kernels::addMatmuls(KernelOp kernel, std::vector<CardLaunch> &launches) {
  if (auto launch = simt(kernel))
    launches.push_back(std::move(*launch));
}
