//===- Schemas.cpp - Operators that the onnx library does not know --------===//
//
// Schemas of the com.microsoft operators that are imported, written as one line
// each: inputs, outputs and attributes. `?` marks an optional one. Type letters
// stand for the constraint of that name in typesOf(); equal letters must agree.
//
//===----------------------------------------------------------------------===//

#include "Proto.h"

#include "onnx/defs/schema.h"

#include <mutex>
#include <sstream>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

struct ContribOp {
  const char *domain, *name, *inputs, *outputs, *attributes;
};

// SimplifiedLayerNormalization lives in the default domain although it was
// never an ONNX operator, and LayerNormalization did before it became one:
// tools write them so into files of older opsets.
const ContribOp contribOps[] = {
    {"", "LayerNormalization", "X:T Scale:V B:V?", "Y:V Mean:U? InvStdDev:U?",
     "axis:i? epsilon:f? stash_type:i?"},
    {"", "SimplifiedLayerNormalization", "X:T scale:V", "Y:V inv_std_var:U?",
     "axis:i? epsilon:f? stash_type:i?"},
    {"com.microsoft", "SimplifiedLayerNormalization", "X:T scale:V",
     "Y:V inv_std_var:U?", "axis:i? epsilon:f? stash_type:i?"},
    {"com.microsoft", "SkipSimplifiedLayerNormalization",
     "input:T skip:T gamma:T bias:T?",
     "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?", "epsilon:f?"},
    {"com.microsoft", "SkipLayerNormalization",
     "input:T skip:T gamma:T beta:T? bias:T?",
     "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?", "epsilon:f?"},
    {"com.microsoft", "RotaryEmbedding",
     "input:T position_ids:I cos_cache:T sin_cache:T", "output:T",
     "interleaved:i? num_heads:i? rotary_embedding_dim:i? "
     "is_packed_batching:i? scale:f?"},
    {"com.microsoft", "MatMulNBits",
     "A:T B:B scales:T zero_points:Z? g_idx:J? bias:T?", "Y:T",
     "K:i N:i bits:i? block_size:i accuracy_level:i? weight_prepacked:i?"},
    {"com.microsoft", "GatherBlockQuantized",
     "data:Q indices:J scales:T zero_points:Q?", "output:T",
     "gather_axis:i? quantize_axis:i? block_size:i? bits:i?"},
    {"com.microsoft", "GroupQueryAttention",
     "query:T key:T? value:T? past_key:C? past_value:C? seqlens_k:M "
     "total_sequence_length:M cos_cache:T? sin_cache:T? position_ids:I? "
     "attention_bias:T? head_sink:T? k_scale:F? v_scale:F? "
     "q_norm_weight:T? k_norm_weight:T? query_seqlens:M?",
     "output:T present_key:C? present_value:C? output_qk:T?",
     "num_heads:i kv_num_heads:i scale:f? do_rotary:i? rotary_interleaved:i? "
     "local_window_size:i? softcap:f? smooth_softmax:i? causal:i? "
     "sliding_window_cache:i? qk_output:i? qk_norm_epsilon:f? "
     "k_quant_type:s? v_quant_type:s? kv_cache_bit_width:i? "
     "q_norm_epsilon:f? k_norm_epsilon:f?"},
    {"com.microsoft", "Attention",
     "input:T weights:T bias:T? mask_index:M? past:T? attention_bias:T? "
     "past_sequence_length:M?",
     "output:T present:T?",
     "num_heads:i unidirectional:i? qkv_hidden_sizes:n? scale:f? "
     "mask_filter_value:f? do_rotary:i? rotary_embedding_dim:i? "
     "past_present_share_buffer:i?"},
    {"com.microsoft", "MultiHeadAttention",
     "query:T key:T? value:T? bias:T? key_padding_mask:M? attention_bias:T? "
     "past_key:T? past_value:T? past_sequence_length:M? cache_indirection:M?",
     "output:T present_key:T? present_value:T? qk:T?",
     "num_heads:i scale:f? mask_filter_value:f? unidirectional:i?"},
    {"com.microsoft", "DecoderMaskedMultiHeadAttention",
     "query:T key:T? value:T? mask_index:M? attention_bias:T? past_key:T? "
     "past_value:T? past_sequence_length:M? beam_width:M? "
     "cache_indirection:M? bias:T?",
     "output:T present_key:T? present_value:T? qk:T?",
     "num_heads:i scale:f? mask_filter_value:f? past_present_share_buffer:i? "
     "output_qk:i?"},
    {"com.microsoft", "QAttention",
     "input:A weight:D bias:T input_scale:T weight_scale:T mask_index:M? "
     "input_zero_point:A? weight_zero_point:D? past:T?",
     "output:T present:T?",
     "num_heads:i unidirectional:i? scale:f? mask_filter_value:f? "
     "do_rotary:i? past_present_share_buffer:i?"},
    {"com.microsoft", "DynamicQuantizeMatMul",
     "A:T B:D b_scale:T b_zero_point:D? bias:T?", "Y:T", ""},
    {"com.microsoft", "MatMulIntegerToFloat",
     "A:A B:D a_scale:T b_scale:T a_zero_point:A? b_zero_point:D? bias:T?",
     "Y:T", ""},
    {"com.microsoft", "MatMulInteger16", "A:H B:H", "Y:M", ""},
    {"com.microsoft", "DequantizeLinear", "x:W x_scale:T x_zero_point:W?",
     "y:T", "axis:i?"},
    {"com.microsoft", "QuantizeLinear", "x:T y_scale:T y_zero_point:W?", "y:W",
     "axis:i?"},
    {"com.microsoft", "FusedConv", "X:T W:T B:T? Z:T?", "Y:T",
     "activation:s? activation_params:g? auto_pad:s? dilations:n? group:i? "
     "kernel_shape:n? pads:n? strides:n?"},
    {"com.microsoft", "Trilu", "X:X k:I?", "Y:X", "upper:i?"},
    {"com.microsoft", "TransposeMatMul", "A:T B:T", "Y:T",
     "alpha:f? transA:i? transB:i?"},
    {"com.microsoft", "EmbedLayerNormalization",
     "input_ids:M segment_ids:M? word_embedding:T position_embedding:T "
     "segment_embedding:T? gamma:T beta:T mask:M? position_ids:M?",
     "output:T mask_index:M? embedding_sum:T?",
     "epsilon:f? mask_index_type:i?"},
    {"com.microsoft", "Gelu", "X:T", "Y:T", ""},
    {"com.microsoft", "FastGelu", "X:T bias:T?", "Y:T", ""},
    {"com.microsoft", "BiasGelu", "A:T B:T", "C:T", ""},
    {"com.microsoft", "QuickGelu", "X:T", "Y:T", "alpha:f?"},
    {"com.microsoft", "FusedGemm", "A:T B:T C:T?", "Y:T",
     "activation:s? activation_alpha:f? activation_beta:f? "
     "activation_gamma:f? alpha:f? beta:f? transA:i? transB:i?"},
    {"com.microsoft", "FusedMatMul", "A:T B:T", "Y:T",
     "alpha:f? transA:i? transB:i? transBatchA:i? transBatchB:i?"},
};

