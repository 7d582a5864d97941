//===- EmitElementwise.cpp - Arithmetic of a body's elements --------------===//

#include "fusion/Artifact/HostABI.h"
#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

static bool isFloat(Value v) {
  return isa<FloatType>(getElementTypeOrSelf(v.getType()));
}
static Type like(Value v, Type element) {
  if (auto vector = dyn_cast<VectorType>(v.getType()))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value BodyEmitter::apply(Operation *op, ArrayRef<Value> operands) {
  SmallVector<Value> v(operands);
  unify(v);
  if (auto where = dyn_cast<WhereOp>(op))
    return arith::SelectOp::create(b(), loc(), v[0], v[1], v[2]);
  if (auto cast = dyn_cast<CastOp>(op))
    return convert(v[0], elementType(cast.getInput()),
                   elementType(cast.getResult()), !cast.getNoSaturate());
  if (isa<EqualOp, LessOp, LessEqualOp, GreaterOp, GreaterEqualOp>(op))
    return compare(op, v[0], v[1]);
  if (isa<PowOp>(op))
    return power(op, v[0], v[1]);
  if (v.size() == 2)
    return binary(op, v[0], v[1]);
  if (v.size() == 1)
    return unary(op, v[0]);
  return unsupported(op, "'" + op->getName().getStringRef() +
                             "' is not known to the code generator");
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

// Floats to integers round towards zero; what does not fit is clamped (C leaves
// it open), NaN gives 0.
static Value floatToInteger(BodyEmitter &e, Value x, Type to, bool isUnsigned) {
  OpBuilder &b = e.b();
  MathBuilder &m = e.math();
  unsigned width = to.getIntOrFloatBitWidth();
  double low = isUnsigned ? 0 : -std::ldexp(1.0, width - 1);
  double high = std::ldexp(1.0, isUnsigned ? width : width - 1);
  // The largest float below 2^n, so that the conversion is always defined.
  double top = getElementTypeOrSelf(x.getType()).isF64()
                   ? std::nextafter(high, 0.0)
                   : double(std::nextafterf(float(high), 0.0f));
  Value isNan = m.isNan(x), over = m.less(m.real(top, x), x);
  Value t = m.select(m.less(x, m.real(low, x)), m.real(low, x), x);
  t = m.select(over, m.real(top, x), t);
  t = m.select(isNan, m.real(0.0, x), t);
  Type type = like(x, to);
  Value r = isUnsigned ? Value(arith::FPToUIOp::create(b, e.loc(), type, t))
                       : Value(arith::FPToSIOp::create(b, e.loc(), type, t));
  APInt largest =
      isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  Value limit = m.integer(largest.getSExtValue(), r);
  return m.select(over, limit, r);
}

/// The low bits of an integer, as an element of so many bits reads them.
static Value wrapInteger(BodyEmitter &e, Value x, unsigned bits,
                         bool isUnsigned) {
  OpBuilder &b = e.b();
  Type i8 = like(x, b.getI8Type());
  if (x.getType() != i8)
    x = arith::TruncIOp::create(b, e.loc(), i8, x);
  Value rest = e.math().integer(8 - bits, x);
  Value up = arith::ShLIOp::create(b, e.loc(), x, rest);
  if (isUnsigned)
    return arith::ShRUIOp::create(b, e.loc(), up, rest);
  return arith::ShRSIOp::create(b, e.loc(), up, rest);
}

Value BodyEmitter::convert(Value value, Type from, Type to, bool saturate) {
  Type source = computeType(from), target = computeType(to);
  Type type = like(value, target);
  // Narrow quantised formats hold data, not precision: they always round.
  bool quantised = isa<FloatType>(to) && to.getIntOrFloatBitWidth() < 16;
  auto finishFloat = [&](Value v) {
    return quantised ? this->target.round(*this, v, to, saturate) : v;
  };
  if (isa<FloatType>(source) && isa<FloatType>(target)) {
    if (source == target)
      return finishFloat(value);
    if (target.isF64())
      return arith::ExtFOp::create(b(), loc(), type, value);
    return finishFloat(arith::TruncFOp::create(b(), loc(), type, value));
  }
  if (to.isInteger(1)) {
    if (from.isInteger(1))
      return value;
    Value zero =
        arith::ConstantOp::create(b(), loc(), b().getZeroAttr(value.getType()));
    if (isFloat(value))
      return arith::CmpFOp::create(b(), loc(), arith::CmpFPredicate::UNE, value,
                                   zero);
    return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::ne, value,
                                 zero);
  }
  // Numbers wrap around in elements of less than a byte.
  unsigned bits = to.isIndex() ? 64 : to.getIntOrFloatBitWidth();
  if (isa<IntegerType>(to) && bits < 8) {
    if (isa<FloatType>(source))
      value = floatToInteger(*this, value, b().getI32Type(), false);
    return wrapInteger(*this, value, bits, isUnsigned(to));
  }
  if (isa<FloatType>(source))
    return floatToInteger(*this, value, target, isUnsigned(to));
  if (isa<FloatType>(target)) {
    if (isUnsigned(from))
      return finishFloat(arith::UIToFPOp::create(b(), loc(), type, value));
    return finishFloat(arith::SIToFPOp::create(b(), loc(), type, value));
  }
  unsigned a = source.getIntOrFloatBitWidth(),
           c = target.getIntOrFloatBitWidth();
  if (c < a)
    return arith::TruncIOp::create(b(), loc(), type, value);
  if (c == a)
    return value;
  if (isUnsigned(from))
    return arith::ExtUIOp::create(b(), loc(), type, value);
  return arith::ExtSIOp::create(b(), loc(), type, value);
}

//===----------------------------------------------------------------------===//
// Two operands
//===----------------------------------------------------------------------===//

Value BodyEmitter::compare(Operation *op, Value a, Value c) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  bool u = isUnsigned(elementType(op->getOperand(0)));
  auto [f, i] =
      llvm::TypeSwitch<Operation *, std::pair<F, I>>(op)
          .Case([](EqualOp) { return std::pair(F::OEQ, I::eq); })
          .Case([&](LessOp) { return std::pair(F::OLT, u ? I::ult : I::slt); })
          .Case([&](LessEqualOp) {
            return std::pair(F::OLE, u ? I::ule : I::sle);
          })
          .Case(
              [&](GreaterOp) { return std::pair(F::OGT, u ? I::ugt : I::sgt); })
          .Default([&](Operation *) {
            return std::pair(F::OGE, u ? I::uge : I::sge);
          });
  if (isFloat(a))
    return arith::CmpFOp::create(b(), loc(), f, a, c);
  return arith::CmpIOp::create(b(), loc(), i, a, c);
}

