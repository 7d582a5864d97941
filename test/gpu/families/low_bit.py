"""Products of several rows with weights of 4 and 8 bits: DequantizeLinear and MatMulNBits, every format, group and tail. What is allowed is
the error of the graph that rounds the weight and every node's result to the activations' type."""
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from frame import Case, Expected, Graph, rounded_to

INT = {"i4": (4, True, TensorProto.INT4), "u4": (4, False, TensorProto.UINT4), "i8": (8, True, TensorProto.INT8), "u8": (8, False, TensorProto.UINT8)}
FLOAT = {"e4m3": (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN), "e5m2": (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2), "e2m1": (ml_dtypes.float4_e2m1fn, TensorProto.FLOAT4E2M1)}


def initializer(g, name, kind, values):
    """Codes (integers, or floats of 4 and 8 bits) as an initializer; two 4-bit elements a byte."""
    if kind in INT:
        bits, _, data_type = INT[kind]
        raw = values.astype(np.int64) & (1 << bits) - 1
    else:
        dtype, data_type = FLOAT[kind]
        bits = 4 if kind == "e2m1" else 8
        raw = values.astype(dtype).view(np.uint8).astype(np.int64)
    raw = raw.astype(np.uint8).ravel()
    if bits == 4:
        raw = np.pad(raw, (0, len(raw) % 2))
        raw = raw[::2] | raw[1::2] << 4
    g.initializers.append(TensorProto(name=name, data_type=data_type, dims=values.shape, raw_data=raw.tobytes()))
    return name


def codes(g, kind, n, k):
    if kind in INT:
        bits, signed, _ = INT[kind]
        low = -(1 << bits - 1) if signed else 0
        return g.rng.integers(low, low + (1 << bits), (n, k)).astype(np.float64)
    return (g.rng.standard_normal((n, k)) * 2).astype(FLOAT[kind][0]).astype(np.float64)


