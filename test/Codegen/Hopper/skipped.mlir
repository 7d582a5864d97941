// RUN: fusion-opt %s --fusion-generate-hopper -verify-diagnostics | FileCheck %s

// Families without code for the card stay as they are, with the reason.

// CHECK: fusion.kernel @mm
// expected-remark @below {{no code for sm_90a: kernel family 'matmul' has no code for sm_90a yet}}
fusion.kernel @mm config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) {
  %y = fusion.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  fusion.yield %y : tensor<4x16xf32>
}
