//===- Encoding.cpp - A Model as bytes ------------------------------------===//
//
// One list of fields per struct serves writing and reading, so they cannot
// disagree. Integers are LEB128 (signed ones zigzag), strings and lists carry
// their length. Size expressions are interned: their texts come first, and a
// field holds an index.
//
//===----------------------------------------------------------------------===//

#include "fusion/Artifact/Encoding.h"

#include <map>

using namespace fusion;
using namespace fusion::artifact;

namespace {

constexpr size_t kMostExpressionText = 4096;

class Encoder {
public:
  void number(uint64_t value) {
    for (; value >= 128; value >>= 7)
      body += static_cast<char>(value | 128);
    body += static_cast<char>(value);
  }
  template <typename T>
  void unsignedField(T &value) {
    number(value);
  }
  void signedField(int64_t &value) {
    number(static_cast<uint64_t>(value) << 1 ^
           static_cast<uint64_t>(value >> 63));
  }
  template <typename E>
  void enumField(E &value, unsigned) {
    number(static_cast<unsigned>(value));
  }
  void textField(std::string &text) {
    number(text.size());
    body += text;
  }
  void expressionField(SymExpr &expression) {
    auto [it, inserted] = places.emplace(expression, texts.size());
    if (inserted)
      texts.push_back(expression.str());
    number(it->second);
  }
  template <typename T>
  size_t beginList(std::vector<T> &list) {
    number(list.size());
    return list.size();
  }
  template <typename T>
  bool nextItem(std::vector<T> &, size_t) {
    return true;
  }

  std::string finish() {
    std::string fields = std::move(body);
    body.clear();
    number(texts.size());
    for (std::string &text : texts)
      textField(text);
    return body + fields;
  }

private:
  std::string body;
  std::map<SymExpr, size_t> places;
  std::vector<std::string> texts;
};

/// After a failure every further read yields zero, and lists are empty.
class Decoder {
public:
  explicit Decoder(std::string_view bytes) : bytes(bytes) {}

  void fail(const char *why) {
    if (!failure)
      failure = why;
    pos = bytes.size();
  }
  const char *failed() const { return failure; }
  bool atEnd() const { return pos == bytes.size(); }

  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (pos >= bytes.size()) {
        fail("it ends within a number");
        return 0;
      }
      auto byte = static_cast<unsigned char>(bytes[pos++]);
      if (shift == 63 && byte > 1)
        break;
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
    fail("a number does not fit 64 bits");
    return 0;
  }
  template <typename T>
  void unsignedField(T &value) {
    uint64_t n = number();
    value = static_cast<T>(n);
    if (value != n)
      fail("a number does not fit its field");
  }
  void signedField(int64_t &value) {
    uint64_t n = number();
    value = static_cast<int64_t>(n >> 1 ^ (0 - (n & 1)));
  }
  template <typename E>
  void enumField(E &value, unsigned last) {
    uint64_t n = number();
    if (n > last)
      fail("an enumeration value is unknown");
    else
      value = static_cast<E>(n);
  }
  void textField(std::string &text) {
    uint64_t size = number();
    if (size > bytes.size() - pos)
      return fail("a string is longer than the section");
    text = bytes.substr(pos, size);
    pos += size;
  }
  void expressionField(SymExpr &expression) {
    uint64_t place = number();
    if (place < expressions.size())
      expression = expressions[place];
    else
      fail("a size expression is missing");
  }
  /// Every item takes a byte at least, so a count beyond the rest is wrong.
  template <typename T>
  size_t beginList(std::vector<T> &list) {
    uint64_t size = number();
    list.clear();
    if (size > bytes.size() - pos) {
      fail("a list is longer than the section");
      return 0;
    }
    return size;
  }
  template <typename T>
  bool nextItem(std::vector<T> &list, size_t) {
    if (failure)
      return false;
    list.emplace_back();
    return true;
  }

  void readExpressions() {
    uint64_t count = number();
    for (uint64_t i = 0; i < count && !failure; ++i) {
      std::string text;
      textField(text);
      if (failure || text.size() > kMostExpressionText)
        return fail("a size expression is too long");
      auto expression = SymExpr::parse(text);
      if (!expression)
        return fail("a size expression cannot be read");
      expressions.push_back(std::move(*expression));
    }
  }

private:
  std::string_view bytes;
  size_t pos = 0;
  const char *failure = nullptr;
  std::vector<SymExpr> expressions;
};

//===----------------------------------------------------------------------===//
// The fields
//===----------------------------------------------------------------------===//

template <typename A>
void field(A &a, uint32_t &value) {
  a.unsignedField(value);
}
template <typename A>
void field(A &a, uint64_t &value) {
  a.unsignedField(value);
}
template <typename A>
void field(A &a, int64_t &value) {
  a.signedField(value);
}
template <typename A>
void field(A &a, std::string &value) {
  a.textField(value);
}
template <typename A>
void field(A &a, SymExpr &value) {
  a.expressionField(value);
}
template <typename A>
void field(A &a, bool &value) {
  a.enumField(value, 1);
}
template <typename A>
void field(A &a, DType &value) {
  a.enumField(value, static_cast<unsigned>(DType::I2));
}
template <typename A>
void field(A &a, Role &value) {
  a.enumField(value, static_cast<unsigned>(Role::TokenCounts));
}
template <typename A>
void field(A &a, KernelCode::Target &value) {
  a.enumField(value, static_cast<unsigned>(KernelCode::Target::Sm90a));
}

