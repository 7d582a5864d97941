//===- ElementwiseOps.td - One element in, one element out ------*- tablegen -*-===//

#ifndef FUSION_ELEMENTWISE_OPS_TD
#define FUSION_ELEMENTWISE_OPS_TD

include "fusion/Dialect/Fusion/FusionBase.td"

class Fusion_UnaryOp<string mnemonic, int flops>
    : Fusion_InferringOp<mnemonic, "Elementwise"> {
  let arguments = (ins Fusion_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = classDeclaration
      # "double getFlopsPerElement() { return " # flops # "; }\n";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *,
        std::optional<::mlir::Location>, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      types.push_back(::fusion::logicalType(adaptor.getInput().getType()));
      return ::mlir::success();
    }
  }];
}

class Fusion_BinaryOp<string mnemonic, int flops, list<Trait> traits = []>
    : Fusion_InferringOp<mnemonic, "Elementwise", traits> {
  let arguments = (ins Fusion_Tensor:$lhs, Fusion_Tensor:$rhs);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = classDeclaration
      # "double getFlopsPerElement() { return " # flops # "; }\n";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *,
        std::optional<::mlir::Location> loc, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::fusion::inferBroadcast(loc, adaptor.getOperands(),
          ::fusion::elementType(adaptor.getLhs()), types);
    }
  }];
}

/// Compares numbers; the result is i1.
class Fusion_CompareOp<string mnemonic>
    : Fusion_InferringOp<mnemonic, "Elementwise"> {
  let arguments = (ins Fusion_Tensor:$lhs, Fusion_Tensor:$rhs);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(::mlir::MLIRContext *context,
        std::optional<::mlir::Location> loc, Adaptor adaptor,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::fusion::inferBroadcast(loc, adaptor.getOperands(),
          ::mlir::IntegerType::get(context, 1), types);
    }
  }];
}

