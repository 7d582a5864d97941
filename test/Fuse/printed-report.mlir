// Names of a file are escaped in the reports of fusion-opt.
// RUN: fusion-opt %s --fusion-fuse=explain=text -o /dev/null 2> %t.txt
// RUN: fusion-opt %s --fusion-fuse=explain=json -o /dev/null 2> %t.json
// RUN: %python -c "import sys; d = [open(f, 'rb').read() for f in sys.argv[1:]]; assert all(c < 127 for t in d for c in t) and b'\x07' not in d[0] + d[1], d" %t.txt %t.json
// RUN: %python -c "import json, sys; print(ascii(json.load(open(sys.argv[1]))['sites'][0]['node']))" %t.json | FileCheck %s --check-prefix=JSON
// RUN: FileCheck %s < %t.txt

// CHECK: add_rms_norm at 'evil\x07\xe2\x80\xae\xff': fused
// JSON: 'evil\x07\u202e\ufffd'
func.func @main(%x: tensor<4x64xf32>, %r: tensor<4x64xf32>, %w: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %s = fusion.add %x, %r : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %y = fusion.rms_norm %s, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32> loc("evil\07\E2\80\AE\FF")
  return %s, %y : tensor<4x64xf32>, tensor<4x64xf32>
}
