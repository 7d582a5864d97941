// RUN: fusion-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @reshapes
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
func.func @reshapes(%x: tensor<4x8xf32>) -> tensor<2x16xf32> {
  // CHECK-NEXT: %[[Y:.*]] = fusion.reshape %[[X]] : (tensor<4x8xf32>) -> tensor<2x16xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = fusion.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = fusion.reshape %0 : (tensor<32xf32>) -> tensor<2x16xf32>
  return %1 : tensor<2x16xf32>
}

// CHECK-LABEL: func.func @transposes_cancel
// CHECK-SAME: (%[[X:.*]]: tensor<4x8x2xf32>)
func.func @transposes_cancel(%x: tensor<4x8x2xf32>) -> tensor<4x8x2xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = fusion.transpose %x perm = [2, 0, 1] : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
  %1 = fusion.transpose %0 perm = [1, 2, 0] : (tensor<2x4x8xf32>) -> tensor<4x8x2xf32>
  return %1 : tensor<4x8x2xf32>
}

// Moving an axis of size 1 keeps the order of elements.
// CHECK-LABEL: func.func @transpose_of_ones
func.func @transpose_of_ones(%x: tensor<1x8x1x2xf32>) -> tensor<1x1x8x2xf32> {
  // CHECK-NEXT: fusion.reshape
  %0 = fusion.transpose %x perm = [0, 2, 1, 3] : (tensor<1x8x1x2xf32>) -> tensor<1x1x8x2xf32>
  return %0 : tensor<1x1x8x2xf32>
}

// CHECK-LABEL: func.func @matmul_transposed
func.func @matmul_transposed(%x: tensor<1x4x8xf32>, %w: tensor<16x8xf32>) -> tensor<1x4x16xf32> {
  // CHECK-NEXT: fusion.matmul %{{.*}}, %{{.*}} {transpose_rhs}
  %0 = fusion.transpose %w perm = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = fusion.matmul %x, %0 : (tensor<1x4x8xf32>, tensor<8x16xf32>) -> tensor<1x4x16xf32>
  return %1 : tensor<1x4x16xf32>
}

// A transpose of other axes stays.
// CHECK-LABEL: func.func @matmul_other_axes
func.func @matmul_other_axes(%x: tensor<3x4x8xf32>, %w: tensor<8x3x16xf32>) -> tensor<3x4x16xf32> {
  // CHECK: fusion.transpose
  // CHECK: fusion.matmul
  %0 = fusion.transpose %w perm = [1, 0, 2] : (tensor<8x3x16xf32>) -> tensor<3x8x16xf32>
  %1 = fusion.matmul %x, %0 : (tensor<3x4x8xf32>, tensor<3x8x16xf32>) -> tensor<3x4x16xf32>
  return %1 : tensor<3x4x16xf32>
}

// A cast there and back through a wider type changes nothing; through a
// narrower one it rounds.
// CHECK-LABEL: func.func @casts
// CHECK-SAME: (%[[A:.*]]: tensor<4xbf16>, %[[B:.*]]: tensor<4xf32>)
func.func @casts(%a: tensor<4xbf16>, %b: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  // CHECK-NEXT: %[[N:.*]] = fusion.cast %[[B]]
  // CHECK-NEXT: %[[W:.*]] = fusion.cast %[[N]]
  // CHECK-NEXT: return %[[A]], %[[W]]
  %0 = fusion.cast %a : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = fusion.cast %0 : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = fusion.cast %b : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = fusion.cast %2 : (tensor<4xbf16>) -> tensor<4xf32>
  return %1, %3 : tensor<4xbf16>, tensor<4xf32>
}

// x + 0 is not x for x = -0; x * 1 is x.
// CHECK-LABEL: func.func @neutral
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[S:.*]] = fusion.add
  // CHECK: return %[[S]], %[[X]]
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.add %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = fusion.mul %x, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
