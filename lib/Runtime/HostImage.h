//===- HostImage.h - Native code of an artifact -----------------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_HOSTIMAGE_H
#define FUSION_LIB_RUNTIME_HOSTIMAGE_H

#include "fusion/Artifact/HostABI.h"
#include "fusion/Artifact/Reader.h"

namespace fusion {

/// The best host image that the processor can execute, mapped executable, with
/// the address of every kernel in it.
class HostImage {
public:
  static Result<std::unique_ptr<HostImage>> map(const artifact::Artifact &a);
  ~HostImage();
  HostImage(const HostImage &) = delete;
  HostImage &operator=(const HostImage &) = delete;

  HostKernel kernel(uint32_t index) const { return kernels[index]; }

private:
  HostImage() = default;
  Status mapImage(const artifact::Artifact &a, uint32_t image);

  void *address = nullptr;
  uint64_t bytes = 0;
  std::vector<HostKernel> kernels; ///< null where there is no host code
};

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_HOSTIMAGE_H
