// RUN: fusion-opt %s --fusion-fuse=explain=summary 2>&1 | FileCheck %s

// The rows of a low-bit table that the ids pick are decoded in the norm that
// reads them: 4 rows are read, not the table of 49152.
// CHECK: main {{.*}}3 -> 1 {{.*}}-> {{[0-9.]+}} kB
// CHECK: fusion.group "rms_norm"
// CHECK: fusion.dequantize
// CHECK-NEXT: fusion.gather
// CHECK-NEXT: fusion.rms_norm
// CHECK-NOT: fusion.group
func.func @main(%ids: tensor<1x4xi64>) -> (tensor<1x4x64xf32>, tensor<1x4x64xf32>) {
  %q = fusion.weight "embed" at <"m.data", 0, 3145728> : tensor<49152x64xi8>
  %s = fusion.weight "scale" at <"m.data", 3145728, 393216> : tensor<49152x2xf32>
  %0 = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<49152x64xi8>, tensor<49152x2xf32>) -> tensor<49152x64xf32>
  %1 = fusion.gather %0, %ids axis = 0 : (tensor<49152x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  %2 = fusion.rms_norm %1 {epsilon = 1.0e-5 : f32} : (tensor<1x4x64xf32>) -> tensor<1x4x64xf32>
  return %1, %2 : tensor<1x4x64xf32>, tensor<1x4x64xf32>
}
