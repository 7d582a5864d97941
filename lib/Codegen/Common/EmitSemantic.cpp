//===- EmitSemantic.cpp - Dequantisation, rotation, reductions ------------===//
//
// Reductions inside a pull are loops over scalars: right everywhere, and slow
// where a template does not take them over (BodyEmitter::provide).
//
//===----------------------------------------------------------------------===//

#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static bool hasLanes(ArrayRef<Index> indices) {
  return llvm::any_of(indices, [](const Index &i) { return i.lane != 0; });
}

//===----------------------------------------------------------------------===//
// Dequantisation
//===----------------------------------------------------------------------===//

/// Where the scale of the element lies; nullopt when lanes differ in a way
/// that no vector has.
static std::optional<Indices> scalePosition(BodyEmitter &e, DequantizeOp op,
                                            ArrayRef<Index> indices) {
  IndexBuilder &ix = e.index();
  auto scale = cast<RankedTensorType>(op.getScale().getType());
  int64_t rank = indices.size();
  int64_t axis = *normalizeAxis(op.getAxis(), std::max<int64_t>(rank, 1));
  if (numElements(scale) == SymExpr(1))
    return Indices(scale.getRank(), ix.index(0));
  auto along = [&](const Index &i) -> std::optional<Index> {
    if (Value groups = op.getGroupIndex()) {
      if (i.lane)
        return std::nullopt;
      Value g = e.emit(groups, {i});
      return ix.index(
          arith::IndexCastOp::create(e.b(), e.loc(), e.b().getIndexType(), g));
    }
    int64_t block = op.getBlockSize();
    if (block <= 1)
      return i;
    bool uniform = i.lane == 0 || (i.lane == 1 && block % e.width() == 0 &&
                                   i.divisor % e.width() == 0);
    if (!uniform)
      return std::nullopt;
    return ix.index(ix.div(i.base, ix.constant(block)), 0,
                    i.divisor % block == 0 ? i.divisor / block : 1);
  };
  auto position = along(indices[axis]);
  if (!position)
    return std::nullopt;
  if (scale.getRank() == 1 && rank != 1)
    return Indices{*position};
  Indices at(indices);
  at[axis] = *position;
  return at;
}

Value BodyEmitter::emitDequantize(DequantizeOp op, IndexRef indices) {
  auto at = scalePosition(*this, op, indices);
  if (!at)
    return emitLanes(op.getResult(), indices);
  Type quantised = elementType(op.getInput()),
       result = elementType(op.getResult());
  Type compute = computeType(result);
  Value q = emit(op.getInput(), indices);
  SmallVector<Value> v{q, emit(op.getScale(), *at)};
  v[1] = convert(v[1], elementType(op.getScale()), compute);
  Value zero = op.getZeroPoint();
  bool wide = isa<IntegerType>(quantised) &&
              computeType(quantised).getIntOrFloatBitWidth() > 16;
  if (zero && wide && isa<IntegerType>(elementType(zero))) {
    // 32-bit integers: the difference is exact only before the conversion.
    SmallVector<Value> d{q, emit(zero, *at)};
    unify(d);
    v[0] = convert(arith::SubIOp::create(b(), loc(), d[0], d[1]), quantised,
                   compute);
  } else {
    v[0] = convert(q, quantised, compute);
    if (zero)
      v.push_back(convert(emit(zero, *at), elementType(zero), compute));
  }
  unify(v);
  Value x = v[0];
  if (v.size() == 3)
    x = mathBuilder.sub(x, v[2]);
  else if (op.getImplicitZeroPoint() != 0)
    x = mathBuilder.sub(x,
                        mathBuilder.real(double(op.getImplicitZeroPoint()), x));
  return mathBuilder.mul(x, v[1]);
}

//===----------------------------------------------------------------------===//
// Rotation
//===----------------------------------------------------------------------===//

