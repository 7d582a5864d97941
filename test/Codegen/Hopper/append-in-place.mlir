// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s

// A cache that is session state is extended in place: the new rows are loaded
// and stored behind the old ones, nothing else.

!cache = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, d0, 8], storage = [1, 2, 64, 8]>>
!next = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "d0 + 1", 8], storage = [1, 2, 64, 8]>>

// CHECK: llvm.func @append
// CHECK: scf.for
// CHECK: llvm.load {{.*}} vector<4xf32>
// CHECK: llvm.store
fusion.kernel @append config #fusion.config<"append", {}> sizes 1
    (%past: !cache, %x: tensor<1x2x1x8xf32>) {
  %y = fusion.kv_append %past, %x axis = 2 : (!cache, tensor<1x2x1x8xf32>) -> !next
  fusion.yield %y : !next
}
