// RUN: fusion-opt %s --fusion-generate-host | FileCheck %s

// Plain operands: sgemm reads them and stores the result itself.

// CHECK-LABEL: llvm.func internal @plain.body
// CHECK: llvm.call %{{.*}}(%{{.*}}) : !llvm.ptr, (i32, i32, i64, i64, i64, f32, !llvm.ptr, i64, !llvm.ptr, i64, f32, !llvm.ptr, i64) -> ()
// CHECK-NOT: llvm.store
fusion.kernel @plain config #fusion.config<"matmul", {}> sizes 0 (%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) {
  %0 = fusion.matmul %x, %w : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  fusion.yield %0 : tensor<8x32xf32>
}
