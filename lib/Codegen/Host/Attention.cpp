//===- Attention.cpp - Softmax of scores, times values --------------------===//
//
// A work item is a tile of query rows of one head: the rotated query is pulled
// into scratch, all scores of the tile follow, then softmax row by row, then
// the product with the values, then the epilogue. Few rows (decode) compute
// scores and sums with vector code that streams the cache once; more rows go
// through sgemm. Keys beyond what the last row of the tile may see are skipped.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

/// Rows up to which scores are computed by vector code.
constexpr int64_t kVectorRows = 4;

namespace {
struct AttentionKernel {
  AttentionKernel(KernelBuilder &k, const AttentionShape &s)
      : k(k), ix(k.ix()), s(s), op(s.op), layout(getAttentionScratch(s)) {
    OperandRange results = k.kernel.getYield().getValues();
    SymShape space = getSymShape(this->op.getResult());
    for (unsigned number = 0; number < results.size(); ++number) {
      if (auto output = getStridedOutput(results[number], space))
        outputs.push_back({number, *output});
      else
        others.push_back(number);
    }
    for (SymExpr AttentionScratch::*part :
         {&AttentionScratch::query, &AttentionScratch::scores,
          &AttentionScratch::result, &AttentionScratch::key,
          &AttentionScratch::value})
      pointers.push_back(k.scratch(layout.*part));
    t = k.size(s.t);
    scoresStride = k.size(layout.scoresStride);
  }

  KernelBuilder &k;
  IndexBuilder &ix;
  const AttentionShape &s;
  AttentionOp op;
  AttentionScratch layout;
  /// Results over the attention's shape, with their numbers; and the rest.
  SmallVector<std::pair<unsigned, StridedOutput>> outputs;
  SmallVector<unsigned> others;
  SmallVector<Value> pointers;
  Value t, scoresStride;
  // Of the current item.
  Value b, h, kvHead, row0, rows, offset, visible;

  Value query() { return pointers[0]; }
  Value scores() { return pointers[1]; }
  Value result() { return pointers[2]; }

  struct Rows {
    Value pointer, stride;
  };

  bool limitsRight() { return op.getCausal() || op.getWindowRight() >= 0; }
  /// The first key that query row `i` does not see to its right.
  Value rightLimit(Value i) {
    Value end = t;
    Value here = ix.add(ix.add(i, offset), k.c(1));
    if (op.getCausal())
      end = ix.min(end, here);
    if (op.getWindowRight() >= 0)
      end = ix.min(end, ix.add(here, k.c(op.getWindowRight())));
    return ix.max(end, k.c(0));
  }
  /// Every query sees key 0: causal, with an offset that is never negative.
  bool everyRowSees() {
    if (op.getBias() || op.getKeyMask() || op.getValidLengths() ||
        op.getOffsets() || op.getWindowLeft() >= 0)
      return false;
    SymExpr shift = getExpr(op.getCausalOffsetAttr());
    return llvm::all_of(shift.polynomial(),
                        [](const auto &term) { return term.second >= 0; });
  }
  Value leftLimit(Value i) {
    if (op.getWindowLeft() < 0)
      return k.c(0);
    Value first = ix.sub(ix.add(i, offset), k.c(op.getWindowLeft()));
    return ix.max(first, k.c(0));
  }

  void fillQuery();
  Rows operand(Value tensor, bool plain, Value panel, int64_t width);
  void scoreRows(const Rows &key);
  void scoresBySgemm(const Rows &key);
  void softmaxRow(Value r);
  Value masked(Value score, const Indices &at, ArrayRef<Value> limits);
  void sumRows(const Rows &value);
  void store();
  void run();
};
} // namespace

void AttentionKernel::fillQuery() {
  ix.loop(k.c(0), rows, 1, [&](Value r) {
    Indices at{ix.index(b), ix.index(h), ix.index(ix.add(row0, r)),
               ix.index(0)};
    Value start = ix.mul(r, k.c(s.d));
    k.columns(k.c(0), k.c(s.d), [&](Index column) {
      at.back() = column;
      Value x = k.e().emitVector(op.getQuery(), at);
      x = k.math().mul(x, k.math().real(op.getScale().convertToFloat(), x));
      k.storeF32(query(), ix.add(start, column.base), x);
    });
  });
}

