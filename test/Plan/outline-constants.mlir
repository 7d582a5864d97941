// RUN: fusion-opt %s --fusion-outline-kernels | FileCheck %s

// Constants of more than 16 elements become operands; smaller ones and splats
// stay in the kernel. Results that nothing uses disappear with their ops.

// CHECK: %[[C:.*]] = fusion.constant dense<[0, 1, 2,
// CHECK: fusion.group "pointwise" (%{{.*}} = %{{.*}}, %{{.*}} = %[[C]])
// CHECK-SAME: -> tensor<17xi8> kernel
func.func @main(%x: tensor<17xi8>, %unused: tensor<17xi8>) -> tensor<17xi8> {
  %y, %z = fusion.group "pointwise" (%a = %x, %b = %unused) : (tensor<17xi8>, tensor<17xi8>) -> (tensor<17xi8>, tensor<17xi8>) kernel #fusion.config<"pointwise", {}> {
    %c = fusion.constant dense<"0x000102030405060708090A0B0C0D0E0F10"> : tensor<17xi8>
    %k = fusion.constant dense<3> : tensor<17xi8>
    %0 = fusion.add %a, %c : (tensor<17xi8>, tensor<17xi8>) -> tensor<17xi8>
    %1 = fusion.mul %0, %k : (tensor<17xi8>, tensor<17xi8>) -> tensor<17xi8>
    %2 = fusion.neg %b : (tensor<17xi8>) -> tensor<17xi8>
    fusion.yield %1, %2 : tensor<17xi8>, tensor<17xi8>
  }
  return %y : tensor<17xi8>
}
// CHECK: fusion.kernel @pointwise_0 {{.*}} sizes 0 (%{{.*}}: tensor<17xi8>, %{{.*}}: tensor<17xi8>)
// CHECK-NEXT: fusion.constant dense<3> : tensor<17xi8>
// CHECK-NOT: fusion.neg
