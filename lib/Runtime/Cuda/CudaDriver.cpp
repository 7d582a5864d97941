//===- CudaDriver.cpp - The driver's entry points -------------------------===//

#include "CudaDriver.h"

#include <dlfcn.h>

using namespace fusion;
using namespace fusion::cuda;

static Status unavailable(const std::string &why) {
  return Status(StatusCode::Unavailable, why);
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string &library) {
  std::shared_ptr<Driver> driver(new Driver);
  driver->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver->library)
    return unavailable("there is no NVIDIA driver (" + library + ")");
  std::string missing;
#define FUSION_CUDA_FIND(name, symbol, parameters)                             \
  driver->name =                                                               \
      reinterpret_cast<Code(*) parameters>(dlsym(driver->library, symbol));    \
  if (!driver->name && missing.empty())                                        \
    missing = symbol;
  FUSION_CUDA_FUNCTIONS(FUSION_CUDA_FIND)
#undef FUSION_CUDA_FIND
  if (driver->driverGetVersion)
    driver->driverGetVersion(&driver->theVersion);
  if (!missing.empty())
    return unavailable("the NVIDIA driver (for CUDA " + driver->version() +
                       ") is too old: it has no " + missing);
  Code code = driver->init(0);
  if (code == Code::NoDevice)
    return unavailable("the NVIDIA driver finds no device");
  if (code != Code::Success)
    return unavailable("the NVIDIA driver does not start: " +
                       driver->text(code));
  return std::shared_ptr<const Driver>(std::move(driver));
}

Driver::~Driver() {
  if (library)
    dlclose(library);
}

std::string Driver::text(Code code) const {
  const char *text = nullptr;
  if (!getErrorString || getErrorString(code, &text) != Code::Success || !text)
    text = "unknown error";
  return std::string(text) + " (CUDA error " +
         std::to_string(static_cast<int>(code)) + ")";
}

std::string Driver::version() const {
  return std::to_string(theVersion / 1000) + "." +
         std::to_string(theVersion % 1000 / 10);
}

Status Driver::check(Code code, const std::string &what) const {
  if (code == Code::Success)
    return {};
  return Status(StatusCode::Failed, what + ": " + text(code));
}