template <typename A, typename First, typename... Rest>
void fields(A &a, First &first, Rest &...rest);

template <typename A, typename T>
void field(A &a, std::vector<T> &list) {
  size_t size = a.beginList(list);
  for (size_t i = 0; i < size && a.nextItem(list, i); ++i)
    field(a, list[i]);
}
template <typename A>
void field(A &a, std::pair<std::string, int64_t> &value) {
  fields(a, value.first, value.second);
}
template <typename A>
void field(A &a, TensorInfo &t) {
  fields(a, t.name, t.type, t.shape, t.role);
}
template <typename A>
void field(A &a, Symbol &s) {
  field(a, s.name);
  a.enumField(s.source, static_cast<unsigned>(Symbol::Source::CachedLength));
  fields(a, s.input, s.axis, s.lower, s.upper);
}
template <typename A>
void field(A &a, State &s) {
  fields(a, s.name, s.type, s.storage);
  int64_t axis = s.lengthAxis;
  field(a, axis);
  if (s.lengthAxis != axis) // decoding; validation refuses -2
    s.lengthAxis = static_cast<int32_t>(axis < -1 || axis > 255 ? -2 : axis);
}
template <typename A>
void field(A &a, Weight &w) {
  fields(a, w.name, w.type, w.shape, w.layout, w.offset, w.bytes);
}
template <typename A>
void field(A &a, TensorMap &m) {
  fields(a, m.argument, m.type, m.byteOffset, m.dims, m.strides, m.box,
         m.swizzle);
}
template <typename A>
void field(A &a, CardStage &s) {
  fields(a, s.symbol, s.threads, s.cluster, s.sharedBytes, s.grid, s.maps,
         s.registers, s.staticSharedBytes, s.spillBytes);
}
template <typename A>
void field(A &a, KernelCode &c) {
  fields(a, c.target, c.image, c.entry, c.stages, c.workspaceBytes,
         c.counterBytes);
}
template <typename A>
void field(A &a, Kernel &k) {
  fields(a, k.name, k.family, k.config, k.code);
}
template <typename A>
void field(A &a, Image &i) {
  fields(a, i.target, i.offset, i.bytes);
}
template <typename A>
void field(A &a, BufferRef &b) {
  a.enumField(b.kind, static_cast<unsigned>(BufferRef::Kind::State));
  fields(a, b.index, b.byteOffset);
}
template <typename A>
void field(A &a, ArenaBuffer &b) {
  fields(a, b.bytes, b.firstUse, b.lastUse, b.value, b.type);
}
template <typename A>
void field(A &a, LaunchArg &l) {
  field(a, l.buffer);
  a.enumField(l.hint, static_cast<unsigned>(CacheHint::EvictLast));
  a.enumField(l.invariance, static_cast<unsigned>(Invariance::OlderRows));
}
template <typename A>
void field(A &a, Launch &l) {
  fields(a, l.kernel, l.args, l.sizes, l.grid, l.grain, l.scratchBytes);
  a.enumField(l.launchClass, static_cast<unsigned>(LaunchClass::Chain));
  fields(a, l.programmatic, l.site);
}
template <typename A>
void field(A &a, Program &p) {
  field(a, p.name);
  a.enumField(p.device, static_cast<unsigned>(Program::Device::Card));
  fields(a, p.set, p.rows, p.minRows, p.maxRows, p.fixed, p.buffers,
         p.launches);
}
template <typename A>
void field(A &a, Guard &g) {
  fields(a, g.left, g.right, g.reason);
}

template <typename A>
void field(A &a, Model &m) {
  fields(a, m.producer, m.name, m.options, m.symbols, m.inputs, m.outputs,
         m.states, m.weights, m.kernels, m.images, m.programs, m.guards,
         m.maxContext, m.appended, m.explain);
}

template <typename A, typename First, typename... Rest>
void fields(A &a, First &first, Rest &...rest) {
  field(a, first);
  if constexpr (sizeof...(Rest) > 0)
    fields(a, rest...);
}

} // namespace

std::string fusion::artifact::encodeModel(const Model &model) {
  Encoder encoder;
  field(encoder, const_cast<Model &>(model)); // an encoder only reads
  return encoder.finish();
}

Result<Model> fusion::artifact::decodeModel(std::string_view bytes,
                                            uint64_t codeBytes,
                                            uint64_t weightBytes) {
  Decoder decoder(bytes);
  Model model;
  decoder.readExpressions();
  field(decoder, model);
  if (!decoder.failed() && !decoder.atEnd())
    decoder.fail("bytes follow the model");
  if (const char *why = decoder.failed())
    return Status(StatusCode::BadArtifact,
                  std::string("the model section is corrupt: ") + why);
  if (Status status = validateModel(model, codeBytes, weightBytes); !status)
    return status;
  return model;
}
