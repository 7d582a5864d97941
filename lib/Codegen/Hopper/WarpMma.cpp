//===- WarpMma.cpp - Single instructions of a warp ------------------------===//

#include "WarpMma.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

static SmallVector<Value> values(llvm::ArrayRef<Val> list) {
  return SmallVector<Value>(list.begin(), list.end());
}

static Vals wrapAll(KernelBuilder &k, ValueRange list) {
  Vals result;
  for (Value v : list)
    result.push_back(k.wrap(v));
  return result;
}

static Vals emitPtx(KernelBuilder &k, llvm::ArrayRef<Type> results,
                    llvm::StringRef text, llvm::StringRef constraints,
                    llvm::ArrayRef<Val> operands, bool sideEffects) {
  ImplicitLocOpBuilder &b = k.builder();
  Type type;
  if (results.size() == 1)
    type = results.front();
  else if (results.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(b.getContext(), results);
  auto op = LLVM::InlineAsmOp::create(
      b, b.getLoc(), type, ValueRange(values(operands)), text, constraints,
      sideEffects, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
      ArrayAttr());
  if (results.size() <= 1)
    return wrapAll(k, op->getResults());
  Vals parts;
  for (int64_t i = 0; i < int64_t(results.size()); ++i)
    parts.push_back(
        k.wrap(LLVM::ExtractValueOp::create(b, op->getResult(0), i)));
  return parts;
}

Vals hopper::ptx(KernelBuilder &k, llvm::ArrayRef<Type> results,
                 llvm::StringRef text, llvm::StringRef constraints,
                 llvm::ArrayRef<Val> operands) {
  std::string all = constraints.str();
  all += all.empty() ? "~{memory}" : ",~{memory}";
  return emitPtx(k, results, text, all, operands, true);
}

Vals hopper::purePtx(KernelBuilder &k, llvm::ArrayRef<Type> results,
                     llvm::StringRef text, llvm::StringRef constraints,
                     llvm::ArrayRef<Val> operands) {
  return emitPtx(k, results, text, constraints, operands, false);
}

Vals hopper::mma16x8x16(KernelBuilder &k, Type element, llvm::ArrayRef<Val> sum,
                        llvm::ArrayRef<Val> a, Val b0, Val b1) {
  std::string type = element.isF16() ? "f16" : "bf16";
  std::string text = "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." +
                     type +
                     ".f32 {$0,$1,$2,$3}, {$8,$9,$10,$11}, {$12,$13}, "
                     "{$0,$1,$2,$3};";
  Vals operands(sum.begin(), sum.end());
  operands.append(a.begin(), a.end());
  operands.push_back(b0);
  operands.push_back(b1);
  Type f32 = k.builder().getF32Type();
  return purePtx(k, {f32, f32, f32, f32}, text,
                 "=f,=f,=f,=f,0,1,2,3,r,r,r,r,r,r", operands);
}

Val hopper::opaque(KernelBuilder &k, Val value) {
  return ptx(k, {value.type()}, "", "=r,0", {value})[0];
}

Val hopper::transpose8x8(KernelBuilder &k, Val pair) {
  return ptx(k, {k.builder().getI32Type()},
             "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r",
             {pair})[0];
}

Val hopper::pack2(KernelBuilder &k, Type element, Val low, Val high) {
  llvm::StringRef text = element.isF16() ? "cvt.rn.f16x2.f32 $0, $1, $2;"
                                         : "cvt.rn.bf16x2.f32 $0, $1, $2;";
  return purePtx(k, {k.builder().getI32Type()}, text, "=r,f,f", {high, low})[0];
}

Val hopper::permute(KernelBuilder &k, Val a, Val b, unsigned selector) {
  return purePtx(k, {k.builder().getI32Type()}, "prmt.b32 $0, $1, $2, $3;",
                 "=r,r,r,n", {a, b, k.i32(selector)})[0];
}

static Val intrinsic(KernelBuilder &k, llvm::StringRef name, Val x) {
  ImplicitLocOpBuilder &b = k.builder();
  return k.wrap(LLVM::CallIntrinsicOp::create(
                    b, x.type(), b.getStringAttr(name), ValueRange(Value(x)))
                    .getResult(0));
}

Val hopper::exp2Fast(KernelBuilder &k, Val x) {
  return intrinsic(k, "llvm.nvvm.ex2.approx.ftz.f", x);
}

Val hopper::log2Fast(KernelBuilder &k, Val x) {
  return intrinsic(k, "llvm.nvvm.lg2.approx.ftz.f", x);
}

Val hopper::maximum(KernelBuilder &k, Val a, Val b) {
  return k.wrap(arith::MaxNumFOp::create(k.builder(), Value(a), Value(b)));
}

Val hopper::negate(KernelBuilder &k, Val x) {
  return k.wrap(arith::NegFOp::create(k.builder(), Value(x)));
}

Val hopper::fma(KernelBuilder &k, Val a, Val b, Val c) {
  return k.wrap(math::FmaOp::create(k.builder(), Value(a), Value(b), Value(c)));
}

Val hopper::divideFast(KernelBuilder &k, Val a, Val b) {
  return k.wrap(arith::DivFOp::create(k.builder(), Value(a), Value(b),
                                      arith::FastMathFlags::arcp |
                                          arith::FastMathFlags::afn));
}

Val hopper::greater(KernelBuilder &k, Val a, Val b) {
  return k.wrap(arith::CmpFOp::create(k.builder(), arith::CmpFPredicate::OGT,
                                      Value(a), Value(b)));
}

Val hopper::voteAny(KernelBuilder &k, Val condition) {
  ImplicitLocOpBuilder &b = k.builder();
  return k.wrap(NVVM::VoteSyncOp::create(b, b.getI1Type(), Value(k.i32(-1)),
                                         Value(condition),
                                         NVVM::VoteSyncKind::any));
}

Val hopper::shuffleXor(KernelBuilder &k, Val value, unsigned mask) {
  return k.wrap(NVVM::ShflOp::create(k.builder(), value.type(), k.i32(-1),
                                     value, k.i32(mask), k.i32(31),
                                     NVVM::ShflKind::bfly, UnitAttr()));
}

void hopper::syncWarp(KernelBuilder &k) {
  NVVM::SyncWarpOp::create(k.builder(), Value(k.i32(-1)));
}

Val hopper::bitcast(KernelBuilder &k, Val value, Type type) {
  return k.wrap(LLVM::BitcastOp::create(k.builder(), type, Value(value)));
}

Val hopper::sharedAddress(KernelBuilder &k, Val pointer) {
  ImplicitLocOpBuilder &b = k.builder();
  return k.wrap(LLVM::PtrToIntOp::create(b, b.getI32Type(), Value(pointer)));
}

Vals hopper::whileLoop(KernelBuilder &k, llvm::ArrayRef<Val> init,
                       llvm::function_ref<Val(llvm::ArrayRef<Val>)> condition,
                       llvm::function_ref<Vals(llvm::ArrayRef<Val>)> body) {
  ImplicitLocOpBuilder &b = k.builder();
  SmallVector<Value> initial = values(init);
  SmallVector<Type> types;
  for (Value v : initial)
    types.push_back(v.getType());
  auto loop = scf::WhileOp::create(
      b, types, initial,
      [&](OpBuilder &, Location, ValueRange args) {
        Val go = condition(wrapAll(k, args));
        scf::ConditionOp::create(b, go, args);
      },
      [&](OpBuilder &, Location, ValueRange args) {
        scf::YieldOp::create(b, values(body(wrapAll(k, args))));
      });
  return wrapAll(k, loop.getResults());
}

Vals hopper::choose(KernelBuilder &k, Val condition,
                    llvm::function_ref<Vals()> then,
                    llvm::function_ref<Vals()> otherwise) {
  ImplicitLocOpBuilder &b = k.builder();
  // The types are known once the first branch is built.
  auto probe = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  SmallVector<Value> first, second;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(probe.thenBlock());
    first = values(then());
    b.setInsertionPointToStart(probe.elseBlock());
    second = values(otherwise());
  }
  SmallVector<Type> types;
  for (Value v : first)
    types.push_back(v.getType());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(probe);
  auto op = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  auto fill = [&](Block *from, Block *to, ArrayRef<Value> results) {
    from->getTerminator()->erase();
    to->getOperations().splice(to->end(), from->getOperations());
    b.setInsertionPointToEnd(to);
    scf::YieldOp::create(b, results);
  };
  auto clear = [](Block *block) {
    if (!block->empty())
      block->getTerminator()->erase();
  };
  clear(op.thenBlock());
  clear(op.elseBlock());
  fill(probe.thenBlock(), op.thenBlock(), first);
  fill(probe.elseBlock(), op.elseBlock(), second);
  probe.erase();
  return wrapAll(k, op.getResults());
}
