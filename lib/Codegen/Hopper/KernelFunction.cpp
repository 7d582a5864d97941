//===- KernelFunction.cpp - The frame of a kernel on the card -------------===//

#include "KernelFunction.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

//===----------------------------------------------------------------------===//
// CardTarget
//===----------------------------------------------------------------------===//

CardTarget::CardTarget(KernelBuilder &k, KernelOp kernel)
    : k(k), kernel(kernel), readOnly(!kernels::isProgrammatic(kernel)) {}

/// Floats that the hardware converts by itself.
static bool isHalf(Type element) { return element.isF16() || element.isBF16(); }

/// Elements as memory holds them: floats of 8 bits and less by their bits.
static Type memoryElement(Type element) {
  if (isHalf(element) || element.isF32() || element.isF64())
    return element;
  return IntegerType::get(element.getContext(),
                          std::max(8u, element.getIntOrFloatBitWidth()));
}

unsigned CardTarget::alignment(Type element, const Index &offset,
                               unsigned width) const {
  int64_t bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  if (!aligned || width == 1)
    return bytes;
  return unsigned(
      std::min<int64_t>(16, (offset.divisor & -offset.divisor) * bytes));
}

// Two elements a byte, the first one in the low half; one lane after another.
Val CardTarget::loadPacked(BodyEmitter &emitter, Val pointer,
                           const Index &offset, Type element, unsigned width) {
  ImplicitLocOpBuilder &b = k.builder();
  unsigned bits = element.getIntOrFloatBitWidth(), perByte = 8 / bits;
  Type byte = b.getI8Type();
  SmallVector<Value> lanes;
  for (unsigned lane = 0; lane < width; ++lane) {
    Val at = k.toI64(k.wrap(offset.base)) + int64_t(lane);
    Val raw = k.load(pointer, at / int64_t(perByte), byte, {0, readOnly});
    Value shift = arith::TruncIOp::create(
        b, byte, Value((at % int64_t(perByte)) * int64_t(bits)));
    Val field = k.wrap(arith::ShRUIOp::create(b, Value(raw), shift));
    if (isa<FloatType>(element) || isUnsigned(element)) {
      field = k.wrap(arith::AndIOp::create(
          b, Value(field), Value(k.constant(byte, (1 << bits) - 1))));
    } else {
      Val up = k.constant(byte, 8 - bits);
      field = k.wrap(arith::ShLIOp::create(b, Value(field), Value(up)));
      field = k.wrap(arith::ShRSIOp::create(b, Value(field), Value(up)));
    }
    lanes.push_back(field);
  }
  if (width == 1)
    return k.wrap(lanes.front());
  return k.wrap(
      vector::FromElementsOp::create(b, VectorType::get({width}, byte), lanes));
}

Value CardTarget::load(BodyEmitter &emitter, BlockArgument argument,
                       const Index &offset, unsigned width) {
  Type element = elementType(argument);
  Val pointer = pointers[argument.getArgNumber()];
  Type stored = memoryElement(element);
  Val value;
  auto layout = kernels::getPackedLayout(kernel, argument.getArgNumber());
  if (layout != kernels::PackedLayout::RowMajor) {
    value = loadFromLayout(layout, pointer, offset,
                           cast<RankedTensorType>(argument.getType()), width);
  } else if (element.getIntOrFloatBitWidth() < 8 && !element.isInteger(1)) {
    value = loadPacked(emitter, pointer, offset, element, width);
  } else {
    Type type = vectorOf(element.isInteger(1) ? element : stored, width);
    value = k.load(pointer, k.wrap(offset.base), type,
                   {alignment(stored, offset, width), readOnly});
  }
  if (isHalf(element))
    return k.extend(value);
  if (isa<FloatType>(element) && !element.isF32() && !element.isF64())
    return decodeFloat(k.builder(), k.builder().getLoc(), value, element);
  return value;
}

void CardTarget::store(BodyEmitter &emitter, Val value, unsigned result,
                       const Index &offset) {
  Type element = elementType(kernel.getYield().getValues()[result]);
  auto vector = dyn_cast<VectorType>(value.type());
  unsigned width = vector ? vector.getNumElements() : 1;
  if (isHalf(element))
    value = k.round(value, element);
  else if (isa<FloatType>(element) && !element.isF32() && !element.isF64())
    value =
        k.wrap(encodeFloat(k.builder(), k.builder().getLoc(), value, element,
                           /*saturate=*/false));
  k.store(value, pointers[kernel.getBlock()->getNumArguments() + result],
          k.wrap(offset.base),
          {alignment(memoryElement(element), offset, width), false});
}

