// RUN: fusion-opt %s --fusion-raise | FileCheck %s

// The root of the scale on both sides, as a power of a number and by way of a logarithm.
// CHECK-LABEL: func.func @powers
// CHECK: fusion.attention %arg0, %arg1, %arg1 {{.*}}scale = {{1.25|0.1249999|0.12500001}}
func.func @powers(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32> {
  %scale = fusion.constant dense<0.125> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %root = fusion.pow %scale, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %log = fusion.log %scale : (tensor<f32>) -> tensor<f32>
  %part = fusion.mul %log, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %again = fusion.exp %part : (tensor<f32>) -> tensor<f32>
  %a = fusion.mul %q, %root : (tensor<1x2x3x8xf32>, tensor<f32>) -> tensor<1x2x3x8xf32>
  %b = fusion.mul %k, %again : (tensor<1x2x4x8xf32>, tensor<f32>) -> tensor<1x2x4x8xf32>
  %s = fusion.matmul %a, %b {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %p = fusion.softmax %s axis = 3 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return %r : tensor<1x2x3x8xf32>
}
