//===- CudaTest.cpp - Running an artifact on a card -----------------------===//

#include "CudaModel.h"

#include <algorithm>
#include <thread>

using namespace fusion;
using testing::Test;

namespace {

const SymExpr n = SymExpr::symbol("n"), past = SymExpr::symbol("past"),
              d0 = SymExpr::symbol("d0");

SymExpr blocks(const SymExpr &elements, int64_t each) {
  return *SymExpr::floorDiv(elements + SymExpr(each - 1), SymExpr(each));
}

bool contains(const std::string &text, const std::string &part) {
  if (text.find(part) != std::string::npos)
    return true;
  ADD_FAILURE() << "expected '" << part << "' in: " << text;
  return false;
}

/// y = x * w + n over [n, 4], with the product in the arena.
struct ScaleModel : CudaModel {
  ScaleModel() {
    model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 1, 1000}};
    model.inputs = {{"x", DType::F32, {n, 4}, Role::None}};
    model.outputs = {{"y", DType::F32, {n, 4}, Role::None}};
    weight("w", {1, 2, 3, 4});
    scale = cardKernel(
        "scale", 3, blocks(d0 * SymExpr(4), 256), [](const FakeLaunch &l) {
          const int64_t *sizes = l.as<int64_t>(3);
          for (int64_t i = 0; i < sizes[0] * 4; ++i)
            l.as<float>(2)[i] = l.as<float>(0)[i] * l.as<float>(1)[i % 4];
        });
    add = cardKernel("add", 2, blocks(d0 * SymExpr(4), 256),
                     [this](const FakeLaunch &l) {
                       const int64_t *sizes = l.as<int64_t>(2);
                       for (int64_t i = 0; i < sizes[0] * 4; ++i)
                         l.as<float>(1)[i] =
                             l.as<float>(0)[i] + static_cast<float>(sizes[0]);
                       runs.push_back(sizes[1]);
                       *reinterpret_cast<int32_t *>(sizes[2]) = status;
                     });
    Program &p = program("main", n);
    p.buffers = {{n * SymExpr(16), 0, 1, "product", DType::F32}};
    p.launches = {
        launch(scale, {{Kind::Input, 0}, {Kind::Weight, 0}, {Kind::Arena, 0}},
               {n}, 1),
        launch(add, {{Kind::Arena, 0}, {Kind::Output, 0}}, {n}, 1)};
    p.launches[1].site = "/add";
  }

  Status run(Session &s, int64_t rows, const RunOptions &options = {}) {
    x.resize(static_cast<size_t>(rows) * 4);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 7) - 3;
    if (Status set = s.setInput(0, DType::F32, {rows, 4}, x.data()); !set)
      return set;
    return s.run(options);
  }
  void expectRight(Session &s) {
    auto *y = static_cast<const float *>(s.output(0).data);
    size_t rows = x.size() / 4;
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i],
                x[i] * static_cast<float>(i % 4 + 1) + static_cast<float>(rows))
          << "element " << i;
  }

  uint32_t scale, add;
  int32_t status = 0;
  std::vector<float> x;
  std::vector<int64_t> runs;
};

TEST(Cuda, Runs) {
  ScaleModel m;
  auto s = m.session();
  ASSERT_TRUE(s);
  for (int64_t rows : {3, 1000, 3, 70}) {
    Status status = m.run(*s, rows);
    ASSERT_TRUE(status) << status.message();
    m.expectRight(*s);
  }
  EXPECT_EQ(m.runs, (std::vector<int64_t>{1, 2, 3, 4}));
  ASSERT_EQ(m.cuda.launches.size(), 8u);
  EXPECT_EQ(m.cuda.launches[2].name, "scale");
  EXPECT_EQ(m.cuda.launches[2].grid, 16u); // ceil(4000 / 256)
  EXPECT_EQ(m.cuda.launches[0].grid, 1u);
  EXPECT_EQ(m.cuda.launches[0].threads, 256u);
}

TEST(Cuda, FreesEverything) {
  ScaleModel m;
  auto first = m.session();
  ASSERT_TRUE(first);
  auto second = std::move(*Session::create(
      std::shared_ptr<const LoadedModel>(&first->loaded(), [](auto *) {})));
  ASSERT_TRUE(m.run(*first, 5) && m.run(*first, 5) && m.run(*second, 6));
  second.reset();
  EXPECT_FALSE(m.cuda.isClean());
  first.reset(); // the destructor of the model checks that nothing is left
}

TEST(Cuda, CapturesWhatComesAgain) {
  ScaleModel m;
  auto s = m.session();
  ASSERT_TRUE(m.run(*s, 9) && m.run(*s, 8));
  EXPECT_EQ(m.cuda.captures, 0u);
  ASSERT_TRUE(m.run(*s, 8) && m.run(*s, 8) && m.run(*s, 8));
  EXPECT_EQ(m.cuda.captures, 1u);
  EXPECT_EQ(m.cuda.replays, 3u);
  m.expectRight(*s);
  RunOptions off;
  off.graphs = false;
  ASSERT_TRUE(m.run(*s, 8, off));
  EXPECT_EQ(m.cuda.replays, 3u);
  m.expectRight(*s);
}

