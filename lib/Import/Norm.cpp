//===- Norm.cpp - Normalisations ------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

/// 1 / sqrt(mean((x - mean)^2) + epsilon) over the axes from `axis`, in fp32,
/// for the statistics outputs that few models use.
static void statistics(NodeImport &n, Value x, int64_t axis, float epsilon,
                       bool centred, size_t meanOutput, size_t inverseOutput) {
  if (!n.hasOutput(meanOutput) && !n.hasOutput(inverseOutput))
    return;
  int64_t rank = getSymShape(x).size();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq(axis, rank));
  Value wide = n.cast(x, n.builder.getF32Type());
  Value mean = ReduceMeanOp::create(n.builder, n.loc, wide, axes, true);
  if (meanOutput != inverseOutput)
    n.output(meanOutput, mean);
  if (centred)
    wide = SubOp::create(n.builder, n.loc, wide, mean);
  Value square = MulOp::create(n.builder, n.loc, wide, wide);
  Value variance = ReduceMeanOp::create(n.builder, n.loc, square, axes, true);
  Value sum = AddOp::create(n.builder, n.loc, variance,
                            n.scalar(epsilon, n.builder.getF32Type()));
  n.output(inverseOutput,
           ReciprocalOp::create(n.builder, n.loc,
                                SqrtOp::create(n.builder, n.loc, sum)));
}

/// The last axes, from `axis`, as one.
static SymShape flattened(const SymShape &shape, int64_t axis) {
  SymShape result(shape.begin(), shape.begin() + axis);
  result.push_back(numElements(ArrayRef(shape).drop_front(axis)));
  return result;
}

/// An RMS norm over the axes from `axis`; the weight broadcasts over them.
static FailureOr<Value> rmsNorm(NodeImport &n, Value x, Value weight,
                                int64_t axis, float epsilon,
                                bool castBeforeScale, Type element) {
  SymShape shape = getSymShape(x);
  int64_t rank = shape.size();
  auto joint = n.broadcast({shape, getSymShape(weight)});
  if (failed(joint))
    return failure();
  if (joint->size() != shape.size())
    return n.fail("the weight has a higher rank than the input");
  bool flatten = axis != rank - 1;
  if (flatten) {
    // A full weight of the normalised shape, as one row.
    SymShape inner(shape.begin() + axis, shape.end());
    auto full = n.broadcast({inner, getSymShape(weight)});
    if (failed(full))
      return failure();
    if (full->size() != inner.size())
      return n.fail("the weight varies along axes that are not normalised");
    weight = n.reshape(n.expand(weight, inner), {numElements(inner)});
    x = n.reshape(x, flattened(shape, axis));
  }
  Value result =
      RmsNormOp::create(n.builder, n.loc, withElementType(x.getType(), element),
                        x, weight, n.builder.getF32FloatAttr(epsilon),
                        castBeforeScale ? n.builder.getUnitAttr() : UnitAttr());
  return flatten ? n.reshape(result, shape) : result;
}

