//===- EmitAttention.cpp - Attention and scatters, element by element -----===//
//
// An element of such an op is a loop over all keys, or over all updates: right
// everywhere, for bodies that no template takes. Appends, which attentions
// read, are here too.
//
//===----------------------------------------------------------------------===//

#include "fusion/Artifact/HostABI.h"
#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static bool hasLanes(ArrayRef<Index> indices) {
  return llvm::any_of(indices, [](const Index &i) { return i.lane != 0; });
}

//===----------------------------------------------------------------------===//
// Appends
//===----------------------------------------------------------------------===//

Value BodyEmitter::appendStart(KvAppendOp op, const Index &batch) {
  SymExpr past = getSymShape(op.getPast())[op.getAxis()];
  if (!op.getLengths())
    return ix.size(past);
  Value start = arith::IndexCastOp::create(b(), loc(), b().getIndexType(),
                                           emit(op.getLengths(), {batch}));
  SymExpr last = getSymShape(op.getResult())[op.getAxis()] -
                 getSymShape(op.getUpdate())[op.getAxis()];
  Value zero = ix.constant(0), most = ix.size(last);
  Value bad = arith::OrIOp::create(b(), loc(), ix.less(start, zero),
                                   ix.less(most, start));
  target.report(*this, bad, kHostIndexOutOfRange);
  return ix.max(ix.min(start, most), zero);
}

// Rows of the update lie between rows of the past, from the sequence's own
// start on; behind both there is nothing.
Value BodyEmitter::emitAppend(KvAppendOp op, IndexRef indices) {
  unsigned axis = op.getAxis();
  if (!op.getLengths())
    return emitPieces(op, {op.getPast(), op.getUpdate()}, axis, indices);
  if (indices[0].lane != 0 || indices[axis].lane != 0)
    return emitLanes(op.getResult(), indices);
  Value at = indices[axis].base, start = appendStart(op, indices[0]);
  SymExpr past = getSymShape(op.getPast())[axis];
  SymExpr rows = getSymShape(op.getUpdate())[axis];
  auto take = [&](Value part, Value place) {
    Indices in(indices);
    in[axis] = ix.index(place);
    return hasLanes(in) ? emitVector(part, in) : emit(part, in);
  };
  auto old = [&]() -> Value { return take(op.getPast(), at); };
  auto behind = [&]() -> Value {
    if (op.getInBuffer())
      return old();
    return ix.choose(ix.less(at, ix.size(past)), old, [&] {
      Type element = computeType(elementType(op.getResult()));
      Value none =
          arith::ConstantOp::create(b(), loc(), b().getZeroAttr(element));
      return hasLanes(indices) ? broadcast(none) : none;
    });
  };
  return ix.choose(ix.less(at, start), old, [&] {
    return ix.choose(
        ix.less(at, ix.add(start, ix.size(rows))),
        [&] { return take(op.getUpdate(), ix.sub(at, start)); }, behind);
  });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Value BodyEmitter::queryOffset(AttentionOp op, const Index &batch) {
  if (Value offsets = op.getOffsets())
    return arith::IndexCastOp::create(b(), loc(), b().getIndexType(),
                                      emit(offsets, {batch}));
  return ix.size(getExpr(op.getCausalOffsetAttr()));
}

Value BodyEmitter::maskScore(AttentionOp op, Value score, IndexRef at) {
  float cap = op.getSoftcap().convertToFloat();
  if (cap != 0)
    score = mathBuilder.mul(mathBuilder.tanh(mathBuilder.mul(
                                score, mathBuilder.real(1.0 / cap, score))),
                            mathBuilder.real(cap, score));
  Value seen;
  auto also = [&](Value condition) {
    seen = seen ? Value(arith::AndIOp::create(b(), loc(), seen, condition))
                : condition;
  };
  Value here = ix.add(at[2].base, queryOffset(op, at[0]));
  Value key = at[3].base;
  auto after = [&](int64_t distance) { // key <= here + distance
    also(arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sle, key,
                               ix.add(here, ix.constant(distance))));
  };
  if (op.getCausal())
    after(0);
  if (op.getWindowRight() >= 0)
    after(op.getWindowRight());
  if (op.getWindowLeft() >= 0)
    also(arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sge, key,
                               ix.sub(here, ix.constant(op.getWindowLeft()))));
  if (Value lengths = op.getValidLengths()) {
    Value length = arith::IndexCastOp::create(b(), loc(), b().getIndexType(),
                                              emit(lengths, {at[0]}));
    also(ix.less(key, length));
  }
  if (Value mask = op.getKeyMask())
    also(emit(mask, {at[0], at[3]}));
  if (Value bias = op.getBias()) {
    size_t rank = cast<RankedTensorType>(bias.getType()).getRank();
    Value x = emit(bias, at.take_back(rank));
    if (elementType(bias).isInteger(1))
      also(x);
    else
      score = mathBuilder.add(
          score, convert(x, elementType(bias), elementType(op.getQuery())));
  }
  if (!seen)
    return score;
  return mathBuilder.select(seen, score,
                            mathBuilder.real(hiddenScore(op), score));
}

double BodyEmitter::hiddenScore(AttentionOp op) {
  return op.getMaskedRows() == "uniform"
             ? -3.0e38
             : -std::numeric_limits<double>::infinity();
}

