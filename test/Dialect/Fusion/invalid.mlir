// RUN: fusion-opt %s -split-input-file -verify-diagnostics

func.func @broadcast(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+2 {{operand shapes do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = fusion.add %a, %b : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @contracted(%a: tensor<2x4xf32>, %b: tensor<3x5xf32>) {
  // expected-error @+2 {{contracted sizes differ: 4 and 3}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = fusion.matmul %a, %b : (tensor<2x4xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @elements(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{expected 8 elements, found 9}}
  %0 = fusion.reshape %a : (tensor<2x4xf32>) -> tensor<9xf32>
  return
}

// -----

func.func @permutation(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{expected perm to be a permutation of the axes}}
  %0 = fusion.transpose %a perm = [0, 0] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @outside(%a: tensor<4xf32>) {
  // expected-error @+1 {{reads elements 2 to 5 of axis 0, which has 4}}
  %0 = fusion.slice %a starts = ["2"] steps = [1] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @weight_bytes() {
  // expected-error @+1 {{expected 512 bytes for 'tensor<16x64xui4>', found 1024}}
  %0 = fusion.weight "w" at <"m.data", 0, 1024> : tensor<16x64xui4>
  return
}

// -----

func.func @block(%q: tensor<16x64xui4>, %s: tensor<16x3xf32>) {
  // expected-error @+1 {{expected 2 scales along axis 1, found 3}}
  %0 = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 32 : i64} : (tensor<16x64xui4>, tensor<16x3xf32>) -> tensor<16x64xf32>
  return
}

// -----

func.func @heads(%q: tensor<1x5x4x8xf32>, %k: tensor<1x2x4x8xf32>) {
  // expected-error @+1 {{expected a multiple of 2 query heads, found 5}}
  %0 = fusion.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<1x5x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x5x4x8xf32>
  return
}

// -----

func.func @table(%x: tensor<1x5x4x8xf32>, %c: tensor<4x3xf32>) {
  // expected-error @+1 {{expected tables of width 4 or 8, found 'tensor<4x3xf32>'}}
  %0 = fusion.rope %x, %c, %c : (tensor<1x5x4x8xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<1x5x4x8xf32>
  return
}

// -----

// expected-error @+1 {{expected a size expression, found 'seq +'}}
func.func @expression(%x: tensor<?xf32, #fusion.shape<["seq +"]>>) {
  return
}

// -----

func.func @append_lengths(%p: tensor<2x8x4xf32>, %n: tensor<2x1x4xf32>, %l: tensor<3xi64>) {
  // expected-error @+1 {{expected lengths [2], one a sequence, found 'tensor<3xi64>'}}
  %0 = fusion.kv_append %p, %n lengths %l axis = 1 : (tensor<2x8x4xf32>, tensor<2x1x4xf32>, tensor<3xi64>) -> tensor<2x9x4xf32>
  return
}

// -----

func.func @append_buffer(%p: tensor<2x8x4xf32>, %n: tensor<2x1x4xf32>) {
  // expected-error @+1 {{expected lengths with in_buffer}}
  %0 = fusion.kv_append %p, %n axis = 1 {in_buffer} : (tensor<2x8x4xf32>, tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
  return
}

// -----

func.func @append_batch(%p: tensor<2x8x4xf32>, %n: tensor<1x8x4xf32>, %l: tensor<2xi64>) {
  // expected-error @+1 {{expected an axis behind the batch, found axis 0}}
  %0 = fusion.kv_append %p, %n lengths %l axis = 0 : (tensor<2x8x4xf32>, tensor<1x8x4xf32>, tensor<2xi64>) -> tensor<3x8x4xf32>
  return
}

// -----

func.func @offsets_type(%q: tensor<2x2x1x8xf32>, %k: tensor<2x2x4x8xf32>, %o: tensor<2xf32>) {
  // expected-error @+1 {{expected offsets of type i32 or i64, found 'tensor<2xf32>'}}
  %0 = fusion.attention %q, %k, %k offsets %o {scale = 1.0 : f32, causal} : (tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2xf32>) -> tensor<2x2x1x8xf32>
  return
}

// -----

func.func @offsets_alone(%q: tensor<2x2x1x8xf32>, %k: tensor<2x2x4x8xf32>, %o: tensor<2xi64>) {
  // expected-error @+1 {{expected offsets with causal or a window alone}}
  %0 = fusion.attention %q, %k, %k offsets %o {scale = 1.0 : f32} : (tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2xi64>) -> tensor<2x2x1x8xf32>
  return
}

// -----

func.func @offsets_beside(%q: tensor<2x2x1x8xf32>, %k: tensor<2x2x4x8xf32>, %o: tensor<2xi64>) {
  // expected-error @+1 {{expected causal_offset 0 beside offsets, found '3'}}
  %0 = fusion.attention %q, %k, %k offsets %o {scale = 1.0 : f32, causal, causal_offset = "3"} : (tensor<2x2x1x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2xi64>) -> tensor<2x2x1x8xf32>
  return
}
