// RUN: fusion-opt %s --fusion-generate-host | FileCheck %s

// The sum is kept in scratch by the pass that reduces it; no tail where the
// width is known to hold whole vectors.

// CHECK-LABEL: llvm.func internal @add_rms_norm.body
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK: llvm.store %{{.*}} : vector<16xf32>
// CHECK: vector.shuffle
// CHECK: math.sqrt %{{.*}} : f32
// CHECK: scf.for
// CHECK: llvm.store %{{.*}} : vector<16xf32>
// CHECK: llvm.store %{{.*}} : vector<16xf32>
// CHECK-NOT: llvm.store %{{.*}} : f32
fusion.kernel @add_rms_norm config #fusion.config<"row_reduction", {}> sizes 1
    (%a: tensor<?x64xf32, #fusion.shape<[d0, 64]>>, %b: tensor<?x64xf32, #fusion.shape<[d0, 64]>>, %g: tensor<64xf32>) {
  %0 = fusion.add %a, %b : (tensor<?x64xf32, #fusion.shape<[d0, 64]>>, tensor<?x64xf32, #fusion.shape<[d0, 64]>>) -> tensor<?x64xf32, #fusion.shape<[d0, 64]>>
  %1 = fusion.rms_norm %0, %g {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32, #fusion.shape<[d0, 64]>>, tensor<64xf32>) -> tensor<?x64xf32, #fusion.shape<[d0, 64]>>
  fusion.yield %0, %1 : tensor<?x64xf32, #fusion.shape<[d0, 64]>>, tensor<?x64xf32, #fusion.shape<[d0, 64]>>
}
