//===- Status.h - Errors as values ------------------------------*- C++ -*-===//
//
// How the parts that link no LLVM report failure: a code that says whose fault
// it is, and a message for the user (lower case, no full stop).
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SUPPORT_STATUS_H
#define FUSION_SUPPORT_STATUS_H

#include <optional>
#include <string>
#include <utility>

namespace fusion {

/// The values are those of FusionStatus in fusion-c/Runtime.h.
enum class StatusCode {
  Ok = 0,
  InvalidInput = 1, ///< a tensor, shape, type or file given to a run
  Usage = 2,        ///< the caller's mistake: unknown name, wrong order
  BadArtifact = 3,  ///< not an artifact, altered, truncated, another version
  Unavailable = 4,  ///< device, driver or instruction set missing
  Failed = 5,       ///< a kernel reported an error, memory ran out
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : theCode(code), text(std::move(message)) {}

  bool ok() const { return theCode == StatusCode::Ok; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return theCode; }
  const std::string &message() const { return text; }

private:
  StatusCode theCode = StatusCode::Ok;
  std::string text;
};

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status failure) : failure(std::move(failure)) {}

  bool ok() const { return content.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return *content; }
  const T &operator*() const { return *content; }
  T *operator->() { return &*content; }
  const T *operator->() const { return &*content; }
  const Status &status() const { return failure; }

private:
  std::optional<T> content;
  Status failure;
};

} // namespace fusion

#endif // FUSION_SUPPORT_STATUS_H
