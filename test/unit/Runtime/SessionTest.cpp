//===- SessionTest.cpp - Running an artifact ------------------------------===//

#include "TestModel.h"

#include <thread>

using namespace fusion;

namespace {

const SymExpr n = SymExpr::symbol("n"), past = SymExpr::symbol("past");

/// out[i] = in[i] * w[i % 4]; sizes: none.
void scale(const HostContext *, void *const *args, const int64_t *,
           int64_t begin, int64_t end) {
  auto *in = static_cast<const float *>(args[0]),
       *w = static_cast<const float *>(args[1]);
  auto *out = static_cast<float *>(args[2]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i] * w[i % 4];
}

/// out[i] = in[i] + sizes[0], through scratch.
void addSize(const HostContext *c, void *const *args, const int64_t *sizes,
             int64_t begin, int64_t end) {
  auto *scratch = static_cast<float *>(c->scratch);
  auto *in = static_cast<const float *>(args[0]);
  auto *out = static_cast<float *>(args[1]);
  if (c->scratchBytes < 4 || reinterpret_cast<uintptr_t>(scratch) % 64 ||
      c->worker < 0 || c->worker >= c->workers)
    *c->status = 99;
  for (int64_t i = begin; i < end; ++i) {
    *scratch = in[i];
    out[i] = *scratch + static_cast<float>(sizes[0]);
  }
}

void outOfRange(const HostContext *c, void *const *, const int64_t *, int64_t,
                int64_t) {
  *c->status = kHostIndexOutOfRange;
}

/// Stores its first size: tells which program ran.
void mark(const HostContext *, void *const *args, const int64_t *sizes, int64_t,
          int64_t) {
  static_cast<float *>(args[0])[0] = static_cast<float>(sizes[0]);
}

/// y = x * w + n with the product in the arena; x and y are [n, 4].
struct ScaleModel : TestModel {
  ScaleModel() {
    model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 1, 1000}};
    model.inputs = {{"x", DType::F32, {n, 4}, Role::None}};
    model.outputs = {{"y", DType::F32, {n, 4}, Role::None}};
    weight("w", {1, 2, 3, 4});
    uint32_t k0 = kernel("scale", scale), k1 = kernel("add", addSize);
    Program p;
    p.name = "main";
    p.rows = n;
    p.buffers = {{n * 16, 0, 1, "product", DType::F32}};
    p.launches = {
        launch(k0,
               {{Kind::Input, 0, 0}, {Kind::Weight, 0, 0}, {Kind::Arena, 0, 0}},
               {}, n * 4),
        launch(k1, {{Kind::Arena, 0, 0}, {Kind::Output, 0, 0}}, {n}, n * 4)};
    p.launches[1].scratchBytes = 4;
    p.launches[1].site = "/node";
    model.programs = {p};
  }
};

std::vector<float> ramp(int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i) * 0.5f;
  return x;
}

void expectScaled(const Session &session, const std::vector<float> &x) {
  const TensorView &y = session.output(0);
  int64_t rows = static_cast<int64_t>(x.size()) / 4;
  ASSERT_EQ((std::vector<int64_t>{rows, 4}), y.shape);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(x[i] * static_cast<float>(i % 4 + 1) + static_cast<float>(rows),
              static_cast<const float *>(y.data)[i]);
}

TEST(Session, RunsAtEverySize) {
  ScaleModel m;
  auto session = m.session();
  for (int64_t rows : {3, 1, 1000, 17}) {
    std::vector<float> x = ramp(rows * 4);
    ASSERT_TRUE(session->setInput(0, DType::F32, {rows, 4}, x.data()));
    Status s = session->run();
    ASSERT_TRUE(s) << s.message();
    expectScaled(*session, x);
    EXPECT_EQ(rows, session->lastRows());
  }
}

TEST(Session, WritesToTheCallersMemory) {
  ScaleModel m;
  auto session = m.session();
  std::vector<float> x = ramp(8), y(8);
  ASSERT_TRUE(session->setInput(0, DType::F32, {2, 4}, x.data()));
  ASSERT_TRUE(session->setOutput(0, y.data(), 32));
  ASSERT_TRUE(session->run());
  expectScaled(*session, x);
  EXPECT_EQ(session->output(0).data, y.data());
  ASSERT_TRUE(session->setOutput(0, y.data(), 31));
  EXPECT_FALSE(session->run());
}

