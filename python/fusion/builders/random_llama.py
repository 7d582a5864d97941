"""Llama-shaped ONNX decoders of any size with random weights, for benchmarks and tests: written at the speed of the disk.

The graph is that of fusion.builders.llama in 16 bits as torch's exporters write it: norms that widen to fp32, cos and sin rounded,
caches by Concat; or, as onnxruntime-genai writes it, with com.microsoft GroupQueryAttention that rotates and appends.

Forms: bf16, fp16, float; int4 (bf16 with every matrix but the head as MatMulNBits in groups of 128).

Weights are random bits made into numbers: sign and mantissa random, the exponent one of two, so that a matrix of K columns
scales its input by about one and activations stay finite at any depth. The same seed gives the same bytes.
"""
import concurrent.futures as cf
import dataclasses
import os

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fusion.builders.llama import OPSET, LlamaBuilder
from fusion.onnx_writer import OnnxWriter

TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16), "float": np.dtype(np.float32), "int4": np.dtype(ml_dtypes.bfloat16)}
FORMS = tuple(TYPES)
PIECE = 16 << 20  # bytes that a thread makes at once
GROUP = 128  # of int4 weights


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    ffn: int = 14336
    vocab: int = 128256
    rope_base: float = 500000.0
    epsilon: float = 1e-5
    context: int = 8192  # rows of the rotation tables of GroupQueryAttention


SIZES = {
    "8b": Config(),
    "1b": Config(layers=16, hidden=2048, head_dim=64, ffn=8192),
    "tiny": Config(layers=2, hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=384, vocab=320, rope_base=10000.0, context=2048),
}


def exponent_field(dtype, magnitude):
    """Exponent bits of the power of two such that numbers of its binade and the next lower one have about this deviation."""
    bias, mantissa = {2: (127, 7)}.get(dtype.itemsize, (127, 23)) if dtype != np.float16 else (15, 10)
    exponent = int(np.clip(np.round(np.log2(magnitude / 1.2)), 1 - bias, bias))
    return (exponent + bias | 1) << mantissa, 1 << mantissa  # an odd field: its lowest bit is the random one


