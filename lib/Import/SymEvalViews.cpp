//===- SymEvalViews.cpp - Sizes picked, joined, reshaped ------------------===//

#include "SymEval.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;
using namespace fusion::symeval;

namespace {

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

/// ScatterElements, and ScatterND with indices [n, 1]: some elements of a list
/// replaced.
Values evalScatter(NodeImport &n) {
  const SymTensor *data = n.sym(0), *index = n.sym(1), *updates = n.sym(2);
  auto indices = index ? index->constants() : std::nullopt;
  if (!data || !updates || !indices || data->dims.size() != 1 ||
      index->dims.empty() || updates->values.size() != indices->size() ||
      n.getString("reduction", "none") != "none")
    return std::nullopt;
  SymTensor result = *data;
  for (auto [index, value] : llvm::zip(*indices, updates->values)) {
    int64_t at = index < 0 ? index + data->dims[0] : index;
    if (at < 0 || at >= data->dims[0])
      return std::nullopt;
    result.values[at] = value;
  }
  return one(std::move(result));
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
  int64_t start = place((*starts)[0], 0, high);
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

} // namespace

void symeval::addRearrangements(EvaluateMap &map) {
  map["Gather"] = evalGather;
  map["ScatterElements"] = evalScatter;
  map["ScatterND"] = evalScatter;
  map["Concat"] = evalConcat;
  map["Slice"] = evalSlice;
  map["Split"] = evalSplit;
  map["Reshape"] = evalReshape;
  map["Squeeze"] = evalSqueeze;
  map["Unsqueeze"] = evalUnsqueeze;
  map["Expand"] = evalExpand;
}
