//===- CompiledCode.h - Machine code of kernels -----------------*- C++ -*-===//
//
// What a code generator hands to Link: one image with the code of many
// kernels, found by the name of their `fusion.kernel`.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_COMPILEDCODE_H
#define FUSION_KERNELS_COMPILEDCODE_H

#include "fusion/Artifact/Model.h"

#include <map>
#include <string>
#include <vector>

namespace fusion::kernels {

struct CompiledImage {
  artifact::KernelCode::Target target = artifact::KernelCode::Target::HostV3;
  std::vector<uint8_t> bytes;
  /// By kernel name; `image` is filled by Link.
  std::map<std::string, artifact::KernelCode> kernels;
  /// Text of the assembly where it is kept (PTX), by kernel name.
  std::map<std::string, std::string> assembly;
};

} // namespace fusion::kernels

#endif // FUSION_KERNELS_COMPILEDCODE_H
