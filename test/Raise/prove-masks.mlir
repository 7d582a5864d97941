// RUN: fusion-opt %s --fusion-raise | FileCheck %s

!q = tensor<?x1x?x4xf32, #fusion.shape<[b, 1, s, 4]>>
!k = tensor<?x1x?x4xf32, #fusion.shape<[b, 1, "p + s", 4]>>
!pad = tensor<?x?xi64, #fusion.shape<[b, "p + s"]>>
!padb = tensor<?x?xi1, #fusion.shape<[b, "p + s"]>>
!pad4 = tensor<?x1x1x?xi1, #fusion.shape<[b, 1, 1, "p + s"]>>
!i = tensor<?xi64, #fusion.shape<[s]>>
!j = tensor<?xi64, #fusion.shape<["p + s"]>>
!i4 = tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>
!j4 = tensor<1x1x1x?xi64, #fusion.shape<[1, 1, 1, "p + s"]>>
!c = tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, "p + s"]>>
!m = tensor<?x1x?x?xi1, #fusion.shape<[b, 1, s, "p + s"]>>
!f = tensor<?x1x?x?xf32, #fusion.shape<[b, 1, s, "p + s"]>>
!cf = tensor<1x1x?x?xf32, #fusion.shape<[1, 1, s, "p + s"]>>

// A finite minimum gives equal weights to a row that sees nothing.
// CHECK-LABEL: func.func @padded
// CHECK-NEXT: %[[P:.*]] = fusion.cast %arg2
// CHECK-NEXT: fusion.attention %arg0, %arg1, %arg1 key_mask %[[P]] {causal, causal_offset = "p", masked_rows = "uniform", scale
// CHECK-NEXT: return
func.func @padded(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %pb = fusion.cast %pad : (!pad) -> !padb
  %p4 = fusion.reshape %pb : (!padb) -> !pad4
  %m = fusion.and %c, %p4 : (!c, !pad4) -> !m
  %w = fusion.where %m, %zero, %min : (!m, tensor<f32>, tensor<f32>) -> !f
  %r = fusion.attention %q, %k, %k bias %w {scale = 1.0 : f32} : (!q, !k, !k, !f) -> !q
  return %r : !q
}

// Minus infinity: NaN, as the op said.
// CHECK-LABEL: func.func @infinite
// CHECK: key_mask %{{.*}} {causal, causal_offset = "p", masked_rows = "nan", scale
func.func @infinite(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %pb = fusion.cast %pad : (!pad) -> !padb
  %p4 = fusion.reshape %pb : (!padb) -> !pad4
  %m = fusion.and %c, %p4 : (!c, !pad4) -> !m
  %w = fusion.where %m, %zero, %inf : (!m, tensor<f32>, tensor<f32>) -> !f
  %r = fusion.attention %q, %k, %k bias %w {scale = 1.0 : f32, masked_rows = "nan"} : (!q, !k, !k, !f) -> !q
  return %r : !q
}

// Boolean, no padding.
// CHECK-LABEL: func.func @boolean
// CHECK-NEXT: fusion.attention %arg0, %arg1, %arg1 {causal, causal_offset = "p", scale
// CHECK-NEXT: return
func.func @boolean(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %r = fusion.attention %q, %k, %k bias %c {scale = 1.0 : f32} : (!q, !k, !k, !c) -> !q
  return %r : !q
}

// 64 keys: the current one and 63 before it.
// CHECK-LABEL: func.func @window
// CHECK-NEXT: fusion.attention %arg0, %arg1, %arg1 {causal, causal_offset = "p", scale = 1.000000e+00 : f32, window_left = 63 : i64}
func.func @window(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %n = fusion.constant dense<64> : tensor<i64>
  %lo = fusion.sub %i, %n : (!i4, tensor<i64>) -> !i4
  %g = fusion.greater %j, %lo : (!j4, !i4) -> !c
  %cw = fusion.and %c, %g : (!c, !c) -> !c
  %r = fusion.attention %q, %k, %k bias %cw {scale = 1.0 : f32} : (!q, !k, !k, !c) -> !q
  return %r : !q
}

// Padding only, as an encoder has it.
// CHECK-LABEL: func.func @encoder
// CHECK: fusion.attention %arg0, %arg1, %arg1 key_mask %{{.*}} {scale
func.func @encoder(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %pb = fusion.cast %pad : (!pad) -> !padb
  %p4 = fusion.reshape %pb : (!padb) -> !pad4
  %r = fusion.attention %q, %k, %k bias %p4 {scale = 1.0 : f32} : (!q, !k, !k, !pad4) -> !q
  return %r : !q
}

// A triangle [s, s] that only broadcasts where nothing is cached or one row is
// new: causal wherever the graph has a meaning.
// CHECK-LABEL: func.func @conditional
// CHECK-NEXT: fusion.attention %arg0, %arg1, %arg1 {causal, causal_offset = "p"
func.func @conditional(%q: !q, %k: !k) -> !q {
  %i0 = fusion.iota "0" step "1" : !i
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %i0 : (!i) -> tensor<1x1x1x?xi64, #fusion.shape<[1, 1, 1, s]>>
  %t = fusion.less_equal %j, %i : (tensor<1x1x1x?xi64, #fusion.shape<[1, 1, 1, s]>>, !i4) -> tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>
  %c = fusion.tile %t : (tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>) -> !c
  %r = fusion.attention %q, %k, %k bias %c {scale = 1.0 : f32} : (!q, !k, !k, !c) -> !q
  return %r : !q
}
