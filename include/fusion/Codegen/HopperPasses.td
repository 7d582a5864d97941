//===- HopperPasses.td - Passes of the card's code generator ----*- tablegen -*-===//

#ifndef FUSION_CODEGEN_HOPPER_PASSES_TD
#define FUSION_CODEGEN_HOPPER_PASSES_TD

include "mlir/Pass/PassBase.td"

def GenerateHopper : Pass<"fusion-generate-hopper", "::mlir::ModuleOp"> {
  let summary = "Write each fusion.kernel as a kernel for sm_90a";
  let description = [{
    Each `fusion.kernel` becomes a `gpu.module` of the same name that holds one
    `llvm.func` a stage, in the llvm, nvvm, arith, vector and scf dialects. With
    `way` > 0 the preferred ways of running it are passed over.
  }];
  let options = [
    Option<"strict", "strict", "bool", "false", "Round where the ONNX graph rounds">,
    Option<"way", "way", "unsigned", "0", "First way of running a kernel that is tried">,
  ];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect"];
}

def AssembleHopper : Pass<"fusion-assemble-hopper", "::mlir::ModuleOp"> {
  let summary = "Compile each fusion.kernel to PTX and cubin files";
  let description = [{
    Writes `NAME.ptx`, `NAME.cubin` and `kernels.txt` (a line a function: name,
    threads a block, registers, dynamic shared bytes, grid) into `directory`.
  }];
  let options = [
    Option<"directory", "directory", "std::string", "\".\"", "Where the files go">,
    Option<"strict", "strict", "bool", "false", "Round where the ONNX graph rounds">,
    Option<"assemble", "assemble", "bool", "true", "Run ptxas">,
    Option<"ptxas", "ptxas", "std::string", "\"\"", "Path of ptxas">,
  ];
}

#endif // FUSION_CODEGEN_HOPPER_PASSES_TD