Value CardTarget::round(BodyEmitter &emitter, Value value, Type element,
                        bool saturate) {
  if (isHalf(element) && getElementTypeOrSelf(value).isF32())
    return k.extend(k.round(k.wrap(value), element));
  return EmitterTarget::round(emitter, value, element, saturate);
}

// Any of the codes that are reported will do.
void CardTarget::report(BodyEmitter &emitter, Value condition, int32_t code) {
  emitter.index().when(condition,
                       [&] { k.store(k.i32(code), status, k.i64(0), {}); });
}

// exp(x) = 2^(x * log2 e): the product's rounding error, which the power
// magnifies by |x|, is computed exactly and put back to first order.
Val CardTarget::exp(Val x) {
  ImplicitLocOpBuilder &b = k.builder();
  constexpr double kLog2e = 1.4426950408889634;
  constexpr double kHigh = float(kLog2e), kLow = kLog2e - kHigh;
  auto real = [&](double v) {
    TypedAttr attr = b.getF32FloatAttr(float(v));
    if (auto type = dyn_cast<VectorType>(x.type()))
      attr = DenseElementsAttr::get(type, Attribute(attr));
    return Value(arith::ConstantOp::create(b, attr));
  };
  Value high = arith::MulFOp::create(b, Value(x), real(kHigh));
  if (approximate)
    return k.wrap(math::Exp2Op::create(b, high, arith::FastMathFlags::afn));
  Value minus = arith::NegFOp::create(b, high);
  Value low = math::FmaOp::create(b, x, real(kHigh), minus);
  low = math::FmaOp::create(b, x, real(kLow), low);
  Value power = math::Exp2Op::create(b, high, arith::FastMathFlags::afn);
  Value scaled = arith::MulFOp::create(
      b, power, arith::MulFOp::create(b, low, real(0.6931471805599453)));
  Value sum = arith::AddFOp::create(b, power, scaled);
  // Where the power is 0 or infinite, so is the result (and `low` may be NaN).
  Value finite =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                            math::AbsFOp::create(b, Value(x)), real(87.0));
  return k.wrap(arith::SelectOp::create(b, finite, sum, power));
}

// A quotient within 2 units in the last place, for divisors of at least 1.
static Val divide(KernelBuilder &k, Val a, Val b) {
  return k.wrap(arith::DivFOp::create(k.builder(), Value(a), Value(b),
                                      arith::FastMathFlags::arcp |
                                          arith::FastMathFlags::afn));
}

Value CardTarget::elementary(BodyEmitter &emitter, Operation *op, Value x) {
  if (!getElementTypeOrSelf(x).isF32())
    return nullptr;
  Val v = k.wrap(x);
  if (isa<ExpOp>(op))
    return exp(v);
  if (isa<SigmoidOp, SiluOp>(op)) {
    auto silu = dyn_cast<SiluOp>(op);
    Val scaled = v;
    if (silu && silu.getAlpha().convertToFloat() != 1)
      scaled = v * k.f32(silu.getAlpha().convertToFloat());
    Val one = k.constant(v.type(), 1);
    Val power = exp(k.wrap(arith::NegFOp::create(k.builder(), Value(scaled))));
    return divide(k, silu ? v : one, one + power);
  }
  if (isa<RsqrtOp>(op))
    return math::RsqrtOp::create(k.builder(), x, arith::FastMathFlags::afn);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// KernelFunction
//===----------------------------------------------------------------------===//

gpu::GPUModuleOp hopper::createKernelModule(KernelOp kernel, ModuleOp parent) {
  OpBuilder b(parent.getContext());
  b.setInsertionPointToEnd(parent.getBody());
  Attribute target = NVVM::NVVMTargetAttr::get(
      b.getContext(), 3, "nvptx64-nvidia-cuda", "sm_90a", "+ptx90");
  return gpu::GPUModuleOp::create(b, kernel.getLoc(),
                                  (kernel.getSymName() + "_sm_90a").str(),
                                  b.getArrayAttr(target));
}

/// The function of a stage; its parameters as artifact::CardStage has them.
static LLVM::LLVMFuncOp createFunction(ImplicitLocOpBuilder &b,
                                       const artifact::CardStage &stage,
                                       unsigned buffers, unsigned pointers,
                                       unsigned residentBlocks) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  SmallVector<Type> types(pointers, pointer);
  types.append(stage.maps.size(), LLVM::LLVMPointerType::get(b.getContext()));
  auto func = LLVM::LLVMFuncOp::create(
      b, stage.symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                b.getDenseI32ArrayAttr({int32_t(stage.threads), 1, 1}));
  // Without it ptxas spills rather than give up a second block of this size.
  if (residentBlocks)
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  b.getI32IntegerAttr(residentBlocks));
  else if (stage.threads >= 512 ||
           (stage.threads >= 256 && stage.sharedBytes) ||
           stage.sharedBytes > 100 * 1024)
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  b.getI32IntegerAttr(1));
  if (stage.cluster > 1)
    func->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                  b.getDenseI32ArrayAttr({int32_t(stage.cluster), 1, 1}));
  // The workspace and the counters are shared with other blocks.
  for (unsigned i = 0; i < buffers; ++i)
    func.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                    b.getUnitAttr());
  for (unsigned i = pointers; i < types.size(); ++i) {
    func.setArgAttr(
        i, LLVM::LLVMDialect::getByValAttrName(),
        TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), 128)));
    func.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                    b.getI64IntegerAttr(64));
    func.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(),
                    b.getUnitAttr());
  }
  return func;
}