/// The message must hold each of the words.
void expectFailure(const Status &s, StatusCode code,
                   std::vector<std::string> words) {
  EXPECT_EQ(code, s.code());
  for (const std::string &word : words)
    EXPECT_NE(std::string::npos, s.message().find(word))
        << word << " in: " << s.message();
}

TEST(Session, RefusesWrongInputs) {
  ScaleModel m;
  m.model.inputs.push_back({"z", DType::I64, {n + 1}, Role::None});
  auto session = m.session();
  std::vector<float> x = ramp(8192);
  int64_t z[3] = {};
  auto code = StatusCode::InvalidInput;
  expectFailure(session->run(), code, {"'x'", "[n, 4] f32", "none"});
  auto set = [&](DType type, std::vector<int64_t> shape) {
    EXPECT_TRUE(session->setInput(0, type, std::move(shape), x.data()));
  };
  set(DType::F32, {2, 4});
  expectFailure(session->run(), code, {"'z'", "none"});
  ASSERT_TRUE(session->setInput(1, DType::I64, {3}, z));
  EXPECT_TRUE(session->run());
  set(DType::F64, {2, 4});
  expectFailure(session->run(), code, {"'x'", "f32", "f64"});
  set(DType::F32, {2, 4, 1});
  expectFailure(session->run(), code, {"'x'", "[2, 4, 1]"});
  set(DType::F32, {2, 5});
  expectFailure(session->run(), code, {"'x'", "[n = 2, 4]", "[2, 5]"});
  set(DType::F32, {1, 4});
  expectFailure(session->run(), code, {"'z'", "n + 1 = 2", "[3]"});
  set(DType::F32, {2000, 4});
  expectFailure(session->run(), code, {"'x'", "1..1000", "2000"});
  set(DType::F32, {0, 4});
  expectFailure(session->run(), code, {"1..1000", "found 0"});
  EXPECT_FALSE(session->setInput(0, DType::F32, {-1, 4}, x.data()));
  EXPECT_FALSE(
      session->setInput(0, DType::F32, {1ll << 40, 1ll << 40}, x.data()));
  EXPECT_FALSE(session->setInput(2, DType::F32, {1}, x.data()));
  EXPECT_FALSE(session->setInput(0, DType::F32, {1}, nullptr));
  set(DType::F32, {2, 4}); // and it still works
  EXPECT_TRUE(session->run());
}

TEST(Session, ChecksGuards) {
  ScaleModel m;
  m.model.guards = {{n, 2, "the mask and the ids must agree"}};
  auto session = m.session();
  std::vector<float> x = ramp(12);
  ASSERT_TRUE(session->setInput(0, DType::F32, {3, 4}, x.data()));
  expectFailure(session->run(), StatusCode::InvalidInput,
                {"n (3)", "2 (2)", "must agree"});
}

TEST(Session, KernelsReportErrors) {
  ScaleModel m;
  m.model.programs[0].launches[1].kernel = m.kernel("gather", outOfRange);
  auto session = m.session();
  std::vector<float> x = ramp(4);
  ASSERT_TRUE(session->setInput(0, DType::F32, {1, 4}, x.data()));
  expectFailure(session->run(), StatusCode::InvalidInput,
                {"'gather'", "'/node'", "out of range"});
}