/// Rows of keys or values of the item's head: where they lie, or copied.
AttentionKernel::Rows AttentionKernel::operand(Value tensor, bool plain,
                                               Value panel, int64_t width) {
  Indices at{ix.index(b), ix.index(kvHead), ix.index(0), ix.index(0)};
  if (plain) {
    auto view = getStridedView(tensor);
    Index start = k.offsetOf(at, view->strides, view->offset);
    return {k.at(k.pointer(view->argument), k.f32(), start.base),
            k.size(view->strides[2])};
  }
  ix.loop(k.c(0), visible, 1, [&](Value j) {
    at[2] = ix.index(j);
    Value start = ix.mul(j, k.c(width));
    k.columns(k.c(0), k.c(width), [&](Index column) {
      at[3] = column;
      k.storeF32(panel, ix.add(start, column.base),
                 k.e().emitVector(tensor, at));
    });
  });
  return {panel, k.c(width)};
}

// scores[r][j] = dot(q[r], key[j]), four keys at a time.
void AttentionKernel::scoreRows(const Rows &key) {
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getF32FloatAttr(0));
  auto keys = [&](Value r, Value j, int64_t count) {
    Value q = ix.mul(r, k.c(s.d));
    SmallVector<Value> starts, init(count, zero);
    for (int64_t i = 0; i < count; ++i)
      starts.push_back(ix.mul(ix.add(j, k.c(i)), key.stride));
    auto found = k.reduceColumns(
        k.c(0), k.c(s.d), init,
        [&](Index column, ValueRange carried) {
          KernelBuilder::Carried next;
          unsigned width = k.e().width();
          Value x = k.loadF32(query(), ix.add(q, column.base), width);
          for (int64_t i = 0; i < count; ++i) {
            Value y =
                k.loadF32(key.pointer, ix.add(starts[i], column.base), width);
            next.push_back(k.math().fma(x, y, carried[i]));
          }
          return next;
        },
        [&](unsigned, Value x, Value y) { return k.math().add(x, y); });
    Value to = ix.add(ix.mul(r, scoresStride), j);
    for (int64_t i = 0; i < count; ++i)
      k.storeF32(scores(), ix.add(to, k.c(i)), found[i]);
  };
  ix.loop(k.c(0), rows, 1, [&](Value r) {
    Value whole = ix.mul(ix.div(visible, k.c(4)), k.c(4));
    ix.loop(k.c(0), whole, 4, [&](Value j) { keys(r, j, 4); });
    ix.loop(whole, visible, 1, [&](Value j) { keys(r, j, 1); });
  });
}

void AttentionKernel::scoresBySgemm(const Rows &key) {
  k.sgemm(rows, visible, k.c(s.d), {query(), k.c(s.d)},
          {key.pointer, key.stride, true}, {scores(), scoresStride});
}

// Steps 2 to 4 of fusion.attention on one score or a vector of them; masked
// ones become minus infinity.
Value AttentionKernel::masked(Value score, const Indices &at,
                              ArrayRef<Value> limits) {
  MathBuilder &m = k.math();
  OpBuilder &b = k.builder;
  float cap = op.getSoftcap().convertToFloat();
  if (cap != 0)
    score = m.mul(m.tanh(m.mul(score, m.real(1.0 / cap, score))),
                  m.real(cap, score));
  Value seen;
  auto also = [&](Value condition) {
    if (isa<VectorType>(score.getType()))
      condition = k.e().broadcast(condition);
    seen = seen ? Value(arith::AndIOp::create(b, k.loc, seen, condition))
                : condition;
  };
  auto spread = [&](Value v) {
    return isa<VectorType>(score.getType()) ? k.e().broadcast(v) : v;
  };
  auto compare = [&](arith::CmpIPredicate p, Value limit) {
    also(arith::CmpIOp::create(b, k.loc, p, spread(k.e().positions(at[3])),
                               spread(limit)));
  };
  if (limits[0])
    compare(arith::CmpIPredicate::sge, limits[0]);
  if (limits[1])
    compare(arith::CmpIPredicate::slt, limits[1]);
  if (Value mask = op.getKeyMask())
    also(k.e().emit(mask, {at[0], at[3]}));
  if (Value bias = op.getBias()) {
    size_t rank = cast<RankedTensorType>(bias.getType()).getRank();
    Value x = k.e().emit(bias, ArrayRef(at).take_back(rank));
    if (elementType(bias).isInteger(1))
      also(x);
    else
      score =
          m.add(score, spread(k.e().convert(x, elementType(bias), k.f32())));
  }
  if (!seen)
    return score;
  return m.select(seen, score,
                  m.real(-std::numeric_limits<double>::infinity(), score));
}

