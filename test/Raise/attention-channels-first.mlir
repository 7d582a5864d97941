// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// v^T p^T, the channels before the rows and kept so.
// CHECK-LABEL: func.func @channels_first
// CHECK: %[[V:.*]] = fusion.transpose %arg2 perm = [0, 1, 3, 2]
// CHECK: %[[A:.*]] = fusion.attention %arg0, %{{.*}}, %[[V]] {
// CHECK: fusion.transpose %[[A]] perm = [0, 1, 3, 2]
// CHECK-NOT: fusion.softmax
func.func @channels_first(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x6xf32>, %v: tensor<1x2x8x6xf32>) -> tensor<1x2x8x4xf32> {
  %0 = fusion.matmul %q, %k : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.softmax %0 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.matmul %v, %1 {transpose_rhs} : (tensor<1x2x8x6xf32>, tensor<1x2x4x6xf32>) -> tensor<1x2x8x4xf32>
  return %2 : tensor<1x2x8x4xf32>
}

// -----

// scores - c * mask is a mask that is added, with the other sign.
// CHECK-LABEL: func.func @subtracted
// CHECK: %[[M:.*]] = fusion.neg
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %[[M]]
func.func @subtracted(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.sub %0, %m : (tensor<1x2x4x6xf32>, tensor<4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.softmax %1 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %3 = fusion.matmul %2, %k : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %3 : tensor<1x2x4x8xf32>
}
