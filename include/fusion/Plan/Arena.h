//===- Arena.h - How much memory a program needs ----------------*- C++ -*-===//

#ifndef FUSION_PLAN_ARENA_H
#define FUSION_PLAN_ARENA_H

#include "fusion/Dialect/Plan/PlanOps.h"

#include <map>

namespace fusion {

struct ArenaReport {
  uint64_t bytes = 0; ///< of the planned arena
  uint64_t bound = 0; ///< most bytes alive at one launch
};

/// The arena of a program at the given sizes; nullopt when an expression has no
/// value there.
std::optional<ArenaReport>
getArenaReport(plan::ProgramOp program,
               const std::map<std::string, int64_t> &sizes);

/// The largest value of each of the model's symbols in a program: its upper
/// end, its fixed value, and for a program whose rows are one symbol at most
/// its number of rows. `unbounded` stands for a symbol without an upper end.
std::map<std::string, int64_t>
getUpperSizes(plan::ModelOp model, plan::ProgramOp program, int64_t unbounded);

} // namespace fusion

#endif // FUSION_PLAN_ARENA_H
