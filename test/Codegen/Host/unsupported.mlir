// RUN: not fusion-opt %s --fusion-generate-host 2>&1 | FileCheck %s

// CHECK: error: no code can be generated: argument 0 has elements of 2 bits
fusion.kernel @packed config #fusion.config<"pointwise", {}> sizes 0 (%x: tensor<8xui2>) {
  %0 = fusion.cast %x : (tensor<8xui2>) -> tensor<8xf32>
  fusion.yield %0 : tensor<8xf32>
}
