// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings --fusion-raise-norms | FileCheck %s

// As torch writes it: pow, mean, add, sqrt, reciprocal, w on the left.
// CHECK-LABEL: func.func @reciprocal
// CHECK: fusion.rms_norm %{{.*}}, %{{.*}} {epsilon = 9.99999974E-6 : f32}
// CHECK-NOT: fusion.square
func.func @reciprocal(%x: tensor<2x4x64xf32>, %w: tensor<64xf32>) -> tensor<2x4x64xf32> {
  %two = fusion.constant dense<2.0> : tensor<f32>
  %eps = fusion.constant dense<1.0e-5> : tensor<f32>
  %0 = fusion.pow %x, %two : (tensor<2x4x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [2] {keepdims} : (tensor<2x4x64xf32>) -> tensor<2x4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<2x4x1xf32>, tensor<f32>) -> tensor<2x4x1xf32>
  %3 = fusion.sqrt %2 : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %4 = fusion.reciprocal %3 : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %5 = fusion.mul %x, %4 : (tensor<2x4x64xf32>, tensor<2x4x1xf32>) -> tensor<2x4x64xf32>
  %6 = fusion.mul %w, %5 : (tensor<64xf32>, tensor<2x4x64xf32>) -> tensor<2x4x64xf32>
  return %6 : tensor<2x4x64xf32>
}

// -----

// T5's division by the root, x*x, epsilon on the left, w on the right.
// CHECK-LABEL: func.func @division
// CHECK: fusion.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-03 : f32}
// CHECK-NOT: fusion.div
func.func @division(%x: tensor<4x64xf32>, %w: tensor<64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-3> : tensor<1x1xf32>
  %0 = fusion.mul %x, %x : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %eps, %1 : (tensor<1x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = fusion.sqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.div %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %5 = fusion.mul %4, %w : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// -----

// Llama in bf16: up, normalise, down, then the weight.
// CHECK-LABEL: func.func @llama
// CHECK-NEXT: fusion.rms_norm %arg0, %arg1 {cast_before_scale, epsilon = {{.*}}} : (tensor<4x64xbf16>, tensor<64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT: return
func.func @llama(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>) -> tensor<4x64xbf16> {
  %eps = fusion.constant dense<1.0e-5> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %f = fusion.cast %x : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %0 = fusion.mul %f, %f : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.sqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.div %one, %3 : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %f, %4 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %6 = fusion.cast %5 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
  %7 = fusion.mul %w, %6 : (tensor<64xbf16>, tensor<4x64xbf16>) -> tensor<4x64xbf16>
  return %7 : tensor<4x64xbf16>
}

// -----

// Gemma in bf16: 1 + w in fp32, cast at the end. The addition stays an op.
// CHECK-LABEL: func.func @gemma
// CHECK: %[[W:.*]] = fusion.add
// CHECK: fusion.rms_norm %arg0, %[[W]] {epsilon = {{.*}}} : (tensor<4x64xbf16>, tensor<64xf32>) -> tensor<4x64xbf16>
// CHECK-NEXT: return
func.func @gemma(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>) -> tensor<4x64xbf16> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %f = fusion.cast %x : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %0 = fusion.mul %f, %f : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %f, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %wf = fusion.cast %w : (tensor<64xbf16>) -> tensor<64xf32>
  %w1 = fusion.add %wf, %one : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %6 = fusion.mul %5, %w1 : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %7 = fusion.cast %6 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
  return %7 : tensor<4x64xbf16>
}

// -----

// The squared value is a graph output as well: it stays, the norm is raised.
// CHECK-LABEL: func.func @shared
// CHECK-DAG: fusion.square
// CHECK-DAG: fusion.rms_norm
func.func @shared(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %0, %5 : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// The root as a power of 0.5, under a reciprocal and under 1.
// CHECK-LABEL: func.func @power
// CHECK: fusion.rms_norm %{{.*}} {epsilon = 9.99999974E-6 : f32}
// CHECK-NOT: fusion.pow
func.func @power(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %half = fusion.constant dense<0.5> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %eps = fusion.constant dense<1.0e-5> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.pow %2, %half : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = fusion.div %one, %3 : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %x, %4 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}

// -----

// Another power is no root.
// CHECK-LABEL: func.func @other_power
// CHECK-NOT: fusion.rms_norm
// CHECK: fusion.pow
func.func @other_power(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %quarter = fusion.constant dense<0.25> : tensor<f32>
  %eps = fusion.constant dense<1.0e-5> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.pow %2, %quarter : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = fusion.reciprocal %3 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %5 = fusion.mul %x, %4 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %5 : tensor<4x64xf32>
}
