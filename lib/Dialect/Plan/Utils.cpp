//===- Utils.cpp - Element types, views, live ranges ----------------------===//

#include "fusion/Dialect/Fusion/ShapeUtils.h"
#include "fusion/Dialect/Plan/PlanOps.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;
using artifact::DType;

static std::optional<DType> getIntegerType(IntegerType type) {
  bool isUnsigned = type.isUnsigned();
  switch (type.getWidth()) {
  case 1:
    return DType::Bool;
  case 2:
    return isUnsigned ? DType::U2 : DType::I2;
  case 4:
    return isUnsigned ? DType::U4 : DType::I4;
  case 8:
    return isUnsigned ? DType::U8 : DType::I8;
  case 16:
    return isUnsigned ? DType::U16 : DType::I16;
  case 32:
    return isUnsigned ? DType::U32 : DType::I32;
  case 64:
    return isUnsigned ? DType::U64 : DType::I64;
  default:
    return std::nullopt;
  }
}

std::optional<DType> plan::getDType(Type element) {
  using Found = std::optional<DType>;
  return llvm::TypeSwitch<Type, Found>(element)
      .Case([](IntegerType type) { return getIntegerType(type); })
      .Case([](Float32Type) { return DType::F32; })
      .Case([](Float16Type) { return DType::F16; })
      .Case([](BFloat16Type) { return DType::BF16; })
      .Case([](Float64Type) { return DType::F64; })
      .Case([](Float8E4M3FNType) { return DType::F8E4M3FN; })
      .Case([](Float8E4M3FNUZType) { return DType::F8E4M3FNUZ; })
      .Case([](Float8E5M2Type) { return DType::F8E5M2; })
      .Case([](Float8E5M2FNUZType) { return DType::F8E5M2FNUZ; })
      .Case([](Float8E8M0FNUType) { return DType::F8E8M0; })
      .Case([](Float4E2M1FNType) { return DType::F4E2M1; })
      .Default(Found());
}

std::pair<Value, SymExpr> plan::resolveViews(Value buffer) {
  SymExpr offset = 0;
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    offset = offset + getExpr(view.getOffsetAttr());
    buffer = view.getSource();
  }
  return {buffer, offset};
}

llvm::DenseMap<Operation *, LiveRange> plan::getLiveRanges(ProgramOp program) {
  llvm::DenseMap<Operation *, LiveRange> ranges;
  uint32_t index = 0;
  for (LaunchOp launch : program.getBody().getOps<LaunchOp>()) {
    for (Value operand : launch->getOperands()) {
      Operation *alloc = operand.getDefiningOp();
      while (auto view = dyn_cast<ViewOp>(alloc))
        alloc = view.getSource().getDefiningOp();
      if (!isa<AllocOp>(alloc))
        continue;
      ranges.try_emplace(alloc, LiveRange{index, index}).first->second.last =
          index;
    }
    ++index;
  }
  return ranges;
}
