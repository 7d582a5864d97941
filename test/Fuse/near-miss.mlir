// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s
// RUN: fusion-opt %s --fusion-fuse=explain=summary --split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT

// The rotated query is an output too: it is rotated once more for that.
// REPORT: rope_attention           1   1
// CHECK-LABEL: @query_is_an_output
// CHECK: fusion.group "rope_attention"
// CHECK: fusion.rope
// CHECK: fusion.rope
// CHECK: fusion.attention
// CHECK-NEXT: fusion.yield %{{[0-9]+}} :
// CHECK: fusion.group "pointwise"
// CHECK: fusion.rope
func.func @query_is_an_output(%q: tensor<1x2x4x16xf32>, %k: tensor<1x2x4x16xf32>, %v: tensor<1x2x4x16xf32>, %c: tensor<1x1x4x8xf32>) -> (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) {
  %0 = fusion.rope %q, %c, %c : (tensor<1x2x4x16xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32>
  %1 = fusion.rope %k, %c, %c : (tensor<1x2x4x16xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32>
  %2 = fusion.attention %0, %1, %v {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
  return %2, %0 : tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>
}

// -----

// A mask that two attentions read is computed once, outside of both.
// CHECK-LABEL: @shared_mask
// CHECK: fusion.group "pointwise"
// CHECK: fusion.cast
// CHECK: fusion.group "attention"
// CHECK-NOT: fusion.cast
// CHECK: fusion.group "attention"
// CHECK-NOT: fusion.cast
// CHECK: return
func.func @shared_mask(%q: tensor<1x2x4x16xf32>, %m: tensor<1x4xi64>) -> tensor<1x2x4x16xf32> {
  %0 = fusion.cast %m : (tensor<1x4xi64>) -> tensor<1x4xi1>
  %1 = fusion.attention %q, %q, %q key_mask %0 {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x4xi1>) -> tensor<1x2x4x16xf32>
  %2 = fusion.attention %1, %1, %1 key_mask %0 {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x4xi1>) -> tensor<1x2x4x16xf32>
  return %2 : tensor<1x2x4x16xf32>
}

// -----

// A cast of the query that something else needs keeps the site apart.
// REPORT: rope_attention           0   1
// REPORT: illegal, MULTI_USE in main: what prepares an operand is needed elsewhere too, cast at
func.func @main(%q: tensor<1x2x4x16xbf16>, %k: tensor<1x2x4x16xf32>, %c: tensor<1x1x4x8xf32>) -> (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) {
  %r = fusion.rope %q, %c, %c : (tensor<1x2x4x16xbf16>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xbf16>
  %0 = fusion.cast %r : (tensor<1x2x4x16xbf16>) -> tensor<1x2x4x16xf32>
  %1 = fusion.rope %k, %c, %c : (tensor<1x2x4x16xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x2x4x16xf32>
  %2 = fusion.attention %0, %1, %k {scale = 0.25 : f32} : (tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>) -> tensor<1x2x4x16xf32>
  return %2, %0 : tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>
}
