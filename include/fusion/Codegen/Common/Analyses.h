//===- Analyses.h - LLVM's analyses for a target ----------------*- C++ -*-===//

#ifndef FUSION_CODEGEN_COMMON_ANALYSES_H
#define FUSION_CODEGEN_COMMON_ANALYSES_H

#include "llvm/Passes/PassBuilder.h"

namespace fusion::codegen {

/// The four analysis managers that LLVM's passes ask, registered for a machine.
struct Analyses {
  explicit Analyses(llvm::TargetMachine &machine) : builder(&machine) {
    builder.registerModuleAnalyses(module);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(function);
    builder.registerLoopAnalyses(loop);
    builder.crossRegisterProxies(loop, function, components, module);
  }

  llvm::PassBuilder builder;
  llvm::LoopAnalysisManager loop;
  llvm::FunctionAnalysisManager function;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager module;
};

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_ANALYSES_H
