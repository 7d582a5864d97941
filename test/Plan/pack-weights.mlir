// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// A quantised weight that a product on the card reads is packed, with its
// scales: a gather reads the same bytes.
// A weight that something else reads as well stays as it is.

!x = tensor<1x64xbf16>
!q = tensor<32x64xi4>
!s = tensor<32x2xbf16>
!w = tensor<32x64xbf16>
!y = tensor<1x32xbf16>

// CHECK-DAG: plan.constant @q "q" : tensor<32x64xi4> layout "fragments"
// CHECK-DAG: plan.constant @s "s" : tensor<32x2xbf16> layout "strips"
// CHECK-DAG: plan.constant @p "p" : tensor<32x64xi4> = #
// CHECK-DAG: plan.constant @t "t" : tensor<32x2xbf16> = #
// CHECK: fusion.kernel @product_0 config #fusion.config<"matmul", {fragments = array<i64: 1>, {{.*}}strips = array<i64: 2>}>
// CHECK: fusion.kernel @product_1 config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 0, 1, 2>, unpacked = "its codes, scales or zero points are read by other ops too"}>
// CHECK: fusion.kernel @rows_0 config #fusion.config<"pointwise", {fragments = array<i64: 0>
func.func @one(%x: !x, %i: tensor<3xi64>) -> (!y, !y, tensor<64x32xi8>, tensor<3x64xi8>) attributes {fusion.device = "card"} {
  %q = fusion.weight "q" at <"m.data", 0, 1024> : !q
  %s = fusion.weight "s" at <"m.data", 1024, 128> : !s
  %p = fusion.weight "p" at <"m.data", 2048, 1024> : !q
  %t = fusion.weight "t" at <"m.data", 3072, 128> : !s
  %a = fusion.group "product" (%0 = %x, %1 = %q, %2 = %s) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 1 : i64, block_size = 32 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  %b = fusion.group "product" (%0 = %x, %1 = %p, %2 = %t) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 1 : i64, block_size = 32 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  %c = fusion.group "turn" (%0 = %p) : (!q) -> tensor<64x32xi8> kernel #fusion.config<"pointwise", {}> {
    %3 = fusion.transpose %0 perm = [1, 0] : (!q) -> tensor<64x32xi4>
    %4 = fusion.cast %3 : (tensor<64x32xi4>) -> tensor<64x32xi8>
    fusion.yield %4 : tensor<64x32xi8>
  }
  %d = fusion.group "rows" (%0 = %q, %1 = %i) : (!q, tensor<3xi64>) -> tensor<3x64xi8> kernel #fusion.config<"pointwise", {}> {
    %2 = fusion.gather %0, %1 axis = 0 : (!q, tensor<3xi64>) -> tensor<3x64xi4>
    %3 = fusion.cast %2 : (tensor<3x64xi4>) -> tensor<3x64xi8>
    fusion.yield %3 : tensor<3x64xi8>
  }
  return %a, %b, %c, %d : !y, !y, tensor<64x32xi8>, tensor<3x64xi8>
}
