//===- CausalConv.cpp - Convolutions over the last few tokens -------------===//
//
// Each channel by itself: token t reads the k tokens up to t, those before the
// first from a state. One shifted slice for each element of the kernel.
//
//===----------------------------------------------------------------------===//

#include "Window.h"

using namespace mlir;
using namespace fusion;

/// Sizes of input, weight, bias and state; the kernel's length.
static FailureOr<int64_t> checkOperands(NodeImport &n) {
  if (n.rank(0) != 3 || n.rank(1) != 3)
    return n.fail("expected an input [batch, channels, length] and a weight "
                  "[channels, 1, k], found ranks " +
                  Twine(n.rank(0)) + " and " + Twine(n.rank(1)));
  SymShape x = n.shape(0), w = n.shape(1);
  auto kernel = w[2].asConstant();
  if (!kernel || *kernel < 1 || *kernel > kMaxSlices)
    return n.fail("expected a kernel of 1 to " + Twine(kMaxSlices) +
                  " elements, found " + w[2].str());
  if (failed(n.equate(w[0], x[1], "the channels")) ||
      failed(n.equate(w[1], 1, "the weight's second axis and one")))
    return failure();
  if (n.hasInput(2) &&
      (n.rank(2) != 1 ||
       failed(n.equate(n.shape(2)[0], x[1], "the bias and the channels"))))
    return n.fail("expected a bias of one number a channel");
  if (!n.hasInput(3))
    return *kernel;
  if (n.rank(3) != 3)
    return n.fail(
        "expected a past_state [batch, channels, k - 1], found rank " +
        Twine(n.rank(3)));
  SymExpr want[] = {x[0], x[1], *kernel - 1};
  for (auto [i, size] : llvm::enumerate(want))
    if (failed(n.equate(n.shape(3)[i], size,
                        "axis " + Twine(i) + " of past_state")))
      return failure();
  return *kernel;
}

/// The state in front of the input; zeros where there is none.
static Value withState(NodeImport &n, int64_t kernel) {
  Value x = n.input(0);
  if (kernel == 1)
    return x;
  if (n.hasInput(3))
    return ConcatOp::create(n.builder, n.loc, {n.input(3), x}, 2);
  SymShape shape = n.shape(0), low(3, SymExpr(0));
  low[2] = kernel - 1;
  shape[2] = shape[2] + low[2];
  Type element = elementType(x);
  return PadOp::create(n.builder, n.loc, getTensorType(shape, element), x,
                       n.scalar(0, element),
                       getExprsAttr(n.builder.getContext(), low),
                       n.builder.getStringAttr("constant"));
}

static LogicalResult causalConv(NodeImport &n) {
  std::string activation = n.getString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.fail("unknown activation '" + activation +
                  "', expected none, silu or swish");
  auto kernel = checkOperands(n);
  if (failed(kernel))
    return failure();
  OpBuilder &b = n.builder;
  SymExpr channels = n.shape(0)[1], length = n.shape(0)[2];
  Type element = elementType(n.input(0));
  Type wide = element.isF64() ? element : b.getF32Type();
  auto column = [&](Value x) {
    return n.reshape(n.cast(x, wide), {channels, SymExpr(1)});
  };
  Value all = withState(n, *kernel), sum;
  for (int64_t k = 0; k < *kernel; ++k) {
    Value tokens = n.cast(n.slice(all, 2, k, length), wide);
    Value product =
        MulOp::create(b, n.loc, tokens, column(n.slice(n.input(1), 2, k, 1)));
    sum = sum ? Value(AddOp::create(b, n.loc, sum, product)) : product;
  }
  if (n.hasInput(2))
    sum = AddOp::create(b, n.loc, sum, column(n.input(2)));
  if (activation != "none")
    sum = MulOp::create(b, n.loc, sum, SigmoidOp::create(b, n.loc, sum));
  n.output(0, n.cast(sum, element));
  n.output(1, n.slice(all, 2, length, *kernel - 1));
  return success();
}

void fusion::addCausalConvHandlers(HandlerMap &map) {
  map["::CausalConvWithState"] = causalConv;
}
