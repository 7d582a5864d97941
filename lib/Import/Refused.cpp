//===- Refused.cpp - Operators that are refused by their name -------------===//
//
// Operators that are known and not imported. Those of ONNX make results whose
// sizes depend on data, loop, or draw at random; most of com.microsoft run on
// onnxruntime's other providers only, or are a whole decoding loop. A file with
// one of them gets told what to write instead.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/StringSwitch.h"

using namespace fusion;

static llvm::StringRef insteadOfOnnx(llvm::StringRef opType) {
  return llvm::StringSwitch<llvm::StringRef>(opType)
      .Cases({"NonZero", "Compress", "Unique"},
             "the size of its result depends on data; export the model with a "
             "mask (Where) or indices (Gather) of a known number instead, "
             "experts of transformers with "
             "experts_implementation=\"batched_mm\"")
      .Case("NonMaxSuppression",
            "the size of its result depends on data; end the model before it")
      .Cases({"Loop", "Scan", "SequenceMap"},
             "export the model with its loop unrolled, or the loop's body as a "
             "model of its own")
      .Cases({"LSTM", "GRU", "RNN", "LinearAttention"},
             "it is a loop over the tokens; export the model with the loop "
             "unrolled")
      .Cases({"RandomNormal", "RandomNormalLike", "RandomUniform",
              "RandomUniformLike", "Bernoulli", "Multinomial"},
             "export the model for inference, with random numbers as inputs")
      .Cases({"QLinearConv", "QLinearMatMul", "ConvInteger"},
             "quantise the model in the QDQ format (QuantFormat.QDQ)")
      .Cases({"SequenceConstruct", "SequenceEmpty", "SequenceInsert",
              "SequenceErase", "SequenceLength", "ConcatFromSequence",
              "Optional", "OptionalGetElement", "OptionalHasElement"},
             "only tensors are supported; export the model with torch.cat or "
             "torch.stack of tensors in place of lists")
      .Default("");
}

llvm::StringRef fusion::whatInstead(llvm::StringRef domain,
                                    llvm::StringRef opType) {
  if (domain.empty())
    return insteadOfOnnx(opType);
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
