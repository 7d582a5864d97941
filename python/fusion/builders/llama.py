"""Builds an ONNX decoder with KV cache from a Llama-architecture GGUF file.

The graph is written the way torch's exporters write such a model: decomposed RMSNorm, Sigmoid-Mul SwiGLU, half-rotated
RoPE with cos and sin from position_ids, MatMul-Softmax-MatMul attention under a causal and padding mask, Unsqueeze-Expand
for grouped heads, past and present caches as graph inputs and outputs. All sizes come from the file's metadata.

Two forms:
  float   every weight in fp32
  lowbit  every weight that the file holds in blocks keeps exactly those: 4-bit ones as com.microsoft MatMulNBits (floating
          zero points where the format has an offset), 8-bit ones as blocked DequantizeLinear. A weight tied between
          embedding and head is stored once.
"""
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from fusion.onnx_writer import OnnxWriter

FORMS = ("float", "lowbit")
OPSET = 21  # blocked DequantizeLinear


class LlamaBuilder:
    real = np.dtype(np.float32)  # type of activations

    def __init__(self, source, writer: OnnxWriter, form: str):
        """`source` is a gguf_file.LlamaFile."""
        assert form in FORMS
        self.source, self.w, self.form, self.c = source, writer, form, source.config

    # Weights

    def linear(self, x, tensor, name):
        """x @ W^T with W of the file's tensor [N, K]; `name` is the module's, as in /model/layers.0/mlp/up_proj."""
        key = name[1:].replace("/", ".")
        blocks = self.source.blocks(tensor + ".weight") if self.form == "lowbit" else None
        if blocks is None:
            y = self.w.node("MatMul", [x, self.w.weight(key + ".weight", self.source.floats(tensor + ".weight").T)], name + "/MatMul")
        elif blocks.bits == 4:
            y = self._matmul_nbits(x, blocks, key, name)
        else:
            y = self._matmul_transposed(x, self._dequantize(blocks, key, name), name)
        if tensor + ".bias" in self.source:
            y = self.w.node("Add", [y, self.w.weight(key + ".bias", self.source.floats(tensor + ".bias"))], name + "/Add")
        return y

    def _matmul_nbits(self, x, b, key, name):
        n, k = b.q.shape
        packed = (b.q[:, 0::2] | b.q[:, 1::2] << 4).reshape(n, k // b.size, b.size // 2)
        inputs = [x, self.w.weight(key + ".weight_Q4", packed), self.w.weight(key + ".weight_scales", b.scale)]
        if b.zero is not None:
            inputs.append(self.w.weight(key + ".weight_zero_points", b.zero))
        return self.w.node("MatMulNBits", inputs, name + "/MatMulNBits", domain="com.microsoft", K=k, N=n, bits=4, block_size=b.size)

    def _dequantize(self, b, key, name):
        return self.w.node("DequantizeLinear", [self.w.weight(key + ".weight_Q8", b.q), self.w.weight(key + ".weight_scales", b.scale)],
                           name + "/DequantizeLinear", axis=1, block_size=b.size)

    def _matmul_transposed(self, x, weight, name):
        t = self.w.node("Transpose", [weight], name + "/Transpose", perm=[1, 0])
        return self.w.node("MatMul", [x, t], name + "/MatMul")

    def embedding_table(self):
        """The embedding [vocab, hidden]; the tied head uses the same value."""
        name = "/model/embed_tokens"
        blocks = self.source.blocks("token_embd.weight") if self.form == "lowbit" else None
        if blocks is None:
            return self.w.weight("model.embed_tokens.weight", self.source.floats("token_embd.weight"))
        if blocks.bits == 8:
            return self._dequantize(blocks, "model.embed_tokens", name)
        scale = np.repeat(blocks.scale, blocks.size, axis=1)
        zero = 0 if blocks.zero is None else np.repeat(blocks.zero, blocks.size, axis=1)
        return self.w.weight("model.embed_tokens.weight", scale * (blocks.q - zero))

    # Blocks of the network

    def rms_norm(self, x, tensor, name):
        w, f = self.w, np.float32
        square = w.node("Pow", [x, w.constant(2.0, f)], name + "/Pow")
        mean = w.node("ReduceMean", [square, w.constant([-1])], name + "/ReduceMean", keepdims=1)
        root = w.node("Sqrt", [w.node("Add", [mean, w.constant(self.c.epsilon, f)], name + "/Add")], name + "/Sqrt")
        scaled = w.node("Mul", [x, w.node("Reciprocal", [root], name + "/Reciprocal")], name + "/Mul")
        return w.node("Mul", [w.weight(name[1:].replace("/", ".") + ".weight", self.source.floats(tensor)), scaled], name + "/Mul_1")

    def sizes(self):
        """Sizes as scalars and as one-element vectors, out of the inputs' shapes."""
        w, name = self.w, "/model"
        ids = w.node("Shape", ["input_ids"], name + "/Shape")
        past = w.node("Shape", ["past_key_values.0.key"], name + "/Shape_1")
        pick = lambda s, i, n: w.node("Gather", [s, w.constant(i)], f"{name}/Gather_{n}", axis=0)
        self.seq, self.past = pick(ids, 1, 1), pick(past, 2, 2)
        self.total = w.node("Add", [self.past, self.seq], name + "/Add")
        vector = lambda s, n: w.node("Unsqueeze", [s, w.constant([0])], f"{name}/Unsqueeze_{n}")
        batch, total = vector(pick(ids, 0, 0), 0), vector(self.total, 1)
        c, rep = self.c, w.constant([self.c.heads // self.c.kv_heads])
        d = w.constant([c.head_dim])
        self.grouped = w.node("Concat", [batch, w.constant([c.kv_heads]), rep, total, d], name + "/Concat", axis=0)
        self.repeated = w.node("Concat", [batch, w.constant([c.heads]), total, d], name + "/Concat_1", axis=0)

    def rotary(self):
        """cos and sin [batch, 1, seq, head_dim] of the positions."""
        w, name, half = self.w, "/model/rotary_emb", self.c.head_dim // 2
        freq = w.weight("model.rotary_emb.inv_freq", self.source.inverse_frequencies().reshape(1, 1, half))
        pos = w.node("Cast", [w.node("Unsqueeze", ["position_ids", w.constant([2])], name + "/Unsqueeze")], name + "/Cast", to=TensorProto.FLOAT)
        angle = w.node("Mul", [pos, freq], name + "/Mul")
        angle = w.node("Concat", [angle, angle], name + "/Concat", axis=-1)
        self.cos, self.sin = (w.node("Unsqueeze", [w.node(op, [angle], f"{name}/{op}"), w.constant([1])], f"{name}/Unsqueeze_{i}")
                              for i, op in enumerate(("Cos", "Sin"), 1))

    def mask(self):
        """0 where a query sees a key (causal, and not padding), the lowest float elsewhere: [batch, 1, seq, total]."""
        w, name = self.w, "/model/causal_mask"
        zero, one = w.constant(0), w.constant(1)
        query = w.node("Add", [w.node("Range", [zero, self.seq, one], name + "/Range"), self.past], name + "/Add")
        query = w.node("Unsqueeze", [query, w.constant([1])], name + "/Unsqueeze")
        key = w.node("Unsqueeze", [w.node("Range", [zero, self.total, one], name + "/Range_1"), w.constant([0])], name + "/Unsqueeze_1")
        causal = w.node("LessOrEqual", [key, query], name + "/LessOrEqual")
        causal = w.node("Unsqueeze", [causal, w.constant([0, 1])], name + "/Unsqueeze_2")
        valid = w.node("Cast", ["attention_mask"], name + "/Cast", to=TensorProto.BOOL)
        valid = w.node("Unsqueeze", [valid, w.constant([1, 2])], name + "/Unsqueeze_3")
        seen = w.node("And", [causal, valid], name + "/And")
        lowest = w.constant(ml_dtypes.finfo(self.real).min, self.real)
        self.bias = w.node("Where", [seen, w.constant(0.0, self.real), lowest], name + "/Where")

    def heads(self, x, count, name):
        c, w = self.c, self.w
        x = w.node("Reshape", [x, w.constant([0, 0, count, c.head_dim])], name + "/Reshape")
        return w.node("Transpose", [x], name + "/Transpose", perm=[0, 2, 1, 3])

    def rotate(self, x, name):
        """x * cos + concat(-x[d/2:], x[:d/2]) * sin"""
        w, half = self.w, self.c.head_dim // 2
        part = lambda lo, hi, n: w.node("Slice", [x, w.constant([lo]), w.constant([hi]), w.constant([3]), w.constant([1])], f"{name}/{n}")
        first, second = part(0, half, "Slice"), part(half, np.iinfo(np.int64).max, "Slice_1")
        turned = w.node("Concat", [w.node("Neg", [second], name + "/Neg"), first], name + "/Concat", axis=-1)
        return w.node("Add", [w.node("Mul", [x, self.cos], name + "/Mul"), w.node("Mul", [turned, self.sin], name + "/Mul_1")], name + "/Add")

    def cached(self, new, layer, part, name):
        """Appends to the cache; returns it repeated for the query heads of each group: [batch, heads, total, d]."""
        w, n = self.w, f"{name}/{part}"
        present = w.node("Concat", [f"past_key_values.{layer}.{part}", new], n + "/Concat", axis=2, output=f"present.{layer}.{part}")
        if self.c.heads == self.c.kv_heads:
            return present
        x = w.node("Expand", [w.node("Unsqueeze", [present, w.constant([2])], n + "/Unsqueeze"), self.grouped], n + "/Expand")
        return w.node("Reshape", [x, self.repeated], n + "/Reshape")

    def attention(self, x, layer, name):
        c, w, blk = self.c, self.w, f"blk.{layer}."
        q = self.heads(self.linear(x, blk + "attn_q", name + "/q_proj"), c.heads, name + "/q")
        k = self.heads(self.linear(x, blk + "attn_k", name + "/k_proj"), c.kv_heads, name + "/k")
        v = self.heads(self.linear(x, blk + "attn_v", name + "/v_proj"), c.kv_heads, name + "/v")
        q, k = self.rotate(q, name + "/q_rotary"), self.rotate(k, name + "/k_rotary")
        keys, values = self.cached(k, layer, "key", name), self.cached(v, layer, "value", name)
        scores = w.node("MatMul", [q, w.node("Transpose", [keys], name + "/Transpose", perm=[0, 1, 3, 2])], name + "/MatMul")
        scores = w.node("Mul", [scores, w.constant(c.head_dim ** -0.5, self.real)], name + "/Mul")
        scores = w.node("Softmax", [w.node("Add", [scores, self.bias], name + "/Add")], name + "/Softmax", axis=-1)
        y = w.node("Transpose", [w.node("MatMul", [scores, values], name + "/MatMul_1")], name + "/Transpose_1", perm=[0, 2, 1, 3])
        y = w.node("Reshape", [y, w.constant([0, 0, c.heads * c.head_dim])], name + "/Reshape")
        return self.linear(y, blk + "attn_output", name + "/o_proj")

    def mlp(self, x, layer, name):
        w, blk = self.w, f"blk.{layer}."
        gate = self.linear(x, blk + "ffn_gate", name + "/gate_proj")
        silu = w.node("Mul", [gate, w.node("Sigmoid", [gate], name + "/act_fn/Sigmoid")], name + "/act_fn/Mul")
        product = w.node("Mul", [silu, self.linear(x, blk + "ffn_up", name + "/up_proj")], name + "/Mul")
        return self.linear(product, blk + "ffn_down", name + "/down_proj")

    # The whole graph

    def interface(self):
        c, w, f, i = self.c, self.w, helper.np_dtype_to_tensor_dtype(self.real), TensorProto.INT64
        w.input("input_ids", i, ["batch", "sequence_length"])
        w.input("attention_mask", i, ["batch", "past_sequence_length + sequence_length"])
        w.input("position_ids", i, ["batch", "sequence_length"])
        w.output("logits", f, ["batch", "sequence_length", c.vocab])
        for layer in range(c.layers):
            for part in ("key", "value"):
                w.input(f"past_key_values.{layer}.{part}", f, ["batch", c.kv_heads, "past_sequence_length", c.head_dim])
                w.output(f"present.{layer}.{part}", f, ["batch", c.kv_heads, "past_sequence_length + sequence_length", c.head_dim])

    def build(self):
        w = self.w
        self.interface()
        self.sizes()
        table = self.embedding_table()
        x = w.node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather", axis=0)
        self.rotary()
        self.mask()
        for layer in range(self.c.layers):
            name, blk = f"/model/layers.{layer}", f"blk.{layer}."
            h = self.rms_norm(x, blk + "attn_norm.weight", name + "/input_layernorm")
            x = w.node("Add", [x, self.attention(h, layer, name + "/self_attn")], name + "/Add")
            h = self.rms_norm(x, blk + "ffn_norm.weight", name + "/post_attention_layernorm")
            x = w.node("Add", [x, self.mlp(h, layer, name + "/mlp")], name + "/Add_1")
        x = self.rms_norm(x, "output_norm.weight", "/model/norm")
        if "output.weight" in self.source:
            self.linear(x, "output", "/lm_head")
        else:
            self._matmul_transposed(x, table, "/lm_head")
        w.rename_last("logits")


def build(gguf_path, onnx_path, form):
    """Writes ONNX_PATH and ONNX_PATH.data; returns the hyper-parameters."""
    from fusion.gguf_file import LlamaFile  # needs the gguf package, which other builders do not
    source = LlamaFile(gguf_path)
    with OnnxWriter(onnx_path) as writer:
        LlamaBuilder(source, writer, form).build()
        writer.save("llama", {"": OPSET, **({"com.microsoft": 1} if form == "lowbit" else {})},
                    {"source": str(source.path.name), "form": form})
    return source.config
