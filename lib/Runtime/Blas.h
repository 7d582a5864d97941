//===- Blas.h - Matrix products for host kernels ----------------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_BLAS_H
#define FUSION_LIB_RUNTIME_BLAS_H

#include "fusion/Artifact/HostABI.h"

namespace fusion {

/// HostContext::sgemm over OpenBLAS, on the calling thread alone. Chooses
/// OpenBLAS's kernels by the processor on first use.
HostSgemm hostSgemm();

/// The name of OpenBLAS's kernels in use, for diagnostics.
const char *blasKernelName();

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_BLAS_H
