// RUN: fusion-opt %s --verify-roundtrip | FileCheck %s

// Sequences with cached lengths of their own, and a buffer with room.

// CHECK-LABEL: func.func @lengths
// CHECK: fusion.kv_append %arg1, %arg2 lengths %arg3 axis = 2 : {{.*}} -> tensor<2x2x9x8xf32>
// CHECK: fusion.kv_append %arg1, %arg2 lengths %arg3 axis = 2 {in_buffer} : {{.*}} -> tensor<2x2x8x8xf32>
// CHECK: fusion.attention {{.*}} offsets %arg3 {causal, scale
func.func @lengths(%q: tensor<2x2x1x8xf32>, %p: tensor<2x2x8x8xf32>, %n: tensor<2x2x1x8xf32>, %l: tensor<2xi32>) -> (tensor<2x2x9x8xf32>, tensor<2x2x1x8xf32>) {
  %0 = fusion.kv_append %p, %n lengths %l axis = 2 : (tensor<2x2x8x8xf32>, tensor<2x2x1x8xf32>, tensor<2xi32>) -> tensor<2x2x9x8xf32>
  %1 = fusion.kv_append %p, %n lengths %l axis = 2 {in_buffer} : (tensor<2x2x8x8xf32>, tensor<2x2x1x8xf32>, tensor<2xi32>) -> tensor<2x2x8x8xf32>
  %2 = fusion.attention %q, %1, %1 offsets %l {scale = 1.0 : f32, causal} : (tensor<2x2x1x8xf32>, tensor<2x2x8x8xf32>, tensor<2x2x8x8xf32>, tensor<2xi32>) -> tensor<2x2x1x8xf32>
  return %0, %2 : tensor<2x2x9x8xf32>, tensor<2x2x1x8xf32>
}
