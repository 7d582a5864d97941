// REQUIRES: fusion-lsp-server
// RUN: %python %S/Inputs/lsp.py %bin/fusion-lsp-server %s 15 10 | FileCheck %s --check-prefix=GOOD
// RUN: sed 's/%w: tensor<8xf32>/%w: tensor<9xf32>/; s/tensor<8xf32>)/tensor<9xf32>)/' %s > %t.mlir
// RUN: %python %S/Inputs/lsp.py %bin/fusion-lsp-server %t.mlir | FileCheck %s --check-prefix=BAD

// The language server parses and verifies the dialects.
// GOOD: diagnostics: []
// GOOD: hover: Operation: "fusion.rms_norm"
// GOOD: tensor<4x8xf32>

// BAD: diagnostics: {{.*}}fusion.rms_norm' op

func.func @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %norm = fusion.rms_norm %x, %w {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %norm : tensor<4x8xf32>
}
