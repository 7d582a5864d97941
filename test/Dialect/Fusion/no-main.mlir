// RUN: not fusion-opt %s --fusion-last-logits 2>&1 | FileCheck %s
// RUN: not fusion-opt %s --fusion-make-cache-state 2>&1 | FileCheck %s
// RUN: not fusion-opt %s --fusion-sequence-lengths 2>&1 | FileCheck %s
// RUN: not fusion-opt %s --fusion-bind-decoder-inputs 2>&1 | FileCheck %s

// CHECK: error: expected a function @main
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
