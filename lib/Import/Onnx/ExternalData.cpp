//===- ExternalData.cpp - Where a tensor outside the model lies -----------===//
//
// The location is text from an untrusted file: it must not lead out of the
// folder, neither by its spelling nor through symbolic links.
//
//===----------------------------------------------------------------------===//

#include "ExternalData.h"

#include <filesystem>

using namespace fusion;
using namespace fusion::onnxfile;
namespace fs = std::filesystem;

static Status refuse(const std::string &location, const std::string &why) {
  return Status(StatusCode::InvalidInput,
                "external data '" + location + "': " + why);
}

/// Canonical path, empty when it does not exist.
static fs::path canonicalPath(const fs::path &path) {
  std::error_code error;
  fs::path result = fs::canonical(path, error);
  return error ? fs::path() : result;
}

static bool isInside(const fs::path &file, const fs::path &folder) {
  if (file.empty() || folder.empty())
    return false;
  auto it = file.begin();
  for (const fs::path &part : folder)
    if (it == file.end() || *it++ != part)
      return false;
  return it != file.end();
}

static fs::path folderOf(const fs::path &file) {
  fs::path folder = file.parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

ExternalFiles::ExternalFiles(std::string path) : modelPath(std::move(path)) {}

Result<ExternalFiles::Target> ExternalFiles::open(const std::string &location) {
  if (location.empty())
    return refuse(location, "the location is empty");
  if (location.find('\0') != std::string::npos)
    return refuse(location.substr(0, location.find('\0')),
                  "the location contains a NUL character");
  fs::path relative(location);
  if (relative.is_absolute())
    return refuse(location, "absolute paths are not allowed");
  for (const fs::path &part : relative)
    if (part == "..")
      return refuse(location, "'..' is not allowed");

  fs::path folder = folderOf(modelPath);
  fs::path realFolder = canonicalPath(modelPath).parent_path();
  fs::path file = folder / relative;
  fs::path target = canonicalPath(file);
  if (target.empty()) {
    file = realFolder / relative;
    target = canonicalPath(file);
  }
  if (target.empty())
    return refuse(location, "no such file beside the model");
  if (!isInside(target, canonicalPath(folder)) && !isInside(target, realFolder))
    return refuse(location, "it leads out of the model's folder");
  std::error_code error;
  if (!fs::is_regular_file(target, error))
    return refuse(location, "not a regular file");
  uint64_t size = fs::file_size(target, error);
  if (error)
    return refuse(location, "its size cannot be read");
  return Target{file.string(), size};
}

/// Decimal digits only; nullopt otherwise and on overflow.
static std::optional<uint64_t> parseNumber(const std::string &text) {
  uint64_t value = 0;
  for (char c : text)
    if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10u, &value) ||
        __builtin_add_overflow(value, uint64_t(c - '0'), &value))
      return std::nullopt;
  return text.empty() ? std::nullopt : std::optional<uint64_t>(value);
}

Result<FileRange> ExternalFiles::resolve(const ExternalPlace &place,
                                         uint64_t bytes) {
  auto it = known.find(place.location);
  if (it == known.end()) {
    Result<Target> target = open(place.location);
    if (!target)
      return target.status();
    it = known.emplace(place.location, *target).first;
  }
  uint64_t offset = 0, end;
  if (!place.offset.empty()) {
    auto value = parseNumber(place.offset);
    if (!value)
      return refuse(place.location,
                    "offset '" + place.offset + "' is not a number");
    offset = *value;
  }
  if (!place.length.empty()) {
    auto value = parseNumber(place.length);
    if (!value)
      return refuse(place.location,
                    "length '" + place.length + "' is not a number");
    if (*value != bytes)
      return refuse(place.location, "length is " + place.length +
                                        ", but the tensor has " +
                                        std::to_string(bytes) + " bytes");
  }
  if (__builtin_add_overflow(offset, bytes, &end) || end > it->second.size)
    return refuse(place.location,
                  "the file has " + std::to_string(it->second.size) +
                      " bytes, but the tensor needs " + std::to_string(bytes) +
                      " from offset " + std::to_string(offset));
  return FileRange{it->second.file, offset};
}