/// The exponent when it is one constant for all elements.
static std::optional<double> constantExponent(Value exponent) {
  Attribute attr;
  if (!matchPattern(exponent, m_Constant(&attr)))
    return std::nullopt;
  if (auto dense = dyn_cast<SplatElementsAttr>(attr))
    attr = dense.getSplatValue<Attribute>();
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValueAsDouble();
  if (auto i = dyn_cast<IntegerAttr>(attr))
    return double(i.getValue().getSExtValue());
  return std::nullopt;
}

Value BodyEmitter::power(Operation *op, Value a, Value exponent) {
  Type base = elementType(op->getOperand(0));
  Type exponentType = elementType(op->getOperand(1));
  if (isFloat(a)) {
    auto c = constantExponent(exponent);
    if (c && *c == 2)
      return mathBuilder.mul(a, a);
    if (c && *c == 3)
      return mathBuilder.mul(mathBuilder.mul(a, a), a);
    if (c && *c == 1)
      return a;
    if (c && *c == -1)
      return mathBuilder.div(mathBuilder.real(1.0, a), a);
    Value y = convert(exponent, exponentType, base);
    return mathBuilder.pow(a, y);
  }
  // Integers through f64: exact up to 2^53.
  Value x = convert(a, base, b().getF64Type());
  Value y = convert(exponent, exponentType, b().getF64Type());
  Value r = math::RoundEvenOp::create(b(), loc(), mathBuilder.pow(x, y));
  return convert(r, b().getF64Type(), base);
}

