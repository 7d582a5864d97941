//===- SymEvalArithmetic.cpp - Sums, comparisons, casts of sizes ----------===//

#include "SymEval.h"

#include "llvm/ADT/APSInt.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;
using namespace fusion::symeval;

namespace {

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

void symeval::addArithmetic(EvaluateMap &map) {
  map["Add"] = evalBinary<add>;
  map["Sub"] = evalBinary<sub>;
  map["Mul"] = evalBinary<mul>;
  map["Div"] = evalBinary<div>;
  map["Mod"] = evalBinary<mod>;
  map["Min"] = evalBinary<minimum>;
  map["Max"] = evalBinary<maximum>;
  map["Equal"] = evalBinary<equal, true>;
  map["Less"] = evalBinary<less, true>;
  map["LessOrEqual"] = evalBinary<lessOrEqual, true>;
  map["Greater"] = evalBinary<greater, true>;
  map["GreaterOrEqual"] = evalBinary<greaterOrEqual, true>;
  map["And"] = evalBinary<both, true>;
  map["Or"] = evalBinary<either, true>;
  map["Neg"] = evalUnary<negate>;
  map["Abs"] = evalUnary<absolute>;
  map["Not"] = evalUnary<complement>;
  map["Cast"] = evalCast;
  map["CastLike"] = evalCast;
  map["Where"] = evalWhere;
  map["ReduceProd"] = evalReduce<mul>;
  map["ReduceSum"] = evalReduce<add>;
  map["ReduceMax"] = evalReduce<maximum>;
  map["ReduceMin"] = evalReduce<minimum>;
}
