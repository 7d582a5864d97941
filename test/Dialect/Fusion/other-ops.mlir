// RUN: fusion-opt --verify-roundtrip %s | FileCheck %s

// Ops that no other file of the suite holds, as text and as bytecode.
// CHECK-LABEL: func.func @floats
// CHECK: fusion.abs 
// CHECK: fusion.acos 
// CHECK: fusion.acosh 
// CHECK: fusion.asin 
// CHECK: fusion.asinh 
// CHECK: fusion.atan 
// CHECK: fusion.atanh 
// CHECK: fusion.ceil 
// CHECK: fusion.cosh 
// CHECK: fusion.floor 
// CHECK: fusion.log 
// CHECK: fusion.round 
// CHECK: fusion.sign 
// CHECK: fusion.sinh 
// CHECK: fusion.softplus 
// CHECK: fusion.tan 
// CHECK: fusion.equal 
// CHECK: fusion.greater_equal 
// CHECK: fusion.min 
// CHECK: fusion.mod 
// CHECK: fusion.is_inf %{{.*}} {positive = false}
// CHECK: fusion.reduce_max %{{.*}} axes = [1] {keepdims}
// CHECK: fusion.reduce_min %{{.*}} axes = [1] {keepdims}
// CHECK: fusion.reduce_prod %{{.*}} axes = [1] {keepdims}
// CHECK: fusion.arg_max %{{.*}} axis = 1 {keepdims}
// CHECK: fusion.cumsum %{{.*}} axis = 1 {exclusive}
// CHECK: fusion.gather_elements %{{.*}} axis = 0
// CHECK: fusion.pad %{{.*}} low = ["0", "1"]
// CHECK: fusion.scatter_elements %{{.*}} axis = 0
// CHECK: fusion.scatter_nd %
// CHECK: fusion.trilu %{{.*}} k = "1" {upper}
func.func @floats(%x: tensor<4x8xf32>, %r: tensor<8xf32>, %s: tensor<4x4xf32>, %n: tensor<4x6xf32>, %v: tensor<f32>, %u: tensor<1x8xf32>, %w: tensor<3x8xf32>, %i: tensor<1x8xi64>, %j: tensor<3x1xi64>) {
  %abs = fusion.abs %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %acos = fusion.acos %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %acosh = fusion.acosh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %asin = fusion.asin %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %asinh = fusion.asinh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %atan = fusion.atan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %atanh = fusion.atanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %ceil = fusion.ceil %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %cosh = fusion.cosh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %floor = fusion.floor %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log = fusion.log %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %round = fusion.round %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sign = fusion.sign %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sinh = fusion.sinh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %softplus = fusion.softplus %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %tan = fusion.tan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %equal = fusion.equal %x, %r : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %greater_equal = fusion.greater_equal %x, %r : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
  %min = fusion.min %x, %r : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %mod = fusion.mod %x, %r : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %is_inf = fusion.is_inf %x {positive = false} : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %reduce_max = fusion.reduce_max %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %reduce_min = fusion.reduce_min %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %reduce_prod = fusion.reduce_prod %x axes = [1] {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %arg_max = fusion.arg_max %x axis = 1 {keepdims} : (tensor<4x8xf32>) -> tensor<4x1xi64>
  %cumsum = fusion.cumsum %x axis = 1 {exclusive} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %gather = fusion.gather_elements %x, %i axis = 0 : (tensor<4x8xf32>, tensor<1x8xi64>) -> tensor<1x8xf32>
  %pad = fusion.pad %n, %v low = ["0", "1"] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x8xf32>
  %scatter = fusion.scatter_elements %x, %i, %u axis = 0 : (tensor<4x8xf32>, tensor<1x8xi64>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %nd = fusion.scatter_nd %x, %j, %w : (tensor<4x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %trilu = fusion.trilu %s k = "1" {upper} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: func.func @integers
// CHECK: fusion.not %
// CHECK: fusion.or %
// CHECK: fusion.xor %
// CHECK: fusion.shift_left %
// CHECK: fusion.shift_right %
// CHECK: fusion.reduce_and %
// CHECK: fusion.reduce_or %
func.func @integers(%x: tensor<4x8xi32>, %r: tensor<8xi32>, %p: tensor<4x8xi1>, %q: tensor<8xi1>) {
  %not = fusion.not %p : (tensor<4x8xi1>) -> tensor<4x8xi1>
  %or = fusion.or %p, %q : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  %xor = fusion.xor %p, %q : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
  %shift_left = fusion.shift_left %x, %r : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  %shift_right = fusion.shift_right %x, %r : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
  %reduce_and = fusion.reduce_and %p axes = [1] : (tensor<4x8xi1>) -> tensor<4xi1>
  %reduce_or = fusion.reduce_or %p axes = [1] : (tensor<4x8xi1>) -> tensor<4xi1>
  return
}
