// RUN: fusion-opt %s --fusion-verify-planned --split-input-file --verify-diagnostics

// expected-error @+1 {{expected one plan.model, found 0}}
module {
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %y = plan.output 0
  %b = plan.alloc "8" : tensor<2xf32> live 0 to 0
  // expected-error @+1 {{reads a buffer before it is written}}
  plan.launch @k (%b) to (%y) sizes [] grid "1" grain "1" scratch "0"
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %x = plan.input 0
  // expected-error @+1 {{writes an input or a weight}}
  plan.launch @k (%x) to (%x) sizes [] grid "1" grain "1" scratch "0"
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
// expected-error @+1 {{never writes output 'y'}}
plan.program @main rows "1" in 0 to 1 {
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  // expected-error @+1 {{names 1 of 1 declared ones}}
  %x = plan.input 1
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %x = plan.input 0
  %y = plan.output 0
  // expected-error @+1 {{size "seq" names the undeclared symbol 'seq'}}
  plan.launch @k (%x) to (%y) sizes [] grid "seq" grain "1" scratch "0"
}

// -----

plan.model "m" {
  plan.model_input "x" : tensor<2xf32>
  plan.model_output "y" : tensor<2xf32>
}
fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%a: tensor<2xf32>) {
  fusion.yield %a : tensor<2xf32>
}
plan.program @main rows "1" in 0 to 1 {
  %x = plan.input 0
  %y = plan.output 0
  %b = plan.alloc "8" : tensor<2xf32> live 0 to 0
  plan.launch @k (%x) to (%b) sizes [] grid "1" grain "1" scratch "0"
  // expected-error @+1 {{is launch 1 and uses a buffer that lives from 0 to 0}}
  plan.launch @k (%b) to (%y) sizes [] grid "1" grain "1" scratch "0"
}
