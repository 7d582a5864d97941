//===- CudaWeights.h - The weights on the card ------------------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDAWEIGHTS_H
#define FUSION_LIB_RUNTIME_CUDA_CUDAWEIGHTS_H

#include "CudaDevice.h"
#include "PreparedProgram.h"

namespace fusion::cuda {

/// The artifact's weight section, copied once; all sessions read it.
class CudaWeights {
public:
  /// Copies the weights and checks them against their checksums on the way.
  static Result<std::unique_ptr<CudaWeights>>
  load(const CudaDevice &device, const artifact::Artifact &artifact);

  /// Where each weight lies.
  const std::vector<Region> &regions() const { return theRegions; }

private:
  explicit CudaWeights(const CudaDevice &device) : memory(device) {}
  DeviceBuffer memory;
  std::vector<Region> theRegions;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDAWEIGHTS_H
