// RUN: fusion-opt %s --fusion-raise --remarks-filter-missed=raise 2>&1 | FileCheck %s

// CHECK-COUNT-4: [Missed] mask {{.*}} reason=MASK_UNPROVEN
// CHECK: [Missed] mask {{.*}} found="it holds the value 0.5

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

// The row after the diagonal is visible too.
// CHECK-LABEL: func.func @shifted
// CHECK: fusion.attention {{.*}} bias
func.func @shifted(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %one = fusion.constant dense<1> : tensor<i64>
  %i2 = fusion.add %i, %one : (!i4, tensor<i64>) -> !i4
  %c = fusion.less_equal %j, %i2 : (!j4, !i4) -> !c
  %r = fusion.attention %q, %k, %k bias %c {scale = 1.0 : f32} : (!q, !k, !k, !c) -> !q
  return %r : !q
}

// Keys are compared with the padding of other keys: permuted.
// CHECK-LABEL: func.func @permuted
// CHECK: fusion.attention {{.*}} bias
func.func @permuted(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %pb = fusion.cast %pad : (!pad) -> !padb
  %rev = fusion.slice %pb starts = ["0", "p + s - 1"] steps = [1, -1] : (!padb) -> !padb
  %p4 = fusion.reshape %rev : (!padb) -> !pad4
  %m = fusion.and %c, %p4 : (!c, !pad4) -> !m
  %r = fusion.attention %q, %k, %k bias %m {scale = 1.0 : f32} : (!q, !k, !k, !m) -> !q
  return %r : !q
}

// A value that leaks weight.
// CHECK-LABEL: func.func @leaks
// CHECK: fusion.attention {{.*}} bias
func.func @leaks(%q: !q, %k: !k, %pad: !pad) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %low = fusion.constant dense<-10000.0> : tensor<f32>
  %w = fusion.where %c, %zero, %low : (!c, tensor<f32>, tensor<f32>) -> !cf
  %r = fusion.attention %q, %k, %k bias %w {scale = 1.0 : f32} : (!q, !k, !k, !cf) -> !q
  return %r : !q
}

// Two minima added: rows that see nothing hold two values.
// CHECK-LABEL: func.func @twice
// CHECK: fusion.attention {{.*}} bias
func.func @twice(%q: !q, %k: !k, %pad: !pad) -> !q {
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
  %w1 = fusion.where %c, %zero, %min : (!c, tensor<f32>, tensor<f32>) -> !cf
  %w2 = fusion.where %p4, %zero, %min : (!pad4, tensor<f32>, tensor<f32>) -> tensor<?x1x1x?xf32, #fusion.shape<[b, 1, 1, "p + s"]>>
  %w = fusion.add %w1, %w2 : (!cf, tensor<?x1x1x?xf32, #fusion.shape<[b, 1, 1, "p + s"]>>) -> !f
  %r = fusion.attention %q, %k, %k bias %w {scale = 1.0 : f32} : (!q, !k, !k, !f) -> !q
  return %r : !q
}

// What is seen is raised too: a bias of positions, as T5 has.
// CHECK-LABEL: func.func @adds
// CHECK: fusion.attention {{.*}} bias
func.func @adds(%q: !q, %k: !k) -> !q {
  %i0 = fusion.iota "p" step "1" : !i
  %j0 = fusion.iota "0" step "1" : !j
  %i = fusion.reshape %i0 : (!i) -> !i4
  %j = fusion.reshape %j0 : (!j) -> !j4
  %half = fusion.constant dense<0.5> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %m = fusion.where %c, %half, %inf : (!c, tensor<f32>, tensor<f32>) -> !cf
  %r = fusion.attention %q, %k, %k bias %m {scale = 1.0 : f32} : (!q, !k, !k, !cf) -> !q
  return %r : !q
}
