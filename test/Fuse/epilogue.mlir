// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s

// Bias, activation and residual follow the product.
// CHECK-LABEL: @bias_gelu_residual
// CHECK: fusion.group "matmul"
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.add
// CHECK-NEXT: fusion.gelu
// CHECK-NEXT: fusion.add
// CHECK-NOT: fusion.group
func.func @bias_gelu_residual(%x: tensor<4x64xf32>, %r: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %w = fusion.weight "w" at <"m.data", 0, 8192> : tensor<64x32xf32>
  %b = fusion.weight "b" at <"m.data", 8192, 128> : tensor<32xf32>
  %0 = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %1 = fusion.add %0, %b : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
  %2 = fusion.gelu %1 : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %3 = fusion.add %2, %r : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  return %3 : tensor<4x32xf32>
}

// -----

// A residual that a norm follows belongs to the norm.
// CHECK-LABEL: @residual_of_a_norm
// CHECK: fusion.group "matmul"
// CHECK-NOT: fusion.add
// CHECK: fusion.group "add_rms_norm"
// CHECK: fusion.add
func.func @residual_of_a_norm(%x: tensor<4x64xf32>, %r: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %w = fusion.weight "w" at <"m.data", 0, 8192> : tensor<64x32xf32>
  %0 = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %1 = fusion.add %0, %r : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %2 = fusion.rms_norm %1 {epsilon = 1.0e-5 : f32} : (tensor<4x32xf32>) -> tensor<4x32xf32>
  return %2 : tensor<4x32xf32>
}

// -----

// The epilogue is larger than the product: each element of it would be made
// many times.
// CHECK-LABEL: @broadcast_behind
// CHECK: fusion.group "matmul"
// CHECK-NOT: fusion.add
// CHECK: fusion.group "pointwise"
func.func @broadcast_behind(%x: tensor<1x64xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %w = fusion.weight "w" at <"m.data", 0, 8192> : tensor<64x32xf32>
  %0 = fusion.matmul %x, %w : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  %1 = fusion.add %0, %r : (tensor<1x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}
