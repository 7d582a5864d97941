//===- NpyHeader.cpp - The header of a .npy file --------------------------===//
//
// The header is a Python dictionary of three keys. This reads the literals
// that numpy writes, and nothing more of Python.
//
//===----------------------------------------------------------------------===//

#include "NpyHeader.h"

#include <cctype>
#include <optional>

using namespace fusion;

namespace {

constexpr size_t kMostRank = 64;

class DictParser {
public:
  explicit DictParser(std::string_view text) : text(text) {}

  /// Whether parse() stopped at the shape.
  bool stoppedAtShape() const { return badShape; }

  bool parse(NpyHeader &header) {
    bool descr = false, order = false, shape = false;
    if (!eat('{'))
      return false;
    while (!eat('}')) {
      auto key = string();
      if (!key || !eat(':'))
        return false;
      bool *seen = *key == "descr"           ? &descr
                   : *key == "fortran_order" ? &order
                   : *key == "shape"         ? &shape
                                             : nullptr;
      if (!seen || *seen)
        return false;
      *seen = true;
      if (!value(*key, header))
        return false;
      if (!eat(',')) {
        if (!eat('}'))
          return false;
        break;
      }
    }
    skip();
    return descr && order && shape && pos == text.size();
  }

private:
  void skip() {
    while (pos < text.size() &&
           std::isspace(static_cast<unsigned char>(text[pos])))
      ++pos;
  }
  bool eat(char c) {
    skip();
    if (pos >= text.size() || text[pos] != c)
      return false;
    ++pos;
    return true;
  }
  bool eatWord(std::string_view word) {
    skip();
    if (text.substr(pos, word.size()) != word)
      return false;
    pos += word.size();
    return true;
  }
  std::optional<std::string> string() {
    skip();
    if (pos >= text.size() || (text[pos] != '\'' && text[pos] != '"'))
      return std::nullopt;
    size_t end = text.find(text[pos], pos + 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string result(text.substr(pos + 1, end - pos - 1));
    pos = end + 1;
    return result;
  }
  bool value(const std::string &key, NpyHeader &header) {
    if (key == "shape") {
      badShape = !tuple(header.shape);
      return !badShape;
    }
    if (key == "descr") {
      auto text = string(); // a list would be a structured type
      if (text)
        header.descr = *text;
      return text.has_value();
    }
    header.fortranOrder = eatWord("True");
    return header.fortranOrder || eatWord("False");
  }
  bool tuple(std::vector<int64_t> &shape) {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      int64_t n;
      if (shape.size() >= kMostRank || !number(n))
        return false;
      shape.push_back(n);
      if (!eat(','))
        return eat(')');
    }
    return true;
  }
  bool number(int64_t &value) {
    skip();
    size_t begin = pos;
    value = 0;
    for (; pos < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[pos]));
         ++pos)
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(text[pos] - '0'), &value))
        return false;
    if (pos == begin)
      return false;
    if (pos < text.size() && text[pos] == 'L') // written by Python 2
      ++pos;
    return true;
  }

  std::string_view text;
  size_t pos = 0;
  bool badShape = false;
};

} // namespace

Result<NpyHeader> fusion::parseNpyHeader(std::string_view bytes) {
  auto bad = [](const char *why) {
    return Status(StatusCode::InvalidInput, why);
  };
  if (bytes.substr(0, 6) != std::string_view("\x93NUMPY", 6))
    return bad("it is no .npy file");
  auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[i]));
  };
  if (bytes.size() < 12)
    return bad("it is truncated");
  size_t version = byte(6);
  if (version < 1 || version > 3)
    return bad("its .npy format version is unknown");
  size_t begin = version == 1 ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin)
    return bad("it is truncated within its header");
  NpyHeader header;
  header.dataOffset = begin + length;
  DictParser parser(bytes.substr(begin, length));
  if (!parser.parse(header))
    return bad(parser.stoppedAtShape()
                   ? "the shape in its header cannot be read, expected a tuple "
                     "of sizes that are not negative"
                   : "its header cannot be read (structured types are not "
                     "supported)");
  return header;
}
