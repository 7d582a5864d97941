// RUN: fusion-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @symbolic
// CHECK-SAME: #fusion.shape<[batch, "past + seq", 64]>
func.func @symbolic(%x: tensor<?x?x64xf32, #fusion.shape<[batch, "seq + past", 64]>>)
    -> tensor<?x64x?xf32, #fusion.shape<[batch, 64, "past + seq"]>> {
  // CHECK: fusion.transpose %{{.*}} perm = [0, 2, 1]
  %0 = fusion.transpose %x perm = [0, 2, 1] : (tensor<?x?x64xf32, #fusion.shape<[batch, "seq + past", 64]>>) -> tensor<?x64x?xf32, #fusion.shape<[batch, 64, "past + seq"]>>
  return %0 : tensor<?x64x?xf32, #fusion.shape<[batch, 64, "past + seq"]>>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x8x4x64xf32>, %past: tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 512, 64]>>,
                     %new: tensor<1x2x4x64xf32>, %b: tensor<1x1x4x?xf32, #fusion.shape<[1, 1, 4, "past + 4"]>>) -> tensor<1x8x4x64xf32> {
  // CHECK: fusion.kv_append {{.*}} axis = 2 {{.*}} storage = [1, 2, 512, 64]
  %k = fusion.kv_append %past, %new axis = 2 : (tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 512, 64]>>, tensor<1x2x4x64xf32>) -> tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 512, 64]>>
  // CHECK: fusion.attention {{.*}} bias
  %0 = fusion.attention %q, %k, %k bias %b {scale = 0.125 : f32, causal, causal_offset = "past"} : (tensor<1x8x4x64xf32>, tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 512, 64]>>, tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 512, 64]>>, tensor<1x1x4x?xf32, #fusion.shape<[1, 1, 4, "past + 4"]>>) -> tensor<1x8x4x64xf32>
  return %0 : tensor<1x8x4x64xf32>
}

// CHECK-LABEL: func.func @lowbit
func.func @lowbit(%x: tensor<1x64xf32>) -> tensor<1x16xf32> {
  // CHECK: fusion.weight "w"
  %q = fusion.weight "w" at <"m.data", 0, 512> : tensor<16x64xui4>
  %s = fusion.constant dense<0.5> : tensor<16x2xf32>
  // CHECK: fusion.dequantize
  %w = fusion.dequantize %q, %s zero_point %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<16x64xui4>, tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x64xf32>
  // CHECK: fusion.matmul {{.*}} {transpose_rhs}
  %y = fusion.matmul %x, %w {transpose_rhs} : (tensor<1x64xf32>, tensor<16x64xf32>) -> tensor<1x16xf32>
  return %y : tensor<1x16xf32>
}
