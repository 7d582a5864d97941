// RUN: fusion-opt %s --fusion-outline-kernels | FileCheck %s

// Groups that differ only in the names of their sizes share a kernel, also
// across functions.

// CHECK-LABEL: func.func @decode
// CHECK: fusion.group "silu"
// CHECK-SAME: attributes {plan.kernel = @silu_0, plan.sizes = ["batch"]}
func.func @decode(%x: tensor<?x8xf32, #fusion.shape<[batch, 8]>>) -> tensor<?x8xf32, #fusion.shape<[batch, 8]>> {
  %y = fusion.group "silu" (%a = %x) : (tensor<?x8xf32, #fusion.shape<[batch, 8]>>) -> tensor<?x8xf32, #fusion.shape<[batch, 8]>> kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a {fusion.sites = ["swiglu:/a"]} : (tensor<?x8xf32, #fusion.shape<[batch, 8]>>) -> tensor<?x8xf32, #fusion.shape<[batch, 8]>>
    fusion.yield %0 : tensor<?x8xf32, #fusion.shape<[batch, 8]>>
  }
  return %y : tensor<?x8xf32, #fusion.shape<[batch, 8]>>
}

// CHECK-LABEL: func.func @prefill
// CHECK: fusion.group "silu"
// CHECK-SAME: attributes {plan.kernel = @silu_0, plan.sizes = ["seq"]}
// An attribute that changes the result makes another kernel.
// CHECK: fusion.group "silu"
// CHECK-SAME: attributes {plan.kernel = @silu_1, plan.sizes = ["seq"]}
// So does another number of symbols.
// CHECK: fusion.group "silu"
// CHECK-SAME: attributes {plan.kernel = @silu_2, plan.sizes = ["past", "seq"]}
func.func @prefill(%x: tensor<?x8xf32, #fusion.shape<[seq, 8]>>, %z: tensor<?x?xf32, #fusion.shape<[past, seq]>>)
    -> (tensor<?x8xf32, #fusion.shape<[seq, 8]>>, tensor<?x8xf32, #fusion.shape<[seq, 8]>>, tensor<?x?xf32, #fusion.shape<[past, seq]>>) {
  %y = fusion.group "silu" (%a = %x) : (tensor<?x8xf32, #fusion.shape<[seq, 8]>>) -> tensor<?x8xf32, #fusion.shape<[seq, 8]>> kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a {fusion.sites = ["swiglu:/b"]} : (tensor<?x8xf32, #fusion.shape<[seq, 8]>>) -> tensor<?x8xf32, #fusion.shape<[seq, 8]>>
    fusion.yield %0 : tensor<?x8xf32, #fusion.shape<[seq, 8]>>
  }
  %u = fusion.group "silu" (%a = %x) : (tensor<?x8xf32, #fusion.shape<[seq, 8]>>) -> tensor<?x8xf32, #fusion.shape<[seq, 8]>> kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a {alpha = 1.5 : f32} : (tensor<?x8xf32, #fusion.shape<[seq, 8]>>) -> tensor<?x8xf32, #fusion.shape<[seq, 8]>>
    fusion.yield %0 : tensor<?x8xf32, #fusion.shape<[seq, 8]>>
  }
  %v = fusion.group "silu" (%a = %z) : (tensor<?x?xf32, #fusion.shape<[past, seq]>>) -> tensor<?x?xf32, #fusion.shape<[past, seq]>> kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a : (tensor<?x?xf32, #fusion.shape<[past, seq]>>) -> tensor<?x?xf32, #fusion.shape<[past, seq]>>
    fusion.yield %0 : tensor<?x?xf32, #fusion.shape<[past, seq]>>
  }
  return %y, %u, %v : tensor<?x8xf32, #fusion.shape<[seq, 8]>>, tensor<?x8xf32, #fusion.shape<[seq, 8]>>, tensor<?x?xf32, #fusion.shape<[past, seq]>>
}

// CHECK: fusion.kernel @silu_0 config #fusion.config<"pointwise", {}> sizes 1
// CHECK-NEXT: fusion.silu %{{.*}} : (tensor<?x8xf32, #fusion.shape<[d0, 8]>>)
// CHECK: fusion.kernel @silu_1
// CHECK: fusion.kernel @silu_2 {{.*}} sizes 2 (%{{.*}}: tensor<?x?xf32, #fusion.shape<[d0, d1]>>)
