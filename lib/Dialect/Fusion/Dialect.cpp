//===- Dialect.cpp - Registration of the fusion dialect -------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fusion;

#include "fusion/Dialect/Fusion/FusionDialect.cpp.inc"
#include "fusion/Dialect/Fusion/FusionInterfaces.cpp.inc"

namespace {
/// Short names for the shapes and weights that a dump repeats.
struct FusionAsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<WeightRefAttr>(attr)) {
      os << "weight";
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

void FusionDialect::initialize() {
  registerAttributes();
  registerOps();
  addInterfaces<FusionAsmInterface>();
}

Operation *FusionDialect::materializeConstant(OpBuilder &builder,
                                              Attribute value, Type type,
                                              Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}
