//===- KernelFunction.h - The frame of a kernel on the card -----*- C++ -*-===//
//
// The gpu.module and llvm.func of a kernel, its parameters, its sizes, and the
// emitter of its group's body with loads from global memory.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_KERNELFUNCTION_H
#define FUSION_LIB_CODEGEN_HOPPER_KERNELFUNCTION_H

#include "KernelBuilder.h"

#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Kernels/LowBit.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace fusion::hopper {

/// Loads and scalar code of the card.
class CardTarget : public codegen::EmitterTarget {
public:
  CardTarget(KernelBuilder &k, KernelOp kernel);

  mlir::Value load(codegen::BodyEmitter &emitter, mlir::BlockArgument argument,
                   const codegen::Index &offset, unsigned width) override;
  mlir::Value elementary(codegen::BodyEmitter &emitter, mlir::Operation *op,
                         mlir::Value x) override;
  mlir::Value round(codegen::BodyEmitter &emitter, mlir::Value value,
                    mlir::Type element, bool saturate) override;
  void report(codegen::BodyEmitter &emitter, mlir::Value condition,
              int32_t code) override;

  /// exp(x) of fp32, within about 2 units in the last place.
  Val exp(Val x);
  /// Stores a value in computeType as elements of the result's type.
  void store(codegen::BodyEmitter &emitter, Val value, unsigned result,
             const codegen::Index &offset);

  /// Pointers to every operand and result.
  llvm::SmallVector<Val> pointers;
  Val status; ///< pointer to the launch's status word
  /// Whether all pointers are known to be 16-byte aligned.
  bool aligned = false;
  /// Whether exponentials need not be more exact than fp32 products of their
  /// arguments: all results are rounded to 16 bits.
  bool approximate = false;

private:
  unsigned alignment(mlir::Type element, const codegen::Index &offset,
                     unsigned width) const;
  Val loadPacked(codegen::BodyEmitter &emitter, Val pointer,
                 const codegen::Index &offset, mlir::Type element,
                 unsigned width);
  /// An element of an operand in a packed layout (Kernels/LowBit.h), as memory
  /// holds it otherwise, by its row-major number.
  Val loadFragment(Val pointer, Val number, mlir::RankedTensorType type);
  Val loadStrip(Val pointer, Val number, mlir::RankedTensorType type);
  Val loadFromLayout(kernels::PackedLayout layout, Val pointer,
                     const codegen::Index &offset, mlir::RankedTensorType type,
                     unsigned width);

  KernelBuilder &k;
  KernelOp kernel;
  bool readOnly; ///< no other kernel can be writing the operands
};

/// The gpu.module that holds the functions of a kernel, at the end of `parent`.
mlir::gpu::GPUModuleOp createKernelModule(KernelOp kernel,
                                          mlir::ModuleOp parent);

/// What a template writes into: the function of one stage of a kernel.
struct KernelFunction {
  KernelFunction(KernelOp kernel, const kernels::CardLaunch &launch,
                 unsigned stage, mlir::gpu::GPUModuleOp module, bool strict);
  ~KernelFunction();
  KernelFunction(const KernelFunction &) = delete;

  /// Runs `fast` where every pointer is 16-byte aligned, else `slow`.
  void whenAligned(llvm::function_ref<void()> fast,
                   llvm::function_ref<void()> slow);
  /// Whether every pointer is 16-byte aligned, i1.
  Val allAligned();
  /// Gives up on the kernel: the card has no code for it.
  void fail(const llvm::Twine &reason) {
    if (failure.empty())
      failure = reason.str();
  }
  codegen::IndexBuilder &ix() { return *index; }
  codegen::BodyEmitter &group() { return *emitter; }

  std::string failure; ///< empty: none
  KernelOp kernel;
  const kernels::CardLaunch &launch;
  const artifact::CardStage &stage;
  mlir::gpu::GPUModuleOp module;
  mlir::ImplicitLocOpBuilder builder;
  KernelBuilder k;
  std::unique_ptr<CardTarget> target;
  Val workspace, counters; ///< where the launch has them
  Val sizes;               ///< d0, d1, ..., the run, the status word's address
  llvm::SmallVector<Val> maps; ///< pointers to the tensor maps
  std::unique_ptr<codegen::IndexBuilder> index;
  std::unique_ptr<codegen::BodyEmitter> emitter;
};

// The templates, one file each. A template of several stages is called once
// for each, with `f.stage` set.
void buildRowReduction(KernelFunction &f);
void buildPulled(KernelFunction &f);
void buildSimtMatmul(KernelFunction &f);
void buildSimtAttention(KernelFunction &f);
void buildSkinny(KernelFunction &f);
void buildSkinnyTiles(KernelFunction &f);
void buildFewRows(KernelFunction &f);
void buildWgmmaMatmul(KernelFunction &f);
void buildLowBitMatmul(KernelFunction &f);
void buildAttentionDecode(KernelFunction &f);
void buildAttentionPrefill(KernelFunction &f);

/// Stores the given results element by element, in this grid's threads.
void emitPulled(KernelFunction &f, llvm::ArrayRef<unsigned> results,
                unsigned vector);
/// Waits for the previous kernel where the launch is programmatic.
void waitIfProgrammatic(KernelFunction &f);
/// Nothing that the kernel reads is written by another: only its results have
/// to wait.
bool waitsLate(const KernelFunction &f);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_KERNELFUNCTION_H