KernelFunction::KernelFunction(KernelOp kernel,
                               const kernels::CardLaunch &launch,
                               unsigned stage, gpu::GPUModuleOp module,
                               bool strict)
    : kernel(kernel), launch(launch), stage(launch.stages[stage]),
      module(module), builder(kernel.getLoc(), module.getContext()),
      k(builder, module) {
  ImplicitLocOpBuilder &b = builder;
  unsigned count =
      kernel.getBlock()->getNumArguments() + kernel.getYield().getNumOperands();
  bool hasWorkspace = launch.workspaceBytes.asConstant() != 0;
  unsigned pointers = count + hasWorkspace + (launch.counterBytes != 0) + 1;
  b.setInsertionPointToEnd(module.getBody());
  LLVM::LLVMFuncOp func =
      createFunction(b, this->stage, count, pointers, launch.residentBlocks);
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPointToStart(entry);

  target = std::make_unique<CardTarget>(k, kernel);
  auto argument = entry->args_begin();
  for (unsigned i = 0; i < count; ++i)
    target->pointers.push_back(k.wrap(*argument++));
  if (hasWorkspace)
    workspace = k.wrap(*argument++);
  if (launch.counterBytes)
    counters = k.wrap(*argument++);
  sizes = k.wrap(*argument++);
  for (; argument != entry->args_end(); ++argument)
    maps.push_back(k.wrap(*argument));
  index = std::make_unique<IndexBuilder>(
      b, kernel.getLoc(), [this](unsigned number) {
        return Value(k.toIndex(
            k.load(sizes, k.i64(number), builder.getI64Type(), {8, true})));
      });
  // What is not used disappears.
  Value address =
      k.load(sizes, k.i64(kernel.getNumSizes() + 1), b.getI64Type(), {8, true});
  target->status = k.wrap(LLVM::IntToPtrOp::create(
      b, LLVM::LLVMPointerType::get(b.getContext(), 1), address));
  emitter = std::make_unique<BodyEmitter>(*index, *target, strict);
}

KernelFunction::~KernelFunction() = default;

Val KernelFunction::allAligned() {
  ImplicitLocOpBuilder &b = builder;
  Value bits;
  for (Val p : target->pointers) {
    Value address = LLVM::PtrToIntOp::create(b, b.getI64Type(), p);
    bits = bits ? Value(arith::OrIOp::create(b, bits, address)) : address;
  }
  return k.wrap(arith::AndIOp::create(b, bits, Value(k.i64(15)))) == k.i64(0);
}

void KernelFunction::whenAligned(llvm::function_ref<void()> fast,
                                 llvm::function_ref<void()> slow) {
  ix().when(
      allAligned(),
      [&] {
        target->aligned = true;
        fast();
        target->aligned = false;
      },
      slow);
}
