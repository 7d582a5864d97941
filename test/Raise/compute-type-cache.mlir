// RUN: fusion-opt %s --fusion-set-compute-type | FileCheck %s

// A cache of the session is in 16 bits; one that is input and output keeps its type.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[STATE:[a-z0-9]+]]: tensor<1x2x?x64xbf16, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 128, 64]>> {fusion.state = 0 : i64}
// CHECK-SAME: %[[PAST:[a-z0-9]+]]: tensor<1x2x?x64xf32,
// CHECK: %[[NEW:.*]] = fusion.cast {{.*}} -> tensor<1x2x4x64xbf16>
// CHECK: %[[K:.*]] = fusion.kv_append %[[STATE]], %[[NEW]] {{.*}} -> tensor<1x2x?x64xbf16, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 128, 64]>>
// CHECK: %[[V:.*]] = fusion.kv_append %[[PAST]], %{{.*}} -> tensor<1x2x?x64xf32,
// CHECK: %[[VB:.*]] = fusion.cast %[[V]]
// CHECK: fusion.attention %{{.*}}, %[[K]], %[[VB]]
// CHECK: return %{{.*}}, %[[V]]
func.func @main(%k: tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 128, 64]>> {fusion.state = 0 : i64},
                %v: tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>>, %x: tensor<1x2x4x64xf32>)
    -> (tensor<1x2x4x64xf32>, tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64]>>) {
  %0 = fusion.kv_append %k, %x axis = 2 : (tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 128, 64]>>, tensor<1x2x4x64xf32>)
    -> tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 128, 64]>>
  %1 = fusion.kv_append %v, %x axis = 2 : (tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>>, tensor<1x2x4x64xf32>)
    -> tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64]>>
  %2 = fusion.attention %x, %0, %1 {scale = 0.125 : f32, causal, causal_offset = "past"} : (tensor<1x2x4x64xf32>,
    tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64], storage = [1, 2, 128, 64]>>, tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64]>>) -> tensor<1x2x4x64xf32>
  return %2, %1 : tensor<1x2x4x64xf32>, tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + 4", 64]>>
}
