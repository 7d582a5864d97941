// The phases by example, as README.md shows them.

// RUN: fusion-opt %s --fusion-raise | FileCheck %s --check-prefix=RAISED
// RUN: fusion-opt %s --fusion-raise --fusion-fuse | FileCheck %s --check-prefix=FUSED
// RUN: fusion-opt %s --fusion-raise --fusion-fuse --fusion-plan-pipeline | FileCheck %s --check-prefix=PLANNED

// RAISED-LABEL: func.func @main
// RAISED-NOT: fusion.reduce_mean
// RAISED: %[[SUM:.*]] = fusion.add
// RAISED: fusion.rms_norm %[[SUM]], %{{.*}} {epsilon = 9.99999974E-6 : f32}

// FUSED: fusion.group "add_rms_norm"
// FUSED-NEXT: fusion.add
// FUSED-NEXT: fusion.rms_norm
// FUSED-NEXT: fusion.yield %{{.*}}, %{{.*}}

// PLANNED: fusion.kernel @add_rms_norm_0 config #fusion.config<"row_reduction"
// PLANNED: plan.program
// PLANNED: plan.launch @add_rms_norm_0
func.func @main(%x: tensor<?x576xf32, #fusion.shape<[seq, 576]>> {fusion.name = "x"},
                %residual: tensor<?x576xf32, #fusion.shape<[seq, 576]>> {fusion.name = "residual"},
                %weight: tensor<576xf32> {fusion.name = "weight"})
    -> (tensor<?x576xf32, #fusion.shape<[seq, 576]>> {fusion.name = "sum"},
        tensor<?x576xf32, #fusion.shape<[seq, 576]>> {fusion.name = "normalised"}) {
  %two = fusion.constant dense<2.0> : tensor<f32>
  %epsilon = fusion.constant dense<1.0e-5> : tensor<f32>
  %sum = fusion.add %residual, %x : (tensor<?x576xf32, #fusion.shape<[seq, 576]>>, tensor<?x576xf32, #fusion.shape<[seq, 576]>>) -> tensor<?x576xf32, #fusion.shape<[seq, 576]>>
  %square = fusion.pow %sum, %two : (tensor<?x576xf32, #fusion.shape<[seq, 576]>>, tensor<f32>) -> tensor<?x576xf32, #fusion.shape<[seq, 576]>>
  %mean = fusion.reduce_mean %square axes = [1] {keepdims} : (tensor<?x576xf32, #fusion.shape<[seq, 576]>>) -> tensor<?x1xf32, #fusion.shape<[seq, 1]>>
  %biased = fusion.add %mean, %epsilon : (tensor<?x1xf32, #fusion.shape<[seq, 1]>>, tensor<f32>) -> tensor<?x1xf32, #fusion.shape<[seq, 1]>>
  %root = fusion.sqrt %biased : (tensor<?x1xf32, #fusion.shape<[seq, 1]>>) -> tensor<?x1xf32, #fusion.shape<[seq, 1]>>
  %scale = fusion.reciprocal %root : (tensor<?x1xf32, #fusion.shape<[seq, 1]>>) -> tensor<?x1xf32, #fusion.shape<[seq, 1]>>
  %scaled = fusion.mul %sum, %scale : (tensor<?x576xf32, #fusion.shape<[seq, 576]>>, tensor<?x1xf32, #fusion.shape<[seq, 1]>>) -> tensor<?x576xf32, #fusion.shape<[seq, 576]>>
  %normalised = fusion.mul %weight, %scaled : (tensor<576xf32>, tensor<?x576xf32, #fusion.shape<[seq, 576]>>) -> tensor<?x576xf32, #fusion.shape<[seq, 576]>>
  return %sum, %normalised : tensor<?x576xf32, #fusion.shape<[seq, 576]>>, tensor<?x576xf32, #fusion.shape<[seq, 576]>>
}