// Neither division by zero nor the smallest integer by -1 may reach the
// machine's instruction: both trap.
Value BodyEmitter::divide(Operation *op, Value a, Value c, bool isUnsigned) {
  auto is = [&](int64_t n) -> Value {
    return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::eq, c,
                                 mathBuilder.integer(n, c));
  };
  Value zero = is(0);
  Value any = zero;
  if (isa<VectorType>(zero.getType()))
    any = vector::ReductionOp::create(b(), loc(), vector::CombiningKind::OR,
                                      zero);
  target.report(*this, any, kHostDivisionByZero);
  Value one = mathBuilder.integer(1, c), none = mathBuilder.integer(0, c);
  bool remainder = isa<ModOp>(op);
  if (isUnsigned) {
    Value d = mathBuilder.select(zero, one, c);
    if (remainder)
      return arith::RemUIOp::create(b(), loc(), a, d);
    return arith::DivUIOp::create(b(), loc(), a, d);
  }
  Value minus = is(-1);
  Value d =
      mathBuilder.select(arith::OrIOp::create(b(), loc(), zero, minus), one, c);
  if (!remainder) {
    Value q = arith::DivSIOp::create(b(), loc(), a, d);
    return mathBuilder.select(minus, arith::SubIOp::create(b(), loc(), none, a),
                              q);
  }
  Value r = arith::RemSIOp::create(b(), loc(), a, d);
  if (cast<ModOp>(op).getFmod())
    return r;
  // The divisor's sign: add it where the signs differ.
  Value differ =
      arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::slt,
                            arith::XOrIOp::create(b(), loc(), r, d), none);
  Value nonzero =
      arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::ne, r, none);
  return mathBuilder.select(arith::AndIOp::create(b(), loc(), differ, nonzero),
                            arith::AddIOp::create(b(), loc(), r, d), r);
}

Value BodyEmitter::integerOp(Operation *op, Value a, Value c, bool u) {
  auto shift = [&](auto make) -> Value {
    // A distance beyond the width leaves copies of the sign.
    unsigned width = getElementTypeOrSelf(a.getType()).getIntOrFloatBitWidth();
    Value fits = arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::ult, c,
                                       mathBuilder.integer(width, c));
    Value distance = mathBuilder.select(fits, c, mathBuilder.integer(0, c));
    Value beyond = mathBuilder.integer(0, a);
    if (!u && isa<ShiftRightOp>(op))
      beyond = arith::ShRSIOp::create(b(), loc(), a,
                                      mathBuilder.integer(width - 1, a));
    return mathBuilder.select(fits, make(distance), beyond);
  };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<AddOp, ReduceSumOp, ReduceMeanOp, CumSumOp>(
          [&](auto) { return arith::AddIOp::create(b(), loc(), a, c); })
      .Case([&](SubOp) { return arith::SubIOp::create(b(), loc(), a, c); })
      .Case<MulOp, ReduceProdOp>(
          [&](auto) { return arith::MulIOp::create(b(), loc(), a, c); })
      .Case<DivOp, ModOp>([&](auto o) { return divide(o, a, c, u); })
      .Case<AndOp, ReduceAndOp>(
          [&](auto) { return arith::AndIOp::create(b(), loc(), a, c); })
      .Case<OrOp, ReduceOrOp>(
          [&](auto) { return arith::OrIOp::create(b(), loc(), a, c); })
      .Case([&](XorOp) { return arith::XOrIOp::create(b(), loc(), a, c); })
      .Case<MaxOp, ReduceMaxOp>([&](auto) -> Value {
        if (u)
          return arith::MaxUIOp::create(b(), loc(), a, c);
        return arith::MaxSIOp::create(b(), loc(), a, c);
      })
      .Case<MinOp, ReduceMinOp>([&](auto) -> Value {
        if (u)
          return arith::MinUIOp::create(b(), loc(), a, c);
        return arith::MinSIOp::create(b(), loc(), a, c);
      })
      .Case([&](ShiftLeftOp) {
        return shift([&](Value d) -> Value {
          return arith::ShLIOp::create(b(), loc(), a, d);
        });
      })
      .Case([&](ShiftRightOp) {
        return shift([&](Value d) -> Value {
          if (u)
            return arith::ShRUIOp::create(b(), loc(), a, d);
          return arith::ShRSIOp::create(b(), loc(), a, d);
        });
      })
      .Default([&](Operation *o) {
        return unsupported(o, "'" + o->getName().getStringRef() +
                                  "' on integers is not known");
      });
}

Value BodyEmitter::binary(Operation *op, Value a, Value c) {
  if (!isFloat(a))
    return integerOp(op, a, c, isUnsigned(elementType(op->getOperand(0))));
  MathBuilder &m = mathBuilder;
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp) { return m.add(a, c); })
      .Case([&](SubOp) { return m.sub(a, c); })
      .Case([&](MulOp) { return m.mul(a, c); })
      .Case([&](DivOp) { return m.div(a, c); })
      .Case([&](MaxOp) { return m.max(a, c); })
      .Case([&](MinOp) { return m.min(a, c); })
      .Case([&](ModOp o) {
        Value r = m.fmod(a, c);
        if (o.getFmod())
          return r;
        Value zero = m.real(0.0, r);
        Value differ = m.less(m.mul(r, m.copySign(m.real(1.0, c), c)), zero);
        return m.select(differ, m.add(r, c), r);
      })
      .Default([&](Operation *o) {
        return unsupported(o, "'" + o->getName().getStringRef() +
                                  "' on floats is not known");
      });
}

