// RUN: fusion-opt %s --fusion-canonicalize-spellings --fusion-raise-activations | FileCheck %s

// The input is a sum itself, as a linear layer with a bias makes it.
// CHECK-LABEL: func.func @tanh_of_sum
// CHECK: %[[X:.*]] = fusion.add
// CHECK-NEXT: fusion.gelu %[[X]] {tanh}
func.func @tanh_of_sum(%y: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %three = fusion.constant dense<3.0> : tensor<f32>
  %c = fusion.constant dense<0.044715> : tensor<f32>
  %s = fusion.constant dense<0.797884583> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %x = fusion.add %y, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = fusion.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.mul %0, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = fusion.add %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = fusion.mul %2, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = fusion.tanh %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = fusion.add %4, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %6 = fusion.mul %5, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %7 = fusion.mul %x, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}
