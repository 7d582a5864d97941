// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.attention

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// The factor is one half somewhere: no mask.
// CHECK: [Missed] attention {{.*}} reason=PATTERN
func.func @half(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %b = fusion.constant dense<[[1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 1.0]]> : tensor<3x3xf32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %far = fusion.constant dense<1.0e4> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.mul %0, %b : (!scores, tensor<3x3xf32>) -> !scores
  %2 = fusion.sub %one, %b : (tensor<f32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = fusion.mul %2, %far : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %4 = fusion.sub %1, %3 : (!scores, tensor<3x3xf32>) -> !scores
  %5 = fusion.softmax %4 axis = 3 : (!scores) -> !scores
  %6 = fusion.matmul %5, %v : (!scores, !heads) -> !heads
  return %6 : !heads
}

// -----

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// A learnt bias as low as what is selected.
// CHECK: [Missed] attention {{.*}} expected="a mask value that hides any score and its bias"{{.*}} reason=MASK_UNPROVEN
func.func @low_bias(%q: !heads, %k: !heads, %v: !heads, %seen: tensor<3x3xi1>) -> !heads {
  %low = fusion.constant dense<-1.0e9> : tensor<f32>
  %bias = fusion.constant dense<[0.0, -6.0e8, 1.0]> : tensor<3xf32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.add %0, %bias : (!scores, tensor<3xf32>) -> !scores
  %2 = fusion.where %seen, %1, %low : (tensor<3x3xi1>, !scores, tensor<f32>) -> !scores
  %3 = fusion.softmax %2 axis = 3 : (!scores) -> !scores
  %4 = fusion.matmul %3, %v : (!scores, !heads) -> !heads
  return %4 : !heads
}

// -----

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// Other numbers than infinities are replaced.
// CHECK: [Missed] attention {{.*}} expected="a product of softmax and value"{{.*}} reason=PATTERN
func.func @clipped(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.softmax %0 axis = 3 : (!scores) -> !scores
  %2 = fusion.greater %1, %half : (!scores, tensor<f32>) -> tensor<1x2x3x3xi1>
  %3 = fusion.where %2, %half, %1 : (tensor<1x2x3x3xi1>, tensor<f32>, !scores) -> !scores
  %4 = fusion.matmul %3, %v : (!scores, !heads) -> !heads
  return %4 : !heads
}
