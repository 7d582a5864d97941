//===- Printable.h - Text of a file, made fit to print ----------*- C++ -*-===//

#ifndef FUSION_SUPPORT_PRINTABLE_H
#define FUSION_SUPPORT_PRINTABLE_H

#include <string>
#include <string_view>

namespace fusion {

/// The text with control characters, marks of writing direction, other
/// characters without a shape and bytes that are no UTF-8 written as `\xNN`, so
/// that a name in a file can neither steer a terminal nor forge a message.
std::string printable(std::string_view text);

/// A name from a file: printable, and cut after 200 bytes.
std::string printableName(std::string_view name);

/// A message of several lines: a line break stays where spaces follow it, as in
/// lists. Words without a space are cut after 1000 bytes.
std::string printableMessage(std::string_view text);

} // namespace fusion

#endif // FUSION_SUPPORT_PRINTABLE_H
