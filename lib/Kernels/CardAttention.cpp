//===- CardAttention.cpp - Attention on the card --------------------------===//

#include "CardFamilies.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

void kernels::addAttentions(KernelOp kernel,
                            std::vector<CardLaunch> &launches) {}