TEST(Cuda, EvictsWhatWasUsedLongAgo) {
  ScaleModel m;
  auto s = m.session();
  ASSERT_TRUE(m.run(*s, 1000)); // nothing has to grow later
  for (int64_t rows = 1; rows <= 100; ++rows)
    ASSERT_TRUE(m.run(*s, rows) && m.run(*s, rows));
  EXPECT_EQ(m.cuda.captures, 100u);
  EXPECT_LT(m.cuda.objects.size(), 40u); // 32 graphs, stream, events, module
  ASSERT_TRUE(m.run(*s, 100));
  EXPECT_EQ(m.cuda.captures, 100u);
  m.expectRight(*s);
}

TEST(Cuda, StatusWords) {
  ScaleModel m;
  auto s = m.session();
  m.status = kHostIndexOutOfRange;
  Status failed = m.run(*s, 4);
  EXPECT_EQ(failed.code(), StatusCode::InvalidInput);
  contains(failed.message(),
           "kernel 'add' at '/add': an index is out of range");
  m.status = kHostDivisionByZero;
  contains(m.run(*s, 4).message(), "integer division by zero");
  m.status = 0;
  ASSERT_TRUE(m.run(*s, 4));
  m.expectRight(*s);
}

TEST(Cuda, FailuresWhileOpening) {
  ScaleModel m;
  auto reason = [&](const std::string &driver = FUSION_FAKE_CUDA,
                    int32_t card = 0) {
    auto loaded = m.tryOpen(driver, card);
    EXPECT_FALSE(loaded.ok());
    std::string text = loaded.status().message();
    contains(text, m.path());
    EXPECT_TRUE(m.cuda.isClean()) << text;
    return text;
  };
  contains(reason("/nowhere/libcuda.so.1"), "there is no NVIDIA driver");
  contains(reason("libc.so.6"), "too old: it has no cuInit");
  m.cuda.initCode = 100;
  contains(reason(), "finds no device");
  m.cuda.initCode = 999;
  contains(reason(), "the fake driver's text (CUDA error 999)");
  m.cuda.initCode = 0;
  m.cuda.devices = 0;
  contains(reason(), "finds no device");
  m.cuda.devices = 2;
  contains(reason(FUSION_FAKE_CUDA, 2), "no card number 2");
  m.cuda.major = 8;
  contains(reason(), "sm_90a, and 'Fake card' is sm_80");
  m.cuda.major = 9;
  m.cuda.moduleCode = 222;
  contains(reason(), "a newer driver may");
  m.cuda.moduleCode = 0;
  m.cuda.memory = 8;
  contains(reason(), "no memory on the card for the weights");
  m.cuda.memory = UINT64_MAX;
  m.cuda.kernels.erase("scale");
  contains(reason(), "kernel 'scale', function 'scale'");
  m.model.programs[0].device = Program::Device::Host;
  contains(reason(), "holds no code for a card");
}

TEST(Cuda, WeightsAreCheckedWhileTheyAreCopied) {
  ScaleModel m;
  // Several chunks of 4 MiB; the kernel reads the last of it.
  std::vector<float> values(5 << 20);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 4 + 1);
  m.weights[0] = values;
  m.model.weights[0].shape = {static_cast<int64_t>(values.size())};
  m.model.weights[0].bytes = values.size() * 4;
  m.model.programs[0].launches[0].args[1].buffer.byteOffset =
      SymExpr(static_cast<int64_t>(values.size() * 4 - 16));
  {
    auto s = m.session();
    ASSERT_TRUE(s);
    ASSERT_TRUE(m.run(*s, 10));
    m.expectRight(*s);
  }
  uint64_t bytes = std::filesystem::file_size(m.path());
  FILE *file = fopen(m.path().c_str(), "r+b");
  fseek(file, static_cast<long>(bytes / 2), SEEK_SET);
  fputc(0x77, file);
  fclose(file);
  auto loaded =
      LoadedModel::open(m.path(), Device::Cuda, 1, {FUSION_FAKE_CUDA, 0});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.status().code(), StatusCode::BadArtifact);
  contains(loaded.status().message(), "do not match their checksum");
}

TEST(Cuda, FailuresOfRuns) {
  ScaleModel m;
  auto s = m.session();
  m.cuda.memory = 4096;
  Status failed = m.run(*s, 1000);
  EXPECT_EQ(failed.code(), StatusCode::Failed);
  contains(failed.message(),
           "no memory on the card for the arena (16000 bytes");
  m.cuda.memory = UINT64_MAX;
  ASSERT_TRUE(m.run(*s, 1000));
  m.expectRight(*s);
  m.cuda.launchCode = 701;
  contains(m.run(*s, 3).message(), "kernel 'scale' does not start");
  m.cuda.launchCode = 0;
  m.cuda.syncCode = 700;
  contains(m.run(*s, 3).message(), "program 'main' failed on the card");
  Profile profile;
  RunOptions watched;
  watched.profile = &profile;
  contains(m.run(*s, 3, watched).message(), "kernel 'scale' failed");
  m.cuda.syncCode = 0;
  ASSERT_TRUE(m.run(*s, 3));
  m.expectRight(*s);
}

