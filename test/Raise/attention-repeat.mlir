// RUN: fusion-opt %s --split-input-file --fusion-raise="prove-masks=false" | FileCheck %s

// The axis of repeats before the heads: h0, h1, h0, h1. No grouped attention.
// CHECK-LABEL: func.func @tiled
// CHECK: fusion.expand
// CHECK: fusion.attention {{.*}} (tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>)
func.func @tiled(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x4x3x8xf32> {
  %1 = fusion.reshape %k : (tensor<1x2x5x8xf32>) -> tensor<1x1x2x5x8xf32>
  %2 = fusion.expand %1 : (tensor<1x1x2x5x8xf32>) -> tensor<1x2x2x5x8xf32>
  %3 = fusion.reshape %2 : (tensor<1x2x2x5x8xf32>) -> tensor<1x4x5x8xf32>
  %4 = fusion.attention %q, %3, %3 {scale = 1.0 : f32} : (tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>) -> tensor<1x4x3x8xf32>
  return %4 : tensor<1x4x3x8xf32>
}

// -----

// In [batch, keys, heads, size], before the transpose.
// CHECK-LABEL: func.func @before_transpose
// CHECK: %[[K:.*]] = fusion.transpose %arg1 perm = [0, 2, 1, 3]
// CHECK: fusion.attention %arg0, %[[K]], %[[K]]
func.func @before_transpose(%q: tensor<1x4x3x8xf32>, %k: tensor<1x5x2x8xf32>) -> tensor<1x4x3x8xf32> {
  %1 = fusion.reshape %k : (tensor<1x5x2x8xf32>) -> tensor<1x5x2x1x8xf32>
  %2 = fusion.expand %1 : (tensor<1x5x2x1x8xf32>) -> tensor<1x5x2x2x8xf32>
  %3 = fusion.reshape %2 : (tensor<1x5x2x2x8xf32>) -> tensor<1x5x4x8xf32>
  %t = fusion.transpose %3 perm = [0, 2, 1, 3] : (tensor<1x5x4x8xf32>) -> tensor<1x4x5x8xf32>
  %4 = fusion.attention %q, %t, %t {scale = 1.0 : f32} : (tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>) -> tensor<1x4x3x8xf32>
  return %4 : tensor<1x4x3x8xf32>
}

// -----

// Key and value repeat differently: both stay.
// CHECK-LABEL: func.func @unequal
// CHECK: fusion.attention {{.*}} (tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>)
func.func @unequal(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x4x5x8xf32>) -> tensor<1x4x3x8xf32> {
  %1 = fusion.reshape %k : (tensor<1x2x5x8xf32>) -> tensor<1x2x1x5x8xf32>
  %2 = fusion.expand %1 : (tensor<1x2x1x5x8xf32>) -> tensor<1x2x2x5x8xf32>
  %3 = fusion.reshape %2 : (tensor<1x2x2x5x8xf32>) -> tensor<1x4x5x8xf32>
  %4 = fusion.attention %q, %3, %v {scale = 1.0 : f32} : (tensor<1x4x3x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>) -> tensor<1x4x3x8xf32>
  return %4 : tensor<1x4x3x8xf32>
}
