//===- CApiTest.cpp - C interface of the fusion runtime -------------------===//

#include "fusion-c/Runtime.h"

#include "TestModel.h"

#include <dlfcn.h>

using namespace fusion;

namespace {

void twice(const HostContext *, void *const *args, const int64_t *,
           int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(args[1])[i] = static_cast<float *>(args[0])[i] * 2;
}

struct TwiceModel : TestModel {
  TwiceModel() {
    SymExpr n = SymExpr::symbol("n");
    model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 0, 100}};
    model.inputs = {{"x", DType::F32, {n, 2}, Role::None}};
    model.outputs = {{"y", DType::F32, {n, 2}, Role::Logits}};
    model.explain = "{\"sites\": 0}";
    Program p;
    p.name = "main";
    p.launches = {launch(kernel("twice", twice),
                         {{Kind::Input, 0, 0}, {Kind::Output, 0, 0}}, {},
                         n * 2)};
    model.programs = {p};
  }
};

TEST(CApi, Run) {
  TwiceModel m;
  ASSERT_TRUE(m.write());
  FusionModel *model = nullptr;
  ASSERT_EQ(FUSION_OK, fusionModelOpen(m.path().c_str(), nullptr, 0, &model))
      << fusionLastError();
  FusionTensorInfo info;
  ASSERT_EQ(1, fusionModelInputCount(model));
  ASSERT_EQ(FUSION_OK, fusionModelInput(model, 0, &info));
  EXPECT_STREQ("x", info.name);
  EXPECT_EQ(1, info.dtype);
  ASSERT_EQ(2, info.rank);
  EXPECT_EQ(-1, info.dims[0]);
  EXPECT_EQ(2, info.dims[1]);
  EXPECT_STREQ("n", info.dim_text[0]);
  ASSERT_EQ(FUSION_OK, fusionModelOutput(model, 0, &info));
  EXPECT_EQ(FUSION_ROLE_LOGITS, info.role);
  EXPECT_EQ(0, fusionModelFindOutput(model, "y"));
  EXPECT_EQ(-1, fusionModelFindInput(model, "y"));
  EXPECT_STREQ("{\"sites\": 0}", fusionModelExplain(model));
  EXPECT_NE(nullptr, strstr(fusionModelDump(model), "kernel twice"));

  FusionSession *session = nullptr;
  ASSERT_EQ(FUSION_OK, fusionSessionCreate(model, &session));
  fusionModelClose(model); // the session keeps what it needs
  float x[6] = {1, 2, 3, 4, 5, 6};
  int64_t dims[2] = {3, 2};
  ASSERT_EQ(FUSION_OK, fusionSessionSetInput(session, 0, 1, 2, dims, x));
  ASSERT_EQ(FUSION_OK, fusionSessionRun(session)) << fusionLastError();
  EXPECT_STREQ("", fusionLastError());
  const void *data;
  const int64_t *shape;
  uint64_t bytes;
  int32_t rank;
  ASSERT_EQ(FUSION_OK,
            fusionSessionGetOutput(session, 0, &data, &bytes, &rank, &shape));
  EXPECT_EQ(24u, bytes);
  EXPECT_EQ(2, rank);
  EXPECT_EQ(3, shape[0]);
  EXPECT_EQ(12.0f, static_cast<const float *>(data)[5]);
  fusionSessionDestroy(session);
}

/// The shared library exports the interface, and nothing of what is in it.
TEST(CApi, BoundTensors) {
  TwiceModel m;
  ASSERT_TRUE(m.write());
  FusionModel *model = nullptr;
  ASSERT_EQ(FUSION_OK, fusionModelOpen(m.path().c_str(), "host", 0, &model));
  FusionSession *session = nullptr;
  ASSERT_EQ(FUSION_OK, fusionSessionCreate(model, &session));
  float x[4] = {1, 2, 3, 4}, y[4] = {};
  int64_t dims[2] = {2, 2};
  FusionTensor in = {x, FUSION_CPU, 0, 1, 2, dims, sizeof x},
               out = {y, FUSION_CUDA_HOST, 0, 1, 2, dims, sizeof y};
  ASSERT_EQ(FUSION_OK, fusionSessionBindInput(session, 0, &in));
  ASSERT_EQ(FUSION_OK, fusionSessionBindOutput(session, 0, &out));
  ASSERT_EQ(FUSION_OK, fusionSessionRun(session));
  EXPECT_EQ(8, y[3]);
  in.device_type = FUSION_CUDA;
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionSessionBindInput(session, 0, &in));
  EXPECT_STREQ("memory of a card was given to a model opened for the host",
               fusionLastError());
  in.device_type = 99;
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionSessionBindInput(session, 0, &in));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionSessionBindInput(session, 0, nullptr));
  double seconds = 0;
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionSessionRunTimed(session, &seconds));
  EXPECT_STREQ("fusionSessionRunTimed: the model was opened for the host",
               fusionLastError());
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionModelOpen(m.path().c_str(), "cuda:x", 0, &model));
  fusionSessionDestroy(session);
  fusionModelClose(model);
}

