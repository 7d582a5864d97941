//===- SymEval.h - Shape arithmetic over symbolic sizes ---------*- C++ -*-===//
//
// What the files of the evaluation share; others need Importer.h only.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_IMPORT_SYMEVAL_H
#define FUSION_LIB_IMPORT_SYMEVAL_H

#include "Importer.h"

namespace fusion::symeval {

/// Larger results stay operations on data.
inline constexpr int64_t maxElements = 64;

/// One tensor for each output; nullopt when an operand is not known.
using Values = std::optional<std::vector<SymTensor>>;
using Evaluate = Values (*)(NodeImport &);
using EvaluateMap = std::map<std::string, Evaluate>;

/// The values of a node with one output; nullopt when it is too large.
Values one(SymTensor value);
SymTensor vectorOf(std::vector<SymExpr> values, int32_t type = onnxfile::Int64);
bool isInteger(int32_t type);

/// Broadcasts `dims` against `result`; false when they do not.
bool broadcastDims(std::vector<int64_t> &result,
                   const std::vector<int64_t> &dims);
/// The element of `t` at the row-major place `index` of a tensor of `dims`.
const SymExpr &at(const SymTensor &t, const std::vector<int64_t> &dims,
                  int64_t index);

void addArithmetic(EvaluateMap &map);
void addRearrangements(EvaluateMap &map);

} // namespace fusion::symeval

#endif // FUSION_LIB_IMPORT_SYMEVAL_H
