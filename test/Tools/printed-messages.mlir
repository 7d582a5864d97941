// Strings of a file in messages of fusion-opt are escaped.
// RUN: not fusion-opt %s 2> %t.txt
// RUN: %python -c "import sys; d = open(sys.argv[1], 'rb').read(); assert b'\x07' not in d, d" %t.txt
// RUN: FileCheck %s < %t.txt

// CHECK: error: 'fusion.pad' op unknown mode 'evil\x07\xe2\x80\xae'
func.func @main(%x: tensor<4xf32>, %zero: tensor<f32>) -> tensor<6xf32> {
  %y = "fusion.pad"(%x, %zero) {low = ["1"], mode = "evil\07\E2\80\AE"} : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  return %y : tensor<6xf32>
}
