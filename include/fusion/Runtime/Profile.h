//===- Profile.h - Watching a run -------------------------------*- C++ -*-===//

#ifndef FUSION_RUNTIME_PROFILE_H
#define FUSION_RUNTIME_PROFILE_H

#include "fusion/Artifact/Model.h"

namespace fusion {

/// When the launches of some runs began and ended.
struct Profile {
  struct Event {
    uint32_t run, program, launch;
    int64_t beginNs, endNs; ///< since an arbitrary moment
    int64_t grid;
  };
  std::vector<Event> events;
  std::vector<int64_t> rows; ///< token rows of each run
  uint32_t runs = 0;
};

/// A profile in the trace format of Chromium (chrome://tracing, Perfetto).
std::string chromeTrace(const Profile &profile, const artifact::Model &model);

/// The kernels by the time they took, as a table for a terminal.
std::string profileSummary(const Profile &profile,
                           const artifact::Model &model);

/// Sees each arena buffer that holds a named value when it is complete: after
/// the last launch that uses it, before its place is used again.
class Observer {
public:
  virtual ~Observer() = default;
  /// `buffer` indexes Program::buffers; its value has `bytes` bytes.
  virtual void completed(uint32_t buffer, const uint8_t *data,
                         uint64_t bytes) = 0;
};

} // namespace fusion

#endif // FUSION_RUNTIME_PROFILE_H
