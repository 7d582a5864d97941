//===- CudaCode.h - The artifact's functions on the card --------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDACODE_H
#define FUSION_LIB_RUNTIME_CUDA_CUDACODE_H

#include "CudaDevice.h"

#include "fusion/Artifact/Reader.h"

#include <map>
#include <vector>

namespace fusion::cuda {

/// All cubins of an artifact, loaded: one module an image.
class CudaCode {
public:
  static Result<std::unique_ptr<CudaCode>>
  load(const CudaDevice &device, const artifact::Artifact &artifact);
  ~CudaCode();
  CudaCode(const CudaCode &) = delete;
  CudaCode &operator=(const CudaCode &) = delete;

  Function function(const artifact::CardStage &stage) const {
    return functions.at(&stage);
  }

private:
  explicit CudaCode(const CudaDevice &device) : device(device) {}
  Status addImage(const artifact::Artifact &artifact, uint32_t image);
  Status addKernel(const artifact::Kernel &kernel,
                   const artifact::KernelCode &code);

  const CudaDevice &device;
  std::map<uint32_t, Module> modules; ///< by image
  std::map<const artifact::CardStage *, Function> functions;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDACODE_H