def random_piece(bits_type, mask, field, count, seed):
    raw = np.random.Generator(np.random.SFC64(seed)).integers(0, 2 ** 64, -(-count * bits_type.itemsize // 8), np.uint64).view(bits_type)[:count]
    if mask is not None:
        raw &= mask
        raw |= field
    return raw


class RandomBytes:
    """Writes random weights into the data file, piece by piece, on all processors."""

    def __init__(self, writer, seed):
        self.w, self.seed, self.jobs = writer, seed, []
        self.pool = cf.ThreadPoolExecutor(os.cpu_count())

    def _write(self, offset, size, bits_type, mask, field):
        for at in range(0, size, PIECE):
            count = min(PIECE, size - at) // bits_type.itemsize
            self.jobs.append(self.pool.submit(self._piece, offset + at, bits_type, mask, field, count))

    def _piece(self, offset, bits_type, mask, field, count):
        data = memoryview(random_piece(bits_type, mask, field, count, [self.seed, offset])).cast("B")
        while data:  # one call may write less
            written = os.pwrite(self.w.file(), data, offset)
            data, offset = data[written:], offset + written

    def floats(self, name, dtype, dims, magnitude, positive=False):
        bits_type = np.dtype(f"u{dtype.itemsize}")
        field, lowest = exponent_field(dtype, magnitude)
        sign = 0 if positive else 1 << (8 * dtype.itemsize - 1)
        mantissa = lowest - 1
        size = int(np.prod(dims)) * dtype.itemsize
        offset = self.w.reserve(name, helper.np_dtype_to_tensor_dtype(dtype), dims, size)
        self._write(offset, size, bits_type, bits_type.type(sign | mantissa | lowest), bits_type.type(field & ~lowest))
        return name

    def bits(self, name, dims):
        size = int(np.prod(dims))
        self._write(self.w.reserve(name, TensorProto.UINT8, dims, size), size, np.dtype(np.uint8), None, None)
        return name

    def finish(self):
        for job in self.jobs:
            job.result()
        self.pool.shutdown()


class RandomLlama(LlamaBuilder):
    def __init__(self, config, writer, form="bf16", attention="concat", seed=0):
        assert form in FORMS and attention in ("concat", "gqa")
        self.c, self.w, self.form, self.gqa, self.real = config, writer, form, attention == "gqa", TYPES[form]
        self.random, self.rng = RandomBytes(writer, seed), np.random.default_rng(seed)

    def shape(self, tensor):
        """Rows and columns of a matrix, and by how much it scales."""
        c, part = self.c, tensor.rsplit(".", 1)[-1]
        branch = (2 * c.layers) ** -0.5  # each layer adds two branches to the residual
        return {"attn_q": (c.heads * c.head_dim, c.hidden, 1), "attn_k": (c.kv_heads * c.head_dim, c.hidden, 1),
                "attn_v": (c.kv_heads * c.head_dim, c.hidden, 1), "attn_output": (c.hidden, c.heads * c.head_dim, branch),
                "ffn_gate": (c.ffn, c.hidden, 1), "ffn_up": (c.ffn, c.hidden, 1), "ffn_down": (c.hidden, c.ffn, branch),
                "output": (c.vocab, c.hidden, 1)}[part]

    def linear(self, x, tensor, name):
        n, k, gain = self.shape(tensor)
        key, magnitude = name[1:].replace("/", "."), gain * k ** -0.5
        if self.form == "int4" and tensor != "output":
            groups = k // GROUP
            inputs = [x, self.random.bits(key + ".weight_Q4", (n, groups, GROUP // 2)),
                      self.random.floats(key + ".weight_scales", self.real, (n, groups), magnitude / 4.6, positive=True)]
            return self.w.node("MatMulNBits", inputs, name + "/MatMulNBits", domain="com.microsoft", K=k, N=n, bits=4, block_size=GROUP)
        return self.w.node("MatMul", [x, self.random.floats(key + ".weight", self.real, (k, n), magnitude)], name + "/MatMul")

    def embedding_table(self):
        return self.random.floats("model.embed_tokens.weight", self.real, (self.c.vocab, self.c.hidden), 1.0)

    def cast(self, x, dtype, name):
        if self.real == np.float32:
            return x
        return self.w.node("Cast", [x], name, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def rms_norm(self, x, tensor, name):
        w, f = self.w, np.float32
        x = self.cast(x, f, name + "/Cast")
        square = w.node("Pow", [x, w.constant(2.0, f)], name + "/Pow")
        mean = w.node("ReduceMean", [square, w.constant([-1])], name + "/ReduceMean", keepdims=1)
        root = w.node("Sqrt", [w.node("Add", [mean, w.constant(self.c.epsilon, f)], name + "/Add")], name + "/Sqrt")
        scaled = w.node("Mul", [x, w.node("Reciprocal", [root], name + "/Reciprocal")], name + "/Mul")
        weight = (1 + 0.1 * self.rng.standard_normal(self.c.hidden)).astype(self.real)
        return w.node("Mul", [w.weight(name[1:].replace("/", ".") + ".weight", weight), self.cast(scaled, self.real, name + "/Cast_1")], name + "/Mul_1")

    def frequencies(self):
        return (self.c.rope_base ** (-np.arange(0, self.c.head_dim, 2) / self.c.head_dim)).astype(np.float32)

    def rotary(self):
        w, name = self.w, "/model/rotary_emb"
        if self.gqa:
            angle = np.outer(np.arange(self.c.context), self.frequencies())
            self.cos, self.sin = (w.weight(f"{n}_cache", f(angle).astype(self.real)) for n, f in (("cos", np.cos), ("sin", np.sin)))
            return
        freq = w.weight("model.rotary_emb.inv_freq", self.frequencies().reshape(1, 1, -1))
        pos = w.node("Cast", [w.node("Unsqueeze", ["position_ids", w.constant([2])], name + "/Unsqueeze")], name + "/Cast", to=TensorProto.FLOAT)
        angle = w.node("Mul", [pos, freq], name + "/Mul")
        angle = w.node("Concat", [angle, angle], name + "/Concat", axis=-1)
        self.cos, self.sin = (self.cast(w.node("Unsqueeze", [w.node(op, [angle], f"{name}/{op}"), w.constant([1])], f"{name}/Unsqueeze_{i}"), self.real, f"{name}/Cast_{i}")
                              for i, op in enumerate(("Cos", "Sin"), 1))

    def mask(self):
        """GroupQueryAttention takes the number of keys instead."""
        if not self.gqa:
            return super().mask()
        w, name = self.w, "/model/attn_mask_reformat"
        count = w.node("ReduceSum", ["attention_mask", w.constant([1])], name + "/ReduceSum", keepdims=1)
        self.last_key = w.node("Cast", [w.node("Sub", [count, w.constant([1])], name + "/Sub")], name + "/Cast", to=TensorProto.INT32)
        total = w.node("Gather", [w.node("Shape", ["attention_mask"], name + "/Shape"), w.constant(1)], name + "/Gather", axis=0)
        self.all_keys = w.node("Cast", [total], name + "/Cast_1", to=TensorProto.INT32)

    def attention(self, x, layer, name):
        if not self.gqa:
            return super().attention(x, layer, name)
        c, w, blk = self.c, self.w, f"blk.{layer}."
        q, k, v = (self.linear(x, f"{blk}attn_{p}", f"{name}/{p}_proj") for p in "qkv")
        outputs = [name + "/GroupQueryAttention_output_0", f"present.{layer}.key", f"present.{layer}.value"]
        y = w.node("GroupQueryAttention", [q, k, v, f"past_key_values.{layer}.key", f"past_key_values.{layer}.value", self.last_key, self.all_keys, self.cos, self.sin],
                   name + "/GroupQueryAttention", output=outputs, domain="com.microsoft", num_heads=c.heads, kv_num_heads=c.kv_heads,
                   scale=c.head_dim ** -0.5, do_rotary=1, rotary_interleaved=0)
        return self.linear(y[0], blk + "attn_output", name + "/o_proj")

    def sizes(self):
        if not self.gqa:
            super().sizes()

    def interface(self):
        super().interface()
        if self.gqa:  # positions follow the mask
            self.w.inputs = [i for i in self.w.inputs if i.name != "position_ids"]

    @property
    def source(self):
        """The head is a weight of its own."""
        return ("output.weight",)


def build(path, config=SIZES["8b"], form="bf16", attention="concat", seed=0):
    """Writes PATH and PATH.data; returns the number of bytes of the data file."""
    with OnnxWriter(path) as writer:
        builder = RandomLlama(config, writer, form, attention, seed)
        builder.build()
        builder.random.finish()
        contrib = {"com.microsoft": 1} if form == "int4" or attention == "gqa" else {}
        writer.save("llama", {"": OPSET, **contrib}, {"form": form, "seed": str(seed)})
    return os.path.getsize(writer.data_path)


def forward(path, ids, config):
    """Logits [len(ids), vocab] of one sequence in fp64, from the weights as the file holds them. For small models."""
    c, n, d = config, len(ids), config.head_dim
    t = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in onnx.load(path).graph.initializer}
    angle = np.outer(np.arange(n), c.rope_base ** (-np.arange(0, d, 2) / d))
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def linear(x, name):
        if name + ".weight" in t:
            return x @ t[name + ".weight"]
        packed = t[name + ".weight_Q4"].astype(np.uint8)
        q = np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1, GROUP).astype(np.float64) - 8
        return x @ (q * t[name + ".weight_scales"][..., None]).reshape(packed.shape[0], -1).T

    def rms(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c.epsilon) * t[name + ".weight"]

    def rotate(x):  # [n, heads, d]
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x, future = t["model.embed_tokens.weight"][ids], np.triu(np.ones((n, n), bool), 1)
    for i in range(c.layers):
        b = f"model.layers.{i}"
        h = rms(x, b + ".input_layernorm")
        q, k, v = (linear(h, f"{b}.self_attn.{p}_proj").reshape(n, -1, d) for p in "qkv")
        k, v = (np.repeat(y, c.heads // c.kv_heads, 1) for y in (rotate(k), v))
        score = np.where(future, -np.inf, np.einsum("qhd,khd->hqk", rotate(q), k) * d ** -0.5)
        p = np.exp(score - score.max(-1, keepdims=True))
        x = x + linear(np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(n, -1), b + ".self_attn.o_proj")
        h = rms(x, b + ".post_attention_layernorm")
        gate = linear(h, b + ".mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, b + ".mlp.up_proj"), b + ".mlp.down_proj")
    return linear(rms(x, "model.norm"), "lm_head")
