//===- NpyHeader.h - The header of a .npy file ------------------*- C++ -*-===//

#ifndef FUSION_LIB_RUNTIME_NPYHEADER_H
#define FUSION_LIB_RUNTIME_NPYHEADER_H

#include "fusion/Support/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace fusion {

struct NpyHeader {
  std::string descr; ///< e.g. "<f4"
  bool fortranOrder = false;
  std::vector<int64_t> shape;
  size_t dataOffset = 0;
};

/// Reads the header from the start of a file. Any bytes are accepted; the
/// error does not name the file.
Result<NpyHeader> parseNpyHeader(std::string_view bytes);

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_NPYHEADER_H
