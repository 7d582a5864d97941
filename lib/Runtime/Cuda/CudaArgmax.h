//===- CudaArgmax.h - Greedy choice on the card -----------------*- C++ -*-===//
//
// The largest element of a row of logits, found where the logits are, so that a
// step of greedy decoding copies a few hundred bytes instead of the whole row.
// The one kernel that the runtime brings itself, as PTX for the driver.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDAARGMAX_H
#define FUSION_LIB_RUNTIME_CUDA_CUDAARGMAX_H

#include "CudaDevice.h"

#include "fusion/Artifact/Model.h"

namespace fusion::cuda {

class CudaArgmax {
public:
  /// Each block leaves the best of its share.
  static constexpr uint32_t kBlocks = 64;
  static constexpr uint64_t kResultBytes = kBlocks * sizeof(uint64_t);

  /// Null where the driver has no compiler for PTX.
  static std::unique_ptr<CudaArgmax> load(const CudaDevice &device);
  ~CudaArgmax();
  CudaArgmax(const CudaArgmax &) = delete;
  CudaArgmax &operator=(const CudaArgmax &) = delete;

  static bool supports(artifact::DType type);
  Status issue(Stream stream, artifact::DType type, Address row, uint64_t count,
               Address results) const;
  /// The index of the first largest element; -1 when all are NaN.
  static int64_t choose(const uint8_t *results);

private:
  explicit CudaArgmax(const CudaDevice &device) : device(device) {}
  const CudaDevice &device;
  Module module = nullptr;
  Function functions[3] = {}; ///< f32, f16, bf16
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDAARGMAX_H
