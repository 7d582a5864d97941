"""Products with weights of 4 and 8 bits: every format, number of rows and tail, as exporters write them (DequantizeLinear along
either axis, MatMulNBits, a table that is gathered from and multiplied by)."""
import ml_dtypes
import numpy as np
import onnx

from frame import TYPES, Case, Expected, Graph, rounded_to

# Name: bits, ONNX type, values of the codes.
FP4 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
CODES = {
    "u4": (4, onnx.TensorProto.UINT4, np.arange(16.)),
    "i4": (4, onnx.TensorProto.INT4, np.where(np.arange(16) > 7, np.arange(16) - 16., np.arange(16.))),
    "u8": (8, onnx.TensorProto.UINT8, np.arange(256.)),
    "i8": (8, onnx.TensorProto.INT8, np.arange(256).astype(np.uint8).view(np.int8).astype(np.float64)),
    "e4m3": (8, onnx.TensorProto.FLOAT8E4M3FN, np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)),
    "e5m2": (8, onnx.TensorProto.FLOAT8E5M2, np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float64)),
    "e2m1": (4, onnx.TensorProto.FLOAT4E2M1, FP4),
    "e8m0": (8, onnx.TensorProto.FLOAT8E8M0, 2.0 ** (np.arange(256.) - 127)),
}


def quantised(g, name, code, shape, low=0, high=None):
    """An initializer of random codes; its values in fp64 (finite ones only)."""
    bits, kind, table = CODES[code]
    raw = g.rng.integers(low, high or len(table), shape).astype(np.uint8)
    raw[~np.isfinite(table[raw])] = 0
    flat = raw.reshape(-1)
    if bits == 4:
        flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
        flat = flat[::2] | flat[1::2] << 4
    g.initializers.append(onnx.TensorProto(name=name, data_type=kind, dims=shape, raw_data=flat.tobytes()))
    g.values[name] = table[raw]
    return name


def scales(g, name, kind, shape):
    """Scales of a float type; in 8 bits, of sizes that are likely."""
    if kind in CODES:
        return quantised(g, name, kind, shape, *((0x18, 0x38) if kind == "e4m3" else (118, 124)))
    return g.weight(name, value=0.004 + 0.012 * g.rng.random(shape), dtype=kind)


def grouped(values, axis, block, size):
    return np.repeat(values, block, axis).take(range(size), axis) if values.ndim > 1 else values


