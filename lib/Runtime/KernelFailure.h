//===- KernelFailure.h - What a kernel's status code means ------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_KERNELFAILURE_H
#define FUSION_LIB_RUNTIME_KERNELFAILURE_H

#include "Executor.h"

namespace fusion {

/// `kernel 'NAME' at 'SITE'`.
std::string describeLaunch(const artifact::Model &model,
                           const artifact::Launch &launch);

/// A HostABI status code of a launch of the program, as a failure of the run.
Status kernelFailure(const artifact::Model &model,
                     const artifact::Program &program,
                     const artifact::Launch &launch, const Step &step,
                     int32_t code);

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_KERNELFAILURE_H
