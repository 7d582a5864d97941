"""Attention as exporters spell it: grouped heads, causal or not, with and without cached keys, head sizes 64 to 256."""
import numpy as np

from frame import Case, Expected, Graph, rounded_to


def attend(q, k, v, mask, keep=lambda x: x):
    """q [b, h, s, d]; `keep` rounds what the graph would store."""
    score = keep(keep(np.einsum("bhsd,bhtd->bhst", q, k)) * q.shape[-1] ** -0.5)
    score = score + mask
    p = np.exp(score - score.max(-1, keepdims=True))
    return keep(np.einsum("bhst,bhtd->bhsd", keep(p / p.sum(-1, keepdims=True)), v))


def decoder(dtype, batch, heads, groups, past, rows, d, causal=True):
    """MatMul, Mul, Add, Softmax, MatMul over past and new keys, each group's keys repeated for its heads."""
    g = Graph(dtype, seed=batch + heads * 3 + past * 5 + rows * 7 + d)
    kind = {"f32": np.float32}.get(dtype, g.dtype)
    q = g.input("q", (batch, heads, rows, d), dims=["batch", heads, "seq", d])
    new = [g.input(n, (batch, groups, rows, d), dims=["batch", groups, "seq", d]) for n in ("k", "v")]
    old = [g.input(f"past_key_values.0.{n}", (batch, groups, past, d), dims=["batch", groups, "past", d]) for n in ("key", "value")]
    both = [g.node("Concat", [a, b], axis=2) for a, b in zip(old, new)]
    for name in both:
        g.output(name)
    total, repeat = past + rows, heads // groups
    shape = g.node("Concat", [g.node("Slice", [g.node("Shape", [both[0]]), g.constant([0]), g.constant([2])]), g.node("Slice", [g.node("Shape", [both[0]]), g.constant([2]), g.constant([4])])], axis=0)
    def widen(x):
        if repeat == 1:
            return x
        sizes = g.node("Split", [shape, g.constant([1, 1, 1, 1])], outputs=4, axis=0)
        full = g.node("Concat", [sizes[0], g.constant([groups]), g.constant([repeat]), sizes[2], g.constant([d])], axis=0)
        flat = g.node("Concat", [sizes[0], g.constant([heads]), sizes[2], g.constant([d])], axis=0)
        return g.node("Reshape", [g.node("Expand", [g.node("Unsqueeze", [x, g.constant([2])]), full]), flat])
    keys, values = map(widen, both)
    score = g.node("MatMul", [q, g.node("Transpose", [keys], perm=[0, 1, 3, 2])])
    score = g.node("Mul", [score, g.weight("scale", value=np.array(d ** -0.5), dtype=kind)])
    if causal:
        pick = lambda x, i: g.node("Gather", [g.node("Shape", [x]), g.constant(i)], axis=0)
        s, p = pick(q, 2), pick(old[0], 2)
        t = g.node("Add", [p, s])
        row = g.node("Unsqueeze", [g.node("Add", [g.node("Range", [g.constant(0), s, g.constant(1)]), p]), g.constant([1])])
        column = g.node("Unsqueeze", [g.node("Range", [g.constant(0), t, g.constant(1)]), g.constant([0])])
        seen = g.node("LessOrEqual", [column, row])
        bias = g.node("Where", [seen, g.weight("zero", value=np.array(0.0), dtype=kind), g.weight("low", value=np.array(-np.inf), dtype=kind)])
        score = g.node("Add", [score, bias])
    y = g.output(g.node("MatMul", [g.node("Softmax", [score], axis=-1), values]))
    k, v = (np.concatenate([g[a], g[b]], 2) for a, b in zip(old, new))
    mask = np.where(np.arange(total)[None] <= np.arange(rows)[:, None] + past, 0.0, -np.inf) if causal else 0.0
    wide = [np.repeat(x, repeat, 1) for x in (k, v)]
    value = attend(g[q], *wide, mask)
    keep = lambda x: rounded_to(x, g.dtype)
    return g.case({y: Expected(value, rounded=attend(g[q], *wide, mask, keep)), both[0]: Expected(k), both[1]: Expected(v)})


# batch, heads, key heads, cached, new, head size
SHAPES = [(1, 4, 4, 0, 1, 64), (1, 8, 2, 0, 64, 64), (1, 8, 2, 0, 65, 64), (2, 4, 1, 3, 130, 128), (1, 8, 1, 0, 200, 128), (1, 4, 2, 100, 77, 96),
          (1, 4, 4, 0, 96, 256), (1, 2, 1, 0, 257, 80), (1, 8, 2, 1, 1, 64), (1, 8, 2, 63, 1, 128), (3, 8, 2, 500, 1, 128), (1, 32, 8, 1023, 1, 128),
          (2, 6, 2, 777, 1, 64), (1, 4, 4, 129, 1, 256), (1, 8, 2, 200, 5, 64), (1, 8, 8, 64, 16, 128)]


def cases(sample):
    for i, shape in enumerate(SHAPES):
        for j, dtype in enumerate(("bf16", "f16", "f32")):
            if not sample or (i + j) % 8 == 0:
                yield Case("decoder_{}_b{}_h{}_{}_past{}_new{}_d{}".format(dtype, *shape), lambda a=(dtype, *shape): decoder(*a))
        if not sample:
            yield Case("full_bf16_b{}_h{}_{}_past{}_new{}_d{}".format(*shape), lambda a=("bf16", *shape, False): decoder(*a))
