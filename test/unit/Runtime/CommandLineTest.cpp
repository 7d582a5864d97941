//===- CommandLineTest.cpp - fusion-run as a program ----------------------===//
//
// Artifacts made by hand, with machine code that was compiled once: the
// kernels' C source stands beside their bytes.
//
//===----------------------------------------------------------------------===//

#include "TestModel.h"
#include "fusion/Runtime/Npy.h"

#include <cstdio>
#include <fstream>
#include <regex>
#include <sys/wait.h>

using namespace fusion;
namespace fs = std::filesystem;

namespace {

// void twice(const void *, void *const *args, const int64_t *, int64_t begin,
//            int64_t end) {
//   const float *in = args[0]; float *out = args[1];
//   for (int64_t i = begin; i < end; ++i) out[i] = in[i] + in[i];
// }
// void next(const void *, void *const *args, const int64_t *sizes, int64_t,
//           int64_t) {
//   const int64_t *ids = args[0]; float *logits = args[1];
//   for (int64_t t = 0; t < sizes[0]; ++t)
//     for (int64_t v = 0; v < 8; ++v) {
//       int64_t d = v - ((ids[t] * 3 + 1) & 7);
//       logits[t * 8 + v] = (float)-(d * d);
//     }
// }
// clang -O1 -ffreestanding -fno-vectorize -fno-unroll-loops
constexpr uint64_t kTwice = 0, kNext = 48;
const unsigned char kCode[] = {
    0x4c, 0x39, 0xc1, 0x7d, 0x21, 0x48, 0x8b, 0x06, 0x48, 0x8b, 0x56, 0x08,
    0x0f, 0x1f, 0x40, 0x00, 0xf3, 0x0f, 0x10, 0x04, 0x88, 0xf3, 0x0f, 0x58,
    0xc0, 0xf3, 0x0f, 0x11, 0x04, 0x8a, 0x48, 0xff, 0xc1, 0x49, 0x39, 0xc8,
    0x75, 0xea, 0xc3, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x48, 0x8b, 0x02, 0x48, 0x85, 0xc0, 0x7e, 0x66, 0x48, 0x8b, 0x0e, 0x48,
    0x8b, 0x56, 0x08, 0x31, 0xf6, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e,
    0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x8b, 0x3c, 0xf1, 0x8d,
    0x3c, 0x7f, 0xff, 0xc7, 0x83, 0xe7, 0x07, 0x48, 0xf7, 0xdf, 0x45, 0x31,
    0xc0, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x4e, 0x8d, 0x0c, 0x07, 0x4d, 0x0f, 0xaf, 0xc9,
    0x49, 0xf7, 0xd9, 0x0f, 0x57, 0xc0, 0xf3, 0x49, 0x0f, 0x2a, 0xc1, 0xf3,
    0x42, 0x0f, 0x11, 0x04, 0x82, 0x49, 0xff, 0xc0, 0x49, 0x83, 0xf8, 0x08,
    0x75, 0xde, 0x48, 0xff, 0xc6, 0x48, 0x83, 0xc2, 0x20, 0x48, 0x39, 0xc6,
    0x75, 0xb2, 0xc3};

class CommandLine : public ::testing::Test {
protected:
  struct Outcome {
    int code;
    std::string text; ///< standard output and error
  };

  static uint32_t addKernel(TestModel &m, const char *name, uint64_t entry) {
    m.image.assign(reinterpret_cast<const char *>(kCode), sizeof kCode);
    m.model.kernels.push_back(
        {name,
         "test",
         "",
         {{artifact::KernelCode::Target::HostV3, 0, entry, {}, 0, 0}}});
    return static_cast<uint32_t>(m.model.kernels.size() - 1);
  }
  /// y = 2x for x of [n], under output names that clash as file names.
  static void makeTwice(TestModel &m) {
    SymExpr n = SymExpr::symbol("n");
    uint32_t k = addKernel(m, "twice", kTwice);
    m.model.symbols = {{"n", Symbol::Source::InputDim, 0, 0, 1, 100}};
    m.model.inputs = {{"x", DType::F32, {n}, Role::None}};
    m.model.outputs = {{"a/b", DType::F32, {n}, Role::None},
                       {"a:b", DType::F32, {n}, Role::None}};
    Program p;
    p.name = "main";
    p.rows = n;
    for (uint32_t out : {0, 1})
      p.launches.push_back(TestModel::launch(
          k, {{Kind::Input, 0, 0}, {Kind::Output, out, 0}}, {}, n));
    m.model.programs = {p};
  }
  static void makeLanguageModel(TestModel &m) {
    SymExpr seq = SymExpr::symbol("seq");
    uint32_t k = addKernel(m, "next", kNext);
    m.model.symbols = {{"seq", Symbol::Source::InputDim, 0, 1, 1, 64}};
    m.model.inputs = {{"ids", DType::I64, {1, seq}, Role::TokenIds}};
    m.model.outputs = {{"logits", DType::F32, {1, seq, 8}, Role::Logits}};
    m.model.states = {{"cache", DType::F32, {12}, 0}};
    m.model.maxContext = 12;
    Program p;
    p.name = "main";
    p.rows = seq;
    p.launches = {TestModel::launch(
        k, {{Kind::Input, 0, 0}, {Kind::Output, 0, 0}}, {seq}, 1)};
    m.model.programs = {p};
  }

