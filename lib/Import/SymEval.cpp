//===- SymEval.cpp - Shape arithmetic over symbolic sizes -----------------===//
//
// Shape, Gather, Concat, Add, ... on small integer tensors, evaluated with
// elements that are expressions. One function an operator.
//
//===----------------------------------------------------------------------===//

#include "SymEval.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;
using namespace fusion::symeval;

Values symeval::one(SymTensor value) {
  if (elementCount(value.dims).value_or(maxElements + 1) > maxElements)
    return std::nullopt;
  for (const SymExpr &e : value.values)
    if (e.overflowed())
      return std::nullopt;
  std::vector<SymTensor> result;
  result.push_back(std::move(value));
  return result;
}

SymTensor symeval::vectorOf(std::vector<SymExpr> values, int32_t type) {
  SymTensor result;
  result.elemType = type;
  result.dims = {static_cast<int64_t>(values.size())};
  result.values = std::move(values);
  return result;
}

bool symeval::isInteger(int32_t type) {
  return type == Int64 || type == Int32 || type == Int8 || type == UInt8;
}

bool symeval::broadcastDims(std::vector<int64_t> &result,
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

const SymExpr &symeval::at(const SymTensor &t, const std::vector<int64_t> &dims,
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

namespace {

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

/// Sizes of tensors are far below these; arithmetic that squares a size again
/// and again would double the text of its result at each node.
constexpr size_t mostFactors = 128, mostTerms = 128, mostSpelled = 4096;

/// What is too large about a size; empty when nothing is.
std::string whyTooLarge(const SymExpr &size) {
  if (size.polynomial().size() > mostTerms)
    return "a polynomial of " + std::to_string(size.polynomial().size()) +
           " terms, expected at most " + std::to_string(mostTerms);
  for (const auto &[monomial, coefficient] : size.polynomial()) {
    if (monomial.size() > mostFactors)
      return "a polynomial of degree " + std::to_string(monomial.size()) +
             ", expected at most " + std::to_string(mostFactors);
    for (const std::string &factor : monomial)
      if (factor.size() > mostSpelled)
        return "too deeply nested an expression";
  }
  return "";
}

EvaluateMap makeTable() {
  EvaluateMap map;
  map["Shape"] = evalShape;
  map["Size"] = evalSize;
  map["Range"] = evalRange;
  map["ConstantOfShape"] = evalConstantOfShape;
  addArithmetic(map);
  addRearrangements(map);
  return map;
}

} // namespace

std::optional<std::vector<SymTensor>> fusion::evaluateSymbolic(NodeImport &n) {
  static const EvaluateMap table = makeTable();
  if (!n.node.domain.empty())
    return std::nullopt;
  auto it = table.find(n.node.opType);
  if (it == table.end())
    return std::nullopt;
  // Shape and Size look at the type only; every other operand must be known,
  // but for trailing ones that an operator reads by itself.
  if (it->second != evalShape && it->second != evalSize &&
      n.node.opType != "Cast" && n.node.opType != "CastLike")
    for (size_t i = 0; i < n.numInputs(); ++i)
      if (n.hasInput(i) && !n.sym(i))
        return std::nullopt;
  Values values = it->second(n);
  for (const SymTensor &value : values.value_or(std::vector<SymTensor>()))
    for (const SymExpr &size : value.values)
      if (std::string why = whyTooLarge(size); !why.empty()) {
        (void)n.fail("a size is " + why +
                     "; give the symbols fixed values (--dim), or export the "
                     "model with a simpler shape");
        return std::nullopt;
      }
  return values;
}
