//===- Harness.cpp - Compiles a kernel from text and runs it --------------===//

#include "Harness.h"

#include "fusion/Codegen/Host.h"
#include "fusion/Kernels/HostLaunch.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <sys/mman.h>

using namespace fusion;
using namespace fusion::test;

struct Program::Impl {
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<kernels::CompiledImage> images;
  std::string error;
};

Program::Program(const std::string &text, bool strict)
    : impl(std::make_unique<Impl>()) {
  impl->registry.insert<FusionDialect>();
  registerHostCodegenDialects(impl->registry);
  impl->context = std::make_unique<mlir::MLIRContext>(impl->registry);
  mlir::ScopedDiagnosticHandler handler(impl->context.get(),
                                        [&](mlir::Diagnostic &d) {
                                          impl->error += d.str() + "\n";
                                          return mlir::success();
                                        });
  impl->module =
      mlir::parseSourceString<mlir::ModuleOp>(text, impl->context.get());
  if (!impl->module)
    return;
  HostOptions options;
  options.strict = strict;
  auto images = compileHostKernels(*impl->module, options);
  if (mlir::succeeded(images))
    impl->images = std::move(*images);
}

Program::~Program() = default;
bool Program::ok() const { return !impl->images.empty(); }
std::string Program::error() const { return impl->error; }

static void referenceSgemm(int32_t transA, int32_t transB, int64_t m, int64_t n,
                           int64_t k, float alpha, const float *a, int64_t lda,
                           const float *b, int64_t ldb, float beta, float *c,
                           int64_t ldc) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += double(transA ? a[x * lda + i] : a[i * lda + x]) *
               (transB ? b[j * ldb + x] : b[x * ldb + j]);
      float &to = c[i * ldc + j];
      to = alpha * float(sum) + (beta == 0 ? 0 : beta * to);
    }
}

static bool hasLevel(artifact::KernelCode::Target level) {
  if (level == artifact::KernelCode::Target::HostV4)
    return __builtin_cpu_supports("x86-64-v4");
  return __builtin_cpu_supports("x86-64-v3");
}

int Program::run(std::vector<Buffer> &buffers,
                 const std::vector<int64_t> &sizes,
                 const std::function<void()> &check,
                 const std::vector<std::pair<unsigned, unsigned>> &aliases) {
  KernelOp kernel = *impl->module->getOps<KernelOp>().begin();
  kernels::HostLaunch launch = kernels::getHostLaunch(kernel);
  auto value = [&](const SymExpr &e) {
    return e
        .evaluate([&](std::string_view name) -> std::optional<int64_t> {
          return sizes.at(std::stoi(std::string(name.substr(1))));
        })
        .value();
  };
  int64_t grid = value(launch.grid), scratchBytes = value(launch.scratchBytes);
  std::vector<Buffer> fresh = buffers;
  int status = 0;
  for (const kernels::CompiledImage &image : impl->images) {
    if (!hasLevel(image.target))
      continue;
    buffers = fresh;
    size_t length = (image.bytes.size() + 4095) / 4096 * 4096;
    void *code = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(code, image.bytes.data(), image.bytes.size());
    mprotect(code, length, PROT_READ | PROT_EXEC);
    uint64_t entry = image.kernels.at(kernel.getSymName().str()).entry;
    auto function =
        reinterpret_cast<HostKernel>(static_cast<char *>(code) + entry);
    std::vector<void *> args;
    for (Buffer &b : buffers)
      args.push_back(b.bytes.data());
    size_t operands = kernel.getBlock()->getNumArguments();
    for (auto [result, argument] : aliases)
      args[operands + result] = args[argument];
    status = 0;
    // Scratch is poisoned, and guarded at its end.
    std::vector<uint8_t> scratch(scratchBytes + 128 + 64, 0xff);
    auto aligned = reinterpret_cast<uint8_t *>(
        (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    std::memset(aligned + scratchBytes, 0x5a, 64);
    for (int worker = 0; worker < 3; ++worker) {
      HostContext context{referenceSgemm, aligned, scratchBytes,
                          &status,        worker,  3};
      int64_t begin = grid * worker / 3, end = grid * (worker + 1) / 3;
      if (begin < end)
        function(&context, args.data(), sizes.data(), begin, end);
    }
    for (int i = 0; i < 64; ++i)
      if (aligned[scratchBytes + i] != 0x5a)
        status = -1;
    munmap(code, length);
    check();
  }
  return status;
}
