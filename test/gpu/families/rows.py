"""Norms, softmax and reductions over rows, with what fuses into them: widths around every vector and block size."""
import numpy as np

from frame import Case, Expected, Graph, rounded_to

WIDTHS = [1, 7, 8, 33, 64, 576, 1000, 4096, 4097, 14336]
ROWS = [1, 3, 65]


def rms(x, w, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def add_rms_norm(dtype, rows, width):
    g = Graph(dtype, seed=rows * 131 + width)
    a, b = g.input("a", (rows, width), dims=["rows", width]), g.input("b", (rows, width), dims=["rows", width])
    w = g.weight("w", value=1 + 0.1 * g.rng.standard_normal(width))
    s = g.output(g.node("Add", [a, b]))
    f = g.node("Cast", [s], to=1)
    square = g.node("Pow", [f, g.constant(2, np.float32)])
    mean = g.node("ReduceMean", [square, g.constant([-1])], keepdims=1)
    root = g.node("Sqrt", [g.node("Add", [mean, g.constant(1e-5, np.float32)])])
    scaled = g.node("Mul", [f, g.node("Reciprocal", [root])])
    to = {"f32": 1, "f16": 10, "bf16": 16}[dtype]
    y = g.output(g.node("Mul", [w, g.node("Cast", [scaled], to=to)]))
    total, weight = g[a] + g[b], g[w]
    stored = rounded_to(total, g.dtype)
    normal = rounded_to(rms(stored, 1.0), g.dtype)
    return g.case({s: Expected(total, scale=abs(g[a]) + abs(g[b])), y: Expected(rms(total, weight), rounded=rounded_to(normal * weight, g.dtype))})


def softmax(dtype, rows, width):
    g = Graph(dtype, seed=rows * 17 + width)
    x = g.input("x", (rows, width), scale=3.0, dims=["rows", width])
    y = g.output(g.node("Softmax", [x], axis=-1))
    e = np.exp(g[x] - g[x].max(-1, keepdims=True))
    value = e / e.sum(-1, keepdims=True)
    return g.case({y: Expected(value, scale=value * (2 + g[x].max(-1, keepdims=True) - g[x]))})


def layer_norm(dtype, rows, width):
    g = Graph(dtype, seed=rows * 19 + width)
    x = g.input("x", (rows, width), dims=["rows", width])
    w, b = g.weight("w", (width,)), g.weight("b", (width,))
    y = g.output(g.node("LayerNormalization", [x, w, b], epsilon=1e-3))
    centred = g[x] - g[x].mean(-1, keepdims=True)
    value = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-3) * g[w]
    return g.case({y: Expected(value + g[b], scale=np.abs(value) + np.abs(g[b]) + np.abs(g[w]))})


def swiglu(dtype, rows, width):
    g = Graph(dtype, seed=rows * 23 + width)
    a, b = g.input("a", (rows, width), dims=["rows", width]), g.input("b", (rows, width), dims=["rows", width])
    s = g.node("Mul", [a, g.node("Sigmoid", [a])])
    y = g.output(g.node("Mul", [s, b]))
    return g.case({y: Expected(g[a] / (1 + np.exp(-g[a])) * g[b])})


def cases(sample):
    n = 0
    for f in (add_rms_norm, softmax, layer_norm, swiglu):
        for dtype in ("bf16", "f32", "f16"):
            for width in WIDTHS:
                rows = ROWS[n % len(ROWS)]
                n += 1
                if not sample or n % 9 == 0:
                    yield Case(f"{f.__name__}_{dtype}_{rows}x{width}", lambda f=f, d=dtype, r=rows, w=width: f(d, r, w))
