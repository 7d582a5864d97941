// RUN: fusion-opt %s --fusion-fuse=device=h200 | FileCheck %s

// A model that has one row itself folds it into its products, as decode does.

// CHECK-LABEL: func.func @main
// CHECK: fusion.group "swiglu"
// CHECK-SAME: rows = array<i64: 1, 1>
// CHECK: fusion.rms_norm
// CHECK: fusion.matmul
// CHECK: fusion.matmul
// CHECK-NOT: fusion.group
func.func @main(%x: tensor<1x64xf32>) -> tensor<1x96xf32> {
  %g = fusion.constant dense<1.0> : tensor<64xf32>
  %a = fusion.constant dense<0.5> : tensor<96x64xf32>
  %b = fusion.constant dense<0.25> : tensor<96x64xf32>
  %n = fusion.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
  %p = fusion.matmul %n, %a {transpose_rhs} : (tensor<1x64xf32>, tensor<96x64xf32>) -> tensor<1x96xf32>
  %q = fusion.matmul %n, %b {transpose_rhs} : (tensor<1x64xf32>, tensor<96x64xf32>) -> tensor<1x96xf32>
  %s = fusion.silu %p : (tensor<1x96xf32>) -> tensor<1x96xf32>
  %y = fusion.mul %s, %q : (tensor<1x96xf32>, tensor<1x96xf32>) -> tensor<1x96xf32>
  return %y : tensor<1x96xf32>
}
