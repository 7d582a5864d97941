//===- Wgmma.cpp - Matrix products of a warp group ------------------------===//

#include "Wgmma.h"
#include "WarpMma.h"
#include "Warpgroup.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

static Val addressOf(KernelBuilder &k, Val shared) {
  return k.wrap(
      LLVM::PtrToIntOp::create(k.builder(), k.builder().getI32Type(), shared));
}

static Val widen(KernelBuilder &k, Val value) {
  return k.wrap(
      arith::ExtUIOp::create(k.builder(), k.builder().getI64Type(), value));
}

Val hopper::tileDescriptor(KernelBuilder &k, Val shared, Major major) {
  Val address = (addressOf(k, shared) & 0x3FFFF) >> 4;
  return widen(k, address) | int64_t(kernels::descriptorBits(major));
}

Val hopper::advanceDescriptor(KernelBuilder &k, Val descriptor, Val bytes) {
  return descriptor + widen(k, bytes >> 4);
}

Val hopper::descriptorWord(Val sixteenths, Major major) {
  return sixteenths + int64_t(kernels::descriptorBits(major) & 0xFFFFFFFF);
}

Val hopper::wholeDescriptor(KernelBuilder &k, Val word, Major major) {
  uint64_t high = kernels::descriptorBits(major) >> 32 << 32;
  return widen(k, word) | int64_t(high);
}

// Opaque, or LLVM would compute in the 64 bits that its shared pointers have.
Val hopper::sharedSixteenths(KernelBuilder &k) {
  return opaque(k, addressOf(k, k.dynamicShared(0)) >> 4);
}

//===----------------------------------------------------------------------===//
// Structs
//===----------------------------------------------------------------------===//

llvm::SmallVector<Val> hopper::unpackStruct(KernelBuilder &k, Val value) {
  llvm::SmallVector<Val> fields;
  auto type = cast<LLVM::LLVMStructType>(value.type());
  for (int64_t i = 0, e = type.getBody().size(); i < e; ++i)
    fields.push_back(
        k.wrap(LLVM::ExtractValueOp::create(k.builder(), value, i)));
  return fields;
}

Val hopper::packStruct(KernelBuilder &k, ArrayRef<Val> fields) {
  SmallVector<Type> types;
  for (Val field : fields)
    types.push_back(field.type());
  ImplicitLocOpBuilder &b = k.builder();
  Value result = LLVM::UndefOp::create(
      b, LLVM::LLVMStructType::getLiteral(b.getContext(), types));
  for (auto [i, field] : llvm::enumerate(fields))
    result = LLVM::InsertValueOp::create(b, result, field, int64_t(i));
  return k.wrap(result);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

Type Wgmma::accumulatorType() {
  ImplicitLocOpBuilder &b = k.builder();
  return LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(n / 2, b.getF32Type()));
}

Val Wgmma::zero() { return packStruct(k, SmallVector<Val>(n / 2, k.f32(0))); }

Val Wgmma::undefined() {
  return k.wrap(LLVM::UndefOp::create(k.builder(), accumulatorType()));
}

/// "$first, $first+1, ..." of `count` operands.
static std::string operandList(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text;
}

// Operands: the accumulator's registers as outputs, the same tied as inputs,
// what A is, B's descriptor.
Val Wgmma::emit(ArrayRef<Value> a, llvm::StringRef aConstraint, Val accumulator,
                Val descriptorB, Major majorA, Major majorB, bool registersA,
                Start start) {
  unsigned count = registers();
  std::string type = element.isBF16() ? "bf16" : "f16";
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) +
                     "k16.f32." + type + "." + type + " {" +
                     operandList(0, count) + "}, ";
  unsigned firstA = 2 * count;
  if (registersA)
    text += "{" + operandList(firstA, a.size()) + "}";
  else
    text += operandList(firstA, 1);
  text += ", $" + std::to_string(firstA + a.size());
  // Whether to accumulate, signs of A and B, then what is transposed.
  text += start == Start::Fresh ? ", 0, 1, 1" : ", 1, 1, 1";
  if (!registersA)
    text += majorA == Major::MN ? ", 1" : ", 0";
  text += majorB == Major::MN ? ", 1;" : ", 0;";

  std::string constraints;
  for (unsigned i = 0; i < count; ++i)
    constraints += "=f,";
  for (unsigned i = 0; i < count; ++i)
    constraints += std::to_string(i) + ",";
  for (size_t i = 0; i < a.size(); ++i)
    constraints += (aConstraint + ",").str();
  constraints += "l,~{memory}";

  SmallVector<Value> operands;
  for (Val v : unpackStruct(k, accumulator))
    operands.push_back(v);
  operands.append(a.begin(), a.end());
  operands.push_back(descriptorB);
  SmallVector<Type> results(count, k.builder().getF32Type());
  return k.wrap(inlineAsm(k, text, constraints, operands, results));
}

Val Wgmma::multiply(Val accumulator, Val descriptorA, Val descriptorB,
                    Major majorA, Major majorB, Start start) {
  return emit({Value(descriptorA)}, "l", accumulator, descriptorB, majorA,
              majorB, /*registersA=*/false, start);
}

