// RUN: fusion-opt %s --fusion-outline-kernels | FileCheck %s

// Sizes in attributes are renamed too, inside quotients as well; a size that
// stands only there gets a number after those of the types.

// CHECK: attributes {plan.kernel = @pointwise_0, plan.sizes = ["n", "past"]}
func.func @main(%x: tensor<?xi64, #fusion.shape<[n]>>) -> tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>> {
  %y = fusion.group "pointwise" (%a = %x) : (tensor<?xi64, #fusion.shape<[n]>>) -> tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>> kernel #fusion.config<"pointwise", {}> {
    %s = fusion.slice %a starts = ["floordiv(n + 1, 2)"] steps = [1] : (tensor<?xi64, #fusion.shape<[n]>>) -> tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>
    %i = fusion.iota "past" step "1" : tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>
    %0 = fusion.add %s, %i : (tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>, tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>) -> tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>
    fusion.yield %0 : tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>
  }
  return %y : tensor<?xi64, #fusion.shape<["floordiv(n, 2)"]>>
}
// CHECK: fusion.kernel @pointwise_0 {{.*}} sizes 2
// CHECK: fusion.slice %{{.*}} starts = ["floordiv(d0 + 1, 2)"]
// CHECK-SAME: -> tensor<?xi64, #fusion.shape<["floordiv(d0, 2)"]>>
// CHECK: fusion.iota "d1" step "1"
