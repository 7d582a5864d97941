// RUN: fusion-opt %s --fusion-raise --remarks-filter-missed=raise 2>&1 | FileCheck %s

// A result declared with p rows, of operands with s: the two may be equal, so
// it verifies. At sizes where they differ the mask has no value.
// CHECK: [Missed] mask {{.*}}the shapes of its operands do not agree at these sizes{{.*}} reason=MASK_UNPROVEN
// CHECK-LABEL: func.func @other_rows
// CHECK: fusion.attention {{.*}} bias

!q = tensor<?x1x?x4xf32, #fusion.shape<[b, 1, s, 4]>>
!k = tensor<?x1x?x4xf32, #fusion.shape<[b, 1, "p + s", 4]>>
!pad4 = tensor<?x1x1x?xi1, #fusion.shape<[b, 1, 1, "p + s"]>>
!i4 = tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>
!j4 = tensor<1x1x1x?xi64, #fusion.shape<[1, 1, 1, "p + s"]>>
!c = tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, "p + s"]>>
!m = tensor<?x1x?x?xi1, #fusion.shape<[b, 1, p, "p + s"]>>
func.func @other_rows(%q: !q, %k: !k, %pad: tensor<?x?xi64, #fusion.shape<[b, "p + s"]>>) -> !q {
  %i0 = fusion.iota "p" step "1" : tensor<?xi64, #fusion.shape<[s]>>
  %j0 = fusion.iota "0" step "1" : tensor<?xi64, #fusion.shape<["p + s"]>>
  %i = fusion.reshape %i0 : (tensor<?xi64, #fusion.shape<[s]>>) -> !i4
  %j = fusion.reshape %j0 : (tensor<?xi64, #fusion.shape<["p + s"]>>) -> !j4
  %c = fusion.less_equal %j, %i : (!j4, !i4) -> !c
  %b = fusion.cast %pad : (tensor<?x?xi64, #fusion.shape<[b, "p + s"]>>) -> tensor<?x?xi1, #fusion.shape<[b, "p + s"]>>
  %p4 = fusion.reshape %b : (tensor<?x?xi1, #fusion.shape<[b, "p + s"]>>) -> !pad4
  %m = fusion.and %c, %p4 : (!c, !pad4) -> !m
  %r = fusion.attention %q, %k, %k bias %m {scale = 1.0 : f32} : (!q, !k, !k, !m) -> !q
  return %r : !q
}
