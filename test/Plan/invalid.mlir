// RUN: fusion-opt %s --fusion-plan-pipeline --split-input-file --verify-diagnostics

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{expected groups, constants and contiguous reshapes only}}
  %y = fusion.neg %x : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{expected a kernel family; run the fuse pipeline}}
  %y = fusion.group "neg" (%0 = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %1 = fusion.neg %0 : (tensor<2xf32>) -> tensor<2xf32>
    fusion.yield %1 : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// -----

// expected-error @+1 {{size 'm' is no dimension of an input}}
func.func @main(%x: tensor<?xf32, #fusion.shape<["2*m"]>>) -> tensor<?xf32, #fusion.shape<["2*m"]>> {
  return %x : tensor<?xf32, #fusion.shape<["2*m"]>>
}
