// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// A fused value keeps the name of a node when it can be compared with what the
// unfused program has under that name: not with half of it, nor with another
// type. Of a node with two outputs none has its name.

!t = tensor<?x8xf32, #fusion.shape<[n, 8]>>
!h = tensor<?x4xf32, #fusion.shape<[n, 4]>>

// CHECK-LABEL: plan.program @main
// CHECK-DAG: plan.alloc "32" : tensor<1x8xf32> value "same" live
// CHECK-DAG: plan.alloc "16" : tensor<1x4xf32> live
// CHECK-LABEL: plan.program @unfused {{.*}} set "unfused"
// CHECK-DAG: value "same"
// CHECK-DAG: value "half"
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x4xf32> attributes {fusion.bucket = {rows = "n", min = 1 : i64, max = 1 : i64, fixed = {n = 1 : i64}}} {
  %a = fusion.group "silu" (%0 = %x) : (tensor<1x8xf32>) -> tensor<1x8xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (tensor<1x8xf32>) -> tensor<1x8xf32> loc("same")
    fusion.yield %1 : tensor<1x8xf32>
  }
  %b = fusion.group "slice" (%0 = %a) : (tensor<1x8xf32>) -> tensor<1x4xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.slice %0 starts = ["0", "0"] steps = [1, 2] : (tensor<1x8xf32>) -> tensor<1x4xf32> loc("half")
    fusion.yield %1 : tensor<1x4xf32>
  }
  %c = fusion.group "silu" (%0 = %b) : (tensor<1x4xf32>) -> tensor<1x4xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (tensor<1x4xf32>) -> tensor<1x4xf32>
    fusion.yield %1 : tensor<1x4xf32>
  }
  return %c : tensor<1x4xf32>
}
func.func @unfused(%x: !t) -> !h attributes {fusion.set = "unfused"} {
  %a = fusion.group "silu" (%0 = %x) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t loc("same")
    fusion.yield %1 : !t
  }
  %b = fusion.group "silu" (%0 = %a) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t loc("half")
    fusion.yield %1 : !t
  }
  %c, %d = fusion.group "slice" (%0 = %b) : (!t) -> (!h, !h) kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.slice %0 starts = ["0", "0"] steps = [1, 2] : (!t) -> !h loc("split")
    %2 = fusion.slice %0 starts = ["0", "1"] steps = [1, 2] : (!t) -> !h loc("split")
    fusion.yield %1, %2 : !h, !h
  }
  // CHECK-NOT: value "split"
  %e = fusion.group "add" (%0 = %c, %1 = %d) : (!h, !h) -> !h kernel #fusion.config<"pointwise", {}> {
    %2 = fusion.add %0, %1 : (!h, !h) -> !h
    fusion.yield %2 : !h
  }
  return %e : !h
}
