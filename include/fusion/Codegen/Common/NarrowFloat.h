//===- NarrowFloat.h - 16-, 8- and 4-bit floats as integer code -*- C++ -*-===//
//
// The conversions of Support/FloatTypes.h as generated code: between f32 and
// bit patterns, scalar or vector. Rounding is to nearest, ties to even.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_COMMON_NARROWFLOAT_H
#define FUSION_CODEGEN_COMMON_NARROWFLOAT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace fusion::codegen {

/// f32 from `bits`, an i8 (fp8, fp4 in the low half) or i16 holding `element`.
mlir::Value decodeFloat(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value bits, mlir::Type element);
/// The nearest `element`'s bits of an f32, as i8 or i16. `saturate` matters to
/// fp8: overflow gives the largest finite value instead of infinity or NaN.
mlir::Value encodeFloat(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value value, mlir::Type element,
                        bool saturate = true);
/// An f32 or f64 with only the precision of `element`.
mlir::Value roundThrough(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value value, mlir::Type element,
                         bool saturate = true);

/// The type in which values of `element` are computed: f32 for narrow floats,
/// i8 for narrower integers, signless always.
mlir::Type computeType(mlir::Type element);
/// Whether integers of the type are compared and extended as unsigned.
bool isUnsigned(mlir::Type element);
/// `type`, or a vector of it.
mlir::Type vectorOf(mlir::Type type, unsigned width);

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_NARROWFLOAT_H
