//===- HostPasses.td - Passes of the host code generator --------*- tablegen -*-===//

#ifndef FUSION_CODEGEN_HOSTPASSES_TD
#define FUSION_CODEGEN_HOSTPASSES_TD

include "mlir/Pass/PassBase.td"

def GenerateHost : Pass<"fusion-generate-host", "::mlir::ModuleOp"> {
  let summary = "Replaces kernels by their functions for the host CPU";
  let description = [{
    Each `fusion.kernel` becomes an `llvm.func` of its name with the signature
    of `HostKernel` (Artifact/HostABI.h): arith, math, scf and vector
    operations over pointers, before anything is lowered.
  }];
  let options = [Option<"strict", "strict", "bool", "false",
                        "Round at every operation">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::LLVM::LLVMDialect"];
}

#endif // FUSION_CODEGEN_HOSTPASSES_TD
