"""Small ONNX graphs for the end-to-end tests, each with inputs at one or more sizes."""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh


def random(seed, *shape, low=None, high=None, dtype=np.float32):
    r = np.random.default_rng(seed)
    if dtype == bool:
        return r.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return r.integers(low, high, shape, dtype)
    return (r.uniform(low, high, shape) if low is not None else r.standard_normal(shape)).astype(dtype)


def dims_of(arrays):
    """Axes of which the arrays disagree get a symbol; equal lists of sizes get the same one."""
    names, shape = {}, []
    for sizes in zip(*(a.shape for a in arrays)):
        shape.append(sizes[0] if len(set(sizes)) == 1 else names.setdefault(sizes, "n" + "_".join(map(str, sizes))))
    return shape


def model(nodes, feeds, weights=None, outputs=("y",), opset=21, output_types=None):
    """feeds: a list of {input: array}, one a size; symbols are made where their sizes differ."""
    weights = weights or {}
    inputs = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(feeds[0][k].dtype), dims_of([f[k] for f in feeds])) for k in feeds[0]]
    outs = []
    for o in outputs:
        v = h.make_tensor_value_info(o, (output_types or {}).get(o, T.FLOAT), None)
        outs.append(v)
    graph = h.make_graph(nodes, "g", inputs, outs, [w if isinstance(w, T) else nh.from_array(w, k) for k, w in weights.items()])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    from onnx import shape_inference
    try:
        return shape_inference.infer_shapes(m)
    except Exception:  # contrib operators have no shape inference in the onnx package
        return m


def node(op, inputs, outputs=("y",), domain="", name=None, **attributes):
    return h.make_node(op, list(inputs), list(outputs), name=name or f"/{op}_{outputs[0]}", domain=domain, **attributes)


def single_ops():
    """Yields (name, model, feeds)."""
    x = [random(1, 3, 5, 8), random(2, 1, 1, 8), random(3, 2, 17, 8)]

    def unary(op, values=x, **attributes):
        return op.lower() + "".join(f"_{k}{v}" for k, v in attributes.items()), model([node(op, ["x"], **attributes)], [{"x": v} for v in values]), [{"x": v} for v in values]

    positive = [np.abs(v) + 0.1 for v in x]
    for op in ("Neg", "Abs", "Exp", "Sigmoid", "Tanh", "Erf", "Sin", "Cos", "Relu", "Floor", "Identity", "Softplus"):
        yield unary(op)
    for op in ("Sqrt", "Reciprocal", "Log"):
        yield unary(op, positive)
    yield unary("Gelu", approximate="none")
    yield unary("Gelu", approximate="tanh")
    for axis in (-1, 1):
        yield unary("Softmax", axis=axis)
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
        a = positive if op in ("Div", "Pow") else x
        for kind, b in (("same", [v[::-1].copy() + 0.5 for v in a]), ("row", [random(4, 8) ** 2 + 0.5] * 3), ("column", [np.abs(v[:, :, :1]) + 0.5 for v in x]), ("scalar", [np.array(1.5, np.float32)] * 3)):
            f = [{"a": p, "b": q} for p, q in zip(a, b)]
            yield f"{op.lower()}_{kind}", model([node(op, ["a", "b"])], f), f
    for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        for axis, keep in ((-1, 1), (1, 0)):
            f = [{"x": v} for v in x]
            yield f"{op.lower()}_axis{axis}_keep{keep}", model([node(op, ["x", "axes"], keepdims=keep)], f, {"axes": np.array([axis])}), f
    f = [{"x": v} for v in x]
    yield "transpose", model([node("Transpose", ["x"], perm=[2, 0, 1])], f), f
    yield "reshape", model([node("Reshape", ["x", "s"])], f, {"s": np.array([0, -1, 2, 4])}), f
    yield "unsqueeze", model([node("Unsqueeze", ["x", "a"])], f, {"a": np.array([1, 4])}), f
    yield "slice_last", model([node("Slice", ["x", "b", "e", "a"])], f, {"b": np.array([3]), "e": np.array([np.iinfo(np.int64).max]), "a": np.array([2])}), f
    yield "slice_step", model([node("Slice", ["x", "b", "e", "a", "s"])], f, {"b": np.array([0]), "e": np.array([8]), "a": np.array([-1]), "s": np.array([2])}), f
    many = {"b": np.array([5]), "e": np.array([np.iinfo(np.int64).max]), "a": np.array([1])}
    yield "slice_beyond", model([node("Slice", ["x", "b", "e", "a"], ["s"]), node("Concat", ["s", "x"], axis=1)], f, many), f
    yield "slice_first", model([node("Slice", ["x", "z", "b", "a"])], f, {**many, "z": np.array([0])}), f
    yield "slice_one_squeezed", model([node("Slice", ["x", "z", "o", "o"], ["s"]), node("Squeeze", ["s", "o"])], f, {"z": np.array([0]), "o": np.array([1])}), f
    yield "concat_self", model([node("Concat", ["x", "x"], axis=1)], f), f
    yield "split", model([node("Split", ["x", "s"], ["y", "z"], axis=2)], f, {"s": np.array([3, 5])}, ["y", "z"]), f
    yield "cast_int", model([node("Cast", ["x"], to=T.INT64)], f, output_types={"y": T.INT64}), f
    yield "layer_norm", model([node("LayerNormalization", ["x", "w", "b"], axis=-1, epsilon=1e-3)], f, {"w": random(5, 8), "b": random(6, 8)}), f
    cond = [random(7, *v.shape, dtype=bool) for v in x]
    f = [{"c": c, "x": v} for c, v in zip(cond, x)]
    yield "where", model([node("Where", ["c", "x", "z"])], f, {"z": np.array(-7, np.float32)}), f
    ids = [random(8, 2, 3, low=0, high=11, dtype=np.int64), random(9, 1, 1, low=0, high=11, dtype=np.int64)]
    f = [{"i": i} for i in ids]
    yield "gather_rows", model([node("Gather", ["t", "i"], axis=0)], f, {"t": random(10, 11, 6)}), f
    for name, a, b in (("2d", [(3, 8), (1, 8), (70, 8)], (8, 5)), ("3d_weight", [(2, 3, 8), (1, 1, 8)], (8, 33)), ("wide", [(1, 300), (129, 300)], (300, 257))):
        f = [{"x": random(11 + i, *s)} for i, s in enumerate(a)]
        yield f"matmul_{name}", model([node("MatMul", ["x", "w"])], f, {"w": random(12, *b)}), f
    f = [{"a": random(13, 2, 3, n, 8), "b": random(14, 2, 3, 8, m)} for n, m in ((4, 6), (1, 9))]
    yield "matmul_batched", model([node("MatMul", ["a", "b"])], f), f
    f = [{"x": random(15, n, 8)} for n in (4, 1)]
    yield "gemm", model([node("Gemm", ["x", "w", "b"], transB=1, alpha=0.5, beta=2.0)], f, {"w": random(16, 5, 8), "b": random(17, 5)}), f


