// RUN: fusion-opt %s --fusion-transpose-weights | FileCheck %s

// CHECK-DAG: #[[TURNED:.*]] = #fusion.weight<"w.data", 0, 4096, tensor<64x16xf32>>
// CHECK-DAG: #[[PLAIN:.*]] = #fusion.weight<"w.data", 0, 4096>

// A weight that only products read is stored row by row of the results.
// CHECK-LABEL: @products
// CHECK: fusion.weight "w" at #[[TURNED]] : tensor<16x64xf32>
// CHECK: fusion.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<4x64xf32>, tensor<16x64xf32>) -> tensor<4x16xf32>
func.func @products(%x: tensor<4x64xf32>) -> tensor<4x16xf32> {
  %w = fusion.weight "w" at <"w.data", 0, 4096> : tensor<64x16xf32>
  %y = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// One that is rounded when it is read, too.
// CHECK-LABEL: @rounded
// CHECK: at #[[TURNED]] : tensor<16x64xbf16>
func.func @rounded(%x: tensor<4x64xbf16>) -> tensor<4x16xbf16> {
  %w = fusion.weight "w" at <"w.data", 0, 4096, f32> : tensor<64x16xbf16>
  %y = fusion.matmul %x, %w : (tensor<4x64xbf16>, tensor<64x16xbf16>) -> tensor<4x16xbf16>
  return %y : tensor<4x16xbf16>
}

// Another reader keeps the layout: one copy serves all.
// CHECK-LABEL: @shared
// CHECK: at #[[PLAIN]] : tensor<64x16xf32>
// CHECK-NOT: transpose_rhs
func.func @shared(%x: tensor<4x64xf32>, %i: tensor<3xi64>) -> (tensor<4x16xf32>, tensor<3x16xf32>) {
  %w = fusion.weight "w" at <"w.data", 0, 4096> : tensor<64x16xf32>
  %y = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x16xf32>) -> tensor<4x16xf32>
  %z = fusion.gather %w, %i axis = 0 : (tensor<64x16xf32>, tensor<3xi64>) -> tensor<3x16xf32>
  return %y, %z : tensor<4x16xf32>, tensor<3x16xf32>
}

// So does a product that reads it as [N, K] already.
// CHECK-LABEL: @already
// CHECK: at #[[PLAIN]] : tensor<16x64xf32>
func.func @already(%x: tensor<4x64xf32>) -> tensor<4x16xf32> {
  %w = fusion.weight "w" at <"w.data", 0, 4096> : tensor<16x64xf32>
  %y = fusion.matmul %x, %w {transpose_rhs} : (tensor<4x64xf32>, tensor<16x64xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
