//===- Npy.h - numpy's file format ------------------------------*- C++ -*-===//
//
// Reads and writes .npy files (versions 1 to 3). numpy has no name for
// bfloat16, 8-bit floats and 4-bit elements; ml_dtypes saves them as void
// types of 2 bytes and of 1 byte (one element a byte), and so do we.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_RUNTIME_NPY_H
#define FUSION_RUNTIME_NPY_H

#include "fusion/Artifact/Model.h"
#include "fusion/Support/Status.h"
#include "fusion/Support/TemporaryFile.h"

namespace fusion {

/// A tensor read from a file, in our own packed form.
struct NpyTensor {
  artifact::DType type = artifact::DType::F32;
  std::vector<int64_t> shape;
  std::vector<uint64_t> storage; ///< words, for their alignment
  const void *data() const { return storage.data(); }
};

/// Reads a file as elements of `type`. Refuses other element types, big-endian
/// files, structured types, and anything that is not a whole .npy file;
/// Fortran order is converted.
Result<NpyTensor> readNpy(const std::string &path, artifact::DType type);

/// Fills a file that is still to be published.
Status writeNpy(TemporaryFile &file, artifact::DType type,
                const std::vector<int64_t> &shape, const void *data);
/// Writes a file at once; nothing is left of it on failure.
Status writeNpy(const std::string &path, artifact::DType type,
                const std::vector<int64_t> &shape, const void *data);

} // namespace fusion

#endif // FUSION_RUNTIME_NPY_H
