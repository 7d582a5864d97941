//===- CudaDecodeTest.cpp - Graphs, states and launches on a card ---------===//

#include "CudaModel.h"

#include "fusion/Runtime/Decoder.h"

using namespace fusion;

namespace {

const SymExpr past = SymExpr::symbol("past"), d0 = SymExpr::symbol("d0"),
              d1 = SymExpr::symbol("d1");
constexpr int64_t kCapacity = 100;

/// state[past] = x; y = sum of the state; the mask [past + 1] is only bound.
struct DecodeModel : CudaModel {
  DecodeModel() {
    model.maxContext = kCapacity;
    model.appended = 1;
    model.symbols = {
        {"past", Symbol::Source::CachedLength, 0, 0, 0, kCapacity}};
    model.inputs = {{"x", DType::F32, {1}, Role::None},
                    {"mask", DType::F32, {past + SymExpr(1)}, Role::None}};
    model.outputs = {{"y", DType::F32, {1}, Role::None}};
    model.states = {{"cache", DType::F32, {kCapacity}, 0}};
    append = cardKernel("append", 2, 1, [](const FakeLaunch &l) {
      l.as<float>(1)[l.as<int64_t>(2)[0]] = l.as<float>(0)[0];
    });
    sum = cardKernel("sum", 3, d0 + SymExpr(1), [](const FakeLaunch &l) {
      int64_t length = l.as<int64_t>(3)[0] + 1;
      float total = 0;
      for (int64_t i = 0; i < length; ++i)
        total += l.as<float>(0)[i] * l.as<float>(1)[i];
      l.as<float>(2)[0] = total;
    });
    Program &p = program("decode");
    p.maxRows = 1;
    p.launches = {
        launch(append, {{Kind::Input, 0}, {Kind::State, 0}}, {past}, 1),
        launch(sum, {{Kind::State, 0}, {Kind::Input, 1}, {Kind::Output, 0}},
               {past}, 1)};
    p.launches[1].programmatic = true;
  }
  float step(Session &s, float x) {
    mask.assign(static_cast<size_t>(s.length()) + 1, 2.0f);
    Status status = s.setInput(0, DType::F32, {1}, &x);
    if (status)
      status = s.setInput(1, DType::F32, {s.length() + 1}, mask.data());
    if (status)
      status = s.run();
    EXPECT_TRUE(status) << status.message();
    return status ? *static_cast<const float *>(s.output(0).data) : 0;
  }
  uint32_t append, sum;
  std::vector<float> mask;
};

TEST(CudaDecode, OneGraphServesEveryLength) {
  DecodeModel m;
  auto s = m.session();
  float total = 0;
  for (int i = 0; i < kCapacity; ++i) {
    total += static_cast<float>(i + 1);
    ASSERT_EQ(m.step(*s, static_cast<float>(i + 1)), 2 * total);
  }
  EXPECT_EQ(m.cuda.captures, 1u);
  EXPECT_EQ(m.cuda.replays, static_cast<uint64_t>(kCapacity));
  // One upload and one download a step.
  EXPECT_EQ(m.cuda.uploads, static_cast<uint64_t>(kCapacity));
  EXPECT_EQ(m.cuda.downloads, static_cast<uint64_t>(kCapacity));
  for (const FakeLaunch &l : m.cuda.launches)
    EXPECT_EQ(l.grid, l.name == "sum" ? kCapacity + 1 : 1);
}

TEST(CudaDecode, ResetAndTruncate) {
  DecodeModel m;
  auto s = m.session();
  m.step(*s, 5);
  m.step(*s, 6);
  ASSERT_TRUE(s->truncate(1));
  EXPECT_EQ(m.step(*s, 1), 12);
  s->reset();
  EXPECT_EQ(m.step(*s, 3), 6);
  EXPECT_EQ(m.cuda.captures, 1u);
}

TEST(CudaDecode, OnlyLaterLaunchesOverlap) {
  DecodeModel m;
  m.model.programs[0].launches[0].programmatic = true;
  auto s = m.session();
  m.step(*s, 1);
  ASSERT_EQ(m.cuda.launches.size(), 2u);
  EXPECT_FALSE(m.cuda.launches[0].programmatic); // the step's first
  EXPECT_TRUE(m.cuda.launches[1].programmatic);
  EXPECT_TRUE(m.cuda.launches[1].captured);
}

TEST(CudaDecode, AddressesThatFollowTheLength) {
  DecodeModel m;
  // The append writes through a view at the cached length instead.
  m.cuda.kernels["append"].body = [](const FakeLaunch &l) {
    l.as<float>(1)[0] = l.as<float>(0)[0];
  };
  m.model.programs[0].launches[0].args[1].buffer.byteOffset = past * SymExpr(4);
  auto s = m.session();
  float total = 0;
  for (int i = 1; i <= 20; ++i) {
    total += static_cast<float>(i);
    ASSERT_EQ(m.step(*s, static_cast<float>(i)), 2 * total);
  }
  EXPECT_EQ(m.cuda.captures, 0u);
}

TEST(CudaDecode, ProgramsOfManyRowsTakeTheirOwnLength) {
  DecodeModel m;
  m.model.programs[0].maxRows = INT64_MAX;
  auto s = m.session();
  m.step(*s, 1);
  m.step(*s, 1);
  EXPECT_EQ(m.cuda.captures, 0u);
  EXPECT_EQ(m.cuda.launches[3].grid, 2u);
}

TEST(CudaDecode, StatesOfSessionsAreTheirOwn) {
  DecodeModel m;
  auto loaded = m.tryOpen();
  ASSERT_TRUE(loaded);
  auto a = std::move(*Session::create(*loaded));
  auto b = std::move(*Session::create(*loaded));
  EXPECT_EQ(m.step(*a, 1), 2);
  EXPECT_EQ(m.step(*b, 10), 20);
  EXPECT_EQ(m.step(*a, 1), 4);
}

/// Logits that favour the successor of each token, modulo 10.
struct SuccessorModel : CudaModel {
  SuccessorModel() {
    const SymExpr seq = SymExpr::symbol("seq");
    model.maxContext = kCapacity;
    model.appended = seq;
    model.symbols = {
        {"seq", Symbol::Source::InputDim, 0, 1, 1, 64},
        {"past", Symbol::Source::CachedLength, 0, 0, 0, kCapacity}};
    model.inputs = {{"ids", DType::I64, {1, seq}, Role::TokenIds}};
    model.outputs = {{"logits", DType::F32, {1, seq, 10}, Role::Logits}};
    model.states = {{"cache", DType::F32, {kCapacity}, 0}};
    uint32_t k = cardKernel("predict", 2, 1, [](const FakeLaunch &l) {
      int64_t count = l.as<int64_t>(2)[0];
      for (int64_t i = 0; i < count * 10; ++i)
        l.as<float>(1)[i] =
            i % 10 == (l.as<int64_t>(0)[i / 10] + 1) % 10 ? 3.0f : -1.0f;
    });
    Program &p = program("main", seq);
    p.maxRows = 64;
    p.launches = {launch(k, {{Kind::Input, 0}, {Kind::Output, 0}}, {seq}, 1)};
  }
  /// The runtime's own kernel on the card, as a function of the test.
  void addArgmax() {
    for (const char *name : {"argmax_f16", "argmax_bf16"})
      cuda.kernels[name] = {3, 0, [](const FakeLaunch &) {}, {}};
    cuda.kernels["argmax_f32"] = {
        3,
        0,
        [](const FakeLaunch &l) {
          auto *row = l.as<const float>(0);
          uint64_t count = l.pointers[1];
          for (uint64_t block = 0; block < l.grid; ++block) {
            uint64_t best = 0;
            for (uint64_t i = block; i < count; i += l.grid) {
              uint32_t bits;
              memcpy(&bits, &row[i], 4);
              bits ^= bits >> 31 ? 0xffffffff : 0x80000000;
              best = std::max(best, uint64_t(bits) << 32 | (0xffffffff - i));
            }
            l.as<uint64_t>(2)[block] = best;
          }
        },
        {}};
  }
  void expectSuccessors() {
    auto s = session();
    auto decoder = Decoder::create(*s);
    ASSERT_TRUE(decoder) << decoder.status().message();
    auto token = (*decoder)->step({4, 2, 6});
    for (int64_t i = 0; i < 12; ++i) {
      ASSERT_TRUE(token) << token.status().message();
      EXPECT_EQ(*token, (7 + i) % 10);
      token = (*decoder)->step({*token});
    }
  }
};

TEST(CudaDecode, ChoosesOnTheCard) {
  SuccessorModel m;
  m.addArgmax();
  m.expectSuccessors();
  EXPECT_EQ(m.cuda.captures, 2u); // three tokens, and one
  EXPECT_EQ(m.cuda.launches.back().name, "argmax_f32");
  EXPECT_EQ(m.cuda.launches.back().pointers[1], 10u);
  EXPECT_EQ(m.cuda.downloads, 13u);
}

// A program of many launches has status words where one of few has its answer.
TEST(CudaDecode, AnswersLieBehindEveryStatusWord) {
  SuccessorModel m;
  m.addArgmax();
  Program decode = m.model.programs.front();
  decode.name = "decode";
  decode.maxRows = 1;
  decode.launches.resize(100, decode.launches.front());
  m.model.programs.insert(m.model.programs.begin(), decode);
  auto s = m.session();
  auto decoder = Decoder::create(*s);
  ASSERT_TRUE(decoder) << decoder.status().message();
  for (std::vector<int64_t> tokens : {std::vector<int64_t>{4}, {2, 6}, {8}}) {
    auto next = (*decoder)->step(tokens);
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_EQ(*next, (tokens.back() + 1) % 10);
  }
}

TEST(CudaDecode, ChoosesWithoutACompilerForPtx) {
  SuccessorModel m;
  m.expectSuccessors();
  EXPECT_EQ(m.cuda.launches.back().name, "predict");
}

TEST(CudaLaunch, WorkspaceAndCounters) {
  CudaModel m;
  m.model.inputs = {{"x", DType::F32, {4}, Role::None}};
  m.model.outputs = {{"y", DType::F32, {4}, Role::None}};
  std::vector<uint64_t> workspaces;
  std::vector<int64_t> counts;
  // Parameters: operand, result, workspace, counters, sizes.
  auto body = [&](const FakeLaunch &l) {
    workspaces.push_back(l.pointers[2]);
    memset(l.as<char>(2), 1, l.name == "small" ? 100 : 5000);
    counts.push_back(++*l.as<int64_t>(3));
  };
  uint32_t small = m.cardKernel("small", 4, 1, body),
           large = m.cardKernel("large", 4, 1, body);
  m.code(small).workspaceBytes = 100;
  m.code(large).workspaceBytes = 5000;
  m.code(small).counterBytes = m.code(large).counterBytes = 8;
  Program &p = m.program("main");
  for (uint32_t kernel : {small, large, small})
    p.launches.push_back(TestModel::launch(
        kernel, {{Kind::Input, 0}, {Kind::Output, 0}}, {}, 1));
  auto s = m.session();
  float x[4] = {};
  ASSERT_TRUE(s->setInput(0, DType::F32, {4}, x));
  ASSERT_TRUE(s->run() && s->run());
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 1, 1, 2, 2, 2}));
  for (uint64_t workspace : workspaces)
    EXPECT_EQ(workspace, workspaces[0]);
  ASSERT_EQ(m.cuda.allocations.count(workspaces[0]), 1u);
  EXPECT_GE(m.cuda.allocations[workspaces[0]], 5000u);
}

