//===- CudaModel.h - Artifacts for the fake card ----------------*- C++ -*-===//

#ifndef FUSION_TEST_RUNTIME_CUDAMODEL_H
#define FUSION_TEST_RUNTIME_CUDAMODEL_H

#include "FakeCuda.h"
#include "TestModel.h"

#include <dlfcn.h>

namespace fusion {

using artifact::CardStage;
using artifact::KernelCode;

/// The state of the library that the runtime opens, as new.
inline FakeCuda &newFakeCuda() {
  static auto *get = reinterpret_cast<FakeCuda *(*)()>(
      dlsym(dlopen(FUSION_FAKE_CUDA, RTLD_NOW), "fakeCuda"));
  *get() = FakeCuda();
  return *get();
}

/// An artifact whose kernels run on the fake card.
struct CudaModel : TestModel {
  CudaModel() : cuda(newFakeCuda()) {
    model.images = {{KernelCode::Target::Sm90a, 0, 0}};
  }
  /// Every test leaves the card as it found it.
  ~CudaModel() { EXPECT_TRUE(cuda.isClean()); }

  /// A kernel of one stage; `pointers` counts operands and results.
  uint32_t cardKernel(const char *name, size_t pointers, SymExpr grid,
                      std::function<void(const FakeLaunch &)> body) {
    KernelCode code;
    code.target = KernelCode::Target::Sm90a;
    CardStage &stage = code.stages.emplace_back();
    stage.symbol = name;
    stage.threads = 256;
    stage.grid = std::move(grid);
    model.kernels.push_back({name, "test", "", {code}});
    cuda.kernels[name] = {pointers + 1, 0, std::move(body), {}};
    return static_cast<uint32_t>(model.kernels.size() - 1);
  }
  KernelCode &code(uint32_t kernel) { return model.kernels[kernel].code[0]; }
  CardStage &stage(uint32_t kernel) { return code(kernel).stages[0]; }

  Program &program(const char *name, SymExpr rows = 1) {
    Program &p = model.programs.emplace_back();
    p.name = name;
    p.device = Program::Device::Card;
    p.rows = std::move(rows);
    return p;
  }
  Result<std::shared_ptr<const LoadedModel>>
  tryOpen(const std::string &driver = FUSION_FAKE_CUDA, int32_t card = 0) {
    if (image.empty())
      image = "a cubin";
    Status written = write();
    EXPECT_TRUE(written) << written.message();
    CudaOptions options;
    options.driver = driver;
    options.card = card;
    return LoadedModel::open(path(), Device::Cuda, 1, options);
  }
  std::unique_ptr<Session> session() {
    auto loaded = tryOpen();
    EXPECT_TRUE(loaded) << loaded.status().message();
    if (!loaded)
      return nullptr;
    return std::move(*Session::create(*loaded));
  }
  static std::string why(const Status &status) {
    EXPECT_FALSE(status.ok());
    return status.message();
  }

  FakeCuda &cuda;
};

} // namespace fusion

#endif // FUSION_TEST_RUNTIME_CUDAMODEL_H
