// RUN: fusion-opt %s --fusion-set-compute-type=type=fp16 --split-input-file | FileCheck %s

// Positions and angles stay in fp32 up to the rotation.
// CHECK-LABEL: func.func @angles
// CHECK: fusion.matmul {{.*}} -> tensor<1x32x4xf32>
// CHECK: fusion.cos {{.*}} -> tensor<1x4x32xf32>
// CHECK: fusion.rope {{.*}} : (tensor<1x2x4x64xf16>, tensor<1x1x4x32xf32>, tensor<1x1x4x32xf32>) -> tensor<1x2x4x64xf16>
func.func @angles(%x: tensor<1x2x4x64xf32>, %p: tensor<1x1x4xi64>) -> tensor<1x2x4x64xf32> {
  %f = fusion.constant dense<0.5> : tensor<1x32x1xf32>
  %0 = fusion.cast %p : (tensor<1x1x4xi64>) -> tensor<1x1x4xf32>
  %1 = fusion.matmul %f, %0 : (tensor<1x32x1xf32>, tensor<1x1x4xf32>) -> tensor<1x32x4xf32>
  %2 = fusion.transpose %1 perm = [0, 2, 1] : (tensor<1x32x4xf32>) -> tensor<1x4x32xf32>
  %3 = fusion.cos %2 : (tensor<1x4x32xf32>) -> tensor<1x4x32xf32>
  %4 = fusion.sin %2 : (tensor<1x4x32xf32>) -> tensor<1x4x32xf32>
  %c = fusion.reshape %3 : (tensor<1x4x32xf32>) -> tensor<1x1x4x32xf32>
  %s = fusion.reshape %4 : (tensor<1x4x32xf32>) -> tensor<1x1x4x32xf32>
  %r = fusion.rope %x, %c, %s : (tensor<1x2x4x64xf32>, tensor<1x1x4x32xf32>, tensor<1x1x4x32xf32>) -> tensor<1x2x4x64xf32>
  return %r : tensor<1x2x4x64xf32>
}

// -----

// A table that the file holds: gathered in fp32.
// CHECK-LABEL: func.func @table
// CHECK: fusion.gather {{.*}} -> tensor<4x32xf32>
// CHECK: fusion.rope {{.*}} : (tensor<1x2x4x64xf16>, tensor<1x4x32xf32>, tensor<1x4x32xf32>)
func.func @table(%x: tensor<1x2x4x64xf32>, %p: tensor<4xi64>) -> tensor<1x2x4x64xf32> {
  %t = fusion.weight "cos_cache" at <"m.data", 0, 131072> : tensor<1024x32xf32>
  %u = fusion.weight "sin_cache" at <"m.data", 131072, 131072> : tensor<1024x32xf32>
  %0 = fusion.gather %t, %p axis = 0 : (tensor<1024x32xf32>, tensor<4xi64>) -> tensor<4x32xf32>
  %1 = fusion.gather %u, %p axis = 0 : (tensor<1024x32xf32>, tensor<4xi64>) -> tensor<4x32xf32>
  %c = fusion.reshape %0 : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
  %s = fusion.reshape %1 : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
  %r = fusion.rope %x, %c, %s : (tensor<1x2x4x64xf32>, tensor<1x4x32xf32>, tensor<1x4x32xf32>) -> tensor<1x2x4x64xf32>
  return %r : tensor<1x2x4x64xf32>
}

// -----

// A mask that is added to 16-bit scores: its minimum must not become an infinity.
// CHECK-LABEL: func.func @mask
// CHECK-DAG: fusion.constant dense<-6.550400e+04> : tensor<f32>
// CHECK: %[[M:.*]] = fusion.where {{.*}} -> tensor<4x4xf32>
// CHECK: %[[H:.*]] = fusion.cast %[[M]] : (tensor<4x4xf32>) -> tensor<4x4xf16>
// CHECK: fusion.add %{{.*}}, %[[H]]
func.func @mask(%x: tensor<4x4xf32>, %m: tensor<4x4xi1>) -> tensor<4x4xf32> {
  %z = fusion.constant dense<0.0> : tensor<f32>
  %l = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = fusion.where %m, %z, %l : (tensor<4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>
  %1 = fusion.add %x, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = fusion.softmax %1 axis = 1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// Statistics: the square may exceed fp16, and so may its mean; what the norm gives is an activation.
// CHECK-LABEL: func.func @statistics
// CHECK: %[[X:.*]] = fusion.cast %arg0 : (tensor<4x64xf32>) -> tensor<4x64xf16>
// CHECK: fusion.exp {{.*}} -> tensor<4x64xf16>
// CHECK: fusion.square {{.*}} -> tensor<4x64xf32>
// CHECK: fusion.reduce_mean {{.*}} -> tensor<4x1xf32>
// CHECK: fusion.rsqrt {{.*}} -> tensor<4x1xf32>
// CHECK: fusion.mul {{.*}} -> tensor<4x64xf16>
func.func @statistics(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %e = fusion.exp %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %0 = fusion.square %e : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.rsqrt %1 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = fusion.mul %e, %2 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %3 : tensor<4x64xf32>
}

// -----

// Scales of quantised weights keep their type, through views too.
// CHECK-LABEL: func.func @quantised
// CHECK: %[[S:.*]] = fusion.reshape %{{.*}} : (tensor<32xf32>) -> tensor<16x2xf32>
// CHECK: %[[D:.*]] = fusion.dequantize %{{.*}}, %[[S]] {{.*}} : (tensor<16x64xui4>, tensor<16x2xf32>) -> tensor<16x64xf16>
// CHECK: fusion.matmul %{{.*}}, %[[D]] {transpose_rhs} : (tensor<4x64xf16>, tensor<16x64xf16>)
func.func @quantised(%x: tensor<4x64xf32>, %q: tensor<16x64xui4>) -> tensor<4x16xf32> {
  %s = fusion.constant dense<0.3> : tensor<32xf32>
  %0 = fusion.reshape %s : (tensor<32xf32>) -> tensor<16x2xf32>
  %1 = fusion.dequantize %q, %0 {axis = 1 : i64, block_size = 32 : i64} : (tensor<16x64xui4>, tensor<16x2xf32>) -> tensor<16x64xf32>
  %2 = fusion.matmul %x, %1 {transpose_rhs} : (tensor<4x64xf32>, tensor<16x64xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// -----

// `1 + w` is computed from the unrounded weight.
// CHECK-LABEL: func.func @shifted_weight
// CHECK: %[[W:.*]] = fusion.add {{.*}} : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
// CHECK: fusion.rms_norm %{{.*}}, %[[W]] {{.*}} : (tensor<4x64xf16>, tensor<64xf32>) -> tensor<4x64xf16>
func.func @shifted_weight(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %o = fusion.constant dense<1.0> : tensor<f32>
  %w = fusion.constant dense<0.3> : tensor<64xf32>
  %0 = fusion.add %w, %o : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = fusion.rms_norm %x, %0 {epsilon = 1.0e-6 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}
