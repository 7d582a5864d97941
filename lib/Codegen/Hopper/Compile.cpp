//===- Compile.cpp - All kernels of a module to cubins --------------------===//

#include "fusion/Codegen/Hopper.h"

#include "Serialize.h"

#include "fusion/Support/Hash.h"

#include "llvm/Support/ThreadPool.h"

#include <map>
#include <thread>

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

namespace {

/// Compiles the kernels of one module; keeps equal assembly once.
class Compiler {
public:
  Compiler(ModuleOp module, const HopperOptions &options)
      : module(module), options(options) {}

  FailureOr<std::vector<HopperKernel>> run();

private:
  /// From kernel.way on.
  LogicalResult translate(KernelOp op, HopperKernel &kernel);
  void assembleAll();
  LogicalResult accept(KernelOp op, HopperKernel &kernel);

  ModuleOp module;
  const HopperOptions &options;
  std::string ptxas;
  std::vector<HopperKernel> kernels;
  std::map<std::string, Assembled> assembled; ///< by PTX
};

LogicalResult Compiler::translate(KernelOp op, HopperKernel &kernel) {
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(op.getLoc());
  GeneratedKernel generated =
      generateHopperKernel(op, *scratch, options.strict, kernel.way);
  if (!generated.code)
    return op.emitError("kernel @")
           << kernel.name << " has no code for sm_90a: " << generated.reason;
  if (failed(lowerToLLVM(generated.code)))
    return op.emitError("kernel @")
           << kernel.name << " does not lower to the llvm dialect";
  FailureOr<std::string> ptx = translateToPTX(generated.code);
  if (failed(ptx))
    return failure();
  kernel.ptx = std::move(*ptx);
  kernel.launch = std::move(generated.launch);
  kernel.way = generated.way;
  if (!generated.reason.empty())
    kernel.passedOver = generated.reason;
  return success();
}

void Compiler::assembleAll() {
  std::vector<std::pair<std::string, unsigned>> work;
  for (const HopperKernel &kernel : kernels)
    if (!assembled.count(kernel.ptx)) {
      assembled[kernel.ptx] = {};
      work.push_back({kernel.ptx, kernel.launch.spillAllowance});
    }
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(options.threads));
  for (const auto &item : work)
    pool.async([this, &item, slot = &assembled[item.first]] {
      *slot = assemble(ptxas, item.first, item.second);
    });
  pool.wait();
}

LogicalResult Compiler::accept(KernelOp op, HopperKernel &kernel) {
  const Assembled &result = assembled[kernel.ptx];
  if (!result.error.empty())
    return op.emitError("kernel @") << kernel.name << ": " << result.error;
  kernel.cubin = result.cubin;
  for (artifact::CardStage &stage : kernel.launch.stages) {
    auto it = result.functions.find(stage.symbol);
    if (it == result.functions.end())
      return op.emitError("kernel @") << kernel.name << ": ptxas says nothing "
                                      << "of function " << stage.symbol;
    stage.registers = it->second.registers;
    stage.staticSharedBytes = it->second.sharedBytes;
    stage.spillBytes = it->second.spillBytes;
  }
  return success();
}

FailureOr<std::vector<HopperKernel>> Compiler::run() {
  SmallVector<KernelOp> ops;
  for (KernelOp op : module.getOps<KernelOp>())
    if (op.runsOn("card"))
      ops.push_back(op);
  for (KernelOp op : ops) {
    HopperKernel kernel;
    kernel.name = op.getSymName().str();
    if (failed(translate(op, kernel)))
      return failure();
    kernels.push_back(std::move(kernel));
  }
  if (!options.assemble)
    return std::move(kernels);
  ptxas = findPtxas(options.ptxas);
  if (!kernels.empty() && ptxas.empty())
    return module.emitError("ptxas not found")
           << (options.ptxas.empty() ? "" : " at " + options.ptxas)
           << "; install CUDA 13 or Python's nvidia-cuda-nvcc, or give its "
              "path";
  // What spills, or ptxas serialised, is built in the next way.
  for (bool again = true; again;) {
    assembleAll();
    again = false;
    for (auto [op, kernel] : llvm::zip(ops, kernels)) {
      if (assembled[kernel.ptx].error.empty() ||
          kernel.way + 1 >= kernels::getCardLaunches(op).size())
        continue;
      ++kernel.way;
      kernel.passedOver = assembled[kernel.ptx].error;
      if (failed(translate(op, kernel)))
        return failure();
      again = true;
    }
  }
  for (auto [op, kernel] : llvm::zip(ops, kernels))
    if (failed(accept(op, kernel)))
      return failure();
  return std::move(kernels);
}

} // namespace

FailureOr<std::vector<HopperKernel>>
fusion::compileHopperKernels(ModuleOp module, const HopperOptions &options) {
  return Compiler(module, options).run();
}

std::vector<kernels::CompiledImage>
fusion::toImages(const std::vector<HopperKernel> &kernels) {
  std::vector<kernels::CompiledImage> images;
  for (const HopperKernel &kernel : kernels) {
    kernels::CompiledImage image;
    image.target = artifact::KernelCode::Target::Sm90a;
    image.bytes = kernel.cubin;
    artifact::KernelCode code;
    code.target = image.target;
    code.stages = kernel.launch.stages;
    code.workspaceBytes = kernel.launch.workspaceBytes;
    code.counterBytes = kernel.launch.counterBytes;
    image.kernels[kernel.name] = code;
    image.assembly[kernel.name] = kernel.ptx;
    images.push_back(std::move(image));
  }
  return images;
}
