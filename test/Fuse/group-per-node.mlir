// RUN: fusion-opt %s --fusion-fuse=disable=all | FileCheck %s

// One node, one kernel, where a family executes it; else one kernel an op.
// CHECK-LABEL: @main
// CHECK: fusion.group "matmul"
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.add
// CHECK: fusion.group "softmax"
// CHECK: fusion.group "matmul"
// CHECK: fusion.group "pointwise"
// CHECK: fusion.relu
// CHECK-NOT: fusion.group
func.func @main(%x: tensor<4x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>) -> tensor<4x64xf32> {
  %0 = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32> loc("gemm")
  %1 = fusion.add %0, %b : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32> loc("gemm")
  %2 = fusion.softmax %1 axis = 1 : (tensor<4x32xf32>) -> tensor<4x32xf32> loc("mixed")
  %3 = fusion.matmul %2, %w {transpose_rhs} : (tensor<4x32xf32>, tensor<64x32xf32>) -> tensor<4x64xf32> loc("mixed")
  %4 = fusion.relu %3 : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("relu")
  return %4 : tensor<4x64xf32>
}
