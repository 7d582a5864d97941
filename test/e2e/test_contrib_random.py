"""Forms of com.microsoft operators with random shapes and attributes, against onnxruntime."""
import unittest

import ml_dtypes
import numpy as np

from fusion import testing
from test_contrib import LIMIT, one_node, table

FORMS = 6  # of each operator


class Draw:
    """Random numbers of one form."""

    def __init__(self, op, form):
        self.r = np.random.default_rng([form, *op.encode()])

    def one(self, *choices):
        return choices[self.r.integers(len(choices))]

    def array(self, *shape, scale=1.0):
        return np.asarray(self.r.standard_normal(shape) * scale, np.float32)

    def integers(self, dtype, *shape, low=None, high=None):
        info = np.iinfo(dtype)
        return np.asarray(self.r.integers(info.min if low is None else low, (info.max if high is None else high) + 1, shape), dtype)

    def some(self, name, array, often=0.5):
        """An optional operand."""
        return (name, array) if self.r.random() < often else None


def scales(d, *shape):
    return np.asarray(np.abs(d.array(*shape)) + 0.1, np.float32)


def lengths(d, batch, keys):
    return d.integers(np.int32, batch, low=1, high=keys)


def mask(d, batch, rows, keys, *kinds):
    """A mask of one of the forms that MultiHeadAttention and Attention know."""
    ends = lengths(d, batch, keys)
    sums = np.concatenate([[0], np.cumsum(ends)])
    return {
        "none": lambda: None,
        "ends": lambda: ends,
        "ends_and_starts": lambda: np.concatenate([ends, np.zeros(batch, np.int32)]),
        "ends_and_sums": lambda: np.concatenate([ends, np.arange(batch + 1) * rows, sums]).astype(np.int32),
        "keys": lambda: (np.arange(keys) < ends[:, None]).astype(np.int32),
        "pairs": lambda: np.maximum(d.r.random((batch, rows, keys)) < 0.7, np.arange(keys) == 0).astype(np.int32),
    }[d.one(*kinds)]()


def named(name, array):
    return None if array is None else (name, array)


def multi_head(d):
    b, s, h, size, vsize = d.one(1, 2, 3), d.one(1, 3, 7), d.one(1, 2, 5), d.one(8, 12, 16), d.one(8, 16, 24)
    kind = d.one("self", "past", "buffer", "cross", "split")
    n, past = d.one(s, 4, 9) if kind in ("cross", "split") else s, d.one(1, 4) if kind in ("past", "buffer") else 0
    if kind in ("past", "buffer", "split"):
        vsize = size
    q = ("q", d.array(b, s, h * size))
    k, v = ("k", d.array(b, n, h * size)), ("v", d.array(b, n, h * vsize))
    if kind == "split":
        k, v = ("k", d.array(b, h, n, size)), ("v", d.array(b, h, n, vsize))
    bias = d.some("bias", d.array(h * (2 * size + vsize), scale=0.3))
    attributes = {"num_heads": h, **({"scale": d.one(0.1, 0.7)} if d.one(0, 1) else {}), "unidirectional": int(kind in ("self", "past") and d.one(0, 1))}
    outputs = ["y"]
    if kind == "buffer":
        room = past + s + d.one(0, 3)
        buffers = [("pk", d.array(b, h, room, size)), ("pv", d.array(b, h, room, vsize))]
        return one_node("MultiHeadAttention", [q, k, v, bias, None, None, *buffers, ("at", np.array([past], np.int32))], ["y", "k1", "v1"], ["bias"] * bool(bias), **attributes)
    keys = n + past
    seen = named("mask", mask(d, b, s, keys, "none", "ends", "ends_and_sums", "keys", "pairs"))
    added = d.some("added", d.array(d.one(1, b), d.one(1, h), s, keys))
    caches = [("pk", d.array(b, h, past, size)), ("pv", d.array(b, h, past, vsize))] if past else []
    if kind != "split":
        outputs += ["k1", "v1"] if past else ["", ""]
        outputs += d.one([], ["qk"])
    return one_node("MultiHeadAttention", [q, k, v, bias, seen, added, *caches], outputs, ["bias"] * bool(bias), **attributes)


