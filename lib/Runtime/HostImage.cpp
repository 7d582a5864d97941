//===- HostImage.cpp - Native code of an artifact -------------------------===//

#include "HostImage.h"

#include "CpuLevel.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <sys/mman.h>

using namespace fusion;
using namespace fusion::artifact;

using Target = KernelCode::Target;

static std::optional<uint32_t> findImage(const Model &model, Target target) {
  for (uint32_t i = 0; i < model.images.size(); ++i)
    if (model.images[i].target == target && model.images[i].bytes > 0)
      return i;
  return std::nullopt;
}

HostImage::~HostImage() {
  if (address)
    munmap(address, bytes);
}

/// From the file where possible, so that processes share the pages; through a
/// copy where the file lies on a file system that is mounted noexec.
Status HostImage::mapImage(const Artifact &a, uint32_t image) {
  bytes = a.model().images[image].bytes;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE,
                 a.descriptor(), static_cast<off_t>(a.imageFileOffset(image)));
  if (p == MAP_FAILED) {
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
      memcpy(p, a.image(image), bytes);
      if (mprotect(p, bytes, PROT_READ | PROT_EXEC) != 0) {
        munmap(p, bytes);
        p = MAP_FAILED;
      }
    }
  }
  if (p == MAP_FAILED)
    return Status(StatusCode::Unavailable,
                  "cannot map the code of '" + a.path() +
                      "' executable: " + strerror(errno));
  address = p;
  return {};
}

Result<std::unique_ptr<HostImage>> HostImage::map(const Artifact &a) {
  const Model &model = a.model();
  CpuLevel level = cpuLevel();
  if (level == CpuLevel::BelowV3)
    return Status(StatusCode::Unavailable,
                  "'" + a.path() +
                      "' holds code for x86-64-v3 (AVX2, FMA, BMI2, F16C), "
                      "which this processor lacks");
  std::optional<uint32_t> image;
  if (level == CpuLevel::V4)
    image = findImage(model, Target::HostV4);
  if (!image)
    image = findImage(model, Target::HostV3);
  std::unique_ptr<HostImage> result(new HostImage);
  if (!image) {
    bool other = findImage(model, Target::HostV4).has_value();
    if (other || !model.kernels.empty())
      return Status(StatusCode::Unavailable,
                    "'" + a.path() +
                        (other ? "' holds host code for x86-64-v4 (AVX-512) "
                                 "only, which this processor lacks"
                               : "' holds no code for the host; compile it "
                                 "with --target=host"));
    return result; // a model without kernels
  }
  if (Status s = result->mapImage(a, *image); !s)
    return s;
  for (const Kernel &kernel : model.kernels) {
    HostKernel address = nullptr;
    for (const KernelCode &code : kernel.code)
      if (code.image == *image)
        address = reinterpret_cast<HostKernel>(
            static_cast<uint8_t *>(result->address) + code.entry);
    result->kernels.push_back(address);
  }
  return result;
}
