//===- EmitViews.cpp - Constants, views and gathers of a body -------------===//

#include "fusion/Artifact/HostABI.h"
#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Codegen/Common/NarrowFloat.h"
#include "fusion/Kernels/StridedView.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::kernels;

static bool hasLanes(ArrayRef<Index> indices) {
  return llvm::any_of(indices, [](const Index &i) { return i.lane != 0; });
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

/// Element attribute -> constant of the compute type.
static Value scalarConstant(BodyEmitter &e, Type element, Attribute value) {
  Type type = computeType(element);
  return e.index().hoisted([&]() -> Value {
    if (auto f = dyn_cast<FloatAttr>(value)) {
      APFloat exact = f.getValue();
      bool lost;
      exact.convert(cast<FloatType>(type).getFloatSemantics(),
                    APFloat::rmNearestTiesToEven, &lost);
      return arith::ConstantOp::create(e.b(), e.loc(),
                                       FloatAttr::get(type, exact));
    }
    APInt i = cast<IntegerAttr>(value).getValue();
    unsigned width = type.getIntOrFloatBitWidth();
    i = isUnsigned(element) ? i.zextOrTrunc(width) : i.sextOrTrunc(width);
    return arith::ConstantOp::create(e.b(), e.loc(), IntegerAttr::get(type, i));
  });
}

Value BodyEmitter::emitConstant(ConstantOp op, IndexRef indices) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  Type element = elementType(op.getResult());
  if (!elements)
    return unsupported(op, "a constant without elements in the IR");
  if (elements.empty()) // nothing reads it
    return scalarConstant(*this, element, b().getZeroAttr(element));
  if (elements.isSplat())
    return scalarConstant(*this, element, elements.getSplatValue<Attribute>());
  if (elements.getNumElements() > 256)
    return unsupported(op, "a constant of more than 256 elements inside a "
                           "kernel; it has to be an argument");
  SmallVector<Value> values;
  for (Attribute a : elements.getValues<Attribute>())
    values.push_back(scalarConstant(*this, element, a));
  return emitTable(values, indices, getSymShape(op.getResult()));
}

Value BodyEmitter::emitShapeValue(ShapeValueOp op, IndexRef indices) {
  SmallVector<Value> values;
  Type type = computeType(elementType(op.getResult()));
  for (const SymExpr &e : getExprs(op.getValues()))
    values.push_back(ix.hoisted([&]() -> Value {
      return arith::IndexCastOp::create(b(), loc(), type, ix.size(e));
    }));
  if (values.empty()) // nothing reads it
    return arith::ConstantOp::create(b(), loc(), b().getZeroAttr(type));
  return emitTable(values, indices, getSymShape(op.getResult()));
}

// A chain of selects over the row-major position.
Value BodyEmitter::emitTable(ArrayRef<Value> values, IndexRef indices,
                             const SymShape &shape) {
  Index linear = ix.linearize(indices, shape);
  if (auto c = IndexBuilder::asConstant(linear.base); c && linear.lane == 0)
    return values[std::min<size_t>(std::max<int64_t>(*c, 0),
                                   values.size() - 1)];
  Value at = positions(linear);
  auto spread = [&](Value v) { return linear.lane ? broadcast(v) : v; };
  Value result = spread(values.back());
  for (size_t k = values.size() - 1; k-- > 0;) {
    Value here = arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::eq, at,
                                       spread(ix.constant(k)));
    result =
        arith::SelectOp::create(b(), loc(), here, spread(values[k]), result);
  }
  return result;
}

Value BodyEmitter::emitIota(IotaOp op, IndexRef indices) {
  SymExpr step = getExpr(op.getStepAttr());
  if (indices[0].lane && !step.isConstant())
    return emitLanes(op.getResult(), indices);
  Index at = ix.add(ix.index(ix.size(getExpr(op.getStartAttr()))),
                    ix.scale(indices[0], step));
  Value value = positions(at);
  Type element = elementType(op.getResult());
  auto as = [&](Type t) {
    return isa<VectorType>(value.getType()) ? vectorOf(t, lanes) : t;
  };
  Type type = computeType(element);
  if (isa<IntegerType>(type))
    return arith::IndexCastOp::create(b(), loc(), as(type), value);
  value = arith::IndexCastOp::create(b(), loc(), as(b().getI64Type()), value);
  return arith::SIToFPOp::create(b(), loc(), as(type), value);
}

