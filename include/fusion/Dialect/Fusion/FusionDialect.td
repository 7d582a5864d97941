//===- FusionDialect.td - The fusion dialect, its attributes ----*- tablegen -*-===//
//
// Tensors of a neural network, one op per idea. Exporters' spellings live in
// Import and Raise only; after Raise there is one spelling for each idea.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_DIALECT_FUSION_TD
#define FUSION_DIALECT_FUSION_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Fusion_Dialect : Dialect {
  let name = "fusion";
  let cppNamespace = "::fusion";
  let summary = "Operations on tensors with symbolic sizes, and fusion groups";
  let description = [{
    Values are ranked tensors. A dimension that is not known at compile time is
    a polynomial over named symbols (`#fusion.shape`), so that equal sizes are
    equal attributes. Weights are `fusion.weight` constants that name a place
    in a file; their bytes never enter the IR.

    Broadcasting follows ONNX (numpy): shapes are aligned at the last axis and
    a dimension of size 1 stretches.

    Numerics: 16-bit floats (and narrower ones) are computed in fp32, fp32 in
    fp32, f64 in f64, integers in their own width. A value is rounded to its
    element type where it leaves its group; with --numerics=strict at every op,
    as the ONNX graph does. The notes of the ops say how exact the computation
    before that rounding is.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// Names of discardable attributes that the phases agree on.
    static constexpr llvm::StringLiteral kNameAttr = "fusion.name";
    static constexpr llvm::StringLiteral kRoleAttr = "fusion.role";
    static constexpr llvm::StringLiteral kSitesAttr = "fusion.sites";
    static constexpr llvm::StringLiteral kStateAttr = "fusion.state";
    static constexpr llvm::StringLiteral kBucketAttr = "fusion.bucket";
    /// On functions and programs: "card", or absent for the host.
    static constexpr llvm::StringLiteral kDeviceAttr = "fusion.device";
    /// On kernels of modules with programs for a card: the devices ("host",
    /// "card") whose programs launch them.
    static constexpr llvm::StringLiteral kDevicesAttr = "fusion.devices";
    /// On kernels that only make constants at compile time.
    static constexpr llvm::StringLiteral kCompileTimeAttr =
        "fusion.compile_time";
    static constexpr llvm::StringLiteral kFileAttr = "fusion.onnx_file";
    static constexpr llvm::StringLiteral kGuardsAttr = "fusion.guards";
    static constexpr llvm::StringLiteral kDimsAttr = "fusion.dims";

    void registerAttributes();
    void registerOps();
  }];
}

class Fusion_Attr<string name, string attrMnemonic>
    : AttrDef<Fusion_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Fusion_ShapeAttr : Fusion_Attr<"Shape", "shape"> {
  let summary = "the symbolic shape of a tensor (its type's encoding)";
  let description = [{
    One expression per dimension, in the normal form of `SymExpr`. Names and
    numbers stand bare, other expressions in quotes:

    ```mlir
    tensor<?x?x4096xbf16, #fusion.shape<[batch, "past + seq", 4096]>>
    ```

    `storage`, when present, is the shape that the tensor is laid out with in
    memory where that is larger than its logical shape (a KV cache with room
    for more tokens): strides come from `storage`, bounds from the dimensions.
    It has the same rank.

    ```mlir
    tensor<1x8x?x64xf32, #fusion.shape<[1, 8, past, 64], storage = [1, 8, 2048, 64]>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$dims,
                        ArrayRefParameter<"::mlir::StringAttr">:$storage);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fusion_WeightAttr : Fusion_Attr<"WeightRef", "weight"> {
  let summary = "a place in a file that holds a constant's bytes";
  let description = [{
    `file` is the path as the importer opened it; `offset` and `length` are in
    bytes. The bytes are little endian, row-major, sub-byte elements packed
    with the first one in the low bits. `stored` is the element type of those
    bytes where it is not that of the tensor: they are rounded once when they
    are read, and finite values stay finite.

    ```mlir
    #fusion.weight<"model.onnx.data", 4096, 1179648>
    #fusion.weight<"model.onnx.data", 4096, 1179648, f32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$file, "uint64_t":$offset,
                        "uint64_t":$length,
                        OptionalParameter<"::mlir::Type">:$stored);
  let assemblyFormat = "`<` $file `,` $offset `,` $length (`,` $stored^)? `>`";
  let extraClassDeclaration = [{
    /// The type of the bytes of a weight of type `tensor`.
    ::mlir::RankedTensorType getFileType(::mlir::Type tensor) const;
  }];
}

def Fusion_KernelAttr : Fusion_Attr<"KernelConfig", "config"> {
  let summary = "the kernel family that executes a group, and its parameters";
  let description = [{
    `family` names a family of lib/Kernels; `params` are its parameters.

    ```mlir
    #fusion.config<"row_reduction", {threads = 256 : i64}>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$family,
                        "::mlir::DictionaryAttr":$params);
  let assemblyFormat = "`<` $family `,` $params `>`";
}

#endif // FUSION_DIALECT_FUSION_TD
