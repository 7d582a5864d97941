// RUN: fusion-opt %s --fusion-fuse | FileCheck %s

// A table that serves as embedding and as head is decoded in both: rows where
// they are picked, tiles where they are multiplied.
// CHECK: fusion.group "pointwise"
// CHECK: fusion.dequantize
// CHECK-NEXT: fusion.gather
// CHECK: fusion.group "dequant_matmul"
// CHECK-SAME: kernel #fusion.config<"matmul", {}>
// CHECK: fusion.dequantize
// CHECK-NEXT: fusion.matmul
// CHECK-NOT: fusion.group
func.func @main(%ids: tensor<1x4xi64>) -> tensor<1x4x512xf32> {
  %q = fusion.weight "embed" at <"m.data", 0, 32768> : tensor<512x64xi8>
  %s = fusion.weight "scale" at <"m.data", 32768, 4096> : tensor<512x2xf32>
  %0 = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<512x64xi8>, tensor<512x2xf32>) -> tensor<512x64xf32>
  %1 = fusion.gather %0, %ids axis = 0 : (tensor<512x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  %2 = fusion.matmul %1, %0 {transpose_rhs} : (tensor<1x4x64xf32>, tensor<512x64xf32>) -> tensor<1x4x512xf32>
  return %2 : tensor<1x4x512xf32>
}