def convolutions():
    """Weight shape and attributes; at sizes that become symbols."""
    line, plane, solid = [(2, 4, 17), (1, 4, 9)], [(2, 4, 12, 10), (3, 4, 7, 10)], [(1, 4, 5, 6, 4), (2, 4, 5, 8, 4)]
    cases = {
        "pointwise": (plane, (6, 4, 1, 1), {}),
        "line_same": (line, (6, 4, 3), {"pads": [1, 1]}),
        "line_half": (line, (6, 4, 3), {"pads": [1, 1], "strides": [2]}),
        "line_dilated": (line, (6, 4, 3), {"dilations": [2], "pads": [1, 3]}),
        "patches": (plane, (6, 4, 3, 2), {"strides": [3, 2]}),
        "patches_padded": (plane, (6, 4, 4, 4), {"strides": [4, 4], "pads": [1, 0, 2, 3]}),
        "overlapping": (plane, (6, 4, 3, 3), {"strides": [2, 1], "pads": [1, 0, 0, 2]}),
        "every_other": (plane, (6, 4, 1, 1), {"strides": [2, 3]}),
        "groups": (plane, (6, 2, 3, 3), {"group": 2}),
        "depthwise": (plane, (8, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        "solid": (solid, (3, 4, 2, 3, 2), {"strides": [1, 2, 2], "dilations": [2, 1, 1]}),
        "solid_patches": (solid, (3, 4, 1, 2, 4), {"strides": [1, 2, 4]}),
        "same_upper": (plane, (6, 4, 2, 3), {"auto_pad": "SAME_UPPER"}),
        "same_lower": (plane, (6, 4, 2, 3), {"auto_pad": "SAME_LOWER"}),
        "same_half": ([(2, 4, 9, 10), (1, 4, 9, 10)], (6, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        "valid": (plane, (6, 4, 3, 3), {"auto_pad": "VALID", "kernel_shape": [3, 3]}),
    }
    for i, (name, (shapes, w, attributes)) in enumerate(cases.items()):
        f = [{"x": random(20 + j, *s)} for j, s in enumerate(shapes)]
        weights = {"w": random(40 + i, *w), "b": random(60 + i, w[0])}
        yield f"conv_{name}", model([node("Conv", ["x", "w", "b"][: 2 + i % 2], **attributes)], f, weights), f


def quantised(bits, n, k, block, zeros, seed=0):
    """MatMulNBits inputs; zeros: none, integer or float."""
    r, blocks = np.random.default_rng(seed), k // block
    q = r.integers(0, 1 << bits, (n, blocks, block), dtype=np.uint8)
    packed = q if bits == 8 else q[..., 0::2] | q[..., 1::2] << 4
    w = {"q": packed, "s": r.uniform(0.01, 0.05, (n, blocks)).astype(np.float32)}
    if zeros == "float":
        w["z"] = r.uniform(0, (1 << bits) - 1, (n, blocks)).astype(np.float32)
    elif zeros == "integer":
        z = r.integers(0, 1 << bits, (n, blocks + blocks % 2), dtype=np.uint8)
        w["z"] = (z if bits == 8 else z[:, 0::2] | z[:, 1::2] << 4).astype(np.uint8) if bits == 4 else z[:, :blocks]
    return w


def low_bit():
    for zeros in ("none", "integer", "float"):
        for n, k, block in ((24, 64, 32), (40, 96, 32), (33, 128, 64)):
            f = [{"x": random(20 + i, m, k)} for i, m in enumerate((1, 5, 40))]
            w = quantised(4, n, k, block, zeros, seed=n)
            yield f"matmul_nbits_{zeros}_{n}x{k}_block{block}", model([node("MatMulNBits", ["x", *w], domain="com.microsoft", N=n, K=k, bits=4, block_size=block)], f, w), f
    for n, k in ((24, 64), (130, 96)):
        f = [{"x": random(30 + i, m, k)} for i, m in enumerate((1, 7))]
        q = random(31, n, k, low=-128, high=128, dtype=np.int16).astype(np.int8)
        for name, scale, more in (("tensor", np.array(0.02, np.float32), {}), ("axis", random(32, n, low=0.01, high=0.03), {"axis": 0}), ("block", random(33, n, k // 32, low=0.01, high=0.03), {"axis": 1, "block_size": 32})):
            nodes = [node("DequantizeLinear", ["q", "s"], ["d"], **more), node("Transpose", ["d"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"])]
            yield f"dequantize_matmul_int8_{name}_{n}x{k}", model(nodes, f, {"q": q, "s": scale}), f
    ids = [{"i": random(34, 2, n, low=0, high=24, dtype=np.int64)} for n in (1, 6)]
    nodes = [node("DequantizeLinear", ["q", "s"], ["d"], axis=1, block_size=32), node("Gather", ["d", "i"], axis=0)]
    yield "dequantize_gather", model(nodes, ids, {"q": random(31, 24, 64, low=-128, high=128, dtype=np.int16).astype(np.int8), "s": random(33, 24, 2, low=0.01, high=0.03)}), ids


def chains():
    """Yields (name, model, feeds): neighbours that fuse, and some that only nearly do."""
    rows = [(3, 5, 48), (1, 1, 48), (2, 33, 48)]
    two, one = np.array(2, np.float32), [{"a": random(40 + i, *s), "b": random(50 + i, *s)} for i, s in enumerate(rows)]
    norm = lambda x, y: [node("Pow", [x, "two"], ["p"]), node("ReduceMean", ["p", "last"], ["m"], keepdims=1), node("Add", ["m", "eps"], ["e"]),
                         node("Sqrt", ["e"], ["r"]), node("Reciprocal", ["r"], ["i"]), node("Mul", [x, "i"], ["n"]), node("Mul", ["w", "n"], [y])]
    w = {"two": two, "last": np.array([-1]), "eps": np.array(1e-3, np.float32), "w": random(60, 48)}
    yield "add_rms_norm_both_outputs", model([node("Add", ["a", "b"], ["s"]), *norm("s", "y")], one, w, ["s", "y"]), one
    yield "rms_norm_of_a_product", model([node("Mul", ["a", "b"], ["s"]), *norm("s", "y")], one, w), one
    yield "swiglu", model([node("Sigmoid", ["a"], ["g"]), node("Mul", ["a", "g"], ["h"]), node("Mul", ["h", "b"])], one), one
    yield "gate_with_another_value", model([node("Sigmoid", ["a"], ["g"]), node("Mul", ["b", "g"], ["h"]), node("Mul", ["h", "b"])], one), one
    fw = {"wg": random(61, 48, 64), "wu": random(62, 48, 64), "wd": random(63, 64, 48)}
    yield "swiglu_mlp", model([node("MatMul", ["a", "wg"], ["g"]), node("MatMul", ["a", "wu"], ["u"]), node("Sigmoid", ["g"], ["s"]), node("Mul", ["g", "s"], ["h"]),
                               node("Mul", ["h", "u"], ["p"]), node("MatMul", ["p", "wd"], ["d"]), node("Add", ["d", "b"])], one, fw), one
    yield "bias_gelu_layer_norm", model([node("Add", ["a", "c"], ["s"]), node("Gelu", ["s"], ["g"]), node("Add", ["g", "b"], ["t"]),
                                         node("LayerNormalization", ["t", "w", "c"], epsilon=1e-5)], one, {"c": random(64, 48), "w": random(60, 48)}), one
    yield "scaled_masked_softmax", model([node("Mul", ["a", "k"], ["s"]), node("Add", ["s", "b"], ["t"]), node("Softmax", ["t"], axis=-1)], one, {"k": np.array(0.25, np.float32)}), one
    yield "value_used_twice", model([node("Exp", ["a"], ["e"]), node("Add", ["e", "b"], ["s"]), node("Mul", ["e", "s"])], one, outputs=["y", "e"]), one
    special = [{"a": np.array([[np.inf, 1, -np.inf, np.nan, 0, -0.0, 3e38, 1e-40] * 6], np.float32), "b": random(65, 1, 48)}]
    yield "infinities_and_nan", model([node("Add", ["a", "b"], ["s"]), node("Mul", ["s", "s"])], special), special
