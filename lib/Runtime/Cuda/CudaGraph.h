//===- CudaGraph.h - Launches captured once, replayed often -----*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDAGRAPH_H
#define FUSION_LIB_RUNTIME_CUDA_CUDAGRAPH_H

#include "CudaDriver.h"

#include <functional>
#include <utility>

namespace fusion::cuda {

/// An executable graph. The context must be current when it goes.
class CudaGraph {
public:
  /// Captures what `issue` launches on the stream.
  static Result<std::unique_ptr<CudaGraph>>
  capture(const Driver &driver, Stream stream,
          const std::function<Status()> &issue);
  ~CudaGraph();
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;

  Status launch(Stream stream) const;

private:
  explicit CudaGraph(const Driver &driver) : driver(driver) {}
  const Driver &driver;
  GraphExec executable = nullptr;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDAGRAPH_H
