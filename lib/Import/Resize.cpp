//===- Resize.cpp - Images of another size --------------------------------===//
//
// Axis by axis: each place of the result is a weighted sum of a few places of
// the input ("taps"). Both are constants, so a tap is a gather and a product;
// the nearest place is a gather alone.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

namespace {

/// More places than constants in the module may have.
constexpr int64_t kMostPlaces = 8192;
constexpr int64_t kMostTaps = 64;

struct Resize {
  NodeImport &n;
  std::string mode, place, nearest;
  bool antialias, excludeOutside;
  double cubic, outside;

  explicit Resize(NodeImport &n)
      : n(n), mode(n.getString("mode", "nearest")),
        place(n.getString("coordinate_transformation_mode", "half_pixel")),
        nearest(n.getString("nearest_mode", "round_prefer_floor")),
        antialias(n.getInt("antialias", 0) != 0),
        excludeOutside(n.getInt("exclude_outside", 0) != 0),
        cubic(n.getFloat("cubic_coeff_a", -0.75f)),
        outside(n.getFloat("extrapolation_value", 0)) {}

  LogicalResult check();
  std::optional<double> origin(int64_t i) const;
  double kernel(double distance) const;
  SmallVector<double> taps(double ratio, int64_t &first) const;
  bool prefersRight(double ratio) const;
  LogicalResult addPlaces();
  Value resizeAxis(Value x, int64_t axis);
  Value pick(Value x, int64_t axis, ArrayRef<int64_t> indices);
  Value along(Value vector, int64_t rank, int64_t axis);

  // Of the axis at hand.
  int64_t in = 0, out = 0;
  double scale = 1, start = 0, end = 1;
  SmallVector<SmallVector<int64_t>> indices; ///< of each tap
  SmallVector<SmallVector<double>> weights;
  SmallVector<bool> inside;
};

} // namespace

LogicalResult Resize::check() {
  auto refuse = [&](StringRef name, StringRef value) {
    return n.fail("attribute '" + name + "' is '" + value +
                  "', which the operator does not have");
  };
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return refuse("mode", mode);
  if (!llvm::is_contained({"half_pixel", "half_pixel_symmetric",
                           "pytorch_half_pixel", "align_corners", "asymmetric",
                           "tf_crop_and_resize"},
                          StringRef(place)))
    return refuse("coordinate_transformation_mode", place);
  if (!llvm::is_contained(
          {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
          StringRef(nearest)))
    return refuse("nearest_mode", nearest);
  if (mode != "nearest" && !isa<FloatType>(elementType(n.input(0))))
    return n.fail("mode '" + mode +
                  "' is supported for floating-point elements only");
  return success();
}

/// Where place `i` of the result lies in the input; nullopt outside of what is
/// cropped.
std::optional<double> Resize::origin(int64_t i) const {
  double width = scale * static_cast<double>(in), last = double(in - 1);
  double x = static_cast<double>(i);
  if (place == "align_corners")
    return width == 1 ? 0 : x * last / (width - 1);
  if (place == "asymmetric")
    return x / scale;
  if (place == "tf_crop_and_resize") {
    double at = width == 1 ? (end - start) * last / 2
                           : x * (end - start) * last / (width - 1);
    at += start * last;
    return at < 0 || at > last ? std::nullopt : std::optional<double>(at);
  }
  if (place == "pytorch_half_pixel" && width == 1)
    return -0.5;
  double at = (x + 0.5) / scale - 0.5;
  if (place == "half_pixel_symmetric")
    at += static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / width);
  return at;
}

