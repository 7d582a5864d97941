// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

// Each row's product with itself is its sum of squares.
// CHECK-LABEL: func.func @itself
// CHECK-NOT: fusion.matmul
// CHECK: %[[N:.*]] = fusion.rms_norm %arg0
// CHECK: return %[[N]]
func.func @itself(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %n = fusion.constant dense<8.0> : tensor<f32>
  %row = fusion.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x1x8xf32>
  %column = fusion.transpose %row perm = [0, 1, 3, 2] : (tensor<2x3x1x8xf32>) -> tensor<2x3x8x1xf32>
  %0 = fusion.matmul %row, %column : (tensor<2x3x1x8xf32>, tensor<2x3x8x1xf32>) -> tensor<2x3x1x1xf32>
  %1 = fusion.reshape %0 : (tensor<2x3x1x1xf32>) -> tensor<2x3x1xf32>
  %2 = fusion.div %1, %n : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %3 = fusion.add %2, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %4 = fusion.rsqrt %3 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %5 = fusion.mul %x, %4 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// -----

// With another row's: no square.
// CHECK-LABEL: func.func @another
// CHECK: fusion.matmul
// CHECK-NOT: fusion.rms_norm
func.func @another(%x: tensor<2x3x8xf32>, %y: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %row = fusion.reshape %x : (tensor<2x3x8xf32>) -> tensor<2x3x1x8xf32>
  %column = fusion.reshape %y : (tensor<2x3x8xf32>) -> tensor<2x3x8x1xf32>
  %0 = fusion.matmul %row, %column : (tensor<2x3x1x8xf32>, tensor<2x3x8x1xf32>) -> tensor<2x3x1x1xf32>
  %1 = fusion.reshape %0 : (tensor<2x3x1x1xf32>) -> tensor<2x3x1xf32>
  %2 = fusion.add %1, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %4 = fusion.mul %x, %3 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  return %4 : tensor<2x3x8xf32>
}

// -----

// The columns are of the whole in another order: transposed before they were taken.
// CHECK-LABEL: func.func @reordered
// CHECK: fusion.matmul
// CHECK-NOT: fusion.rms_norm
func.func @reordered(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %t = fusion.transpose %x perm = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %row = fusion.reshape %x : (tensor<8x8xf32>) -> tensor<8x1x8xf32>
  %column = fusion.reshape %t : (tensor<8x8xf32>) -> tensor<8x8x1xf32>
  %0 = fusion.matmul %row, %column : (tensor<8x1x8xf32>, tensor<8x8x1xf32>) -> tensor<8x1x1xf32>
  %1 = fusion.reshape %0 : (tensor<8x1x1xf32>) -> tensor<8x1xf32>
  %2 = fusion.add %1, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<8x1xf32>) -> tensor<8x1xf32>
  %4 = fusion.mul %x, %3 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
