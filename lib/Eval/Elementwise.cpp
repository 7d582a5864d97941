//===- Elementwise.cpp - Evaluation of elementwise ops --------------------===//

#include "Loops.h"

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

/// Integer arithmetic that doubles would not carry exactly. Division is apart:
/// it may have no result.
using Integer = int64_t (*)(int64_t, int64_t);
static Integer getInteger(StringRef name, bool isUnsigned) {
  using U = uint64_t;
  Integer result =
      llvm::StringSwitch<Integer>(name)
          .Case("add",
                [](int64_t a, int64_t b) { return int64_t(U(a) + U(b)); })
          .Case("sub",
                [](int64_t a, int64_t b) { return int64_t(U(a) - U(b)); })
          .Case("mul",
                [](int64_t a, int64_t b) { return int64_t(U(a) * U(b)); })
          .Case("and", [](int64_t a, int64_t b) { return a & b; })
          .Case("or", [](int64_t a, int64_t b) { return a | b; })
          .Case("xor", [](int64_t a, int64_t b) { return a ^ b; })
          .Case("shift_left",
                [](int64_t a, int64_t b) {
                  return U(b) < 64 ? int64_t(U(a) << U(b)) : 0;
                })
          .Case("equal", [](int64_t a, int64_t b) { return int64_t(a == b); })
          .Default(nullptr);
  if (result)
    return result;
  if (isUnsigned)
    return llvm::StringSwitch<Integer>(name)
        .Case("max",
              [](int64_t a, int64_t b) { return int64_t(std::max<U>(a, b)); })
        .Case("min",
              [](int64_t a, int64_t b) { return int64_t(std::min<U>(a, b)); })
        .Case("shift_right",
              [](int64_t a, int64_t b) {
                return U(b) < 64 ? int64_t(U(a) >> U(b)) : 0;
              })
        .Case("less", [](int64_t a, int64_t b) { return int64_t(U(a) < U(b)); })
        .Case("less_equal",
              [](int64_t a, int64_t b) { return int64_t(U(a) <= U(b)); })
        .Case("greater",
              [](int64_t a, int64_t b) { return int64_t(U(a) > U(b)); })
        .Case("greater_equal",
              [](int64_t a, int64_t b) { return int64_t(U(a) >= U(b)); })
        .Default(nullptr);
  return llvm::StringSwitch<Integer>(name)
      .Case("max", [](int64_t a, int64_t b) { return std::max(a, b); })
      .Case("min", [](int64_t a, int64_t b) { return std::min(a, b); })
      .Case("shift_right",
            [](int64_t a, int64_t b) { return a >> std::min<U>(b, 63); })
      .Case("less", [](int64_t a, int64_t b) { return int64_t(a < b); })
      .Case("less_equal", [](int64_t a, int64_t b) { return int64_t(a <= b); })
      .Case("greater", [](int64_t a, int64_t b) { return int64_t(a > b); })
      .Case("greater_equal",
            [](int64_t a, int64_t b) { return int64_t(a >= b); })
      .Default(nullptr);
}

static int64_t divide(int64_t a, int64_t b, bool isUnsigned) {
  if (isUnsigned)
    return int64_t(uint64_t(a) / uint64_t(b));
  return b == -1 ? int64_t(0 - uint64_t(a)) : a / b;
}

static int64_t remainder(int64_t a, int64_t b, bool fmod) {
  if (b == -1)
    return 0;
  return fmod ? a % b : floorMod(a, b);
}

static Result binary(const Frame &f, StringRef name, std::string &why) {
  const Tensor &a = f.operand(0), &b = f.operand(1);
  Tensor out = f.makeResult();
  Writer writer(out);
  auto loop = [&](auto fn) {
    forEachPlace<2>(
        f.shape,
        {broadcastSteps(a.shape, f.shape), broadcastSteps(b.shape, f.shape)},
        {0, 0}, [&](int64_t i, const auto &at) { fn(i, at[0], at[1]); });
  };
  bool integers = !a.isFloat() && !b.isFloat();
  bool isUnsigned = integers && a.element.isUnsignedInteger();
  auto mod = dyn_cast<ModOp>(f.op);
  if (integers && (mod || name == "div")) {
    bool fmod = mod && mod.getFmod();
    loop([&](int64_t i, int64_t x, int64_t y) {
      if (b.ints[y] == 0)
        why = mod ? "remainder of a division by zero" : "division by zero";
      else
        writer.setInt(i, mod ? remainder(a.ints[x], b.ints[y], fmod)
                             : divide(a.ints[x], b.ints[y], isUnsigned));
    });
  } else if (mod) {
    loop([&](int64_t i, int64_t x, int64_t y) {
      writer.set(i, std::fmod(a.get(x), b.get(y)));
    });
  } else if (Integer fn = integers ? getInteger(name, isUnsigned) : nullptr) {
    loop([&](int64_t i, int64_t x, int64_t y) {
      writer.setInt(i, fn(a.ints[x], b.ints[y]));
    });
  } else if (Binary fn = getBinary(name)) {
    bool toFloat = out.isFloat();
    loop([&](int64_t i, int64_t x, int64_t y) {
      double value = fn(a.get(x), b.get(y));
      toFloat ? writer.set(i, value) : out.set(i, value);
    });
  }
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
  Writer writer(out);
  double limit = castLimit(cast<CastOp>(f.op), out.element);
  bool toBool = out.element.isInteger(1), isFloat = in.isFloat(),
       toFloat = out.isFloat();
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    if (toBool)
      out.ints[i] = in.get(i) != 0;
    else if (!isFloat)
      writer.setInt(i, in.ints[i]);
    else if (toFloat && !std::isnan(in.floats[i]))
      writer.set(i, std::clamp(in.floats[i], -limit, limit));
    else
      out.set(i, std::trunc(in.floats[i]));
  }
  return out;
}

static Tensor where(const Frame &f) {
  Tensor out = f.makeResult();
  const Tensor &condition = f.operand(0), &yes = f.operand(1),
               &no = f.operand(2);
  auto choose = [&](auto &to, const auto &ifTrue, const auto &ifFalse) {
    forEachPlace<3>(
        f.shape,
        {broadcastSteps(condition.shape, f.shape),
         broadcastSteps(yes.shape, f.shape), broadcastSteps(no.shape, f.shape)},
        {0, 0, 0}, [&](int64_t i, const auto &at) {
          to[i] = condition.ints[at[0]] ? ifTrue[at[1]] : ifFalse[at[2]];
        });
  };
  if (out.isFloat())
    choose(out.floats, yes.floats, no.floats);
  else
    choose(out.ints, yes.ints, no.ints);
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
  Writer writer(out);
  bool toFloat = out.isFloat();
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    double value = fn(f.operand(0).get(i));
    toFloat ? writer.set(i, value) : out.set(i, value);
  }
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
  Writer writer(out);
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    writer.setInt(i, ~in.ints[i]);
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
