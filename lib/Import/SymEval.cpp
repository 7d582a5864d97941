//===- SymEval.cpp - Shape arithmetic over symbolic sizes -----------------===//
//
// Shape, Gather, Concat, Add, ... on small integer tensors, evaluated with
// elements that are expressions. One function an operator.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/APSInt.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

namespace {

/// Larger results stay operations on data.
constexpr int64_t maxElements = 64;

using Values = std::optional<std::vector<SymTensor>>;
using Evaluate = Values (*)(NodeImport &);

Values one(SymTensor value) {
  if (elementCount(value.dims).value_or(maxElements + 1) > maxElements)
    return std::nullopt;
  for (const SymExpr &e : value.values)
    if (e.overflowed())
      return std::nullopt;
  std::vector<SymTensor> result;
  result.push_back(std::move(value));
  return result;
}

SymTensor vectorOf(std::vector<SymExpr> values, int32_t type = Int64) {
  SymTensor result;
  result.elemType = type;
  result.dims = {static_cast<int64_t>(values.size())};
  result.values = std::move(values);
  return result;
}

bool isInteger(int32_t type) {
  return type == Int64 || type == Int32 || type == Int8 || type == UInt8;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Values evalShape(NodeImport &n) {
  if (!n.importer.getShape(n.node.inputs[0]))
    return std::nullopt;
  SymShape shape = n.shape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  int64_t start = clamp(n.getInt("start", 0));
  int64_t end = clamp(n.getInt("end", rank));
  std::vector<SymExpr> sizes;
  for (int64_t i = start; i < end; ++i)
    sizes.push_back(shape[i]);
  return one(vectorOf(sizes));
}

Values evalSize(NodeImport &n) {
  if (!n.importer.getShape(n.node.inputs[0]))
    return std::nullopt;
  SymTensor result;
  result.values = {numElements(n.shape(0))};
  return one(result);
}

Values evalRange(NodeImport &n) {
  const SymTensor *start = n.sym(0), *limit = n.sym(1), *delta = n.sym(2);
  if (!start || !limit || !delta || start->values.size() != 1 ||
      limit->values.size() != 1 || delta->values.size() != 1)
    return std::nullopt;
  auto step = delta->values[0].asConstant();
  auto distance = (limit->values[0] - start->values[0]).asConstant();
  // Longer ones are positions, not sizes: `fusion.iota`.
  auto isSmall = [](int64_t v) { return v >= -256 && v <= 256; };
  if (!step || *step == 0 || !isSmall(*step) || !distance ||
      !isSmall(*distance) || *distance / *step > 16)
    return std::nullopt;
  std::vector<SymExpr> values;
  for (int64_t at = 0; *step > 0 ? at < *distance : at > *distance; at += *step)
    values.push_back(start->values[0] + SymExpr(at));
  return one(vectorOf(values, start->elemType));
}

Values evalConstantOfShape(NodeImport &n) {
  const SymTensor *shape = n.sym(0);
  auto dims = shape ? shape->constants() : std::nullopt;
  const onnxfile::Attribute *value = n.node.find("value");
  if (!dims || !value || !value->tensor)
    return std::nullopt;
  auto fill = toSymTensor(*value->tensor);
  auto count = elementCount(*dims);
  if (!fill || fill->values.size() != 1 || !count || *count > maxElements)
    return std::nullopt;
  fill->dims = *dims;
  fill->values.assign(*count, fill->values[0]);
  return one(*fill);
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// Broadcasts `dims` against `result`; false when they do not.
bool broadcastDims(std::vector<int64_t> &result,
                   const std::vector<int64_t> &dims) {
  while (result.size() < dims.size())
    result.insert(result.begin(), 1);
  size_t skip = result.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t &size = result[skip + i];
    if (dims[i] != size && dims[i] != 1 && size != 1)
      return false;
    size = size == 1 ? dims[i] : size;
  }
  return true;
}

/// The element of `t` at the row-major place `index` of a tensor of `dims`.
const SymExpr &at(const SymTensor &t, const std::vector<int64_t> &dims,
                  int64_t index) {
  int64_t place = 0, stride = 1;
  size_t skip = dims.size() - t.dims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    int64_t coordinate = index % dims[i];
    index /= dims[i];
    if (i < skip)
      continue;
    int64_t size = t.dims[i - skip];
    place += (size == 1 ? 0 : coordinate) * stride;
    stride *= size;
  }
  return t.values[place];
}

using Combine = std::optional<SymExpr> (*)(const Symbols &, const SymExpr &,
                                           const SymExpr &);

Values combine(NodeImport &n, Combine function, bool isBool) {
  const SymTensor *result = n.sym(0);
  if (!result || (!isInteger(result->elemType) && result->elemType != Bool))
    return std::nullopt;
  SymTensor sum = *result;
  for (size_t i = 1; i < n.numInputs(); ++i) {
    const SymTensor *next = n.sym(i);
    SymTensor out;
    out.elemType = isBool ? Bool : sum.elemType;
    out.dims = sum.dims;
    if (!next || !broadcastDims(out.dims, next->dims))
      return std::nullopt;
    int64_t count = elementCount(out.dims).value_or(maxElements + 1);
    if (count > maxElements)
      return std::nullopt;
    for (int64_t e = 0; e < count; ++e) {
      auto value =
          function(n.symbols(), at(sum, out.dims, e), at(*next, out.dims, e));
      if (!value)
        return std::nullopt;
      out.values.push_back(*value);
    }
    sum = std::move(out);
  }
  return one(sum);
}

template <Combine function, bool isBool = false>
Values evalBinary(NodeImport &n) {
  return combine(n, function, isBool);
}

using Maybe = std::optional<SymExpr>;
Maybe add(const Symbols &, const SymExpr &a, const SymExpr &b) { return a + b; }
Maybe sub(const Symbols &, const SymExpr &a, const SymExpr &b) { return a - b; }
Maybe mul(const Symbols &, const SymExpr &a, const SymExpr &b) { return a * b; }

/// Integer division rounds towards zero; sizes are not negative.
Maybe div(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  auto x = a.asConstant(), y = b.asConstant();
  if (y && *y == 0)
    return std::nullopt;
  if (x && y)
    return *y == -1 ? -a : SymExpr(*x / *y);
  if (auto exact = a.exactDiv(b))
    return exact;
  if (!symbols.provesAtMost(0, a) || !symbols.provesAtMost(0, b))
    return std::nullopt;
  return SymExpr::floorDiv(a, b);
}
Maybe mod(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  if (!symbols.provesAtMost(0, a) || !symbols.provesAtMost(1, b))
    return std::nullopt;
  return SymExpr::mod(a, b);
}
Maybe minimum(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  if (symbols.provesAtMost(a, b))
    return a;
  return symbols.provesAtMost(b, a) ? b : SymExpr::min(a, b);
}
Maybe maximum(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  if (symbols.provesAtMost(a, b))
    return b;
  return symbols.provesAtMost(b, a) ? a : SymExpr::max(a, b);
}
Maybe equal(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  if (symbols.provesEqual(a, b))
    return SymExpr(1);
  return symbols.provesUnequal(a, b) ? Maybe(SymExpr(0)) : std::nullopt;
}
Maybe lessOrEqual(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  if (symbols.provesAtMost(a, b))
    return SymExpr(1);
  return symbols.provesAtMost(b + SymExpr(1), a) ? Maybe(SymExpr(0))
                                                 : std::nullopt;
}
Maybe less(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  return lessOrEqual(symbols, a + SymExpr(1), b);
}
Maybe greater(const Symbols &symbols, const SymExpr &a, const SymExpr &b) {
  return less(symbols, b, a);
}
Maybe greaterOrEqual(const Symbols &symbols, const SymExpr &a,
                     const SymExpr &b) {
  return lessOrEqual(symbols, b, a);
}
Maybe both(const Symbols &, const SymExpr &a, const SymExpr &b) {
  return a == SymExpr(0) || b == SymExpr(0) ? SymExpr(0) : SymExpr(1);
}
Maybe either(const Symbols &, const SymExpr &a, const SymExpr &b) {
  return a == SymExpr(0) && b == SymExpr(0) ? SymExpr(0) : SymExpr(1);
}

template <Maybe (*function)(NodeImport &, const SymExpr &)>
Values evalUnary(NodeImport &n) {
  const SymTensor *input = n.sym(0);
  if (!input)
    return std::nullopt;
  SymTensor result = *input;
  for (SymExpr &value : result.values) {
    auto mapped = function(n, value);
    if (!mapped)
      return std::nullopt;
    value = *mapped;
  }
  return one(result);
}

Maybe negate(NodeImport &, const SymExpr &a) { return -a; }
Maybe absolute(NodeImport &n, const SymExpr &a) {
  if (n.symbols().provesAtMost(0, a))
    return a;
  return n.symbols().provesAtMost(a, 0) ? Maybe(-a) : std::nullopt;
}
Maybe complement(NodeImport &, const SymExpr &a) { return SymExpr(1) - a; }

/// Constant floats as integers: older exporters write `Cast(1.0)` for a 1.
std::optional<SymTensor> truncated(NodeImport &n) {
  const Tensor *tensor = n.constant(0);
  if (!tensor || tensor->elements() > maxElements)
    return std::nullopt;
  Type element = getElementType(tensor->elemType, n.builder.getContext());
  auto bytes = readTensor(*tensor);
  if (!isa<FloatType>(element) || !bytes || bytes->size() != tensor->bytes)
    return std::nullopt;
  SymTensor result;
  result.dims = tensor->dims;
  auto dense =
      getDenseAttr(*bytes, RankedTensorType::get(tensor->dims, element));
  for (const APFloat &value : dense.getValues<APFloat>()) {
    APSInt integer(64, /*isUnsigned=*/false);
    bool exact;
    if (value.convertToInteger(integer, APFloat::rmTowardZero, &exact) ==
        APFloat::opInvalidOp)
      return std::nullopt;
    result.values.push_back(integer.getSExtValue());
  }
  return result;
}

Values evalCast(NodeImport &n) {
  const SymTensor *input = n.sym(0);
  std::optional<SymTensor> converted;
  if (!input && (converted = truncated(n)))
    input = &*converted;
  int32_t to = n.node.opType == "Cast"
                   ? static_cast<int32_t>(n.getInt("to", 0))
                   : n.importer.getElemType(n.node.inputs[1]);
  if (!input || (to != Int64 && to != Int32 && to != Bool))
    return std::nullopt;
  SymTensor result = *input;
  result.elemType = to;
  for (SymExpr &value : result.values) {
    auto constant = value.asConstant();
    if (to == Bool && input->elemType != Bool) {
      if (!constant)
        return std::nullopt;
      value = SymExpr(*constant != 0);
    } else if (to == Int32 && constant && *constant != int32_t(*constant)) {
      value = SymExpr(int32_t(*constant)); // wraps, as the conversion does
    }
  }
  return one(result);
}

Values evalWhere(NodeImport &n) {
  const SymTensor *condition = n.sym(0), *yes = n.sym(1), *no = n.sym(2);
  auto choice = condition ? condition->constants() : std::nullopt;
  if (!choice || !yes || !no)
    return std::nullopt;
  SymTensor result;
  result.elemType = yes->elemType;
  result.dims = condition->dims;
  if (!broadcastDims(result.dims, yes->dims) ||
      !broadcastDims(result.dims, no->dims))
    return std::nullopt;
  int64_t count = elementCount(result.dims).value_or(maxElements + 1);
  if (count > maxElements)
    return std::nullopt;
  for (int64_t e = 0; e < count; ++e)
    result.values.push_back(at(*condition, result.dims, e) == SymExpr(0)
                                ? at(*no, result.dims, e)
                                : at(*yes, result.dims, e));
  return one(result);
}

//===----------------------------------------------------------------------===//
// Rearrangements
//===----------------------------------------------------------------------===//

Values evalGather(NodeImport &n) {
  const SymTensor *data = n.sym(0), *index = n.sym(1);
  auto indices = index ? index->constants() : std::nullopt;
  if (!data || !indices || data->dims.size() != 1 || n.getInt("axis", 0) > 0 ||
      n.getInt("axis", 0) < -1)
    return std::nullopt;
  SymTensor result;
  result.elemType = data->elemType;
  result.dims = index->dims;
  for (int64_t i : *indices) {
    int64_t at = i < 0 ? i + data->dims[0] : i;
    if (at < 0 || at >= data->dims[0])
      return std::nullopt;
    result.values.push_back(data->values[at]);
  }
  return one(result);
}

Values evalConcat(NodeImport &n) {
  std::vector<SymExpr> values;
  int32_t type = Int64;
  for (size_t i = 0; i < n.numInputs(); ++i) {
    const SymTensor *part = n.sym(i);
    if (!part || part->dims.size() != 1)
      return std::nullopt;
    values.insert(values.end(), part->values.begin(), part->values.end());
    type = part->elemType;
  }
  return one(vectorOf(values, type));
}

/// Constant elements of input `i`, or `otherwise` when it is absent.
std::optional<std::vector<int64_t>>
constantsOr(NodeImport &n, size_t i, std::vector<int64_t> otherwise) {
  if (!n.hasInput(i))
    return otherwise;
  const SymTensor *value = n.sym(i);
  return value ? value->constants() : std::nullopt;
}

Values evalSlice(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  if (!data || data->dims.size() != 1)
    return std::nullopt;
  auto starts = constantsOr(n, 1, {}), ends = constantsOr(n, 2, {}),
       axes = constantsOr(n, 3, {0}), steps = constantsOr(n, 4, {1});
  if (!starts || !ends || !axes || !steps || starts->size() != 1 ||
      ends->size() != 1 || steps->size() != 1 || (*steps)[0] == 0)
    return std::nullopt;
  int64_t size = data->dims[0], step = (*steps)[0];
  auto place = [&](int64_t at, int64_t low, int64_t high) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, low, high);
  };
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  int64_t start = place((*starts)[0], step > 0 ? 0 : 0, high);
  int64_t end = place((*ends)[0], low, high);
  std::vector<SymExpr> values;
  if (step > size || step < -size)
    step = step > 0 ? size + 1 : -size - 1;
  for (int64_t i = start; step > 0 ? i < end : i > end; i += step)
    if (i >= 0 && i < size)
      values.push_back(data->values[i]);
  return one(vectorOf(values, data->elemType));
}

