// RUN: fusion-opt %s --fusion-generate-host | FileCheck %s

// Four elements a byte, the first in the lowest bits: up to the top, then down.
// CHECK: llvm.load {{.*}} -> i8
// CHECK: %[[UP:.*]] = arith.shli
// CHECK: arith.shrui %[[UP]], %c6
fusion.kernel @packed config #fusion.config<"pointwise", {}> sizes 0 (%x: tensor<3xui2>) {
  %0 = fusion.cast %x : (tensor<3xui2>) -> tensor<3xf32>
  fusion.yield %0 : tensor<3xf32>
}
