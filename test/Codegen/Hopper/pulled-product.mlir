// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s

// What no template takes (operands of rank 1 here) is pulled element by
// element.

// CHECK: llvm.func @mv
// CHECK: scf.for
// CHECK: math.fma
fusion.kernel @mv config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<8xf32>, %w: tensor<8x16xf32>) {
  %y = fusion.matmul %x, %w : (tensor<8xf32>, tensor<8x16xf32>) -> tensor<16xf32>
  fusion.yield %y : tensor<16xf32>
}
