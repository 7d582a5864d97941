//===- KernelBuilder.h - One host kernel under construction --------*- C++
//-*-===//
//
// The function of one `fusion.kernel`, its pointers and sizes, and the builder
// layer that the templates are written in.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOST_KERNELBUILDER_H
#define FUSION_LIB_CODEGEN_HOST_KERNELBUILDER_H

#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Kernels/KernelShape.h"

#include "mlir/IR/BuiltinOps.h"

namespace fusion::codegen::host {

/// Lanes of f32 vectors: one 512-bit register, or two of 256 bits.
constexpr unsigned kLanes = 16;

class KernelBuilder final : public EmitterTarget {
public:
  /// Declares the function in `module` and starts its body.
  KernelBuilder(mlir::ModuleOp module, KernelOp kernel, bool strict);

  KernelOp kernel;
  mlir::OpBuilder builder;
  mlir::Location loc;
  std::optional<IndexBuilder> index;
  std::optional<BodyEmitter> body;
  mlir::Value begin, end; ///< work items, of index type

  IndexBuilder &ix() { return *index; }
  BodyEmitter &e() { return *body; }
  MathBuilder &math() { return body->math(); }
  mlir::Value c(int64_t value) { return index->constant(value); }
  mlir::Value size(const SymExpr &expr) { return index->size(expr); }

  /// Closes the function. Fails when the body could not be emitted.
  llvm::LogicalResult finish();

  // Loops.
  /// Columns [lower, upper): vectors of kLanes, then single ones. The emitter's
  /// width is set for the body; `column` has lanes in the first loop.
  void columns(mlir::Value lower, mlir::Value upper,
               llvm::function_ref<void(Index column)> body);
  /// The same with carried values that `combine` merges: vectors in the first
  /// loop, scalars in the second. Returns scalars.
  using Carried = llvm::SmallVector<mlir::Value>;
  using Combine =
      llvm::function_ref<mlir::Value(unsigned which, mlir::Value, mlir::Value)>;
  Carried reduceColumns(
      mlir::Value lower, mlir::Value upper, mlir::ValueRange neutral,
      llvm::function_ref<Carried(Index column, mlir::ValueRange)> body,
      Combine combine);
  /// One scalar of a vector.
  mlir::Value
  horizontal(mlir::Value vector,
             llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);
  mlir::Value sum(mlir::Value vector); ///< of floats, in any order

  // Memory. Offsets count elements of the given type.
  mlir::Value pointer(mlir::BlockArgument argument);
  mlir::Value resultPointer(unsigned result);
  mlir::Value at(mlir::Value pointer, mlir::Type element, mlir::Value offset);
  mlir::Value loadVector(mlir::Value pointer, mlir::Type element,
                         mlir::Value offset, unsigned width);
  void storeVector(mlir::Value pointer, mlir::Type element, mlir::Value offset,
                   mlir::Value value);
  /// Elements of a tensor's memory in computeType().
  mlir::Value loadElements(mlir::Value base, mlir::Type element,
                           const Index &offset, unsigned width);
  /// f32 at `base[offset]`.
  mlir::Value loadF32(mlir::Value base, mlir::Value offset, unsigned width);
  void storeF32(mlir::Value base, mlir::Value offset, mlir::Value value);
  /// This worker's scratch, from the given byte on.
  mlir::Value scratch(const SymExpr &byteOffset);
  void prefetch(mlir::Value pointer);

  /// Stores a value in computeType() to a result, rounded to its type.
  void storeResult(unsigned result, Index offset, mlir::Value value);
  /// Row-major offset with strides in elements.
  Index offsetOf(llvm::ArrayRef<Index> indices, const SymShape &strides,
                 const SymExpr &start = SymExpr(0));

  /// C = op(A) op(B) on f32, all strides in elements (index type).
  struct Matrix {
    mlir::Value pointer, stride;
    bool transposed = false;
  };
  void sgemm(mlir::Value m, mlir::Value n, mlir::Value k, const Matrix &a,
             const Matrix &b, const Matrix &c);

  // EmitterTarget.
  mlir::Value load(BodyEmitter &emitter, mlir::BlockArgument argument,
                   const Index &offset, unsigned width) override;
  void report(BodyEmitter &emitter, mlir::Value condition,
              int32_t code) override;

  mlir::Value toI64(mlir::Value index);
  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type vf32(unsigned width = kLanes);

private:
  mlir::Value contextField(int64_t byteOffset, mlir::Type type);
  mlir::Value loadNibbles(mlir::Value base, const Index &offset, unsigned width,
                          bool isSigned);

  void storeNibbles(mlir::Value base, const Index &offset, mlir::Value value);
  /// Elements of two bits.
  mlir::Value loadPairs(mlir::Value base, const Index &offset, unsigned width,
                        bool isSigned);
  void storePairs(mlir::Value base, const Index &offset, mlir::Value value);
  /// Bits from the low (or the high) end of its byte to an element's.
  mlir::Value pairShift(mlir::Value offset, bool fromTop);

  bool hasFailed = false;
  mlir::Value context, sizes;
  llvm::SmallVector<mlir::Value> pointers; ///< operands, then results
  mlir::Value scratchBase, sgemmFunction, status;
};

// The templates, one a file. Each builds the whole function.
void emitPointwise(KernelBuilder &k);
void emitRowReduction(KernelBuilder &k, const kernels::RowShape &shape);
void emitMatmul(KernelBuilder &k, const kernels::MatmulShape &shape);
void emitAttention(KernelBuilder &k, const kernels::AttentionShape &shape);
void emitAppend(KernelBuilder &k, const kernels::AppendShape &shape);
void emitSequential(KernelBuilder &k);

/// A pass over the elements of the given results, pulled one by one; takes the
/// share of this call's work items in the kernel's grid.
void emitPulledResults(KernelBuilder &k, llvm::ArrayRef<unsigned> results);

} // namespace fusion::codegen::host

#endif // FUSION_LIB_CODEGEN_HOST_KERNELBUILDER_H