Value BodyEmitter::emitRope(RopeOp op, IndexRef indices) {
  SymShape shape = getSymShape(op.getInput());
  auto depth = shape.back().asConstant();
  int64_t rotary = op.getRotaryDim();
  if (rotary == 0 && !depth)
    return unsupported(op, "a rotated axis of unknown size");
  if (rotary == 0)
    rotary = *depth;
  int64_t half = rotary / 2;
  const Index &i = indices.back();
  if (i.lane != 0) {
    bool whole = !op.getInterleaved() && i.lane == 1 && half % lanes == 0 &&
                 i.divisor % lanes == 0;
    if (!whole)
      return emitLanes(op.getResult(), indices);
  }
  auto rotate = [&]() -> Value {
    Value partner, sign, pair;
    Value h = ix.constant(half);
    if (op.getInterleaved()) {
      Value two = ix.constant(2);
      Value odd = ix.rem(i.base, two);
      pair = ix.div(i.base, two);
      // 2p <-> 2p + 1
      partner =
          ix.sub(ix.add(ix.mul(pair, ix.constant(4)), ix.constant(1)), i.base);
      sign = ix.less(odd, ix.constant(1));
    } else {
      sign = ix.less(i.base, h);
      partner = ix.select(sign, ix.add(i.base, h), ix.sub(i.base, h));
      pair = ix.select(sign, i.base, ix.sub(i.base, h));
    }
    int64_t divisor = std::gcd(i.divisor, half);
    auto table = [&](Value tensor) {
      auto type = cast<RankedTensorType>(tensor.getType());
      Indices at = broadcastIndices(tensor, indices);
      if (type.getDimSize(type.getRank() - 1) == half)
        at.back() = ix.index(pair, i.lane, divisor);
      return emit(tensor, at);
    };
    Indices other(indices);
    other.back() = ix.index(partner, i.lane, divisor);
    SmallVector<Value> v{emit(op.getInput(), indices),
                         emit(op.getInput(), other), table(op.getCos()),
                         table(op.getSin())};
    unify(v);
    // -sin for the first of a pair, +sin for the second.
    Value s =
        arith::SelectOp::create(b(), loc(), sign, mathBuilder.neg(v[3]), v[3]);
    return mathBuilder.fma(v[1], s, mathBuilder.mul(v[0], v[2]));
  };
  if (depth && rotary == *depth)
    return rotate();
  auto spread = [&](Value v) { return i.lane ? broadcast(v) : v; };
  bool lanesElsewhere = hasLanes(indices) && !i.lane;
  return ix.choose(
      ix.less(i.base, ix.constant(rotary)),
      [&] { return lanesElsewhere ? broadcast(rotate()) : spread(rotate()); },
      [&] {
        Value x = emit(op.getInput(), indices);
        return lanesElsewhere ? broadcast(x) : spread(x);
      });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value BodyEmitter::fold(const SymExpr &count, Value init,
                        llvm::function_ref<Value(Value, Value)> step) {
  return ix.loop(ix.constant(0), ix.size(count), 1, init,
                 [&](Value iv, ValueRange carried) {
                   return SmallVector<Value>{step(iv, carried[0])};
                 })[0];
}

/// Positions of the input for one of the result, reduced axes set to zero.
static Indices reductionPosition(IndexBuilder &ix, Operation *op,
                                 ArrayRef<int64_t> axes, bool keepdims,
                                 ArrayRef<Index> indices) {
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  Indices at;
  size_t next = 0;
  for (int64_t axis = 0; axis < input.getRank(); ++axis) {
    bool reduced = llvm::is_contained(axes, axis);
    at.push_back(reduced ? ix.index(0) : indices[next]);
    if (!reduced || keepdims)
      ++next;
  }
  return at;
}

Value BodyEmitter::emitReduction(Operation *op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op->getResult(0), indices);
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
  if (axes.empty())
    axes = {};
  bool keepdims = op->hasAttr("keepdims");
  Value input = op->getOperand(0);
  SymShape shape = getSymShape(input);
  Indices at = reductionPosition(ix, op, axes, keepdims, indices);
  Type type = computeType(elementType(input));
  std::function<Value(size_t, Value)> over = [&](size_t k, Value sum) -> Value {
    if (k == axes.size())
      return accumulate(op, sum, emit(input, at));
    return fold(shape[axes[k]], sum, [&](Value iv, Value carried) {
      at[axes[k]] = ix.index(iv);
      return over(k + 1, carried);
    });
  };
  return finish(op, over(0, neutral(op, type)));
}