def decoder(d):
    b, h, size, past = d.one(1, 3), d.one(1, 4), d.one(8, 16), d.one(1, 5)
    room = past + 1 + d.one(0, 4)
    rows = [(name, d.array(b, 1, h * size)) for name in "qkv"]
    bias = d.some("bias", d.array(3 * h * size, scale=0.3))
    buffers = [("pk", d.array(b, h, room, size)), ("pv", d.array(b, h, room, size)), ("at", np.array([past], np.int32))]
    operands = [*rows, None, None, *buffers, None, None, bias] if bias else [*rows, None, None, *buffers]
    return one_node("DecoderMaskedMultiHeadAttention", operands, ["y", "k1", "v1"], ["bias"] * bool(bias), num_heads=h, past_present_share_buffer=1,
                    **({"scale": 0.2} if d.one(0, 1) else {}))


def packed(d, quantized=False):
    b, s, h, size, width = d.one(1, 2), d.one(1, 5), d.one(1, 3), d.one(8, 16), d.one(16, 40)
    past = d.one(0, 0, 3)
    vsize = size if past or quantized else d.one(size, 8, 24)
    n = h * (2 * size + vsize)
    keys = s + past
    if keys == s:
        seen = mask(d, b, s, keys, "none", "ends", "ends_and_starts", "ends_and_sums", "keys", "pairs")
    else:
        seen = mask(d, b, s, keys, "none", "keys", "pairs")
    attributes = {"num_heads": h, "unidirectional": d.one(0, 1), **({"scale": 0.3} if d.one(0, 1) else {}), **({"mask_filter_value": -2.0} if d.one(0, 1) else {})}
    cache, outputs = named("past", d.array(2, b, h, past, size) if past else None), ["y"] + ["present"] * bool(past)
    bias = ("b", d.array(n, scale=0.2))
    if not quantized:
        if vsize != size or d.one(0, 1):
            attributes["qkv_hidden_sizes"] = [h * size, h * size, h * vsize]
        # onnxruntime takes attention_bias without a past only, and not beside a mask of pairs
        added = None if past or seen is not None and seen.ndim == 3 else d.some("added", d.array(d.one(1, b), d.one(1, h), s, keys))
        return one_node("Attention", [("x", d.array(b, s, width)), ("w", d.array(width, n, scale=0.2)), bias, named("mask", seen), cache, added], outputs, ["w", "b"], **attributes)
    kind, columns = d.one(np.int8, np.uint8), d.one((), (n,))
    scale = ("ws", np.asarray(scales(d, *columns) * 0.01, np.float32))
    zeros = [d.some("xz", d.integers(np.uint8, low=100, high=140)), d.some("wz", d.integers(kind, *columns, low=0, high=20))]
    return one_node("QAttention", [("x", d.integers(np.uint8, b, s, width)), ("w", d.integers(kind, width, n)), bias, ("xs", np.array(0.01, np.float32)), scale,
                                   named("mask", seen), *zeros, cache], outputs, ["w", "b", *(o[0] for o in zeros if o)], **attributes)


