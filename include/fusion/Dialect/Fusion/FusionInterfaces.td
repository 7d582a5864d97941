//===- FusionInterfaces.td - What fusion asks of an op ----------*- tablegen -*-===//
//
// The fusion phase names no op: it sees these interfaces only.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_INTERFACES_TD
#define FUSION_INTERFACES_TD

include "mlir/IR/OpBase.td"

def FusableOpInterface : OpInterface<"FusableOpInterface"> {
  let cppNamespace = "::fusion";
  let description = [{
    How an op takes part in fusion: its class, the map from its result's
    iteration space to each operand, and its arithmetic.
  }];
  let methods = [
    InterfaceMethod<"The op's class, see fusion::OpClass.",
      "::fusion::OpClass", "getOpClass", (ins)>,
    InterfaceMethod<[{
      The map from an element of result 0 to the operand's element that it
      reads, or nullopt where it reads none or more than one, or where the
      place is no affine function of the index (reshape, gather).
    }], "std::optional<::mlir::AffineMap>", "getOperandMap",
      (ins "unsigned":$operand), "", [{
        return ::fusion::defaultOperandMap($_op, operand);
      }]>,
    InterfaceMethod<[{
      The axes of operand 0 that a reduction or row reduction goes over,
      ascending.
    }], "::llvm::SmallVector<int64_t>", "getReducedAxes", (ins), "", [{
        return ::fusion::defaultReducedAxes($_op);
      }]>,
    InterfaceMethod<"Scalar floating-point operations for one element of result 0.",
      "double", "getFlopsPerElement", (ins), "", [{ return 1.0; }]>,
    InterfaceMethod<[{
      True when the op exists only to say how another op reads its operand
      (views, broadcasts): computing it costs nothing inside a consumer.
    }], "bool", "isFree", (ins), "", [{
      ::fusion::OpClass c = $_op.getOpClass();
      return c == ::fusion::OpClass::View || c == ::fusion::OpClass::Constant;
    }]>,
  ];
}

#endif // FUSION_INTERFACES_TD
