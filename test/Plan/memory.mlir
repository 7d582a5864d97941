// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// Slices of the arena live from the launch that writes them to the last that
// reads them, aliases included. Of four values of 8*n floats at most three are
// alive at once; their places are reused. n is at most 16.

!t = tensor<?x8xf32, #fusion.shape<[n, 8]>>
!flat = tensor<?xf32, #fusion.shape<["8*n"]>>

// CHECK: plan.program @main rows "n" in 2 to 16 arena [1536, 1536]
// CHECK-DAG: plan.alloc "32*n" : tensor<?x8xf32, #fusion.shape<[n, 8]>> value "first" live 0 to 2
// CHECK-DAG: plan.alloc "32*n" : tensor<?x8xf32, #fusion.shape<[n, 8]>> live 1 to 2
// CHECK-DAG: plan.alloc "32*n" : tensor<?x8xf32, #fusion.shape<[n, 8]>> live 2 to 3
// CHECK-NOT: chain
func.func @main(%x: !t) -> !t attributes {fusion.bucket = {rows = "n", min = 2 : i64, max = 16 : i64, fixed = {}}} {
  %a = fusion.group "silu" (%0 = %x) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t loc("first")
    fusion.yield %1 : !t
  }
  %b = fusion.group "silu" (%0 = %a) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t
    fusion.yield %1 : !t
  }
  %f = fusion.reshape %a : (!t) -> !flat
  %g = fusion.reshape %f : (!flat) -> !t
  %c = fusion.group "add" (%0 = %g, %1 = %b) : (!t, !t) -> !t kernel #fusion.config<"pointwise", {}> {
    %2 = fusion.add %0, %1 : (!t, !t) -> !t
    fusion.yield %2 : !t
  }
  %d = fusion.group "silu" (%0 = %c) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t
    fusion.yield %1 : !t
  }
  return %d : !t
}
