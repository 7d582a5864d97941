//===- Warpgroup.h - Roles of warp groups and what orders them --*- C++ -*-===//
//
// A block is made of warp groups of 128 threads. One of them moves data (the
// producer) and needs few registers; the others compute (consumers). Named
// barriers meet one warp group at a time; fences order generic accesses with
// those of TMA and wgmma.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_WARPGROUP_H
#define FUSION_LIB_CODEGEN_HOPPER_WARPGROUP_H

#include "KernelBuilder.h"

namespace fusion::hopper {

constexpr unsigned kWarpgroup = 128; ///< threads

/// The warp group of the thread, the same register in all of its threads.
Val warpgroup(KernelBuilder &k);
/// The thread's number within its warp group, and the warp's.
Val threadInGroup(KernelBuilder &k);
Val warpInGroup(KernelBuilder &k);
/// `value` of lane 0, in a uniform register.
Val uniform(KernelBuilder &k, Val value);
/// True in one lane of the warp, which has to be converged.
Val elect(KernelBuilder &k);

/// Runs `producer` in one thread of warp group 0 and `consumer`, given its
/// number from 0, in the others. Registers a thread: producers' plus consumers'
/// must not exceed what the launch has (`threads` times at most 65536 /
/// threads, rounded down to 8).
struct RoleRegisters {
  unsigned producer = 40, consumer = 232;
};
void splitRoles(KernelBuilder &k, RoleRegisters registers,
                llvm::function_ref<void()> producer,
                llvm::function_ref<void(Val)> consumer);
/// The same where the whole of warp group 0 is the producer.
void splitWarpgroups(KernelBuilder &k, RoleRegisters registers,
                     llvm::function_ref<void()> producer,
                     llvm::function_ref<void(Val)> consumer);

/// Meets `threads` threads at barrier `id` (1 to 15; 0 is the block's).
void meet(KernelBuilder &k, Val id, unsigned threads);
/// Counts this thread at the barrier without waiting.
void arrive(KernelBuilder &k, Val id, unsigned threads);

/// The block's number within its cluster.
Val blockInCluster(KernelBuilder &k);
/// All threads of the cluster that have not ended arrive; the wait makes what
/// they wrote to shared memory before visible to each other.
void arriveCluster(KernelBuilder &k);
void waitCluster(KernelBuilder &k);
/// The same place in the shared memory of another block of the cluster.
Val sharedOf(KernelBuilder &k, Val shared, Val block);

/// Makes this thread's writes to shared memory visible to TMA and wgmma.
void fenceForAsync(KernelBuilder &k);
/// Makes this thread's global writes visible to the whole card before what
/// follows, and the other way round.
void fenceDevice(KernelBuilder &k);
/// Adds to an i32 in global memory, with acquire and release; the old value.
Val atomicAdd(KernelBuilder &k, Val pointer, Val value);

/// A PTX statement. `results` are the types of outputs; a struct of them, or
/// the one result itself, comes back.
mlir::Value inlineAsm(KernelBuilder &k, llvm::StringRef text,
                      llvm::StringRef constraints,
                      llvm::ArrayRef<mlir::Value> operands,
                      llvm::ArrayRef<mlir::Type> results);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_WARPGROUP_H
