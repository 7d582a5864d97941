"""com.microsoft operators as exporters and onnxruntime's optimiser write them, against onnxruntime."""
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

from fusion import testing

LIMIT = 3e-6
B, S, P, H, KV, D = 2, 5, 3, 4, 2, 16


def rnd(*shape, seed=0, scale=1.0):
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def table(rows, width):
    angle = np.outer(np.arange(rows), 50.0 ** (-np.arange(width) / width))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def one_node(op, operands, outputs, weights=(), domain="com.microsoft", **attributes):
    """operands: (name, array) or None for an absent one; those named in weights are initializers. Returns (model, feeds)."""
    names = [o[0] if o else "" for o in operands]
    given = dict(o for o in operands if o)
    inputs = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items() if n not in weights]
    node = h.make_node(op, names, outputs, name=op, domain=domain, **attributes)
    graph = h.make_graph([node], "g", inputs, [h.make_tensor_value_info(o, T.INT32 if o == "index" else T.FLOAT, None) for o in outputs if o],
                         [nh.from_array(given[n], n) for n in weights])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    return model, {n: a for n, a in given.items() if n not in weights}


def norms():
    x, skip = ("x", rnd(B, S, 16)), ("skip", rnd(B, S, 16, seed=1))
    w, beta, bias = ("w", 1 + rnd(16, scale=0.1)), ("beta", rnd(16, seed=2)), ("bias", rnd(16, seed=3))
    yield "skip_layer_norm", one_node("SkipLayerNormalization", [x, skip, w, beta], ["y"], ["w", "beta"], epsilon=1e-3)
    yield "skip_layer_norm_bias_sum", one_node("SkipLayerNormalization", [x, skip, w, beta, bias], ["y", "", "", "sum"], ["w", "beta", "bias"], epsilon=1e-3)
    yield "skip_layer_norm_no_beta", one_node("SkipLayerNormalization", [x, skip, w, None, bias], ["y", "", "", "sum"], ["w", "bias"], epsilon=1e-3)
    yield "skip_rms_norm", one_node("SkipSimplifiedLayerNormalization", [x, skip, w], ["y", "", "", "sum"], ["w"], epsilon=1e-3)
    yield "skip_rms_norm_bias", one_node("SkipSimplifiedLayerNormalization", [x, skip, w, bias], ["y"], ["w", "bias"], epsilon=1e-3)
    yield "skip_of_one_batch", one_node("SkipSimplifiedLayerNormalization", [x, ("skip", rnd(1, S, 16)), w], ["y", "", "", "sum"], ["w"], epsilon=1e-3)
    tiny, other = ("x", rnd(B, S, 16, scale=1e-3)), ("skip", rnd(B, S, 16, seed=1, scale=1e-3))
    yield "skip_layer_norm_default_epsilon", one_node("SkipLayerNormalization", [tiny, other, w, beta], ["y"], ["w", "beta"])
    yield "skip_rms_norm_default_epsilon", one_node("SkipSimplifiedLayerNormalization", [tiny, other, w], ["y"], ["w"])
    yield "rms_norm", one_node("SimplifiedLayerNormalization", [x, w], ["y"], ["w"], domain="", epsilon=1e-3, axis=-1)


def embeddings():
    r = np.random.default_rng(9)
    ids, segments = ("ids", r.integers(0, 11, (B, S)).astype(np.int32)), ("segments", r.integers(0, 2, (B, S)).astype(np.int32))
    words, places, kinds = ("words", rnd(11, 16)), ("places", rnd(8, 16, seed=1)), ("kinds", rnd(2, 16, seed=2))
    w, beta = ("w", 1 + rnd(16, scale=0.1)), ("beta", rnd(16, seed=3))
    mask = ("mask", np.array([[1, 1, 1, 1, 1], [1, 2, 1, 0, 0]], np.int32))
    at = ("at", r.integers(0, 8, (B, S)).astype(np.int32))
    tables = ["words", "places", "w", "beta"]
    yield "embed_layer_norm", one_node("EmbedLayerNormalization", [ids, segments, words, places, kinds, w, beta, mask], ["y", "index", "sum"], tables + ["kinds"], epsilon=1e-3)
    yield "embed_layer_norm_plain", one_node("EmbedLayerNormalization", [ids, None, words, places, None, w, beta], ["y", "index"], tables, epsilon=1e-3)
    yield "embed_layer_norm_positions", one_node("EmbedLayerNormalization", [ids, None, words, places, None, w, beta, None, at], ["y", "index"], tables, epsilon=1e-3)


