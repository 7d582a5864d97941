//===- Elementwise.cpp - Evaluation of elementwise ops --------------------===//

#include "Detail.h"

#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;
using namespace fusion::eval::detail;

using Unary = double (*)(double);
using Binary = double (*)(double, double);

static double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
static double nanMax(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}
static double nanMin(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}

static Unary getUnary(StringRef name) {
  return llvm::StringSwitch<Unary>(name)
      .Case("neg", [](double x) { return -x; })
      .Case("abs", [](double x) { return std::fabs(x); })
      .Case("exp", [](double x) { return std::exp(x); })
      .Case("log", [](double x) { return std::log(x); })
      .Case("sqrt", [](double x) { return std::sqrt(x); })
      .Case("rsqrt", [](double x) { return 1 / std::sqrt(x); })
      .Case("reciprocal", [](double x) { return 1 / x; })
      .Case("square", [](double x) { return x * x; })
      .Case("sin", [](double x) { return std::sin(x); })
      .Case("cos", [](double x) { return std::cos(x); })
      .Case("tan", [](double x) { return std::tan(x); })
      .Case("asin", [](double x) { return std::asin(x); })
      .Case("acos", [](double x) { return std::acos(x); })
      .Case("atan", [](double x) { return std::atan(x); })
      .Case("sinh", [](double x) { return std::sinh(x); })
      .Case("cosh", [](double x) { return std::cosh(x); })
      .Case("asinh", [](double x) { return std::asinh(x); })
      .Case("acosh", [](double x) { return std::acosh(x); })
      .Case("atanh", [](double x) { return std::atanh(x); })
      .Case("tanh", [](double x) { return std::tanh(x); })
      .Case("erf", [](double x) { return std::erf(x); })
      .Case("sigmoid", sigmoid)
      .Case("relu", [](double x) { return nanMax(x, 0); })
      .Case("softplus",
            [](double x) { return x > 30 ? x : std::log1p(std::exp(x)); })
      .Case("floor", [](double x) { return std::floor(x); })
      .Case("ceil", [](double x) { return std::ceil(x); })
      .Case("round", [](double x) { return std::nearbyint(x); })
      .Case("sign", [](double x) { return double((x > 0) - (x < 0)); })
      .Default(nullptr);
}

static Binary getBinary(StringRef name) {
  return llvm::StringSwitch<Binary>(name)
      .Case("add", [](double a, double b) { return a + b; })
      .Case("sub", [](double a, double b) { return a - b; })
      .Case("mul", [](double a, double b) { return a * b; })
      .Case("div", [](double a, double b) { return a / b; })
      .Case("pow", [](double a, double b) { return std::pow(a, b); })
      .Case("max", nanMax)
      .Case("min", nanMin)
      .Case("equal", [](double a, double b) { return double(a == b); })
      .Case("less", [](double a, double b) { return double(a < b); })
      .Case("less_equal", [](double a, double b) { return double(a <= b); })
      .Case("greater", [](double a, double b) { return double(a > b); })
      .Case("greater_equal", [](double a, double b) { return double(a >= b); })
      .Default(nullptr);
}

static int64_t floorMod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

/// Integer arithmetic that doubles would not carry exactly.
static std::optional<int64_t> integerOp(StringRef name, int64_t a, int64_t b,
                                        bool isUnsigned) {
  uint64_t ua = a, ub = b;
  if (name == "add")
    return int64_t(ua + ub);
  if (name == "sub")
    return int64_t(ua - ub);
  if (name == "mul")
    return int64_t(ua * ub);
  if (name == "div") {
    if (b == 0)
      return std::nullopt;
    if (isUnsigned)
      return int64_t(ua / ub);
    return b == -1 ? int64_t(0 - ua) : a / b;
  }
  if (name == "max")
    return isUnsigned ? int64_t(std::max(ua, ub)) : std::max(a, b);
  if (name == "min")
    return isUnsigned ? int64_t(std::min(ua, ub)) : std::min(a, b);
  if (name == "and")
    return a & b;
  if (name == "or")
    return a | b;
  if (name == "xor")
    return a ^ b;
  if (name == "shift_left")
    return ub < 64 ? int64_t(ua << ub) : 0;
  if (name == "shift_right")
    return isUnsigned ? (ub < 64 ? int64_t(ua >> ub) : 0)
                      : a >> std::min<uint64_t>(ub, 63);
  if (name == "equal")
    return a == b;
  if (name == "less")
    return isUnsigned ? ua < ub : a < b;
  if (name == "less_equal")
    return isUnsigned ? ua <= ub : a <= b;
  if (name == "greater")
    return isUnsigned ? ua > ub : a > b;
  if (name == "greater_equal")
    return isUnsigned ? ua >= ub : a >= b;
  return std::nullopt;
}

