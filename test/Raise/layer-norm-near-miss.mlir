// RUN: fusion-opt %s --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.layer_norm

// The difference from another number than the mean.
// CHECK: [Missed] layer_norm {{.*}} expected="a difference from the mean of the row", found=fusion.reduce_max{{.*}} reason=PATTERN, stopped=fusion.sub
func.func @from_maximum(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> tensor<4x8xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %m = fusion.reduce_max %x axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %d = fusion.sub %x, %m : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %0 = fusion.mul %d, %d : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %d, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %5 = fusion.matmul %4, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}
