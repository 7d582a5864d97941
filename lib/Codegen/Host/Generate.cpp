//===- Generate.cpp - From kernels to functions ---------------------------===//

#include "Generate.h"
#include "KernelBuilder.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

LogicalResult host::generateKernel(ModuleOp module, KernelOp kernel,
                                   bool strict) {
  KernelBuilder k(module, kernel, strict);
  switch (getHostTemplate(kernel)) {
  case HostTemplate::Pointwise:
    emitPointwise(k);
    break;
  case HostTemplate::RowReduction:
    emitRowReduction(k, *getRowShape(kernel));
    break;
  case HostTemplate::Matmul:
    emitMatmul(k, *getMatmulShape(kernel));
    break;
  case HostTemplate::Attention:
    emitAttention(k, *getAttentionShape(kernel));
    break;
  case HostTemplate::Append:
    emitAppend(k, *getAppendShape(kernel));
    break;
  case HostTemplate::Sequential:
    emitSequential(k);
    break;
  }
  return k.finish();
}
