//===- CudaCode.cpp - The artifact's functions on the card ----------------===//

#include "CudaCode.h"

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

/// What a launch may ask for without the function's consent.
static constexpr uint32_t kPlainSharedBytes = 48 * 1024;
static constexpr uint32_t kPlainCluster = 8;
/// From here on a kernel wants all of a multiprocessor's memory to be shared.
static constexpr uint32_t kLargeSharedBytes = 96 * 1024;

Result<std::unique_ptr<CudaCode>> CudaCode::load(const CudaDevice &device,
                                                 const Artifact &artifact) {
  std::unique_ptr<CudaCode> code(new CudaCode(device));
  for (const Kernel &kernel : artifact.model().kernels)
    for (const KernelCode &c : kernel.code) {
      if (c.target != KernelCode::Target::Sm90a)
        continue;
      if (Status s = code->addImage(artifact, c.image); !s)
        return s;
      if (Status s = code->addKernel(kernel, c); !s)
        return s;
    }
  return code;
}

CudaCode::~CudaCode() {
  for (auto &[image, module] : modules)
    (void)device.driver().moduleUnload(module);
}

Status CudaCode::addImage(const Artifact &artifact, uint32_t image) {
  auto [it, inserted] = modules.try_emplace(image, nullptr);
  if (!inserted)
    return {};
  Code code =
      device.driver().moduleLoadData(&it->second, artifact.image(image));
  if (code == Code::Success)
    return {};
  modules.erase(it);
  return Status(
      StatusCode::Unavailable,
      "the driver (for CUDA " + device.driver().version() +
          ") does not load the artifact's code: " + device.driver().text(code) +
          "; a newer driver may, or compile the model again");
}

Status CudaCode::addKernel(const Kernel &kernel, const KernelCode &code) {
  const Driver &driver = device.driver();
  for (const CardStage &stage : code.stages) {
    std::string what =
        "kernel '" + kernel.name + "', function '" + stage.symbol + "'";
    Function &function = functions[&stage];
    Code result = driver.moduleGetFunction(&function, modules.at(code.image),
                                           stage.symbol.c_str());
    if (result == Code::Success &&
        stage.sharedBytes + stage.staticSharedBytes > kPlainSharedBytes)
      result =
          driver.functionSetAttribute(function, kMaxDynamicSharedBytes,
                                      static_cast<int32_t>(stage.sharedBytes));
    // Two blocks of half a multiprocessor, or of this kernel and the next, fit
    // beside each other only when all of it is shared memory.
    if (result == Code::Success && stage.sharedBytes >= kLargeSharedBytes)
      result = driver.functionSetAttribute(function, kSharedCarveout, 100);
    if (result == Code::Success && stage.cluster > kPlainCluster)
      result =
          driver.functionSetAttribute(function, kNonPortableClusterSize, 1);
    if (Status s = driver.check(result, what); !s)
      return s;
  }
  return {};
}
