//===- NpyTest.cpp - numpy's file format ----------------------------------===//

#include "fusion/Runtime/Npy.h"

#include "NpyHeader.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

using namespace fusion;
using artifact::DType;

namespace {

class Npy : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/fusion-npy-XXXXXX";
    folder = mkdtemp(name);
    path = folder / "a.npy";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void put(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string get() {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  /// A version 1 file with this header text.
  static std::string file(const std::string &dict, const std::string &data) {
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(dict.size() & 255);
    text += static_cast<char>(dict.size() >> 8);
    return text + dict + data;
  }
  std::filesystem::path folder, path;
};

/// What numpy 2 wrote for np.arange(6, dtype="<i2").reshape(2, 3).
const char kNumpyHeader[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': "
    "(2, 3), }                                                          \n";

TEST_F(Npy, ReadsAndWritesWhatNumpyWrites) {
  int16_t values[6] = {0, 1, 2, 3, 4, 5};
  std::string bytes(kNumpyHeader, sizeof kNumpyHeader - 1);
  ASSERT_EQ(128u, bytes.size());
  bytes.append(reinterpret_cast<char *>(values), sizeof values);
  put(bytes);
  auto tensor = readNpy(path, DType::I16);
  ASSERT_TRUE(tensor) << tensor.status().message();
  EXPECT_EQ((std::vector<int64_t>{2, 3}), tensor->shape);
  EXPECT_EQ(0, memcmp(tensor->data(), values, sizeof values));
  ASSERT_TRUE(writeNpy(path, DType::I16, {2, 3}, values));
  EXPECT_EQ(bytes, get());
}

TEST_F(Npy, EveryTypeAndRank) {
  std::mt19937 random(1);
  const std::vector<int64_t> shapes[] = {{}, {5}, {2, 3}, {0, 4}, {1, 2, 3, 4}};
  for (int t = 1; t < 25; ++t) {
    auto type = static_cast<DType>(t);
    if (bitWidth(type) == 0)
      continue;
    for (const auto &shape : shapes) {
      size_t count = 1;
      for (int64_t dim : shape)
        count *= static_cast<size_t>(dim);
      std::vector<uint8_t> data((count * bitWidth(type) + 7) / 8 + 1);
      for (uint8_t &byte : data)
        byte = static_cast<uint8_t>(random());
      if (bitWidth(type) == 4 && count % 2) // the unused half
        data[count / 2] &= 15;
      ASSERT_TRUE(writeNpy(path, type, shape, data.data()));
      auto back = readNpy(path, type);
      ASSERT_TRUE(back) << back.status().message();
      EXPECT_EQ(shape, back->shape);
      EXPECT_EQ(0, memcmp(back->data(), data.data(), data.size() - 1))
          << name(type);
    }
  }
}

TEST_F(Npy, SpellingsOfMlDtypes) {
  for (const char *descr : {"<V2", "|V2"}) {
    put(file(std::string("{'descr': '") + descr +
                 "', 'fortran_order': False, 'shape': (1,), }",
             "\x80\x3f"));
    auto tensor = readNpy(path, DType::BF16);
    ASSERT_TRUE(tensor) << tensor.status().message();
    EXPECT_EQ(0x3f80, *static_cast<const uint16_t *>(tensor->data()));
    EXPECT_FALSE(readNpy(path, DType::F16));
  }
  // int4 values 1, -2, 7, one a byte.
  put(file("{'descr': '<V1', 'fortran_order': False, 'shape': (3,), }",
           "\x01\xfe\x07"));
  auto nibbles = readNpy(path, DType::I4);
  ASSERT_TRUE(nibbles);
  EXPECT_EQ(0, memcmp(nibbles->data(), "\xe1\x07", 2));
  ASSERT_TRUE(writeNpy(path, DType::I4, {3}, nibbles->data()));
  EXPECT_EQ("\x01\xfe\x07", get().substr(get().size() - 3));
  put(file("{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }", "x"));
  EXPECT_TRUE(readNpy(path, DType::F8E5M2));
}

TEST_F(Npy, OtherHeaders) {
  std::string dict =
      "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  std::string data("\1\0\0\0\2\0\0\0", 8);
  std::string two("\x93NUMPY\x02\x00", 8), length("????", 4);
  auto size = static_cast<uint32_t>(dict.size());
  memcpy(length.data(), &size, 4);
  put(two + length + dict + data);
  EXPECT_TRUE(readNpy(path, DType::I32));
  for (const char *other :
       {"{\"shape\":(2L,),\"descr\":\"<i4\",\"fortran_order\":False}",
        "  { 'fortran_order' :False , 'shape' :( 2 , ) ,'descr':'=i4' } \n"}) {
    put(file(other, data));
    auto tensor = readNpy(path, DType::I32);
    ASSERT_TRUE(tensor) << other << tensor.status().message();
    EXPECT_EQ(2, static_cast<const int32_t *>(tensor->data())[1]);
  }
}

TEST_F(Npy, FortranOrderIsConverted) {
  // np.asfortranarray([[0, 1, 2], [3, 4, 5]], "u1")
  put(file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
           std::string("\0\3\1\4\2\5", 6)));
  auto tensor = readNpy(path, DType::U8);
  ASSERT_TRUE(tensor);
  EXPECT_EQ(0, memcmp(tensor->data(), "\0\1\2\3\4\5", 6));
}

TEST_F(Npy, Refusals) {
  const std::string data(64, '\0');
  const char *dicts[] = {
      "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
      "{'descr': 'f4', 'fortran_order': False, 'shape': (2,), }",
      "{'descr': '', 'fortran_order': False, 'shape': (2,), }",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (17,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, "
      "4611686018427387904), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': "
      "(99999999999999999999,), }",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, }",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
      "{'descr",
      "{",
      "",
      "()"};
  for (const char *dict : dicts) {
    put(file(dict, data));
    auto tensor = readNpy(path, DType::F32);
    ASSERT_FALSE(tensor) << dict;
    EXPECT_NE(std::string::npos, tensor.status().message().find("a.npy"));
  }
  put(file("{'descr': '<f4', 'fortran_order': False, 'shape': (15,), }", data));
  EXPECT_NE(std::string::npos, readNpy(path, DType::F32)
                                   .status()
                                   .message()
                                   .find("4 bytes behind the 15 elements"));
  EXPECT_FALSE(readNpy(folder / "missing.npy", DType::F32));
  EXPECT_FALSE(readNpy(folder, DType::F32));
  put("");
  EXPECT_FALSE(readNpy(path, DType::F32));
  put("PK\3\4 an npz archive");
  EXPECT_FALSE(readNpy(path, DType::F32));
}

TEST_F(Npy, NegativeSizesAreTheShapesFault) {
  put(file("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
           std::string(24, 0)));
  auto tensor = readNpy(path, DType::F32);
  ASSERT_FALSE(tensor);
  std::string message = tensor.status().message();
  EXPECT_NE(std::string::npos, message.find("shape")) << message;
  EXPECT_EQ(std::string::npos, message.find("structured")) << message;
}

TEST_F(Npy, AnyBytesAreReadWithoutACrash) {
  float values[4] = {1, 2, 3, 4};
  ASSERT_TRUE(writeNpy(path, DType::F32, {2, 2}, values));
  const std::string good = get();
  std::mt19937 random(9);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (unsigned n = random() % 4; n > 0 && !bytes.empty(); --n)
      bytes[random() % std::min<size_t>(bytes.size(), 80)] =
          static_cast<char>(random());
    auto header = parseNpyHeader(bytes);
    EXPECT_TRUE(!header || header->dataOffset <= bytes.size());
    if (i % 50 != 0)
      continue;
    put(bytes);
    (void)readNpy(path, DType::F32);
  }
}

TEST_F(Npy, WritingFails) {
  float value = 1;
  EXPECT_FALSE(writeNpy(folder / "no" / "a.npy", DType::F32, {1}, &value));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

} // namespace
