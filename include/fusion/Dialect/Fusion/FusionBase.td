//===- FusionBase.td - Op classes of the fusion dialect ---------*- tablegen -*-===//

#ifndef FUSION_BASE_TD
#define FUSION_BASE_TD

include "fusion/Dialect/Fusion/FusionDialect.td"
include "fusion/Dialect/Fusion/FusionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Fusion_Tensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">,
    "ranked tensor", "::mlir::RankedTensorType">;
def Fusion_BoolTensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self) && "
          "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType().isInteger(1)">,
    "ranked tensor of i1", "::mlir::RankedTensorType">;
def Fusion_FloatTensor : Type<
    CPred<"::llvm::isa<::mlir::RankedTensorType>($_self) && ::llvm::isa<::mlir::FloatType>("
          "::llvm::cast<::mlir::RankedTensorType>($_self).getElementType())">,
    "ranked tensor of floating-point elements", "::mlir::RankedTensorType">;

/// A 64-bit attribute whose accessor is signed (I64Attr's is not).
def Fusion_I64Attr : TypedSignlessIntegerAttrBase<
    I64, "int64_t", "64-bit signless integer attribute">;

class Fusion_Op<string mnemonic, list<Trait> traits = []>
    : Op<Fusion_Dialect, mnemonic, traits>;

def Fusion_Inferring : InferTypeOpAdaptorBase<[{
    static bool isCompatibleReturnTypes(::mlir::TypeRange a, ::mlir::TypeRange b) {
      return ::fusion::compatibleTypes(a, b);
    }
  }]>;

/// Infers its one result from its operands and attributes.
class Fusion_InferringOp<string mnemonic, string opClass, list<Trait> traits = []>
    : Fusion_Op<mnemonic, traits # [Pure, Fusion_Inferring, FusableOpInterface]> {
  string classDeclaration = "::fusion::OpClass getOpClass() { return ::fusion::OpClass::"
      # opClass # "; }\n";
  let extraClassDeclaration = classDeclaration;
  let results = (outs Fusion_Tensor:$result);
}

/// Carries its result type; the verifier checks it.
class Fusion_TypedOp<string mnemonic, string opClass, list<Trait> traits = []>
    : Fusion_Op<mnemonic, traits # [Pure, FusableOpInterface]> {
  string classDeclaration = "::fusion::OpClass getOpClass() { return ::fusion::OpClass::"
      # opClass # "; }\n";
  let extraClassDeclaration = classDeclaration;
  let results = (outs Fusion_Tensor:$result);
}

#endif // FUSION_BASE_TD
