//===- Json.h - Writing JSON ------------------------------------*- C++ -*-===//

#ifndef FUSION_SUPPORT_JSON_H
#define FUSION_SUPPORT_JSON_H

#include <cstdio>
#include <string>
#include <string_view>

namespace fusion {

/// A string literal, quotes included.
inline std::string jsonString(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + '"';
}

} // namespace fusion

#endif // FUSION_SUPPORT_JSON_H
