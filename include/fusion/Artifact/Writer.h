//===- Writer.h - Writes a .fusion file -------------------------*- C++ -*-===//
//
// Streams a model to disk: weights pass through a callback, so that they never
// lie in memory as a whole. The file appears under its name only when it is
// complete; nothing is left behind on failure. Equal models give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_ARTIFACT_WRITER_H
#define FUSION_ARTIFACT_WRITER_H

#include "fusion/Artifact/Model.h"
#include "fusion/Support/Status.h"

#include <functional>
#include <string_view>

namespace fusion::artifact {

/// Where a weight's bytes go; any number of writes of any size.
class ByteSink {
public:
  virtual ~ByteSink() = default;
  virtual Status write(const void *data, size_t bytes) = 0;
};

/// Writes exactly model.weights[index].bytes bytes to the sink. Called once
/// per weight, in order.
using WeightSource = std::function<Status(size_t index, ByteSink &sink)>;

/// `images[i]` are the bytes of model.images[i]. The writer chooses the
/// offsets of images and weights, and the sizes of images; it reads
/// Weight::bytes.
Status writeArtifact(const std::string &path, Model model,
                     const std::vector<std::string_view> &images,
                     const WeightSource &weights);

} // namespace fusion::artifact

#endif // FUSION_ARTIFACT_WRITER_H
