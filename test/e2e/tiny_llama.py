"""A tiny random Llama as a GGUF file, and its forward pass in plain numpy fp64, straight from the file's own layout:
interleaved rotation on the rows as they are stored, weights as the gguf package decodes them."""
import dataclasses
import pathlib
import tempfile
import unittest

import gguf
import numpy as np
from fusion.builders import llama
from gguf import GGMLQuantizationType as Q


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int = 2
    hidden: int = 96
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 16
    ffn: int = 160
    vocab: int = 64
    rope_base: float = 5000.0
    epsilon: float = 1e-4


def write(path, shape=Shape(), linear=Q.Q4_1, embedding=Q.Q8_0, tied=True, seed=0):
    """Writes the file; every size is another than any real model's."""
    s, rnd = shape, np.random.default_rng(seed)
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(s.layers)
    w.add_context_length(128)
    w.add_embedding_length(s.hidden)
    w.add_feed_forward_length(s.ffn)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_key_length(s.head_dim)
    w.add_value_length(s.head_dim)
    w.add_rope_dimension_count(s.head_dim)
    w.add_rope_freq_base(s.rope_base)
    w.add_layer_norm_rms_eps(s.epsilon)

    def tensor(name, rows, columns, kind):
        x = (rnd.standard_normal((rows, columns)) * 1.5 / np.sqrt(columns)).astype(np.float32)
        w.add_tensor(name, gguf.quants.quantize(x, kind), raw_dtype=kind)

    def norm(name):
        w.add_tensor(name, (1 + 0.1 * rnd.standard_normal(s.hidden)).astype(np.float32))

    tensor("token_embd.weight", s.vocab, s.hidden, embedding)
    norm("output_norm.weight")
    if not tied:
        tensor("output.weight", s.vocab, s.hidden, linear)
    for i in range(s.layers):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for name, rows, columns in (("attn_q", s.heads * s.head_dim, s.hidden), ("attn_k", s.kv_heads * s.head_dim, s.hidden),
                                    ("attn_v", s.kv_heads * s.head_dim, s.hidden), ("attn_output", s.hidden, s.heads * s.head_dim),
                                    ("ffn_gate", s.ffn, s.hidden), ("ffn_up", s.ffn, s.hidden), ("ffn_down", s.hidden, s.ffn)):
            tensor(f"blk.{i}.{name}.weight", rows, columns, linear)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def forward(path, ids, shape=Shape()):
    """Logits [len(ids), vocab] of one sequence."""
    s = shape
    t = {x.name: gguf.quants.dequantize(x.data, x.tensor_type).astype(np.float64) for x in gguf.GGUFReader(path).tensors}
    n, d = len(ids), s.head_dim
    angle = np.arange(n)[:, None] * s.rope_base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def rms(x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + s.epsilon) * w

    def rotate(x):  # [n, heads, d], pairs (2i, 2i + 1)
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    x = t["token_embd.weight"][ids]
    hidden_keys = np.triu(np.ones((n, n), bool), 1)
    for i in range(s.layers):
        b = f"blk.{i}."
        h = rms(x, t[b + "attn_norm.weight"])
        q, k, v = ((h @ t[b + f"attn_{p}.weight"].T).reshape(n, -1, d) for p in "qkv")
        q, k = rotate(q), rotate(k)
        k, v = (np.repeat(y, s.heads // s.kv_heads, axis=1) for y in (k, v))
        score = np.where(hidden_keys, -np.inf, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d))
        p = np.exp(score - score.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(n, -1)
        x = x + y @ t[b + "attn_output.weight"].T
        h = rms(x, t[b + "ffn_norm.weight"])
        gate = h @ t[b + "ffn_gate.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ t[b + "ffn_up.weight"].T)) @ t[b + "ffn_down.weight"].T
    return rms(x, t["output_norm.weight"]) @ t.get("output.weight", t["token_embd.weight"]).T


class TinyLlamaTest(unittest.TestCase):
    """A folder `dir` with the model as t.gguf and as FORM.onnx."""

    FORMS = llama.FORMS

    @classmethod
    def setUpClass(cls):
        tmp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(tmp.cleanup)
        cls.dir = pathlib.Path(tmp.name)
        write(cls.dir / "t.gguf")
        for form in cls.FORMS:
            llama.build(cls.dir / "t.gguf", cls.dir / f"{form}.onnx", form)