Values evalSplit(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  auto sizes = constantsOr(n, 1, {});
  if (!data || data->dims.size() != 1 || !sizes)
    return std::nullopt;
  int64_t count = n.node.outputs.size(), size = data->dims[0];
  if (sizes->empty()) {
    int64_t chunk = (size + count - 1) / count;
    for (int64_t i = 0; i < count; ++i)
      sizes->push_back(std::min(chunk, std::max<int64_t>(size - i * chunk, 0)));
  }
  std::vector<SymTensor> results;
  auto at = data->values.begin();
  for (int64_t part : *sizes) {
    if (part < 0 || part > data->values.end() - at)
      return std::nullopt;
    results.push_back(vectorOf({at, at + part}, data->elemType));
    at += part;
  }
  if (results.size() != size_t(count))
    return std::nullopt;
  return results;
}

Values withDims(const SymTensor *data, std::vector<int64_t> dims) {
  SymTensor result = *data;
  result.dims = std::move(dims);
  return one(result);
}

Values evalReshape(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  auto dims = constantsOr(n, 1, {});
  if (!data || !dims)
    return std::nullopt;
  int64_t known = 1, open = -1, count = data->values.size();
  for (size_t i = 0; i < dims->size(); ++i) {
    if ((*dims)[i] == 0 && !n.getInt("allowzero", 0) && i < data->dims.size())
      (*dims)[i] = data->dims[i];
    if ((*dims)[i] == -1)
      open = i;
    else if (__builtin_mul_overflow(known, (*dims)[i], &known))
      return std::nullopt;
  }
  if (open >= 0 && known > 0)
    (*dims)[open] = count / known;
  if (elementCount(*dims) != std::optional<int64_t>(count))
    return std::nullopt;
  return withDims(data, *dims);
}

