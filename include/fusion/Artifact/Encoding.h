//===- Encoding.h - A Model as bytes ----------------------------*- C++ -*-===//
//
// The model section of an artifact. decodeModel() accepts any bytes: it reads
// nothing outside them, allocates in proportion to them, and returns only
// models whose every index, offset and symbol is in range.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_ARTIFACT_ENCODING_H
#define FUSION_ARTIFACT_ENCODING_H

#include "fusion/Artifact/Model.h"
#include "fusion/Support/Status.h"

#include <string_view>

namespace fusion::artifact {

std::string encodeModel(const Model &model);

/// `codeBytes` and `weightBytes` are the sizes of the sections that images and
/// weights must lie in.
Result<Model> decodeModel(std::string_view bytes, uint64_t codeBytes,
                          uint64_t weightBytes);

/// What decodeModel() checks after reading; the writer checks it too, so that
/// a mistake of the compiler shows when it compiles.
Status validateModel(const Model &model, uint64_t codeBytes,
                     uint64_t weightBytes);

/// Elements of a constant shape, or nullopt when negative or beyond 2^62.
std::optional<uint64_t> elementCount(const std::vector<int64_t> &shape);
/// Bytes of `count` packed elements; saturates at UINT64_MAX.
uint64_t packedBytes(DType type, uint64_t count);

} // namespace fusion::artifact

#endif // FUSION_ARTIFACT_ENCODING_H
