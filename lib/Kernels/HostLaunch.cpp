//===- HostLaunch.cpp - How a host kernel is launched ---------------------===//
//
// A worker should get at least some ten microseconds of work: the grains are
// that much of streamed weights, of row passes and of elements.
//
//===----------------------------------------------------------------------===//

#include "fusion/Kernels/HostLaunch.h"
#include "fusion/Kernels/KernelShape.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// Items of `each` elements that make `elements` of them, at least one.
static SymExpr itemsOf(int64_t elements, const SymExpr &each) {
  if (auto n = each.asConstant())
    return std::max<int64_t>(1, elements / std::max<int64_t>(*n, 1));
  auto quotient = SymExpr::floorDiv(elements, SymExpr::max(each, SymExpr(1)));
  return quotient ? SymExpr::max(*quotient, SymExpr(1)) : SymExpr(1);
}

static SymExpr tiles(const SymExpr &size, int64_t tile) {
  return *SymExpr::floorDiv(size + SymExpr(tile - 1), tile);
}

static HostLaunch pointwise(KernelOp kernel) {
  HostLaunch launch;
  SymExpr grid = 1;
  SymExpr columns = 1;
  for (Value v : kernel.getYield().getValues()) {
    SymShape shape = getSymShape(v);
    grid = SymExpr::max(grid, getPointwiseItems(shape));
    if (!shape.empty())
      columns = SymExpr::max(columns, SymExpr::min(shape.back(), kHostColumns));
  }
  launch.grid = grid;
  launch.grain = itemsOf(8192, columns);
  return launch;
}

static HostLaunch rowReduction(KernelOp kernel) {
  RowShape shape = *getRowShape(kernel);
  HostLaunch launch;
  launch.grid = shape.rows;
  launch.grain = itemsOf(8192, shape.columns);
  launch.scratchBytes = getRowScratch(kernel, shape.columns);
  return launch;
}

static HostLaunch matmul(KernelOp kernel) {
  MatmulShape shape = *getMatmulShape(kernel);
  HostLaunch launch;
  SymExpr columnTiles = tiles(shape.n, shape.columnTile);
  // A decoded panel of rhs serves all rows: they are not split then.
  bool splitRows = shape.plainRhs && !shape.isGemvOnly();
  SymExpr rowTiles = splitRows ? tiles(shape.m, kHostRowTile) : SymExpr(1);
  launch.grid = shape.batch * rowTiles * columnTiles;
  int64_t streamed = shape.lowBit.empty() ? 32 * 1024 : 96 * 1024;
  launch.grain = shape.isGemvOnly()
                     ? itemsOf(streamed, shape.k * SymExpr(shape.columnTile))
                     : SymExpr(1);
  launch.scratchBytes = shape.scratchBytes;
  return launch;
}

static HostLaunch attention(KernelOp kernel) {
  AttentionShape shape = *getAttentionShape(kernel);
  HostLaunch launch;
  launch.grid = shape.batch * shape.heads * tiles(shape.s, kHostQueryTile);
  launch.grain = 1;
  launch.scratchBytes = getAttentionScratch(shape).total;
  return launch;
}

/// Rows of packed results that may share a byte: two workers must not write it.
static bool sharesBytes(KernelOp kernel) {
  return llvm::any_of(kernel.getYield().getValues(), [](Value v) {
    unsigned bits = elementType(v).getIntOrFloatBitWidth();
    if (bits == 1 || bits >= 8)
      return false;
    SymShape storage = getStorageShape(v.getType());
    auto row = storage.empty() ? std::nullopt : storage.back().asConstant();
    return !row || *row * bits % 8 != 0;
  });
}

static HostLaunch launchOf(KernelOp kernel) {
  switch (getHostTemplate(kernel)) {
  case HostTemplate::Pointwise:
    return pointwise(kernel);
  case HostTemplate::RowReduction:
    return rowReduction(kernel);
  case HostTemplate::Matmul:
    return matmul(kernel);
  case HostTemplate::Attention:
    return attention(kernel);
  case HostTemplate::Append: {
    HostLaunch launch;
    launch.grid = getAppendShape(kernel)->rows;
    launch.grain = 64;
    return launch;
  }
  case HostTemplate::Sequential:
    return HostLaunch();
  }
  return HostLaunch();
}

HostLaunch kernels::getHostLaunch(KernelOp kernel) {
  HostLaunch launch = launchOf(kernel);
  if (sharesBytes(kernel))
    launch.grain = SymExpr::max(launch.grid, SymExpr(1));
  return launch;
}