Value BodyEmitter::emitArgMax(ArgMaxOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  Value input = op.getInput();
  SymShape shape = getSymShape(input);
  int64_t axis = *normalizeAxis(op.getAxis(), shape.size());
  Indices at = reductionPosition(ix, op, {axis}, op.getKeepdims(), indices);
  Value best = emit(input, at);
  bool real = isa<FloatType>(best.getType());
  bool u = isUnsigned(elementType(input));
  auto better = [&](Value x, Value y) -> Value { // x beats y
    bool orEqual = op.getLast();
    if (op.getSmallest())
      std::swap(x, y);
    if (real) {
      auto p = orEqual ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT;
      return arith::CmpFOp::create(b(), loc(), p, x, y);
    }
    auto p =
        u ? (orEqual ? arith::CmpIPredicate::uge : arith::CmpIPredicate::ugt)
          : (orEqual ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sgt);
    return arith::CmpIOp::create(b(), loc(), p, x, y);
  };
  auto found =
      ix.loop(ix.constant(1), ix.size(shape[axis]), 1, {ix.constant(0), best},
              [&](Value iv, ValueRange carried) {
                at[axis] = ix.index(iv);
                Value x = emit(input, at);
                Value wins = better(x, carried[1]);
                return SmallVector<Value>{
                    arith::SelectOp::create(b(), loc(), wins, iv, carried[0]),
                    arith::SelectOp::create(b(), loc(), wins, x, carried[1])};
              });
  return arith::IndexCastOp::create(b(), loc(), b().getI64Type(), found[0]);
}

Value BodyEmitter::emitSoftmax(SoftmaxOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  Value input = op.getInput();
  SymShape shape = getSymShape(input);
  int64_t axis = *normalizeAxis(op.getAxis(), shape.size());
  Indices at(indices);
  Value like = emit(input, indices);
  Value lowest =
      mathBuilder.real(-std::numeric_limits<double>::infinity(), like);
  Value top = fold(shape[axis], lowest, [&](Value iv, Value carried) {
    at[axis] = ix.index(iv);
    return mathBuilder.max(carried, emit(input, at));
  });
  Value sum = fold(shape[axis], mathBuilder.real(0.0, like),
                   [&](Value iv, Value carried) {
                     at[axis] = ix.index(iv);
                     Value x = mathBuilder.sub(emit(input, at), top);
                     return mathBuilder.add(carried, mathBuilder.exp(x));
                   });
  Value x = mathBuilder.sub(like, top);
  if (op.getLog())
    return mathBuilder.sub(x, mathBuilder.log(sum));
  return mathBuilder.div(mathBuilder.exp(x), sum);
}

static Value meanOf(BodyEmitter &e, Value sum, const SymExpr &count) {
  Value n = arith::IndexCastOp::create(e.b(), e.loc(), e.b().getI64Type(),
                                       e.index().size(count));
  return e.math().div(
      sum, arith::SIToFPOp::create(e.b(), e.loc(), sum.getType(), n));
}

Value BodyEmitter::emitRmsNorm(RmsNormOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  Value input = op.getInput();
  SymShape shape = getSymShape(input);
  Indices at(indices);
  Value x = emit(input, indices);
  Value sum = fold(shape.back(), mathBuilder.real(0.0, x),
                   [&](Value iv, Value carried) {
                     at.back() = ix.index(iv);
                     Value y = emit(input, at);
                     return mathBuilder.fma(y, y, carried);
                   });
  Value variance =
      mathBuilder.add(meanOf(*this, sum, shape.back()),
                      mathBuilder.real(op.getEpsilon().convertToFloat(), x));
  Value r = mathBuilder.mul(
      x, mathBuilder.div(mathBuilder.real(1.0, x), mathBuilder.sqrt(variance)));
  if (op.getCastBeforeScale() && strict)
    r = target.round(*this, r, elementType(op.getResult()), true);
  if (Value w = op.getWeight())
    r = mathBuilder.mul(r, emit(w, broadcastIndices(w, indices)));
  return r;
}

