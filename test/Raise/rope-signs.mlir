// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// No half is negated: the sines of the first half get the sign.
// CHECK-LABEL: func.func @not_negated
// CHECK: %[[S:.*]] = fusion.mul %arg2, %{{.*}} : (tensor<3x8xf32>, tensor<8xf32>)
// CHECK: fusion.rope %arg0, %arg1, %[[S]] :
func.func @not_negated(%x: tensor<3x8xf32>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %r = fusion.concat %b, %a axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// The other half is negated, and the product taken away; the sines are there once.
// CHECK-LABEL: func.func @difference
// CHECK-NEXT: %[[C:.*]] = fusion.cos %arg1
// CHECK-NEXT: %[[S:.*]] = fusion.sin %arg1
// CHECK-NEXT: fusion.rope %arg0, %[[C]], %[[S]] :
func.func @difference(%x: tensor<3x8xf32>, %angle: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %c = fusion.cos %angle : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %s = fusion.sin %angle : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %cos = fusion.concat %c, %c axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %sin = fusion.concat %s, %s axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %n = fusion.neg %a : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = fusion.concat %b, %n axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.sub %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// Halves by a gather, the signs as a factor of the sines.
// CHECK-LABEL: func.func @gathered
// CHECK: fusion.rope %arg0, %arg1, %arg2 :
func.func @gathered(%x: tensor<3x4xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %order = fusion.constant dense<[2, 3, 0, 1]> : tensor<4xi64>
  %signs = fusion.constant dense<[-1.0, -1.0, 1.0, 1.0]> : tensor<4xf32>
  %r = fusion.gather %x, %order axis = 1 : (tensor<3x4xf32>, tensor<4xi64>) -> tensor<3x4xf32>
  %s = fusion.mul %sin, %signs : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.mul %r, %s : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.add %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// Pairs swapped by a product with a matrix.
// CHECK-LABEL: func.func @product
// CHECK: fusion.rope %arg0, %arg1, %arg2 {interleaved}
func.func @product(%x: tensor<3x4xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %m = fusion.constant dense<[[0.0, 1.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, -1.0, 0.0]]> : tensor<4x4xf32>
  %r = fusion.matmul %x, %m : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.add %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// Halves with tables of their own, which are the halves of one.
// CHECK-LABEL: func.func @own_tables
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 :
func.func @own_tables(%x: tensor<3x8xf32>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %c1 = fusion.slice %cos starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %c2 = fusion.slice %cos starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %s1 = fusion.slice %sin starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %s2 = fusion.slice %sin starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %0 = fusion.mul %a, %c1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.mul %b, %s1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.sub %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = fusion.mul %b, %c2 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = fusion.mul %a, %s2 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %5 = fusion.add %3, %4 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %6 = fusion.concat %2, %5 axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %6 : tensor<3x8xf32>
}
