// RUN: fusion-opt %s --fusion-mark-sites | FileCheck %s

// CHECK: module attributes {fusion.sites = ["add_layer_norm:norm", "geglu:gated", "dequant_matmul:mm", "rope_attention:latent"]}

// The cast between the sum and the norm belongs to the site.
// CHECK-LABEL: @add_cast_norm
// CHECK: fusion.add {{.*}}fusion.sites = ["add_layer_norm:norm"]
// CHECK: fusion.cast {{.*}}fusion.sites = ["add_layer_norm:norm"]
// CHECK: fusion.layer_norm {{.*}}fusion.sites = ["add_layer_norm:norm"]
func.func @add_cast_norm(%x: tensor<4x64xbf16>, %y: tensor<4x64xbf16>, %w: tensor<64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.add %x, %y : (tensor<4x64xbf16>, tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %1 = fusion.cast %0 : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %2 = fusion.layer_norm %1, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32> loc("norm")
  return %2 : tensor<4x64xf32>
}

// CHECK-LABEL: @gated
// CHECK: fusion.gelu {{.*}}fusion.sites = ["geglu:gated"]
// CHECK: fusion.mul {{.*}}fusion.sites = ["geglu:gated"]
func.func @gated(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.gelu %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.mul %y, %0 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32> loc("gated")
  return %1 : tensor<4x64xf32>
}

// CHECK-LABEL: @lowbit
// CHECK: fusion.dequantize {{.*}}fusion.sites = ["dequant_matmul:mm"]
// CHECK: fusion.transpose {{.*}}fusion.sites = ["dequant_matmul:mm"]
// CHECK: fusion.matmul {{.*}}fusion.sites = ["dequant_matmul:mm"]
func.func @lowbit(%x: tensor<4x64xf32>, %s: tensor<16x2xf32>) -> tensor<4x16xf32> {
  %q = fusion.weight "w" at <"m.data", 0, 512> : tensor<16x64xui4>
  %0 = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<16x64xui4>, tensor<16x2xf32>) -> tensor<16x64xf32>
  %1 = fusion.transpose %0 perm = [1, 0] : (tensor<16x64xf32>) -> tensor<64x16xf32>
  %2 = fusion.matmul %x, %1 : (tensor<4x64xf32>, tensor<64x16xf32>) -> tensor<4x16xf32> loc("mm")
  return %2 : tensor<4x16xf32>
}

// A rotation beside what is not rotated.
// CHECK-LABEL: @latent
// CHECK-COUNT-2: fusion.rope {{.*}}fusion.sites = ["rope_attention:latent"]
// CHECK-COUNT-2: fusion.concat {{.*}}fusion.sites = ["rope_attention:latent"]
// CHECK: fusion.attention {{.*}}fusion.sites = ["rope_attention:latent"]
func.func @latent(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %p: tensor<1x2x4x8xf32>, %c: tensor<1x1x4x4xf32>) -> tensor<1x2x4x16xf32> {
  %0 = fusion.rope %q, %c, %c : (tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32>
  %1 = fusion.rope %k, %c, %c : (tensor<1x2x4x8xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x8xf32>
  %2 = fusion.concat %p, %0 axis = 3 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x16xf32>
  %3 = fusion.concat %p, %1 axis = 3 : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x16xf32>
  %4 = fusion.attention %2, %3, %3 {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32> loc("latent")
  return %4 : tensor<1x2x4x16xf32>
}
