//===- IndexFault.h - Which input held an index out of range ----*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_INDEXFAULT_H
#define FUSION_LIB_RUNTIME_INDEXFAULT_H

#include "Executor.h"

namespace fusion {

/// `: an index is out of range; input 'ids' holds 5 to 99999`: the integer
/// inputs that the launch reads, with what they hold.
std::string indexFault(const artifact::Model &model,
                       const artifact::Launch &launch, const Step &step);

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_INDEXFAULT_H