TEST(Cuda, KernelWithoutCode) {
  ScaleModel m;
  m.model.kernels[m.add].code.clear();
  auto s = m.session();
  Status failed = m.run(*s, 3);
  EXPECT_EQ(failed.code(), StatusCode::BadArtifact);
  contains(failed.message(), "kernel 'add' at '/add' (test) has no code for "
                             "the card");
}

TEST(Cuda, ProfileAndObserver) {
  struct Values : Observer {
    void completed(uint32_t buffer, const uint8_t *data,
                   uint64_t bytes) override {
      EXPECT_EQ(buffer, 0u);
      value.resize(bytes / 4);
      memcpy(value.data(), data, bytes);
    }
    std::vector<float> value;
  } values;
  ScaleModel m;
  auto s = m.session();
  Profile profile;
  RunOptions options;
  options.profile = &profile;
  options.observer = &values;
  ASSERT_TRUE(m.run(*s, 2, options));
  ASSERT_EQ(values.value.size(), 8u);
  EXPECT_EQ(values.value[3], m.x[3] * 4);
  ASSERT_EQ(profile.events.size(), 2u);
  EXPECT_EQ(profile.events[1].endNs - profile.events[1].beginNs, 250000);
  EXPECT_EQ(profile.runs, 1u);
  double seconds = 0;
  RunOptions timed;
  timed.deviceSeconds = &seconds;
  ASSERT_TRUE(m.run(*s, 2, timed));
  EXPECT_EQ(seconds, 0.25e-3);
}

TEST(Cuda, MemoryOfTheCard) {
  ScaleModel m;
  auto s = m.session();
  ASSERT_TRUE(m.run(*s, 6));
  std::vector<float> in = m.x, out(24), other(24);
  // Host memory stands for the card's; copies of it would fail.
  ASSERT_TRUE(s->setInput(0, DType::F32, {6, 4}, in.data(), Device::Cuda));
  ASSERT_TRUE(s->setOutput(0, out.data(), 96, Device::Cuda));
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(s->run());
  EXPECT_EQ(s->output(0).memory, Device::Cuda);
  EXPECT_EQ(s->output(0).data, out.data());
  EXPECT_EQ(m.cuda.captures, 1u);
  ASSERT_TRUE(s->setOutput(0, other.data(), 96, Device::Cuda));
  ASSERT_TRUE(s->run());
  EXPECT_EQ(out, other);
  ASSERT_TRUE(s->setOutput(0, nullptr, 0));
  ASSERT_TRUE(s->run());
  m.expectRight(*s);
}

TEST(Cuda, MemoryOfTheCardBetweenPieces) {
  ScaleModel m;
  auto s = m.session();
  ASSERT_TRUE(m.run(*s, 6));
  std::vector<float> in(25), out(26, -1.0f);
  std::copy(m.x.begin(), m.x.end(), in.begin() + 1);
  ASSERT_TRUE(s->setInput(0, DType::F32, {6, 4}, in.data() + 1, Device::Cuda));
  ASSERT_TRUE(s->setOutput(0, out.data() + 1, 96, Device::Cuda));
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(s->run());
    EXPECT_EQ(m.cuda.copies, 2 * i);
    // No kernel sees where the caller's tensors lie.
    EXPECT_EQ(m.cuda.launches.back().pointers[1] % 16, 0u);
    m.expectRight(*s);
    std::fill(out.begin() + 1, out.end() - 1, 0.0f);
  }
  EXPECT_EQ(m.cuda.captures, 1u);
  EXPECT_EQ(out.front(), -1.0f);
  EXPECT_EQ(out.back(), -1.0f);
  ASSERT_TRUE(s->setInput(0, DType::F32, {6, 4}, m.x.data(), Device::Cuda));
  ASSERT_TRUE(s->run());
  EXPECT_EQ(m.cuda.copies, 7u);
}

TEST(Cuda, Threads) {
  ScaleModel m;
  // The kernels' bodies belong to the test; this one keeps no record.
  m.cuda.kernels["add"].body = [](const FakeLaunch &l) {
    const int64_t *sizes = l.as<int64_t>(2);
    for (int64_t i = 0; i < sizes[0] * 4; ++i)
      l.as<float>(1)[i] = l.as<float>(0)[i] + static_cast<float>(sizes[0]);
  };
  auto loaded = m.tryOpen();
  ASSERT_TRUE(loaded);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto s = std::move(*Session::create(*loaded));
      std::vector<float> x(static_cast<size_t>(t + 1) * 4, 1.0f);
      for (int i = 0; i < 50; ++i) {
        bool ok = s->setInput(0, DType::F32, {t + 1, 4}, x.data()).ok() &&
                  s->run().ok();
        wrong += !ok || static_cast<const float *>(s->output(0).data)[3] !=
                            static_cast<float>(4 + t + 1);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
