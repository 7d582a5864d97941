//===- Conv.cpp - Convolutions as products --------------------------------===//
//
// Each place of the result reads a patch: the patches become the rows of a
// matrix product with the weight [M, C * kernel]. Patches that lie side by side
// (an embedding of image patches) are a view of the input; others are put
// together from one strided slice for each element of the kernel.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

namespace {
/// One spatial axis.
struct Axis {
  int64_t kernel, stride = 1, dilation = 1;
  int64_t low = 0, high = 0; ///< zeros around
  SymExpr size;              ///< with them
  SymExpr out;

  explicit Axis(int64_t kernel) : kernel(kernel) {}
  int64_t span() const { return (kernel - 1) * dilation + 1; }
  bool isTiled() const { return kernel == stride && span() == kernel; }
};

/// Larger kernels that overlap would be as many slices.
constexpr int64_t kMaxSlices = 256;
constexpr int64_t kMaxNumber = 1 << 20;

struct Conv {
  NodeImport &n;
  SmallVector<Axis> axes;
  SymExpr batch, channels;
  int64_t groups = 1, features = 0, depth = 0; ///< depth: channels of a group
  int64_t kernel = 1;                          ///< elements

  explicit Conv(NodeImport &n) : n(n) {}

  LogicalResult readKernel();
  LogicalResult readAxes();
  LogicalResult pad(Axis &axis, const std::string &mode);
  Value padded();
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
  batch = x[0];
  channels = x[1];
  if (groups < 1 || features % groups || depth > kMaxNumber ||
      groups > kMaxNumber)
    return n.fail("the weight's " + Twine(features) +
                  " rows cannot be parted "
                  "into " +
                  Twine(groups) + " groups");
  if (failed(n.equate(channels, depth * groups, "the channels")))
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

/// Zeros that make the result as large as the input, over the stride.
LogicalResult Conv::pad(Axis &axis, const std::string &mode) {
  int64_t total = axis.span() - 1;
  if (axis.stride != 1) {
    auto size = axis.size.asConstant();
    if (!size)
      return n.fail("auto_pad with a stride needs a constant size, found " +
                    axis.size.str());
    int64_t out = (*size + axis.stride - 1) / axis.stride;
    total = std::max<int64_t>((out - 1) * axis.stride + axis.span() - *size, 0);
  }
  axis.low = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  axis.high = total - axis.low;
  return success();
}

LogicalResult Conv::readAxes() {
  SymShape x = n.shape(0);
  size_t count = axes.size();
  std::string mode = n.getString("auto_pad", "NOTSET");
  auto strides = n.getInts("strides"), dilations = n.getInts("dilations"),
       pads = n.getInts("pads");
  auto isRight = [](const auto &list, size_t size, int64_t least) {
    return !list ||
           (list->size() == size && llvm::all_of(*list, [&](int64_t v) {
              return v >= least && v <= kMaxNumber;
            }));
  };
  if (!isRight(strides, count, 1) || !isRight(dilations, count, 1) ||
      !isRight(pads, 2 * count, 0))
    return n.fail("expected " + Twine(count) + " strides and dilations and " +
                  Twine(2 * count) + " pads, none of them negative");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    axis.stride = strides ? (*strides)[i] : 1;
    axis.dilation = dilations ? (*dilations)[i] : 1;
    axis.size = x[2 + i];
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      if (failed(pad(axis, mode)))
        return failure();
    } else if (mode == "NOTSET" && pads) {
      axis.low = (*pads)[i];
      axis.high = (*pads)[count + i];
    } else if (mode != "NOTSET" && mode != "VALID") {
      return n.fail("auto_pad '" + mode + "' is unknown");
    }
    axis.size = axis.size + SymExpr(axis.low + axis.high);
    SymExpr room = axis.size - SymExpr(axis.span());
    if (auto constant = room.asConstant(); constant && *constant < 0)
      return n.fail("the kernel spans " + Twine(axis.span()) +
                    " elements of an axis of " + axis.size.str());
    n.symbols().assumeAtMost(axis.span() - axis.low - axis.high, x[2 + i]);
    axis.out = *SymExpr::floorDiv(room, axis.stride) + SymExpr(1);
  }
  return success();
}

Value Conv::padded() {
  Value x = n.input(0);
  SymShape low = {0, 0}, shape = {batch, channels};
  bool any = false;
  for (const Axis &axis : axes) {
    low.push_back(axis.low);
    shape.push_back(axis.size);
    any |= axis.low || axis.high;
  }
  if (!any)
    return x;
  Type element = elementType(x);
  return PadOp::create(n.builder, n.loc, getTensorType(shape, element), x,
                       n.scalar(0, element),
                       getExprsAttr(n.builder.getContext(), low),
                       n.builder.getStringAttr("constant"));
}

SymExpr Conv::places() const {
  SymExpr count = 1;
  for (const Axis &axis : axes)
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
  for (const Axis &axis : axes) {
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
  for (const Axis &axis : axes)
    shape.push_back(axis.out);
  return n.reshape(n.transpose(y, perm), shape);
}

static FailureOr<Value> convolved(NodeImport &n) {
  Conv conv(n);
  if (failed(conv.readKernel()) || failed(conv.readAxes()))
    return failure();
  if (n.hasInput(2)) {
    SymShape bias = n.shape(2);
    if (bias.size() != 1 ||
        failed(n.equate(bias[0], conv.features, "the bias and the weight")))
      return n.fail("expected a bias of " + Twine(conv.features) + " elements");
  }
  bool tiled =
      llvm::all_of(conv.axes, [](const Axis &a) { return a.isTiled(); });
  if (!tiled && conv.kernel > kMaxSlices)
    return n.fail("a kernel of more than " + Twine(kMaxSlices) +
                  " elements is supported only where its stride is its size");
  Value x = conv.padded();
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
