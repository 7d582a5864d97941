// Where the prediction cannot tell (4.5 against 4.6 us), a profile decides.
// RUN: echo '{"traceEvents": [{"name": "k", "dur": 50, "args": {"site": "e", "program": "main"}}, {"name": "rest", "dur": 50, "args": {"site": "z", "program": "main"}}]}' > %t.half.json
// RUN: echo '{"traceEvents": [{"name": "k", "dur": 1, "args": {"site": "a, .. 3 more .., m", "program": "main"}}, {"name": "rest", "dur": 99, "args": {"site": "z", "program": "main"}}]}' > %t.little.json
// RUN: fusion-opt %s --fusion-fuse --remark-format=emitRemark --remarks-filter=fuse -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: fusion-opt %s --fusion-fuse=measured=%t.half.json --remark-format=emitRemark --remarks-filter=fuse -o /dev/null 2>&1 | FileCheck %s --check-prefix=HALF
// RUN: fusion-opt %s --fusion-fuse=measured=%t.little.json --remark-format=emitRemark --remarks-filter=fuse -o /dev/null 2>&1 | FileCheck %s --check-prefix=LITTLE
// RUN: not fusion-opt %s --fusion-fuse=measured=%t.none.json -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING

// NONE: [Missed] NOT_PROFITABLE {{.*}} Nodes="e m"
// HALF: [Passed] FUSED {{.*}} MeasuredShare="50.00 %", Nodes="e m"
// LITTLE: [Missed] NOT_PROFITABLE {{.*}} Nodes="e m", Reason="the fused kernel is not faster, measured share 1.00 %"
// MISSING: profile '{{.*}}none.json'
func.func @main(%x: tensor<64x1xf32>, %u: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = fusion.exp %x : (tensor<64x1xf32>) -> tensor<64x1xf32> loc("e")
  %1 = fusion.mul %0, %u : (tensor<64x1xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("m")
  return %1 : tensor<64x64xf32>
}
