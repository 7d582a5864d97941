// RUN: fusion-opt %s --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=Missed

// What the model returns is no leftover, behind a cast either; what is returned and used besides is judged by its use.
// CHECK-LABEL: func.func @behind_cast
// CHECK: fusion.tanh
func.func @behind_cast(%x: tensor<4x8xf16>) -> tensor<4x8xf32> {
  %0 = fusion.tanh %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %1 = fusion.cast %0 : (tensor<4x8xf16>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @and_capped
// CHECK: fusion.tanh
func.func @and_capped(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %c = fusion.constant dense<30.0> : tensor<f32>
  %0 = fusion.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.mul %0, %c : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