TEST(CudaLaunch, StagesInOrder) {
  CudaModel m;
  m.model.inputs = {{"x", DType::F32, {4}, Role::None}};
  m.model.outputs = {{"y", DType::F32, {4}, Role::None}};
  uint32_t k = m.cardKernel("two", 2, 4, [](const FakeLaunch &) {});
  CardStage second = m.stage(k);
  second.symbol = "two_1";
  second.grid = d0 * d1;
  second.cluster = 4;
  second.threads = 128;
  second.sharedBytes = 100 * 1024;
  m.code(k).stages.push_back(second);
  m.cuda.kernels["two_1"] = m.cuda.kernels["two"];
  m.program("main").launches = {
      TestModel::launch(k, {{Kind::Input, 0}, {Kind::Output, 0}}, {2, 6}, 1)};
  auto s = m.session();
  float x[4] = {};
  ASSERT_TRUE(s->setInput(0, DType::F32, {4}, x));
  ASSERT_TRUE(s->run());
  ASSERT_EQ(m.cuda.launches.size(), 2u);
  EXPECT_EQ(m.cuda.launches[0].name, "two");
  const FakeLaunch &l = m.cuda.launches[1];
  EXPECT_EQ(l.name, "two_1");
  EXPECT_EQ(l.grid, 12u);
  EXPECT_EQ(l.cluster, 4u);
  EXPECT_EQ(l.threads, 128u);
  EXPECT_EQ(l.sharedBytes, 100u * 1024);
  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  EXPECT_EQ(m.cuda.kernels["two_1"].attributes[8], 100 * 1024);
  EXPECT_TRUE(m.cuda.kernels["two"].attributes.empty());
}