/// The weight of a place at a distance.
double Resize::kernel(double distance) const {
  double x = std::fabs(distance), a = cubic;
  if (mode == "linear")
    return std::max(0.0, 1 - x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The weights of the places from `first` on, counted from the one to the left
/// of an origin that lies `ratio` behind it.
SmallVector<double> Resize::taps(double ratio, int64_t &first) const {
  double shrink = antialias ? std::min(scale, 1.0) : 1;
  double reach = mode == "linear" ? 1 : 2;
  first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  SmallVector<double> weights;
  double sum = 0;
  for (int64_t k = first; k < 2 - first; ++k) {
    weights.push_back(kernel((static_cast<double>(k) - ratio) * shrink));
    sum += weights.back();
  }
  if (antialias)
    for (double &weight : weights)
      weight /= sum;
  return weights;
}

bool Resize::prefersRight(double ratio) const {
  if (ratio == 1 || nearest == "ceil")
    return true;
  if (nearest == "floor")
    return false;
  return nearest == "round_prefer_ceil" ? ratio >= 0.5 : ratio > 0.5;
}

/// Indices and weights for every place of the result.
LogicalResult Resize::addPlaces() {
  indices.clear();
  weights.clear();
  inside.clear();
  for (int64_t i = 0; i < out; ++i) {
    auto found = origin(i);
    inside.push_back(found.has_value());
    double x = found.value_or(0), left = std::ceil(x) - 1;
    int64_t first = 0;
    SmallVector<double> own;
    if (mode == "nearest") {
      first = prefersRight(x - left) ? 1 : 0;
      own.push_back(1);
    } else {
      own = taps(x - left, first);
    }
    if (own.size() > kMostTaps)
      return n.fail("each element is made of " + Twine(own.size()) +
                    ", supported are " + Twine(kMostTaps));
    indices.resize(own.size());
    weights.resize(own.size());
    double sum = 0;
    for (size_t k = 0; k < own.size(); ++k) {
      int64_t at = static_cast<int64_t>(left) + first + int64_t(k);
      if (excludeOutside && (at < 0 || at >= in))
        own[k] = 0;
      sum += own[k];
      indices[k].push_back(std::clamp<int64_t>(at, 0, in - 1));
    }
    for (size_t k = 0; k < own.size(); ++k)
      weights[k].push_back(excludeOutside ? own[k] / sum : own[k]);
  }
  return success();
}

Value Resize::pick(Value x, int64_t axis, ArrayRef<int64_t> indices) {
  auto type = RankedTensorType::get({static_cast<int64_t>(indices.size())},
                                    n.builder.getI64Type());
  Value places = ConstantOp::create(n.builder, n.loc,
                                    DenseElementsAttr::get(type, indices));
  return GatherOp::create(n.builder, n.loc, x, places, axis);
}

/// A vector where it broadcasts along `axis`.
Value Resize::along(Value vector, int64_t rank, int64_t axis) {
  SymShape shape(rank, SymExpr(1));
  shape[axis] = out;
  return n.reshape(vector, shape);
}

Value Resize::resizeAxis(Value x, int64_t axis) {
  Type element = elementType(x);
  auto rank = static_cast<int64_t>(getSymShape(x).size());
  auto vectorType = RankedTensorType::get({out}, element);
  Value sum;
  for (auto [index, weight] : llvm::zip(indices, weights)) {
    Value tap = pick(x, axis, index);
    if (mode != "nearest") {
      SmallVector<Attribute> values;
      for (double w : weight)
        values.push_back(n.builder.getFloatAttr(element, w));
      Value factors = ConstantOp::create(
          n.builder, n.loc, DenseElementsAttr::get(vectorType, values));
      tap = MulOp::create(n.builder, n.loc, tap, along(factors, rank, axis));
    }
    sum = sum ? Value(AddOp::create(n.builder, n.loc, sum, tap)) : tap;
  }
  if (llvm::all_of(inside, [](bool in) { return in; }))
    return sum;
  Value known = ConstantOp::create(
      n.builder, n.loc,
      DenseElementsAttr::get(
          RankedTensorType::get({out}, n.builder.getI1Type()),
          ArrayRef<bool>(inside)));
  return WhereOp::create(n.builder, n.loc, along(known, rank, axis), sum,
                         n.scalar(outside, element));
}

namespace {
/// What becomes of one axis.
struct Axis {
  int64_t axis, in, out;
  double scale, start = 0, end = 1;
};
} // namespace

/// Sizes as near to the given ones as one scale for all axes comes.
static void keepAspect(SmallVectorImpl<Axis> &axes, bool larger) {
  double scale = larger ? 0 : INFINITY;
  for (const Axis &axis : axes)
    scale = larger ? std::max(scale, axis.scale) : std::min(scale, axis.scale);
  for (Axis &axis : axes) {
    axis.scale = scale;
    axis.out = static_cast<int64_t>(
        std::floor(scale * static_cast<double>(axis.in) + 0.5));
  }
}

/// The axes that change; others may have any size.
static FailureOr<SmallVector<Axis>> readAxes(NodeImport &n,
                                             const Resize &resize) {
  SymShape shape = n.shape(0);
  auto rank = static_cast<int64_t>(shape.size());
  auto all = llvm::to_vector(llvm::seq<int64_t>(rank));
  auto given = n.getInts("axes");
  auto axes = n.distinctAxes(given ? ArrayRef(*given) : all, rank);
  if (failed(axes))
    return failure();
  bool crops = resize.place == "tf_crop_and_resize";
  auto listed = [&](size_t i, StringRef what,
                    size_t count) -> FailureOr<std::vector<double>> {
    auto values = n.reals(i);
    if (!values)
      return n.failUnknown(i, what);
    if (values->size() != count)
      return n.fail("expected " + Twine(count) + " " + what + ", found " +
                    Twine(values->size()));
    return *values;
  };
  size_t count = axes->size();
  bool bySizes = n.hasInput(3) && n.shape(3) != SymShape(1, SymExpr(0));
  FailureOr<SymShape> sizes = SymShape();
  FailureOr<std::vector<double>> scales = std::vector<double>(),
                                 roi = std::vector<double>();
  if (bySizes)
    sizes = n.sizes(3, "sizes");
  else
    scales = listed(2, "scales", count);
  if (crops)
    roi = listed(1, "bounds of a region", 2 * count);
  if (failed(sizes) || failed(scales) || failed(roi))
    return failure();
  if (bySizes && sizes->size() != count)
    return n.fail("expected " + Twine(count) + " sizes, found " +
                  Twine(sizes->size()));
  SmallVector<Axis> result;
  for (size_t i = 0; i < count; ++i) {
    int64_t axis = (*axes)[i];
    bool whole = !crops || ((*roi)[i] == 0 && (*roi)[count + i] == 1);
    bool same = bySizes ? (*sizes)[i] == shape[axis] : (*scales)[i] == 1;
    auto in = shape[axis].asConstant();
    auto out = bySizes ? (*sizes)[i].asConstant() : std::optional<int64_t>(0);
    bool keeps =
        n.getString("keep_aspect_ratio_policy", "stretch") != "stretch";
    if (whole && same && !(keeps && in))
      continue;
    if (!in || !out || *in < 1 || *in > kMostPlaces)
      return n.fail("expected axis " + Twine(axis) +
                    " of a constant size up to " + Twine(kMostPlaces) +
                    ", found " + shape[axis].str() +
                    "; give the symbols fixed values (--dim)");
    double width = static_cast<double>(*in);
    Axis entry{axis, *in, *out, 1};
    entry.scale = bySizes ? static_cast<double>(*out) / width : (*scales)[i];
    if (!bySizes)
      entry.out = static_cast<int64_t>(
          std::floor(std::clamp(entry.scale * width, -1.0, 1e9)));
    if (crops) {
      entry.start = (*roi)[i];
      entry.end = (*roi)[count + i];
    }
    if (!(entry.scale > 0) || entry.out < 1 || entry.out > kMostPlaces)
      return n.fail("expected 1 to " + Twine(kMostPlaces) +
                    " elements of axis " + Twine(axis) + ", found " +
                    Twine(entry.out));
    result.push_back(entry);
  }
  return result;
}

static LogicalResult resize(NodeImport &n) {
  Resize resize(n);
  if (failed(resize.check()))
    return failure();
  auto axes = readAxes(n, resize);
  if (failed(axes))
    return failure();
  std::string policy = n.getString("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    return n.fail("attribute 'keep_aspect_ratio_policy' is '" + policy +
                  "', which the operator does not have");
  if (policy != "stretch")
    keepAspect(*axes, policy == "not_smaller");
  Value x = n.input(0);
  for (const Axis &axis : *axes) {
    resize.in = axis.in;
    resize.out = axis.out;
    resize.scale = axis.scale;
    resize.start = axis.start;
    resize.end = axis.end;
    if (failed(resize.addPlaces()))
      return failure();
    x = resize.resizeAxis(x, axis.axis);
  }
  if (axes->empty()) {
    n.importer.alias(n.node.outputs[0], n.node.inputs[0]);
    return success();
  }
  n.output(0, x);
  return success();
}

void fusion::addResizeHandlers(HandlerMap &map) { map["::Resize"] = resize; }
