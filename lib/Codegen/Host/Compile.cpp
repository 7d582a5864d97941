//===- Compile.cpp - All kernels of a module, on all cores ----------------===//

#include "Generate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

void fusion::registerHostCodegenDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect,
              math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

/// Dialects have to be loaded before threads start.
static void loadDialects(MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                       LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                       vector::VectorDialect>();
}

/// Kernels that go through LLVM together: setting up its pipeline costs more
/// than a small kernel does. A constant, so that the image does not depend on
/// the number of cores.
static constexpr size_t kernelsPerModule = 8;

/// The functions of some kernels, lowered to the llvm dialect.
static FailureOr<OwningOpRef<ModuleOp>>
lowerKernels(MutableArrayRef<KernelOp> kernels, const HostOptions &options) {
  OwningOpRef<ModuleOp> module(ModuleOp::create(kernels.front().getLoc()));
  for (KernelOp kernel : kernels)
    if (failed(host::generateKernel(*module, kernel, options.strict)))
      return failure();
  if (failed(host::lowerToLLVMDialect(*module)))
    return kernels.front().emitError("internal error: the code of this kernel "
                                     "or of one that follows cannot be "
                                     "lowered to LLVM");
  return module;
}

FailureOr<std::vector<kernels::CompiledImage>>
fusion::compileHostKernels(ModuleOp module, const HostOptions &options) {
  MLIRContext *context = module.getContext();
  loadDialects(context);
  auto all = llvm::to_vector(module.getOps<KernelOp>());
  llvm::erase_if(all, [](KernelOp kernel) { return !kernel.runsOn("host"); });
  size_t levels = options.levels.size();
  size_t parts = llvm::divideCeil(all.size(), kernelsPerModule);
  // objects[level][part]
  std::vector<std::vector<host::ObjectBytes>> objects(
      levels, std::vector<host::ObjectBytes>(parts));
  auto compile = [&](size_t i) -> LogicalResult {
    auto part = MutableArrayRef<KernelOp>(all)
                    .drop_front(i * kernelsPerModule)
                    .take_front(kernelsPerModule);
    auto lowered = lowerKernels(part, options);
    if (failed(lowered))
      return failure();
    for (size_t level = 0; level < levels; ++level) {
      llvm::LLVMContext llvmContext;
      auto code =
          host::toLLVM(lowered->get(), llvmContext, options.levels[level]);
      if (!code)
        return part.front().emitError("internal error: no LLVM IR for the "
                                      "kernel");
      auto object = host::toObject(*code, options.levels[level]);
      if (!object)
        return part.front().emitError(llvm::toString(object.takeError()));
      objects[level][i] = std::move(*object);
    }
    return success();
  };
  if (failed(failableParallelForEachN(context, 0, parts, compile)))
    return failure();

  std::vector<kernels::CompiledImage> images;
  for (size_t level = 0; level < levels; ++level) {
    auto flat = host::linkFlat(objects[level]);
    if (!flat)
      return module.emitError(llvm::toString(flat.takeError()));
    kernels::CompiledImage &image = images.emplace_back();
    image.target = options.levels[level];
    image.bytes = std::move(flat->bytes);
    for (KernelOp kernel : all) {
      artifact::KernelCode code;
      code.target = image.target;
      code.entry = flat->entries.at(kernel.getSymName().str());
      image.kernels[kernel.getSymName().str()] = code;
    }
  }
  return images;
}

FailureOr<OwningOpRef<ModuleOp>>
fusion::generateHostKernels(ModuleOp module, const HostOptions &options) {
  loadDialects(module.getContext());
  OwningOpRef<ModuleOp> result(ModuleOp::create(module.getLoc()));
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (failed(host::generateKernel(*result, kernel, options.strict)))
      return failure();
  if (failed(verify(*result)))
    return failure();
  return result;
}

FailureOr<std::string> fusion::emitHostLLVM(ModuleOp module,
                                            const HostOptions &options) {
  auto generated = generateHostKernels(module, options);
  if (failed(generated) || failed(host::lowerToLLVMDialect(generated->get())))
    return failure();
  llvm::LLVMContext context;
  auto code = host::toLLVM(generated->get(), context, options.levels.front());
  if (!code)
    return failure();
  std::string text;
  llvm::raw_string_ostream(text) << *code;
  return text;
}
