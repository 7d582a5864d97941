// RUN: fusion-opt %s --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// Queries are rotated, keys are not: said at what the keys are.
// CHECK: [Missed] rope {{.*}} expected="a key that is rotated as the query is", found="fusion.tanh 'keys'"{{.*}} reason=PATTERN
func.func @queries_only(%q: tensor<1x2x4x16xf32>, %k: tensor<1x2x4x16xf32>, %c: tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32> {
  %t = fusion.tanh %k : (tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32> loc("keys")
  %0 = fusion.rope %q, %c, %c : (tensor<1x2x4x16xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32>
  %1 = fusion.attention %0, %t, %k {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32> loc("mixed")
  return %1 : tensor<1x2x4x16xf32>
}
