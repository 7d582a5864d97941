//===- FileTest.cpp - Writing and mapping .fusion files -------------------===//

#include "fusion/Artifact/Encoding.h"
#include "fusion/Artifact/Reader.h"
#include "fusion/Artifact/Writer.h"

#include "SampleModel.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <regex>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion;
using namespace fusion::artifact;
namespace fs = std::filesystem;

namespace {

class File : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/fusion-artifact-XXXXXX";
    folder = mkdtemp(name);
    path = folder / "m.fusion";
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Byte i of weight w is i * 7 + w.
  static Status source(const Model &m, size_t w, ByteSink &sink) {
    for (uint64_t i = 0; i < m.weights[w].bytes; ++i) {
      auto byte = static_cast<uint8_t>(i * 7 + w);
      if (Status s = sink.write(&byte, 1); !s)
        return s;
    }
    return {};
  }
  Status write(const fs::path &to, const Model &m) {
    return writeArtifact(
        to, m, {image, "cubin"},
        [&](size_t w, ByteSink &sink) { return source(m, w, sink); });
  }
  static std::string bytesOf(const fs::path &file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  /// Flips one bit in the file, expects a refusal, and flips it back.
  void refuseFlip(size_t at, int bit) {
    std::fstream f(folder / "bad.fusion",
                   std::ios::binary | std::ios::in | std::ios::out);
    auto flip = [&] {
      f.seekg(static_cast<std::streamoff>(at));
      int byte = f.get() ^ 1 << bit;
      f.seekp(static_cast<std::streamoff>(at));
      f.put(static_cast<char>(byte));
      f.flush();
    };
    flip();
    expectRefusal("flip at " + std::to_string(at));
    flip();
  }
  /// Writes `bytes` and expects that they are refused.
  void refuse(const std::string &bytes, const std::string &what) {
    fs::path bad = folder / "bad.fusion";
    std::ofstream(bad, std::ios::binary) << bytes;
    expectRefusal(what);
  }
  /// Of bad.fusion, by an error that names the file and the kind of fault.
  void expectRefusal(const std::string &what) {
    auto opened = Artifact::open(folder / "bad.fusion", 2);
    ASSERT_FALSE(opened) << what;
    const std::string &message = opened.status().message();
    EXPECT_TRUE(std::regex_search(
        message, std::regex("checksum|truncated|corrupt|not a fusion "
                            "artifact|version")))
        << what << ": " << message;
    EXPECT_NE(std::string::npos, message.find("bad.fusion")) << message;
  }

  fs::path folder, path;
  std::string image = std::string(5000, 'c');
};

TEST_F(File, HoldsWhatWasWritten) {
  Model m = sampleModel();
  ASSERT_TRUE(write(path, m));
  auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact) << artifact.status().message();
  const Artifact &a = **artifact;
  EXPECT_EQ("sample", a.model().name);
  EXPECT_EQ(0, memcmp(a.image(0), image.data(), image.size()));
  EXPECT_EQ(0, memcmp(a.image(1), "cubin", 5));
  EXPECT_EQ(0u, a.imageFileOffset(1) % 4096);
  for (uint32_t w = 0; w < 2; ++w) {
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(a.weight(w)) % 64);
    for (uint64_t i = 0; i < a.model().weights[w].bytes; ++i)
      ASSERT_EQ(static_cast<uint8_t>(i * 7 + w), a.weight(w)[i]);
  }
}

TEST_F(File, EqualModelsGiveEqualBytes) {
  ASSERT_TRUE(write(path, sampleModel()));
  ASSERT_TRUE(write(folder / "again", sampleModel()));
  EXPECT_EQ(bytesOf(path), bytesOf(folder / "again"));
  EXPECT_EQ(fs::file_size(path), bytesOf(path).size());
}

