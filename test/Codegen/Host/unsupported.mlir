// RUN: not fusion-opt %s --fusion-generate-host 2>&1 | FileCheck %s

// CHECK: error: no code can be generated: result 0 is of packed type 'ui4'
fusion.kernel @packed config #fusion.config<"pointwise", {}> sizes 0 (%x: tensor<8xf32>) {
  %0 = fusion.cast %x : (tensor<8xf32>) -> tensor<8xui4>
  fusion.yield %0 : tensor<8xui4>
}
