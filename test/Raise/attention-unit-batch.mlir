// RUN: fusion-opt %s --fusion-raise | FileCheck %s

// Products over merged batch and heads, the mask between them over both: with a batch of one, a merge takes away an axis of one only.
// CHECK-LABEL: func.func @one
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %arg3
// CHECK-NOT: fusion.softmax
func.func @one(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<1x1x4x6xf32>) -> tensor<1x2x4x8xf32> {
  %0 = fusion.reshape %k : (tensor<1x2x6x8xf32>) -> tensor<2x6x8xf32>
  %1 = fusion.matmul %q, %0 {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.add %1, %m : (tensor<1x2x4x6xf32>, tensor<1x1x4x6xf32>) -> tensor<1x2x4x6xf32>
  %3 = fusion.softmax %2 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %4 = fusion.reshape %3 : (tensor<1x2x4x6xf32>) -> tensor<2x4x6xf32>
  %5 = fusion.matmul %4, %v : (tensor<2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %5 : tensor<1x2x4x8xf32>
}
