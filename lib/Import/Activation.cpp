//===- Activation.cpp - Activation functions ------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

namespace {
/// Arithmetic on one node's values.
struct Maths {
  NodeImport &n;
  Value operator()(double value, Value like) {
    return n.scalar(value, elementType(like));
  }
  Value add(Value a, Value b) { return AddOp::create(n.builder, n.loc, a, b); }
  Value sub(Value a, Value b) { return SubOp::create(n.builder, n.loc, a, b); }
  Value mul(Value a, Value b) { return MulOp::create(n.builder, n.loc, a, b); }
  Value div(Value a, Value b) { return DivOp::create(n.builder, n.loc, a, b); }
  Value max(Value a, Value b) { return MaxOp::create(n.builder, n.loc, a, b); }
  Value min(Value a, Value b) { return MinOp::create(n.builder, n.loc, a, b); }
  Value exp(Value a) { return ExpOp::create(n.builder, n.loc, a); }
  Value where(Value c, Value a, Value b) {
    return WhereOp::create(n.builder, n.loc, c, a, b);
  }
  /// x < 0 ? negative : positive
  Value bySign(Value x, Value negative, Value positive) {
    Value c = LessOp::create(n.builder, n.loc, x, (*this)(0, x));
    return where(c, negative, positive);
  }
};
} // namespace

static LogicalResult gelu(NodeImport &n) {
  std::string approximate = n.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return n.fail("unknown approximation '" + approximate + "'");
  n.output(0,
           GeluOp::create(n.builder, n.loc, n.input(0), approximate == "tanh"));
  return success();
}

/// gelu(x + bias), where bias broadcasts over x.
static LogicalResult biasedGelu(NodeImport &n, bool tanh) {
  auto x = n.plusInput(n.input(0), 1);
  if (failed(x))
    return failure();
  n.output(0, GeluOp::create(n.builder, n.loc, *x, tanh));
  return success();
}
static LogicalResult fastGelu(NodeImport &n) { return biasedGelu(n, true); }
static LogicalResult biasGelu(NodeImport &n) { return biasedGelu(n, false); }

static Value silu(NodeImport &n, Value x, float alpha) {
  return SiluOp::create(n.builder, n.loc, x, n.builder.getF32FloatAttr(alpha));
}

static LogicalResult swish(NodeImport &n) {
  n.output(0, silu(n, n.input(0), n.getFloat("alpha", 1.0f)));
  return success();
}

static LogicalResult quickGelu(NodeImport &n) {
  n.output(0, silu(n, n.input(0), n.getFloat("alpha", 1.702f)));
  return success();
}

static LogicalResult swiglu(NodeImport &n) {
  Value gate = n.input(0), up = n.input(1);
  SymShape a = n.shape(0), b = n.shape(1);
  if (a.size() != b.size())
    return n.fail("expected operands of equal shape");
  for (auto [x, y] : llvm::zip(a, b))
    if (failed(n.equate(x, y, "gate and value")))
      return failure();
  Value activated = silu(n, gate, n.getFloat("alpha", 1.0f));
  n.output(0, MulOp::create(n.builder, n.loc, activated, up));
  return success();
}

static Value leakyReluOf(NodeImport &n, Value x, float alpha) {
  Maths m{n};
  return m.bySign(x, m.mul(x, m(alpha, x)), x);
}
static LogicalResult leakyRelu(NodeImport &n) {
  n.output(0, leakyReluOf(n, n.input(0), n.getFloat("alpha", 0.01f)));
  return success();
}

static LogicalResult prelu(NodeImport &n) {
  Maths m{n};
  Value x = n.input(0), slope = n.input(1);
  if (failed(n.checkBroadcast({x, slope})))
    return failure();
  n.output(0, m.bySign(x, m.mul(x, slope), x));
  return success();
}

/// scale * (x < 0 ? alpha * (exp(x / divisor) - 1) : x)
static Value exponential(NodeImport &n, Value x, float alpha, float scale,
                         float divisor) {
  Maths m{n};
  Value inner = x;
  if (divisor != 1.0f)
    inner = m.div(x, m(divisor, x));
  Value negative = m.mul(m.sub(m.exp(inner), m(1, x)), m(alpha, x));
  Value result = m.bySign(x, negative, x);
  return scale == 1.0f ? result : m.mul(result, m(scale, x));
}
static LogicalResult elu(NodeImport &n) {
  n.output(0,
           exponential(n, n.input(0), n.getFloat("alpha", 1.0f), 1.0f, 1.0f));
  return success();
}
static constexpr float kSeluAlpha = 1.67326319217681884765625f;
static constexpr float kSeluGamma = 1.05070102214813232421875f;
static LogicalResult selu(NodeImport &n) {
  n.output(0, exponential(n, n.input(0), n.getFloat("alpha", kSeluAlpha),
                          n.getFloat("gamma", kSeluGamma), 1.0f));
  return success();
}
static LogicalResult celu(NodeImport &n) {
  float alpha = n.getFloat("alpha", 1.0f);
  n.output(0, exponential(n, n.input(0), alpha, 1.0f, alpha));
  return success();
}

