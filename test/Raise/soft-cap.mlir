// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter-missed=raise 2>&1 | FileCheck %s

// A tanh that caps is no part of an activation: nothing is said of it.
// CHECK-NOT: [Missed]
// CHECK-LABEL: func.func @cap
func.func @cap(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = fusion.constant dense<30.0> : tensor<f32>
  %0 = fusion.div %x, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.mul %1, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