//===----------------------------------------------------------------------===//
// One operand
//===----------------------------------------------------------------------===//

static Value integerUnary(BodyEmitter &e, Operation *op, Value x) {
  OpBuilder &b = e.b();
  MathBuilder &m = e.math();
  bool u = isUnsigned(elementType(op->getOperand(0)));
  Value zero = m.integer(0, x);
  Value negated = arith::SubIOp::create(b, e.loc(), zero, x);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](NegOp) { return negated; })
      .Case([&](AbsOp) -> Value {
        if (u)
          return x;
        return arith::MaxSIOp::create(b, e.loc(), x, negated);
      })
      .Case([&](NotOp) {
        return arith::XOrIOp::create(b, e.loc(), x, m.integer(-1, x));
      })
      .Case([&](SquareOp) { return arith::MulIOp::create(b, e.loc(), x, x); })
      .Case([&](ReluOp) -> Value {
        if (u)
          return x;
        return arith::MaxSIOp::create(b, e.loc(), x, zero);
      })
      .Case([&](SignOp) -> Value {
        Value one = m.integer(1, x);
        if (u)
          return arith::MinUIOp::create(b, e.loc(), x, one);
        return arith::MaxSIOp::create(
            b, e.loc(), arith::MinSIOp::create(b, e.loc(), x, one),
            m.integer(-1, x));
      })
      .Default([&](Operation *o) {
        return e.unsupported(o, "'" + o->getName().getStringRef() +
                                    "' on integers is not known");
      });
}

static Value gelu(MathBuilder &m, GeluOp op, Value x) {
  Value half = m.mul(x, m.real(0.5, x)), one = m.real(1.0, x);
  if (!op.getTanh())
    return m.mul(half,
                 m.add(one, m.erf(m.mul(x, m.real(0.70710678118654752, x)))));
  Value cubic = m.mul(m.mul(m.mul(x, x), x), m.real(0.044715, x));
  Value inner = m.mul(m.add(x, cubic), m.real(0.79788456080286536, x));
  return m.mul(half, m.add(one, m.tanh(inner)));
}

static Value isInfinite(BodyEmitter &e, IsInfOp op, Value x) {
  MathBuilder &m = e.math();
  double infinity = std::numeric_limits<double>::infinity();
  if (op.getPositive() && op.getNegative())
    return m.equal(m.abs(x), m.real(infinity, x));
  if (op.getPositive() || op.getNegative())
    return m.equal(x, m.real(op.getPositive() ? infinity : -infinity, x));
  Type type = like(x, e.b().getI1Type());
  return arith::ConstantOp::create(e.b(), e.loc(), e.b().getZeroAttr(type));
}

