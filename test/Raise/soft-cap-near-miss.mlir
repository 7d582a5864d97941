// RUN: fusion-opt %s --fusion-raise --remarks-filter-missed=raise 2>&1 | FileCheck %s

// The half of 1 + tanh is nearly a gelu.
// CHECK: [Missed] gelu
func.func @half(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %h = fusion.constant dense<0.5> : tensor<f32>
  %three = fusion.constant dense<3.0> : tensor<f32>
  %0 = fusion.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.mul %0, %h : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %2 = fusion.add %1, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = fusion.mul %2, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
