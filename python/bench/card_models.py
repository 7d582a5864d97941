"""ONNX graphs that the card's benchmark compiles: one operation, repeated over tensors of its own so that none stays in cache."""
import math

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from fusion.builders import random_llama
from fusion.builders.llama import OPSET
from fusion.builders.random_llama import RandomBytes, RandomLlama
from fusion.onnx_writer import OnnxWriter

BF16 = random_llama.TYPES["bf16"]
L2_BYTES = 50 << 20


def copies(bytes_each, least=1, most=64):
    """How often an operation is repeated: its tensors exceed the L2 cache several times over."""
    return max(least, min(most, math.ceil(4 * L2_BYTES / bytes_each)))


def repeats(us_each, least_us=1800, most=256):
    """How often an operation stands in a model, so that the launch of a run is small beside it."""
    return max(1, min(most, math.ceil(least_us / us_each)))


class Ops:
    """One model of several copies of an operation. Weights are of a few sets that take turns."""

    def __init__(self, path, seed=0):
        self.w, self.path = OnnxWriter(path), path
        self.random = RandomBytes(self.w, seed)
        self.number = helper.np_dtype_to_tensor_dtype(BF16)

    def input(self, name, shape):
        return self.w.input(name, self.number, shape)

    def output(self, name, shape):
        return self.w.output(name, self.number, shape)

    def save(self):
        self.random.finish()
        self.w.save("ops", {"": OPSET, "com.microsoft": 1})
        return self.path


def nothing(path):
    """One tiny kernel."""
    ops = Ops(path)
    ops.input("x", [64]), ops.output("y", [64])
    ops.w.node("Neg", ["x"], "/Neg", output="y")
    return ops.save()


def matmuls(path, m, n, k, sets, count):
    ops = Ops(path)
    weights = [ops.random.floats(f"w{i}", BF16, (k, n), k ** -0.5) for i in range(sets)]
    for i in range(count):
        ops.output(f"y{i}", [m, n])
        ops.w.node("MatMul", [ops.input(f"x{i}", [m, k]), weights[i % sets]], f"/{i}/MatMul", output=f"y{i}")
    return ops.save()


def gated(path, m, n, k, sets, count):
    ops = Ops(path)
    weights = [{part: ops.random.floats(f"{part}{i}", BF16, (k, n), k ** -0.5) for part in ("gate", "up")} for i in range(sets)]
    for i in range(count):
        x, node = ops.input(f"x{i}", [m, k]), ops.w.node
        g, u = (node("MatMul", [x, weights[i % sets][part]], f"/{i}/{part}/MatMul") for part in ("gate", "up"))
        s = node("Mul", [g, node("Sigmoid", [g], f"/{i}/Sigmoid")], f"/{i}/Mul")
        ops.output(f"y{i}", [m, n])
        node("Mul", [s, u], f"/{i}/Mul_1", output=f"y{i}")
    return ops.save()


GLOBAL_SCALE = 0.02  # of NVFP4's scales


