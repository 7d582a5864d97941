//===- KernelBuilder.h - A thin layer for writing kernels -------*- C++ -*-===//
//
// Values with operators, loops and branches as functions that take lambdas,
// and the reductions of warps and blocks. A template written over it reads
// like the kernel that it makes; op construction stays in KernelBuilder.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_KERNELBUILDER_H
#define FUSION_LIB_CODEGEN_HOPPER_KERNELBUILDER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace fusion::hopper {

class KernelBuilder;

/// An SSA value with operators: integers are signed, floats may contract.
/// Either side may be a vector when the other is its element type (or a
/// constant): the scalar is broadcast.
class Val {
public:
  Val() = default;
  Val(KernelBuilder *k, mlir::Value value) : k(k), value(value) {}
  operator mlir::Value() const { return value; }
  explicit operator bool() const { return bool(value); }
  mlir::Type type() const { return value.getType(); }
  KernelBuilder *builder() const { return k; }

private:
  KernelBuilder *k = nullptr;
  mlir::Value value;
};

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b);
Val operator%(Val a, Val b);
Val operator+(Val a, int64_t b);
Val operator-(Val a, int64_t b);
Val operator*(Val a, int64_t b);
Val operator/(Val a, int64_t b);
Val operator%(Val a, int64_t b);
Val operator<(Val a, Val b);
Val operator<(Val a, int64_t b);
Val operator==(Val a, Val b);
Val operator==(Val a, int64_t b);
Val operator!=(Val a, Val b);
/// Bits of integers; shifts to the right are logical.
Val operator&(Val a, Val b);
Val operator|(Val a, Val b);
Val operator^(Val a, Val b);
Val operator&(Val a, int64_t b);
Val operator|(Val a, int64_t b);
Val operator^(Val a, int64_t b);
Val operator<<(Val a, int64_t bits);
Val operator>>(Val a, int64_t bits);
Val operator&&(Val a, Val b);
Val operator||(Val a, Val b);
Val operator!(Val a);

/// How a kernel touches global memory.
struct Access {
  unsigned alignment = 0; ///< in bytes; 0: that of the element
  bool readOnly = false;  ///< nobody writes the buffer while the kernel runs
};

class KernelBuilder {
public:
  using Vals = llvm::SmallVector<Val, 4>;
  /// Merges two partial results of a reduction.
  using Combine =
      llvm::function_ref<Vals(llvm::ArrayRef<Val>, llvm::ArrayRef<Val>)>;

  /// Emits at `b`; shared memory becomes globals of `module`.
  KernelBuilder(mlir::ImplicitLocOpBuilder &b, mlir::Operation *module)
      : b(b), module(module) {}
  mlir::ImplicitLocOpBuilder &builder() { return b; }
  Val wrap(mlir::Value value) { return {this, value}; }

  // Constants and conversions.
  Val i32(int64_t value);
  Val i64(int64_t value);
  Val f32(double value);
  Val constant(mlir::Type type, int64_t value);
  Val toI64(Val value);   ///< sign-extends or passes through
  Val toIndex(Val value); ///< to `index`
  Val toI32(Val value);   ///< truncates or passes through
  Val splat(Val value, unsigned lanes);
  Val bitcast(Val value, mlir::Type type);
  Val toInteger(Val pointer); ///< its address, i64
  mlir::VectorType vectorType(unsigned lanes, unsigned bits); ///< of integers
  Val vector(llvm::ArrayRef<Val> elements);
  /// fp32 of a narrower float, and the other way, rounding to nearest even.
  Val extend(Val value);
  Val round(Val value, mlir::Type element);

  // Where the thread is.
  Val thread(); ///< within the block, i32
  Val block();  ///< i32
  Val blocks(); ///< i32
  Val lane();
  Val warp();

  // Choices and loops.
  Val select(Val condition, Val a, Val b);
  Val min(Val a, Val b); ///< of integers
  void when(Val condition, llvm::function_ref<void()> then);
  void whenElse(Val condition, llvm::function_ref<void()> then,
                llvm::function_ref<void()> otherwise);
  /// Values from one of two branches.
  Vals choose(Val condition, llvm::function_ref<Vals()> then,
              llvm::function_ref<Vals()> otherwise);
  void loop(Val begin, Val end, Val step, llvm::function_ref<void(Val)> body);
  Vals loop(Val begin, Val end, Val step, llvm::ArrayRef<Val> init,
            llvm::function_ref<Vals(Val, llvm::ArrayRef<Val>)> body);

  // Memory. Offsets count elements of `type`'s element type.
  Val load(Val pointer, Val offset, mlir::Type type, Access access);
  void store(Val value, Val pointer, Val offset, Access access);
  /// 16 bytes at a global address as four i32, zeros where not `active`. They
  /// leave the caches first. Such loads keep their order, and stay before a
  /// wait for the previous kernel.
  Vals loadStreamed(Val address, Val active);
  /// A load of 16-byte aligned shared memory that stays where it is.
  Val loadVolatile(Val pointer, Val offset, mlir::Type type);
  /// Uninitialised shared memory, 16-byte aligned.
  Val shared(mlir::Type element, unsigned count);
  /// The launch's dynamic shared memory from byte `offset` on; its start is
  /// 1024-byte aligned.
  Val dynamicShared(unsigned offset = 0);
  /// `pointer`, so many bytes further.
  Val at(Val pointer, Val bytes);
  Val at(Val pointer, int64_t bytes);
  void barrier();
  /// Whether this block is the last of `count` to come here for
  /// `counters[number]`, which is zero before and after; it then sees what the
  /// others wrote before. All threads of the block have to come, and get the
  /// same answer.
  Val arriveLast(Val counters, Val number, unsigned count);

  // Programmatic dependent launch.
  void waitForPrevious();
  void releaseNext();

  /// Reduces over `threads` neighbouring threads (a power of two up to 32, or
  /// the whole block of `threads`); every thread gets the result, the same
  /// bits in each.
  Vals reduce(llvm::ArrayRef<Val> partial, unsigned threads, Combine combine);
  /// Reduces the lanes of a vector, pairwise.
  Val reduceLanes(Val vector, llvm::function_ref<Val(Val, Val)> combine);
  Val extract(Val vector, unsigned lane);
  Val insert(Val element, Val vector, unsigned lane);
  Val slice(Val vector, unsigned first, unsigned lanes);

private:
  Val shuffleXor(Val value, unsigned mask);
  Vals reduceWarp(llvm::ArrayRef<Val> partial, unsigned width, Combine combine);
  Vals reduceBlock(llvm::ArrayRef<Val> partial, unsigned threads,
                   Combine combine);

  mlir::ImplicitLocOpBuilder &b;
  mlir::Operation *module;
  unsigned sharedArrays = 0;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_KERNELBUILDER_H
