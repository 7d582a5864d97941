//===- CardMatmul.cpp - Matrix products on the card -----------------------===//

#include "CardFamilies.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

void kernels::addMatmuls(KernelOp kernel, std::vector<CardLaunch> &launches) {}
