// RUN: fusion-opt %s --split-input-file --verify-diagnostics

plan.model "m" {
  // expected-error @+1 {{expected both input and axis, or neither}}
  "plan.symbol"() <{name = "seq", input = 0 : i64, lower = 1 : i64, upper = 2 : i64}> : () -> ()
}

// -----

plan.model "m" {
  // expected-error @+1 {{has an empty range}}
  plan.symbol "seq" cached_length in 3 to 2
}

// -----

plan.model "m" {
  // expected-error @+1 {{names input 0 of 0 inputs}}
  plan.symbol "seq" input 0 axis 1 in 1 to 2
}

// -----

plan.model "m" {
  plan.symbol "seq" cached_length in 0 to 2
  // expected-error @+1 {{'seq' declared twice}}
  plan.symbol "seq" cached_length in 0 to 2
}

// -----

// expected-error @+1 {{expected 16 bytes for 'tensor<4xf32>', found 8}}
plan.constant @w "w" : tensor<4xf32> = #fusion.weight<"m.data", 0, 8>

// -----

// expected-error @+1 {{expected a value or a kernel, found neither}}
plan.constant @w "w" : tensor<4xf32>

// -----

// expected-error @+1 {{expected a static type}}
plan.constant @w "w" : tensor<?xf32, #fusion.shape<[n]>> = dense<0.0> : tensor<1xf32>

// -----

// expected-error @+1 {{expected a tensor of an ONNX element type, found 'tensor<4xi7>'}}
plan.constant @w "w" : tensor<4xi7> = dense<0> : tensor<4xi7>

// -----

plan.program @main rows "1" in 0 to 1 {
  // expected-error @+1 {{no constant @w}}
  %w = plan.weight @w
}

// -----

// expected-error @+1 {{has an empty range of rows}}
plan.program @main rows "1" in 2 to 1 {
}

// -----

// expected-error @+1 {{expected a size expression as rows, found '1 +'}}
plan.program @main rows "1 +" in 0 to 1 {
}

// -----

plan.program @main rows "1" in 0 to 1 {
  // expected-error @+1 {{expected a size expression as bytes, found '4 seq'}}
  %b = plan.alloc "4 seq" : tensor<4xf32>
}

// -----

plan.program @main rows "1" in 0 to 1 {
  %b = plan.input 0
  // expected-error @+1 {{no kernel @k}}
  plan.launch @k (%b) to (%b) sizes [] grid "1" grain "1" scratch "0"
}

// -----

fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %b = plan.input 0
  // expected-error @+1 {{expected 1 inputs and 1 outputs for @k, found 2 and 1}}
  plan.launch @k (%b, %b) to (%b) sizes [] grid "1" grain "1" scratch "0"
}

// -----

fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %b = plan.input 0
  // expected-error @+1 {{expected 0 sizes for @k, found 1}}
  plan.launch @k (%b) to (%b) sizes ["seq"] grid "1" grain "1" scratch "0"
}

// -----

plan.program @main rows "1" in 0 to 1 {
  %b = plan.input 0
  // expected-error @+1 {{unknown flag 'evict'}}
  plan.launch @k (%b {evict}) to (%b) sizes [] grid "1" grain "1" scratch "0"
}
