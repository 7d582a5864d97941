// RUN: fusion-opt %s --fusion-transpose-weights | FileCheck %s

// Quantised weights of products become matrices [N, K] with blocks along K.

// CHECK-DAG: #[[FILEQ:.*]] = #fusion.weight<"w.data", 0, 1024, tensor<64x32xi4>>
// CHECK-DAG: #[[FILES:.*]] = #fusion.weight<"w.data", 1024, 128, tensor<2x32xbf16>>

// CHECK-LABEL: @blocks_of_rows
// CHECK-DAG: %[[Q:.*]] = fusion.weight "q" at #[[FILEQ]] : tensor<32x64xi4>
// CHECK-DAG: %[[S:.*]] = fusion.weight "s" at #[[FILES]] : tensor<32x2xbf16>
// CHECK: fusion.dequantize %[[Q]], %[[S]] {axis = 1 : i64, block_size = 32 : i64} : (tensor<32x64xi4>, tensor<32x2xbf16>) -> tensor<32x64xbf16>
// CHECK: fusion.matmul {{.*}} {transpose_rhs}
func.func @blocks_of_rows(%x: tensor<4x64xbf16>) -> tensor<4x32xbf16> {
  %q = fusion.weight "q" at <"w.data", 0, 1024> : tensor<64x32xi4>
  %s = fusion.weight "s" at <"w.data", 1024, 128> : tensor<2x32xbf16>
  %w = fusion.dequantize %q, %s {axis = 0 : i64, block_size = 32 : i64} : (tensor<64x32xi4>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %y = fusion.matmul %x, %w : (tensor<4x64xbf16>, tensor<64x32xbf16>) -> tensor<4x32xbf16>
  return %y : tensor<4x32xbf16>
}

// A scale a column of [K, N]; elements in the IR are turned here.
// CHECK-LABEL: @columns
// CHECK: fusion.constant dense<{{\[}}[1, 3, 5, 7], [2, 4, 6, 8]]> : tensor<2x4xi8>
// CHECK: fusion.dequantize {{.*}} : (tensor<2x4xi8>, tensor<2xf16>) -> tensor<2x4xf16>
// CHECK: {transpose_rhs}
func.func @columns(%x: tensor<1x4xf16>, %s: tensor<2xf16>) -> tensor<1x2xf16> {
  %q = fusion.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi8>
  %w = fusion.dequantize %q, %s {axis = 1 : i64} : (tensor<4x2xi8>, tensor<2xf16>) -> tensor<4x2xf16>
  %y = fusion.matmul %x, %w : (tensor<1x4xf16>, tensor<4x2xf16>) -> tensor<1x2xf16>
  return %y : tensor<1x2xf16>
}

// A third axis of blocks; fp32 scales and a cast behind.
// CHECK-LABEL: @third_axis
// CHECK: fusion.weight "q" {{.*}} : tensor<32x64xui4>
// CHECK: fusion.dequantize {{.*}} {axis = 1 : i64, block_size = 32 : i64} : (tensor<32x64xui4>, tensor<32x2xf32>) -> tensor<32x64xbf16>
// CHECK-NEXT: fusion.matmul
func.func @third_axis(%x: tensor<1x64xbf16>) -> tensor<1x32xbf16> {
  %q = fusion.weight "q" at <"w.data", 0, 1024> : tensor<32x2x32xui4>
  %s = fusion.weight "s" at <"w.data", 1024, 256> : tensor<32x2x1xf32>
  %d = fusion.dequantize %q, %s {axis = 2 : i64, block_size = 32 : i64} : (tensor<32x2x32xui4>, tensor<32x2x1xf32>) -> tensor<32x2x32xf32>
  %c = fusion.cast %d : (tensor<32x2x32xf32>) -> tensor<32x2x32xbf16>
  %w = fusion.reshape %c : (tensor<32x2x32xbf16>) -> tensor<32x64xbf16>
  %y = fusion.matmul %x, %w {transpose_rhs} : (tensor<1x64xbf16>, tensor<32x64xbf16>) -> tensor<1x32xbf16>
  return %y : tensor<1x32xbf16>
}

// Two levels of scales, and codes that were turned before.
// CHECK-LABEL: @two_levels
// CHECK: %[[SCALES:.*]] = fusion.dequantize {{.*}} : (tensor<32x4xf8E4M3FN>, tensor<f32>) -> tensor<32x4xf32>
// CHECK: fusion.dequantize %{{.*}}, %[[SCALES]] {axis = 1 : i64, block_size = 16 : i64} : (tensor<32x64xf4E2M1FN>, tensor<32x4xf32>) -> tensor<32x64xbf16>
// CHECK-NOT: fusion.transpose
// CHECK: {transpose_rhs}
func.func @two_levels(%x: tensor<1x64xbf16>, %g: tensor<f32>) -> tensor<1x32xbf16> {
  %q = fusion.weight "q" at <"w.data", 0, 1024> : tensor<32x64xf4E2M1FN>
  %s = fusion.weight "s" at <"w.data", 1024, 128> : tensor<4x32xf8E4M3FN>
  %t = fusion.transpose %q perm = [1, 0] : (tensor<32x64xf4E2M1FN>) -> tensor<64x32xf4E2M1FN>
  %u = fusion.dequantize %s, %g : (tensor<4x32xf8E4M3FN>, tensor<f32>) -> tensor<4x32xf32>
  %d = fusion.dequantize %t, %u {axis = 0 : i64, block_size = 16 : i64} : (tensor<64x32xf4E2M1FN>, tensor<4x32xf32>) -> tensor<64x32xf32>
  %w = fusion.cast %d : (tensor<64x32xf32>) -> tensor<64x32xbf16>
  %y = fusion.matmul %x, %w : (tensor<1x64xbf16>, tensor<64x32xbf16>) -> tensor<1x32xbf16>
  return %y : tensor<1x32xbf16>
}

// Another reader keeps the layout.
// CHECK-LABEL: @shared
// CHECK: fusion.dequantize {{.*}} {block_size = 32 : i64}
// CHECK-NOT: transpose_rhs
func.func @shared(%x: tensor<4x64xbf16>) -> (tensor<4x32xbf16>, tensor<64x32xbf16>) {
  %q = fusion.weight "q" at <"w.data", 0, 1024> : tensor<64x32xi4>
  %s = fusion.weight "s" at <"w.data", 1024, 128> : tensor<2x32xbf16>
  %w = fusion.dequantize %q, %s {axis = 0 : i64, block_size = 32 : i64} : (tensor<64x32xi4>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %y = fusion.matmul %x, %w : (tensor<4x64xbf16>, tensor<64x32xbf16>) -> tensor<4x32xbf16>
  return %y, %w : tensor<4x32xbf16>, tensor<64x32xbf16>
}