TEST_F(File, ManyChunks) {
  Model m = sampleModel();
  m.weights[1].bytes = (9 << 20) + 3;
  ASSERT_TRUE(write(path, m));
  auto artifact = Artifact::open(path, 3);
  ASSERT_TRUE(artifact) << artifact.status().message();
  EXPECT_EQ(static_cast<uint8_t>(((9 << 20) + 2) * 7 + 1),
            (*artifact)->weight(1)[(9 << 20) + 2]);
  std::string bytes = bytesOf(path);
  for (size_t at : {size_t(5 << 20), bytes.size() - 1, bytes.size() / 2}) {
    std::string altered = bytes;
    altered[at] = static_cast<char>(altered[at] ^ 4);
    refuse(altered, "flip at " + std::to_string(at));
  }
}

TEST_F(File, EveryFlippedHeaderByteIsFound) {
  ASSERT_TRUE(write(folder / "bad.fusion", sampleModel()));
  for (size_t i = 0; i < 4096 && !HasFailure(); ++i)
    refuseFlip(i, i % 8);
}

TEST_F(File, RandomFlipsAndTruncationsAreFound) {
  ASSERT_TRUE(write(path, sampleModel()));
  std::string bytes = bytesOf(path);
  fs::copy_file(path, folder / "bad.fusion");
  std::mt19937 random(3);
  for (int i = 0; i < 1500 && !HasFailure(); ++i)
    refuseFlip(random() % bytes.size(), random() % 8);
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    size_t n = i < 20 ? i : random() % bytes.size();
    refuse(bytes.substr(0, n), "cut to " + std::to_string(n));
  }
  refuse(bytes + "x", "one byte more");
  refuse("<html>no model</html>", "another file");
  refuse(std::string(10000, '\0'), "zeros");
}

TEST_F(File, OpeningWhatIsNoFile) {
  EXPECT_FALSE(Artifact::open(folder / "missing"));
  EXPECT_FALSE(Artifact::open(folder));
}

TEST_F(File, NothingIsLeftOfAFailure) {
  Model m = sampleModel();
  auto fail = [](size_t, ByteSink &) {
    return Status(StatusCode::Failed, "no weight");
  };
  Status s = writeArtifact(path, m, {image, "cubin"}, fail);
  EXPECT_EQ("no weight", s.message());
  auto tooMuch = [](size_t, ByteSink &sink) {
    return sink.write(std::string(300, 'x').data(), 300);
  };
  EXPECT_FALSE(writeArtifact(path, m, {image, "cubin"}, tooMuch));
  auto tooLittle = [](size_t, ByteSink &) { return Status(); };
  EXPECT_FALSE(writeArtifact(path, m, {image, "cubin"}, tooLittle));
  m.programs[0].launches[0].kernel = 5;
  EXPECT_FALSE(write(path, m));
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_FALSE(write(folder / "no" / "folder", sampleModel()));
}

TEST_F(File, WhatCouldNotBeReadIsNotWritten) {
  Model m = sampleModel();
  SymExpr size = SymExpr::parse(m.symbols[0].name).value_or(SymExpr(1));
  SymExpr nested = size;
  for (int i = 2; i < 400; ++i)
    nested = *SymExpr::mod(nested + size, SymExpr(i * 1000003));
  m.inputs[0].shape[0] = nested;
  Status status = write(path, m);
  EXPECT_FALSE(status);
  EXPECT_NE(status.message().find("a size expression is too long"),
            std::string::npos)
      << status.message();
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(File, AFailureKeepsTheOldFile) {
  std::ofstream(path) << "old";
  auto fail = [](size_t, ByteSink &) {
    return Status(StatusCode::Failed, "no weight");
  };
  EXPECT_FALSE(writeArtifact(path, sampleModel(), {image, "cubin"}, fail));
  EXPECT_EQ("old", bytesOf(path));
  ASSERT_TRUE(write(path, sampleModel()));
  EXPECT_TRUE(Artifact::open(path));
}

TEST_F(File, IsReadableLikeAnyOtherFile) {
  mode_t old = umask(022);
  ASSERT_TRUE(write(path, sampleModel()));
  umask(old);
  struct stat info;
  ASSERT_EQ(0, stat(path.c_str(), &info));
  EXPECT_EQ(0644u, info.st_mode & 0777);
}

} // namespace