TEST(Session, ChoosesTheProgramByRowsAndFixedSymbols) {
  TestModel m;
  uint32_t k = m.kernel("mark", mark);
  m.model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 0, 100},
                     {"b", Symbol::Source::InputDim, 0, 1, 0, 100}};
  m.model.inputs = {{"x", DType::F32, {n, SymExpr::symbol("b")}, Role::None}};
  m.model.outputs = {{"y", DType::F32, {1}, Role::None}};
  auto add = [&](int64_t number, int64_t least, int64_t most) -> Program & {
    Program p;
    p.name = "p" + std::to_string(number);
    p.rows = n;
    p.minRows = least;
    p.maxRows = most;
    p.launches = {TestModel::launch(k, {{Kind::Output, 0, 0}}, {number}, 1)};
    m.model.programs.push_back(p);
    return m.model.programs.back();
  };
  add(1, 1, 1).fixed = {{"b", 1}};
  add(2, 1, 8);
  add(3, 9, 20);
  add(4, 0, 100).set = "unfused";
  auto session = m.session();
  std::vector<float> x(10000);
  auto run = [&](int64_t rows, int64_t b, const char *set = "") -> float {
    EXPECT_TRUE(session->setInput(0, DType::F32, {rows, b}, x.data()));
    RunOptions options;
    options.set = set;
    if (!session->run(options))
      return -1;
    return *static_cast<const float *>(session->output(0).data);
  };
  EXPECT_EQ(1, run(1, 1));
  EXPECT_EQ(2, run(1, 2));
  EXPECT_EQ(2, run(8, 1));
  EXPECT_EQ(3, run(9, 1));
  EXPECT_EQ(-1, run(21, 1));
  EXPECT_EQ(-1, run(0, 1));
  EXPECT_EQ(4, run(21, 1, "unfused"));
  EXPECT_EQ(-1, run(1, 1, "other"));
}

TEST(Session, SizesWithoutAValueAreErrors) {
  ScaleModel m;
  m.model.programs[0].launches[0].sizes = {
      *SymExpr::parse("floordiv(8, n - 3)")};
  auto session = m.session();
  std::vector<float> x = ramp(16);
  ASSERT_TRUE(session->setInput(0, DType::F32, {3, 4}, x.data()));
  expectFailure(session->run(), StatusCode::InvalidInput, {"floordiv(8, n"});
  ASSERT_TRUE(session->setInput(0, DType::F32, {4, 4}, x.data()));
  EXPECT_TRUE(session->run());
}

TEST(Session, OffsetsOutsideABufferAreErrors) {
  ScaleModel m;
  m.model.programs[0].launches[0].args[0].buffer.byteOffset = n * 16 + 1;
  auto session = m.session();
  std::vector<float> x = ramp(4);
  ASSERT_TRUE(session->setInput(0, DType::F32, {1, 4}, x.data()));
  expectFailure(session->run(), StatusCode::BadArtifact, {"'scale'", "16"});
}

TEST(Session, ManySessionsOnManyThreads) {
  ScaleModel m;
  auto shared = m.open(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      auto session = std::move(*Session::create(shared));
      for (int round = 0; round < 100; ++round) {
        int64_t rows = (t * 37 + round * 11) % 200 + 1;
        std::vector<float> x = ramp(rows * 4);
        ASSERT_TRUE(session->setInput(0, DType::F32, {rows, 4}, x.data()));
        ASSERT_TRUE(session->run());
        expectScaled(*session, x);
      }
    });
  for (std::thread &t : threads)
    t.join();
}

/// cache[past + i] = in[i]; out = sum over the cache of past + n tokens.
void append(const HostContext *, void *const *args, const int64_t *sizes,
            int64_t, int64_t) {
  auto *in = static_cast<const float *>(args[0]);
  auto *cache = static_cast<float *>(args[1]),
       *out = static_cast<float *>(args[2]);
  for (int64_t i = 0; i < sizes[1]; ++i)
    cache[sizes[0] + i] = in[i];
  *out = 0;
  for (int64_t i = 0; i < sizes[0] + sizes[1]; ++i)
    *out += cache[i];
}

struct CacheModel : TestModel {
  CacheModel() {
    model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 1, 100},
                     {"past", Symbol::Source::CachedLength, 0, 0, 0, 10}};
    model.inputs = {{"x", DType::F32, {n}, Role::None}};
    model.outputs = {{"sum", DType::F32, {1}, Role::None}};
    model.states = {{"cache", DType::F32, {10}, 0}};
    model.maxContext = 10;
    model.appended = n;
    Program p;
    p.name = "main";
    p.launches = {
        launch(kernel("append", append),
               {{Kind::Input, 0, 0}, {Kind::State, 0, 0}, {Kind::Output, 0, 0}},
               {past, n}, 1)};
    model.programs = {p};
  }
};

