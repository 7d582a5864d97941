//===- Pipeline.h - mbarriers, stages and tensor copies ---------*- C++ -*-===//
//
// Stages of shared memory that one side fills and another empties, each
// guarded by two mbarriers; and the copies of tiles by TMA that fill them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_PIPELINE_H
#define FUSION_LIB_CODEGEN_HOPPER_PIPELINE_H

#include "KernelBuilder.h"

namespace fusion::hopper {

struct KernelFunction;

/// An mbarrier in shared memory (8 bytes).
class Barrier {
public:
  Barrier() = default;
  Barrier(KernelBuilder &k, Val address) : k(&k), place(address) {}
  Val address() const { return place; }

  /// By one thread, before fenceBarrierInit() and the block's barrier.
  void init(unsigned arrivals);
  /// Waits until the phase of the given parity (i32) has completed.
  void wait(Val parity);
  void arrive();
  /// One arrival that also announces `bytes` of copies to come.
  void arriveExpect(Val bytes);
  void arriveExpect(unsigned bytes);

private:
  KernelBuilder *k = nullptr;
  Val place;
};

/// `count` mbarriers side by side.
struct Barriers {
  Val base;
  Barrier at(KernelBuilder &k, Val index) const {
    return {k, k.at(base, index << 3)};
  }
  Barrier at(KernelBuilder &k, unsigned index) const {
    return {k, k.at(base, 8 * int64_t(index))};
  }
};

/// Makes initialised barriers visible to TMA; by the thread that did it.
void fenceBarrierInit(KernelBuilder &k);

/// A place in the ring: the stage and how often the ring has been gone round
/// (its parity). Two i32 that loops carry.
struct Place {
  Val stage, phase;
  llvm::SmallVector<Val, 2> values() const { return {stage, phase}; }
};

/// A ring of stages. Producer: acquire, expect, copies to full(), next.
/// Consumer: wait, use, release, next.
class Pipeline {
public:
  /// Barriers lie at `barriers`: the full ones, then the empty ones.
  Pipeline(KernelBuilder &k, Val barriers, unsigned stages)
      : k(k), stages(stages), full{barriers},
        empty{k.at(barriers, 8 * int64_t(stages))} {}

  /// By one thread. A stage is filled by `producers` arrivals (and the copies
  /// that they announce), and emptied by `consumers` arrivals.
  void init(unsigned producers, unsigned consumers);

  Place start() { return {k.i32(0), k.i32(0)}; }
  Place place(llvm::ArrayRef<Val> carried) { return {carried[0], carried[1]}; }
  Place next(Place p);

  /// Waits until the stage is free; at first all of them are.
  void acquire(Place p) { empty.at(k, p.stage).wait(p.phase ^ 1); }
  /// Announces the bytes of the copies into the stage.
  void expect(Place p, unsigned bytes) {
    full.at(k, p.stage).arriveExpect(bytes);
  }
  Barrier fullBarrier(Place p) { return full.at(k, p.stage); }

  /// Waits until the stage is filled.
  void wait(Place p) { full.at(k, p.stage).wait(p.phase); }
  /// Gives the stage back where `condition` holds (in one thread of a warp
  /// group, say).
  void release(Val stage, Val condition);

private:
  KernelBuilder &k;
  unsigned stages;
  Barriers full, empty;
};

/// L2 cache policies of tensor copies.
enum class CachePolicy { Normal, EvictFirst, EvictLast };

/// Copies the box at `coordinates` (innermost first) of a tensor map into
/// shared memory; its bytes count at `barrier`. By one thread.
void loadTile(KernelBuilder &k, Val map, Val shared, Barrier barrier,
              llvm::ArrayRef<Val> coordinates,
              CachePolicy policy = CachePolicy::Normal);
/// The other way round; elements outside the tensor are left out. By one
/// thread, after fenceForAsync() of the writers and a barrier.
void storeTile(KernelBuilder &k, Val map, Val shared,
               llvm::ArrayRef<Val> coordinates);
/// `bytes` (a multiple of 16) from global memory, 16-byte aligned.
void loadBytes(KernelBuilder &k, Val global, Val shared, Val bytes,
               Barrier barrier, CachePolicy policy = CachePolicy::Normal);
void commitStores(KernelBuilder &k);
/// Waits until all but the last `pending` groups of stores have read their
/// shared memory (or, with `done`, have completed).
void waitStores(KernelBuilder &k, unsigned pending, bool done = false);
/// Fetches a tensor map ahead of its first use.
void prefetchMap(KernelBuilder &k, Val map);

/// The start of a block that works through pipelines: one thread runs
/// `initBarriers` and prefetches the maps; then all threads of the cluster
/// meet. A programmatic launch lets its successor start, and waits for its
/// predecessor here unless weights are fetched first.
void startPipelines(KernelFunction &f, unsigned cluster, bool weightsFirst,
                    llvm::function_ref<void()> initBarriers);

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_PIPELINE_H
