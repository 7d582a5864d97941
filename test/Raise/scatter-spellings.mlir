// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

// x[.., 0:2] = a, x[.., 2:4] = b, by the indices of every element.
// CHECK-LABEL: func.func @grid
// CHECK-NEXT: %[[C:.*]] = fusion.concat %arg0, %arg1 axis = 2
// CHECK-NEXT: return %[[C]]
func.func @grid(%a: tensor<2x?x2xf32, #fusion.shape<[2, n, 2]>>, %b: tensor<2x?x2xf32, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>> {
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %x = fusion.expand %zero : (tensor<f32>) -> tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>
  %i0 = fusion.constant dense<[[[0]], [[1]]]> : tensor<2x1x1xi64>
  %i1 = fusion.iota "0" step "1" : tensor<?xi64, #fusion.shape<[n]>>
  %i2 = fusion.constant dense<[0, 1]> : tensor<2xi64>
  %j2 = fusion.constant dense<[2, 3]> : tensor<2xi64>
  %r1 = fusion.reshape %i1 : (tensor<?xi64, #fusion.shape<[n]>>) -> tensor<?x1xi64, #fusion.shape<[n, 1]>>
  %e0 = fusion.expand %i0 : (tensor<2x1x1xi64>) -> tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>
  %e1 = fusion.expand %r1 : (tensor<?x1xi64, #fusion.shape<[n, 1]>>) -> tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>
  %e2 = fusion.expand %i2 : (tensor<2xi64>) -> tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>
  %f2 = fusion.expand %j2 : (tensor<2xi64>) -> tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>
  %c0 = fusion.reshape %e0 : (tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>
  %c1 = fusion.reshape %e1 : (tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>
  %c2 = fusion.reshape %e2 : (tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>
  %d2 = fusion.reshape %f2 : (tensor<2x?x2xi64, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>
  %i = fusion.concat %c0, %c1, %c2 axis = 3 : (tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>, tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>, tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>) -> tensor<2x?x2x3xi64, #fusion.shape<[2, n, 2, 3]>>
  %j = fusion.concat %c0, %c1, %d2 axis = 3 : (tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>, tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>, tensor<2x?x2x1xi64, #fusion.shape<[2, n, 2, 1]>>) -> tensor<2x?x2x3xi64, #fusion.shape<[2, n, 2, 3]>>
  %y = fusion.scatter_nd %x, %i, %a : (tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>, tensor<2x?x2x3xi64, #fusion.shape<[2, n, 2, 3]>>, tensor<2x?x2xf32, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>
  %z = fusion.scatter_nd %y, %j, %b : (tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>, tensor<2x?x2x3xi64, #fusion.shape<[2, n, 2, 3]>>, tensor<2x?x2xf32, #fusion.shape<[2, n, 2]>>) -> tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>
  return %z : tensor<2x?x4xf32, #fusion.shape<[2, n, 4]>>
}

// -----

// The last axis in front, rows by an index each.
// CHECK-LABEL: func.func @turned
// CHECK-NEXT: %[[C:.*]] = fusion.concat %arg0, %arg1 axis = 1
// CHECK-NEXT: return %[[C]]
func.func @turned(%a: tensor<5x2xf32>, %b: tensor<5x2xf32>) -> tensor<5x4xf32> {
  %x = fusion.constant dense<0.0> : tensor<4x5xf32>
  %i = fusion.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %j = fusion.constant dense<[[2], [3]]> : tensor<2x1xi64>
  %ta = fusion.transpose %a perm = [1, 0] : (tensor<5x2xf32>) -> tensor<2x5xf32>
  %tb = fusion.transpose %b perm = [1, 0] : (tensor<5x2xf32>) -> tensor<2x5xf32>
  %y = fusion.scatter_nd %x, %i, %ta : (tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
  %z = fusion.scatter_nd %y, %j, %tb : (tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
  %t = fusion.transpose %z perm = [1, 0] : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %t : tensor<5x4xf32>
}

// -----

// Rows that do not follow each other, and sums, stay scatters.
// CHECK-LABEL: func.func @apart
// CHECK: fusion.scatter_nd
// CHECK: fusion.scatter_nd
func.func @apart(%x: tensor<4x5xf32>, %a: tensor<2x5xf32>) -> tensor<4x5xf32> {
  %i = fusion.constant dense<[[0], [2]]> : tensor<2x1xi64>
  %j = fusion.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %y = fusion.scatter_nd %x, %i, %a : (tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
  %z = fusion.scatter_nd %y, %j, %a {reduction = "add"} : (tensor<4x5xf32>, tensor<2x1xi64>, tensor<2x5xf32>) -> tensor<4x5xf32>
  return %z : tensor<4x5xf32>
}
