// RUN: fusion-opt %s --fusion-canonicalize-spellings --fusion-raise-activations | FileCheck %s

// x * (0.5 * (1 + erf(x / 1.4142)))
// CHECK-LABEL: func.func @erf
// CHECK-NEXT: fusion.gelu %arg0 : 
func.func @erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = fusion.constant dense<1.41421354> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.div %x, %r : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = fusion.mul %half, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = fusion.mul %x, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// (x * (1 + erf(x * 0.7071))) * 0.5
// CHECK-LABEL: func.func @erf_late_half
// CHECK-NEXT: fusion.gelu %arg0 : 
func.func @erf_late_half(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = fusion.constant dense<0.707106769> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.mul %x, %r : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = fusion.mul %x, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = fusion.mul %3, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: fusion.gelu %arg0 {tanh}
func.func @tanh(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = fusion.constant dense<3.0> : tensor<f32>
  %c = fusion.constant dense<0.044715> : tensor<f32>
  %s = fusion.constant dense<0.797884583> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.pow %x, %three : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.mul %c, %0 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %x, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = fusion.mul %s, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = fusion.tanh %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = fusion.add %4, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %6 = fusion.mul %half, %5 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = fusion.mul %x, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// x * (1 + 0.044715 * x * x) inside, half on x, on a gate that is itself a sum.
// CHECK-LABEL: func.func @fast
// CHECK: %[[X:.*]] = fusion.add %arg0, %arg1
// CHECK-NEXT: fusion.gelu %[[X]] {tanh}
func.func @fast(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %x = fusion.add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %c = fusion.constant dense<0.044715> : tensor<f32>
  %s = fusion.constant dense<0.797884583> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.mul %c, %0 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %one, %1 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = fusion.mul %x, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %4 = fusion.mul %3, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = fusion.tanh %4 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = fusion.add %one, %5 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = fusion.mul %x, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %8 = fusion.mul %7, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// The division by 1.41 is no division by the root of 2.
// CHECK-LABEL: func.func @other_constant
// CHECK: fusion.erf
// CHECK-NOT: fusion.gelu
func.func @other_constant(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = fusion.constant dense<1.41> : tensor<f32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %half = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.div %x, %r : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = fusion.erf %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = fusion.add %1, %one : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %3 = fusion.mul %half, %2 : (tensor<f32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = fusion.mul %x, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
