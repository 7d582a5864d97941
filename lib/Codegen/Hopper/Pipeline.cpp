//===- Pipeline.cpp - mbarriers, stages and tensor copies -----------------===//

#include "Pipeline.h"

#include "KernelFunction.h"
#include "Warpgroup.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

void Barrier::init(unsigned arrivals) {
  NVVM::MBarrierInitOp::create(k->builder(), place, k->i32(arrivals),
                               /*predicate=*/Value());
}

// Its assembly is the loop: the hint is how long one try may sleep, in ns.
void Barrier::wait(Val parity) {
  NVVM::MBarrierTryWaitParityOp::create(k->builder(), place, parity,
                                        k->i32(10000000));
}

void Barrier::arrive() {
  NVVM::MBarrierArriveOp::create(k->builder(), TypeRange(), place, Value());
}

void Barrier::arriveExpect(Val bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(k->builder(), TypeRange(), place,
                                         bytes, NVVM::MemScopeKind::CTA,
                                         /*relaxed=*/false, Value());
}
void Barrier::arriveExpect(unsigned bytes) { arriveExpect(k->i32(bytes)); }

void hopper::fenceBarrierInit(KernelBuilder &k) {
  NVVM::FenceMbarrierInitOp::create(k.builder());
}

void Pipeline::init(unsigned producers, unsigned consumers) {
  for (unsigned stage = 0; stage < stages; ++stage) {
    full.at(k, stage).init(producers);
    empty.at(k, stage).init(consumers);
  }
}

Place Pipeline::next(Place p) {
  Val stage = p.stage + 1;
  Val wrap = stage == int64_t(stages);
  return {k.select(wrap, k.i32(0), stage),
          k.select(wrap, p.phase ^ 1, p.phase)};
}

void Pipeline::release(Val stage, Val condition) {
  Barrier barrier = empty.at(k, stage);
  k.when(condition, [&] { barrier.arrive(); });
}

//===----------------------------------------------------------------------===//
// Tensor copies
//===----------------------------------------------------------------------===//

static Val inCluster(KernelBuilder &k, Val shared) {
  auto type = LLVM::LLVMPointerType::get(k.builder().getContext(), 7);
  return k.wrap(LLVM::AddrSpaceCastOp::create(k.builder(), type, shared));
}

/// What createpolicy.fractional makes of the whole access.
static Value policyValue(KernelBuilder &k, CachePolicy policy) {
  switch (policy) {
  case CachePolicy::Normal:
    return {};
  case CachePolicy::EvictFirst:
    return k.i64(0x12F0000000000000);
  case CachePolicy::EvictLast:
    return k.i64(0x14F0000000000000);
  }
  return {};
}

static SmallVector<Value> asValues(ArrayRef<Val> values) {
  return SmallVector<Value>(values.begin(), values.end());
}

void hopper::loadTile(KernelBuilder &k, Val map, Val shared, Barrier barrier,
                      ArrayRef<Val> coordinates, CachePolicy policy) {
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      k.builder(), Value(inCluster(k, shared)), Value(map),
      ValueRange(asValues(coordinates)), Value(barrier.address()),
      /*im2colOffsets=*/ValueRange(), /*multicastMask=*/Value(),
      policyValue(k, policy), NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
      NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
}

void hopper::storeTile(KernelBuilder &k, Val map, Val shared,
                       ArrayRef<Val> coordinates) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
      k.builder(), Value(map), Value(shared), ValueRange(asValues(coordinates)),
      /*l2CacheHint=*/Value(), NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}

void hopper::loadBytes(KernelBuilder &k, Val global, Val shared, Val bytes,
                       Barrier barrier, CachePolicy policy) {
  NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
      k.builder(), Value(inCluster(k, shared)), Value(global),
      Value(barrier.address()), Value(bytes), /*multicastMask=*/Value(),
      policyValue(k, policy));
}

void hopper::commitStores(KernelBuilder &k) {
  NVVM::CpAsyncBulkCommitGroupOp::create(k.builder());
}

void hopper::waitStores(KernelBuilder &k, unsigned pending, bool done) {
  NVVM::CpAsyncBulkWaitGroupOp::create(
      k.builder(), pending, done ? UnitAttr() : k.builder().getUnitAttr());
}

void hopper::prefetchMap(KernelBuilder &k, Val map) {
  NVVM::PrefetchOp::create(k.builder(), NVVM::PrefetchCacheLevelAttr(),
                           NVVM::CacheEvictionPriorityAttr(), Value(map),
                           Value(), k.builder().getUnitAttr());
}

void hopper::startPipelines(KernelFunction &f, unsigned cluster,
                            bool weightsFirst,
                            llvm::function_ref<void()> initBarriers) {
  KernelBuilder &k = f.k;
  bool programmatic = kernels::isProgrammatic(f.kernel);
  // Before a block writes into the other's memory, that one has to be there.
  if (cluster > 1)
    arriveCluster(k);
  k.when(k.thread() == 0, [&] {
    initBarriers();
    fenceBarrierInit(k);
    for (Val map : f.maps)
      prefetchMap(k, map);
  });
  if (programmatic)
    k.releaseNext();
  if (programmatic && !weightsFirst)
    k.waitForPrevious();
  k.barrier();
  if (cluster > 1)
    waitCluster(k);
}
