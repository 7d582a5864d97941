//===- Dump.h - An artifact as text -----------------------------*- C++ -*-===//

#ifndef FUSION_ARTIFACT_DUMP_H
#define FUSION_ARTIFACT_DUMP_H

#include "fusion/Artifact/Model.h"

namespace fusion::artifact {

/// What `fusion-run --info` prints: symbols, tensors, states, weights,
/// kernels, programs with their launches and arena sizes. One thing a line,
/// no addresses or times: fit for tests.
std::string dumpModel(const Model &model);

/// For instance `[past + 1, 64] f32`.
std::string shapeText(const std::vector<SymExpr> &shape, DType type);

} // namespace fusion::artifact

#endif // FUSION_ARTIFACT_DUMP_H
