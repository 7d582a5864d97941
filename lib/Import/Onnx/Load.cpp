//===- Load.cpp - Opens, parses and checks an ONNX file -------------------===//

#include "Proto.h"
#include "WireWalker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

constexpr int minIr = 3, maxIr = 14;

/// A read-only view of a whole file.
class MappedFile {
public:
  explicit MappedFile(const std::string &path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
      throw FileError("cannot be opened: " + std::string(strerror(errno)));
    struct stat info;
    bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (regular && info.st_size > 0) {
      void *base = ::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (base != MAP_FAILED)
        bytes = {static_cast<const char *>(base), size_t(info.st_size)};
    }
    ::close(fd);
    if (!regular)
      throw FileError("not a regular file");
    if (info.st_size == 0)
      throw FileError("the file is empty");
    if (bytes.empty())
      throw FileError("cannot be mapped");
  }
  MappedFile(const MappedFile &) = delete;
  ~MappedFile() {
    if (!bytes.empty())
      ::munmap(const_cast<char *>(bytes.data()), bytes.size());
  }

  std::string_view bytes;
};

onnx::ModelProto parse(const std::string &path) {
  std::string stripped;
  {
    MappedFile file(path);
    Result<std::string> result = stripTensors(file.bytes);
    if (!result)
      throw FileError(result.status().message());
    stripped = std::move(*result);
  }
  onnx::ModelProto model;
  if (!model.ParseFromString(stripped))
    throw FileError("truncated, or not an ONNX model");
  if (!model.has_graph())
    throw FileError("not an ONNX model (no graph)");
  return model;
}

void checkVersions(const onnx::ModelProto &proto, Model &model) {
  model.irVersion = proto.ir_version();
  model.producer = proto.producer_name();
  if (!proto.has_ir_version() || model.irVersion < minIr)
    model.faults.push_back("IR version " + std::to_string(model.irVersion) +
                           " is not supported, expected " +
                           std::to_string(minIr) + " to " +
                           std::to_string(maxIr));
  if (model.irVersion > maxIr)
    model.warnings.push_back("IR version " + std::to_string(model.irVersion) +
                             " is newer than " + std::to_string(maxIr) +
                             ", the newest known");
  for (const auto &import : proto.opset_import()) {
    std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    int64_t version = import.version();
    if (version < 1 || version > INT32_MAX) {
      model.faults.push_back("opset " + std::to_string(version) +
                             " of domain '" + domain + "' does not exist");
      version = maxOpset; // the nodes are judged by what is known
    }
    auto [it, inserted] = model.opsets.emplace(domain, int(version));
    if (!inserted && it->second != version)
      model.faults.push_back("two opsets of domain '" + domain +
                             "' are imported");
  }
  auto main = model.opsets.find("");
  if (main == model.opsets.end()) {
    // A model of contrib operators alone needs no ai.onnx opset.
    if (model.opsets.empty()) {
      model.faults.push_back("the model imports no opset");
      model.opsets.emplace("", maxOpset);
    }
    return;
  }
  // A newer opset may change what an operator means: no guessing. In an older
  // one, checkNode() lets those pass that have not changed since.
  if (main->second > maxOpset)
    model.faults.push_back("opset " + std::to_string(main->second) +
                           " is not supported, expected " +
                           std::to_string(minOpset) + " to " +
                           std::to_string(maxOpset) +
                           "; convert the model with onnx.version_converter");
}

} // namespace

Result<Model> onnxfile::loadModel(const std::string &path,
                                  const IsImported &isImported) {
  auto failure = [&](const std::string &what) {
    return Status(StatusCode::InvalidInput, path + ": " + what);
  };
  try {
    registerContribSchemas();
    onnx::ModelProto proto = parse(path);
    Model model;
    model.path = path;
    checkVersions(proto, model);
    inlineFunctions(proto, model, isImported);
    ExternalFiles externals(path);
    GraphConverter converter(model, externals);
    model.graph = converter.convert(proto.graph(), {}, 0);
    converter.countTensorFaults();
    return model;
  } catch (const std::bad_alloc &) {
    return failure("out of memory");
  } catch (const std::exception &error) {
    std::string text = error.what();
    return failure(text.substr(0, text.find('\n')));
  }
}