/// Carve-outs of two launches with so much shared memory.
static std::vector<uint32_t> carveouts(uint32_t first, uint32_t second) {
  CudaModel m;
  m.model.inputs = {{"x", DType::F32, {4}, Role::None}};
  m.model.outputs = {{"y", DType::F32, {4}, Role::None}};
  uint32_t k = m.cardKernel("two", 2, 4, [](const FakeLaunch &) {});
  m.code(k).stages[0].sharedBytes = first;
  CardStage stage = m.stage(k);
  stage.symbol = "two_1";
  stage.sharedBytes = second;
  m.code(k).stages.push_back(stage);
  m.cuda.kernels["two_1"] = m.cuda.kernels["two"];
  m.program("main").launches = {
      TestModel::launch(k, {{Kind::Input, 0}, {Kind::Output, 0}}, {2, 6}, 1)};
  auto s = m.session();
  float x[4] = {};
  EXPECT_TRUE(s->setInput(0, DType::F32, {4}, x));
  EXPECT_TRUE(s->run());
  std::vector<uint32_t> found;
  for (const FakeLaunch &l : m.cuda.launches)
    found.push_back(l.carveout);
  return found;
}

/// Launches leave room for loads where all of them fit what is left: two
/// blocks of half a multiprocessor, or a larger one.
TEST(CudaLaunch, SharedMemoryInEqualShares) {
  using Shares = std::vector<uint32_t>;
  constexpr uint32_t kKiB = 1024;
  EXPECT_EQ(carveouts(96 * kKiB, 190 * kKiB), (Shares{85, 85}));
  EXPECT_EQ(carveouts(96 * kKiB, 1 * kKiB), (Shares{85, 0}));
  EXPECT_EQ(carveouts(96 * kKiB, 108 * kKiB), (Shares{0, 0}));
  EXPECT_EQ(carveouts(96 * kKiB, 220 * kKiB), (Shares{0, 0}));
}