void AttentionKernel::softmaxRow(Value r) {
  MathBuilder &m = k.math();
  Value i = ix.add(row0, r);
  Value base = k.at(scores(), k.f32(), ix.mul(r, scoresStride));
  Indices at{ix.index(b), ix.index(h), ix.index(i), ix.index(0)};
  SmallVector<Value> limits(2);
  if (op.getWindowLeft() >= 0)
    limits[0] = leftLimit(i);
  if (limitsRight())
    limits[1] = rightLimit(i);
  if (Value lengths = op.getValidLengths()) {
    Value length =
        arith::IndexCastOp::create(k.builder, k.loc, k.builder.getIndexType(),
                                   k.e().emit(lengths, {ix.index(b)}));
    limits[1] = limits[1] ? ix.min(limits[1], length) : length;
  }
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getF32FloatAttr(0));
  Value lowest = m.real(-std::numeric_limits<double>::infinity(), zero);
  Value top = k.reduceColumns(
      k.c(0), visible, lowest,
      [&](Index column, ValueRange carried) {
        at[3] = column;
        Value x = k.loadF32(base, column.base, k.e().width());
        x = masked(x, at, limits);
        k.storeF32(base, column.base, x);
        return KernelBuilder::Carried{m.max(carried[0], x)};
      },
      [&](unsigned, Value x, Value y) { return m.max(x, y); })[0];
  // A row that sees nothing: its maximum is minus infinity.
  Value blind = m.equal(top, lowest);
  Value shift = m.select(blind, zero, top);
  bool uniform = op.getMaskedRows() == "uniform";
  Value sum = k.reduceColumns(
      k.c(0), visible, zero,
      [&](Index column, ValueRange carried) {
        Value x = k.loadF32(base, column.base, k.e().width());
        x = m.exp(m.sub(x, k.e().broadcast(shift)));
        k.storeF32(base, column.base, x);
        return KernelBuilder::Carried{m.add(carried[0], x)};
      },
      [&](unsigned, Value x, Value y) { return m.add(x, y); })[0];
  Value whenBlind = zero;
  if (op.getMaskedRows() == "nan")
    whenBlind = m.real(std::numeric_limits<double>::quiet_NaN(), zero);
  Value scale = m.select(blind, whenBlind, m.div(m.real(1.0, zero), sum));
  Value mean;
  if (uniform) {
    Value count =
        arith::SIToFPOp::create(k.builder, k.loc, k.f32(), k.toI64(t));
    mean = m.div(m.real(1.0, zero), count);
  }
  k.columns(k.c(0), visible, [&](Index column) {
    Value x = k.loadF32(base, column.base, k.e().width());
    x = m.mul(x, k.e().broadcast(scale));
    if (uniform)
      x = m.select(k.e().broadcast(blind), k.e().broadcast(mean), x);
    k.storeF32(base, column.base, x);
  });
}