Value BodyEmitter::emitLayerNorm(LayerNormOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  Value input = op.getInput();
  SymShape shape = getSymShape(input);
  size_t first = *normalizeAxis(op.getAxis(), shape.size());
  SymExpr count = 1;
  for (size_t k = first; k < shape.size(); ++k)
    count = count * shape[k];
  Indices at(indices);
  Value x = emit(input, indices);
  auto sumOf = [&](llvm::function_ref<Value(Value)> term) {
    std::function<Value(size_t, Value)> over = [&](size_t k, Value sum) {
      if (k == shape.size())
        return mathBuilder.add(sum, term(emit(input, at)));
      return fold(shape[k], sum, [&](Value iv, Value carried) {
        at[k] = ix.index(iv);
        return over(k + 1, carried);
      });
    };
    return meanOf(*this, over(first, mathBuilder.real(0.0, x)), count);
  };
  Value mean = sumOf([](Value y) { return y; });
  Value variance = sumOf([&](Value y) {
    Value d = mathBuilder.sub(y, mean);
    return mathBuilder.mul(d, d);
  });
  Value root = mathBuilder.sqrt(mathBuilder.add(
      variance, mathBuilder.real(op.getEpsilon().convertToFloat(), x)));
  Value r = mathBuilder.div(mathBuilder.sub(x, mean), root);
  Value w = op.getWeight();
  r = mathBuilder.mul(r, emit(w, broadcastIndices(w, indices)));
  if (Value bias = op.getBias())
    r = mathBuilder.add(r, emit(bias, broadcastIndices(bias, indices)));
  return r;
}

//===----------------------------------------------------------------------===//
// Contraction, running sum
//===----------------------------------------------------------------------===//

Value BodyEmitter::emitMatmul(MatmulOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  size_t lhsRank = getSymShape(op.getLhs()).size();
  size_t rhsRank = getSymShape(op.getRhs()).size();
  size_t tail = (lhsRank > 1) + (rhsRank > 1);
  IndexRef batch = indices.drop_back(tail);
  std::optional<Index> m, n;
  if (lhsRank > 1)
    m = indices[batch.size()];
  if (rhsRank > 1)
    n = indices.back();
  auto position = [&](size_t rank, std::optional<Index> free, const Index &k,
                      bool freeFirst) {
    if (rank == 1)
      return Indices{k};
    Indices at(batch.take_back(rank - 2));
    at.push_back(freeFirst ? *free : k);
    at.push_back(freeFirst ? k : *free);
    return at;
  };
  Type lhsType = elementType(op.getLhs()), rhsType = elementType(op.getRhs());
  Type type = computeType(elementType(op.getResult()));
  Value zero = arith::ConstantOp::create(b(), loc(), b().getZeroAttr(type));
  return fold(
      op.getContractedSize(), zero, [&](Value iv, Value carried) -> Value {
        Index k = ix.index(iv);
        Value x =
            emit(op.getLhs(), position(lhsRank, m, k, !op.getTransposeLhs()));
        Value y =
            emit(op.getRhs(), position(rhsRank, n, k, op.getTransposeRhs()));
        x = convert(x, lhsType, elementType(op.getResult()));
        y = convert(y, rhsType, elementType(op.getResult()));
        if (isa<FloatType>(type))
          return mathBuilder.fma(x, y, carried);
        return arith::AddIOp::create(b(), loc(), carried,
                                     arith::MulIOp::create(b(), loc(), x, y));
      });
}

Value BodyEmitter::emitCumSum(CumSumOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  SymShape shape = getSymShape(op.getInput());
  int64_t axis = *normalizeAxis(op.getAxis(), shape.size());
  Value lower = ix.constant(0), upper = ix.size(shape[axis]);
  Value here = indices[axis].base;
  (op.getReverse() ? lower : upper) = op.getReverse() == op.getExclusive()
                                          ? ix.add(here, ix.constant(1))
                                          : here;
  Type type = computeType(elementType(op.getInput()));
  Indices at(indices);
  Value zero = arith::ConstantOp::create(b(), loc(), b().getZeroAttr(type));
  return ix.loop(lower, upper, 1, zero, [&](Value iv, ValueRange carried) {
    at[axis] = ix.index(iv);
    return SmallVector<Value>{
        accumulate(op, carried[0], emit(op.getInput(), at))};
  })[0];
}
