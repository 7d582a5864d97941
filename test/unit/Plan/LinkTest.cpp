//===- LinkTest.cpp - Planned modules as artifacts ------------------------===//

#include "fusion/Link/Link.h"
#include "PlanTesting.h"
#include "fusion/Artifact/Reader.h"

#include "mlir/IR/Diagnostics.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace fusion;
using namespace mlir;

namespace {

class Link : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir();
    std::ofstream out(file("link.data"), std::ios::binary);
    for (int i = 0; i < 16; ++i) {
      float value = static_cast<float>(i);
      out.write(reinterpret_cast<const char *>(&value), sizeof value);
    }
  }
  std::string file(const std::string &name) { return folder + name; }

  /// Two uses of one weight, a constant, a transposed copy of a weight.
  std::string text(uint64_t length = 32) {
    std::string n = std::to_string(length);
    std::string w = "tensor<" + std::to_string(length / 16) + "x4xf32>";
    std::string t = "tensor<4x" + std::to_string(length / 16) + "xf32>";
    return "func.func @main(%x: " + t + " {fusion.name = \"x\"}) -> (" + t +
           " {fusion.name = \"y\"}, " + w +
           " {fusion.name = \"z\"}) {\n"
           "  %w = fusion.weight \"w\" at <\"" +
           file("link.data") + "\", 8, " + n + "> : " + w +
           "\n"
           "  %v = fusion.weight \"v\" at <\"" +
           file("link.data") + "\", 8, " + n + "> : " + w +
           "\n"
           "  %p = fusion.constant dense<[1, 2, 3]> : tensor<3xui4>\n"
           "  %t = fusion.group \"transpose\" (%0 = %w) : (" +
           w + ") -> " + t +
           " kernel #fusion.config<\"pointwise\", {}> {\n"
           "    %1 = fusion.transpose %0 perm = [1, 0] : (" +
           w + ") -> " + t + "\n    fusion.yield %1 : " + t +
           "\n  }\n"
           "  %a = fusion.group \"add\" (%0 = %x, %1 = %t, %2 = %p) : (" +
           t + ", " + t + ", tensor<3xui4>) -> " + t +
           " kernel #fusion.config<\"pointwise\", {}> {\n"
           "    %3 = fusion.cast %2 : (tensor<3xui4>) -> tensor<3xf32>\n"
           "    %4 = fusion.reduce_sum %3 axes = [0] : (tensor<3xf32>) -> "
           "tensor<f32>\n"
           "    %5 = fusion.add %0, %1 : (" +
           t + ", " + t + ") -> " + t +
           "\n"
           "    %6 = fusion.add %5, %4 : (" +
           t + ", tensor<f32>) -> " + t +
           "\n"
           "    fusion.yield %6 : " +
           t +
           "\n  }\n"
           "  %b = fusion.group \"add\" (%0 = %w, %1 = %v) : (" +
           w + ", " + w + ") -> " + w +
           " kernel #fusion.config<\"sequential\", {}> {\n"
           "    %2 = fusion.cumsum %0 axis = 0 : (" +
           w + ") -> " + w +
           "\n"
           "    %3 = fusion.add %2, %1 : (" +
           w + ", " + w + ") -> " + w +
           "\n"
           "    fusion.yield %3 : " +
           w +
           "\n  }\n"
           "  return %a, %b : " +
           t + ", " + w + "\n}\n";
  }

  kernels::CompiledImage imageFor(ModuleOp module) {
    kernels::CompiledImage image;
    image.bytes.assign(64, 0x90);
    uint64_t entry = 0;
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      artifact::KernelCode code;
      code.entry = entry++;
      image.kernels[kernel.getSymName().str()] = code;
    }
    return image;
  }

  std::string contents(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder;
  PlanTesting testing;
};

