// RUN: fusion-opt %s --fusion-plan-pipeline --verify-roundtrip | FileCheck %s
// RUN: fusion-opt %s --fusion-set-compute-type

// No op of the dialect loads it: the passes do. An input is an output.
// CHECK: plan.program @main
// CHECK: plan.launch @copy_0
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
