//===- Passes.h - Roles and session state of decoders ----*- C++ -*-===//

#ifndef FUSION_RAISE_DECODER_PASSES_H
#define FUSION_RAISE_DECODER_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Raise/Decoder/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fusion/Raise/Decoder/Passes.h.inc"

} // namespace fusion

#endif // FUSION_RAISE_DECODER_PASSES_H