Value BodyEmitter::unary(Operation *op, Value x) {
  if (!isFloat(x))
    return integerUnary(*this, op, x);
  if (Value native = target.elementary(*this, op, x))
    return native;
  MathBuilder &m = mathBuilder;
  auto one = [&] { return m.real(1.0, x); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](NegOp) { return m.neg(x); })
      .Case([&](AbsOp) { return m.abs(x); })
      .Case([&](ExpOp) { return m.exp(x); })
      .Case([&](LogOp) { return m.log(x); })
      .Case([&](SqrtOp) { return m.sqrt(x); })
      .Case([&](RsqrtOp) { return m.div(one(), m.sqrt(x)); })
      .Case([&](ReciprocalOp) { return m.div(one(), x); })
      .Case([&](SquareOp) { return m.mul(x, x); })
      .Case([&](SinOp) { return m.sin(x); })
      .Case([&](CosOp) { return m.cos(x); })
      .Case([&](TanOp) { return m.tan(x); })
      .Case([&](AsinOp) { return m.asin(x); })
      .Case([&](AcosOp) { return m.acos(x); })
      .Case([&](AtanOp) { return m.atan(x); })
      .Case([&](SinhOp) { return m.sinh(x); })
      .Case([&](CoshOp) { return m.cosh(x); })
      .Case([&](AsinhOp) { return m.asinh(x); })
      .Case([&](AcoshOp) { return m.acosh(x); })
      .Case([&](AtanhOp) { return m.atanh(x); })
      .Case([&](TanhOp) { return m.tanh(x); })
      .Case([&](ErfOp) { return m.erf(x); })
      .Case([&](SigmoidOp) { return m.sigmoid(x); })
      .Case([&](SiluOp o) {
        Value scaled = m.mul(x, m.real(o.getAlpha().convertToFloat(), x));
        bool plain = o.getAlpha().convertToFloat() == 1.0f;
        // x / (1 + e^-ax), with e^-|ax|, which cannot overflow.
        Value a = plain ? x : scaled, e = m.exp(m.neg(m.abs(a)));
        Value top = m.select(m.less(a, m.real(0.0, a)), m.mul(x, e), x);
        return m.div(top, m.add(one(), e));
      })
      .Case([&](ReluOp) { return m.max(x, m.real(0.0, x)); })
      .Case([&](SoftplusOp) { return m.softplus(x); })
      .Case([&](FloorOp) { return math::FloorOp::create(b(), loc(), x); })
      .Case([&](CeilOp) { return math::CeilOp::create(b(), loc(), x); })
      .Case([&](RoundOp) { return math::RoundEvenOp::create(b(), loc(), x); })
      .Case([&](SignOp) {
        Value zero = m.real(0.0, x);
        Value r = m.select(m.isNan(x), x, zero); // NaN stays, -0 is 0
        r = m.select(m.less(zero, x), one(), r);
        return m.select(m.less(x, zero), m.real(-1.0, x), r);
      })
      .Case([&](GeluOp o) { return gelu(m, o, x); })
      .Case([&](IsNanOp) { return m.isNan(x); })
      .Case([&](IsInfOp o) { return isInfinite(*this, o, x); })
      .Default([&](Operation *o) {
        return unsupported(o, "'" + o->getName().getStringRef() +
                                  "' on floats is not known");
      });
}

//===----------------------------------------------------------------------===//
// Reductions, one step
//===----------------------------------------------------------------------===//

Value BodyEmitter::neutral(Operation *op, Type type) {
  Value zero = arith::ConstantOp::create(b(), loc(), b().getZeroAttr(type));
  bool u = isUnsigned(elementType(op->getOperand(0)));
  double infinity = std::numeric_limits<double>::infinity();
  bool real = isFloat(zero);
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ReduceProdOp) {
        return real ? mathBuilder.real(1.0, zero)
                    : mathBuilder.integer(1, zero);
      })
      .Case([&](ReduceAndOp) { return mathBuilder.integer(-1, zero); })
      .Case([&](ReduceMaxOp) {
        if (real)
          return mathBuilder.real(-infinity, zero);
        APInt low = u ? APInt(width, 0) : APInt::getSignedMinValue(width);
        return mathBuilder.integer(low.getSExtValue(), zero);
      })
      .Case([&](ReduceMinOp) {
        if (real)
          return mathBuilder.real(infinity, zero);
        APInt high =
            u ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
        return mathBuilder.integer(high.getSExtValue(), zero);
      })
      .Default([&](Operation *) { return zero; });
}

Value BodyEmitter::accumulate(Operation *op, Value sum, Value x) {
  if (!isFloat(sum))
    return integerOp(op, sum, x, isUnsigned(elementType(op->getOperand(0))));
  if (isa<ReduceMaxOp>(op))
    return mathBuilder.max(sum, x);
  if (isa<ReduceMinOp>(op))
    return mathBuilder.min(sum, x);
  if (isa<ReduceProdOp>(op))
    return mathBuilder.mul(sum, x);
  return mathBuilder.add(sum, x);
}

Value BodyEmitter::finish(Operation *op, Value sum) {
  auto mean = dyn_cast<ReduceMeanOp>(op);
  if (!mean)
    return sum;
  SymShape shape = getSymShape(mean.getInput());
  SymExpr count = 1;
  for (int64_t axis : mean.getAxes())
    count = count * shape[axis];
  Value n = ix.size(count);
  if (!isFloat(sum)) {
    Value divisor = arith::IndexCastOp::create(b(), loc(), sum.getType(), n);
    return arith::DivSIOp::create(b(), loc(), sum, divisor);
  }
  Value real = arith::SIToFPOp::create(
      b(), loc(), sum.getType(),
      arith::IndexCastOp::create(b(), loc(), b().getI64Type(), n));
  return mathBuilder.div(sum, real);
}
