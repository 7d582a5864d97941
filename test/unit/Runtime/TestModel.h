//===- TestModel.h - Artifacts made by hand ---------------------*- C++ -*-===//
//
// Builds artifacts whose kernels are functions of the test program: the image
// holds a jump to each, so that what the runtime maps and calls is real code.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TEST_RUNTIME_TESTMODEL_H
#define FUSION_TEST_RUNTIME_TESTMODEL_H

#include "fusion/Artifact/HostABI.h"
#include "fusion/Artifact/Writer.h"
#include "fusion/Runtime/Session.h"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

namespace fusion {

using artifact::BufferRef;
using artifact::DType;
using artifact::Launch;
using artifact::Model;
using artifact::Program;
using artifact::Role;
using artifact::Symbol;
using Kind = artifact::BufferRef::Kind;

class TestModel {
public:
  TestModel() {
    char name[] = "/tmp/fusion-runtime-XXXXXX";
    folder = mkdtemp(name);
    model.name = "test";
    model.images = {{artifact::KernelCode::Target::HostV3, 0, 0}};
  }
  ~TestModel() { std::filesystem::remove_all(folder); }

  /// Returns the index of a kernel that calls `function`.
  uint32_t kernel(const char *name, HostKernel function) {
    // movabs rax, imm64; jmp rax; padded to 16 bytes
    std::string code("\x48\xb8--------\xff\xe0\xcc\xcc\xcc\xcc", 16);
    auto address = reinterpret_cast<uint64_t>(function);
    memcpy(code.data() + 2, &address, sizeof address);
    model.kernels.push_back(
        {name,
         "test",
         "",
         {{artifact::KernelCode::Target::HostV3, 0, image.size(), {}, 0, 0}}});
    image += code;
    return static_cast<uint32_t>(model.kernels.size() - 1);
  }
  uint32_t weight(const char *name, const std::vector<float> &values) {
    model.weights.push_back({name,
                             DType::F32,
                             {static_cast<int64_t>(values.size())},
                             "",
                             0,
                             values.size() * 4});
    weights.push_back(values);
    return static_cast<uint32_t>(weights.size() - 1);
  }
  static Launch launch(uint32_t kernel, std::vector<BufferRef> args,
                       std::vector<SymExpr> sizes, SymExpr grid) {
    Launch l;
    l.kernel = kernel;
    for (const BufferRef &arg : args)
      l.args.push_back(
          {arg, artifact::CacheHint::None, artifact::Invariance::None});
    l.sizes = std::move(sizes);
    l.grid = std::move(grid);
    return l;
  }

  std::string path() const { return folder / "m.fusion"; }
  Status write() const {
    return writeArtifact(
        path(), model, {image}, [&](size_t i, artifact::ByteSink &sink) {
          return sink.write(weights[i].data(), weights[i].size() * 4);
        });
  }
  std::shared_ptr<const LoadedModel> open(unsigned threads = 2) const {
    Status written = write();
    EXPECT_TRUE(written) << written.message();
    auto loaded = LoadedModel::open(path(), Device::Host, threads);
    EXPECT_TRUE(loaded) << loaded.status().message();
    return loaded ? *loaded : nullptr;
  }
  std::unique_ptr<Session> session(unsigned threads = 2) const {
    auto created = Session::create(open(threads));
    return std::move(*created);
  }

  Model model;
  std::string image;
  std::vector<std::vector<float>> weights;
  std::filesystem::path folder;
};

} // namespace fusion

#endif // FUSION_TEST_RUNTIME_TESTMODEL_H
