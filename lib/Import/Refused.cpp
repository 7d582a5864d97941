//===- Refused.cpp - Operators that are refused by their name -------------===//
//
// com.microsoft operators that are known and not imported: most of them run on
// onnxruntime's other providers only, or are a whole decoding loop. A file with
// one of them gets told what to write instead.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/StringSwitch.h"

using namespace fusion;

llvm::StringRef fusion::whatInstead(llvm::StringRef domain,
                                    llvm::StringRef opType) {
  if (domain != "com.microsoft")
    return "";
  constexpr llvm::StringLiteral unpacked =
      "optimise the model with MultiHeadAttention and padding kept";
  constexpr llvm::StringLiteral loop =
      "export the decoder without the search around it";
  constexpr llvm::StringLiteral qdq =
      "quantise the model in the QDQ format (QuantFormat.QDQ)";
  constexpr llvm::StringLiteral experts =
      "export the experts as separate matrix products";
  constexpr llvm::StringLiteral plain =
      "optimise the model for the CPU provider, or not at all";
  constexpr llvm::StringLiteral float4 =
      "quantise the weights for MatMulNBits instead";
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Cases({"PackedAttention", "PackedMultiHeadAttention", "RemovePadding",
              "RestorePadding"},
             unpacked)
      .Cases({"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch",
              "SampleOp", "NGramRepeatBlock"},
             loop)
      .Cases({"QLinearAdd", "QLinearAveragePool", "QLinearConcat",
              "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
              "QLinearMul", "QLinearReduceMean", "QLinearSigmoid",
              "QLinearSoftmax", "QLinearWhere", "QGemm",
              "QEmbedLayerNormalization"},
             qdq)
      .Cases({"QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization",
              "QOrderedLongformerAttention", "QOrderedMatMul",
              "QuantizeWithOrder", "DequantizeWithOrder"},
             qdq)
      .Cases({"MoE", "QMoE", "MoEPacked", "MoEGroupRouter"}, experts)
      .Cases({"MatMulBnb4", "MatMulFpQ4", "GemmFloat8"}, float4)
      .Cases({"DecoderMaskedSelfAttention", "DecoderAttention",
              "LongformerAttention", "SparseAttention", "PagedAttention"},
             "optimise the model with MultiHeadAttention or "
             "GroupQueryAttention instead")
      .Cases({"RelativePositionBias", "GatedRelativePositionBias"},
             "export the bias as plain operators that make attention_bias")
      .Case("GemmaRotaryEmbedding", "optimise the model with RotaryEmbedding")
      .Cases({"BiasSplitGelu", "BiasAdd", "BiasDropout", "BiasSoftmax",
              "GroupNorm", "SkipGroupNorm", "NhwcConv", "NhwcMaxPool",
              "NhwcFusedConv", "FusedMatMulActivation", "GemmFastGelu"},
             plain)
      .Default("");
}