TEST(CApi, SharedLibrary) {
  TwiceModel m;
  ASSERT_TRUE(m.write());
  void *library = dlopen(FUSION_RUNTIME_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(nullptr, library) << dlerror();
  auto open = reinterpret_cast<decltype(&fusionModelOpen)>(
      dlsym(library, "fusionModelOpen"));
  auto count = reinterpret_cast<decltype(&fusionModelInputCount)>(
      dlsym(library, "fusionModelInputCount"));
  auto close = reinterpret_cast<decltype(&fusionModelClose)>(
      dlsym(library, "fusionModelClose"));
  ASSERT_TRUE(open && count && close);
  for (const char *name :
       {"fusionSessionRun", "fusionSessionRunTimed", "fusionSessionStep",
        "fusionSessionGetOutput", "fusionLastError"})
    EXPECT_NE(nullptr, dlsym(library, name)) << name;
  FusionModel *model = nullptr;
  ASSERT_EQ(FUSION_OK, open(m.path().c_str(), "host", 1, &model));
  EXPECT_EQ(1, count(model));
  close(model);
  Dl_info info;
  void *blas = dlsym(library, "cblas_sgemm");
  EXPECT_TRUE(!blas || !dladdr(blas, &info) ||
              !strstr(info.dli_fname, "fusion_runtime"));
}

TEST(CApi, FailuresAreValues) {
  TwiceModel m;
  ASSERT_TRUE(m.write());
  FusionModel *model = nullptr;
  EXPECT_EQ(FUSION_INVALID_INPUT,
            fusionModelOpen("/no/such/file", "host", 0, &model));
  EXPECT_NE(nullptr, strstr(fusionLastError(), "/no/such/file"));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionModelOpen(m.path().c_str(), "abacus", 0, &model));
  EXPECT_EQ(FUSION_UNAVAILABLE,
            fusionModelOpen(m.path().c_str(), "cuda", 0, &model));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionModelOpen(nullptr, "host", 0, &model));
  ASSERT_EQ(FUSION_OK, fusionModelOpen(m.path().c_str(), "host", 1, &model));
  FusionTensorInfo info;
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionModelInput(model, 1, &info));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionModelOutput(model, -1, &info));
  FusionSession *session = nullptr;
  ASSERT_EQ(FUSION_OK, fusionSessionCreate(model, &session));
  const void *data;
  EXPECT_EQ(
      FUSION_INVALID_ARGUMENT,
      fusionSessionGetOutput(session, 0, &data, nullptr, nullptr, nullptr));
  EXPECT_EQ(FUSION_INVALID_INPUT, fusionSessionRun(session));
  int64_t dims[2] = {1, 3}, next;
  float x[3] = {};
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionSessionSetInput(session, 0, 8, 2, dims, x));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionSessionSetInput(session, 7, 1, 2, dims, x));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT,
            fusionSessionSetInput(session, -1, 1, 2, dims, x));
  ASSERT_EQ(FUSION_OK, fusionSessionSetInput(session, 0, 1, 2, dims, x));
  EXPECT_EQ(FUSION_INVALID_INPUT, fusionSessionRun(session));
  EXPECT_NE(nullptr, strstr(fusionLastError(), "[1, 3]"));
  EXPECT_EQ(FUSION_INVALID_ARGUMENT, fusionSessionTruncate(session, 1));
  EXPECT_EQ(0, fusionSessionLength(session));
  EXPECT_EQ(FUSION_OK, fusionSessionReset(session));
  EXPECT_EQ(FUSION_INVALID_INPUT, fusionSessionStep(session, dims, 1, &next));
  fusionSessionDestroy(session);
  fusionModelClose(model);
  fusionModelClose(nullptr);
  fusionSessionDestroy(nullptr);
}

} // namespace
