//===- AttentionScores.cpp - From products to visible scores --------------===//

#include "AttentionScores.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

constexpr double kLog2e = 1.4426950408889634;

AttentionScores::AttentionScores(KernelFunction &f,
                                 const kernels::AttentionGroup &group)
    : f(f), k(f.k), ix(f.ix()), emitter(f.group()), group(group), op(group.op) {
}

Val AttentionScores::size(const SymExpr &e) {
  return k.toI32(k.wrap(ix.size(e)));
}

double AttentionScores::factor() const {
  AttentionOp attention = op;
  return attention.getScale().convertToFloat() * kLog2e;
}

bool AttentionScores::isPlain() const {
  AttentionOp attention = op;
  return attention.getSoftcap().convertToFloat() == 0 && !attention.getBias() &&
         !attention.getKeyMask();
}

bool AttentionScores::limitsLeft() { return op.getWindowLeft() >= 0; }

Val AttentionScores::leftLimit(Val row) {
  if (!limitsLeft())
    return k.i32(0);
  return row + size(getExpr(op.getCausalOffsetAttr())) - op.getWindowLeft();
}

Val AttentionScores::rightLimit(Val row, Val batch) {
  Val end = size(group.keys);
  Val here = row + size(getExpr(op.getCausalOffsetAttr())) + 1;
  if (op.getCausal())
    end = k.min(end, here);
  if (op.getWindowRight() >= 0)
    end = k.min(end, here + op.getWindowRight());
  if (Value lengths = op.getValidLengths()) {
    emitter.setWidth(1);
    Value length = emitter.emit(lengths, {ix.index(Value(k.toIndex(batch)))});
    end = k.min(end, k.toI32(k.wrap(length)));
  }
  return end;
}

Val AttentionScores::scaled(Val product, const Place &at) {
  float cap = op.getSoftcap().convertToFloat();
  Val score = product * k.f32(factor());
  if (cap != 0) {
    Val inner = product * k.f32(op.getScale().convertToFloat() / cap);
    // tanh(x) = 1 - 2 / (e^2x + 1), of which the absolute error counts.
    Val power = exp2Fast(k, inner * k.f32(2 * kLog2e));
    Val rest = divideFast(k, k.f32(2), power + k.f32(1));
    score = (k.f32(1) - rest) * k.f32(cap * kLog2e);
  }
  Value bias = op.getBias();
  if (!bias || elementType(bias).isInteger(1))
    return score;
  auto index = [&](Val v) { return ix.index(Value(k.toIndex(v))); };
  Indices all{index(at.batch), index(at.head), index(at.row), index(at.key)};
  size_t rank = cast<RankedTensorType>(bias.getType()).getRank();
  Value x = emitter.emit(bias, ArrayRef(all).take_back(rank));
  x = emitter.convert(x, elementType(bias), k.builder().getF32Type());
  return fma(k, k.wrap(x), k.f32(kLog2e), score);
}

Val AttentionScores::masked(Val product, const Place &where, double lowest) {
  emitter.setWidth(1);
  Place at = where;
  Val keys = size(group.keys);
  bool data = op.getBias() || op.getKeyMask();
  // What lies behind the last key or row is not read.
  if (data) {
    at.key = k.min(at.key, keys - 1);
    at.row = k.min(at.row, size(group.rows) - 1);
  }
  Val score = scaled(product, at);
  Val seen = where.key < rightLimit(where.row, where.batch);
  if (limitsLeft())
    seen = seen && !(where.key < leftLimit(where.row));
  auto index = [&](Val v) { return ix.index(Value(k.toIndex(v))); };
  if (Value mask = op.getKeyMask())
    seen = seen && k.wrap(emitter.emit(mask, {index(at.batch), index(at.key)}));
  if (Value bias = op.getBias(); bias && elementType(bias).isInteger(1)) {
    Indices all{index(at.batch), index(at.head), index(at.row), index(at.key)};
    size_t rank = cast<RankedTensorType>(bias.getType()).getRank();
    seen = seen && k.wrap(emitter.emit(bias, ArrayRef(all).take_back(rank)));
  }
  Val never = k.f32(-INFINITY);
  if (op.getMaskedRows() != "uniform" || group.everyRowSees())
    return k.select(seen, score, never);
  Val masked = k.select(where.key < keys, k.f32(lowest), never);
  return k.select(seen, score, masked);
}

Val AttentionScores::blindValue() {
  return k.f32(op.getMaskedRows() == "nan" ? NAN : 0.0);
}

void AttentionScores::store(Val value, const Indices &at, unsigned width) {
  emitter.setWidth(width);
  Value result = op.getResult();
  emitter.provide(result, [&](ArrayRef<Index> indices) -> Value {
    auto type = cast<RankedTensorType>(result.getType());
    for (auto [axis, mine, other] : llvm::enumerate(at, indices))
      if (type.getDimSize(axis) != 1 &&
          (mine.base != other.base || mine.lane != other.lane))
        return nullptr;
    if (emitter.isStrict())
      return emitter.getTarget().round(emitter, value, elementType(result),
                                       true);
    return value;
  });
  for (const auto &[number, output] : group.outputs) {
    Index offset = ix.index(0);
    for (auto [position, stride] : llvm::zip(at, output.strides))
      offset = ix.add(offset, ix.scale(position, stride));
    Val v = k.wrap(emitter.emitVector(output.anchor, at));
    static_cast<CardTarget &>(*f.target).store(emitter, v, number, offset);
  }
  emitter.withdraw(result);
  emitter.setWidth(1);
}