std::vector<std::string> typesOf(char letter) {
  switch (letter) {
  case 'A': // quantised operands
  case 'D':
    return {"tensor(uint8)", "tensor(int8)"};
  case 'B': // packed weights
    return {"tensor(uint8)", "tensor(uint32)", "tensor(int32)"};
  case 'C': // caches
    return {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"};
  case 'F':
    return {"tensor(float)"};
  case 'H':
    return {"tensor(int16)"};
  case 'I':
    return {"tensor(int64)"};
  case 'J':
    return {"tensor(int32)", "tensor(int64)"};
  case 'M':
    return {"tensor(int32)"};
  case 'Q':
    return {"tensor(uint8)",          "tensor(int4)",
            "tensor(uint4)",          "tensor(float8e4m3fn)",
            "tensor(float8e4m3fnuz)", "tensor(float8e5m2fnuz)",
            "tensor(float8e5m2)",     "tensor(float4e2m1)"};
  case 'W':
    return {"tensor(uint8)", "tensor(int8)",  "tensor(uint16)", "tensor(int16)",
            "tensor(int32)", "tensor(uint4)", "tensor(int4)"};
  case 'X':
    return {"tensor(float)", "tensor(double)", "tensor(int64)"};
  case 'Z': // packed, or one floating value each
    return {"tensor(uint8)", "tensor(float)", "tensor(float16)",
            "tensor(bfloat16)"};
  default:
    return {"tensor(float)", "tensor(float16)", "tensor(bfloat16)",
            "tensor(double)"};
  }
}

/// Splits "name:T?" into its three parts.
struct Item {
  std::string name;
  char kind = 0;
  bool optional = false;
};

std::vector<Item> parse(const char *text) {
  std::vector<Item> items;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    size_t colon = word.find(':');
    items.push_back(
        {word.substr(0, colon), word[colon + 1], word.back() == '?'});
  }
  return items;
}

onnx::OpSchema makeSchema(const ContribOp &op) {
  using Schema = onnx::OpSchema;
  Schema schema(op.name, __FILE__, __LINE__);
  schema.SetDomain(op.domain).SinceVersion(1);
  std::map<char, bool> letters;
  auto mode = [](const Item &item) {
    return item.optional ? Schema::Optional : Schema::Single;
  };
  int index = 0;
  for (const Item &item : parse(op.inputs)) {
    schema.Input(index++, item.name, "", std::string(1, item.kind), mode(item));
    letters[item.kind] = true;
  }
  index = 0;
  for (const Item &item : parse(op.outputs)) {
    schema.Output(index++, item.name, "", std::string(1, item.kind),
                  mode(item));
    letters[item.kind] = true;
  }
  for (const Item &item : parse(op.attributes)) {
    auto type = item.kind == 'i'   ? onnx::AttributeProto::INT
                : item.kind == 'n' ? onnx::AttributeProto::INTS
                : item.kind == 'f' ? onnx::AttributeProto::FLOAT
                : item.kind == 'g' ? onnx::AttributeProto::FLOATS
                                   : onnx::AttributeProto::STRING;
    schema.Attr(item.name, "", type, !item.optional);
  }
  for (auto [letter, used] : letters)
    schema.TypeConstraint(std::string(1, letter), typesOf(letter), "");
  return schema;
}

} // namespace

void onnxfile::registerContribSchemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto &ranges = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    if (!ranges.Map().count("com.microsoft"))
      ranges.AddDomainToVersion("com.microsoft", 1, 1);
    for (const ContribOp &op : contribOps)
      onnx::RegisterSchema(makeSchema(op), 0, true, true);
  });
}
