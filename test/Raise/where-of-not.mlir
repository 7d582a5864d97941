// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// CHECK-LABEL: func.func @complement
// CHECK-NEXT: %[[W:.*]] = fusion.where %arg0, %arg2, %arg1 :
// CHECK-NEXT: return %[[W]]
func.func @complement(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fusion.not %c : (tensor<4xi1>) -> tensor<4xi1>
  %1 = fusion.where %0, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The complement of what is chosen is no complement of the condition.
// CHECK-LABEL: func.func @chosen
// CHECK-NEXT: %[[N:.*]] = fusion.not %arg1
// CHECK-NEXT: fusion.where %arg0, %[[N]], %arg2 :
func.func @chosen(%c: tensor<4xi1>, %a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {
  %0 = fusion.not %a : (tensor<4xi1>) -> tensor<4xi1>
  %1 = fusion.where %c, %0, %b : (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %1 : tensor<4xi1>
}
