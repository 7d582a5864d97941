//===- Sequential.cpp - Scatters and running sums, on one worker ----------===//
//
// The order of updates matters (the last one wins), so one worker does all.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;

namespace {
struct Scatter {
  KernelBuilder &k;
  unsigned result;
  Value output; ///< the yielded value, for its type

  /// Loops over all positions of a shape.
  void forEach(const SymShape &shape, llvm::function_ref<void(Indices)> body) {
    std::function<void(size_t, Indices)> over = [&](size_t axis, Indices at) {
      if (axis == shape.size())
        return body(at);
      k.ix().loop(k.c(0), k.size(shape[axis]), 1, [&](Value iv) {
        Indices next(at);
        next.push_back(k.ix().index(iv));
        over(axis + 1, next);
      });
    };
    over(0, {});
  }

  Index place(ArrayRef<Index> at) {
    return k.offsetOf(at, getStrides(getStorageShape(output.getType())));
  }

  void copy(Value data) {
    forEach(getSymShape(data), [&](Indices at) {
      k.storeResult(result, place(at), k.e().emit(data, at));
    });
  }

  void update(StringRef reduction, ArrayRef<Index> at, Value x) {
    Index where = place(at);
    if (reduction != "none") {
      Type element = elementType(output);
      Value old = k.loadElements(k.resultPointer(result), element, where, 1);
      x = k.e().update(reduction, element, old, x);
    }
    k.storeResult(result, where, x);
  }

  void run(ScatterElementsOp op) {
    copy(op.getData());
    SymShape data = getSymShape(op.getData());
    int64_t axis = *normalizeAxis(op.getAxis(), data.size());
    forEach(getSymShape(op.getIndices()), [&](Indices at) {
      Value i = k.e().emit(op.getIndices(), at);
      Indices to(at);
      to[axis] = k.ix().index(k.e().gatherPosition(i, data[axis]));
      update(op.getReduction(), to, k.e().emit(op.getUpdates(), at));
    });
  }

  void run(ScatterNdOp op) {
    copy(op.getData());
    SymShape data = getSymShape(op.getData());
    SymShape tuples = getSymShape(op.getIndices());
    auto length = tuples.back().asConstant();
    if (!length) {
      k.e().unsupported(op, "index tuples of unknown length");
      return;
    }
    SymShape slice(data.begin() + *length, data.end());
    forEach(SymShape(ArrayRef(tuples).drop_back()), [&](Indices outer) {
      Indices where(outer), to;
      where.push_back(k.ix().index(0));
      for (int64_t n = 0; n < *length; ++n) {
        where.back() = k.ix().index(n);
        Value i = k.e().emit(op.getIndices(), where);
        to.push_back(k.ix().index(k.e().gatherPosition(i, data[n])));
      }
      forEach(slice, [&](Indices rest) {
        Indices from(outer), full(to);
        from.append(rest.begin(), rest.end());
        full.append(rest.begin(), rest.end());
        update(op.getReduction(), full, k.e().emit(op.getUpdates(), from));
      });
    });
  }

  void run(CumSumOp op) {
    SymShape shape = getSymShape(op.getInput());
    int64_t axis = *normalizeAxis(op.getAxis(), shape.size());
    SymShape rows(shape);
    SymExpr count = rows[axis];
    rows[axis] = SymExpr(1);
    Type type = computeType(elementType(op.getInput()));
    forEach(rows, [&](Indices at) {
      Value zero = arith::ConstantOp::create(k.builder, k.loc,
                                             k.builder.getZeroAttr(type));
      Value n = k.size(count);
      k.ix().loop(k.c(0), n, 1, zero, [&](Value iv, ValueRange carried) {
        Value i = op.getReverse() ? k.ix().sub(k.ix().sub(n, k.c(1)), iv) : iv;
        Indices here(at);
        here[axis] = k.ix().index(i);
        Value x = k.e().emit(op.getInput(), here);
        Value sum = k.e().accumulate(op, carried[0], x);
        k.storeResult(result, place(here),
                      op.getExclusive() ? Value(carried[0]) : sum);
        return SmallVector<Value>{sum};
      });
    });
  }
};
} // namespace

void host::emitSequential(KernelBuilder &k) {
  OperandRange results = k.kernel.getYield().getValues();
  for (unsigned result = 0; result < results.size(); ++result) {
    Value value = results[result];
    Scatter scatter{k, result, value};
    Operation *op = value.getDefiningOp();
    if (!op) {
      scatter.copy(value);
      continue;
    }
    llvm::TypeSwitch<Operation *>(op)
        .Case<ScatterElementsOp, ScatterNdOp, CumSumOp>(
            [&](auto o) { scatter.run(o); })
        .Default([&](Operation *) { scatter.copy(value); });
  }
}
