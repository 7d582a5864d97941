//===- Passes.h - The Fuse phase --------------------------------*- C++ -*-===//
//
// From semantic ops to groups, each of which becomes one kernel.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_FUSE_PASSES_H
#define FUSION_FUSE_PASSES_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Fuse/Report.h"

#include "mlir/Pass/Pass.h"

#include <map>
#include <string>
#include <vector>

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Fuse/Passes.h.inc"

struct FuseOptions {
  std::string device = "host";
  /// KIND, KIND@NODE (`*` matches anything) or `all`: one group a node.
  std::vector<std::string> disabled;
  bool strict = false;
  int64_t fuel = -1;    ///< fusions to make in each function; negative: all
  std::string measured; ///< profile of a run; empty: none
  /// Likely values of symbolic sizes, for the cost model.
  std::map<std::string, int64_t> sizes;
  /// Filled while the pipeline runs; may be null.
  FusionReport *report = nullptr;

  /// Whether `disabled` asks for the unfused form (then Raise is left out).
  bool disablesAll() const;
  /// Text of a usage error (unknown device or kind), or empty.
  std::string check() const;
};

std::unique_ptr<mlir::Pass> createFormGroups(const FuseOptions &options);

/// bucket functions, sites, groups, verification.
void buildFusePipeline(mlir::OpPassManager &pm, const FuseOptions &options);

/// The passes, and the pipeline `fusion-fuse`.
void registerFusePasses();

} // namespace fusion

#endif // FUSION_FUSE_PASSES_H