Values evalSqueeze(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  auto axes = constantsOr(n, 1, {});
  if (!data || !axes)
    return std::nullopt;
  std::vector<bool> drop(data->dims.size(), !n.hasInput(1));
  for (int64_t axis : *axes) {
    auto at = normalizeAxis(axis, data->dims.size());
    if (!at || data->dims[*at] != 1)
      return std::nullopt;
    drop[*at] = true;
  }
  std::vector<int64_t> dims;
  for (size_t i = 0; i < data->dims.size(); ++i)
    if (!drop[i] || data->dims[i] != 1)
      dims.push_back(data->dims[i]);
  return withDims(data, dims);
}

Values evalUnsqueeze(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  auto axes = constantsOr(n, 1, {});
  if (!data || !axes || axes->size() > 8)
    return std::nullopt;
  size_t rank = data->dims.size() + axes->size();
  std::vector<int64_t> dims(rank, 0);
  for (int64_t axis : *axes) {
    auto at = normalizeAxis(axis, rank);
    if (!at || dims[*at])
      return std::nullopt;
    dims[*at] = 1;
  }
  size_t next = 0;
  for (int64_t &size : dims)
    size = size ? size : data->dims[next++];
  return withDims(data, dims);
}

Values evalExpand(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  auto dims = constantsOr(n, 1, {});
  if (!data || !dims || !elementCount(*dims))
    return std::nullopt;
  SymTensor result;
  result.elemType = data->elemType;
  result.dims = data->dims;
  if (!broadcastDims(result.dims, *dims))
    return std::nullopt;
  int64_t count = elementCount(result.dims).value_or(maxElements + 1);
  if (count > maxElements)
    return std::nullopt;
  for (int64_t e = 0; e < count; ++e)
    result.values.push_back(at(*data, result.dims, e));
  return one(result);
}