def activations():
    x, bias = ("x", rnd(B, S, 16, scale=2)), ("bias", rnd(16, seed=1))
    yield "gelu", one_node("Gelu", [x], ["y"])
    yield "fast_gelu", one_node("FastGelu", [x], ["y"])
    yield "fast_gelu_bias", one_node("FastGelu", [x, bias], ["y"], ["bias"])
    yield "bias_gelu", one_node("BiasGelu", [x, bias], ["y"], ["bias"])
    yield "quick_gelu", one_node("QuickGelu", [x], ["y"])
    yield "quick_gelu_of_one", one_node("QuickGelu", [x], ["y"], alpha=1.0)
    a, b = ("a", rnd(2, 3, 4)), ("b", rnd(2, 5, 4))
    rows, up, shift = ("rows", rnd(6, 16)), ("up", rnd(8, 16, seed=1)), ("shift", rnd(8, seed=2))
    for activation in ("Relu", "Tanh", "Sigmoid"):
        yield f"fused_gemm_{activation}", one_node("FusedGemm", [rows, up, shift], ["y"], ["up", "shift"], transB=1, alpha=0.5, activation=activation)
    yield "fused_matmul", one_node("FusedMatMul", [a, b], ["y"], transB=1, alpha=0.5)


def rotations():
    cos, sin = table(16, D // 2)
    tables = [("cos", cos), ("sin", sin)]
    at = ("at", np.array([[1, 2, 3, 4, 5], [0, 7, 3, 9, 1]]))
    for name, x in (("rank3", rnd(B, S, H * D)), ("rank4", rnd(B, H, S, D))):
        for interleaved in (0, 1):
            yield f"rotary_{name}_{interleaved}", one_node("RotaryEmbedding", [("x", x), at, *tables], ["y"], ["cos", "sin"], interleaved=interleaved)
    yield "rotary_from_a_start", one_node("RotaryEmbedding", [("x", rnd(B, S, H * D)), ("at", np.array([3])), *tables], ["y"], ["cos", "sin"])
    cos, sin = table(16, D // 4)
    yield "rotary_partial", one_node("RotaryEmbedding", [("x", rnd(B, S, H * D)), at, ("cos", cos), ("sin", sin)], ["y"], ["cos", "sin"], num_heads=H, rotary_embedding_dim=D // 2)


def multi_head():
    q, k, v = (("qkv"[i], rnd(B, S, H * D, seed=i)) for i in range(3))
    bias = ("bias", rnd(3 * H * D, seed=4, scale=0.3))
    past = [("pk", rnd(B, H, P, D, seed=5)), ("pv", rnd(B, H, P, D, seed=6))]
    yield "mha", one_node("MultiHeadAttention", [q, k, v], ["y"], num_heads=H)
    yield "mha_scaled", one_node("MultiHeadAttention", [q, k, v], ["y"], num_heads=H, scale=0.2)
    yield "mha_bias", one_node("MultiHeadAttention", [q, k, v, bias], ["y"], ["bias"], num_heads=H)
    yield "mha_causal", one_node("MultiHeadAttention", [q, k, v], ["y"], num_heads=H, unidirectional=1)
    yield "mha_lengths", one_node("MultiHeadAttention", [q, k, v, None, ("mask", np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32))], ["y"], num_heads=H)
    masks = {"one_row_sees_none": np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]), "of_lengths": np.array([S, S - 2]), "of_pairs": np.random.default_rng(8).random((B, S, S)) < 0.6}
    for name, mask in masks.items():
        operands = [q, k, v, None, ("mask", mask.astype(np.int32))]
        yield f"mha_mask_{name}", one_node("MultiHeadAttention", operands, ["y"], num_heads=H)
        yield f"mha_mask_{name}_filter", one_node("MultiHeadAttention", [*operands, ("ab", rnd(1, 1, S, S, seed=7))], ["y"], num_heads=H, mask_filter_value=-1.0)
    yield "mha_attention_bias", one_node("MultiHeadAttention", [q, k, v, None, None, ("ab", rnd(B, H, S, S, seed=7))], ["y"], num_heads=H)
    yield "mha_shared_attention_bias", one_node("MultiHeadAttention", [q, k, v, None, None, ("ab", rnd(1, 1, S, S, seed=7))], ["y"], num_heads=H)
    yield "mha_past", one_node("MultiHeadAttention", [q, k, v, None, None, None, *past], ["y", "k1", "v1"], num_heads=H)


