// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s

// Work before and behind a softmax, over the same rows.
// CHECK-LABEL: @scaled_softmax
// CHECK: fusion.group "softmax"
// CHECK: fusion.mul
// CHECK-NEXT: fusion.softmax
// CHECK-NEXT: fusion.cast
// CHECK-NOT: fusion.group
func.func @scaled_softmax(%x: tensor<8x128xf32>, %s: tensor<f32>) -> tensor<8x128xbf16> {
  %0 = fusion.mul %x, %s : (tensor<8x128xf32>, tensor<f32>) -> tensor<8x128xf32>
  %1 = fusion.softmax %0 axis = 1 : (tensor<8x128xf32>) -> tensor<8x128xf32>
  %2 = fusion.cast %1 : (tensor<8x128xf32>) -> tensor<8x128xbf16>
  return %2 : tensor<8x128xbf16>
}

// -----

// The reduced axis is not the last one: a kernel of its own.
// CHECK-LABEL: @first_axis
// CHECK: fusion.group "pointwise"
// CHECK: fusion.group "reduce_sum"
func.func @first_axis(%x: tensor<8x128xf32>) -> tensor<128xf32> {
  %0 = fusion.exp %x : (tensor<8x128xf32>) -> tensor<8x128xf32>
  %1 = fusion.reduce_sum %0 axes = [0] : (tensor<8x128xf32>) -> tensor<128xf32>
  return %1 : tensor<128xf32>
}

// -----

// Rows of the first norm are rows of the second.
// CHECK-LABEL: @norm_add_norm
// CHECK: fusion.group "add_rms_norm"
// CHECK: fusion.rms_norm
// CHECK-NEXT: fusion.add
// CHECK-NEXT: fusion.rms_norm
// CHECK-NOT: fusion.group
func.func @norm_add_norm(%x: tensor<8x128xf32>, %y: tensor<8x128xf32>) -> (tensor<8x128xf32>, tensor<8x128xf32>) {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<8x128xf32>) -> tensor<8x128xf32>
  %1 = fusion.add %0, %y : (tensor<8x128xf32>, tensor<8x128xf32>) -> tensor<8x128xf32>
  %2 = fusion.rms_norm %1 {epsilon = 1.0e-5 : f32} : (tensor<8x128xf32>) -> tensor<8x128xf32>
  return %1, %2 : tensor<8x128xf32>, tensor<8x128xf32>
}

// -----

// A result that is transposed behind the norm leaves its row.
// CHECK-LABEL: @transposed_behind
// CHECK: fusion.group "rms_norm"
// CHECK-NOT: fusion.transpose
// CHECK: fusion.group "pointwise"
// CHECK: fusion.transpose
func.func @transposed_behind(%x: tensor<8x128xf32>) -> tensor<128x8xf32> {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<8x128xf32>) -> tensor<8x128xf32>
  %1 = fusion.transpose %0 perm = [1, 0] : (tensor<8x128xf32>) -> tensor<128x8xf32>
  return %1 : tensor<128x8xf32>
}
