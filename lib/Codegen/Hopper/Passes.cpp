//===- Passes.cpp - The code generator as passes of fusion-opt ------------===//

#include "fusion/Codegen/Hopper.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/ConvertToLLVM/ToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace fusion {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_GENERATEHOPPER
#define GEN_PASS_DEF_ASSEMBLEHOPPER
#define GEN_PASS_REGISTRATION
#include "fusion/Codegen/HopperPasses.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

void fusion::registerHopperDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect,
                  LLVM::LLVMDialect, math::MathDialect, NVVM::NVVMDialect,
                  scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  index::registerConvertIndexToLLVMInterface(registry);
  registerConvertMathToLLVMInterface(registry);
  registerConvertNVVMToLLVMInterface(registry);
  ub::registerConvertUBToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  registerConvertToLLVMDependentDialectLoading(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

namespace {

struct GenerateHopperPass
    : fusion::impl::GenerateHopperBase<GenerateHopperPass> {
  using GenerateHopperBase::GenerateHopperBase;
  void getDependentDialects(DialectRegistry &registry) const override {
    registerHopperDialects(registry);
  }
  void runOnOperation() override {
    for (KernelOp kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      GeneratedKernel generated =
          generateHopperKernel(kernel, getOperation(), strict, way);
      if (generated.code) {
        kernel.erase();
        continue;
      }
      kernel.emitError("kernel @")
          << kernel.getSymName()
          << " has no code for sm_90a: " << generated.reason;
      signalPassFailure();
    }
  }
};

LogicalResult writeFile(Operation *op, llvm::StringRef directory,
                        const llvm::Twine &name, llvm::StringRef bytes) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, name);
  std::error_code ec;
  llvm::raw_fd_ostream os(path, ec);
  if (!ec)
    os << bytes;
  if (ec || os.has_error()) {
    os.clear_error();
    return op->emitError("cannot write ") << path << ": " << ec.message();
  }
  return success();
}

/// What a launch needs beside its stages' sizes, for drivers of tests: fields
/// separated by bars, lists by semicolons.
void describe(const kernels::CardLaunch &launch, llvm::raw_ostream &os) {
  auto list = [&](const std::vector<SymExpr> &values) {
    llvm::interleave(values, os, [&](const SymExpr &e) { os << e.str(); }, ";");
    os << '|';
  };
  for (const artifact::CardStage &stage : launch.stages) {
    os << "stage|" << stage.symbol << '|' << stage.threads << '|'
       << stage.cluster << '|' << stage.sharedBytes << '|' << stage.grid.str()
       << '|' << launch.workspaceBytes.str() << '|' << launch.counterBytes
       << '\n';
    for (const artifact::TensorMap &map : stage.maps) {
      os << "map|" << map.argument << '|' << int(map.type) << '|'
         << map.byteOffset.str() << '|' << map.swizzle << '|';
      list(map.dims);
      list(map.strides);
      llvm::interleave(map.box, os, ";");
      os << '\n';
    }
  }
}

struct AssembleHopperPass
    : fusion::impl::AssembleHopperBase<AssembleHopperPass> {
  using AssembleHopperBase::AssembleHopperBase;
  void getDependentDialects(DialectRegistry &registry) const override {
    registerHopperDialects(registry);
  }
  void runOnOperation() override {
    if (failed(write()))
      signalPassFailure();
  }

  LogicalResult write() {
    ModuleOp module = getOperation();
    HopperOptions options;
    options.strict = strict;
    options.assemble = assemble;
    options.ptxas = ptxas;
    FailureOr<std::vector<HopperKernel>> compiled =
        compileHopperKernels(module, options);
    if (failed(compiled))
      return failure();
    if (std::error_code ec =
            llvm::sys::fs::create_directories(directory.getValue()))
      return module.emitError("cannot create ")
             << directory.getValue() << ": " << ec.message();
    std::string list, launches;
    llvm::raw_string_ostream lines(list), details(launches);
    for (const auto &[k, op] :
         llvm::zip(*compiled, module.getOps<KernelOp>())) {
      if (k.way)
        KernelOp(op).emitRemark("way ")
            << k.way << " of running it is taken: " << k.passedOver;
      if (failed(writeFile(module, directory, k.name + ".ptx", k.ptx)))
        return failure();
      llvm::StringRef cubin(reinterpret_cast<const char *>(k.cubin.data()),
                            k.cubin.size());
      if (assemble &&
          failed(writeFile(module, directory, k.name + ".cubin", cubin)))
        return failure();
      describe(k.launch, details);
      for (const artifact::CardStage &stage : k.launch.stages)
        lines << stage.symbol << ' ' << stage.threads << ' ' << stage.registers
              << ' ' << stage.sharedBytes << ' ' << stage.grid.str() << '\n';
    }
    if (failed(writeFile(module, directory, "launches.txt", launches)))
      return failure();
    return writeFile(module, directory, "kernels.txt", list);
  }
};

} // namespace

void fusion::registerHopperPasses() { registerHopperCodegenPasses(); }