static Result binary(const Frame &f, StringRef name, std::string &why) {
  const Tensor &a = f.operand(0), &b = f.operand(1);
  Tensor out = f.makeResult();
  bool integers = !a.isFloat() && !b.isFloat();
  Binary fn = getBinary(name);
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    int64_t ia = broadcastIndex(index, a.shape),
            ib = broadcastIndex(index, b.shape);
    if (name == "mod" && integers) {
      int64_t x = a.ints[ia], y = b.ints[ib];
      if (y == 0 || y == -1) {
        if (y == 0)
          why = "remainder of a division by zero";
        out.setInt(i, 0);
      } else {
        out.setInt(i, cast<ModOp>(f.op).getFmod() ? x % y : floorMod(x, y));
      }
    } else if (name == "mod") {
      out.set(i, std::fmod(a.get(ia), b.get(ib)));
    } else if (integers && name != "pow") {
      auto value = integerOp(name, a.ints[ia], b.ints[ib],
                             a.element.isUnsignedInteger());
      if (!value)
        why = "division by zero";
      out.setInt(i, value.value_or(0));
    } else if (fn) {
      out.set(i, fn(a.get(ia), b.get(ib)));
    }
  });
  if (!why.empty())
    return std::nullopt;
  return out;
}

/// The largest finite value of a float of at most 8 bits, to which a cast
/// saturates; infinity for other types, and with `no_saturate`.
static double castLimit(CastOp op, Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type || type.getWidth() > 8 || op.getNoSaturate())
    return std::numeric_limits<double>::infinity();
  APFloat largest = APFloat::getLargest(type.getFloatSemantics());
  bool loses;
  largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return largest.convertToDouble();
}

static Tensor castTensor(const Frame &f) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  double limit = castLimit(cast<CastOp>(f.op), out.element);
  bool toBool = out.element.isInteger(1);
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    if (toBool)
      out.setInt(i, in.get(i) != 0);
    else if (in.isFloat())
      out.set(i, out.isFloat() && !std::isnan(in.floats[i])
                     ? std::clamp(in.floats[i], -limit, limit)
                     : std::trunc(in.floats[i]));
    else
      out.setInt(i, in.ints[i]);
  }
  return out;
}

static Tensor where(const Frame &f) {
  Tensor out = f.makeResult();
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    bool c = f.operand(0).getInt(broadcastIndex(index, f.operand(0).shape));
    const Tensor &from = f.operand(c ? 1 : 2);
    int64_t j = broadcastIndex(index, from.shape);
    from.isFloat() ? out.set(i, from.floats[j]) : out.setInt(i, from.ints[j]);
  });
  return out;
}

static double gelu(double x, bool tanhForm) {
  if (!tanhForm)
    return x / 2 * (1 + std::erf(x * M_SQRT1_2));
  return x / 2 *
         (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
}

template <typename Fn>
static Tensor mapElements(const Frame &f, Fn fn) {
  Tensor out = f.makeResult();
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    out.set(i, fn(f.operand(0).get(i)));
  return out;
}

static Tensor integerUnary(const Frame &f, StringRef name) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    int64_t x = in.ints[i];
    int64_t y = name == "neg"      ? int64_t(0 - uint64_t(x))
                : name == "abs"    ? (x < 0 ? int64_t(0 - uint64_t(x)) : x)
                : name == "square" ? int64_t(uint64_t(x) * uint64_t(x))
                : name == "sign"   ? (x > 0) - (x < 0)
                : name == "relu"   ? std::max<int64_t>(x, 0)
                                   : x;
    out.setInt(i, y);
  }
  return out;
}

static Tensor logicalNot(const Frame &f) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    out.setInt(i, ~in.getInt(i));
  return out;
}

eval::detail::Result eval::detail::evaluateElementwise(const Frame &f,
                                                       std::string &why) {
  StringRef name = f.op->getName().stripDialect();
  if (auto op = dyn_cast<SiluOp>(f.op)) {
    double alpha = op.getAlpha().convertToFloat();
    return mapElements(f, [&](double x) { return x * sigmoid(alpha * x); });
  }
  if (auto op = dyn_cast<GeluOp>(f.op))
    return mapElements(f, [&](double x) { return gelu(x, op.getTanh()); });
  if (isa<IsNanOp>(f.op))
    return mapElements(f, [](double x) { return double(std::isnan(x)); });
  if (auto op = dyn_cast<IsInfOp>(f.op))
    return mapElements(f, [&](double x) {
      return double(std::isinf(x) &&
                    (x > 0 ? op.getPositive() : op.getNegative()));
    });
  if (isa<CastOp>(f.op))
    return castTensor(f);
  if (isa<WhereOp>(f.op))
    return where(f);
  if (isa<NotOp>(f.op))
    return logicalNot(f);
  if (f.op->getNumOperands() == 1) {
    Unary fn = getUnary(name);
    if (!fn)
      return std::nullopt;
    return f.operand(0).isFloat() ? mapElements(f, fn) : integerUnary(f, name);
  }
  bool known = getBinary(name) || name == "mod" || name == "and" ||
               name == "or" || name == "xor" || name == "shift_left" ||
               name == "shift_right";
  if (f.op->getNumOperands() == 2 && known)
    return binary(f, name, why);
  return std::nullopt;
}
