//===- Lower.cpp - From kernel functions to object code -------------------===//
//
// The generated code is vectorised already and free of redundancy, so the
// pipeline is short: clean-up, hoisting out of loops, instruction selection.
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include "fusion/Codegen/Common/Analyses.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "mlir/Transforms/DialectConversion.h"

#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

using Level = artifact::KernelCode::Target;

LogicalResult host::lowerToLLVMDialect(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

static const char *cpuOf(Level level) {
  return level == Level::HostV4 ? "x86-64-v4" : "x86-64-v3";
}

static std::unique_ptr<llvm::TargetMachine> createMachine(Level level) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  const char *features = level == Level::HostV4 ? "-prefer-256-bit" : "";
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpuOf(level), features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  Analyses analyses(machine);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  for (llvm::Function &f : module)
    if (!f.isDeclaration())
      passes.run(f, analyses.function);
}

std::unique_ptr<llvm::Module>
host::toLLVM(ModuleOp module, llvm::LLVMContext &context, Level level) {
  std::unique_ptr<llvm::Module> result =
      translateModuleToLLVMIR(module, context, "kernels");
  auto machine = createMachine(level);
  if (!result || !machine)
    return nullptr;
  result->setDataLayout(machine->createDataLayout());
  result->setTargetTriple(machine->getTargetTriple());
  result->setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &f : *result) {
    if (f.isDeclaration())
      continue;
    f.setVisibility(f.hasLocalLinkage() ? llvm::GlobalValue::DefaultVisibility
                                        : llvm::GlobalValue::HiddenVisibility);
    f.setDSOLocal(true);
    f.setAlignment(llvm::Align(64));
    f.addFnAttr(llvm::Attribute::NoUnwind);
    // The image has no libc: no loop may become a call of memset.
    f.addFnAttr("no-builtins");
    f.addFnAttr("target-cpu", cpuOf(level));
    if (level == Level::HostV4) {
      f.addFnAttr("target-features", "-prefer-256-bit");
      f.addFnAttr("prefer-vector-width", "512");
    }
  }
  optimize(*result, *machine);
  return result;
}

llvm::Expected<host::ObjectBytes> host::toObject(llvm::Module &module,
                                                 Level level) {
  auto machine = createMachine(level);
  ObjectBytes bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (!machine ||
      machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("the x86-64 code generator of LLVM is not "
                                   "available");
  passes.run(module);
  return bytes;
}
