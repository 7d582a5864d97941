// RUN: fusion-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @add_rms_norm
// CHECK: fusion.group "add_rms_norm" (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: fusion.yield
func.func @add_rms_norm(%x: tensor<?x64xf32, #fusion.shape<[seq, 64]>>,
                        %y: tensor<?x64xf32, #fusion.shape<[seq, 64]>>,
                        %w: tensor<64xf32>)
    -> tensor<?x64xf32, #fusion.shape<[seq, 64]>> {
  %sum, %norm = fusion.group "add_rms_norm" (%a = %x, %b = %y, %g = %w)
      : (tensor<?x64xf32, #fusion.shape<[seq, 64]>>,
         tensor<?x64xf32, #fusion.shape<[seq, 64]>>, tensor<64xf32>)
      -> (tensor<?x64xf32, #fusion.shape<[seq, 64]>>,
          tensor<?x64xf32, #fusion.shape<[seq, 64]>>)
      kernel #fusion.config<"row_reduction", {threads = 256 : i64}> {
    %0 = fusion.add %a, %b : (tensor<?x64xf32, #fusion.shape<[seq, 64]>>, tensor<?x64xf32, #fusion.shape<[seq, 64]>>) -> tensor<?x64xf32, #fusion.shape<[seq, 64]>>
    %1 = fusion.rms_norm %0, %g {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32, #fusion.shape<[seq, 64]>>, tensor<64xf32>) -> tensor<?x64xf32, #fusion.shape<[seq, 64]>>
    fusion.yield %0, %1 : tensor<?x64xf32, #fusion.shape<[seq, 64]>>, tensor<?x64xf32, #fusion.shape<[seq, 64]>>
  }
  return %norm : tensor<?x64xf32, #fusion.shape<[seq, 64]>>
}

// CHECK: fusion.kernel @norm config #fusion.config<"row_reduction", {}> sizes 1
fusion.kernel @norm config #fusion.config<"row_reduction", {}> sizes 1
    (%a: tensor<?x64xf32, #fusion.shape<[d0, 64]>>, %g: tensor<64xf32>) {
  %0 = fusion.rms_norm %a, %g {epsilon = 1.0e-5 : f32} : (tensor<?x64xf32, #fusion.shape<[d0, 64]>>, tensor<64xf32>) -> tensor<?x64xf32, #fusion.shape<[d0, 64]>>
  fusion.yield %0 : tensor<?x64xf32, #fusion.shape<[d0, 64]>>
}
