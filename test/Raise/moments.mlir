// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

// The variance as a difference of moments, scale and shift in front.
// CHECK-LABEL: func.func @scale_and_shift
// CHECK-NEXT: %[[N:.*]] = fusion.layer_norm %arg0, %arg1 {epsilon
// CHECK-NEXT: fusion.add %[[N]], %arg2
// CHECK-NEXT: return
func.func @scale_and_shift(%x: tensor<4x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %n = fusion.constant dense<64.0> : tensor<f32>
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %0 = fusion.reduce_sum %x axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %m = fusion.div %0, %n : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %1 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %2 = fusion.reduce_mean %1 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %3 = fusion.mul %m, %m : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.sub %2, %3 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.max %4, %zero : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %6 = fusion.add %5, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %7 = fusion.rsqrt %6 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %a = fusion.mul %7, %w : (tensor<4x1xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %8 = fusion.mul %x, %a : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %9 = fusion.mul %m, %a : (tensor<4x1xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %10 = fusion.sub %b, %9 : (tensor<64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %11 = fusion.add %8, %10 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %11 : tensor<4x64xf32>
}

// -----

// A sum that is divided by another number is no mean.
// CHECK-LABEL: func.func @another_count
// CHECK: fusion.reduce_sum
func.func @another_count(%x: tensor<4x64xf32>) -> tensor<4x1xf32> {
  %n = fusion.constant dense<63.0> : tensor<f32>
  %0 = fusion.reduce_sum %x axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %1 = fusion.div %0, %n : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %1 : tensor<4x1xf32>
}

// -----

// A product with a column of one number is a sum.
// CHECK-LABEL: func.func @product
// CHECK-NEXT: fusion.reduce_mean %arg0 axes = [1] {keepdims}
// CHECK-NEXT: return
func.func @product(%x: tensor<4x64xf32>) -> tensor<4x1xf32> {
  %ones = fusion.constant dense<0.015625> : tensor<64x1xf32>
  %0 = fusion.matmul %x, %ones : (tensor<4x64xf32>, tensor<64x1xf32>) -> tensor<4x1xf32>
  return %0 : tensor<4x1xf32>
}
