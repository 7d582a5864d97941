//===- EncodingTest.cpp - A Model as bytes --------------------------------===//

#include "fusion/Artifact/Encoding.h"
#include "fusion/Artifact/Dump.h"

#include "SampleModel.h"

#include <gtest/gtest.h>
#include <random>

using namespace fusion;
using namespace fusion::artifact;

namespace {

/// The sample with offsets as a writer would set them.
Model placed() {
  Model m = sampleModel();
  m.images[0].bytes = 100;
  m.images[1] = {KernelCode::Target::Sm90a, 4096, 10};
  m.weights[1].offset = 256;
  return m;
}
constexpr uint64_t kCode = 4106, kWeights = 356;

TEST(Encoding, RoundTrip) {
  Model m = placed();
  std::string bytes = encodeModel(m);
  auto decoded = decodeModel(bytes, kCode, kWeights);
  ASSERT_TRUE(decoded) << decoded.status().message();
  EXPECT_EQ(bytes, encodeModel(*decoded));
  EXPECT_EQ(dumpModel(m), dumpModel(*decoded));
  // Fields that the dump leaves out.
  EXPECT_EQ("{}", decoded->explain);
  const Launch &l = decoded->programs[0].launches[1];
  EXPECT_EQ(CacheHint::EvictFirst, l.args[0].hint);
  EXPECT_EQ(Invariance::All, l.args[0].invariance);
  EXPECT_TRUE(l.programmatic);
  const CardStage &stage = decoded->kernels[0].code[1].stages.at(0);
  EXPECT_EQ(65536u, stage.sharedBytes);
  EXPECT_EQ(128u, stage.maps.at(0).swizzle);
}

TEST(Encoding, ExtremeNumbers) {
  Model m = placed();
  m.symbols[0].lower = INT64_MIN;
  m.symbols[0].upper = INT64_MAX;
  m.states[0].lengthAxis = -1;
  auto decoded = decodeModel(encodeModel(m), kCode, kWeights);
  ASSERT_TRUE(decoded) << decoded.status().message();
  EXPECT_EQ(INT64_MIN, decoded->symbols[0].lower);
  EXPECT_EQ(INT64_MAX, decoded->symbols[0].upper);
  EXPECT_EQ(-1, decoded->states[0].lengthAxis);
}

TEST(Encoding, EveryPrefixIsRefused) {
  std::string bytes = encodeModel(placed());
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decodeModel(bytes.substr(0, n), kCode, kWeights)) << n;
  EXPECT_FALSE(decodeModel(bytes + '\0', kCode, kWeights));
}

TEST(Encoding, AnyBytesAreReadWithoutACrash) {
  std::string bytes = encodeModel(placed());
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string altered = bytes;
    for (unsigned n = random() % 4 + 1; n > 0; --n)
      altered[random() % altered.size()] = static_cast<char>(random());
    auto decoded = decodeModel(altered, kCode, kWeights);
    if (decoded)
      dumpModel(*decoded);
    else
      EXPECT_NE(std::string::npos, decoded.status().message().find("corrupt"));
  }
  for (int round = 0; round < 2000; ++round) {
    std::string noise(random() % 300, '\0');
    for (char &c : noise)
      c = static_cast<char>(random() % 7 ? random() % 8 : random());
    (void)decodeModel(noise, kCode, kWeights);
  }
}

/// Each change makes one thing wrong; the message says which.
struct Fault {
  const char *message;
  void (*make)(Model &);
};

const Fault kFaults[] = {
    {"is no identifier", [](Model &m) { m.symbols[0].name = "a b"; }},
    {"declared twice", [](Model &m) { m.symbols[1].name = "seq"; }},
    {"empty range", [](Model &m) { m.symbols[0].lower = 9999; }},
    {"not there", [](Model &m) { m.symbols[0].axis = 2; }},
    {"input 'ids' has an unknown symbol",
     [](Model &m) { m.inputs[0].shape[0] = SymExpr::symbol("zz"); }},
    {"unknown element type",
     [](Model &m) { m.outputs[0].type = static_cast<DType>(8); }},
    {"no such axis", [](Model &m) { m.states[0].lengthAxis = 3; }},
    {"weight 'w' is not aligned", [](Model &m) { m.weights[0].offset = 8; }},
    {"weight 'q' lies outside", [](Model &m) { m.weights[1].bytes = 101; }},
    {"weight 'q' lies outside",
     [](Model &m) { m.weights[1].bytes = UINT64_MAX; }},
    {"another size", [](Model &m) { m.weights[0].bytes = 252; }},
    {"impossible shape", [](Model &m) { m.weights[1].shape = {-1}; }},
    {"impossible shape",
     [](Model &m) { m.weights[1].shape = {1ll << 40, 1ll << 40}; }},
    {"image lies outside", [](Model &m) { m.images[1].offset = 8192; }},
    {"starts outside", [](Model &m) { m.kernels[0].code[0].entry = 100; }},
    {"has no image", [](Model &m) { m.kernels[0].code[0].image = 1; }},
    {"no such kernel", [](Model &m) { m.programs[0].launches[0].kernel = 1; }},
    {"launch 1: no such buffer",
     [](Model &m) { m.programs[0].launches[1].args[2].buffer.index = 2; }},
    {"impossible size or life",
     [](Model &m) { m.programs[0].buffers[0].lastUse = 2; }},
    {"fixes an unknown symbol",
     [](Model &m) { m.programs[0].fixed[0].first = "zz"; }},
};

TEST(Encoding, FaultsAreNamed) {
  ASSERT_TRUE(validateModel(placed(), kCode, kWeights));
  for (const Fault &fault : kFaults) {
    Model m = placed();
    fault.make(m);
    auto decoded = decodeModel(encodeModel(m), kCode, kWeights);
    ASSERT_FALSE(decoded) << fault.message;
    EXPECT_NE(std::string::npos, decoded.status().message().find(fault.message))
        << decoded.status().message();
  }
}

} // namespace
