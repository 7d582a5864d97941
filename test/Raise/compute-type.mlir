// RUN: fusion-opt %s --fusion-set-compute-type=type=bf16 | FileCheck %s
// RUN: fusion-opt %s --fusion-set-compute-type=type=fp16 | FileCheck %s --check-prefix=HALF
// RUN: not fusion-opt %s --fusion-set-compute-type=type=fp8 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: unknown compute type 'fp8', expected bf16 or fp16

// Weights are read as fp32 and rounded once; inputs and outputs keep their types.
// CHECK-DAG: #[[W:.*]] = #fusion.weight<"m.data", 0, 262144, f32>
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x256xf32>) -> tensor<4x256xf32>
// CHECK-DAG: %[[B:.*]] = fusion.constant dense<[1.000000e+00, 3.007810e-01]> : tensor<2xbf16>
// CHECK-DAG: %[[WV:.*]] = fusion.weight "w" at #[[W]] : tensor<256x256xbf16>
// CHECK-DAG: %[[S:.*]] = fusion.constant dense<3.000000e-01> : tensor<f32>
// CHECK: %[[XB:.*]] = fusion.cast %[[X]] : (tensor<4x256xf32>) -> tensor<4x256xbf16>
// CHECK: %[[M:.*]] = fusion.matmul %[[XB]], %[[WV]] {{.*}} -> tensor<4x256xbf16>
// A scalar is not rounded: the cast lies in the group that reads it.
// CHECK: %[[SB:.*]] = fusion.cast %[[S]] : (tensor<f32>) -> tensor<bf16>
// CHECK: %[[Y:.*]] = fusion.mul %[[M]], %[[SB]]
// CHECK: %[[R:.*]] = fusion.reshape %[[Y]]
// CHECK: fusion.add %[[R]], %[[B]]
// CHECK: %[[OUT:.*]] = fusion.cast %{{.*}} : (tensor<4x256xbf16>) -> tensor<4x256xf32>
// CHECK: return %[[OUT]] : tensor<4x256xf32>
// HALF: fusion.weight "w" at #{{.*}} : tensor<256x256xf16>
// HALF: fusion.matmul {{.*}} -> tensor<4x256xf16>
func.func @main(%x: tensor<4x256xf32>) -> tensor<4x256xf32> {
  %w = fusion.weight "w" at <"m.data", 0, 262144> : tensor<256x256xf32>
  %s = fusion.constant dense<0.3> : tensor<f32>
  %b = fusion.constant dense<[1.0, 0.3]> : tensor<2xf32>
  %0 = fusion.matmul %x, %w : (tensor<4x256xf32>, tensor<256x256xf32>) -> tensor<4x256xf32>
  %1 = fusion.mul %0, %s : (tensor<4x256xf32>, tensor<f32>) -> tensor<4x256xf32>
  %2 = fusion.reshape %1 : (tensor<4x256xf32>) -> tensor<512x2xf32>
  %3 = fusion.add %2, %b : (tensor<512x2xf32>, tensor<2xf32>) -> tensor<512x2xf32>
  %4 = fusion.reshape %3 : (tensor<512x2xf32>) -> tensor<4x256xf32>
  return %4 : tensor<4x256xf32>
}

// A graph that is in 16 bits already stays as it is, and so does what it widens on purpose.
// CHECK-LABEL: func.func @mixed
// CHECK: fusion.cast {{.*}} -> tensor<4x8xf32>
// CHECK: fusion.exp {{.*}} -> tensor<4x8xf32>
// CHECK: fusion.cast {{.*}} -> tensor<4x8xf16>
func.func @mixed(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = fusion.cast %x : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %1 = fusion.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.cast %1 : (tensor<4x8xf32>) -> tensor<4x8xf16>
  return %2 : tensor<4x8xf16>
}
