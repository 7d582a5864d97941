"""com.microsoft GroupQueryAttention: rotation, cached keys, windows and soft caps, in prompts, chunks and single rows."""
import numpy as np

from frame import Case, Expected, Graph, rounded_to


def rotate(x, cos, sin):
    """x [b, s, h, d], tables [s, d / 2], halves rotated."""
    a, b = np.split(x, 2, -1)
    c, s = cos[None, :, None], sin[None, :, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def attend(q, k, v, past, window, cap, keep=lambda x: x):
    """q [b, s, h, d], k and v [b, h, t, d]; `keep` rounds what the unfused graph would store."""
    score = keep(np.einsum("bshd,bhtd->bhst", q, k) * q.shape[-1] ** -0.5)
    if cap:
        score = keep(cap * keep(np.tanh(keep(score / cap))))
    i, j = np.arange(q.shape[1])[:, None] + past, np.arange(k.shape[2])[None]
    seen = (j <= i) & ((j > i - window) if window > 0 else True)
    p = np.exp(np.where(seen, score - score.max(-1, keepdims=True, where=seen, initial=-np.inf), -np.inf))
    return keep(np.einsum("bhst,bhtd->bshd", keep(p / p.sum(-1, keepdims=True)), v))


def build(dtype, batch, heads, groups, past, rows, d, window=-1, cap=0.0):
    g = Graph(dtype, seed=batch + heads * 3 + past * 5 + rows * 7 + d)
    total = past + rows
    q = g.input("q", (batch, rows, heads * d), dims=[batch, "seq", heads * d])
    k, v = (g.input(n, (batch, rows, groups * d), dims=[batch, "seq", groups * d]) for n in ("k", "v"))
    old = [g.input(f"past_key_values.0.{n}", (batch, groups, past, d), dims=[batch, groups, "past", d]) for n in ("key", "value")]
    lengths = g.weight("lengths", value=np.full(batch, total - 1), dtype=np.int32)
    count = g.weight("count", value=np.array(total), dtype=np.int32)
    angles = np.arange(total)[:, None] * (10000.0 ** (-np.arange(d // 2) / (d // 2)))
    cos, sin = g.weight("cos", value=np.cos(angles)), g.weight("sin", value=np.sin(angles))
    extra = {"softcap": cap} if cap else {}
    y, nk, nv = g.node("GroupQueryAttention", [q, k, v, *old, lengths, count, cos, sin], outputs=3, domain="com.microsoft", num_heads=heads,
                       kv_num_heads=groups, do_rotary=1, local_window_size=window, **extra)
    for name in (y, nk, nv):
        g.output(name)
    split = lambda x, h: x.reshape(batch, rows, h, d)
    c, s = g[cos][past:], g[sin][past:]

    def run(keep):
        query, key = keep(rotate(split(g[q], heads), c, s)), keep(rotate(split(g[k], groups), c, s))
        keys = np.concatenate([g[old[0]], key.transpose(0, 2, 1, 3)], 2)
        values = np.concatenate([g[old[1]], split(g[v], groups).transpose(0, 2, 1, 3)], 2)
        wide = [np.repeat(x, heads // groups, 1) for x in (keys, values)]
        return attend(query, *wide, past, window, cap, keep).reshape(batch, rows, heads * d), keys, values

    value, keys, values = run(lambda x: x)
    rounded, rounded_keys, _ = run(lambda x: rounded_to(x, g.dtype))
    return g.case({y: Expected(value, rounded=rounded), nk: Expected(keys, rounded=rounded_keys), nv: Expected(values)})


# batch, heads, key heads, cached, new, head size, window, cap
SHAPES = [(1, 32, 8, 1023, 1, 128), (1, 9, 3, 64, 1, 64), (2, 16, 4, 4095, 1, 128), (1, 8, 4, 700, 1, 256, 512, 50.0), (1, 8, 8, 126, 1, 96),
          (1, 8, 2, 0, 300, 128), (1, 9, 3, 0, 200, 64), (1, 8, 2, 500, 130, 128), (1, 8, 4, 100, 300, 256, 128, 50.0), (1, 4, 2, 0, 1024, 64, 256),
          (2, 4, 4, 33, 65, 80), (1, 8, 2, 200, 3, 128)]


def cases(sample):
    for i, shape in enumerate(SHAPES):
        for j, dtype in enumerate(("bf16", "f16")):
            if not sample or (i + j) % 5 == 0:
                name = "gqa_{}_b{}_h{}_{}_past{}_new{}_d{}".format(dtype, *shape[:6]) + "".join(f"_{x:g}" for x in shape[6:])
                yield Case(name, lambda a=(dtype, *shape): build(*a))