/// RMSNormalization rounds the normalised value to the input's type, then
/// multiplies; SimplifiedLayerNormalization rounds once.
template <bool isOnnx>
static LogicalResult rmsNormalization(NodeImport &n) {
  Value x = n.input(0), weight = n.input(1);
  auto axis = n.axis(n.getInt("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  float epsilon = n.getFloat("epsilon", 1e-5f);
  Type from = elementType(x), to = elementType(weight);
  // The dialect rounds to the result's type; where the types differ the two
  // roundings of the definition are spelled out.
  bool split = isOnnx && from != to;
  Value one = weight;
  if (split)
    one = n.scalar(1, from);
  auto result = rmsNorm(n, x, one, *axis, epsilon, isOnnx, split ? from : to);
  if (failed(result))
    return failure();
  Value y = *result;
  if (split) {
    if (failed(n.checkBroadcast({y, weight})))
      return failure();
    y = MulOp::create(n.builder, n.loc, n.cast(y, to), weight);
  }
  n.output(0, y);
  if (!isOnnx)
    statistics(n, x, *axis, epsilon, false, 1, 1);
  return success();
}

static LogicalResult layerNormalization(NodeImport &n) {
  Value x = n.input(0);
  auto axis = n.axis(n.getInt("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  float epsilon = n.getFloat("epsilon", 1e-5f);
  SmallVector<Value> operands{x, n.input(1)};
  if (n.hasInput(2))
    operands.push_back(n.input(2));
  if (failed(n.checkBroadcast(operands)))
    return failure();
  n.output(0, LayerNormOp::create(
                  n.builder, n.loc,
                  withElementType(x.getType(), elementType(n.input(1))), x,
                  n.input(1), n.input(2), n.builder.getF32FloatAttr(epsilon),
                  n.builder.getI64IntegerAttr(*axis)));
  statistics(n, x, *axis, epsilon, true, 1, 2);
  return success();
}

/// A layer norm of each channel over all that lies behind it; weight and bias
/// hold one number a channel.
static LogicalResult instanceNormalization(NodeImport &n) {
  SymShape shape = n.shape(0);
  if (shape.size() < 3 || n.rank(1) != 1 || n.rank(2) != 1)
    return n.fail("expected an input of rank 3 or more, and a scale and a bias "
                  "of rank 1");
  for (size_t i : {1u, 2u})
    if (failed(n.equate(n.shape(i)[0], shape[1], "the channels")))
      return failure();
  SymExpr size = numElements(SymShape(shape.begin() + 2, shape.end()));
  Value x = n.reshape(n.input(0), {shape[0], shape[1], size});
  Value weight = n.reshape(n.input(1), {shape[1], 1}),
        bias = n.reshape(n.input(2), {shape[1], 1});
  Value y = LayerNormOp::create(
      n.builder, n.loc, x.getType(), x, weight, bias,
      n.builder.getF32FloatAttr(n.getFloat("epsilon", 1e-5f)),
      n.builder.getI64IntegerAttr(2));
  n.output(0, n.reshape(y, shape));
  return success();
}

/// A layer norm of each group of channels over all its elements; scale and
/// bias hold one number a channel.
static LogicalResult groupNormalization(NodeImport &n) {
  SymShape shape = n.shape(0);
  if (shape.size() < 2 || n.rank(1) != 1 || n.rank(2) != 1)
    return n.fail("expected an input of rank 2 or more, and a scale and a bias "
                  "of rank 1");
  for (size_t i : {1u, 2u})
    if (failed(n.equate(n.shape(i)[0], shape[1], "the channels")))
      return failure();
  int64_t groups = n.getInt("num_groups", 0);
  auto depth = groups > 0 ? shape[1].exactDiv(SymExpr(groups)) : std::nullopt;
  if (!depth)
    return n.fail("expected channels in equal groups, found " + shape[1].str() +
                  " in " + Twine(groups));
  SymExpr inner = numElements(SymShape(shape.begin() + 2, shape.end()));
  Value x = n.reshape(n.input(0), {shape[0], SymExpr(groups), *depth * inner});
  Value one = n.reshape(n.scalar(1, elementType(x)), {SymExpr(1)});
  Value y = LayerNormOp::create(
      n.builder, n.loc, x.getType(), x, one, Value(),
      n.builder.getF32FloatAttr(n.getFloat("epsilon", 1e-5f)),
      n.builder.getI64IntegerAttr(2));
  y = n.reshape(y, {shape[0], shape[1], inner});
  y = MulOp::create(n.builder, n.loc, y, n.reshape(n.input(1), {shape[1], 1}));
  y = AddOp::create(n.builder, n.loc, y, n.reshape(n.input(2), {shape[1], 1}));
  n.output(0, n.reshape(y, shape));
  return success();
}

/// Mean and variance of each channel; both keep the axes.
static std::pair<Value, Value> channelStatistics(NodeImport &n, Value x) {
  SmallVector<int64_t> axes{0};
  for (int64_t axis = 2; axis < n.rank(0); ++axis)
    axes.push_back(axis);
  Value mean = ReduceMeanOp::create(n.builder, n.loc, x, axes, true);
  Value centred = SubOp::create(n.builder, n.loc, x, mean);
  Value square = MulOp::create(n.builder, n.loc, centred, centred);
  return {mean, ReduceMeanOp::create(n.builder, n.loc, square, axes, true)};
}

/// What of the statistics is kept: old * momentum + new * (1 - momentum).
static Value running(NodeImport &n, Value before, Value now, Type element) {
  Type wide = elementType(now);
  float momentum = n.getFloat("momentum", 0.9f);
  Value kept =
      MulOp::create(n.builder, n.loc, before, n.scalar(momentum, wide));
  Value added =
      MulOp::create(n.builder, n.loc, now, n.scalar(1 - momentum, wide));
  Value sum = AddOp::create(n.builder, n.loc, kept, added);
  return n.cast(n.reshape(sum, {n.shape(0)[1]}), element);
}

/// x by one mean and one variance a channel, scaled and shifted; by those of
/// the input itself where the node says that the model is trained.
static LogicalResult batchNormalization(NodeImport &n) {
  SymShape shape = n.shape(0);
  int64_t rank = shape.size();
  bool trains = n.getInt("training_mode", 0) != 0;
  if (rank < 2)
    return n.fail("expected an input [N, C, ..], found rank " + Twine(rank));
  for (size_t i = 1; i < n.node.outputs.size(); ++i)
    if (n.hasOutput(i) && !trains)
      return n.fail("the statistics (output " + Twine(i) +
                    ") are computed in "
                    "training mode only; export the model for inference");
  for (size_t i = 1; i < 5; ++i) {
    if (n.rank(i) != 1)
      return n.fail("expected one number a channel in input " + Twine(i) +
                    ", found rank " + Twine(n.rank(i)));
    if (failed(n.equate(n.shape(i)[0], shape[1], "the channels")))
      return failure();
  }
  OpBuilder &b = n.builder;
  Type element = elementType(n.input(0));
  Type wide = element.isF64() ? element : b.getF32Type();
  SymShape line(rank, SymExpr(1));
  line[1] = shape[1];
  auto operand = [&](size_t i) {
    return n.reshape(n.cast(n.input(i), wide), line);
  };
  Value x = n.cast(n.input(0), wide), mean = operand(3), variance = operand(4);
  if (trains) {
    auto [ownMean, ownVariance] = channelStatistics(n, x);
    Type kept = elementType(n.input(3));
    n.output(1, running(n, mean, ownMean, kept));
    n.output(2, running(n, variance, ownVariance, kept));
    mean = ownMean;
    variance = ownVariance;
  }
  Value sum = AddOp::create(b, n.loc, variance,
                            n.scalar(n.getFloat("epsilon", 1e-5f), wide));
  Value factor =
      DivOp::create(b, n.loc, operand(1), SqrtOp::create(b, n.loc, sum));
  Value y = SubOp::create(b, n.loc, x, mean);
  y = MulOp::create(b, n.loc, y, factor);
  y = AddOp::create(b, n.loc, y, operand(2));
  n.output(0, n.cast(y, element));
  return success();
}

/// input [+ bias] + skip: the residual stream, the bias added to the product
/// that it belongs to.
static FailureOr<Value> residualSum(NodeImport &n, size_t biasInput) {
  SmallVector<Value> operands{n.input(0)};
  if (n.hasInput(biasInput))
    operands.push_back(n.input(biasInput));
  operands.push_back(n.input(1));
  auto shape = n.broadcast(llvm::to_vector(
      llvm::map_range(operands, [](Value v) { return getSymShape(v); })));
  if (failed(shape))
    return failure();
  if (shape->size() != getSymShape(operands[0]).size())
    return n.fail("skip or bias does not broadcast over the input");
  Value sum = operands[0];
  for (Value next : ArrayRef(operands).drop_front())
    sum = AddOp::create(n.builder, n.loc, sum, next);
  return sum;
}

/// Where com.microsoft's norms of a sum name none.
static constexpr float kSkipEpsilon = 1e-12f;

static LogicalResult skipRmsNorm(NodeImport &n) {
  auto sum = residualSum(n, 3);
  if (failed(sum) || n.rank(0) < 1)
    return failure();
  float epsilon = n.getFloat("epsilon", kSkipEpsilon);
  int64_t axis = n.rank(0) - 1;
  auto result =
      rmsNorm(n, *sum, n.input(2), axis, epsilon, false, elementType(*sum));
  if (failed(result))
    return failure();
  n.output(0, *result);
  statistics(n, *sum, axis, epsilon, false, 2, 2);
  n.output(3, *sum);
  if (n.hasOutput(1))
    return n.fail("the mean output is not supported");
  return success();
}

static LogicalResult skipLayerNorm(NodeImport &n) {
  auto sum = residualSum(n, 4);
  if (failed(sum) || n.rank(0) < 1)
    return failure();
  float epsilon = n.getFloat("epsilon", kSkipEpsilon);
  SmallVector<Value> operands{*sum, n.input(2)};
  if (n.hasInput(3))
    operands.push_back(n.input(3));
  if (failed(n.checkBroadcast(operands)))
    return failure();
  n.output(0, LayerNormOp::create(
                  n.builder, n.loc, logicalType((*sum).getType()), *sum,
                  n.input(2), n.input(3), n.builder.getF32FloatAttr(epsilon),
                  n.builder.getI64IntegerAttr(-1)));
  statistics(n, *sum, n.rank(0) - 1, epsilon, true, 1, 2);
  n.output(3, *sum);
  return success();
}

/// x over the length of its row along one axis; rows of length 0 stay.
static LogicalResult lpNormalization(NodeImport &n) {
  auto axis = n.axis(n.getInt("axis", -1), n.rank(0));
  int64_t p = n.getInt("p", 2);
  if (failed(axis))
    return failure();
  if (p != 1 && p != 2)
    return n.fail("expected p 1 or 2, found " + Twine(p));
  Value x = n.input(0);
  Value size = p == 1 ? Value(AbsOp::create(n.builder, n.loc, x))
                      : MulOp::create(n.builder, n.loc, x, x).getResult();
  Value length = ReduceSumOp::create(n.builder, n.loc, size, {*axis}, true);
  if (p == 2)
    length = SqrtOp::create(n.builder, n.loc, length);
  Value zero = n.scalar(0, elementType(x));
  Value isEmpty = EqualOp::create(n.builder, n.loc, length, zero);
  Value quotient = DivOp::create(n.builder, n.loc, x, length);
  n.output(0, WhereOp::create(n.builder, n.loc, isEmpty, zero, quotient));
  return success();
}

void fusion::addNormHandlers(HandlerMap &map) {
  map["::RMSNormalization"] = rmsNormalization<true>;
  map["::SimplifiedLayerNormalization"] = rmsNormalization<false>;
  map["com.microsoft::SimplifiedLayerNormalization"] = rmsNormalization<false>;
  map["::BatchNormalization"] = batchNormalization;
  map["::GroupNormalization"] = groupNormalization;
  map["::InstanceNormalization"] = instanceNormalization;
  map["::LayerNormalization"] = layerNormalization;
  map["::LpNormalization"] = lpNormalization;
  map["com.microsoft::SkipSimplifiedLayerNormalization"] = skipRmsNorm;
  map["com.microsoft::SkipLayerNormalization"] = skipLayerNorm;
}
