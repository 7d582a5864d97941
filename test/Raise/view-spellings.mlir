// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// CHECK-LABEL: func.func @slices
// CHECK-NEXT: fusion.slice %arg0 starts = ["5"] steps = [4] : (tensor<24xf32>) -> tensor<2xf32>
// CHECK-NEXT: return
func.func @slices(%x: tensor<24xf32>) -> tensor<2xf32> {
  %0 = fusion.slice %x starts = ["1"] steps = [2] : (tensor<24xf32>) -> tensor<10xf32>
  %1 = fusion.slice %0 starts = ["2"] steps = [2] : (tensor<10xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @column
// CHECK-NEXT: fusion.slice %arg0 starts = ["0", "1"] steps = [1, 2] : (tensor<3x8xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return
func.func @column(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %0 = fusion.reshape %x : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
  %1 = fusion.slice %0 starts = ["0", "0", "1"] steps = [1, 1, 1] : (tensor<3x4x2xf32>) -> tensor<3x4x1xf32>
  %2 = fusion.reshape %1 : (tensor<3x4x1xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @half
// CHECK-NEXT: fusion.slice %arg0 starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return
func.func @half(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %one = fusion.constant dense<-1> : tensor<i64>
  %0 = fusion.reshape %x : (tensor<3x8xf32>) -> tensor<3x2x4xf32>
  %1 = fusion.gather %0, %one axis = 1 : (tensor<3x2x4xf32>, tensor<i64>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @stack
// CHECK-NEXT: fusion.concat %arg0, %arg1 axis = 1
// CHECK-NEXT: return
func.func @stack(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = fusion.reshape %a : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
  %1 = fusion.reshape %b : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
  %2 = fusion.concat %0, %1 axis = 1 : (tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> tensor<3x2x4xf32>
  %3 = fusion.reshape %2 : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// A merge of the stack with the rows is something else.
// CHECK-LABEL: func.func @rows
// CHECK: fusion.concat {{.*}} -> tensor<3x2x4xf32>
// CHECK-NEXT: fusion.reshape
func.func @rows(%a: tensor<3x1x4xf32>, %b: tensor<3x1x4xf32>) -> tensor<6x4xf32> {
  %2 = fusion.concat %a, %b axis = 1 : (tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> tensor<3x2x4xf32>
  %3 = fusion.reshape %2 : (tensor<3x2x4xf32>) -> tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}

// CHECK-LABEL: func.func @piece
// CHECK-NEXT: return %arg1
func.func @piece(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.concat %a, %b axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %1 = fusion.slice %0 starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT: fusion.add %arg0, %arg1
// CHECK-NEXT: return
func.func @broadcast(%a: tensor<1x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.expand %a : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %0, %b : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// Without the expand the sum would be smaller.
// CHECK-LABEL: func.func @needed
// CHECK-NEXT: fusion.expand
func.func @needed(%a: tensor<1x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.expand %a : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %0, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @split_after_transpose
// CHECK-NEXT: fusion.reshape %arg0 : (tensor<6x5x4xf32>) -> tensor<2x3x5x4xf32>
// CHECK-NEXT: fusion.transpose {{.*}} perm = [0, 1, 3, 2]
func.func @split_after_transpose(%x: tensor<6x5x4xf32>) -> tensor<2x3x4x5xf32> {
  %0 = fusion.transpose %x perm = [0, 2, 1] : (tensor<6x5x4xf32>) -> tensor<6x4x5xf32>
  %1 = fusion.reshape %0 : (tensor<6x4x5xf32>) -> tensor<2x3x4x5xf32>
  return %1 : tensor<2x3x4x5xf32>
}

// The split changes the outer axes as well.
// CHECK-LABEL: func.func @column_of_a_head
// CHECK-NEXT: %[[R:.*]] = fusion.reshape %arg0 : (tensor<3x8xf32>) -> tensor<1x3x8xf32>
// CHECK-NEXT: fusion.slice %[[R]] starts = ["0", "0", "1"] steps = [1, 1, 2]
// CHECK-NEXT: return
func.func @column_of_a_head(%x: tensor<3x8xf32>) -> tensor<1x3x4xf32> {
  %0 = fusion.reshape %x : (tensor<3x8xf32>) -> tensor<1x3x4x2xf32>
  %1 = fusion.slice %0 starts = ["0", "0", "0", "1"] steps = [1, 1, 1, 1] : (tensor<1x3x4x2xf32>) -> tensor<1x3x4x1xf32>
  %2 = fusion.reshape %1 : (tensor<1x3x4x1xf32>) -> tensor<1x3x4xf32>
  return %2 : tensor<1x3x4xf32>
}
