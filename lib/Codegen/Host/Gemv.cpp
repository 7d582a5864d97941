//===- Gemv.cpp - Products of a few rows: weights streamed once -----------===//
//
// The rows of x lie in scratch; each weight is read once, in the order of
// memory. Weights contiguous along N: eight rows of them at a time are added to
// the sums of a block of columns. Contiguous along K: four dot products at a
// time. Any type and prologue of the weights is decoded in registers.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

// sums[row][j] += x[row][at .. at+7] . weights[at .. at+7][column0 + j]
void MatmulKernel::gemvAlongN(unsigned product, const Indices &batch,
                              Value column0, Value count, Value sums) {
  IndexBuilder &ix = k.ix();
  Value rhs = products[product].getRhs();
  Value panel = k.scratch(s.lhsOffset), stride = k.size(paddedDepth);
  Index first = ix.index(column0, 0, s.columnTile);
  Value zero =
      k.math().real(0.0, arith::ConstantOp::create(
                             k.builder, k.loc, k.builder.getF32FloatAttr(0)));
  ix.loop(k.c(0), m, 1, [&](Value row) {
    Value start = ix.mul(row, k.c(kHostGemvColumns));
    k.columns(k.c(0), count, [&](Index j) {
      k.storeF32(sums, ix.add(start, j.base), k.e().broadcast(zero));
    });
  });
  auto block = [&](Value at, int64_t steps) {
    ix.loop(k.c(0), m, 1, [&](Value row) {
      Value start = ix.mul(row, k.c(kHostGemvColumns));
      Value x = ix.add(ix.mul(row, stride), at);
      SmallVector<Value> factors;
      for (int64_t i = 0; i < steps; ++i)
        factors.push_back(k.loadF32(panel, ix.add(x, k.c(i)), 1));
      k.columns(k.c(0), count, [&](Index j) {
        Value where = ix.add(start, j.base);
        Value sum = k.loadF32(sums, where, k.e().width());
        for (int64_t i = 0; i < steps; ++i) {
          Index depthAt = ix.index(ix.add(at, k.c(i)));
          Value w = k.e().emitVector(
              rhs, rhsAt(product, batch, depthAt, ix.add(first, j)));
          sum = k.math().fma(k.e().broadcast(factors[i]), w, sum);
        }
        k.storeF32(sums, where, sum);
      });
    });
  };
  Value whole = ix.mul(ix.div(depth, k.c(8)), k.c(8));
  ix.loop(k.c(0), whole, 8, [&](Value at) { block(at, 8); });
  if (auto known = s.k.asConstant(); !known || *known % 8)
    ix.loop(whole, depth, 1, [&](Value at) { block(at, 1); });
}

void MatmulKernel::gemvAlongK(unsigned product, const Indices &batch,
                              Value column0, Value count, Value sums) {
  IndexBuilder &ix = k.ix();
  Value rhs = products[product].getRhs();
  Value panel = k.scratch(s.lhsOffset), stride = k.size(paddedDepth);
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getF32FloatAttr(0));
  auto rows = [&](Value j, int64_t number) {
    ix.loop(k.c(0), m, 1, [&](Value row) {
      Value x = ix.mul(row, stride);
      SmallVector<Value> init(number, zero);
      auto found = k.reduceColumns(
          k.c(0), depth, init,
          [&](Index at, ValueRange carried) {
            KernelBuilder::Carried next;
            Value factor = k.loadF32(panel, ix.add(x, at.base), k.e().width());
            for (int64_t i = 0; i < number; ++i) {
              Index column = ix.index(ix.add(column0, ix.add(j, k.c(i))));
              Value w =
                  k.e().emitVector(rhs, rhsAt(product, batch, at, column));
              next.push_back(k.math().fma(factor, w, carried[i]));
            }
            return next;
          },
          [&](unsigned, Value a, Value b) { return k.math().add(a, b); });
      Value where = ix.add(ix.mul(row, k.c(kHostGemvColumns)), j);
      for (int64_t i = 0; i < number; ++i)
        k.storeF32(sums, ix.add(where, k.c(i)), found[i]);
    });
  };
  Value whole = ix.mul(ix.div(count, k.c(4)), k.c(4));
  ix.loop(k.c(0), whole, 4, [&](Value j) { rows(j, 4); });
  ix.loop(whole, count, 1, [&](Value j) { rows(j, 1); });
}

void MatmulKernel::gemvSegment(const Indices &batch, Value lower, Value upper) {
  IndexBuilder &ix = k.ix();
  Value panel = k.scratch(s.lhsOffset), blockSums = k.scratch(s.sumsOffset);
  fillLhs(panel, batch, k.c(0), m);
  if (!s.lowBit.empty())
    prepareLowBit(*this, panel, blockSums);
  ix.loop(lower, upper, kHostGemvColumns, [&](Value column0) {
    Value count = ix.min(ix.sub(upper, column0), k.c(kHostGemvColumns));
    for (unsigned p = 0; p < products.size(); ++p) {
      Value sums = k.scratch(s.resultStride * SymExpr(int64_t(p)));
      if (!s.lowBit.empty())
        lowBitGemv(*this, p, panel, blockSums, column0, count, sums);
      else if (s.contiguousK)
        gemvAlongK(p, batch, column0, count, sums);
      else
        gemvAlongN(p, batch, column0, count, sums);
    }
    // Segments start at a column tile and advance by kHostGemvColumns.
    Index first = ix.index(column0, 0, 16);
    ix.loop(k.c(0), m, 1, [&](Value row) {
      storeRow(batch, row, first, count, [&](unsigned p) {
        Value sums = k.scratch(s.resultStride * SymExpr(int64_t(p)));
        return k.at(sums, k.f32(), ix.mul(row, k.c(kHostGemvColumns)));
      });
    });
  });
}

void MatmulKernel::gemv() {
  IndexBuilder &ix = k.ix();
  Value columnTile = k.c(s.columnTile);
  if (s.batch == SymExpr(1)) {
    Indices batch = batchOf(k.c(0));
    Value upper = ix.min(ix.mul(k.end, columnTile), n);
    gemvSegment(batch, ix.mul(k.begin, columnTile), upper);
    return;
  }
  Value columnTiles = ix.ceilDiv(n, s.columnTile);
  ix.loop(k.begin, k.end, 1, [&](Value item) {
    Indices batch = batchOf(ix.div(item, columnTiles));
    Value lower = ix.mul(ix.rem(item, columnTiles), columnTile);
    gemvSegment(batch, lower, ix.min(ix.add(lower, columnTile), n));
  });
}