Value BodyEmitter::emitTrilu(TriluOp op, IndexRef indices) {
  Value x = emit(op.getInput(), indices);
  size_t rank = indices.size();
  Value row = positions(indices[rank - 2]),
        column = positions(indices[rank - 1]);
  SmallVector<Value> values{row, column, ix.size(getExpr(op.getKAttr())), x};
  unify(values);
  Value distance = arith::SubIOp::create(b(), loc(), values[1], values[0]);
  Value keep = arith::CmpIOp::create(b(), loc(),
                                     op.getUpper() ? arith::CmpIPredicate::sge
                                                   : arith::CmpIPredicate::sle,
                                     distance, values[2]);
  Value zero = arith::ConstantOp::create(b(), loc(),
                                         b().getZeroAttr(values[3].getType()));
  return arith::SelectOp::create(b(), loc(), keep, values[3], zero);
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

Value BodyEmitter::emitReshape(ReshapeOp op, IndexRef indices) {
  SymShape in = getSymShape(op.getInput()), out = getSymShape(op.getResult());
  Indices result(in.size(), ix.index(0));
  for (const ReshapeSegment &s : getReshapeSegments(in, out)) {
    auto outShape = ArrayRef(out).slice(s.outBegin, s.outEnd - s.outBegin);
    auto inShape = ArrayRef(in).slice(s.inBegin, s.inEnd - s.inBegin);
    auto at = indices.slice(s.outBegin, s.outEnd - s.outBegin);
    for (size_t k = 0; k + 1 < at.size(); ++k)
      if (at[k].lane && !numElements(outShape.drop_front(k + 1)).isConstant())
        return emitLanes(op.getResult(), indices);
    auto split = ix.delinearize(ix.linearize(at, outShape), inShape, lanes);
    if (!split)
      return emitLanes(op.getResult(), indices);
    llvm::copy(*split, result.begin() + s.inBegin);
  }
  return emit(op.getInput(), result);
}

Value BodyEmitter::emitSlice(SliceOp op, IndexRef indices) {
  Indices in;
  SymShape starts = getExprs(op.getStarts());
  for (auto [k, i] : llvm::enumerate(indices))
    in.push_back(ix.add(ix.index(ix.size(starts[k])),
                        ix.scale(i, SymExpr(op.getSteps()[k]))));
  return emit(op.getInput(), in);
}

// The part that holds the position along `axis`: a chain of branches, so that
// nothing is read outside a part, empty ones included.
Value BodyEmitter::emitPieces(Operation *op, ArrayRef<Value> parts,
                              unsigned axis, IndexRef indices) {
  const Index &at = indices[axis];
  SmallVector<SymExpr> starts{SymExpr(0)};
  for (Value part : parts)
    starts.push_back(starts.back() + getSymShape(part)[axis]);
  if (at.lane != 0) {
    // Vectors that never straddle two parts.
    bool whole = at.lane == 1 && at.divisor % lanes == 0;
    for (const SymExpr &start : ArrayRef(starts).drop_front())
      whole &= start.isConstant() && *start.asConstant() % lanes == 0;
    if (!whole)
      return emitLanes(op->getResult(0), indices);
  }
  std::function<Value(size_t)> from = [&](size_t k) -> Value {
    auto take = [&]() -> Value {
      Indices in(indices);
      auto start = starts[k].asConstant();
      in[axis] = ix.index(ix.sub(at.base, ix.size(starts[k])), at.lane,
                          start ? std::gcd(at.divisor, *start) : 1);
      return hasLanes(in) ? emitVector(parts[k], in) : emit(parts[k], in);
    };
    if (k + 1 == parts.size())
      return take();
    return ix.choose(ix.less(at.base, ix.size(starts[k + 1])), take,
                     [&] { return from(k + 1); });
  };
  return from(0);
}

Value BodyEmitter::emitTile(TileOp op, IndexRef indices) {
  SymShape in = getSymShape(op.getInput()), out = getSymShape(op.getResult());
  Indices at(indices);
  for (auto [k, i] : llvm::enumerate(at)) {
    if (in[k] == out[k])
      continue;
    auto size = in[k].asConstant();
    if (i.lane &&
        !(size && i.lane == 1 && *size % lanes == 0 &&
          i.divisor % lanes == 0) &&
        in[k] != SymExpr(1))
      return emitLanes(op.getResult(), indices);
    i = ix.index(ix.rem(i.base, ix.size(in[k])), i.lane,
                 size ? std::gcd(i.divisor, *size) : 1);
  }
  return emit(op.getInput(), at);
}

Value BodyEmitter::emitPad(PadOp op, IndexRef indices) {
  SymShape in = getSymShape(op.getInput()), out = getSymShape(op.getResult());
  SymShape low = getExprs(op.getLow());
  Indices at(indices);
  Value inside;
  for (auto [k, i] : llvm::enumerate(at)) {
    if (in[k] == out[k] && low[k] == SymExpr(0))
      continue;
    if (i.lane)
      return emitLanes(op.getResult(), indices);
    Value p = ix.sub(i.base, ix.size(low[k])), n = ix.size(in[k]);
    Value last = ix.sub(n, ix.constant(1)), zero = ix.constant(0);
    if (op.getMode() == "constant") {
      Value low =
          arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sge, p, zero);
      Value ok = arith::AndIOp::create(b(), loc(), low, ix.less(p, n));
      inside =
          inside ? Value(arith::AndIOp::create(b(), loc(), inside, ok)) : ok;
    } else if (op.getMode() == "edge") {
      p = ix.min(ix.max(p, zero), last);
    } else if (op.getMode() == "wrap") {
      p = ix.mod(p, n);
    } else { // reflect: a triangle wave of period 2 (n - 1)
      Value period = ix.max(ix.mul(last, ix.constant(2)), ix.constant(1));
      Value m = ix.mod(p, period);
      p = ix.min(m, ix.sub(period, m));
      p = ix.min(p, last);
    }
    i = ix.index(p);
  }
  if (!inside)
    return emit(op.getInput(), at);
  auto value = [&](Value tensor, IndexRef where) {
    return hasLanes(indices) ? emitVector(tensor, where) : emit(tensor, where);
  };
  Indices origin(cast<RankedTensorType>(op.getValue().getType()).getRank(),
                 ix.index(0));
  return ix.choose(
      inside, [&] { return value(op.getInput(), at); },
      [&] { return value(op.getValue(), origin); });
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

Value BodyEmitter::gatherPosition(Value element, const SymExpr &size) {
  Value raw = element;
  if (!raw.getType().isIndex())
    raw = arith::IndexCastOp::create(b(), loc(), b().getIndexType(), raw);
  Value n = ix.size(size), zero = ix.constant(0);
  Value p = ix.select(ix.less(raw, zero), ix.add(raw, n), raw);
  Value bad = arith::OrIOp::create(
      b(), loc(), ix.less(p, zero),
      arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sge, p, n));
  target.report(*this, bad, kHostIndexOutOfRange);
  return ix.max(ix.min(p, ix.sub(n, ix.constant(1))), zero);
}

