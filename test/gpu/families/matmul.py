"""Products: every tail of M, N and K, one row to many, bias, activation and residual behind them, gates of two."""
import numpy as np

from frame import Case, Expected, Graph

SHAPES = [(1, 64, 64), (1, 4096, 512), (1, 511, 257), (2, 256, 192), (3, 130, 66), (7, 1000, 96), (8, 256, 512), (16, 512, 320), (17, 129, 264),
          (64, 640, 256), (65, 256, 256), (127, 130, 72), (128, 256, 128), (200, 384, 513), (256, 512, 256), (300, 1001, 130), (513, 640, 520)]

# Tiles of every width, blocks that share K, tails of each; K and N multiples of 8.
LARGE = [(128, 1024, 2048), (257, 768, 1024), (700, 1000, 520), (1100, 2048, 520), (2048, 1536, 64)]

# Numbers of rows that are known, for which weights are streamed or tiles are narrow: tails, tiles of many parts and of one.
FEW = [(2, 1000, 2056), (5, 256, 512), (9, 1000, 1032), (16, 4096, 520), (24, 328, 4096), (32, 1000, 520), (33, 640, 1024), (64, 4096, 512),
       (128, 6144, 520)]

# Weights so large that few rows stay in registers, or come in longer pieces; the last strips and tiles have tails. Columns of both weights of a gate together.
STREAMED = [(5, 17001, 4096), (13, 16901, 2048), (13, 14101, 3072)]


def product(dtype, m, n, k, transposed=False, epilogue="", known=False):
    g = Graph(dtype, seed=m * 7 + n * 3 + k)
    rows = m if known else "rows"
    x = g.input("x", (m, k), dims=[rows, k])
    w = g.weight("w", (n, k) if transposed else (k, n), scale=k ** -0.5)
    right = g.node("Transpose", [w], perm=[1, 0]) if transposed else w
    y = g.node("MatMul", [x, right])
    matrix = g[w].T if transposed else g[w]
    value, scale = g[x] @ matrix, np.abs(g[x]) @ np.abs(matrix)
    if "bias" in epilogue:
        b = g.weight("b", (n,))
        y, value, scale = g.node("Add", [y, b]), value + g[b], scale + np.abs(g[b])
    if "gelu" in epilogue:
        from math import erf
        y = g.node("Gelu", [y])
        value = value * 0.5 * (1 + np.vectorize(erf)(value / 2 ** 0.5))
    if "residual" in epilogue:
        r = g.input("r", (m, n), dims=[rows, n])
        y, value, scale = g.node("Add", [r, y]), value + g[r], scale + np.abs(g[r])
    return g.case({g.output(y): Expected(value, scale=scale)})


def gated(dtype, m, n, k, known=False):
    g = Graph(dtype, seed=m + n + k)
    x = g.input("x", (m, k), dims=[m if known else "rows", k])
    a, b = (g.weight(name, (k, n), scale=k ** -0.5) for name in ("gate", "up"))
    gate, up = g.node("MatMul", [x, a]), g.node("MatMul", [x, b])
    y = g.output(g.node("Mul", [g.node("Mul", [gate, g.node("Sigmoid", [gate])]), up]))
    p, q = g[x] @ g[a], g[x] @ g[b]
    size = lambda w: np.abs(g[x]) @ np.abs(g[w])
    silu = p / (1 + np.exp(-p))
    return g.case({y: Expected(silu * q, scale=size(a) * (np.abs(q) + 1) + size(b) * np.abs(silu))})


def batched(dtype, m, n, k):
    g = Graph(dtype, seed=m + n + k)
    a, b = g.input("a", (3, 2, m, k), dims=["batch", 2, "rows", k]), g.input("b", (3, 2, k, n), dims=["batch", 2, k, n])
    y = g.output(g.node("MatMul", [a, b]))
    return g.case({y: Expected(g[a] @ g[b], scale=np.abs(g[a]) @ np.abs(g[b]))})


def cases(sample):
    for m, n, k in LARGE[:2] if sample else LARGE:
        for dtype in ("bf16", "f16"):
            for transposed in (False, True):
                yield Case(f"large_{dtype}_{m}x{n}x{k}" + "_t" * transposed, lambda a=(dtype, m, n, k, transposed): product(*a))
        yield Case(f"large_gated_{m}x{n}x{k}", lambda a=("f16", m, n, k): gated(*a))
        yield Case(f"large_residual_{m}x{n}x{k}", lambda a=("bf16", m, n, k, False, "bias_residual"): product(*a))
    for m, n, k in FEW[2:4] if sample else FEW:
        for dtype in ("bf16", "f16"):
            yield Case(f"few_{dtype}_{m}x{n}x{k}", lambda a=(dtype, m, n, k): product(*a, known=True))
        yield Case(f"few_gated_{m}x{n}x{k}", lambda a=("bf16", m, n, k): gated(*a, known=True))
        yield Case(f"few_residual_{m}x{n}x{k}", lambda a=("bf16", m, n, k, True, "bias_residual"): product(*a, known=True))
    for m, n, k in STREAMED[1:] if sample else STREAMED:
        for dtype in ("bf16", "f16"):
            yield Case(f"streamed_{dtype}_{m}x{n}x{k}", lambda a=(dtype, m, n, k, True): product(*a, known=True))
        yield Case(f"streamed_gated_{m}x{n}x{k}", lambda a=("bf16", m, n // 2 + 1, k): gated(*a, known=True))
    for dtype in ("bf16", "f16"):
        yield Case(f"batched_{dtype}", lambda a=(dtype, 77, 96, 136): batched(*a))
    for i, (m, n, k) in enumerate(SHAPES):
        for j, dtype in enumerate(("bf16", "f16", "f32")):
            if sample and (i + j) % 9:
                continue
            for transposed in (False, True):
                yield Case(f"product_{dtype}_{m}x{n}x{k}" + "_t" * transposed, lambda a=(dtype, m, n, k, transposed): product(*a))
        if not sample or i % 6 == 0:
            for epilogue in ("bias", "bias_gelu", "residual"):
                yield Case(f"{epilogue}_bf16_{m}x{n}x{k}", lambda a=("bf16", m, n, k, True, epilogue): product(*a))
            yield Case(f"gated_bf16_{m}x{n}x{k}", lambda a=("bf16", m, n, k): gated(*a))