  static Outcome run(const std::string &arguments) {
    std::string command = std::string(FUSION_RUN) + " " + arguments + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof buffer, pipe))
      text.append(buffer, n);
    int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
  }
  static void expect(const std::string &arguments, int code,
                     const std::string &pattern) {
    Outcome o = run(arguments);
    EXPECT_EQ(code, o.code) << arguments << "\n" << o.text;
    EXPECT_TRUE(std::regex_search(o.text, std::regex(pattern)))
        << arguments << "\n"
        << o.text;
  }
  /// A file of ones.
  static std::string ones(const TestModel &m, const std::string &name,
                          std::vector<int64_t> shape) {
    std::vector<float> data(1000, 1.5f);
    std::string path = m.folder / name;
    EXPECT_TRUE(writeNpy(path, DType::F32, shape, data.data()));
    return path;
  }
};

TEST_F(CommandLine, Usage) {
  expect("", 2, "expected an artifact");
  expect("--help", 0, "usage: fusion-run");
  for (const char *wrong :
       {"--no-such-option=1", "--no-such-flag", "a.fusion b.fusion",
        "a.fusion --input x", "a.fusion --device=abacus", "a.fusion --bench=0",
        "a.fusion --bench=many", "a.fusion --generate=3",
        "a.fusion --generate=3 --prompt-ids=1,,2",
        "a.fusion --generate=-1 --prompt-ids=1", "a.fusion --prompt-ids=1",
        "a.fusion --generate=1 --prompt-ids=1 --stream --json",
        "a.fusion --generate=1 --prompt-ids=1 --stream --bench=2",
        "a.fusion --generate=2 --prompt-ids=1 --force-ids=1,2,3",
        "a.fusion --verify --bench=2"})
    expect(wrong, 2, "fusion-run: error: ");
  expect("/no/such.fusion", 1, "'/no/such.fusion'");
}

TEST_F(CommandLine, OutputsBecomeFiles) {
  TestModel m;
  makeTwice(m);
  ASSERT_TRUE(m.write());
  std::string out = m.folder / "deep" / "out";
  expect(m.path() + " --input x=" + ones(m, "x.npy", {5}) +
             " --output-dir=" + out,
         0, "^$");
  for (const char *name : {"a_b.npy", "a_b_2.npy"}) {
    auto y = readNpy(out + "/" + name, DType::F32);
    ASSERT_TRUE(y) << y.status().message();
    EXPECT_EQ((std::vector<int64_t>{5}), y->shape);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(3.0f, static_cast<const float *>(y->data())[i]);
  }
  EXPECT_EQ(2, std::distance(fs::directory_iterator(out), {}));
}

