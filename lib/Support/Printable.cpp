//===- Printable.cpp - Text of a file, made fit to print ------------------===//

#include "fusion/Support/Printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

using namespace fusion;

namespace {

constexpr size_t kMostOfName = 200, kMostOfWord = 1000;

struct Character {
  size_t bytes;
  uint32_t code;
};

/// The character that the text starts with; of 0 bytes where it is no UTF-8.
Character decode(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint32_t first = byte(0);
  if (first < 0x80)
    return {1, first};
  size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes)
    return {0, 0};
  uint32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80)
      return {0, 0};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isSurrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || isSurrogate || code > 0x10ffff)
    return {0, 0};
  return {bytes, code};
}

/// Control and format characters, line and paragraph separators.
bool isHidden(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> ranges[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
      {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
      {0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xe0000, 0xe0fff},
  };
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const auto &r) {
    return code >= r.first && code <= r.second;
  });
}

void appendEscaped(std::string &result, std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  for (char c : bytes) {
    auto byte = static_cast<uint8_t>(c);
    result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
}

/// The text's first bytes, no more than `most`, and how many there were.
std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most)
    return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0U) == 0x80)
    --end; // not within a character
  return std::string(text.substr(0, end)) + "... (" +
         std::to_string(text.size()) + " bytes)";
}

} // namespace

std::string fusion::printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    Character c = decode(text);
    std::string_view bytes = text.substr(0, std::max<size_t>(c.bytes, 1));
    if (c.bytes == 0 || isHidden(c.code))
      appendEscaped(result, bytes);
    else
      result += bytes;
    text.remove_prefix(bytes.size());
  }
  return result;
}

std::string fusion::printableName(std::string_view name) {
  return printable(shortened(name, kMostOfName));
}

std::string fusion::printableMessage(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    if (text.substr(0, 3) == "\n  ") {
      result += '\n';
      text.remove_prefix(1);
      continue;
    }
    // A word, or one character that separates words.
    size_t end =
        std::max<size_t>(std::min(text.find_first_of(" \n"), text.size()), 1);
    result += printable(shortened(text.substr(0, end), kMostOfWord));
    text.remove_prefix(end);
  }
  return result;
}
