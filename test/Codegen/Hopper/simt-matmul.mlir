// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s

// Tiles in shared memory, one barrier a step of K, results over whole vectors.
// CHECK-LABEL: llvm.func @tiles
// CHECK: llvm.load {{.*}} vector<4xf32>
// CHECK: scf.for
// CHECK: nvvm.barrier
// CHECK: math.fma
// CHECK-NOT: llvm.atomicrmw
// CHECK: llvm.store {{.*}} vector<4xf32>
fusion.kernel @tiles config #fusion.config<"matmul", {}> sizes 1
    (%x: tensor<?x576xf32, #fusion.shape<[d0, 576]>>, %w: tensor<576x1536xf32>) {
  %y = fusion.matmul %x, %w : (tensor<?x576xf32, #fusion.shape<[d0, 576]>>, tensor<576x1536xf32>) -> tensor<?x1536xf32, #fusion.shape<[d0, 1536]>>
  fusion.yield %y : tensor<?x1536xf32, #fusion.shape<[d0, 1536]>>
}

// One row: blocks share K, and the last of each tile adds their sums.
// CHECK-LABEL: llvm.func @row
// CHECK: math.fma
// CHECK: llvm.fence
// CHECK: llvm.atomicrmw add
fusion.kernel @row config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<1x1536xf32>, %w: tensor<1536x576xf32>) {
  %y = fusion.matmul %x, %w : (tensor<1x1536xf32>, tensor<1536x576xf32>) -> tensor<1x576xf32>
  fusion.yield %y : tensor<1x576xf32>
}
