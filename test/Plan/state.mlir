// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// A session state is appended to in place: past and present are one buffer;
// what a launch of this step does not write may be loaded early.

!new = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, seq, 64]>>
!past = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 256, 64]>>
!all = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + seq", 64], storage = [1, 2, 256, 64]>>

// CHECK: plan.model "main" attributes {appended = "seq", max_context = 256 : i64}
// CHECK-NEXT: plan.symbol "seq" input 0 axis 2 in 1 to 32
// CHECK-NEXT: plan.symbol "past" cached_length in 0 to 256
// CHECK-NEXT: plan.model_input "q"
// CHECK-NEXT: plan.model_output "y"
// CHECK-NEXT: plan.model_state "past.k" : tensor<1x2x256x64xf32> length_axis 2
// CHECK-NEXT: }
// CHECK: plan.program @main
// CHECK-DAG: %[[Q:.*]] = plan.input 0
// CHECK-DAG: %[[S:.*]] = plan.state 0
// CHECK-DAG: %[[Y:.*]] = plan.output 0
// CHECK-NOT: plan.alloc
// CHECK: plan.launch @append_0 (%[[Q]] {invariant}, %[[S]] {older_invariant}) to (%[[S]] {older_invariant}) sizes ["seq", "past"]
// CHECK-NEXT: plan.launch @attention_0 (%[[Q]] {invariant}, %[[S]] {older_invariant}) to (%[[Y]]) sizes ["seq", "past"]
module attributes {fusion.cached_length = "past", fusion.dims = {seq = array<i64: 1, 32>}} {
func.func @main(%q: !new {fusion.name = "q"}, %pk: !past {fusion.name = "past.k", fusion.state = 0 : i64}) -> (!new {fusion.name = "y"}) {
  %a = fusion.group "attention" (%q0 = %q, %pk0 = %pk) : (!new, !past) -> !new kernel #fusion.config<"attention", {}> {
    %2 = fusion.kv_append %pk0, %q0 axis = 2 : (!past, !new) -> !all
    %4 = fusion.attention %q0, %2, %2 {scale = 0.125 : f32, causal, causal_offset = "past"} : (!new, !all, !all) -> !new
    fusion.yield %4 : !new
  }
  return %a : !new
}
}