/// Reductions of a whole vector.
template <Combine function>
Values evalReduce(NodeImport &n) {
  const SymTensor *data = n.sym(0);
  if (!data || data->values.empty() || data->dims.size() != 1 ||
      !isInteger(data->elemType) || n.getInt("noop_with_empty_axes", 0))
    return std::nullopt;
  SymTensor result;
  result.elemType = data->elemType;
  if (n.getInt("keepdims", 1))
    result.dims = {1};
  SymExpr sum = data->values[0];
  for (size_t i = 1; i < data->values.size(); ++i) {
    auto next = function(n.symbols(), sum, data->values[i]);
    if (!next)
      return std::nullopt;
    sum = *next;
  }
  result.values = {sum};
  return one(result);
}

} // namespace

std::optional<std::vector<SymTensor>> fusion::evaluateSymbolic(NodeImport &n) {
  static const std::map<std::string, Evaluate> table = {
      {"Shape", evalShape},
      {"Size", evalSize},
      {"Range", evalRange},
      {"ConstantOfShape", evalConstantOfShape},
      {"Add", evalBinary<add>},
      {"Sub", evalBinary<sub>},
      {"Mul", evalBinary<mul>},
      {"Div", evalBinary<div>},
      {"Mod", evalBinary<mod>},
      {"Min", evalBinary<minimum>},
      {"Max", evalBinary<maximum>},
      {"Equal", evalBinary<equal, true>},
      {"Less", evalBinary<less, true>},
      {"LessOrEqual", evalBinary<lessOrEqual, true>},
      {"Greater", evalBinary<greater, true>},
      {"GreaterOrEqual", evalBinary<greaterOrEqual, true>},
      {"And", evalBinary<both, true>},
      {"Or", evalBinary<either, true>},
      {"Neg", evalUnary<negate>},
      {"Abs", evalUnary<absolute>},
      {"Not", evalUnary<complement>},
      {"Cast", evalCast},
      {"CastLike", evalCast},
      {"Where", evalWhere},
      {"Gather", evalGather},
      {"Concat", evalConcat},
      {"Slice", evalSlice},
      {"Split", evalSplit},
      {"Reshape", evalReshape},
      {"Squeeze", evalSqueeze},
      {"Unsqueeze", evalUnsqueeze},
      {"Expand", evalExpand},
      {"ReduceProd", evalReduce<mul>},
      {"ReduceSum", evalReduce<add>},
      {"ReduceMax", evalReduce<maximum>},
      {"ReduceMin", evalReduce<minimum>},
  };
  if (!n.node.domain.empty())
    return std::nullopt;
  auto it = table.find(n.node.opType);
  if (it == table.end())
    return std::nullopt;
  // Shape and Size look at the type only; every other operand must be known,
  // but for trailing ones that an operator reads by itself.
  if (it->second != evalShape && it->second != evalSize &&
      it->second != evalCast)
    for (size_t i = 0; i < n.numInputs(); ++i)
      if (n.hasInput(i) && !n.sym(i))
        return std::nullopt;
  return it->second(n);
}
