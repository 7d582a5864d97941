//===- Append.cpp - Keys and values behind the cached ones ----------------===//
//
// A work item is a row of heads x tokens. A cache that is session state is
// extended in place: only the new rows are written.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

static void emitOne(KernelBuilder &k, KvAppendOp op, unsigned result,
                    bool inPlace, Value item) {
  IndexBuilder &ix = k.ix();
  Value source = inPlace ? Value(op.getUpdate()) : Value(op.getResult());
  SymShape shape = getSymShape(source);
  SymShape strides = getStrides(getStorageShape(
      inPlace ? op.getPast().getType() : op.getResult().getType()));
  Indices at = *ix.delinearize(ix.index(item), ArrayRef(shape).drop_back(), 1);
  at.push_back(ix.index(0));
  Value start;
  if (inPlace)
    start = k.e().appendStart(op, at[0]);
  k.columns(k.c(0), k.size(shape.back()), [&](Index column) {
    at.back() = column;
    Value x = k.e().emit(source, at);
    Indices to(at);
    if (inPlace)
      to[op.getAxis()] = ix.add(at[op.getAxis()], ix.index(start));
    k.storeResult(result, k.offsetOf(to, strides), x);
  });
}

void host::emitAppend(KernelBuilder &k, const AppendShape &shape) {
  for (unsigned result = 0; result < shape.ops.size(); ++result) {
    KvAppendOp op = shape.ops[result];
    bool inPlace = shape.inPlace[result];
    SymShape written = getSymShape(inPlace ? op.getUpdate() : op.getResult());
    SymExpr rows = numElements(ArrayRef(written).drop_back());
    Value upper = rows == shape.rows ? k.end : k.ix().min(k.end, k.size(rows));
    k.ix().loop(k.begin, upper, 1,
                [&](Value item) { emitOne(k, op, result, inPlace, item); });
  }
}