def Fusion_NegOp : Fusion_UnaryOp<"neg", 1> {
  let summary = "negation";
  let description = [{
    `result[i] = -x[i]`, element by element.
    Numerics: exact; integers wrap.

    ```mlir
    %y = fusion.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }]; let hasFolder = 1;
}

def Fusion_AbsOp : Fusion_UnaryOp<"abs", 1> {
  let summary = "absolute value";
  let description = [{
    `result[i] = |x[i]|`, element by element.
    Numerics: exact; integers wrap.

    ```mlir
    %y = fusion.abs %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_ExpOp : Fusion_UnaryOp<"exp", 8> {
  let summary = "natural exponential";
  let description = [{
    `result[i] = exp(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument; on the card 2^-21 relative, less exact only where every result
    of the kernel is rounded to 16 bits.

    ```mlir
    %y = fusion.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_LogOp : Fusion_UnaryOp<"log", 8> {
  let summary = "natural logarithm";
  let description = [{
    `result[i] = ln(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument.

    ```mlir
    %y = fusion.log %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SqrtOp : Fusion_UnaryOp<"sqrt", 4> {
  let summary = "square root";
  let description = [{
    `result[i] = sqrt(x[i])`, element by element.
    Numerics: correctly rounded.

    ```mlir
    %y = fusion.sqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_RsqrtOp : Fusion_UnaryOp<"rsqrt", 4> {
  let summary = "reciprocal square root";
  let description = [{
    `result[i] = 1 / sqrt(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 (on the card by its
    own instruction, 2^-22 relative).

    ```mlir
    %y = fusion.rsqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_ReciprocalOp : Fusion_UnaryOp<"reciprocal", 4> {
  let summary = "reciprocal";
  let description = [{
    `result[i] = 1 / x[i]`, element by element.
    Numerics: correctly rounded.

    ```mlir
    %y = fusion.reciprocal %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SquareOp : Fusion_UnaryOp<"square", 1> {
  let summary = "square";
  let description = [{
    `result[i] = x[i] * x[i]`, element by element.
    Numerics: correctly rounded; integers wrap.

    ```mlir
    %y = fusion.square %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SinOp : Fusion_UnaryOp<"sin", 10> {
  let summary = "sine, of an angle in radians";
  let description = [{
    `result[i] = sin(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument, large angles included.

    ```mlir
    %y = fusion.sin %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_CosOp : Fusion_UnaryOp<"cos", 10> {
  let summary = "cosine, of an angle in radians";
  let description = [{
    `result[i] = cos(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument, large angles included.

    ```mlir
    %y = fusion.cos %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_TanOp : Fusion_UnaryOp<"tan", 12> {
  let summary = "tangent";
  let description = [{
    `result[i] = tan(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.tan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AsinOp : Fusion_UnaryOp<"asin", 12> {
  let summary = "arc sine";
  let description = [{
    `result[i] = asin(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.asin %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AcosOp : Fusion_UnaryOp<"acos", 12> {
  let summary = "arc cosine";
  let description = [{
    `result[i] = acos(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.acos %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AtanOp : Fusion_UnaryOp<"atan", 12> {
  let summary = "arc tangent";
  let description = [{
    `result[i] = atan(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.atan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SinhOp : Fusion_UnaryOp<"sinh", 12> {
  let summary = "hyperbolic sine";
  let description = [{
    `result[i] = sinh(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.sinh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_CoshOp : Fusion_UnaryOp<"cosh", 12> {
  let summary = "hyperbolic cosine";
  let description = [{
    `result[i] = cosh(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.cosh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AsinhOp : Fusion_UnaryOp<"asinh", 14> {
  let summary = "inverse hyperbolic sine";
  let description = [{
    `result[i] = asinh(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.asinh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AcoshOp : Fusion_UnaryOp<"acosh", 14> {
  let summary = "inverse hyperbolic cosine";
  let description = [{
    `result[i] = acosh(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.acosh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AtanhOp : Fusion_UnaryOp<"atanh", 14> {
  let summary = "inverse hyperbolic tangent";
  let description = [{
    `result[i] = atanh(x[i])`, element by element.
    Numerics: computed in f64, within 1 unit in the last place of fp32.

    ```mlir
    %y = fusion.atanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_TanhOp : Fusion_UnaryOp<"tanh", 10> {
  let summary = "hyperbolic tangent";
  let description = [{
    `result[i] = tanh(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument.

    ```mlir
    %y = fusion.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_ErfOp : Fusion_UnaryOp<"erf", 12> {
  let summary = "Gauss error function";
  let description = [{
    `result[i] = erf(x[i])`, element by element.
    Numerics: within 2 units in the last place of fp32 for every finite
    argument.

    ```mlir
    %y = fusion.erf %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SigmoidOp : Fusion_UnaryOp<"sigmoid", 12> {
  let summary = "logistic function";
  let description = [{
    `result[i] = 1 / (1 + exp(-x[i]))`, element by element.
    Numerics: within 3 units in the last place of fp32; on the card by its
    exponential and quick division, 2^-20 relative.

    ```mlir
    %y = fusion.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SiluOp : Fusion_UnaryOp<"silu", 13> {
  let arguments = (ins Fusion_Tensor:$input,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let summary = "SiLU (Swish) activation";
  let description = [{
    `result[i] = x[i] * sigmoid(alpha * x[i])`, element by element.
    Numerics: by sigmoid, 1 unit in the last place of fp32 more.

    ```mlir
    %y = fusion.silu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_ReluOp : Fusion_UnaryOp<"relu", 1> {
  let summary = "rectified linear unit";
  let description = [{
    `result[i] = max(x[i], 0)`, element by element.
    Numerics: exact; NaN stays.

    ```mlir
    %y = fusion.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SoftplusOp : Fusion_UnaryOp<"softplus", 16> {
  let summary = "softplus";
  let description = [{
    `result[i] = ln(1 + exp(x[i]))`, element by element.
    Numerics: as max(x, 0) + ln(1 + exp(-|x|)), by the functions of exp and
    log.

    ```mlir
    %y = fusion.softplus %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_FloorOp : Fusion_UnaryOp<"floor", 1> {
  let summary = "round towards minus infinity";
  let description = [{
    `result[i] = floor(x[i])`, element by element.
    Numerics: exact.

    ```mlir
    %y = fusion.floor %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_CeilOp : Fusion_UnaryOp<"ceil", 1> {
  let summary = "round towards plus infinity";
  let description = [{
    `result[i] = ceil(x[i])`, element by element.
    Numerics: exact.

    ```mlir
    %y = fusion.ceil %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_RoundOp : Fusion_UnaryOp<"round", 1> {
  let summary = "round to nearest, ties to even";
  let description = [{
    `result[i] = roundeven(x[i])`, element by element.
    Numerics: exact.

    ```mlir
    %y = fusion.round %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_SignOp : Fusion_UnaryOp<"sign", 1> {
  let summary = "sign: -1, 0 or 1";
  let description = [{
    `result[i] = sign(x[i])`, element by element.
    Numerics: exact; NaN stays, -0 gives 0.

    ```mlir
    %y = fusion.sign %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_NotOp : Fusion_UnaryOp<"not", 1> {
  let summary = "logical complement of i1, bitwise complement of integers";
  let description = [{
    `result[i] = ~x[i]`, element by element.
    Numerics: exact; integers and i1 only.

    ```mlir
    %y = fusion.not %x : (tensor<4x8xi1>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_GeluOp : Fusion_UnaryOp<"gelu", 16> {
  let summary = "GELU activation, exact or by tanh";
  let description = [{
    `x/2 * (1 + erf(x / sqrt(2)))`, or with `tanh`
    `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))`.
    Numerics: by erf or tanh; where 1 + erf or 1 + tanh cancels (large
    negative x) the error is absolute, 1e-7 |x|.

    ```mlir
    %y = fusion.gelu %x {tanh} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, UnitAttr:$tanh);
}

def Fusion_IsNanOp : Fusion_InferringOp<"is_nan", "Elementwise"> {
  let summary = "true where the element is not a number";
  let description = [{
    Numerics: exact.

    ```mlir
    %y = fusion.is_nan %x : (tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Fusion_IsInfOp : Fusion_InferringOp<"is_inf", "Elementwise"> {
  let summary = "true where the element is infinite";
  let description = [{
    `positive` and `negative` say which infinities count.
    Numerics: exact.

    ```mlir
    %y = fusion.is_inf %x {negative = true, positive = true} : (tensor<4xf32>) -> tensor<4xi1>
    ```
  }];
  let arguments = (ins Fusion_FloatTensor:$input,
                       DefaultValuedAttr<BoolAttr, "true">:$positive,
                       DefaultValuedAttr<BoolAttr, "true">:$negative);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Fusion_AddOp : Fusion_BinaryOp<"add", 1, [Commutative]> {
  let summary = "sum";
  let description = [{
    `lhs + rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: correctly rounded; integers wrap.

    ```mlir
    %y = fusion.add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }]; let hasFolder = 1;
}

def Fusion_SubOp : Fusion_BinaryOp<"sub", 1, []> {
  let summary = "difference";
  let description = [{
    `lhs - rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: correctly rounded; integers wrap.

    ```mlir
    %y = fusion.sub %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }]; let hasFolder = 1;
}

def Fusion_MulOp : Fusion_BinaryOp<"mul", 1, [Commutative]> {
  let summary = "product";
  let description = [{
    `lhs * rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: correctly rounded; integers wrap.

    ```mlir
    %y = fusion.mul %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }]; let hasFolder = 1;
}

def Fusion_DivOp : Fusion_BinaryOp<"div", 4, []> {
  let summary = "quotient; integers round towards zero";
  let description = [{
    `lhs / rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: correctly rounded. An integer division by zero is an error of
    the run.

    ```mlir
    %y = fusion.div %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }]; let hasFolder = 1;
}

def Fusion_ModOp : Fusion_BinaryOp<"mod", 6, []> {
  let summary = "remainder with the divisor's sign; `fmod` gives it the dividend's sign";
  let arguments = (ins Fusion_Tensor:$lhs, Fusion_Tensor:$rhs, UnitAttr:$fmod);
  let description = [{
    `lhs mod rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: the remainder is exact; where the divisor is added for its
    sign, that rounds once. An integer remainder by zero is an error of the
    run.

    ```mlir
    %y = fusion.mod %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_PowOp : Fusion_BinaryOp<"pow", 20, []> {
  let summary = "power; the exponent's type may differ from the base's";
  let description = [{
    `lhs ^ rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: computed in f64, 1e-12 relative; special cases as in C.

    ```mlir
    %y = fusion.pow %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_MaxOp : Fusion_BinaryOp<"max", 1, [Commutative]> {
  let summary = "larger of two; NaN wins";
  let description = [{
    `max(lhs, rhs)`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact.

    ```mlir
    %y = fusion.max %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_MinOp : Fusion_BinaryOp<"min", 1, [Commutative]> {
  let summary = "smaller of two; NaN wins";
  let description = [{
    `min(lhs, rhs)`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact.

    ```mlir
    %y = fusion.min %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

def Fusion_AndOp : Fusion_BinaryOp<"and", 1, [Commutative]> {
  let summary = "logical or bitwise and";
  let description = [{
    `lhs & rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact; integers and i1 only.

    ```mlir
    %y = fusion.and %a, %b : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_OrOp : Fusion_BinaryOp<"or", 1, [Commutative]> {
  let summary = "logical or bitwise or";
  let description = [{
    `lhs | rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact; integers and i1 only.

    ```mlir
    %y = fusion.or %a, %b : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_XorOp : Fusion_BinaryOp<"xor", 1, [Commutative]> {
  let summary = "logical or bitwise exclusive or";
  let description = [{
    `lhs ^ rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact; integers and i1 only.

    ```mlir
    %y = fusion.xor %a, %b : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_ShiftLeftOp : Fusion_BinaryOp<"shift_left", 1, []> {
  let summary = "bits shifted left";
  let description = [{
    `lhs << rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact; integers only. A distance beyond the width gives 0.

    ```mlir
    %y = fusion.shift_left %a, %b : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
  }];
}

def Fusion_ShiftRightOp : Fusion_BinaryOp<"shift_right", 1, []> {
  let summary = "bits shifted right";
  let description = [{
    `lhs >> rhs`, with ONNX broadcasting; the result has the element type of `lhs`.
    Numerics: exact; integers only. Signed ones keep their sign; a distance
    beyond the width shifts all bits out.

    ```mlir
    %y = fusion.shift_right %a, %b : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
  }];
}

def Fusion_EqualOp : Fusion_CompareOp<"equal"> {
  let summary = "true where lhs == rhs";
  let description = [{
    `lhs == rhs`, with ONNX broadcasting; false where an operand is NaN.
    Numerics: exact.

    ```mlir
    %y = fusion.equal %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_LessOp : Fusion_CompareOp<"less"> {
  let summary = "true where lhs < rhs";
  let description = [{
    `lhs < rhs`, with ONNX broadcasting; false where an operand is NaN.
    Numerics: exact.

    ```mlir
    %y = fusion.less %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_LessEqualOp : Fusion_CompareOp<"less_equal"> {
  let summary = "true where lhs <= rhs";
  let description = [{
    `lhs <= rhs`, with ONNX broadcasting; false where an operand is NaN.
    Numerics: exact.

    ```mlir
    %y = fusion.less_equal %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_GreaterOp : Fusion_CompareOp<"greater"> {
  let summary = "true where lhs > rhs";
  let description = [{
    `lhs > rhs`, with ONNX broadcasting; false where an operand is NaN.
    Numerics: exact.

    ```mlir
    %y = fusion.greater %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_GreaterEqualOp : Fusion_CompareOp<"greater_equal"> {
  let summary = "true where lhs >= rhs";
  let description = [{
    `lhs >= rhs`, with ONNX broadcasting; false where an operand is NaN.
    Numerics: exact.

    ```mlir
    %y = fusion.greater_equal %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
  }];
}

def Fusion_WhereOp : Fusion_InferringOp<"where", "Elementwise"> {
  let summary = "element of one tensor or the other, by a condition";
  let description = [{
    `condition ? on_true : on_false`, with ONNX broadcasting over all three.
    Numerics: exact.

    ```mlir
    %y = fusion.where %c, %a, %b : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Fusion_BoolTensor:$condition, Fusion_Tensor:$on_true,
                       Fusion_Tensor:$on_false);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Fusion_CastOp : Fusion_TypedOp<"cast", "Elementwise"> {
  let summary = "conversion of element type";
  let description = [{
    As ONNX's Cast: floats to integers round towards zero, numbers to i1 test
    for non-zero, fp8 overflow saturates unless `no_saturate`.
    Numerics: correctly rounded, to nearest, ties to even. Inside a group a
    cast to 16 bits only rounds with --numerics=strict; one to 8 bits or
    fewer always does. Floats that an integer type does not hold are
    clamped, NaN gives 0.

    ```mlir
    %y = fusion.cast %x : (tensor<4xf32>) -> tensor<4xbf16>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, UnitAttr:$no_saturate);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // FUSION_ELEMENTWISE_OPS_TD
