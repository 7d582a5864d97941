// RUN: fusion-opt %s --fusion-generate-host | FileCheck %s

// A vector loop over whole vectors of the block of columns, then single ones.

// CHECK-LABEL: llvm.func @scale(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: llvm.call @scale.body
// CHECK-LABEL: llvm.func internal @scale.body
// CHECK-SAME: llvm.noalias
// CHECK: scf.for
// CHECK: scf.for
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK: arith.mulf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK: llvm.store %{{.*}} : vector<16xf32>, !llvm.ptr
// CHECK: scf.for
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
fusion.kernel @scale config #fusion.config<"pointwise", {}> sizes 1
    (%x: tensor<?xf32, #fusion.shape<[d0]>>, %y: tensor<?xf32, #fusion.shape<[d0]>>) {
  %0 = fusion.mul %x, %y : (tensor<?xf32, #fusion.shape<[d0]>>, tensor<?xf32, #fusion.shape<[d0]>>) -> tensor<?xf32, #fusion.shape<[d0]>>
  fusion.yield %0 : tensor<?xf32, #fusion.shape<[d0]>>
}
