// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings --fusion-raise-rotations | FileCheck %s

!x = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!h = tensor<1x2x?x4xf32, #fusion.shape<[1, 2, seq, 4]>>
!t = tensor<1x1x?x8xf32, #fusion.shape<[1, 1, seq, 8]>>

// CHECK-LABEL: func.func @half
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 :
// CHECK-NEXT: return
func.func @half(%x: !x, %cos: !t, %sin: !t) -> !x {
  %0 = fusion.mul %x, %cos : (!x, !t) -> !x
  %a = fusion.slice %x starts = ["0", "0", "0", "0"] steps = [1, 1, 1, 1] : (!x) -> !h
  %b = fusion.slice %x starts = ["0", "0", "0", "4"] steps = [1, 1, 1, 1] : (!x) -> !h
  %n = fusion.neg %b : (!h) -> !h
  %r = fusion.concat %n, %a axis = 3 : (!h, !h) -> !x
  %1 = fusion.mul %sin, %r : (!t, !x) -> !x
  %2 = fusion.add %1, %0 : (!x, !x) -> !x
  return %2 : !x
}

// -----

// The halves the wrong way round rotate the other way.
// CHECK-LABEL: func.func @swapped
// CHECK-NOT: fusion.rope
func.func @swapped(%x: tensor<1x2x3x8xf32>, %cos: tensor<1x1x3x8xf32>, %sin: tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %0 = fusion.mul %x, %cos : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %a = fusion.slice %x starts = ["0", "0", "0", "0"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %b = fusion.slice %x starts = ["0", "0", "0", "4"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %n = fusion.neg %a : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.concat %n, %b axis = 3 : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return %2 : tensor<1x2x3x8xf32>
}

// -----

// Pairs, with tables of half the width: a*cos - b*sin, b*cos + a*sin.
// CHECK-LABEL: func.func @pairs
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 : (tensor<3x8xf32>, tensor<3x4xf32>
// CHECK-NEXT: return
func.func @pairs(%x: tensor<3x8xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %ac = fusion.mul %a, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bs = fusion.mul %b, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bc = fusion.mul %b, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %as = fusion.mul %sin, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.sub %ac, %bs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %as, %bc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.concat %0, %1 axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// Pairs read as even and odd elements, written as halves (latent attention): views put the even ones first.
// CHECK-LABEL: func.func @split_pairs
// CHECK-NEXT: %[[P:.*]] = fusion.reshape %arg0 : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
// CHECK-NEXT: %[[T:.*]] = fusion.transpose %[[P]] perm = [0, 2, 1]
// CHECK-NEXT: %[[X:.*]] = fusion.reshape %[[T]] : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
// CHECK-NEXT: fusion.rope %[[X]], %arg1, %arg2 : (tensor<3x8xf32>, tensor<3x4xf32>
// CHECK-NEXT: return
func.func @split_pairs(%x: tensor<3x8xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 2] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "1"] steps = [1, 2] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %ac = fusion.mul %a, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bs = fusion.mul %b, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bc = fusion.mul %b, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %as = fusion.mul %sin, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.sub %ac, %bs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %as, %bc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.concat %0, %1 axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// What is not rotated stands before the halves.
// CHECK-LABEL: func.func @beside
// CHECK-DAG: %[[X:.*]] = fusion.slice %arg0 starts = ["0", "2"] steps = [1, 1] : (tensor<3x10xf32>) -> tensor<3x8xf32>
// CHECK-DAG: %[[H:.*]] = fusion.slice %arg0 starts = ["0", "0"] steps = [1, 1] : (tensor<3x10xf32>) -> tensor<3x2xf32>
// CHECK: %[[R:.*]] = fusion.rope %[[X]], %arg1, %arg2
// CHECK-NEXT: fusion.concat %[[H]], %[[R]] axis = 1
// CHECK-NEXT: return
func.func @beside(%x: tensor<3x10xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x10xf32> {
  %h = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x10xf32>) -> tensor<3x2xf32>
  %a = fusion.slice %x starts = ["0", "2"] steps = [1, 1] : (tensor<3x10xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "6"] steps = [1, 1] : (tensor<3x10xf32>) -> tensor<3x4xf32>
  %ac = fusion.mul %a, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bs = fusion.mul %b, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bc = fusion.mul %b, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %as = fusion.mul %sin, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.sub %ac, %bs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %as, %bc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.concat %h, %0, %1 axis = 1 : (tensor<3x2xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x10xf32>
  return %2 : tensor<3x10xf32>
}

// -----

// Every second element from the same start twice: no pairs.
// CHECK-LABEL: func.func @no_pairs
// CHECK-NOT: fusion.rope
// CHECK: return
func.func @no_pairs(%x: tensor<3x12xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 2] : (tensor<3x12xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "3"] steps = [1, 2] : (tensor<3x12xf32>) -> tensor<3x4xf32>
  %ac = fusion.mul %a, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bs = fusion.mul %b, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bc = fusion.mul %b, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %as = fusion.mul %sin, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.sub %ac, %bs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %as, %bc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.concat %0, %1 axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// Alternating elements, stacked again.
// CHECK-LABEL: func.func @interleaved
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 {interleaved}
// CHECK-NEXT: return
func.func @interleaved(%x: tensor<3x8xf32>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<3x8xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 2] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %b = fusion.slice %x starts = ["0", "1"] steps = [1, 2] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %n = fusion.neg %b : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %n1 = fusion.reshape %n : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %a1 = fusion.reshape %a : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %s = fusion.concat %n1, %a1 axis = 2 : (tensor<3x4x1xf32>, tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  %r = fusion.reshape %s : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
  %0 = fusion.mul %x, %cos : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// Alternating elements through [.., n, 2], as complex numbers.
// CHECK-LABEL: func.func @complex
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 {interleaved}
// CHECK-NEXT: return
func.func @complex(%x: tensor<3x8xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %zero = fusion.constant dense<0> : tensor<i64>
  %one = fusion.constant dense<1> : tensor<i64>
  %p = fusion.reshape %x : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
  %a = fusion.gather %p, %zero axis = 2 : (tensor<3x4x2xf32>, tensor<i64>) -> tensor<3x4xf32>
  %b = fusion.gather %p, %one axis = 2 : (tensor<3x4x2xf32>, tensor<i64>) -> tensor<3x4xf32>
  %ac = fusion.mul %a, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bs = fusion.mul %b, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %bc = fusion.mul %b, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %as = fusion.mul %a, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %0 = fusion.sub %ac, %bs : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.add %as, %bc : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %r0 = fusion.reshape %0 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %r1 = fusion.reshape %1 : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %s = fusion.concat %r0, %r1 axis = 2 : (tensor<3x4x1xf32>, tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  %2 = fusion.reshape %s : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// -----

// The first four of eight elements, of a part of a packed projection.
// CHECK-LABEL: func.func @partial
// CHECK-NEXT: %[[X:.*]] = fusion.slice %arg0 starts = ["0", "8"] steps = [1, 1] : (tensor<3x24xf32>) -> tensor<3x8xf32>
// CHECK-NEXT: fusion.rope %[[X]], %arg1, %arg2 {rotary_dim = 4 : i64}
// CHECK-NEXT: return
func.func @partial(%p: tensor<3x24xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %x = fusion.slice %p starts = ["0", "8"] steps = [1, 1] : (tensor<3x24xf32>) -> tensor<3x8xf32>
  %y = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %rest = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
  %a = fusion.slice %y starts = ["0", "0"] steps = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %b = fusion.slice %y starts = ["0", "2"] steps = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %n = fusion.neg %b : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = fusion.concat %n, %a axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %0 = fusion.mul %y, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.add %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = fusion.concat %2, %rest axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// -----

// Rotated in fp32 between casts.
// CHECK-LABEL: func.func @casts
// CHECK-NEXT: fusion.rope %arg0, %arg1, %arg2 : (tensor<3x4xbf16>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xbf16>
// CHECK-NEXT: return
func.func @casts(%q: tensor<3x4xbf16>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x4xbf16> {
  %y = fusion.cast %q : (tensor<3x4xbf16>) -> tensor<3x4xf32>
  %a = fusion.slice %y starts = ["0", "0"] steps = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %b = fusion.slice %y starts = ["0", "2"] steps = [1, 1] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %n = fusion.neg %b : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %r = fusion.concat %n, %a axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %0 = fusion.mul %y, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = fusion.mul %r, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = fusion.add %0, %1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = fusion.cast %2 : (tensor<3x4xf32>) -> tensor<3x4xbf16>
  return %3 : tensor<3x4xbf16>
}

// -----

// The negation as a difference from zero.
// CHECK-LABEL: func.func @from_zero
// CHECK: fusion.rope %arg0, %arg1, %arg2 :
// CHECK-NEXT: return
func.func @from_zero(%x: tensor<1x2x3x8xf32>, %cos: tensor<1x1x3x8xf32>, %sin: tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %0 = fusion.mul %x, %cos : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %a = fusion.slice %x starts = ["0", "0", "0", "0"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %b = fusion.slice %x starts = ["0", "0", "0", "4"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %n = fusion.sub %zero, %b : (tensor<f32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.concat %n, %a axis = 3 : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return %2 : tensor<1x2x3x8xf32>
}

// -----

// A difference from one is no negation.
// CHECK-LABEL: func.func @from_one
// CHECK-NOT: fusion.rope
func.func @from_one(%x: tensor<1x2x3x8xf32>, %cos: tensor<1x1x3x8xf32>, %sin: tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.mul %x, %cos : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %a = fusion.slice %x starts = ["0", "0", "0", "0"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %b = fusion.slice %x starts = ["0", "0", "0", "4"] steps = [1, 1, 1, 1] : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %n = fusion.sub %one, %b : (tensor<f32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.concat %n, %a axis = 3 : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %1 = fusion.mul %r, %sin : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = fusion.add %0, %1 : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return %2 : tensor<1x2x3x8xf32>
}
