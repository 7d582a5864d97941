// RUN: fusion-opt %s --fusion-fuse | FileCheck %s

// Each step reads its operand at two places: as one kernel the exponential
// would be there 16 times. Four steps are one kernel at most.
// CHECK: fusion.group "pointwise"
// CHECK: fusion.exp
// CHECK: fusion.group "pointwise"
// CHECK: fusion.transpose
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = fusion.exp %x : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = fusion.transpose %0 perm = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = fusion.concat %0, %1 axis = 0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %3 = fusion.slice %2 starts = ["1", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %4 = fusion.slice %2 starts = ["3", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %5 = fusion.concat %3, %4 axis = 0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %6 = fusion.slice %5 starts = ["5", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %7 = fusion.slice %5 starts = ["7", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %8 = fusion.concat %6, %7 axis = 0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %9 = fusion.slice %8 starts = ["9", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %10 = fusion.slice %8 starts = ["11", "0"] steps = [1, 1] : (tensor<64x32xf32>) -> tensor<32x32xf32>
  %11 = fusion.add %9, %10 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %11 : tensor<32x32xf32>
}
