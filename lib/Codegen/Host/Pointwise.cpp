//===- Pointwise.cpp - Results pulled element by element ------------------===//
//
// One pass a distinct shape of results. A work item is a block of columns of
// one row; the inner loop is a vector loop with a scalar tail.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "fusion/Kernels/HostLaunch.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

static void emitColumns(KernelBuilder &k, const SymShape &shape,
                        ArrayRef<unsigned> results, Indices at, Value lower,
                        Value upper) {
  auto store = [&](Index column) {
    at.back() = column;
    for (unsigned r : results) {
      Value v = k.kernel.getYield().getValues()[r];
      SymShape storage = getStrides(getStorageShape(v.getType()));
      k.storeResult(r, k.offsetOf(at, storage), k.e().emit(v, at));
    }
  };
  k.columns(lower, upper, store);
}

/// One block of columns of one row.
static void emitItem(KernelBuilder &k, const SymShape &shape,
                     ArrayRef<unsigned> results, Value item) {
  IndexBuilder &ix = k.ix();
  if (shape.empty()) {
    for (unsigned r : results)
      k.storeResult(r, ix.index(0),
                    k.e().emit(k.kernel.getYield().getValues()[r], {}));
    return;
  }
  Value n = k.size(shape.back());
  Value blocks = ix.ceilDiv(n, kHostColumns);
  Value row = ix.div(item, blocks);
  Value lower = ix.mul(ix.rem(item, blocks), k.c(kHostColumns));
  Value upper = ix.min(ix.add(lower, k.c(kHostColumns)), n);
  if (auto known = IndexBuilder::asConstant(n);
      known && *known <= kHostColumns) {
    lower = k.c(0);
    upper = n;
  }
  Indices at = *ix.delinearize(ix.index(row), ArrayRef(shape).drop_back(), 1);
  at.push_back(ix.index(0));
  emitColumns(k, shape, results, at, lower, upper);
}

void host::emitPulledResults(KernelBuilder &k, ArrayRef<unsigned> results) {
  IndexBuilder &ix = k.ix();
  SymExpr grid = getHostLaunch(k.kernel).grid;
  std::vector<std::pair<SymShape, SmallVector<unsigned>>> classes;
  for (unsigned r : results) {
    SymShape shape = getSymShape(k.kernel.getYield().getValues()[r]);
    auto it = llvm::find_if(classes, [&](auto &c) { return c.first == shape; });
    if (it == classes.end()) {
      classes.push_back({shape, {r}});
      continue;
    }
    it->second.push_back(r);
  }
  for (const auto &each : classes) {
    const SymShape &shape = each.first;
    ArrayRef<unsigned> members = each.second;
    SymExpr items = getPointwiseItems(shape);
    Value lower = k.begin, upper = k.end;
    if (items != grid) {
      // This call's share: the same fraction of these items.
      Value all = ix.max(k.size(grid), k.c(1)), mine = k.size(items);
      lower = ix.div(ix.mul(k.begin, mine), all);
      upper = ix.div(ix.mul(k.end, mine), all);
    }
    ix.loop(lower, upper, 1,
            [&](Value item) { emitItem(k, shape, members, item); });
  }
}

void host::emitPointwise(KernelBuilder &k) {
  SmallVector<unsigned> all;
  for (unsigned r = 0; r < k.kernel.getYield().getValues().size(); ++r)
    all.push_back(r);
  emitPulledResults(k, all);
}
