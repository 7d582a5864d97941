// RUN: fusion-opt %s --fusion-fuse --remark-format=emitRemark --remarks-filter=fuse -o /dev/null 2>&1 | FileCheck %s

// Both decisions with both predicted times and the nodes that take part.
// CHECK: [Passed] FUSED | Category:fuse:swiglu | Function=main
// CHECK-SAME: FusedUs={{[0-9.]+}}, Nodes="silu gated", UnfusedUs={{[0-9.]+}}
// CHECK: [Missed] TWO_HEROES | Category:fuse:edge | Function=main
// CHECK-SAME: Nodes="mm norm", Reason="work of two kernel families, rms_norm at 'norm' and matmul at 'mm'"
func.func @main(%x: tensor<4x64xf32>, %u: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.silu %x : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("silu")
  %1 = fusion.mul %0, %u : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32> loc("gated")
  %2 = fusion.matmul %1, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32> loc("mm")
  %3 = fusion.rms_norm %2 {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32> loc("norm")
  return %3 : tensor<4x64xf32>
}