/// The largest index in place of one whose highest bit is set: it counts from
/// the front, and lies behind every axis.
static Value unsignedIndex(BodyEmitter &e, Value element) {
  OpBuilder &b = e.b();
  Type type = element.getType();
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (width < 64)
    return arith::IndexCastUIOp::create(b, e.loc(), b.getIndexType(), element);
  auto constant = [&](int64_t value) {
    return arith::ConstantOp::create(b, e.loc(), b.getIntegerAttr(type, value));
  };
  Value isHigh = arith::CmpIOp::create(b, e.loc(), arith::CmpIPredicate::slt,
                                       element, constant(0));
  return arith::SelectOp::create(b, e.loc(), isHigh, constant(INT64_MAX),
                                 element);
}

Value BodyEmitter::emitGather(GatherOp op, IndexRef indices) {
  size_t axis = op.getAxis();
  size_t count = cast<RankedTensorType>(op.getIndices().getType()).getRank();
  IndexRef where = indices.slice(axis, count);
  if (hasLanes(where))
    return emitLanes(op.getResult(), indices);
  Value element = emit(op.getIndices(), where);
  if (elementType(op.getIndices()).isUnsignedInteger())
    element = unsignedIndex(*this, element);
  Value p = gatherPosition(element, getSymShape(op.getData())[axis]);
  Indices at(indices.take_front(axis));
  at.push_back(ix.index(p));
  at.append(indices.begin() + axis + count, indices.end());
  return emit(op.getData(), at);
}

Value BodyEmitter::emitGatherElements(GatherElementsOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  size_t axis = op.getAxis();
  Indices at(indices);
  at[axis] = ix.index(gatherPosition(emit(op.getIndices(), indices),
                                     getSymShape(op.getData())[axis]));
  return emit(op.getData(), at);
}

// indices [batch.., i.., t]: the tuple of length t selects a slice of data
// [batch.., d1, ..., dt, rest..].
Value BodyEmitter::emitGatherNd(GatherNdOp op, IndexRef indices) {
  if (hasLanes(indices))
    return emitLanes(op.getResult(), indices);
  size_t batch = op.getBatchDims();
  SymShape data = getSymShape(op.getData());
  SymShape tuples = getSymShape(op.getIndices());
  auto length = tuples.back().asConstant();
  if (!length)
    return unsupported(op, "index tuples of unknown length");
  size_t outer = tuples.size() - 1;
  Indices at(indices.take_front(batch));
  Indices where(indices.take_front(outer));
  where.push_back(ix.index(0));
  for (int64_t k = 0; k < *length; ++k) {
    where.back() = ix.index(k);
    at.push_back(ix.index(
        gatherPosition(emit(op.getIndices(), where), data[batch + k])));
  }
  at.append(indices.begin() + outer, indices.end());
  return emit(op.getData(), at);
}
