//===- ExternalData.h - Where a tensor outside the model lies ---*- C++ -*-===//

#ifndef FUSION_IMPORT_ONNX_EXTERNALDATA_H
#define FUSION_IMPORT_ONNX_EXTERNALDATA_H

#include "fusion/Support/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace fusion::onnxfile {

/// The keys of TensorProto.external_data that say where the bytes lie.
struct ExternalPlace {
  std::string location;
  std::string offset, length; ///< decimal; empty when absent
};

struct FileRange {
  std::string file;
  uint64_t offset = 0;
};

/// Finds external files for one model. The target must lie inside the model's
/// folder, or inside the folder of the model's real path: hub caches hold both
/// the model and its data as links into one store.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string modelPath);

  /// Checks that `bytes` bytes are there. Messages start with "external data".
  Result<FileRange> resolve(const ExternalPlace &place, uint64_t bytes);

private:
  struct Target {
    std::string file;
    uint64_t size = 0;
  };
  Result<Target> open(const std::string &location);

  std::string modelPath;
  std::map<std::string, Target> known; ///< by location
};

} // namespace fusion::onnxfile

#endif // FUSION_IMPORT_ONNX_EXTERNALDATA_H
