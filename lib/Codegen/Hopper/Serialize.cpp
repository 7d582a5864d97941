//===- Serialize.cpp - From kernel IR to PTX ------------------------------===//
//
// scf -> cf, then every dialect to llvm at once (convert-to-llvm, which keeps
// math free of libdevice), then LLVM's O3 and the NVPTX back end in process.
//
//===----------------------------------------------------------------------===//

#include "Serialize.h"

#include "fusion/Codegen/Common/Analyses.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace fusion;

LogicalResult hopper::lowerToLLVM(gpu::GPUModuleOp module) {
  PassManager pm(module->getContext(), module->getName().getStringRef());
  pm.enableVerifier(false);
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertToLLVMPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

static std::unique_ptr<llvm::TargetMachine> createMachine(std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "sm_90a", "+ptx90", llvm::TargetOptions(), std::nullopt,
      std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  codegen::Analyses analyses(machine);
  analyses.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, analyses.module);
}

namespace {
/// A module in LLVM IR, optimised for its machine.
struct Optimised {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;

  LogicalResult make(gpu::GPUModuleOp op) {
    module = translateModuleToLLVMIR(op, context);
    if (!module)
      return op.emitError("kernel does not translate to LLVM IR");
    std::string error;
    machine = createMachine(error);
    if (!machine)
      return op.emitError("this build of LLVM has no NVPTX target: ") << error;
    module->setTargetTriple(machine->getTargetTriple());
    module->setDataLayout(machine->createDataLayout());
    optimize(*module, *machine);
    return success();
  }
};
} // namespace

FailureOr<std::string> hopper::translateToLLVM(gpu::GPUModuleOp op) {
  Optimised code;
  if (failed(code.make(op)))
    return failure();
  std::string text;
  llvm::raw_string_ostream(text) << *code.module;
  return text;
}

FailureOr<std::string> hopper::translateToPTX(gpu::GPUModuleOp op) {
  Optimised code;
  if (failed(code.make(op)))
    return failure();
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if (code.machine->addPassesToEmitFile(codegen, stream, nullptr,
                                        llvm::CodeGenFileType::AssemblyFile))
    return op.emitError("the NVPTX target cannot emit assembly");
  codegen.run(*code.module);
  return std::string(text);
}
