// RUN: fusion-opt %s --pass-pipeline='builtin.module(func.func(fusion-fold-constants))' | FileCheck %s

// Values from numpy.

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic() -> tensor<2xf32> {
  %a = fusion.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.mul %a, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = fusion.exp %0 : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK: fusion.constant dense<[1.64872122, 2.71828175]> : tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @integers
func.func @integers() -> tensor<3xi64> {
  %a = fusion.constant dense<[-7, 7, 8]> : tensor<3xi64>
  %b = fusion.constant dense<2> : tensor<1xi64>
  // Truncating division, as ONNX's Div.
  // CHECK: fusion.constant dense<[-3, 3, 4]> : tensor<3xi64>
  %0 = fusion.div %a, %b : (tensor<3xi64>, tensor<1xi64>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
}

// CHECK-LABEL: func.func @causal
func.func @causal() -> tensor<2x3xi1> {
  %c = fusion.constant dense<[[0, 1, 2]]> : tensor<1x3xi64>
  %r = fusion.constant dense<[[1], [2]]> : tensor<2x1xi64>
  // CHECK{LITERAL}: fusion.constant dense<[[true, true, false], [true, true, true]]> : tensor<2x3xi1>
  %0 = fusion.less_equal %c, %r : (tensor<1x3xi64>, tensor<2x1xi64>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// Symbolic sizes are no constants.
// CHECK-LABEL: func.func @symbolic
func.func @symbolic() -> tensor<1xi64> {
  // CHECK: fusion.shape_value
  // CHECK: fusion.neg
  %0 = fusion.shape_value ["seq"] : tensor<1xi64>
  %1 = fusion.neg %0 : (tensor<1xi64>) -> tensor<1xi64>
  return %1 : tensor<1xi64>
}
