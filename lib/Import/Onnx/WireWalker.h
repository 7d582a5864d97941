//===- WireWalker.h - Finds tensor bytes before protobuf parses -*- C++ -*-===//
//
// Protobuf copies every byte of a message to the heap. This walk over the wire
// format copies a ModelProto without the bytes of its tensors, and leaves in
// each tensor a note of where they lie in the file. Documentation strings,
// metadata and intermediate value infos are dropped on the way.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_IMPORT_ONNX_WIREWALKER_H
#define FUSION_IMPORT_ONNX_WIREWALKER_H

#include "fusion/Support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace fusion::onnxfile {

/// Key of the external_data entry that says where a tensor's bytes lie; its
/// value is "OFFSET LENGTH FIELD", FIELD being raw_data, float_data or
/// double_data. A file that contains the key itself is refused.
inline constexpr std::string_view mappedKey = "\x01mapped";

/// Messages nested deeper than this are refused (protobuf's own limit is 100).
inline constexpr int maxMessageDepth = 90;
/// Everything but the tensors' bytes must fit in this.
inline constexpr size_t maxStrippedBytes = size_t(512) << 20;

/// Returns the serialised ModelProto without its tensors' bytes. The failure's
/// message does not name the file.
Result<std::string> stripTensors(std::string_view file);

} // namespace fusion::onnxfile

#endif // FUSION_IMPORT_ONNX_WIREWALKER_H
