// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.attention

// Softmax over the rows.
// CHECK: [Missed] attention {{.*}} expected="a softmax over the keys", found="axis 1"{{.*}} reason=AXIS_NOT_LAST
func.func @axis(%q: tensor<1x4x4xf32>, %k: tensor<1x4x4xf32>, %v: tensor<1x4x4xf32>) -> tensor<1x4x4xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %1 = fusion.softmax %0 axis = 1 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// -----

// The mask inside of the soft cap.
// CHECK: [Missed] attention {{.*}} expected="the mask outside of the cap"{{.*}} stopped=fusion.add
func.func @mask_inside(%q: tensor<1x4x4xf32>, %k: tensor<1x4x4xf32>, %v: tensor<1x4x4xf32>, %m: tensor<4x4xf32>) -> tensor<1x4x4xf32> {
  %cap = fusion.constant dense<50.0> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %a = fusion.add %0, %m : (tensor<1x4x4xf32>, tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %d = fusion.div %a, %cap : (tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4x4xf32>
  %t = fusion.tanh %d : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %c = fusion.mul %t, %cap : (tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4x4xf32>
  %1 = fusion.softmax %c axis = 2 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// -----

// A selected value that a bias may fall below.
// CHECK: [Missed] attention {{.*}} expected="a mask value that hides any score and its bias"{{.*}} found="-1000000000.{{[0-9]*}} beside an argument"{{.*}} reason=MASK_UNPROVEN
func.func @biased(%q: tensor<1x4x4xf32>, %k: tensor<1x4x4xf32>, %v: tensor<1x4x4xf32>, %m: tensor<4x4xi1>, %b: tensor<4xf32>) -> tensor<1x4x4xf32> {
  %low = fusion.constant dense<-1.0e9> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %s = fusion.add %0, %b : (tensor<1x4x4xf32>, tensor<4xf32>) -> tensor<1x4x4xf32>
  %a = fusion.where %m, %s, %low : (tensor<4x4xi1>, tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4x4xf32>
  %1 = fusion.softmax %a axis = 2 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// -----

// A selected value that may still get weight.
// CHECK: [Missed] attention {{.*}} found=-9000.{{.*}} reason=MASK_UNPROVEN
func.func @leaking(%q: tensor<1x4x4xf32>, %k: tensor<1x4x4xf32>, %v: tensor<1x4x4xf32>, %m: tensor<4x4xi1>) -> tensor<1x4x4xf32> {
  %low = fusion.constant dense<-9000.0> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %a = fusion.where %m, %0, %low : (tensor<4x4xi1>, tensor<1x4x4xf32>, tensor<f32>) -> tensor<1x4x4xf32>
  %1 = fusion.softmax %a axis = 2 : (tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %2 : tensor<1x4x4xf32>
}

// -----

// Head counts that do not fit are said.
// CHECK: [Missed] attention {{.*}} expected="constant head counts, those of key and value equal"{{.*}} reason=HEAD_DIM
func.func @heads(%q: tensor<1x?x4x8xf32, #fusion.shape<[1, "h", 4, 8]>>, %k: tensor<1x?x6x8xf32, #fusion.shape<[1, "h", 6, 8]>>, %v: tensor<1x?x6x8xf32, #fusion.shape<[1, "h", 6, 8]>>) -> tensor<1x?x4x8xf32, #fusion.shape<[1, "h", 4, 8]>> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x?x4x8xf32, #fusion.shape<[1, "h", 4, 8]>>, tensor<1x?x6x8xf32, #fusion.shape<[1, "h", 6, 8]>>) -> tensor<1x?x4x6xf32, #fusion.shape<[1, "h", 4, 6]>>
  %1 = fusion.softmax %0 axis = 3 : (tensor<1x?x4x6xf32, #fusion.shape<[1, "h", 4, 6]>>) -> tensor<1x?x4x6xf32, #fusion.shape<[1, "h", 4, 6]>>
  %2 = fusion.matmul %1, %v : (tensor<1x?x4x6xf32, #fusion.shape<[1, "h", 4, 6]>>, tensor<1x?x6x8xf32, #fusion.shape<[1, "h", 6, 8]>>) -> tensor<1x?x4x8xf32, #fusion.shape<[1, "h", 4, 8]>>
  return %2 : tensor<1x?x4x8xf32, #fusion.shape<[1, "h", 4, 8]>>
}

// -----

// A mask of each group but not of each head.
// CHECK: [Missed] attention {{.*}} expected="a mask of all heads or of each", found="1 by 3 heads"{{.*}} reason=MASK
func.func @mask_of_groups(%q: tensor<1x2x3x4x8xf32>, %k: tensor<1x2x1x6x8xf32>, %v: tensor<1x2x1x6x8xf32>, %m: tensor<3x4x6xf32>) -> tensor<1x2x3x4x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x4x8xf32>, tensor<1x2x1x6x8xf32>) -> tensor<1x2x3x4x6xf32>
  %1 = fusion.add %0, %m : (tensor<1x2x3x4x6xf32>, tensor<3x4x6xf32>) -> tensor<1x2x3x4x6xf32>
  %2 = fusion.softmax %1 axis = 4 : (tensor<1x2x3x4x6xf32>) -> tensor<1x2x3x4x6xf32>
  %3 = fusion.matmul %2, %v : (tensor<1x2x3x4x6xf32>, tensor<1x2x1x6x8xf32>) -> tensor<1x2x3x4x8xf32>
  return %3 : tensor<1x2x3x4x8xf32>
}

// -----

// A column of its own beside the keys takes weight: a sink.
// CHECK: [Missed] attention {{.*}} expected="the scores of keys alone", found="columns beside them that no value has (sinks)"{{.*}} stopped=fusion.concat
func.func @sink(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %z: tensor<1x2x4x1xf32>) -> tensor<1x2x4x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.concat %0, %z axis = 3 : (tensor<1x2x4x6xf32>, tensor<1x2x4x1xf32>) -> tensor<1x2x4x7xf32>
  %2 = fusion.softmax %1 axis = 3 : (tensor<1x2x4x7xf32>) -> tensor<1x2x4x7xf32>
  %3 = fusion.slice %2 starts = ["0", "0", "0", "0"] steps = [1, 1, 1, 1] : (tensor<1x2x4x7xf32>) -> tensor<1x2x4x6xf32>
  %4 = fusion.matmul %3, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %4 : tensor<1x2x4x8xf32>
}

// -----

// One number a row, as the maximum of its scores, is no mask.
// CHECK: [Missed] attention {{.*}} expected="a mask taken from scores of a product"{{.*}} stopped=fusion.sub
func.func @of_rows(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %m: tensor<4x1xf32>) -> tensor<1x2x4x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.sub %0, %m : (tensor<1x2x4x6xf32>, tensor<4x1xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.softmax %1 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %3 = fusion.matmul %2, %k : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %3 : tensor<1x2x4x8xf32>
}