def low_bit_weight(ops, kind, i, n, k):
    """Random codes, scales and zero points of one weight: FP8 with a scale a row, NVFP4, or int4 in blocks."""
    def codes(name, data_type, dims, size, mask, field):
        ops.random._write(ops.w.reserve(name, data_type, dims, size), size, np.dtype(np.uint8), np.uint8(mask), np.uint8(field))
        return name
    if kind == "fp8":  # magnitudes from 1/2 to 2: no NaN
        return [codes(f"q{i}", TensorProto.FLOAT8E4M3FN, (n, k), n * k, 0x8F, 0x30), ops.random.floats(f"s{i}", BF16, (n,), k ** -0.5, positive=True)]
    if kind == "nvfp4":
        return [codes(f"q{i}", TensorProto.FLOAT4E2M1, (n, k), n * k // 2, 0xFF, 0), codes(f"s{i}", TensorProto.FLOAT8E4M3FN, (n, k // 16), n * k // 16, 0x0F, 0x30)]
    groups = k // random_llama.GROUP
    weight = [ops.random.bits(f"q{i}", (n, groups, random_llama.GROUP // 2)), ops.random.floats(f"s{i}", BF16, (n, groups), k ** -0.5 / 4.6, positive=True)]
    return weight + [ops.random.bits(f"z{i}", (n, groups // 2))] if kind == "zeros" else weight


def low_bit_product(ops, kind, name, x, weight, n, k, output=None):
    node = ops.w.node
    if kind in ("int4", "zeros"):
        return node("MatMulNBits", [x, *weight], f"{name}/MatMulNBits", output=output, domain="com.microsoft", K=k, N=n, bits=4, block_size=random_llama.GROUP)
    q, s = weight
    if kind == "nvfp4":
        s = node("DequantizeLinear", [s, ops.w.constant(GLOBAL_SCALE, np.float32)], f"{name}/DequantizeLinear_1")
        w = node("Cast", [node("DequantizeLinear", [q, s], f"{name}/DequantizeLinear", axis=1, block_size=16)], f"{name}/Cast", to=ops.number)
    else:
        w = node("DequantizeLinear", [q, s], f"{name}/DequantizeLinear", axis=0)
    return node("MatMul", [x, node("Transpose", [w], f"{name}/Transpose", perm=[1, 0])], f"{name}/MatMul", output=output)


def low_bit_matmuls(path, kind, m, n, k, sets, count, gated=False):
    ops = Ops(path)
    weights = [low_bit_weight(ops, kind, i, n, k) for i in range(2 * sets if gated else sets)]
    norm = norm_weight(ops.w, "g", 0, k) if gated else None
    for i in range(count):
        x = ops.input(f"x{i}", [m, k])
        ops.output(f"y{i}", [m, n])
        if not gated:
            low_bit_product(ops, kind, f"/{i}", x, weights[i % sets], n, k, f"y{i}")
            continue
        x = rms_norm(ops.w, f"/{i}/norm", x, norm, ops.number)
        g, u = (low_bit_product(ops, kind, f"/{i}/{part}", x, weights[2 * (i % sets) + j], n, k) for j, part in enumerate(("gate", "up")))
        node = ops.w.node
        s = node("Mul", [g, node("Sigmoid", [g], f"/{i}/Sigmoid")], f"/{i}/Mul")
        node("Mul", [s, u], f"/{i}/Mul_1", output=f"y{i}")
    ops.random.finish()
    ops.w.save("ops", {"": 23, "com.microsoft": 1})
    return path


def norm_weight(w, name, seed, width):
    return w.weight(name, (1 + 0.1 * np.random.default_rng(seed).standard_normal(width)).astype(BF16))


def rms_norm(w, name, x, weight, number, output=None, epsilon=1e-5):
    """As torch's exporters write it: in fp32, decomposed."""
    f = np.float32
    s = w.node("Cast", [x], f"{name}/Cast", to=TensorProto.FLOAT)
    mean = w.node("ReduceMean", [w.node("Pow", [s, w.constant(2.0, f)], f"{name}/Pow"), w.constant([-1])], f"{name}/ReduceMean", keepdims=1)
    root = w.node("Sqrt", [w.node("Add", [mean, w.constant(epsilon, f)], f"{name}/Add_1")], f"{name}/Sqrt")
    n = w.node("Cast", [w.node("Mul", [s, w.node("Reciprocal", [root], f"{name}/Reciprocal")], f"{name}/Mul")], f"{name}/Cast_1", to=number)
    return w.node("Mul", [weight, n], f"{name}/Mul_1", output=output)


def add_rms_norms(path, rows, width, count):
    ops = Ops(path)
    for i in range(count):
        a, b = (ops.input(f"{n}{i}", [rows, width]) for n in "ab")
        ops.output(f"s{i}", [rows, width]), ops.output(f"y{i}", [rows, width])
        s = ops.w.node("Add", [a, b], f"/{i}/Add", output=f"s{i}")
        rms_norm(ops.w, f"/{i}", s, norm_weight(ops.w, f"g{i}", i, width), ops.number, f"y{i}")
    return ops.save()


class Attention(RandomLlama):
    """Rotations and attention alone, of a Llama's layer, in the layout of the projections around them."""

    def core(self, q, k, v, layer, name):
        """LlamaBuilder's attention between its projections."""
        given = iter((q, k, v))
        self.linear = lambda x, tensor, label: x if tensor.endswith("output") else next(given)
        return super().attention(q, layer, name)


def prefill_attentions(path, count, config=random_llama.SIZES["8b"]):
    """Causal attention over the rows themselves, queries and keys rotated; tables of the positions are inputs."""
    c, rows = config, "sequence_length"
    with OnnxWriter(path) as w:
        b = Attention(c, w)
        number = helper.np_dtype_to_tensor_dtype(BF16)
        b.cos, b.sin = (w.input(name, number, [1, 1, rows, c.head_dim]) for name in ("cos", "sin"))
        size = w.node("Gather", [w.node("Shape", ["cos"], "/Shape"), w.constant(2)], "/Gather", axis=0)
        index = lambda axis: w.node("Unsqueeze", [w.node("Range", [w.constant(0), size, w.constant(1)], f"/mask/Range_{axis}"), w.constant([axis])], f"/mask/Unsqueeze_{axis}")
        seen = w.node("LessOrEqual", [index(0), index(1)], "/mask/LessOrEqual")
        b.bias = w.node("Where", [seen, w.constant(0.0, BF16), w.constant(ml_dtypes.finfo(BF16).min, BF16)], "/mask/Where")
        grouped, repeated = w.constant([1, 1, c.heads // c.kv_heads, 1, 1]), w.constant([1, c.heads, -1, c.head_dim])
        for i in range(count):
            q, k, v = (w.input(f"{n}{i}", number, [1, rows, h * c.head_dim]) for n, h in (("q", c.heads), ("k", c.kv_heads), ("v", c.kv_heads)))
            b.cached = lambda new, layer, part, name: w.node("Reshape", [w.node("Expand", [w.node("Unsqueeze", [new, w.constant([2])], f"{name}/{part}/Unsqueeze"), grouped], f"{name}/{part}/Expand"), repeated], f"{name}/{part}/Reshape")
            w.output(f"y{i}", number, [1, rows, c.heads * c.head_dim])
            b.core(q, k, v, i, f"/{i}")
            w.rename_last(f"y{i}")
        b.random.finish()
        w.save("attention", {"": OPSET})
    return path


def decode_attentions(path, batch, layers, config=random_llama.SIZES["8b"]):
    """Layers of rotation, append and attention; each layer's result is the next one's query. Keys and values come from the embedding."""
    import dataclasses
    c = dataclasses.replace(config, layers=layers, vocab=512, hidden=config.heads * config.head_dim)
    with OnnxWriter(path) as w:
        b = Attention(c, w)
        b.interface()
        for value in (*w.inputs, *w.outputs):  # the batch is fixed
            value.type.tensor_type.shape.dim[0].dim_value = batch
        w.outputs[0].type.tensor_type.shape.dim[2].dim_value = c.hidden
        b.sizes()
        x = w.node("Gather", [b.embedding_table(), "input_ids"], "/Gather", axis=0)
        width = c.kv_heads * c.head_dim
        part = lambda i: w.node("Slice", [x, w.constant([i * width]), w.constant([(i + 1) * width]), w.constant([2]), w.constant([1])], f"/Slice_{i}")
        k, v, q = part(0), part(1), x
        b.rotary()
        b.mask()
        for layer in range(layers):
            q = b.core(q, k, v, layer, f"/model/layers.{layer}/self_attn")
        w.rename_last("logits")
        b.random.finish()
        w.save("attention", {"": OPSET})
    return path