/// max(0, min(1, alpha * x + beta))
static Value hardSigmoidOf(NodeImport &n, Value x, float alpha, float beta) {
  Maths m{n};
  Value line = m.add(m.mul(x, m(alpha, x)), m(beta, x));
  return m.max(m.min(line, m(1, x)), m(0, x));
}
static LogicalResult hardSigmoid(NodeImport &n) {
  n.output(0, hardSigmoidOf(n, n.input(0), n.getFloat("alpha", 0.2f),
                            n.getFloat("beta", 0.5f)));
  return success();
}
static LogicalResult hardSwish(NodeImport &n) {
  Maths m{n};
  n.output(0,
           m.mul(n.input(0), hardSigmoidOf(n, n.input(0), 1.0f / 6.0f, 0.5f)));
  return success();
}

static Value softsignOf(NodeImport &n, Value x) {
  Maths m{n};
  Value size = AbsOp::create(n.builder, n.loc, x);
  return m.div(x, m.add(size, m(1, x)));
}
static LogicalResult softsign(NodeImport &n) {
  n.output(0, softsignOf(n, n.input(0)));
  return success();
}

static LogicalResult mish(NodeImport &n) {
  Maths m{n};
  Value x = n.input(0);
  Value plus = SoftplusOp::create(n.builder, n.loc, x);
  Value bent = TanhOp::create(n.builder, n.loc, plus);
  n.output(0, m.mul(x, bent));
  return success();
}

static Value thresholdedReluOf(NodeImport &n, Value x, float alpha) {
  Maths m{n};
  Value above = GreaterOp::create(n.builder, n.loc, x, m(alpha, x));
  return m.where(above, x, m(0, x));
}
static LogicalResult thresholdedRelu(NodeImport &n) {
  n.output(0, thresholdedReluOf(n, n.input(0), n.getFloat("alpha", 1.0f)));
  return success();
}

/// x < -lambd: x + bias; x > lambd: x - bias; else 0.
static LogicalResult shrink(NodeImport &n) {
  Maths m{n};
  Value x = n.input(0);
  if (!isa<FloatType>(elementType(x)))
    return n.fail("expected a floating-point input");
  float lambd = n.getFloat("lambd", 0.5f), bias = n.getFloat("bias", 0.0f);
  Value below = LessOp::create(n.builder, n.loc, x, m(-lambd, x));
  Value above = GreaterOp::create(n.builder, n.loc, x, m(lambd, x));
  Value upper = m.where(above, m.sub(x, m(bias, x)), m(0, x));
  n.output(0, m.where(below, m.add(x, m(bias, x)), upper));
  return success();
}

FailureOr<Value> fusion::activate(NodeImport &n, Value x,
                                  ArrayRef<float> parameters) {
  std::string name = n.getString("activation", "");
  Maths m{n};
  auto given = [&](size_t i, float otherwise) {
    return i < parameters.size() ? parameters[i] : otherwise;
  };
  if (name.empty())
    return x;
  if (name == "Relu")
    return Value(ReluOp::create(n.builder, n.loc, x));
  if (name == "Tanh")
    return Value(TanhOp::create(n.builder, n.loc, x));
  if (name == "Sigmoid")
    return Value(SigmoidOp::create(n.builder, n.loc, x));
  if (name == "Softplus")
    return Value(SoftplusOp::create(n.builder, n.loc, x));
  if (name == "Softsign")
    return softsignOf(n, x);
  if (name == "LeakyRelu")
    return leakyReluOf(n, x, given(0, 0.01f));
  if (name == "ThresholdedRelu")
    return thresholdedReluOf(n, x, given(0, 1.0f));
  if (name == "Elu")
    return exponential(n, x, given(0, 1.0f), 1.0f, 1.0f);
  if (name == "HardSigmoid")
    return hardSigmoidOf(n, x, given(0, 0.2f), given(1, 0.5f));
  if (name == "Clip" && parameters.size() == 2)
    return m.min(m.max(x, m(parameters[0], x)), m(parameters[1], x));
  return n.fail("the activation '" + name +
                "' is not supported; optimise the model without it");
}

void fusion::addActivationHandlers(HandlerMap &map) {
  map["::Gelu"] = gelu;
  map["com.microsoft::Gelu"] = gelu;
  map["com.microsoft::FastGelu"] = fastGelu;
  map["com.microsoft::BiasGelu"] = biasGelu;
  map["com.microsoft::QuickGelu"] = quickGelu;
  map["::Swish"] = swish;
  map["::SwiGLU"] = swiglu;
  map["::LeakyRelu"] = leakyRelu;
  map["::PRelu"] = prelu;
  map["::Elu"] = elu;
  map["::Selu"] = selu;
  map["::Celu"] = celu;
  map["::HardSigmoid"] = hardSigmoid;
  map["::HardSwish"] = hardSwish;
  map["::Softsign"] = softsign;
  map["::Mish"] = mish;
  map["::ThresholdedRelu"] = thresholdedRelu;
  map["::Shrink"] = shrink;
}
