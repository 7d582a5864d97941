// RUN: fusion-opt %s --fusion-canonicalize-spellings --fusion-raise-activations | FileCheck %s

// The gate may be either operand, and stays a product beside silu.
// CHECK-LABEL: func.func @swiglu
// CHECK-NEXT: %[[S:.*]] = fusion.silu %arg0
// CHECK-NEXT: fusion.mul %arg1, %[[S]]
func.func @swiglu(%g: tensor<4x8xbf16>, %u: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = fusion.sigmoid %g : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %1 = fusion.mul %0, %g : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %2 = fusion.mul %u, %1 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @exponential
// CHECK-NEXT: fusion.silu %arg0
// CHECK-NEXT: return
func.func @exponential(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = fusion.div %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @quick
// CHECK-NEXT: fusion.silu %arg0 {alpha = 1.702000e+00 : f32}
func.func @quick(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = fusion.constant dense<1.702> : tensor<f32>
  %0 = fusion.mul %x, %a : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.sigmoid %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.mul %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A gate by the sigmoid of something else is no silu.
// CHECK-LABEL: func.func @glu
// CHECK: fusion.sigmoid
// CHECK-NOT: fusion.silu
func.func @glu(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.sigmoid %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.mul %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The sigmoid is used elsewhere too: both are there.
// CHECK-LABEL: func.func @shared
// CHECK-DAG: fusion.sigmoid
// CHECK-DAG: fusion.silu
func.func @shared(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = fusion.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.mul %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
