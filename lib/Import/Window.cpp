//===- Window.cpp - Windows that move over the axes of an image -----------===//

#include "Window.h"

using namespace mlir;
using namespace fusion;

/// A border that makes the result as large as the input, over the stride.
LogicalResult Window::padLikeInput(WindowAxis &axis, const std::string &mode) {
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

/// The number of windows; with ceil_mode the last one may reach over the end,
/// but not start behind the input.
LogicalResult Window::countPlaces(WindowAxis &axis, const SymExpr &given) {
  SymExpr room = axis.size - SymExpr(axis.span());
  auto constant = room.asConstant();
  bool roundsUp = n.getInt("ceil_mode", 0) != 0 && axis.stride > 1;
  if (roundsUp && !constant)
    return n.fail("ceil_mode with a stride needs a constant size, found " +
                  given.str());
  if (roundsUp && *constant > -axis.stride) {
    int64_t out = (*constant + axis.stride - 1) / axis.stride + 1;
    if ((out - 1) * axis.stride >= *given.asConstant() + axis.low)
      --out;
    axis.extra = std::max<int64_t>((out - 1) * axis.stride - *constant, 0);
    axis.size = axis.size + SymExpr(axis.extra);
    axis.out = out;
    return success();
  }
  if (constant && *constant < 0)
    return n.fail("the kernel spans " + Twine(axis.span()) +
                  " elements of an axis of " + axis.size.str());
  n.symbols().assumeAtMost(axis.span() - axis.low - axis.high, given);
  axis.out = *SymExpr::floorDiv(room, axis.stride) + SymExpr(1);
  return success();
}

LogicalResult Window::read() {
  SymShape x = n.shape(0);
  batch = x[0];
  channels = x[1];
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
      if (failed(padLikeInput(axis, mode)))
        return failure();
    } else if (mode == "NOTSET" && pads) {
      axis.low = (*pads)[i];
      axis.high = (*pads)[count + i];
    } else if (mode != "NOTSET" && mode != "VALID") {
      return n.fail("auto_pad '" + mode + "' is unknown");
    }
    axis.size = axis.size + SymExpr(axis.low + axis.high);
    if (failed(countPlaces(axis, x[2 + i])))
      return failure();
  }
  return success();
}

bool Window::hasBorder() const {
  return llvm::any_of(axes, [](const WindowAxis &axis) {
    return axis.low || axis.high || axis.extra;
  });
}

Value Window::padded(Value x, Value value) {
  SymShape shape = getSymShape(x);
  SymShape low = {0, 0};
  for (auto [i, axis] : llvm::enumerate(axes)) {
    low.push_back(axis.low);
    shape[2 + i] = axis.size;
  }
  return PadOp::create(n.builder, n.loc, getTensorType(shape, elementType(x)),
                       x, value, getExprsAttr(n.builder.getContext(), low),
                       n.builder.getStringAttr("constant"));
}

Value Window::strided(Value x, size_t axis, int64_t offset) {
  SymShape shape = getSymShape(x);
  SymShape starts(shape.size(), SymExpr(0));
  SmallVector<int64_t> steps(shape.size(), 1);
  starts[2 + axis] = offset;
  steps[2 + axis] = axes[axis].stride;
  shape[2 + axis] = axes[axis].out;
  return SliceOp::create(n.builder, n.loc, getTensorType(shape, elementType(x)),
                         x, getExprsAttr(n.builder.getContext(), starts),
                         n.builder.getDenseI64ArrayAttr(steps));
}