def grouped():
    q, k, v = ("q", rnd(B, S, H * D)), ("k", rnd(B, S, KV * D, seed=1)), ("v", rnd(B, S, KV * D, seed=2))
    packed = ("q", rnd(B, S, (H + 2 * KV) * D))
    past = [("pk", rnd(B, KV, P, D, seed=3)), ("pv", rnd(B, KV, P, D, seed=4))]
    none = [("pk", rnd(B, KV, 0, D)), ("pv", rnd(B, KV, 0, D))]
    cos, sin = table(16, D // 2)
    tables = [("cos", cos), ("sin", sin)]

    def case(name, front, cache, length, tail=(), weights=(), **attributes):
        lengths = [("lengths", np.full(B, length - 1, np.int32)), ("total", np.array(length, np.int32))]
        return name, one_node("GroupQueryAttention", [*front, *cache, *lengths, *tail], ["y", "k1", "v1"], ["total", *weights], num_heads=H, kv_num_heads=KV, **attributes)

    yield case("gqa", [q, k, v], none, S)
    yield case("gqa_scaled", [q, k, v], none, S, scale=0.3)
    yield case("gqa_rotary", [q, k, v], none, S, tables, ["cos", "sin"], do_rotary=1)
    yield case("gqa_rotary_interleaved", [q, k, v], none, S, tables, ["cos", "sin"], do_rotary=1, rotary_interleaved=1)
    yield case("gqa_packed", [packed, None, None], none, S, tables, ["cos", "sin"], do_rotary=1)
    yield case("gqa_window", [q, k, v], none, S, local_window_size=2)
    yield case("gqa_softcap", [q, k, v], none, S, softcap=2.0)
    step = [(n, np.ascontiguousarray(a[:, :1])) for n, a in (q, k, v)]
    yield case("gqa_past", step, past, P + 1, tables, ["cos", "sin"], do_rotary=1)
    yield case("gqa_past_window", step, past, P + 1, local_window_size=3)
    sink = [None] * 4 + [("sink", rnd(H, seed=5))]
    yield case("gqa_sink", [q, k, v], none, S, sink, ["sink"])
    yield case("gqa_sink_past", step, past, P + 1, sink, ["sink"], local_window_size=3)
    yield case("gqa_smooth_softmax", step, past, P + 1, smooth_softmax=1)


def packed():
    """The oldest attention operator: one product makes q, k and v; one cache holds keys and values."""
    n = H * D
    x, w, b = ("x", rnd(B, S, n)), ("w", rnd(n, 3 * n, scale=0.2)), ("b", rnd(3 * n, seed=1, scale=0.2))
    past = ("past", rnd(2, B, H, P, D, seed=2))

    def case(name, mask=None, cache=None, **attributes):
        return f"packed_attention_{name}", one_node("Attention", [x, w, b, None if mask is None else ("mask", mask), cache], ["y"] + ["present"] * bool(cache), ["w", "b"], num_heads=H, **attributes)

    lengths, keys = np.array([S, S - 2], np.int32), np.ones((B, S), np.int32)
    keys[1, -2:] = 0
    pairs = (np.random.default_rng(3).random((B, S, S + P)) < 0.7).astype(np.int32)
    pairs[:, :, 0] = 1
    yield case("plain")
    yield case("causal", unidirectional=1)
    yield case("scaled", scale=0.2)
    yield case("lengths", lengths)
    yield case("keys", keys, unidirectional=1)
    yield case("pairs", pairs, past)
    yield case("no_keys", np.array([S, 0], np.int32))
    yield case("ends_and_starts", np.array([S, S - 1, 0, 2], np.int32))
    yield case("filter", keys, mask_filter_value=-1.0)
    yield case("past", None, past, unidirectional=1)


class ContribTest(unittest.TestCase):
    def check(self, model, feeds):
        reference = testing.run_onnxruntime(model, feeds)
        for options in ([], ["--disable-fusion=all"]):
            found = testing.run_model(model, feeds, *options)
            for name, r in reference.items():
                with self.subTest(output=name, options=options):
                    self.assertLessEqual(testing.error(found[name], r), LIMIT)


    def test_packed_operands(self):
        """onnxruntime's CPU provider has the operands apart only."""
        q, k, v = (rnd(B, S, H, D, seed=i) for i in range(3))
        for bias in ([], [("bias", rnd(3 * H * D, seed=4, scale=0.3))]):
            apart = [(n, x.reshape(B, S, H * D)) for n, x in (("q", q), ("k", k), ("v", v))]
            reference = testing.run_onnxruntime(*one_node("MultiHeadAttention", apart + bias, ["y"], num_heads=H))["y"]
            together = {"qkv": [("q", np.stack([q, k, v], 3)), None, None], "kv": [apart[0], ("k", np.stack([k, v], 3)), None]}
            for form, operands in together.items():
                with self.subTest(form, bias=bool(bias)):
                    found = testing.run_model(*one_node("MultiHeadAttention", operands + bias, ["y"], num_heads=H))["y"]
                    self.assertLessEqual(testing.error(found, reference), LIMIT)

    def unequal(self, rows, room=None):
        """Sequences with P and P - 2 keys cached, and `rows` new ones; `room`: the cache is a buffer of so many. (model, feeds, lengths)"""
        cached, size = np.array([P, P - 2]), room or P
        cos, sin = table(16, D // 2)
        operands = [("q", rnd(B, rows, H * D)), ("k", rnd(B, rows, KV * D, seed=1)), ("v", rnd(B, rows, KV * D, seed=2)),
                    ("pk", rnd(B, KV, size, D, seed=3)), ("pv", rnd(B, KV, size, D, seed=4)),
                    ("lengths", (cached + rows - 1).astype(np.int32)), ("total", np.array(P + rows, np.int32)), ("cos", cos), ("sin", sin)]
        model, feeds = one_node("GroupQueryAttention", operands, ["y", "k1", "v1"], ["total", "cos", "sin"], num_heads=H, kv_num_heads=KV, do_rotary=1)
        shapes = [(B, rows, H * D)] + 2 * [(B, KV, room or P + rows, D)]
        del model.graph.output[:]
        model.graph.output.extend(h.make_tensor_value_info(n, T.FLOAT, shape) for n, shape in zip(("y", "k1", "v1"), shapes))
        return model, feeds, cached + rows

    def test_gqa_unequal_lengths(self):
        for rows, room in ((1, None), (1, 12)):
            model, feeds, lengths = self.unequal(rows, room)
            reference = testing.run_onnxruntime(model, feeds)
            for options in ([], ["--disable-fusion=all"]):
                found = testing.run_model(model, feeds, *options)
                self.assertLessEqual(testing.error(found["y"], reference["y"]), LIMIT)
                for name in ("k1", "v1"):
                    self.assertEqual(found[name].shape, reference[name].shape)
                    for sequence, length in enumerate(lengths):  # behind it is what nobody reads
                        self.assertLessEqual(testing.error(found[name][sequence, :, :length], reference[name][sequence, :, :length]), LIMIT)

    def test_gqa_a_length_without_room_is_an_error(self):
        model, feeds, _ = self.unequal(1)
        feeds["lengths"] = feeds["lengths"] + 1
        with self.assertRaisesRegex(testing.ToolError, "out of range|outside"):
            testing.run_model(model, feeds)


for family in (norms, embeddings, activations, rotations, multi_head, grouped, packed):
    for name, case in family():
        setattr(ContribTest, f"test_{name}", lambda self, case=case: self.check(*case))
