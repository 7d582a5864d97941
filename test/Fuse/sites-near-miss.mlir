// RUN: fusion-opt %s --fusion-mark-sites | FileCheck %s

// None of these is a site.
// CHECK: fusion.sites = []
// CHECK-NOT: fusion.sites

// A bias is a constant: no residual.
func.func @bias_before_norm(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %w = fusion.weight "bias" at <"m.data", 0, 256> : tensor<64xf32>
  %0 = fusion.add %x, %w : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %1 = fusion.rms_norm %0 {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// A norm that is followed by an addition.
func.func @norm_before_add(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.add %0, %y : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// The factor has another shape.
func.func @scaled_silu(%x: tensor<4x64xf32>, %s: tensor<64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.silu %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.mul %0, %s : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// Keys are not rotated.
func.func @queries_only(%q: tensor<1x2x4x16xf32>, %k: tensor<1x2x4x16xf32>, %c: tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32> {
  %0 = fusion.rope %q, %c, %c : (tensor<1x2x4x16xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32>
  %1 = fusion.attention %0, %k, %k {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
  return %1 : tensor<1x2x4x16xf32>
}

// What is decoded is no constant.
func.func @activations_decoded(%x: tensor<4x64xf32>, %q: tensor<64x16xi8>, %s: tensor<f32>) -> tensor<4x16xf32> {
  %0 = fusion.dequantize %q, %s : (tensor<64x16xi8>, tensor<f32>) -> tensor<64x16xf32>
  %1 = fusion.matmul %x, %0 : (tensor<4x64xf32>, tensor<64x16xf32>) -> tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}
