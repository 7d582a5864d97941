// RUN: fusion-opt %s --verify-roundtrip | FileCheck %s

// CHECK: plan.model "main" attributes {appended = "seq", max_context = 2048 : i64} {
// CHECK-NEXT: plan.symbol "seq" input 0 axis 1 in 1 to 4096
// CHECK-NEXT: plan.symbol "past" cached_length in 0 to 2047
// CHECK-NEXT: plan.model_input "ids" : tensor<1x?xi64, #fusion.shape<[1, seq]>> role "token_ids"
// CHECK-NEXT: plan.model_output "logits" : tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>> role "logits"
// CHECK-NEXT: plan.model_state "past.0" : tensor<1x2x2048x64xf32> length_axis 2
// CHECK-NEXT: plan.guard "seq" equals "2*half" because "inputs are added"
plan.model "main" attributes {appended = "seq", max_context = 2048 : i64} {
  plan.symbol "seq" input 0 axis 1 in 1 to 4096
  plan.symbol "past" cached_length in 0 to 2047
  plan.model_input "ids" : tensor<1x?xi64, #fusion.shape<[1, seq]>> role "token_ids"
  plan.model_output "logits" : tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>> role "logits"
  plan.model_state "past.0" : tensor<1x2x2048x64xf32> length_axis 2
  plan.guard "seq" equals "2*half" because "inputs are added"
}

// CHECK: plan.constant @w "w" : tensor<16x16xf32> = #{{.*}}
// CHECK: plan.constant @one "one" : tensor<2xf32> = dense<1.000000e+00> : tensor<2xf32>
// CHECK: plan.constant @sum "sum" : tensor<2xf32> evaluates @double result 0 of [@one]
plan.constant @w "w" : tensor<16x16xf32> = #fusion.weight<"m.data", 0, 1024>
plan.constant @one "one" : tensor<2xf32> = dense<1.0> : tensor<2xf32>
plan.constant @sum "sum" : tensor<2xf32> evaluates @double result 0 of [@one]

fusion.kernel @double config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  %0 = fusion.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  fusion.yield %0 : tensor<2xf32>
}
fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 1
    (%a: tensor<?xf32, #fusion.shape<[d0]>>, %b: tensor<2xf32>) {
  fusion.yield %a : tensor<?xf32, #fusion.shape<[d0]>>
}

// CHECK: plan.program @decode rows "1" in 1 to 1 fixed {seq = 1 : i64} set "unfused" arena [256, 256] {
plan.program @decode rows "1" in 1 to 1 fixed {seq = 1 : i64} set "unfused" arena [256, 256] {
  // CHECK-NEXT: %[[X:.*]] = plan.input 0
  %x = plan.input 0
  // CHECK-NEXT: %[[Y:.*]] = plan.output 0
  %y = plan.output 0
  %s = plan.state 0
  // CHECK: %[[W:.*]] = plan.weight @one
  %w = plan.weight @one
  // CHECK-NEXT: %[[B:.*]] = plan.alloc "4*seq" : tensor<?xf32, #fusion.shape<[seq]>> value "/norm" live 0 to 1
  %b = plan.alloc "4*seq" : tensor<?xf32, #fusion.shape<[seq]>> value "/norm" live 0 to 1
  // CHECK-NEXT: %[[V:.*]] = plan.view %[[B]] at "4*seq - 4"
  %v = plan.view %b at "4*seq - 4"
  // CHECK-NEXT: plan.launch @k (%[[X]], %[[W]] {evict_first, invariant}) to (%[[B]]) sizes ["seq"] grid "seq" grain "1" scratch "0" chain programmatic at "/norm"
  plan.launch @k (%x, %w {evict_first, invariant}) to (%b) sizes ["seq"] grid "seq" grain "1" scratch "0" chain programmatic at "/norm"
  // CHECK-NEXT: plan.launch @k (%[[V]] {older_invariant}, %[[W]] {evict_last}) to (%[[Y]]) sizes ["1"] grid "1" grain "1" scratch "64*seq"
  plan.launch @k (%v {older_invariant}, %w {evict_last}) to (%y) sizes ["1"] grid "1" grain "1" scratch "64*seq"
}