TEST(Session, StatesAdvanceTruncateAndReset) {
  CacheModel m;
  auto session = m.session();
  auto feed = [&](std::vector<float> x) -> float {
    EXPECT_TRUE(session->setInput(0, DType::F32,
                                  {static_cast<int64_t>(x.size())}, x.data()));
    Status s = session->run();
    if (!s) {
      expectFailure(s, StatusCode::InvalidInput, {"10 tokens"});
      return -1;
    }
    return *static_cast<const float *>(session->output(0).data);
  };
  EXPECT_EQ(6, feed({1, 2, 3}));
  EXPECT_EQ(10, feed({4}));
  EXPECT_EQ(4, session->length());
  EXPECT_TRUE(session->truncate(2));
  EXPECT_EQ(13, feed({10}));
  EXPECT_FALSE(session->truncate(4));
  EXPECT_FALSE(session->truncate(-1));
  EXPECT_EQ(3, session->length());
  EXPECT_EQ(20, feed({1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(-1, feed({1})); // full
  EXPECT_EQ(10, session->length());
  session->reset();
  EXPECT_EQ(0, session->length());
  EXPECT_EQ(-1, feed(std::vector<float>(11)));
  EXPECT_EQ(5, feed({5}));
}

TEST(Session, SessionsHaveStatesOfTheirOwn) {
  CacheModel m;
  auto shared = m.open();
  auto a = std::move(*Session::create(shared)),
       b = std::move(*Session::create(shared));
  float x = 7;
  for (Session *s : {a.get(), b.get(), a.get()}) {
    ASSERT_TRUE(s->setInput(0, DType::F32, {1}, &x));
    ASSERT_TRUE(s->run());
  }
  EXPECT_EQ(14, *static_cast<const float *>(a->output(0).data));
  EXPECT_EQ(7, *static_cast<const float *>(b->output(0).data));
}

TEST(Session, ObserverSeesNamedValues) {
  struct Watch : Observer {
    void completed(uint32_t buffer, const uint8_t *data,
                   uint64_t bytes) override {
      seen.push_back({buffer, reinterpret_cast<const float *>(data)[1], bytes});
    }
    std::vector<std::tuple<uint32_t, float, uint64_t>> seen;
  } watch;
  ScaleModel m;
  auto session = m.session();
  std::vector<float> x = ramp(8);
  Profile profile;
  RunOptions options;
  options.observer = &watch;
  options.profile = &profile;
  ASSERT_TRUE(session->setInput(0, DType::F32, {2, 4}, x.data()));
  ASSERT_TRUE(session->run(options));
  EXPECT_EQ((std::vector<std::tuple<uint32_t, float, uint64_t>>{{0, 1.0f, 32}}),
            watch.seen);
  ASSERT_EQ(2u, profile.events.size());
  EXPECT_EQ(8, profile.events[0].grid);
  EXPECT_LE(profile.events[0].endNs, profile.events[1].beginNs);
  std::string trace = chromeTrace(profile, m.model);
  EXPECT_NE(std::string::npos, trace.find("\"site\":\"/node\""));
}

TEST(Session, DevicesThatAreNotThere) {
  ScaleModel m;
  m.model.images[0].target = artifact::KernelCode::Target::HostV4;
  for (artifact::Kernel &k : m.model.kernels)
    k.code[0].target = artifact::KernelCode::Target::HostV4;
  ASSERT_TRUE(m.write());
  auto cuda = LoadedModel::open(m.path(), Device::Cuda);
  ASSERT_FALSE(cuda);
  expectFailure(cuda.status(), StatusCode::Unavailable, {"--device=cuda"});
  m.model.images[0].target = artifact::KernelCode::Target::Sm90a;
  for (artifact::Kernel &k : m.model.kernels) {
    k.code[0].target = artifact::KernelCode::Target::Sm90a;
    k.code[0].stages.resize(1);
  }
  ASSERT_TRUE(m.write());
  auto host = LoadedModel::open(m.path());
  ASSERT_FALSE(host);
  expectFailure(host.status(), StatusCode::Unavailable, {"--target=host"});
}

} // namespace
