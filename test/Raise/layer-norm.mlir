// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings --fusion-raise-norms | FileCheck %s

// CHECK-LABEL: func.func @decomposed
// CHECK: fusion.layer_norm %arg0, %arg1, %{{.*}} {epsilon = 9.99999996E-13 : f32}
func.func @decomposed(%x: tensor<4x2xf32>, %w: tensor<2xf32>) -> tensor<4x2xf32> {
  %two = fusion.constant dense<2.0> : tensor<f32>
  %eps = fusion.constant dense<1.0e-12> : tensor<f32>
  %m = fusion.reduce_mean %x axes = [1] {keepdims} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %d = fusion.sub %x, %m : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %0 = fusion.pow %d, %two : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x2xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.sqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.div %d, %3 : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %5 = fusion.mul %4, %w : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %b = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %6 = fusion.add %5, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %6 : tensor<4x2xf32>
}

// -----

// A mean subtracted before an RMSNormalization (Cohere).
// CHECK-LABEL: func.func @centred
// CHECK: fusion.layer_norm %arg0, %arg1 {
// CHECK-NOT: fusion.rms_norm
func.func @centred(%x: tensor<4x64xf32>, %w: tensor<64xf32>) -> tensor<4x64xf32> {
  %m = fusion.reduce_mean %x axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %d = fusion.sub %x, %m : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %0 = fusion.rms_norm %d, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %0 : tensor<4x64xf32>
}

// -----

// No weight: one of ones. The residual that is added behind is no bias.
// CHECK-LABEL: func.func @residual
// CHECK: %[[N:.*]] = fusion.layer_norm %arg0, %{{.*}} {
// CHECK: fusion.add %[[N]], %arg1
func.func @residual(%x: tensor<4x64xf32>, %r: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-5> : tensor<f32>
  %m = fusion.reduce_mean %x axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %d = fusion.sub %x, %m : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %0 = fusion.square %d : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %d, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %5 = fusion.add %4, %r : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// -----

// A mean over another axis: still a norm of the difference, but no layer norm.
// CHECK-LABEL: func.func @other_axis
// CHECK: fusion.rms_norm
// CHECK-NOT: fusion.layer_norm
func.func @other_axis(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %m = fusion.reduce_mean %x axes = [0] {keepdims} : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %d = fusion.sub %x, %m : (tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  %0 = fusion.rms_norm %d {epsilon = 1.0e-5 : f32} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
