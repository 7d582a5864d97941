// RUN: fusion-opt %s --fusion-set-compute-type=type=fp16 | FileCheck %s

// A bias of products is computed in 16 bits, the selection of what is hidden in fp32: beside -65504 a score would count.
// CHECK-LABEL: func.func @relative
// CHECK-DAG: %[[MIN:.*]] = fusion.constant dense<-3.40282347E+38> : tensor<f32>
// CHECK: %[[P:.*]] = fusion.matmul {{.*}} -> tensor<1x2x3x4xf16>
// CHECK: %[[W:.*]] = fusion.cast %[[P]] : (tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf32>
// CHECK: %[[B:.*]] = fusion.where %{{.*}}, %[[W]], %[[MIN]] : {{.*}} -> tensor<1x2x3x4xf32>
// CHECK: fusion.attention {{.*}} bias %[[B]]
func.func @relative(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>, %r: tensor<1x2x4x8xf32>, %m: tensor<1x1x3x4xi1>) -> tensor<1x2x3x8xf32> {
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %p = fusion.matmul %q, %r {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %b = fusion.where %m, %p, %min : (tensor<1x1x3x4xi1>, tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %0 = fusion.attention %q, %k, %k bias %b {scale = 1.0 : f32} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  return %0 : tensor<1x2x3x8xf32>
}
