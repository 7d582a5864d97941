//===- ExternalDataTest.cpp - Locations of untrusted files ----------------===//

#include "Onnx/ExternalData.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace fusion;
using namespace fusion::onnxfile;
namespace fs = std::filesystem;

namespace {

struct ExternalDataTest : testing::Test {
  void SetUp() override {
    char name[] = "/tmp/external-data-XXXXXX";
    root = ::mkdtemp(name);
    fs::create_directories(root / "in" / "sub");
    fs::create_directories(root / "store");
    write(root / "outside.bin");
    write(root / "in" / "ok.bin");
    write(root / "in" / "sub" / "ok.bin");
    write(root / "in" / "model.onnx");
  }
  void TearDown() override { fs::remove_all(root); }

  static void write(const fs::path &path) {
    std::ofstream(path) << std::string(64, 'x');
  }
  Result<FileRange> resolve(const std::string &location, uint64_t bytes = 64,
                            const std::string &offset = "",
                            const std::string &length = "") {
    ExternalFiles files((root / "in" / "model.onnx").string());
    return files.resolve({location, offset, length}, bytes);
  }

  fs::path root;
};

TEST_F(ExternalDataTest, BesideTheModelAndBelow) {
  auto found = resolve("sub/ok.bin", 32, "32", "32");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->offset, 32u);
  EXPECT_EQ(found->file, (root / "in" / "sub" / "ok.bin").string());
  EXPECT_TRUE(resolve("ok.bin").ok());
}

TEST_F(ExternalDataTest, NothingLeadsOut) {
  fs::create_symlink("../outside.bin", root / "in" / "link.bin");
  fs::create_directory_symlink("..", root / "in" / "up");
  for (const char *location :
       {"/etc/passwd", "../outside.bin", "sub/../../outside.bin", "link.bin",
        "up/outside.bin", "", ".", "sub", "nothing.bin"})
    EXPECT_FALSE(resolve(location, 1).ok()) << location;
  EXPECT_FALSE(resolve(std::string("ok.bin\0x", 8)).ok());
}

TEST_F(ExternalDataTest, HardLinkAndInnerSymbolicLink) {
  fs::create_hard_link(root / "in" / "ok.bin", root / "in" / "hard.bin");
  fs::create_symlink("sub/ok.bin", root / "in" / "inner.bin");
  EXPECT_TRUE(resolve("hard.bin").ok());
  EXPECT_TRUE(resolve("inner.bin").ok());
}

TEST_F(ExternalDataTest, HubCacheOfLinks) {
  write(root / "store" / "a1");
  write(root / "store" / "b2");
  fs::remove(root / "in" / "model.onnx");
  fs::create_symlink("../store/a1", root / "in" / "model.onnx");
  fs::create_symlink("../store/b2", root / "in" / "data.bin");
  EXPECT_TRUE(resolve("data.bin").ok());
}

TEST_F(ExternalDataTest, LinkToAModelElsewhere) {
  write(root / "store" / "model.onnx");
  write(root / "store" / "data.bin");
  fs::remove(root / "in" / "model.onnx");
  fs::create_symlink("../store/model.onnx", root / "in" / "model.onnx");
  EXPECT_TRUE(resolve("data.bin").ok());
}

TEST_F(ExternalDataTest, RangesMustFit) {
  EXPECT_FALSE(resolve("ok.bin", 65).ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "1").ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "0", "63").ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "-1").ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "0x0").ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "18446744073709551615").ok());
  EXPECT_FALSE(resolve("ok.bin", 64, "99999999999999999999999").ok());
}

} // namespace