Val Wgmma::multiply(Val accumulator, ArrayRef<Val> a, Val descriptorB,
                    Major majorB, Start start) {
  assert(a.size() == 4 && "A is four registers");
  SmallVector<Value> values(a.begin(), a.end());
  return emit(values, "r", accumulator, descriptorB, Major::K, majorB,
              /*registersA=*/true, start);
}

Val Wgmma::multiplyStage(Val accumulator, Val descriptorA, Val descriptorB,
                         Major majorA, Major majorB, Start start) {
  unsigned steps = kernels::kTileDepth / kernels::kWgmmaDepth;
  for (unsigned step = 0; step < steps; ++step) {
    Val a = descriptorA + int64_t(step) * kernels::descriptorDepthStep(majorA);
    Val b = descriptorB + int64_t(step) * kernels::descriptorDepthStep(majorB);
    accumulator = multiply(accumulator, a, b, majorA, majorB,
                           step ? Start::Accumulate : start);
  }
  return accumulator;
}

void hopper::wgmmaFence(KernelBuilder &k) {
  NVVM::WgmmaFenceAlignedOp::create(k.builder());
}

void hopper::wgmmaCommit(KernelBuilder &k) {
  NVVM::WgmmaGroupSyncAlignedOp::create(k.builder());
}

void hopper::wgmmaWait(KernelBuilder &k, unsigned pending) {
  NVVM::WgmmaWaitGroupSyncOp::create(k.builder(), uint64_t(pending));
}

/// A statement through which all registers of `tied` pass.
static KernelBuilder::Vals tie(KernelBuilder &k, llvm::StringRef text,
                               ArrayRef<Val> tied) {
  SmallVector<Value> operands;
  SmallVector<Type> types;
  std::string outputs, inputs;
  for (Val value : tied) {
    SmallVector<Val> fields = isa<LLVM::LLVMStructType>(value.type())
                                  ? unpackStruct(k, value)
                                  : SmallVector<Val>{value};
    for (Val field : fields) {
      outputs += field.type().isF32() ? "=f," : "=r,";
      inputs += std::to_string(operands.size()) + ",";
      operands.push_back(field);
      types.push_back(field.type());
    }
  }
  Value result =
      inlineAsm(k, text, outputs + inputs + "~{memory}", operands, types);
  SmallVector<Val> fields = types.size() == 1 ? SmallVector<Val>{k.wrap(result)}
                                              : unpackStruct(k, k.wrap(result));
  KernelBuilder::Vals results;
  size_t at = 0;
  for (Val value : tied) {
    auto type = dyn_cast<LLVM::LLVMStructType>(value.type());
    size_t count = type ? type.getBody().size() : 1;
    ArrayRef<Val> mine = ArrayRef(fields).slice(at, count);
    results.push_back(type ? packStruct(k, mine) : mine[0]);
    at += count;
  }
  return results;
}

KernelBuilder::Vals hopper::wgmmaWait(KernelBuilder &k, unsigned pending,
                                      ArrayRef<Val> tied) {
  return tie(k,
             "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";",
             tied);
}

KernelBuilder::Vals hopper::wgmmaFence(KernelBuilder &k, ArrayRef<Val> tied) {
  return tie(k, "wgmma.fence.sync.aligned;", tied);
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

static NVVM::LdStMatrixShapeAttr matrixShape(KernelBuilder &k) {
  return NVVM::LdStMatrixShapeAttr::get(k.builder().getContext(), 8, 8);
}

void hopper::storeFragment(KernelBuilder &k, Val address, ArrayRef<Val> pairs,
                           bool transposed) {
  SmallVector<Value> sources(pairs.begin(), pairs.end());
  NVVM::StMatrixOp::create(k.builder(), Value(address), ValueRange(sources),
                           transposed ? NVVM::MMALayout::col
                                      : NVVM::MMALayout::row,
                           matrixShape(k), NVVM::LdStMatrixEltType::B16);
}

KernelBuilder::Vals hopper::loadFragment(KernelBuilder &k, Val address) {
  ImplicitLocOpBuilder &b = k.builder();
  Type type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(4, b.getI32Type()));
  Val loaded = k.wrap(NVVM::LdMatrixOp::create(
      b, type, Value(address), 4u, NVVM::MMALayout::row, matrixShape(k),
      NVVM::LdStMatrixEltType::B16));
  SmallVector<Val> fields = unpackStruct(k, loaded);
  return KernelBuilder::Vals(fields.begin(), fields.end());
}

// kernels::fragmentAddress as code.
Val hopper::fragmentPointer(KernelBuilder &k, Val tile, unsigned block) {
  Val lane = k.lane();
  Val row = (warpInGroup(k) << 4) + (lane & 15);
  Val piece = ((lane >> 4) + int64_t(block)) ^ (lane & 7);
  return k.at(tile, (row << 7) + (piece << 4));
}

// Matrices in the order of an accumulator's registers: rows l / 4 and l / 4 + 8
// of columns [0, 8), then of columns [8, 16).
Val hopper::transposedPointer(KernelBuilder &k, Val tile, unsigned row) {
  Val lane = k.lane();
  Val inTile = (lane & 7) + ((lane >> 4) << 3) + int64_t(row);
  Val piece = ((warpInGroup(k) << 1) + ((lane >> 3) & 1)) ^ (lane & 7);
  return k.at(tile, (inTile << 7) + (piece << 4));
}
