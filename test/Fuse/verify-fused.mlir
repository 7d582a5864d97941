// RUN: fusion-opt %s --fusion-verify-fused --split-input-file --verify-diagnostics

func.func @outside(%x: tensor<4xf32>) -> tensor<4xf32> attributes {fusion.bucket = {rows = "1"}} {
  // expected-error @below {{expected to be in a fusion.group}}
  %0 = fusion.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expected the attribute fusion.bucket}}
func.func @no_bucket(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @wrong_family(%x: tensor<4xf32>) -> tensor<4xf32> attributes {fusion.bucket = {rows = "1"}} {
  // expected-error @below {{expected family pointwise, found matmul}}
  %0 = fusion.group "x" (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> kernel #fusion.config<"matmul", {}> {
    %1 = fusion.exp %a : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @two_spaces(%x: tensor<4x1xf32>, %y: tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x8xf32>) attributes {fusion.bucket = {rows = "1"}} {
  // expected-error @below {{no kernel family executes it: ITERATION_SPACE}}
  %0:2 = fusion.group "x" (%a = %x, %b = %y) : (tensor<4x1xf32>, tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x8xf32>) kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.exp %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %2 = fusion.mul %1, %b : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %1, %2 : tensor<4x1xf32>, tensor<4x8xf32>
  }
  return %0#0, %0#1 : tensor<4x1xf32>, tensor<4x8xf32>
}