def dequantised(dtype, m, n, k, code, block, scale, zero=None, axis=1):
    """block: 0 one scale a row, -1 one for all. axis: of the weight [N, K] (1) or [K, N] (0) along which the blocks lie."""
    g = Graph(dtype, seed=m + n + k, opset=24 if scale == "e8m0" else 23 if code == "e2m1" else 21)
    x = g.input("x", (m, k), dims=["rows", k])
    q = quantised(g, "q", code, (n, k) if axis else (k, n))
    groups = -(-k // block) if block > 0 else 0
    shape = ((n, groups) if axis else (groups, n)) if block > 0 else (n,) if block == 0 else ()
    s = scales(g, "s", scale, shape)
    factor = g[s]
    if scale == "e4m3":
        total = g.weight("t", value=np.float32(0.0078125), dtype="f32")
        s, factor = g.node("DequantizeLinear", [s, total]), factor * 0.0078125
    inputs = [q, s]
    if zero:
        inputs.append(quantised(g, "z", zero, shape))
    shift = g["z"] if zero else 0.0
    attributes = {"axis": axis, "block_size": block} if block > 0 else {"axis": 1 - axis} if block == 0 else {}
    w = g.node("DequantizeLinear", inputs, **attributes)
    if TYPES.get(scale) != g.dtype:
        w = g.node("Cast", [w], to=onnx.helper.np_dtype_to_tensor_dtype(g.dtype))
    if axis:
        w = g.node("Transpose", [w], perm=[1, 0])
    y = g.output(g.node("MatMul", [x, w]))
    spread = lambda v: v if np.ndim(v) == 0 else grouped(v, axis, block, k) if block > 0 else (v[:, None] if axis else v)
    matrix = (g[q] - spread(shift)) * spread(factor)
    matrix = matrix.T if axis else matrix
    return g.case({y: Expected(g[x] @ matrix, rounded=g[x] @ rounded_to(matrix, g.dtype))})


def nbits(dtype, m, n, k, bits, block, zero, shuffled=False):
    """MatMulNBits; its zero points in bytes, in floats, or absent. `shuffled`: columns name their groups (g_idx)."""
    g = Graph(dtype, seed=m + n + k)
    x = g.input("x", (m, k), dims=["rows", k])
    groups = -(-k // block)
    codes = g.rng.integers(0, 2 ** bits, (n, groups * block)).astype(np.uint8)
    pack = lambda a: (a if bits == 8 else np.pad(a, ((0, 0), (0, a.shape[1] % 2)))[:, ::2] | np.pad(a, ((0, 0), (0, a.shape[1] % 2)))[:, 1::2] << 4)
    q = g.weight("q", value=pack(codes).reshape(n, groups, -1), dtype=np.uint8)
    s = g.weight("s", value=0.004 + 0.012 * g.rng.random((n, groups)))
    inputs, shift = [x, q, s], 2.0 ** (bits - 1)
    if zero == "bytes":
        z = g.rng.integers(0, 2 ** bits, (n, groups)).astype(np.uint8)
        inputs.append(g.weight("z", value=pack(z), dtype=np.uint8))
        shift = z.astype(np.float64)
    elif zero == "floats":
        inputs.append(g.weight("z", value=g.rng.random((n, groups)) * 2 ** bits))
        shift = g["z"]
    spread = lambda v: v if np.ndim(v) == 0 else grouped(v, 1, block, k)
    if shuffled:
        # Padded to whole groups, as the operator wants it.
        owner = g.rng.permutation(np.arange(groups * block) // block)
        inputs += [""] * (4 - len(inputs)) + [g.weight("owner", value=owner, dtype=np.int32)]
        spread = lambda v: v if np.ndim(v) == 0 else v[:, owner[:k]]
    y = g.output(g.node("MatMulNBits", inputs, domain="com.microsoft", K=k, N=n, bits=bits, block_size=block))
    matrix = ((codes[:, :k] - spread(shift)) * spread(g[s])).T
    return g.case({y: Expected(g[x] @ matrix, rounded=g[x] @ rounded_to(matrix, g.dtype))})


def special(dtype, m, n, k, code):
    """FP8 with a NaN or an infinity: its row's results are NaN or infinite, all others as ever."""
    g = Graph(dtype, seed=m + n + k)
    x, q, s = g.input("x", (m, k), dims=["rows", k]), quantised(g, "q", code, (n, k)), scales(g, "s", dtype, (n,))
    codes = next(t for t in g.initializers if t.name == "q")
    raw = np.frombuffer(codes.raw_data, np.uint8).copy().reshape(n, k)
    raw[n // 2, k - 3] = 0x7C if code == "e5m2" else 0xFF
    codes.raw_data = raw.tobytes()
    w = g.node("DequantizeLinear", [q, s], axis=0)
    y = g.output(g.node("MatMul", [x, g.node("Transpose", [w], perm=[1, 0])]))
    matrix = (CODES[code][2][raw] * g[s][:, None]).T
    return g.case({y: Expected(g[x] @ matrix, abs(g[x]) @ abs(matrix))})


def tied(dtype, m, n, k):
    """Rows of a quantised table, and the product with all of it."""
    g = Graph(dtype, seed=m + n + k)
    ids = g.input("ids", value=g.rng.integers(0, n, (m,)), dtype=np.int64, dims=["rows"])
    x = g.input("x", (m, k), dims=["rows", k])
    q, s = quantised(g, "q", "i4", (n, k)), scales(g, "s", dtype, (n, k // 32))
    table = g.node("DequantizeLinear", [q, s], axis=1, block_size=32)
    rows = g.output(g.node("Gather", [table, ids]))
    y = g.output(g.node("MatMul", [x, g.node("Transpose", [table], perm=[1, 0])]))
    matrix = g[q] * grouped(g[s], 1, 32, k)
    return g.case({rows: Expected(matrix[g.feeds["ids"]]), y: Expected(g[x] @ matrix.T, rounded=g[x] @ rounded_to(matrix.T, g.dtype))})


FORMATS = [("i4", 32, "same", None), ("u4", 128, "same", "u4"), ("i4", 16, "f32", "i4"), ("u4", 64, "same", None), ("i4", 256, "same", None),
           ("i4", 0, "same", None), ("u8", 32, "same", "u8"), ("i8", 0, "f32", None), ("i8", 128, "same", "i8"), ("e4m3", -1, "f32", None),
           ("e4m3", 0, "same", None), ("e5m2", 0, "same", None), ("e2m1", 16, "e4m3", None), ("e2m1", 32, "e8m0", None)]


def cases(sample):
    rows = (1, 5) if sample else (1, 2, 8, 16, 33, 130)
    for m in rows:
        for i, (code, block, scale, zero) in enumerate(FORMATS):
            if sample and i % 2 != rows.index(m):
                continue
            for dtype in ("bf16", "f16"):
                if sample and (i // 2 % 2 == 0) != (dtype == "bf16"):
                    continue
                kind = dtype if scale == "same" else scale
                n, k = (200, 1152) if i % 2 else (96, 520)
                for axis in (1, 0) if not sample else (i // 4 % 2,):
                    yield Case(f"{code}_{block}_{scale}_{zero or 'none'}_{dtype}_m{m}_axis{axis}", lambda a=(dtype, m, n, k, code, block, kind, zero, axis): dequantised(*a))
        for bits, block, zero in ((4, 32, "bytes"), (8, 64, "floats"), (4, 128, "")):
            yield Case(f"nbits{bits}_{block}_{zero or 'none'}_m{m}", lambda a=("bf16", m, 130, 672, bits, block, zero): nbits(*a))
        yield Case(f"tied_m{m}", lambda a=("bf16", m, 1000, 256): tied(*a))
    # What the templates of packed weights leave to general ones.
    for m in (1, 9) if sample else (1, 2, 9, 70):
        yield Case(f"fp32_m{m}", lambda m=m: nbits("f32", m, 72, 320, 4, 32, "bytes"))
        yield Case(f"fp32_rows_m{m}", lambda m=m: dequantised("f32", m, 72, 520, "i8", 0, "f32"))
        yield Case(f"indexed_m{m}", lambda m=m: nbits("bf16", m, 130, 320, 4, 32, "bytes", True))
        yield Case(f"odd_columns_m{m}", lambda m=m: nbits("bf16", m, 72, 323, 4, 32, "bytes"))
        for block in (48, 96):
            yield Case(f"group{block}_m{m}", lambda m=m, block=block: dequantised("bf16", m, 200, 1152, "u4", block, "bf16", "u4"))
        for code in ("u4", "u8"):
            yield Case(f"one_zero_{code}_m{m}", lambda m=m, code=code: dequantised("bf16", m, 96, 520, code, -1, "bf16", code))
        for code in ("e4m3", "e5m2"):
            yield Case(f"special_{code}_m{m}", lambda m=m, code=code: special("bf16", m, 96, 512, code))
