//===- PreparedProgram.h - Launches ready to be issued ----------*- C++ -*-===//
//
// A program at given sizes and addresses: grids, parameters and tensor maps of
// every launch, made once and issued many times.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_PREPAREDPROGRAM_H
#define FUSION_LIB_RUNTIME_CUDA_PREPAREDPROGRAM_H

#include "CardProgram.h"
#include "CudaCode.h"

#include <deque>

namespace fusion::cuda {

/// A buffer that a launch may refer to.
struct Region {
  Address address = 0;
  uint64_t bytes = 0;
};

/// Where everything lies. Arena buffers are relative to `arena`.
struct Placement {
  std::vector<Region> inputs, outputs, weights, states;
  Address arena = 0, workspace = 0, counters = 0, sizes = 0;
};

struct ArenaLayout {
  std::vector<uint64_t> bytes, offsets;
  uint64_t size = 0;
};

/// Evaluated sizes of a program: the arena and the workspace that it needs.
class ProgramSizes {
public:
  static Result<ProgramSizes> evaluate(const artifact::Model &model,
                                       const CardProgram &program,
                                       const std::vector<int64_t> &symbols);
  std::vector<int64_t> values; ///< of the card program's table
  ArenaLayout arena;
  uint64_t workspaceBytes = 0;
};

class PreparedProgram {
public:
  PreparedProgram(const artifact::Model &model, const CardProgram &program,
                  ProgramSizes sizes)
      : sizes(std::move(sizes)), model(model), program(program) {}
  PreparedProgram(const PreparedProgram &) = delete;
  PreparedProgram &operator=(const PreparedProgram &) = delete;

  Status prepare(const Driver &driver, const CudaCode &code,
                 const Placement &placement);
  /// Issues the stages of one launch. `overlap` lets programmatic launches
  /// begin before their predecessor ends.
  Status issue(const Driver &driver, uint32_t launch, Stream stream,
               bool overlap) const;
  bool isEmpty() const { return issues.empty(); }
  /// Blocks of the launch's first stage; 0 when nothing is issued.
  int64_t grid(uint32_t launch) const;
  uint32_t launchCount() const {
    return static_cast<uint32_t>(program.launches.size());
  }

  const ProgramSizes sizes;

private:
  struct Issue {
    Function function;
    uint32_t grid, threads, cluster, sharedBytes;
    bool programmatic;
    /// Of the multiprocessor's memory, in percent; 0: the function's own.
    uint32_t carveout;
    std::vector<void *> parameters;
  };

  Status checkAlignment(const CardLaunch &launch,
                        const std::vector<Region> &arguments) const;
  Status prepareLaunch(const Driver &driver, const CudaCode &code,
                       const Placement &placement, uint32_t index);
  Status resolve(const Placement &placement, const CardLaunch &launch,
                 std::vector<Region> &arguments) const;
  Result<EncodedMap *> encode(const Driver &driver, const CardLaunch &launch,
                              const CardMap &map,
                              const std::vector<Region> &arguments,
                              Address workspace);
  Status fault(const CardLaunch &launch, const std::string &why) const;
  void chooseCarveout();

  const artifact::Model &model;
  const CardProgram &program;
  std::vector<Issue> issues;
  std::vector<uint32_t> firstIssue; ///< of each launch; one more at the end
  std::deque<std::vector<Address>> pointers; ///< what parameters point at
  std::deque<EncodedMap> maps;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_PREPAREDPROGRAM_H