// result[r] = sum over j of scores[r][j] * value[j], four values at a time.
void AttentionKernel::sumRows(const Rows &value) {
  Value zero =
      arith::ConstantOp::create(k.builder, k.loc, k.builder.getF32FloatAttr(0));
  ix.loop(k.c(0), rows, 1, [&](Value r) {
    Value to = ix.mul(r, k.c(s.dv)), from = ix.mul(r, scoresStride);
    k.columns(k.c(0), k.c(s.dv), [&](Index column) {
      auto step = [&](Value j, Value sum) {
        Value p = k.loadF32(scores(), ix.add(from, j), 1);
        Value v = k.loadF32(value.pointer,
                            ix.add(ix.mul(j, value.stride), column.base),
                            k.e().width());
        return k.math().fma(k.e().broadcast(p), v, sum);
      };
      Value none = k.e().broadcast(zero);
      SmallVector<Value> init(4, none);
      Value whole = ix.mul(ix.div(visible, k.c(4)), k.c(4));
      auto sums =
          ix.loop(k.c(0), whole, 4, init, [&](Value j, ValueRange carried) {
            SmallVector<Value> next;
            for (int64_t i = 0; i < 4; ++i)
              next.push_back(step(ix.add(j, k.c(i)), carried[i]));
            return next;
          });
      Value sum = k.math().add(k.math().add(sums[0], sums[1]),
                               k.math().add(sums[2], sums[3]));
      sum = ix.loop(whole, visible, 1, sum, [&](Value j, ValueRange carried) {
        return SmallVector<Value>{step(j, carried[0])};
      })[0];
      k.storeF32(result(), ix.add(to, column.base), sum);
    });
  });
}

void AttentionKernel::store() {
  ix.loop(k.c(0), rows, 1, [&](Value r) {
    Value from = ix.mul(r, k.c(s.dv));
    Indices at{ix.index(b), ix.index(h), ix.index(ix.add(row0, r)),
               ix.index(0)};
    k.columns(k.c(0), k.c(s.dv), [&](Index column) {
      at.back() = column;
      Value value = op.getResult();
      k.e().provide(value, [&](ArrayRef<Index> indices) -> Value {
        if (!isSameElement(value, indices, at))
          return nullptr;
        Value x = k.loadF32(result(), ix.add(from, column.base), k.e().width());
        if (k.e().isStrict())
          x = k.round(k.e(), x, elementType(value), true);
        return x;
      });
      for (const auto &[number, output] : outputs)
        k.storeResult(number, k.offsetOf(at, output.strides),
                      k.e().emit(output.anchor, at));
      k.e().withdraw(value);
    });
  });
}

void AttentionKernel::run() {
  if (!others.empty())
    emitPulledResults(k, others);
  Value tiles = ix.ceilDiv(k.size(s.s), kHostQueryTile);
  Value perKv = ix.div(k.size(s.heads), ix.max(k.size(s.kvHeads), k.c(1)));
  ix.loop(k.begin, k.end, 1, [&](Value item) {
    Value head = ix.div(item, tiles);
    row0 = ix.mul(ix.rem(item, tiles), k.c(kHostQueryTile));
    rows = ix.min(ix.sub(k.size(s.s), row0), k.c(kHostQueryTile));
    b = ix.div(head, k.size(s.heads));
    h = ix.rem(head, k.size(s.heads));
    kvHead = ix.div(h, perKv);
    offset = k.e().queryOffset(op, ix.index(b));
    // What the last row may see; all keys where a blind row needs them.
    visible = t;
    if (op.getMaskedRows() == "zero" || everyRowSees())
      visible = rightLimit(ix.sub(ix.add(row0, rows), k.c(1)));
    fillQuery();
    Rows key = operand(op.getKey(), s.plainKey, pointers[3], s.d);
    auto known = s.s.asConstant();
    Value bound = known && *known <= kVectorRows ? k.c(*known) : rows;
    Value few = ix.less(bound, k.c(kVectorRows + 1));
    ix.when(few, [&] { scoreRows(key); }, [&] { scoresBySgemm(key); });
    ix.loop(k.c(0), rows, 1, [&](Value r) { softmaxRow(r); });
    Rows value = operand(op.getValue(), s.plainValue, pointers[4], s.dv);
    ix.when(
        few, [&] { sumRows(value); },
        [&] {
          k.sgemm(rows, k.c(s.dv), visible, {scores(), scoresStride},
                  {value.pointer, value.stride}, {result(), k.c(s.dv)});
        });
    store();
  });
}

void host::emitAttention(KernelBuilder &k, const AttentionShape &shape) {
  AttentionKernel(k, shape).run();
}
