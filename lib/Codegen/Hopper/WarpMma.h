//===- WarpMma.h - Single instructions of a warp ----------------*- C++ -*-===//
//
// What the templates need of PTX beyond arithmetic: tensor-core products of one
// warp, packed 16-bit operands, votes, fast base-2 functions, and an escape to
// inline PTX.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_WARPMMA_H
#define FUSION_LIB_CODEGEN_HOPPER_WARPMMA_H

#include "KernelBuilder.h"

namespace fusion::hopper {

using Vals = KernelBuilder::Vals;

/// Inline PTX. `constraints` as LLVM has them; it always orders memory.
Vals ptx(KernelBuilder &k, llvm::ArrayRef<mlir::Type> results,
         llvm::StringRef text, llvm::StringRef constraints,
         llvm::ArrayRef<Val> operands);
/// The same for an instruction that only computes.
Vals purePtx(KernelBuilder &k, llvm::ArrayRef<mlir::Type> results,
             llvm::StringRef text, llvm::StringRef constraints,
             llvm::ArrayRef<Val> operands);

/// sum[16x8] + a[16x16] b[16x8] of f16 or bf16 in fp32; fragments as PTX has
/// them.
Vals mma16x8x16(KernelBuilder &k, mlir::Type element, llvm::ArrayRef<Val> sum,
                llvm::ArrayRef<Val> a, Val b0, Val b1);
/// The same i32, computed anew wherever this is built: what follows from it is
/// not kept in registers through the loops around.
Val opaque(KernelBuilder &k, Val value);
/// Transposes an 8x8 matrix of 16-bit elements, one pair a lane.
Val transpose8x8(KernelBuilder &k, Val pair);
/// Two fp32 as a pair of f16 or bf16, `low` in the low half.
Val pack2(KernelBuilder &k, mlir::Type element, Val low, Val high);
/// Bytes of the pair (a, b) by a selector of prmt.
Val permute(KernelBuilder &k, Val a, Val b, unsigned selector);

Val exp2Fast(KernelBuilder &k, Val x); ///< 2^x, denormals flushed
Val log2Fast(KernelBuilder &k, Val x);
Val maximum(KernelBuilder &k, Val a, Val b); ///< of fp32; ignores NaN
Val negate(KernelBuilder &k, Val x);
Val fma(KernelBuilder &k, Val a, Val b, Val c);
/// a / b, within 2 units in the last place.
Val divideFast(KernelBuilder &k, Val a, Val b);
Val greater(KernelBuilder &k, Val a, Val b); ///< of fp32
Val voteAny(KernelBuilder &k, Val condition);
Val shuffleXor(KernelBuilder &k, Val value, unsigned mask);
void syncWarp(KernelBuilder &k);

Val bitcast(KernelBuilder &k, Val value, mlir::Type type);
/// The 32-bit address of a pointer to shared memory.
Val sharedAddress(KernelBuilder &k, Val pointer);

/// `while (condition(v)) v = body(v)`.
Vals whileLoop(KernelBuilder &k, llvm::ArrayRef<Val> init,
               llvm::function_ref<Val(llvm::ArrayRef<Val>)> condition,
               llvm::function_ref<Vals(llvm::ArrayRef<Val>)> body);
/// Values from one of two branches.
Vals choose(KernelBuilder &k, Val condition, llvm::function_ref<Vals()> then,
            llvm::function_ref<Vals()> otherwise);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_WARPMMA_H
