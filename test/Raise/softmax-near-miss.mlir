// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not="= fusion.softmax"

// One more in the sum.
// CHECK: [Missed] softmax {{.*}} expected="the sum of the exponentials", found=fusion.add{{.*}} reason=PATTERN
func.func @one_more(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %e = fusion.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %e axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %t = fusion.add %s, %one : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %y = fusion.div %e, %t : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// The sum of other exponentials.
// CHECK: [Missed] softmax {{.*}} expected="the sum of the dividend"{{.*}} stopped=fusion.reduce_sum
func.func @of_another(%x: tensor<4x6xf32>, %z: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %e = fusion.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %f = fusion.exp %z : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %f axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %u = fusion.reduce_sum %e axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %y = fusion.div %e, %s : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %w = fusion.mul %y, %u : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %w : tensor<4x6xf32>
}

// -----

// CHECK: [Missed] softmax {{.*}} expected="a sum over one axis", found="2 axes"{{.*}} reason=AXIS_NOT_LAST
func.func @two_axes(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %e = fusion.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %e axes = [0, 1] {keepdims} : (tensor<4x6xf32>) -> tensor<1x1xf32>
  %y = fusion.div %e, %s : (tensor<4x6xf32>, tensor<1x1xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// A sum over the rows of exponentials that are multiplied from the left is no
// softmax of theirs.
// CHECK-LABEL: func.func @sum_of_columns
// CHECK: fusion.matmul
// CHECK: fusion.div
func.func @sum_of_columns(%x: tensor<3x3xf32>, %v: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %e = fusion.exp %x : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %s = fusion.reduce_sum %e axes = [0] {keepdims} : (tensor<3x3xf32>) -> tensor<1x3xf32>
  %p = fusion.matmul %e, %v : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = fusion.div %p, %s : (tensor<3x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}