Value BodyEmitter::emitAttention(AttentionOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  Type element = elementType(op.getResult());
  SymShape q = getSymShape(op.getQuery()), keys = getSymShape(op.getKey());
  Value groups = ix.div(ix.size(q[1]), ix.size(keys[1]));
  Index head = ix.index(ix.div(indices[1].base, groups));
  Value like = arith::ConstantOp::create(b(), loc(),
                                         b().getZeroAttr(computeType(element)));
  auto real = [&](double x) { return mathBuilder.real(x, like); };
  auto pull = [&](Value tensor, ArrayRef<Index> at) {
    return convert(emit(tensor, at), elementType(tensor), element);
  };
  Value lowest = real(-std::numeric_limits<double>::infinity());
  // The running maximum, the sum of terms, and the weighted sum of values.
  auto found = ix.loop(
      ix.constant(0), ix.size(keys[2]), 1, {lowest, like, like},
      [&](Value iv, ValueRange carried) {
        Index j = ix.index(iv);
        Value score = fold(q[3], like, [&](Value d, Value sum) {
          Value x = pull(op.getQuery(),
                         {indices[0], indices[1], indices[2], ix.index(d)});
          return mathBuilder.fma(
              x, pull(op.getKey(), {indices[0], head, j, ix.index(d)}), sum);
        });
        score = mathBuilder.mul(score, real(op.getScale().convertToFloat()));
        score = maskScore(op, score, {indices[0], indices[1], indices[2], j});
        Value top = mathBuilder.max(carried[0], score);
        // Nothing seen yet: both differences would be NaN.
        Value blind = mathBuilder.equal(top, lowest);
        Value shift = mathBuilder.select(blind, like, top);
        Value scale = mathBuilder.exp(mathBuilder.sub(carried[0], shift));
        Value term = mathBuilder.exp(mathBuilder.sub(score, shift));
        Value value = pull(op.getValue(), {indices[0], head, j, indices[3]});
        return SmallVector<Value>{
            top, mathBuilder.fma(carried[1], scale, term),
            mathBuilder.fma(carried[2], scale, mathBuilder.mul(term, value))};
      });
  Value result = mathBuilder.div(found[2], found[1]);
  Value none = like;
  if (op.getMaskedRows() == "nan")
    none = real(std::numeric_limits<double>::quiet_NaN());
  return mathBuilder.select(mathBuilder.equal(found[0], lowest), none, result);
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

Value BodyEmitter::update(StringRef reduction, Type element, Value old,
                          Value x) {
  if (reduction == "none")
    return x;
  bool real = isa<FloatType>(old.getType());
  if (reduction == "add")
    return real ? mathBuilder.add(old, x)
                : Value(arith::AddIOp::create(b(), loc(), old, x));
  if (reduction == "mul")
    return real ? mathBuilder.mul(old, x)
                : Value(arith::MulIOp::create(b(), loc(), old, x));
  bool max = reduction == "max";
  if (real)
    return max ? mathBuilder.max(old, x) : mathBuilder.min(old, x);
  if (isUnsigned(element))
    return max ? Value(arith::MaxUIOp::create(b(), loc(), old, x))
               : Value(arith::MinUIOp::create(b(), loc(), old, x));
  return max ? Value(arith::MaxSIOp::create(b(), loc(), old, x))
             : Value(arith::MinSIOp::create(b(), loc(), old, x));
}

/// Whether two positions are equal.
static Value same(BodyEmitter &e, Value x, Value y) {
  return arith::CmpIOp::create(e.b(), e.loc(), arith::CmpIPredicate::eq, x, y);
}

static Value both(BodyEmitter &e, Value x, Value y) {
  return x ? Value(arith::AndIOp::create(e.b(), e.loc(), x, y)) : y;
}

// Updates of an element have its position along all axes but one.
Value BodyEmitter::emitScatterElements(ScatterElementsOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  SymShape data = getSymShape(op.getData());
  SymShape updates = getSymShape(op.getIndices());
  size_t axis = *normalizeAxis(op.getAxis(), data.size());
  Value old = emit(op.getData(), indices), inside;
  for (size_t k = 0; k < data.size(); ++k)
    if (k != axis && data[k] != updates[k])
      inside =
          both(*this, inside, ix.less(indices[k].base, ix.size(updates[k])));
  auto all = [&] {
    return fold(updates[axis], old, [&](Value i, Value carried) {
      Indices at(indices);
      at[axis] = ix.index(i);
      Value to = gatherPosition(emit(op.getIndices(), at), data[axis]);
      return ix.choose(
          same(*this, to, indices[axis].base),
          [&] {
            return update(op.getReduction(), elementType(op.getResult()),
                          carried, emit(op.getUpdates(), at));
          },
          [&] { return carried; });
    });
  };
  return inside ? ix.choose(inside, all, [&] { return old; }) : all();
}

// The updates of an element: all index tuples that begin its position.
Value BodyEmitter::emitScatterNd(ScatterNdOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  SymShape data = getSymShape(op.getData());
  SymShape tuples = getSymShape(op.getIndices());
  auto length = tuples.back().asConstant();
  if (!length)
    return unsupported(op, "index tuples of unknown length");
  auto step = [&](Indices at, Value carried) {
    Indices where(at);
    where.push_back(ix.index(0));
    Value hit;
    for (int64_t n = 0; n < *length; ++n) {
      where.back() = ix.index(n);
      Value to = gatherPosition(emit(op.getIndices(), where), data[n]);
      hit = both(*this, hit, same(*this, to, indices[n].base));
    }
    auto updated = [&] {
      Indices from(at);
      from.append(indices.begin() + *length, indices.end());
      return update(op.getReduction(), elementType(op.getResult()), carried,
                    emit(op.getUpdates(), from));
    };
    return hit ? ix.choose(hit, updated, [&] { return carried; }) : updated();
  };
  std::function<Value(Indices, Value)> over = [&](Indices at, Value carried) {
    if (at.size() + 1 == tuples.size())
      return step(at, carried);
    return fold(tuples[at.size()], carried, [&](Value i, Value inner) {
      Indices next(at);
      next.push_back(ix.index(i));
      return over(next, inner);
    });
  };
  return over({}, emit(op.getData(), indices));
}
