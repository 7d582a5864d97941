// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// gate * (sigmoid(gate) * up), the sigmoid as a quotient of exponentials.
// CHECK-LABEL: func.func @gate_last
// CHECK-NEXT: %[[G:.*]] = fusion.silu %arg0 : (
// CHECK-NEXT: fusion.mul %[[G]], %arg1
// CHECK-NEXT: return
func.func @gate_last(%x: tensor<4x8xf32>, %up: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %e = fusion.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %d = fusion.add %one, %e : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = fusion.div %e, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = fusion.mul %s, %up : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fusion.mul %x, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// (x * up) * (1 - erf(-x / sqrt(2))) * 0.5
// CHECK-LABEL: func.func @complementary
// CHECK: %[[G:.*]] = fusion.gelu %arg0
// CHECK-NEXT: fusion.mul %[[G]], %arg1
func.func @complementary(%x: tensor<4x8xf32>, %up: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = fusion.constant dense<-0.707106769> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %u = fusion.mul %x, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %t = fusion.erf %u : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = fusion.sub %one, %t : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = fusion.mul %x, %up : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = fusion.mul %g, %p : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fusion.mul %h, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// x/2 * (1 + tanh(x/2)), the tangent as exponentials.
// CHECK-LABEL: func.func @by_tangent
// CHECK: fusion.silu %arg0
func.func @by_tangent(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %e = fusion.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = fusion.sub %e, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %b = fusion.add %e, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %t = fusion.div %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = fusion.mul %x, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %p = fusion.add %t, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %y = fusion.mul %h, %p : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Of another value: no activation.
// CHECK-LABEL: func.func @of_another
// CHECK-NOT: fusion.silu
// CHECK: return
func.func @of_another(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>, %up: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = fusion.sigmoid %z : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g = fusion.mul %s, %up : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fusion.mul %x, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
