//===- Conv.cpp - Convolutions as products --------------------------------===//
//
// Each place of the result reads a patch: the patches become the rows of a
// matrix product with the weight [M, C * kernel]. Patches that lie side by side
// (an embedding of image patches) are a view of the input; others are put
// together from one strided slice for each element of the kernel.
//
//===----------------------------------------------------------------------===//

#include "Window.h"

using namespace mlir;
using namespace fusion;

namespace {
struct Conv : Window {
  int64_t groups = 1, features = 0, depth = 0; ///< depth: channels of a group
  int64_t kernel = 1;                          ///< elements

  using Window::Window;

  LogicalResult readKernel();
  Value tiles(Value x);
  Value slices(Value x);
  SymExpr places() const;
  Value product(Value patches);
};
} // namespace

LogicalResult Conv::readKernel() {
  SymShape x = n.shape(0), w = n.shape(1);
  if (x.size() < 3 || w.size() != x.size())
    return n.fail("expected an input [N, C, sizes..] and a weight of its rank, "
                  "found ranks " +
                  Twine(x.size()) + " and " + Twine(w.size()));
  SmallVector<int64_t> sizes;
  for (const SymExpr &size : w) {
    auto constant = size.asConstant();
    if (!constant || *constant < 1)
      return n.fail("expected a weight of constant sizes, found " + size.str());
    sizes.push_back(*constant);
  }
  groups = n.getInt("group", 1);
  features = sizes[0];
  depth = sizes[1];
  if (groups < 1 || features % groups || depth > kMaxNumber ||
      groups > kMaxNumber)
    return n.fail("the weight's " + Twine(features) +
                  " rows cannot be parted "
                  "into " +
                  Twine(groups) + " groups");
  if (failed(n.equate(x[1], depth * groups, "the channels")))
    return failure();
  auto given = n.getInts("kernel_shape");
  for (size_t i = 2; i < sizes.size(); ++i) {
    if (given &&
        (given->size() != sizes.size() - 2 || (*given)[i - 2] != sizes[i]))
      return n.fail("kernel_shape is not that of the weight");
    axes.emplace_back(sizes[i]);
    if (sizes[i] > kMaxNumber / kernel)
      return n.fail("the kernel is too large");
    kernel *= sizes[i];
  }
  return success();
}

SymExpr Conv::places() const {
  SymExpr count = 1;
  for (const WindowAxis &axis : axes)
    count = count * axis.out;
  return count;
}

/// [N, C, out, kernel, out, kernel, ..] to [N, out.., C, kernel..].
Value Conv::tiles(Value x) {
  SymShape split = {batch, channels};
  SmallVector<int64_t> perm = {0};
  for (auto [i, axis] : llvm::enumerate(axes)) {
    SymExpr covered = axis.out * SymExpr(axis.kernel);
    if (covered != axis.size)
      x = n.slice(x, 2 + i, 0, covered);
    split.push_back(axis.out);
    split.push_back(axis.kernel);
    perm.push_back(2 + 2 * i);
  }
  perm.push_back(1);
  for (size_t i = 0; i < axes.size(); ++i)
    perm.push_back(3 + 2 * i);
  return n.transpose(n.reshape(x, split), perm);
}

/// One slice an element of the kernel, joined to [N, C, kernel, places], then
/// turned to [N, places, C, kernel].
Value Conv::slices(Value x) {
  SmallVector<Value> parts;
  SymShape sizes = {batch, channels};
  SmallVector<int64_t> steps = {1, 1};
  for (const WindowAxis &axis : axes) {
    sizes.push_back(axis.out);
    steps.push_back(axis.stride);
  }
  for (int64_t k = 0; k < kernel; ++k) {
    SymShape starts(sizes.size(), SymExpr(0));
    int64_t rest = k;
    for (size_t i = axes.size(); i-- > 0; rest /= axes[i].kernel)
      starts[2 + i] = rest % axes[i].kernel * axes[i].dilation;
    Value part =
        SliceOp::create(n.builder, n.loc, getTensorType(sizes, elementType(x)),
                        x, getExprsAttr(n.builder.getContext(), starts),
                        n.builder.getDenseI64ArrayAttr(steps));
    parts.push_back(n.reshape(part, {batch, channels, 1, places()}));
  }
  Value all = parts.size() == 1
                  ? parts[0]
                  : ConcatOp::create(n.builder, n.loc, parts, 2).getResult();
  return n.transpose(all, {0, 3, 1, 2});
}

/// From patches [N, places.., C, kernel..] to [N, M, out..].
Value Conv::product(Value patches) {
  SymExpr width = depth * kernel, rows = features / groups;
  Value x, w;
  if (groups == 1) {
    x = n.reshape(patches, {batch, places(), width});
    w = n.reshape(n.input(1), {rows, width});
  } else {
    x = n.transpose(n.reshape(patches, {batch, places(), groups, width}),
                    {0, 2, 1, 3});
    w = n.reshape(n.input(1), {groups, rows, width});
  }
  Value y = MatmulOp::create(n.builder, n.loc, x, w, false, true);
  if (n.hasInput(2)) {
    Value bias = n.input(2);
    if (groups > 1)
      bias = n.reshape(bias, {groups, 1, rows});
    y = AddOp::create(n.builder, n.loc, y, bias);
  }
  SmallVector<int64_t> perm = {0, 2, 1};
  if (groups > 1)
    perm = {0, 1, 3, 2};
  SymShape shape = {batch, features};
  for (const WindowAxis &axis : axes)
    shape.push_back(axis.out);
  return n.reshape(n.transpose(y, perm), shape);
}

/// The convolution with its bias.
static FailureOr<Value> convolved(NodeImport &n) {
  Conv conv(n);
  if (failed(conv.readKernel()) || failed(conv.read()))
    return failure();
  if (n.hasInput(2)) {
    SymShape bias = n.shape(2);
    if (bias.size() != 1 ||
        failed(n.equate(bias[0], conv.features, "the bias and the weight")))
      return n.fail("expected a bias of " + Twine(conv.features) + " elements");
  }
  bool tiled =
      llvm::all_of(conv.axes, [](const WindowAxis &a) { return a.isTiled(); });
  if (!tiled && conv.kernel > kMaxSlices)
    return n.fail("a kernel of more than " + Twine(kMaxSlices) +
                  " elements is supported only where its stride is its size");
  Value x = n.input(0);
  if (conv.hasBorder())
    x = conv.padded(x, n.scalar(0, elementType(x)));
  return conv.product(tiled ? conv.tiles(x) : conv.slices(x));
}

static LogicalResult convolution(NodeImport &n) {
  auto result = convolved(n);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

/// activation(convolution + Z)
static LogicalResult fusedConvolution(NodeImport &n) {
  auto result = convolved(n);
  if (succeeded(result))
    result = n.plusInput(*result, 3);
  if (failed(result))
    return failure();
  const auto *parameters = n.node.find("activation_params");
  result =
      activate(n, *result,
               parameters ? ArrayRef(parameters->floats) : ArrayRef<float>());
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

void fusion::addConvHandlers(HandlerMap &map) {
  map["::Conv"] = convolution;
  map["com.microsoft::FusedConv"] = fusedConvolution;
}
