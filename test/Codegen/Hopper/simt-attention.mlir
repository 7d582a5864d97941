// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s

// Decode: the heads that share keys are rows of one tile, blocks share the
// keys, and the last one merges what they found.
// CHECK-LABEL: llvm.func @decode
// CHECK: math.exp2
// CHECK: llvm.atomicrmw add
fusion.kernel @decode config #fusion.config<"attention", {}> sizes 1
    (%q: tensor<1x9x1x64xf32>, %k: tensor<1x3x?x64xf32, #fusion.shape<[1, 3, d0, 64]>>,
     %v: tensor<1x3x?x64xf32, #fusion.shape<[1, 3, d0, 64]>>) {
  %y = fusion.attention %q, %k, %v {scale = 1.25e-1 : f32} : (tensor<1x9x1x64xf32>, tensor<1x3x?x64xf32, #fusion.shape<[1, 3, d0, 64]>>, tensor<1x3x?x64xf32, #fusion.shape<[1, 3, d0, 64]>>) -> tensor<1x9x1x64xf32>
  fusion.yield %y : tensor<1x9x1x64xf32>
}

// Head sizes that do not fit shared memory: element by element.
// CHECK-LABEL: llvm.func @wide
// CHECK-NOT: dynamic_shared
// CHECK: scf.for
fusion.kernel @wide config #fusion.config<"attention", {}> sizes 0
    (%q: tensor<1x2x4x1024xf32>, %k: tensor<1x2x4x1024xf32>) {
  %y = fusion.attention %q, %k, %k {scale = 1.25e-1 : f32} : (tensor<1x2x4x1024xf32>, tensor<1x2x4x1024xf32>, tensor<1x2x4x1024xf32>) -> tensor<1x2x4x1024xf32>
  fusion.yield %y : tensor<1x2x4x1024xf32>
}
