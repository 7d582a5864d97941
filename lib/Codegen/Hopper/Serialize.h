//===- Serialize.h - From kernel IR to PTX and cubin ------------*- C++ -*-===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_SERIALIZE_H
#define FUSION_LIB_CODEGEN_HOPPER_SERIALIZE_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fusion::hopper {

/// Lowers a gpu.module in place to the llvm dialect.
mlir::LogicalResult lowerToLLVM(mlir::gpu::GPUModuleOp module);

/// The optimised LLVM IR of a module in the llvm dialect, as text.
mlir::FailureOr<std::string> translateToLLVM(mlir::gpu::GPUModuleOp module);

/// The PTX of a module in the llvm dialect; it reports errors itself.
mlir::FailureOr<std::string> translateToPTX(mlir::gpu::GPUModuleOp module);

/// What ptxas said of one function.
struct FunctionReport {
  unsigned registers = 0, sharedBytes = 0, spillBytes = 0, stackBytes = 0;
  bool spilled() const { return spillBytes || stackBytes; }
};

/// What ptxas made of one kernel.
struct Assembled {
  std::vector<uint8_t> cubin;
  std::map<std::string, FunctionReport> functions; ///< by name
  std::string error; ///< empty when the kernel is fit for use
  bool spilled() const {
    return llvm::any_of(functions, [](auto &f) { return f.second.spilled(); });
  }
};

/// Path of ptxas: `given`, else on PATH, in /usr/local/cuda/bin, or in the
/// nvidia-cuda-nvcc package of a Python found on PATH; empty when there is
/// none.
std::string findPtxas(const std::string &given);

/// Runs ptxas on PTX that holds the functions of one kernel. Thread-safe.
/// Spills or a stack frame beyond `spillAllowance` bytes, and wgmma
/// instructions that ptxas serialised, are errors.
Assembled assemble(const std::string &ptxas, const std::string &ptx,
                   unsigned spillAllowance);

/// Reads ptxas' report into `result`.
void parseReport(const std::string &report, unsigned spillAllowance,
                 Assembled &result);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_SERIALIZE_H
