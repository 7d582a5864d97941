//===- Matmul.cpp - Matrix products with prologues and epilogues ----------===//
//
// Many rows: tiles through the runtime's sgemm. What it cannot read where it
// lies (other types, quantised weights, views, fused prologues) is written to
// a panel in scratch first; sums land in a tile in scratch, from which the
// epilogue stores the results. Few rows: Gemv.cpp.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"
#include "RowPasses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

MatmulKernel::MatmulKernel(KernelBuilder &k, const MatmulShape &s)
    : k(k), s(s), products(s.products),
      prologue(getPrologueRowShape(k.kernel, s)) {
  OperandRange results = k.kernel.getYield().getValues();
  for (unsigned number = 0; number < results.size(); ++number) {
    if (auto output = getStridedOutput(results[number], s.space))
      outputs.push_back({number, *output});
    else
      others.push_back(number);
  }
  m = k.size(s.m);
  n = k.size(s.n);
  depth = k.size(s.k);
  auto blocks = SymExpr::floorDiv(s.k + SymExpr(15), 16);
  paddedDepth = *blocks * SymExpr(16);
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

Indices MatmulKernel::batchOf(Value item) {
  if (s.flat)
    return {};
  return *k.ix().delinearize(k.ix().index(item), ArrayRef(s.space).drop_back(2),
                             1);
}

Indices MatmulKernel::leading(const Indices &batch, Value row) {
  Index i = k.ix().index(row);
  if (s.flat)
    return *k.ix().delinearize(i, ArrayRef(s.space).drop_back(), 1);
  Indices lead(batch);
  lead.push_back(i);
  return lead;
}

Indices MatmulKernel::lhsAt(const Indices &lead, const Index &at) {
  MatmulOp op = products[0];
  size_t rank = getSymShape(op.getLhs()).size();
  Indices r(ArrayRef(lead).drop_back().take_back(rank - 2));
  r.push_back(op.getTransposeLhs() ? at : lead.back());
  r.push_back(op.getTransposeLhs() ? lead.back() : at);
  return r;
}

Indices MatmulKernel::rhsAt(unsigned product, const Indices &batch,
                            const Index &at, const Index &column) {
  MatmulOp op = products[product];
  size_t rank = getSymShape(op.getRhs()).size();
  Indices r;
  if (s.flat)
    r.assign(rank - 2, k.ix().index(0));
  else
    r = Indices(ArrayRef(batch).take_back(rank - 2));
  r.push_back(op.getTransposeRhs() ? column : at);
  r.push_back(op.getTransposeRhs() ? at : column);
  return r;
}

//===----------------------------------------------------------------------===//
// Panels and results
//===----------------------------------------------------------------------===//

void MatmulKernel::fillLhs(Value panel, const Indices &batch, Value row0,
                           Value count) {
  Value lhs = products[0].getLhs();
  Value stride = k.size(paddedDepth);
  k.ix().loop(k.c(0), count, 1, [&](Value r) {
    Indices lead = leading(batch, k.ix().add(row0, r));
    std::optional<RowPasses> passes;
    if (prologue) {
      Indices row = lhsAt(lead, k.ix().index(0));
      passes.emplace(k, *prologue, row, s.rowsOffset);
      passes->run();
    }
    Value start = k.ix().mul(r, stride);
    k.columns(k.c(0), depth, [&](Index at) {
      Value x = k.e().emitVector(lhs, lhsAt(lead, at));
      k.storeF32(panel, k.ix().add(start, at.base), x);
    });
  });
}

void MatmulKernel::storeRow(const Indices &batch, Value row,
                            const Index &column0, Value count,
                            llvm::function_ref<Value(unsigned)> tile) {
  Indices lead = leading(batch, row);
  SmallVector<Value> tiles;
  for (unsigned p = 0; p < products.size(); ++p)
    tiles.push_back(tile(p));
  k.columns(k.c(0), count, [&](Index j) {
    Index column = k.ix().add(column0, j);
    Indices at(lead);
    at.push_back(column);
    for (unsigned p = 0; p < products.size(); ++p) {
      Value result = products[p].getResult();
      k.e().provide(result, [&, p, result](ArrayRef<Index> indices) -> Value {
        if (!isSameElement(result, indices, at))
          return nullptr;
        Value x = k.loadF32(tiles[p], j.base, k.e().width());
        if (k.e().isStrict())
          x = k.round(k.e(), x, elementType(result), true);
        return x;
      });
    }
    for (const auto &[number, output] : outputs)
      k.storeResult(number, k.offsetOf(at, output.strides),
                    k.e().emit(output.anchor, at));
    for (MatmulOp op : products)
      k.e().withdraw(op.getResult());
  });
}

void MatmulKernel::fillRhs(unsigned product, const Indices &batch,
                           Value column0, Value columns) {
  Value rhs = products[product].getRhs();
  Value panel = k.scratch(s.rhsOffset);
  if (s.contiguousK) {
    Value stride = k.size(paddedDepth);
    k.ix().loop(k.c(0), columns, 1, [&](Value j) {
      Index column = k.ix().index(k.ix().add(column0, j));
      Value start = k.ix().mul(j, stride);
      k.columns(k.c(0), depth, [&](Index at) {
        Value x = k.e().emitVector(rhs, rhsAt(product, batch, at, column));
        k.storeF32(panel, k.ix().add(start, at.base), x);
      });
    });
    return;
  }
  Index first = k.ix().index(column0, 0, s.columnTile);
  k.ix().loop(k.c(0), depth, 1, [&](Value at) {
    Value start = k.ix().mul(at, k.c(s.columnTile));
    k.columns(k.c(0), columns, [&](Index j) {
      Value x = k.e().emitVector(
          rhs, rhsAt(product, batch, k.ix().index(at), k.ix().add(first, j)));
      k.storeF32(panel, k.ix().add(start, j.base), x);
    });
  });
}

//===----------------------------------------------------------------------===//
// Operands of sgemm
//===----------------------------------------------------------------------===//

KernelBuilder::Matrix MatmulKernel::lhsMatrix(const Indices &batch, Value row0,
                                              Value rows) {
  if (!s.plainLhs) {
    Value panel = k.scratch(s.lhsOffset);
    fillLhs(panel, batch, row0, rows);
    return {panel, k.size(paddedDepth)};
  }
  MatmulOp op = products[0];
  auto view = getStridedView(op.getLhs());
  SymShape shape = getSymShape(op.getLhs());
  size_t rank = shape.size();
  SymExpr rowStride, depthStride;
  Index offset;
  if (s.flat) {
    rowStride =
        (*reshapeStrides(ArrayRef(shape).drop_back(),
                         ArrayRef(view->strides).drop_back(), {s.m}))[0];
    depthStride = 1;
    offset = k.ix().index(k.size(view->offset));
  } else {
    bool t = op.getTransposeLhs();
    rowStride = view->strides[t ? rank - 1 : rank - 2];
    depthStride = view->strides[t ? rank - 2 : rank - 1];
    Indices at(ArrayRef(batch).take_back(rank - 2));
    offset = k.offsetOf(at, view->strides, view->offset);
  }
  offset = k.ix().add(offset, k.ix().scale(k.ix().index(row0), rowStride));
  Value pointer = k.at(k.pointer(view->argument), k.f32(), offset.base);
  bool transposed = depthStride != SymExpr(1) && s.k != SymExpr(1);
  SymExpr stride = transposed ? depthStride : rowStride;
  // A single row has no stride of its own; BLAS wants one of a row's length.
  if (stride == SymExpr(0))
    stride = transposed ? s.m : s.k;
  return {pointer, k.size(stride), transposed};
}

KernelBuilder::Matrix
MatmulKernel::rhsMatrix(unsigned product, const Indices &batch, Value column0) {
  if (!s.plainRhs) {
    Value panel = k.scratch(s.rhsOffset);
    if (s.contiguousK)
      return {panel, k.size(paddedDepth), true};
    return {panel, k.c(s.columnTile), false};
  }
  MatmulOp op = products[product];
  auto view = getStridedView(op.getRhs());
  Indices at = rhsAt(product, batch, k.ix().index(0), k.ix().index(column0));
  size_t rank = at.size();
  bool t = op.getTransposeRhs();
  SymExpr depthStride = view->strides[t ? rank - 1 : rank - 2];
  SymExpr columnStride = view->strides[t ? rank - 2 : rank - 1];
  Index offset = k.offsetOf(at, view->strides, view->offset);
  Value pointer = k.at(k.pointer(view->argument), k.f32(), offset.base);
  bool transposed = columnStride != SymExpr(1) && s.n != SymExpr(1);
  SymExpr stride = transposed ? columnStride : depthStride;
  if (stride == SymExpr(0))
    stride = transposed ? s.k : s.n;
  return {pointer, k.size(stride), transposed};
}

/// The distance between rows of the one result when sgemm can store it itself.
std::optional<SymExpr> MatmulKernel::directStride() {
  if (outputs.size() != 1 || products.size() != 1)
    return std::nullopt;
  const auto &[number, o] = outputs[0];
  if (o.anchor != products[0].getResult() ||
      !elementType(k.kernel.getYield().getValues()[number].getType()).isF32() ||
      o.strides.back() != SymExpr(1))
    return std::nullopt;
  if (!s.flat)
    return o.strides[o.strides.size() - 2];
  auto rows = reshapeStrides(ArrayRef(s.space).drop_back(),
                             ArrayRef(o.strides).drop_back(), {s.m});
  if (!rows)
    return std::nullopt;
  return (*rows)[0];
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void MatmulKernel::tile(const Indices &batch, Value row0, Value rows,
                        Value column0, Value columns) {
  KernelBuilder::Matrix a = lhsMatrix(batch, row0, rows);
  auto stride = directStride();
  if (stride && *stride != SymExpr(0)) {
    Index offset = k.ix().index(column0);
    if (!s.flat)
      offset = k.ix().add(offset, k.offsetOf(batch, outputs[0].second.strides));
    offset = k.ix().add(offset, k.ix().scale(k.ix().index(row0), *stride));
    Value c = k.at(k.resultPointer(outputs[0].first), k.f32(), offset.base);
    k.sgemm(rows, columns, depth, a, rhsMatrix(0, batch, column0),
            {c, k.size(*stride)});
    return;
  }
  for (unsigned p = 0; p < products.size(); ++p) {
    // Panels of two products share their place: one after the other.
    if (!s.plainRhs && products.size() > 1)
      fillRhs(p, batch, column0, columns);
    Value c = k.scratch(s.resultStride * SymExpr(int64_t(p)));
    k.sgemm(rows, columns, depth, a, rhsMatrix(p, batch, column0),
            {c, k.c(s.columnTile)});
  }
  Index first = k.ix().index(column0, 0, s.columnTile);
  k.ix().loop(k.c(0), rows, 1, [&](Value r) {
    storeRow(batch, k.ix().add(row0, r), first, columns, [&](unsigned p) {
      Value c = k.scratch(s.resultStride * SymExpr(int64_t(p)));
      return k.at(c, k.f32(), k.ix().mul(r, k.c(s.columnTile)));
    });
  });
}

void MatmulKernel::tiled() {
  IndexBuilder &ix = k.ix();
  int64_t rowTile = s.rowTile();
  Value columnTiles = ix.ceilDiv(n, s.columnTile);
  Value rowTiles =
      s.plainRhs && !s.isGemvOnly() ? ix.ceilDiv(m, kHostRowTile) : k.c(1);
  ix.loop(k.begin, k.end, 1, [&](Value item) {
    Value rest = ix.div(item, columnTiles);
    Value column0 = ix.mul(ix.rem(item, columnTiles), k.c(s.columnTile));
    Value columns = ix.min(ix.sub(n, column0), k.c(s.columnTile));
    Indices batch = batchOf(ix.div(rest, rowTiles));
    auto rowsFrom = [&](Value row0) {
      Value rows = ix.min(ix.sub(m, row0), k.c(rowTile));
      tile(batch, row0, rows, column0, columns);
    };
    if (s.plainRhs) {
      rowsFrom(ix.mul(ix.rem(rest, rowTiles), k.c(rowTile)));
      return;
    }
    // A decoded panel serves all rows.
    if (products.size() == 1)
      fillRhs(0, batch, column0, columns);
    ix.loop(k.c(0), m, rowTile, rowsFrom);
  });
}

void MatmulKernel::run() {
  if (!others.empty())
    emitPulledResults(k, others);
  if (s.isGemvOnly())
    return gemv();
  if (s.isTiledOnly())
    return tiled();
  k.ix().when(
      k.ix().less(m, k.c(kHostGemvRows + 1)), [&] { gemv(); },
      [&] { tiled(); });
}

void host::emitMatmul(KernelBuilder &k, const MatmulShape &shape) {
  MatmulKernel(k, shape).run();
}
