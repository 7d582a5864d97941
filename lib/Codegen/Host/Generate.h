//===- Generate.h - The steps of host code generation -----------*- C++ -*-===//

#ifndef FUSION_LIB_CODEGEN_HOST_GENERATE_H
#define FUSION_LIB_CODEGEN_HOST_GENERATE_H

#include "fusion/Codegen/Host.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace fusion::codegen::host {

/// Adds the kernel's function to `module` (arith, scf, vector, llvm dialects).
llvm::LogicalResult generateKernel(mlir::ModuleOp module, KernelOp kernel,
                                   bool strict);
/// Everything to the llvm dialect.
llvm::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);
/// And on to LLVM IR, optimised for the level.
std::unique_ptr<llvm::Module> toLLVM(mlir::ModuleOp module,
                                     llvm::LLVMContext &context,
                                     artifact::KernelCode::Target level);
/// An ELF object file.
using ObjectBytes = llvm::SmallVector<char, 0>;
llvm::Expected<ObjectBytes> toObject(llvm::Module &module,
                                     artifact::KernelCode::Target level);

/// Lays relocatable objects out as one image and resolves every reference.
/// `entries` gives the offset of each symbol of global linkage.
struct FlatImage {
  std::vector<uint8_t> bytes;
  std::map<std::string, uint64_t> entries;
};
llvm::Expected<FlatImage> linkFlat(llvm::ArrayRef<ObjectBytes> objects);

} // namespace fusion::codegen::host

#endif // FUSION_LIB_CODEGEN_HOST_GENERATE_H
