//===- Warpgroup.cpp - Roles of warp groups and what orders them ----------===//

#include "Warpgroup.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

Val hopper::uniform(KernelBuilder &k, Val value) {
  return k.wrap(NVVM::ShflOp::create(k.builder(), value.type(), k.i32(-1),
                                     value, k.i32(0), k.i32(31),
                                     NVVM::ShflKind::idx, UnitAttr()));
}

Val hopper::warpgroup(KernelBuilder &k) { return uniform(k, k.thread() >> 7); }
Val hopper::threadInGroup(KernelBuilder &k) { return k.thread() & 127; }
Val hopper::warpInGroup(KernelBuilder &k) { return threadInGroup(k) >> 5; }

Val hopper::elect(KernelBuilder &k) {
  return k.wrap(NVVM::ElectSyncOp::create(k.builder(), k.builder().getI1Type(),
                                          /*membermask=*/Value()));
}

void hopper::splitWarpgroups(KernelBuilder &k, RoleRegisters registers,
                             llvm::function_ref<void()> producer,
                             llvm::function_ref<void(Val)> consumer) {
  Val group = warpgroup(k);
  k.whenElse(
      group == 0,
      [&] {
        NVVM::SetMaxRegisterOp::create(k.builder(), registers.producer,
                                       NVVM::SetMaxRegisterAction::decrease);
        producer();
      },
      [&] {
        NVVM::SetMaxRegisterOp::create(k.builder(), registers.consumer,
                                       NVVM::SetMaxRegisterAction::increase);
        consumer(group - 1);
      });
}

void hopper::splitRoles(KernelBuilder &k, RoleRegisters registers,
                        llvm::function_ref<void()> producer,
                        llvm::function_ref<void(Val)> consumer) {
  splitWarpgroups(
      k, registers,
      [&] {
        k.when(threadInGroup(k) < 32, [&] { k.when(elect(k), producer); });
      },
      consumer);
}

void hopper::meet(KernelBuilder &k, Val id, unsigned threads) {
  NVVM::BarrierOp::create(k.builder(), /*res=*/Type(), id, k.i32(threads),
                          /*reductionOp=*/NVVM::BarrierReductionAttr(),
                          /*reductionPredicate=*/Value());
}

void hopper::arrive(KernelBuilder &k, Val id, unsigned threads) {
  NVVM::BarrierArriveOp::create(k.builder(), id, k.i32(threads));
}

Val hopper::blockInCluster(KernelBuilder &k) {
  return k.wrap(
      NVVM::BlockInClusterIdXOp::create(k.builder(), k.builder().getI32Type()));
}

void hopper::arriveCluster(KernelBuilder &k) {
  NVVM::ClusterArriveOp::create(k.builder(), /*aligned=*/UnitAttr());
}

void hopper::waitCluster(KernelBuilder &k) {
  NVVM::ClusterWaitOp::create(k.builder(), /*aligned=*/UnitAttr());
}

Val hopper::sharedOf(KernelBuilder &k, Val shared, Val block) {
  auto type = LLVM::LLVMPointerType::get(k.builder().getContext(), 7);
  return k.wrap(NVVM::MapaOp::create(k.builder(), type, shared, block));
}

void hopper::fenceForAsync(KernelBuilder &k) {
  auto space = NVVM::SharedSpaceAttr::get(k.builder().getContext(),
                                          NVVM::SharedSpace::shared_cta);
  NVVM::FenceProxyOp::create(k.builder(), NVVM::ProxyKind::async_shared, space);
}

void hopper::fenceDevice(KernelBuilder &k) {
  inlineAsm(k, "fence.acq_rel.gpu;", "~{memory}", {}, {});
}

Val hopper::atomicAdd(KernelBuilder &k, Val pointer, Val value) {
  return k.wrap(inlineAsm(k, "atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;",
                          "=r,l,r,~{memory}", {pointer, value},
                          {k.builder().getI32Type()}));
}

Value hopper::inlineAsm(KernelBuilder &k, llvm::StringRef text,
                        llvm::StringRef constraints, ArrayRef<Value> operands,
                        ArrayRef<Type> results) {
  MLIRContext *context = k.builder().getContext();
  Type type;
  if (results.size() == 1)
    type = results[0];
  else if (results.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(context, results);
  auto op = LLVM::InlineAsmOp::create(
      k.builder(), type, operands, text, constraints,
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(context, LLVM::AsmDialect::AD_ATT),
      /*operand_attrs=*/ArrayAttr());
  return results.empty() ? Value() : op.getRes();
}