/// One map over each of operand, result and workspace.
struct MapModel : CudaModel {
  MapModel() {
    model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 1, 100}};
    model.inputs = {{"x", DType::F16, {n, 64}, Role::None}};
    model.outputs = {{"y", DType::F16, {n, 64}, Role::None}};
    kernel = cardKernel("maps", 3, 1, [](const FakeLaunch &) {});
    cuda.kernels["maps"].maps = 2;
    code(kernel).workspaceBytes = d0 * SymExpr(256);
    artifact::TensorMap map;
    map.argument = 0;
    map.type = DType::F16;
    map.byteOffset = 32;
    map.dims = {48, d0};
    map.strides = {128};
    map.box = {16, 8};
    map.swizzle = 32;
    stage(kernel).maps.push_back(map);
    map.argument = 2;
    map.type = DType::F32;
    map.byteOffset = 0;
    map.dims = {64, d0, 1};
    map.strides = {256, d0 * SymExpr(256)};
    map.box = {32, 4, 1};
    map.swizzle = 128;
    stage(kernel).maps.push_back(map);
    program("main", n).launches = {
        launch(kernel, {{Kind::Input, 0}, {Kind::Output, 0}}, {n}, 1)};
  }
  Status run(Session &s) {
    if (Status set = s.setInput(0, DType::F16, {10, 64}, x); !set)
      return set;
    return s.run();
  }
  const SymExpr n = SymExpr::symbol("n");
  uint32_t kernel;
  uint16_t x[640] = {};
};

TEST(CudaLaunch, TensorMaps) {
  MapModel m;
  auto s = m.session();
  ASSERT_TRUE(m.run(*s));
  ASSERT_EQ(m.cuda.maps.size(), 2u);
  const FakeLaunch &l = m.cuda.launches[0];
  const FakeMap &a = m.cuda.maps[l.maps[0]], &b = m.cuda.maps[l.maps[1]];
  EXPECT_EQ(a.type, 6); // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
  EXPECT_EQ(a.address, l.pointers[0] + 32);
  EXPECT_EQ(a.dims, (std::vector<uint64_t>{48, 10}));
  EXPECT_EQ(a.strides, (std::vector<uint64_t>{128}));
  EXPECT_EQ(a.box, (std::vector<uint32_t>{16, 8}));
  EXPECT_EQ(a.steps, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(a.swizzle, 1); // CU_TENSOR_MAP_SWIZZLE_32B
  EXPECT_EQ(a.interleave, 0);
  EXPECT_EQ(b.type, 7);                // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
  EXPECT_EQ(b.address, l.pointers[2]); // the workspace
  EXPECT_EQ(b.dims, (std::vector<uint64_t>{64, 10, 1}));
  EXPECT_EQ(b.strides, (std::vector<uint64_t>{256, 2560}));
  EXPECT_EQ(b.swizzle, 3);
}

TEST(CudaLaunch, RefusedMapsAndGrids) {
  MapModel m;
  m.cuda.encodeCode = 1;
  auto s = m.session();
  std::string text = m.run(*s).message();
  EXPECT_NE(text.find("kernel 'maps' needs a tensor map that the driver "
                      "refuses: f16 48 (box 16) x 10 (box 8, stride 128)"),
            std::string::npos)
      << text;
  s.reset();
  m.cuda.encodeCode = 0;
  m.stage(m.kernel).cluster = 2;
  m.stage(m.kernel).grid = 3;
  s = m.session();
  text = m.run(*s).message();
  EXPECT_NE(text.find("a grid of 3 blocks in clusters of 2"), std::string::npos)
      << text;
}

TEST(CudaLaunch, EmptyGridsAreSkipped) {
  MapModel m;
  m.stage(m.kernel).grid = d0 - SymExpr(10);
  auto s = m.session();
  ASSERT_TRUE(m.run(*s) && m.run(*s));
  EXPECT_TRUE(m.cuda.launches.empty());
}

} // namespace
