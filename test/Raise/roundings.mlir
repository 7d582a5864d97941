// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s \
// RUN:   --implicit-check-not=fusion.rms_norm --implicit-check-not=fusion.attention --implicit-check-not=fusion.silu

// In a graph of fp32 a cast to 16 bits rounds on purpose: it must stay.
// CHECK: [Missed] rms_norm {{.*}} reason=CAST_ORDER, stopped=fusion.cast
func.func @mean(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %h = fusion.cast %1 : (tensor<4x1xf32>) -> tensor<4x1xf16>
  %f = fusion.cast %h : (tensor<4x1xf16>) -> tensor<4x1xf32>
  %2 = fusion.add %f, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}

// -----

// CHECK: [Missed] attention {{.*}} reason=CAST_ORDER
func.func @softmax(%q: tensor<1x4x4xf32>, %k: tensor<1x4x4xf32>, %v: tensor<1x4x4xf32>) -> tensor<1x4x4xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %h = fusion.cast %0 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf16>
  %f = fusion.cast %h : (tensor<1x4x4xf16>) -> tensor<1x4x4xf32>
  %1 = fusion.softmax %f axis = 2 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// -----

// CHECK: [Missed] silu {{.*}} reason=CAST_ORDER, stopped=fusion.cast
func.func @sigmoid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = fusion.cast %0 : (tensor<4x8xf32>) -> tensor<4x8xf16>
  %f = fusion.cast %h : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %1 = fusion.mul %x, %f : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