def grouped(d):
    b, kv, group, size = d.one(1, 2), d.one(1, 2), d.one(1, 3), d.one(16, 32)
    h, past = kv * group, d.one(0, 0, 4, 6)
    s = 1 if past else d.one(1, 6)
    total = s + past
    front = [("q", d.array(b, s, h * size)), ("k", d.array(b, s, kv * size)), ("v", d.array(b, s, kv * size))]
    if d.one(0, 1):
        front = [("q", d.array(b, s, (h + 2 * kv) * size)), None, None]
    cache = [("pk", d.array(b, kv, past, size)), ("pv", d.array(b, kv, past, size))]
    rotary = d.one(0, 1)
    cos, sin = table(16, size // 2)
    added, sink = d.some("added", d.array(d.one(1, b), d.one(1, h), s, total)), d.some("sink", d.array(h), 0.3)
    outputs, attributes = ["y", "k1", "v1"], {"num_heads": h, "kv_num_heads": kv, "do_rotary": rotary, "rotary_interleaved": d.one(0, 1) if rotary else 0}
    attributes |= d.one({}, {"softcap": 1.5}) | d.one({}, {"local_window_size": d.one(2, 3)}) | d.one({}, {"scale": 0.4})
    if not sink:
        attributes |= d.one({}, {"smooth_softmax": 1})
    if d.one(0, 1):
        outputs, attributes = outputs + ["qk"], attributes | {"qk_output": d.one(1, 2)}
    operands = [*front, *cache, ("lengths", np.full(b, total - 1, np.int32)), ("total", np.array(total, np.int32)),
                *([("cos", cos), ("sin", sin)] if rotary else [None, None]), None, added, sink]
    return one_node("GroupQueryAttention", operands, outputs, ["total", *["cos", "sin"] * rotary], **attributes)


def rotary(d):
    b, s, h, size = d.one(1, 2), d.one(1, 5), d.one(1, 3), d.one(16, 32)
    partial = d.one(0, 1)
    cos, sin = table(16, size // 4 if partial else size // 2)
    attributes = {"interleaved": d.one(0, 1), **({"num_heads": h, "rotary_embedding_dim": size // 2} if partial else {}), **d.one({}, {"scale": 0.5}), **d.one({}, {"is_packed_batching": 1})}
    at = d.integers(np.int64, b, s, low=0, high=15) if d.one(0, 1) else np.array([d.one(0, 9)])
    x = d.array(b, s, h * size) if d.one(0, 1) else d.array(b, h, s, size)
    return one_node("RotaryEmbedding", [("x", x), ("at", at), ("cos", cos), ("sin", sin)], ["y"], ["cos", "sin"], **attributes)


def fused_matmul(d):
    m, n, k, batch = d.one(1, 4), d.one(3, 6), d.one(2, 5), [(), (2,), (2, 3)][d.r.integers(3)]
    attributes = {"alpha": d.one(1.0, 0.3), "transA": d.one(0, 1), "transB": d.one(0, 1)}

    def stored(rows, columns, transposed, side):
        x = d.array(*batch, *((columns, rows) if transposed else (rows, columns)))
        if len(batch) and d.one(0, 1):
            attributes["transBatch" + side] = 1
            x = np.ascontiguousarray(np.moveaxis(x, -2, 0))
        return x
    a, b = stored(m, k, attributes["transA"], "A"), stored(k, n, attributes["transB"], "B")
    return one_node("FusedMatMul", [("a", a), ("b", b)], ["y"], **attributes)


def fused_gemm(d):
    m, n, k, ta, tb = d.one(1, 4), d.one(3, 6), d.one(2, 5), d.one(0, 1), d.one(0, 1)
    activation = d.one(({"activation": "LeakyRelu", "activation_alpha": 0.2}), {"activation": "Elu", "activation_alpha": 1.3}, {"activation": "Softplus"}, {"activation": "Softsign"},
                       {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4}, {"activation": "ThresholdedRelu", "activation_alpha": 0.5}, {"activation": "Tanh"})
    operands = [("a", d.array(*((k, m) if ta else (m, k)))), ("b", d.array(*((n, k) if tb else (k, n)))), d.some("c", d.array(*d.one((n,), (m, n), (1,))))]
    return one_node("FusedGemm", operands, ["y"], transA=ta, transB=tb, alpha=d.one(1.0, 0.5), beta=d.one(1.0, 0.7), **activation)


def fused_conv(d):
    groups, kernel, stride = d.one(1, 2), d.one(1, 3), d.one(1, 2)
    x, w = d.array(2, 2 * groups, 9, 9), d.array(4, 2, kernel, kernel)
    side = (9 - kernel) // stride + 1
    activation = d.one({}, {"activation": "Relu"}, {"activation": "Clip", "activation_params": [-0.5, 0.8]}, {"activation": "LeakyRelu", "activation_params": [0.3]},
                       {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}, {"activation": "Sigmoid"})
    return one_node("FusedConv", [("x", x), ("w", w), ("b", d.array(4)), d.some("z", d.array(2, 4, side, side))], ["y"], ["w", "b"], group=groups, strides=[stride, stride], **activation)


def integer_to_float(d):
    kinds = d.one((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    m, k, n = d.one(1, 5), d.one(4, 33), d.one(3, 8)
    columns = d.one((), (n,))
    zeros = [d.some("az", d.integers(kinds[0])), d.some("bz", d.integers(kinds[1], *columns))]
    return one_node("MatMulIntegerToFloat", [("a", d.integers(kinds[0], *d.one((), (2,)), m, k)), ("b", d.integers(kinds[1], k, n)), ("as", np.array(0.02, np.float32)),
                                             ("bs", scales(d, *columns)), *zeros, d.some("bias", d.array(n))], ["y"], ["b"])


def dynamic_quantize(d):
    kind, m, k, n = d.one(np.uint8, np.int8), d.one(1, 5), d.one(4, 33), d.one(3, 8)
    columns = d.one((), (n,))
    return one_node("DynamicQuantizeMatMul", [("a", d.array(*d.one((), (2,)), m, k) + np.float32(d.one(-0.5, 0, 2))), ("b", d.integers(kind, k, n)), ("s", scales(d, *columns)),
                                              d.some("z", d.integers(kind, *columns)), d.some("bias", d.array(n))], ["y"], ["b"])


def integer_16(d):
    m, k, n = d.one(1, 5), d.one(4, 33), d.one(3, 8)
    return one_node("MatMulInteger16", [("a", d.integers(np.int16, *d.one((), (2,)), m, k, low=-3000, high=3000)), ("b", d.integers(np.int16, k, n, low=-3000, high=3000))], ["index"])


def dequantize(d):
    kind, columns = d.one(np.uint8, np.int8, np.uint16, np.int16), d.one((), (4,))
    return one_node("DequantizeLinear", [("x", d.integers(kind, 3, 4, 5)), ("s", scales(d, *columns)), d.some("z", d.integers(kind, *columns))], ["y"], axis=1)


def gather_blocks(d):
    bits, block, rows, width = d.one(2, 4, 8), d.one(16, 32), d.one(5, 9), d.one(32, 64)
    data, blocks = d.integers(np.uint8, rows, width * bits // 8), width // block
    points = d.some("z", d.integers(np.uint8, rows, -(-blocks * bits // 8)))
    indices = d.integers(d.one(np.int32, np.int64), *d.one((4,), (2, 3)), low=0, high=rows - 1)
    return one_node("GatherBlockQuantized", [("data", data), ("at", indices), ("s", d.array(rows, blocks)), points], ["y"], ["data", "s", *["z"] * bool(points)],
                    bits=bits, block_size=block, quantize_axis=d.one(1, -1), gather_axis=0)


def gather_floats(d):
    block, rows, width, kind = d.one(0, 16, 32), d.one(5, 9), d.one(32, 64), d.one(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn)
    values = d.array(d.one(1, rows), width // block if block else 1)
    indices = d.integers(np.int64, *d.one((4,), (2, 3)), low=0, high=rows - 1)
    return one_node("GatherBlockQuantized", [("data", d.array(rows, width).astype(kind)), ("at", indices), ("s", values)], ["y"], ["data", "s"], block_size=block, quantize_axis=1, gather_axis=0)


def skip_norms(d):
    op, b, s, n = d.one("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), 2, d.one(1, 5), d.one(8, 48)
    layer = op == "SkipLayerNormalization"
    beta = [d.some("beta", d.array(n))] if layer else []
    operands = [("x", d.array(b, s, n)), ("skip", d.array(*d.one((b, s, n), (1, s, n), (s, n)))), ("w", 1 + d.array(n, scale=0.1)), *beta, d.some("bias", d.array(n))]
    return one_node(op, operands, ["y"] + d.one([], ["", "", "sum"]), ["w"], epsilon=d.one(1e-5, 1e-3))


OPERATORS = {"MultiHeadAttention": (multi_head, 24), "DecoderMasked": (decoder, FORMS), "Attention": (packed, 12), "QAttention": (lambda d: packed(d, True), 12),
             "GroupQueryAttention": (grouped, 24), "RotaryEmbedding": (rotary, FORMS), "FusedMatMul": (fused_matmul, 12), "FusedGemm": (fused_gemm, 12), "FusedConv": (fused_conv, 12),
             "MatMulIntegerToFloat": (integer_to_float, FORMS), "DynamicQuantizeMatMul": (dynamic_quantize, FORMS), "MatMulInteger16": (integer_16, 3), "DequantizeLinear": (dequantize, FORMS),
             "GatherBlockQuantized": (gather_blocks, FORMS), "GatherFloats": (gather_floats, FORMS), "SkipNorms": (skip_norms, FORMS)}


class ContribRandomTest(unittest.TestCase):
    def check(self, make, op, forms):
        for form in range(forms):
            model, feeds = make(Draw(op, form))
            node = model.graph.node[0]
            text = f"form {form}: {[list(feeds[n].shape) if n in feeds else n for n in node.input]} {[(a.name, a.i or a.f or a.s) for a in node.attribute]}"
            reference = testing.run_onnxruntime(model, feeds)
            for options in ([], ["--disable-fusion=all"]):
                with self.subTest(text, options=options):
                    found = testing.run_model(model, feeds, *options)
                    for name, r in reference.items():
                        self.assertEqual(found[name].shape, r.shape, name)
                        self.assertLessEqual(testing.error(found[name], r), LIMIT, name)


for name, (make, forms) in OPERATORS.items():
    setattr(ContribRandomTest, f"test_{name}", lambda self, make=make, name=name, forms=forms: self.check(make, name, forms))
