// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-lower-to-launches
// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-last-logits
// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-make-cache-state
// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-sequence-lengths
// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-bind-decoder-inputs

// Passes over a whole model say what they cannot take.

// expected-error @+1 {{expected a graph, found a declaration}}
func.func private @main(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{expected a graph of ranked tensors, found 'i32'}}
func.func @main(%x: i32) -> i32 {
  return %x : i32
}

// -----

// expected-error @+1 {{expected a graph of ranked tensors, found 'tensor<*xf32>'}}
func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// -----

// expected-error @+1 {{expected a graph: one block that ends in func.return}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^exit(%x : tensor<4xf32>)
^exit(%y: tensor<4xf32>):
  return %y : tensor<4xf32>
}
