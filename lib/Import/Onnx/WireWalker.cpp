//===- WireWalker.cpp - Finds tensor bytes before protobuf parses ---------===//
//
// The wire format is a sequence of (tag, payload); the tag holds a field number
// and a wire type. Only the messages on the way to a TensorProto are entered.
//
//===----------------------------------------------------------------------===//

#include "WireWalker.h"

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

enum class Message {
  Copy,
  Drop,
  Model,
  Graph,
  Function,
  Node,
  Attribute,
  Tensor
};

/// What a field of a message holds; numbers are those of onnx.proto.
Message classify(Message message, uint64_t field) {
  switch (message) {
  case Message::Model:
    return field == 7                                 ? Message::Graph
           : field == 25                              ? Message::Function
           : field == 6 || field == 14 || field == 20 ? Message::Drop
                                                      : Message::Copy;
  case Message::Graph: // value_info, annotations, documentation, metadata
    return field == 1   ? Message::Node
           : field == 5 ? Message::Tensor
           : field == 10 || field == 13 || field == 14 || field == 16
               ? Message::Drop
               : Message::Copy;
  case Message::Function:
    return field == 7                                 ? Message::Node
           : field == 11                              ? Message::Attribute
           : field == 8 || field == 12 || field == 14 ? Message::Drop
                                                      : Message::Copy;
  case Message::Node:
    return field == 5                                ? Message::Attribute
           : field == 6 || field == 9 || field == 10 ? Message::Drop
                                                     : Message::Copy;
  case Message::Attribute:
    return field == 5 || field == 10   ? Message::Tensor
           : field == 6 || field == 11 ? Message::Graph
           : field == 13               ? Message::Drop
                                       : Message::Copy;
  default:
    return Message::Copy;
  }
}

void appendVarint(std::string &out, uint64_t value) {
  for (; value > 127; value >>= 7)
    out.push_back(static_cast<char>((value & 127) | 128));
  out.push_back(static_cast<char>(value));
}

void appendBytes(std::string &out, uint64_t field, std::string_view bytes) {
  appendVarint(out, field << 3 | 2);
  appendVarint(out, bytes.size());
  out.append(bytes);
}

/// One field as read from the wire.
struct Field {
  uint64_t number = 0;
  unsigned wireType = 0;
  std::string_view whole;   ///< tag and payload
  std::string_view payload; ///< of a length-delimited field
};

class Walker {
public:
  explicit Walker(std::string_view file) : file(file) {}

  bool walk(Message message, std::string_view bytes, std::string &out,
            int depth) {
    if (depth > maxMessageDepth)
      return fail("messages are nested deeper than " +
                  std::to_string(maxMessageDepth) + " levels");
    if (message == Message::Tensor)
      return walkTensor(bytes, out);
    while (!bytes.empty()) {
      Field field;
      if (!next(bytes, field))
        return false;
      Message kind = classify(message, field.number);
      if (kind == Message::Drop)
        continue;
      if (kind == Message::Copy || field.wireType != 2) {
        out.append(field.whole);
      } else {
        std::string child;
        if (!walk(kind, field.payload, child, depth + 1))
          return false;
        appendBytes(out, field.number, child);
      }
      if (out.size() > maxStrippedBytes)
        return fail("the graph without its tensors exceeds " +
                    std::to_string(maxStrippedBytes >> 20) + " MiB");
    }
    return true;
  }

  std::string error;

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool truncated() { return fail("truncated, or not an ONNX model"); }

  bool varint(std::string_view &bytes, uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (bytes.empty())
        return truncated();
      auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (shift < 64)
        value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128)
        return true;
    }
    return fail("not an ONNX model (bad number)");
  }

  bool next(std::string_view &bytes, Field &field) {
    const char *begin = bytes.data();
    uint64_t tag, length = 0;
    if (!varint(bytes, tag))
      return false;
    field.number = tag >> 3;
    field.wireType = tag & 7;
    if (field.number == 0 || field.number > 536870911)
      return fail("not an ONNX model (bad field number)");
    switch (field.wireType) {
    case 0:
      if (!varint(bytes, length))
        return false;
      length = 0;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      if (!varint(bytes, length))
        return false;
      break;
    case 5:
      length = 4;
      break;
    default:
      return fail("not an ONNX model (bad wire type)");
    }
    if (length > bytes.size())
      return truncated();
    field.payload = bytes.substr(0, length);
    bytes.remove_prefix(length);
    field.whole = std::string_view(begin, bytes.data() - begin);
    return true;
  }

  /// Bytes in float_data (4) and double_data (10) are the tensor's own layout
  /// when they come as one packed run; raw_data (9) always is.
  bool walkTensor(std::string_view bytes, std::string &out) {
    std::string_view data;
    const char *source = nullptr;
    int runs = 0;
    for (std::string_view rest = bytes; !rest.empty();) {
      Field field;
      if (!next(rest, field))
        return false;
      if (field.number == 4 || field.number == 10)
        ++runs;
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      Field field;
      if (!next(rest, field))
        return false;
      bool packed = field.wireType == 2;
      bool raw = packed && field.number == 9;
      bool run =
          packed && runs == 1 && (field.number == 4 || field.number == 10);
      if (raw || run) {
        if (source)
          return fail("a tensor has its data twice");
        data = field.payload;
        source = raw                 ? "raw_data"
                 : field.number == 4 ? "float_data"
                                     : "double_data";
      } else if (field.number == 13 &&
                 field.payload.find(mappedKey) != std::string_view::npos) {
        return fail("a tensor uses a reserved external_data key");
      } else if (field.number != 12 && field.number != 16) {
        out.append(field.whole);
      }
    }
    if (source)
      appendPlace(data, source, out);
    return true;
  }

  void appendPlace(std::string_view data, const char *source,
                   std::string &out) {
    std::string entry;
    appendBytes(entry, 1, mappedKey);
    appendBytes(entry, 2,
                std::to_string(data.data() - file.data()) + " " +
                    std::to_string(data.size()) + " " + source);
    appendBytes(out, 13, entry);
  }

  std::string_view file;
};

} // namespace

Result<std::string> onnxfile::stripTensors(std::string_view file) {
  Walker walker(file);
  std::string out;
  if (!walker.walk(Message::Model, file, out, 0))
    return Status(StatusCode::InvalidInput, walker.error);
  return out;
}
