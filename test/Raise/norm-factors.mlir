// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings --cse --fusion-raise-norms | FileCheck %s

// x * (r * w), r as an exponential of a logarithm.
// CHECK-LABEL: func.func @weighted_root
// CHECK: fusion.rms_norm %arg0, %arg1 {epsilon = 9.99999997E-7 : f32}
func.func @weighted_root(%x: tensor<4x64xf32>, %w: tensor<64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %c = fusion.constant dense<-0.5> : tensor<f32>
  %0 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.log %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %3, %c : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %5 = fusion.exp %4 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %6 = fusion.mul %5, %w : (tensor<4x1xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %7 = fusion.mul %x, %6 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %7 : tensor<4x64xf32>
}

// -----

// x / (s / w), s as the length of x over the root of its size.
// CHECK-LABEL: func.func @length
// CHECK: fusion.rms_norm %arg0, %arg1 {epsilon = 0.000000e+00 : f32}
func.func @length(%x: tensor<4x64xf32>, %w: tensor<64xf32>) -> tensor<4x64xf32> {
  %n = fusion.constant dense<8.0> : tensor<f32>
  %0 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_sum %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.sqrt %1 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = fusion.div %2, %n : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = fusion.div %3, %w : (tensor<4x1xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %5 = fusion.div %x, %4 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// -----

// A sum instead of the mean: the norm with a weight of one number.
// CHECK-LABEL: func.func @unit_length
// CHECK-DAG: %[[W:.*]] = fusion.constant dense<1.250000e-01> : tensor<64xf32>
// CHECK: fusion.rms_norm %arg0, %[[W]] {epsilon = 1.562500e-02 : f32}
func.func @unit_length(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_sum %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.reciprocal %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.sqrt %3 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %x, %4 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// -----

// The factors of a gate stay behind the norm; x is there once more.
// CHECK-LABEL: func.func @further_factors
// CHECK: %[[N:.*]] = fusion.rms_norm %arg0 {
// CHECK: %[[A:.*]] = fusion.mul %[[N]], %arg1
// CHECK: fusion.mul %[[A]], %arg0
func.func @further_factors(%x: tensor<4x64xf32>, %g: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %x, %g : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %5 = fusion.mul %4, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %6 = fusion.mul %5, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %6 : tensor<4x64xf32>
}