def weight(g, name, kind, n, k, group, zero):
    """A node's output of shape [N, K], and its exact values."""
    q = codes(g, kind, n, k)
    groups = -(-k // group)
    spread = lambda x: np.repeat(x, group, 1)[:, :k]
    inputs = [initializer(g, name, kind, q)]
    if kind == "e2m1":
        # Two levels: scales of 8 bits, and one for all of them.
        scales = (np.abs(g.rng.standard_normal((n, groups))) + 0.1).astype(ml_dtypes.float8_e4m3fn)
        total = g.weight(name + "_global", value=np.array(0.02), dtype="f32")
        s = g.node("DequantizeLinear", [initializer(g, name + "_scale", "e4m3", scales.astype(np.float64)), total])
        scale = scales.astype(np.float64) * float(g[total])
        inputs.append(s)
    else:
        size = 0.01 if kind in ("i4", "u4") else 0.02 if kind in FLOAT else 0.0006
        shape = (n, groups) if group < k else (n,)
        inputs.append(g.weight(name + "_scale", value=size * (0.3 + g.rng.random(shape))))
        scale = g[inputs[1]].reshape(n, groups)
    z = np.zeros((n, groups))
    if zero:
        z = codes(g, kind, n, groups)
        inputs.append(initializer(g, name + "_zero", kind, z if group < k else z[:, 0]))
    block = {"axis": 1, "block_size": group} if group < k or kind == "e2m1" else {"axis": 0}
    w = g.node("DequantizeLinear", inputs, **block)
    if kind == "e2m1":
        w = g.node("Cast", [w], to=helper.np_dtype_to_tensor_dtype(g.dtype))
    return w, (q - spread(z)) * spread(scale)


def product(dtype, kind, m, n, k, group, zero=False, epilogue="", rows=True):
    g = Graph(dtype, seed=m * 7 + n * 3 + k, opset=23)
    x = g.input("x", (m, k), dims=["rows", k] if rows else None)
    values, nodes = [], []
    for i in range(2 if "gated" in epilogue else 1):
        w, value = weight(g, f"w{i}", kind, n, k, group, zero)
        nodes.append(g.node("MatMul", [x, g.node("Transpose", [w], perm=[1, 0])]))
        values.append(value)
    r = lambda v: rounded_to(v, g.dtype)
    exact, rounded = [g[x] @ v.T for v in values], [r(g[x] @ r(v).T) for v in values]
    y, value, by_node = nodes[0], exact[0], rounded[0]
    if "gated" in epilogue:
        y = g.node("Mul", [g.node("Mul", [y, g.node("Sigmoid", [y])]), nodes[1]])
        value = value / (1 + np.exp(-value)) * exact[1]
        by_node = r(by_node * r(1 / (1 + np.exp(-by_node)))) * rounded[1]
    if epilogue == "residual":
        residual, bias = g.input("r", (m, n), dims=["rows", n] if rows else None), g.weight("b", (n,))
        y = g.node("Add", [residual, g.node("Add", [y, bias])])
        value, by_node = value + g[bias] + g[residual], r(by_node + g[bias]) + g[residual]
    expected = {g.output(y): Expected(value, rounded=by_node)}
    if "twice" in epilogue:
        expected[g.output(g.node("Relu", [y]))] = Expected(np.maximum(value, 0), rounded=np.maximum(by_node, 0))
    return g.case(expected)


def nbits(dtype, bits, m, n, k, group, zero):
    """MatMulNBits: codes [N, K / group, bytes], scales [N * K / group], packed or floating-point zero points."""
    g = Graph(dtype, seed=m + n + k + group)
    x = g.input("x", (m, k), dims=["rows", k])
    groups, top = -(-k // group), 1 << bits
    q = g.rng.integers(0, top, (n, groups * group))
    data = q.astype(np.uint8) if bits == 8 else (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)
    b = g.weight("w", value=data.reshape(n, groups, -1), dtype=np.uint8)
    s = g.weight("s", value=(0.01 if bits == 4 else 0.0006) * (0.3 + g.rng.random((n, groups))))
    z, inputs = np.full((n, groups), top / 2), [x, b, s]
    if zero == "packed":
        z = g.rng.integers(0, top, (n, groups))
        raw = np.pad(z, ((0, 0), (0, z.shape[1] % 2)))
        raw = raw.astype(np.uint8) if bits == 8 else (raw[:, ::2] | raw[:, 1::2] << 4).astype(np.uint8)
        inputs.append(g.weight("z", value=raw[:, :groups] if bits == 8 else raw, dtype=np.uint8))
    elif zero == "float":
        inputs.append(g.weight("z", value=g.rng.random((n, groups)) * (top - 1)))
        z = g[inputs[-1]]
    spread = lambda v: np.repeat(v, group, 1)[:, :k]
    w = (q[:, :k] - spread(z)) * spread(g[s])
    y = g.node("MatMulNBits", inputs, domain="com.microsoft", K=k, N=n, bits=bits, block_size=group)
    return g.case({g.output(y): Expected(g[x] @ w.T, rounded=g[x] @ rounded_to(w, g.dtype).T)})


def front(m, n, k, group, kind="i4", add=True, gated=True):
    """A norm, of a sum that leaves as well, before products of few rows: bf16."""
    g = Graph("bf16", seed=m + n, opset=23)
    r = lambda v: rounded_to(v, g.dtype)
    x, gain = g.input("x", (m, k), scale=3.0), g.weight("gain", value=1 + 0.3 * g.rng.standard_normal(k))
    h, value = x, g[x]
    if add:
        other = g.input("other", (m, k))
        h, value = g.node("Add", [x, other]), r(g[x] + g[other])
    normed = g.node("RMSNormalization", [h, gain], axis=-1, epsilon=1e-5)
    root = 1 / np.sqrt((value ** 2).mean(-1, keepdims=True) + 1e-5)
    exact, rounded = value * root * g[gain], r(r(value * root) * g[gain])
    nodes, exacts, roundeds = [], [], []
    for i in range(2 if gated else 1):
        w, v = weight(g, f"w{i}", kind, n, k, group, False)
        nodes.append(g.node("MatMul", [normed, g.node("Transpose", [w], perm=[1, 0])]))
        exacts.append(exact @ v.T), roundeds.append(r(rounded @ r(v).T))
    y, e, n = nodes[0], exacts[0], roundeds[0]
    if gated:
        y = g.node("Mul", [g.node("Mul", [y, g.node("Sigmoid", [y])]), nodes[1]])
        e = e / (1 + np.exp(-e)) * exacts[1]
        n = r(r(n * r(1 / (1 + np.exp(-n)))) * roundeds[1])
    expected = {g.output(y): Expected(e, rounded=n)}
    if add:
        expected[g.output(h)] = Expected(value, rounded=value)
    return g.case(expected)


def cases(sample):
    def case(name, build, *arguments, **named):
        return Case(name, lambda: build(*arguments, **named))

    rows = (40,) if sample else (2, 33, 64, 300)
    for dtype in ("bf16", "f16"):
        for kind in (*INT, *FLOAT):
            zeros = (False, True) if kind in INT else (False,)
            groups = (16,) if kind == "e2m1" else (32, 128, 320) if kind in ("i4", "u4") else (64, 320)
            for zero in zeros:
                for group in groups[:1] if sample else groups:
                    for i, m in enumerate(rows):
                        if sample and (dtype == "f16") != (kind in ("u8", "e5m2")):
                            continue
                        yield case(f"{kind}_{dtype}_g{group}_{m}" + "_zero" * zero, product, dtype, kind, m, 272 if m % 2 else 301, 320, group, zero)
    for m in (100,) if sample else (2, 16, 64, 257, 700):
        for epilogue in ("residual", "gated", "twice", "gated_twice"):
            yield case(f"{epilogue}_{m}", product, "bf16", "i4", m, 544, 1024, 128, False, epilogue)
        yield case(f"few_rows_{m}", product, "bf16", "u4", m, 4096, 512, 64, True, "", False)
    # Deep products: tiles of 128, 160 and 256 rows, the last ones streamed.
    for m, kind, n, k, group in ((513, "i4", 4104, 4160, 64),) if sample else ((129, "i4", 4104, 4160, 64), (513, "i4", 4104, 4160, 64), (700, "u4", 1048, 4160, 32),
                                                                            (511, "i4", 8200, 2080, 32), (600, "i4", 8200, 2080, 32), (700, "e4m3", 8200, 2080, 2080)):
        yield case(f"deep_{kind}_{m}", product, "bf16", kind, m, n, k, group, kind == "u4", "", False)
    yield case("deep_gated", product, "bf16", "e4m3", 700, 4104, 2080, 2080, False, "gated", False)
    for m in (16,) if sample else (2, 16, 37, 64):
        yield case(f"front_{m}", front, m, 1040, 512, 128)
        yield case(f"norm_{m}", front, m, 301, 256, 32, "u4", False, False)
    for bits in (4, 8):
        for zero in ("", "packed", "float"):
            for m in (5,) if sample else (5, 70):
                for dtype in ("bf16",) if sample else ("bf16", "f16"):
                    yield case(f"nbits{bits}_{dtype}_{m}_{zero}", nbits, dtype, bits, m, 264, 416, 32, zero)
