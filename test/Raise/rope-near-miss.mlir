// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.rope

// The slices overlap.
// CHECK: [Missed] rope {{.*}} expected="the halves (-b, a) of the rotated value's (a, b)"
func.func @overlap(%x: tensor<3x8xf32>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "1"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %n = fusion.neg %b : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = fusion.concat %n, %a axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// Another value is multiplied by the cosines.
// CHECK: [Missed] rope {{.*}} reason=PATTERN
func.func @other(%x: tensor<3x8xf32>, %y: tensor<3x8xf32>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %n = fusion.neg %b : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = fusion.concat %n, %a axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %0 = fusion.mul %y, %cos : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}