TEST_F(CommandLine, FaultsOfTheInputWriteNothing) {
  TestModel m;
  makeTwice(m);
  ASSERT_TRUE(m.write());
  std::string out = m.folder / "out", x = ones(m, "x.npy", {5});
  std::string tail = " --output-dir=" + out;
  expect(m.path() + tail, 1, "input 'x': expected \\[n\\] f32, none");
  expect(m.path() + tail + " --input y=" + x, 1, "no input 'y'.*'x'");
  expect(m.path() + tail + " --input x=" + ones(m, "m.npy", {5, 1}), 1,
         "'x'.*\\[5, 1\\]");
  expect(m.path() + tail + " --input x=" + ones(m, "l.npy", {101}), 1,
         "'x'.*1\\.\\.100.*101");
  expect(m.path() + tail + " --input x=" + m.path(), 1, "no .npy file");
  expect(m.path() + tail + " --input x=/no/file", 1, "'/no/file'");
  expect(m.path() + tail + " --input x=" + x + " --device=cuda", 1,
         "--device=cuda");
  expect(m.path() + tail + " --input x=" + x + " --verify", 2, "--verify");
  expect(m.path() + " --input x=" + x + " --verify", 1, "unfused");
  expect(m.path() + tail + " --generate=1 --prompt-ids=1", 2, "neither");
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(CommandLine, InfoBenchAndProfile) {
  TestModel m;
  makeTwice(m);
  ASSERT_TRUE(m.write());
  expect(m.path() + " --info", 0, "kernel twice test[\\s\\S]*2 launches");
  std::string x = " --input x=" + ones(m, "x.npy", {5});
  expect(m.path() + x, 0, "output a/b \\[5\\] f32");
  expect(m.path() + x + " --bench=3", 0, "3 runs of program main: median");
  expect(m.path() + x + " --bench=3 --json", 0, "\"median_ms\": .*\"rows\": 5");
  std::string trace = m.folder / "trace.json";
  expect(m.path() + x + " --profile=" + trace, 0, "twice");
  std::ifstream in(trace);
  std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(std::string::npos, text.find("\"traceEvents\""));
  for (const std::string &what :
       {std::string(" --info"), x + " --bench=2 --json"})
    EXPECT_EQ(1, run(m.path() + what + " > /dev/full").code) << what;
  expect(m.path() + x + " --info", 2, "--info runs nothing");
  expect(m.path() + x + " --json", 2, "--json goes with");
}

TEST_F(CommandLine, VerifyComparesWithTheUnfusedSet) {
  for (bool right : {true, false}) {
    TestModel m;
    makeTwice(m);
    Program unfused = m.model.programs[0];
    unfused.set = "unfused";
    if (!right) // doubles an output once more
      unfused.launches.push_back(
          TestModel::launch(0, {{Kind::Output, 1, 0}, {Kind::Output, 1, 0}}, {},
                            SymExpr::symbol("n")));
    m.model.programs.push_back(unfused);
    ASSERT_TRUE(m.write());
    expect(m.path() + " --verify --input x=" + ones(m, "x.npy", {5}),
           right ? 0 : 3,
           right ? "2 values.*0 differ" : "'a:b' differs.* by 0.5");
  }
}

/// The model says 3 * id + 1 mod 8: 1, 4, 5, 0, 1, ...
TEST_F(CommandLine, Generate) {
  TestModel m;
  makeLanguageModel(m);
  ASSERT_TRUE(m.write());
  std::string head = m.path() + " --prompt-ids=7,7,0 --generate=";
  expect(head + "6", 0, "^1,4,5,0,1,4\nprefill ");
  expect(head + "6 --json", 0,
         "^\\{\"tokens\": \\[1, 4, 5, 0, 1, 4\\], \"prefill_tokens_per_s\": "
         "[0-9.]+, \"decode_tokens_per_s\": [0-9.]+\\}\n$");
  expect(head + "6 --stream", 0, "^1\n4\n5\n0\n1\n4\n$");
  expect(head + "6 --stream --stop-ids=5,6", 0, "^1\n4\n5\n$");
  expect(head + "5 --stream --force-ids=2,2", 0, "^1\n7\n7\n6\n3\n$");
  expect(head + "0 --json", 0, "\"tokens\": \\[\\]");
  expect(head + "2 --bench=3 --json", 0, "\"tokens\": \\[1, 4\\]");
  EXPECT_EQ(1, run(head + "2 --json > /dev/full").code);
  // Three and nine fit the context of twelve; the next does not.
  expect(head + "10 --json", 0, "tokens");
  expect(head + "11 --json", 1, "12 tokens.*--max-context");
}

TEST_F(CommandLine, GenerateTakesOneSequence) {
  TestModel m;
  makeLanguageModel(m);
  m.model.inputs[0].shape[0] = 3;
  ASSERT_TRUE(m.write());
  expect(m.path() + " --prompt-ids=1 --generate=1", 1,
         "a batch of 3 \\(input 'ids'\\).*--dim batch=1");
}

} // namespace
