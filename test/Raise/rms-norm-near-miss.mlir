// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings --fusion-raise-norms \
// RUN:   --fusion-verify-raised --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.rms_norm

// epsilon behind the root is another function.
// CHECK: [Missed] rms_norm {{.*}} expected="epsilon added inside the root"{{.*}} reason=PATTERN
func.func @eps_outside(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.sqrt %1 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = fusion.add %2, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = fusion.div %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}

// -----

// CHECK: [Missed] rms_norm {{.*}} expected="a mean over axis 1 only", found="axis 0 of 1"{{.*}} reason=AXIS_NOT_LAST, stopped=fusion.reduce_mean
func.func @axis(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = fusion.reduce_mean %0 axes = [0] {keepdims} : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %2 = fusion.add %1, %eps : (tensor<1x64xf32>, tensor<f32>) -> tensor<1x64xf32>
  %3 = fusion.rsqrt %2 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %4 = fusion.mul %x, %3 : (tensor<64x64xf32>, tensor<1x64xf32>) -> tensor<64x64xf32>
  return %4 : tensor<64x64xf32>
}

// -----

// CHECK: [Missed] rms_norm {{.*}} reason=EPS_NOT_CONST, stopped=fusion.add
func.func @eps_argument(%x: tensor<4x64xf32>, %eps: tensor<f32>) -> tensor<4x64xf32> {
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}

// -----

// Another value than the squared one is scaled.
// CHECK: [Missed] rms_norm {{.*}} expected="a product with the squared value{{.*}} reason=PATTERN, stopped=fusion.mul
func.func @other(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.add %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %y, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}

// -----

// A least value of the root instead of epsilon inside.
// CHECK: [Missed] rms_norm {{.*}} expected="epsilon added inside the root", found="a least value of the root"{{.*}} reason=PATTERN, stopped=fusion.max
func.func @least_length(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.sqrt %1 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %3 = fusion.max %2, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = fusion.div %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}

// -----

// A least value of the mean.
// CHECK: [Missed] rms_norm {{.*}} expected="a mean of squares"{{.*}} reason=PATTERN, stopped=fusion.max
func.func @least_mean(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %x : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %2 = fusion.max %1, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %3 = fusion.rsqrt %2 : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %4 = fusion.mul %x, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}