TEST_F(Link, Contents) {
  auto module = testing.parse(text());
  ASSERT_TRUE(module && testing.plan(*module));
  std::string path = file("contents.fusion");
  LinkOptions options{"test", "", "{\"sites\": []}"};
  ASSERT_TRUE(
      succeeded(linkArtifact(*module, imageFor(*module), path, options)));
  auto opened = artifact::Artifact::open(path);
  ASSERT_TRUE(opened) << opened.status().message();
  const artifact::Model &model = (*opened)->model();
  EXPECT_EQ("{\"sites\": []}", model.explain);
  ASSERT_EQ(1u, model.programs.size());
  EXPECT_EQ(2u, model.programs[0].launches.size()) << "transpose is evaluated";
  EXPECT_EQ(2u, model.kernels.size()) << "without the evaluated one";

  std::map<std::string, uint32_t> weights;
  for (const artifact::Weight &weight : model.weights)
    weights[weight.name] = static_cast<uint32_t>(weights.size());
  ASSERT_EQ(3u, weights.size()) << "w and v are one place in the file";
  float stored[8];
  memcpy(stored, (*opened)->weight(weights.at("w")), sizeof stored);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(static_cast<float>(i + 2), stored[i]); // 8 bytes in
  ASSERT_TRUE(weights.count("evaluated.transpose_0"));
  memcpy(stored, (*opened)->weight(weights.at("evaluated.transpose_0")),
         sizeof stored);
  for (int i = 0; i < 8; ++i) {
    int transposed = i / 2 + i % 2 * 4;
    EXPECT_EQ(static_cast<float>(transposed + 2), stored[i]) << i;
  }
  // Sub-byte elements are packed, the first in the low bits.
  const uint8_t *packed = (*opened)->weight(weights.at("constant"));
  EXPECT_EQ(2u, model.weights[weights.at("constant")].bytes);
  EXPECT_EQ(0x21, packed[0]);
  EXPECT_EQ(0x03, packed[1]);
}

TEST_F(Link, EqualBytesTwice) {
  std::string bytes[2];
  for (int i = 0; i < 2; ++i) {
    PlanTesting fresh;
    auto module = fresh.parse(text());
    ASSERT_TRUE(module && fresh.plan(*module));
    std::string path = file("equal" + std::to_string(i) + ".fusion");
    ASSERT_TRUE(succeeded(linkArtifact(*module, imageFor(*module), path, {})));
    bytes[i] = contents(path);
  }
  EXPECT_FALSE(bytes[0].empty());
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(Link, KernelWithoutCode) {
  auto module = testing.parse(text());
  ASSERT_TRUE(module && testing.plan(*module));
  std::string message;
  ScopedDiagnosticHandler handler(&testing.context, [&](Diagnostic &d) {
    message += d.str();
    return success();
  });
  std::string path = file("none.fusion");
  std::remove(path.c_str());
  kernels::CompiledImage image;
  EXPECT_TRUE(failed(linkArtifact(*module, image, path, {})));
  EXPECT_NE(std::string::npos, message.find("no code for the host")) << message;
  // A card may lack kernels: the host runs them.
  image.target = artifact::KernelCode::Target::Sm90a;
  EXPECT_TRUE(succeeded(buildArtifactModel(*module, image, {})));
}

TEST_F(Link, WeightFileThatEnds) {
  auto module = testing.parse(text(/*length=*/64)); // 56 bytes are there
  ASSERT_TRUE(module && testing.plan(*module));
  std::string message;
  ScopedDiagnosticHandler handler(&testing.context, [&](Diagnostic &d) {
    message += d.str();
    return success();
  });
  std::string path = file("short.fusion");
  std::remove(path.c_str());
  EXPECT_TRUE(failed(linkArtifact(*module, imageFor(*module), path, {})));
  EXPECT_NE(std::string::npos, message.find("link.data")) << message;
  EXPECT_FALSE(std::ifstream(path).good()) << "nothing is left behind";
}

} // namespace
