//===- CudaExecutor.cpp - Is there a card to run on? ----------------------===//
//
// The driver is opened at run time, never linked. What is checked here is all
// that a machine without a card needs: a clear answer.
//
//===----------------------------------------------------------------------===//

#include "Executor.h"

#include <dlfcn.h>

using namespace fusion;
using namespace fusion::artifact;

Result<std::unique_ptr<Executor>>
fusion::createCudaExecutor(LoadedPrograms loaded) {
  auto unavailable = [&](const std::string &why) {
    return Status(StatusCode::Unavailable,
                  "cannot run '" + loaded.artifact.path() +
                      "' with --device=cuda: " + why + "; use --device=host");
  };
  bool hasCubin = false;
  for (const Image &image : loaded.artifact.model().images)
    hasCubin |= image.target == KernelCode::Target::Sm90a;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return unavailable("there is no NVIDIA driver (libcuda.so.1)");
  using Init = int (*)(unsigned);
  using Count = int (*)(int *);
  auto init = reinterpret_cast<Init>(dlsym(driver, "cuInit"));
  auto count = reinterpret_cast<Count>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  bool ready = init && count && init(0) == 0 && count(&devices) == 0;
  dlclose(driver);
  if (!ready || devices == 0)
    return unavailable("the NVIDIA driver finds no device");
  if (!hasCubin)
    return unavailable("the artifact holds no code for a card");
  return unavailable("this runtime executes host code only");
}
