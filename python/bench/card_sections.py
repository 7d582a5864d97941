"""Sections of the card's benchmark in 16 bits: which points, against what, and what is asked."""
import concurrent.futures

import torch
import torch.nn.functional as F

import card_models
import card_peers as peers
from card_low_bit import formats, front, int4_few, int4_many, int4_row, zeros  # noqa: F401 - sections
from card_measure import Variant, at_least_share, at_least_share_of, at_least_speed, at_most, at_most_floor, at_most_us, norm_error, rest_s
from card_points import LAYER, MATRICES, guarded, ours, peer, predicted, random
from card_whole import model, model_int4  # noqa: F401 - sections
from fusion.builders import random_llama

# Products

def linear_variants(bench, x, w, calls):
    """cuBLAS and cuBLASLt over [N, K] weights."""
    reference = x[0].float() @ w[0].float().t()
    found = []
    for library in ("cublas", "cublaslt"):
        with peers.blas(library):
            found += peer(bench, {"cublas": "cuBLAS", "cublaslt": "cuBLASLt"}[library], [lambda a=a, b=b: F.linear(a, b) for a, b in zip(x, w)], reference, calls)
    return found, reference


@guarded
def product(bench, m, n, k, target):
    floor = max(2 * (m * k + k * n + m * n) / bench.ceilings["copy_GBps" if m > 64 else "read_GBps"] / 1e3, 2 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    sets = card_models.copies(2 * (m * k + k * n + m * n), most=8)
    count = max(sets, card_models.repeats(floor))
    model = card_models.matmuls(bench.folder / "m.onnx", m, n, k, sets, count)
    weights = bench.weights(model)
    x, w = [random(m, k) for _ in range(count)], [weights[f"w{i}"].t().contiguous() for i in range(sets)]
    found, reference = linear_variants(bench, x[:sets], w, count)
    y = {f"y{i}": random(m, n) for i in range(count)}
    found += ours(bench, model, {f"x{i}": t for i, t in enumerate(x)}, y, count, lambda: {"y0": reference})
    if bench.options.max_autotune and bench.left > 40:
        f = peers.compiled(F.linear, "max-autotune")
        found += peer(bench, "compile max-autotune", [lambda a=a, b=b: f(a, b) for a, b in zip(x, w)], reference, count)
    bench.point(f"matmul M={m} N={n} K={k}", found, target(floor), floor, rest_s=rest_s(m))


def against_lt(least):
    return lambda floor: at_least_speed(least, "cuBLASLt")


def gemm(bench):
    for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), *((2048, *s) for s in MATRICES)]:
        product(bench, m, n, k, against_lt(1.0))


def gemm_rows(bench):
    for m in (128, 256, 512, 1024):
        for n, k in MATRICES:
            product(bench, m, n, k, against_lt(0.95))


def gemv(bench):
    for name, share in (("wqkv", 0.88), ("wo", 0.82), ("gate+up", 0.95), ("down", 0.90), ("head", 0.97)):
        product(bench, 1, *LAYER[name], lambda floor, share=share: at_least_share(share, "read bandwidth", floor))


@guarded
def gated_product(bench, m, n=14336, k=4096):
    floor = max((4 * k * n + 2 * m * (k + n)) / bench.ceilings["read_GBps"] / 1e3, 4 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    copies = card_models.copies(4 * k * n, most=4)
    count = max(copies, card_models.repeats(floor))
    model = card_models.gated(bench.folder / "m.onnx", m, n, k, copies, count)
    weights = bench.weights(model)
    x = [random(m, k) for _ in range(count)]
    gate, up = ([weights[f"{p}{i}"].t().contiguous() for i in range(copies)] for p in ("gate", "up"))
    both = [torch.cat(p) for p in zip(gate, up)]
    p, q = (x[0].float() @ t[0].float().t() for t in (gate, up))
    reference = F.silu(p) * q
    found = peer(bench, "cuBLAS, one concatenated GEMM alone", [lambda a=a, b=b: F.linear(a, b) for a, b in zip(x, both)], calls=count)
    sets = list(zip(x, gate, up))
    found += peer(bench, "eager", [lambda s=s: peers.gated(*s) for s in sets], reference, count)
    f = peers.compiled(peers.gated)
    found += peer(bench, "compile", [lambda s=s: f(*s) for s in sets], reference, count)
    found += peer(bench, "Triton", [lambda s=s: peers.triton_gated(*s) for s in sets], reference, count)
    found += ours(bench, model, {f"x{i}": t for i, t in enumerate(x)}, {f"y{i}": random(m, n) for i in range(count)}, count, lambda: {"y0": reference})
    target = at_most_floor(1.08, floor) if m <= 16 else at_most(1.03, "cuBLAS, one concatenated GEMM alone")
    bench.point(f"gated MLP front M={m} {k}->{n}", found, target, floor, rest_s=rest_s(m))


def gated(bench):
    for m in (1, 16, 2048, 8192):
        gated_product(bench, m)


# Norms

COPY = "copy of as many bytes"


@guarded
def add_rms_norm(bench, rows, width=4096):
    count = card_models.repeats(max(2.0, 8 * rows * width / bench.ceilings["copy_GBps"] / 1e3))
    model = card_models.add_rms_norms(bench.folder / "m.onnx", rows, width, count)
    a, b = ([random(rows, width) for _ in range(count)] for _ in range(2))
    held = bench.weights(model)
    weights = [held[f"g{i}"] for i in range(count)]
    sets = list(zip(a, b, weights))[:card_models.copies(8 * rows * width, least=2)]
    total = (a[0].float() + b[0].float())
    reference = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-5) * weights[0].float()
    found = peer(bench, "eager", [lambda s=s: peers.add_rms_norm(*s) for s in sets], reference, count)
    f = peers.compiled(peers.add_rms_norm)
    found += peer(bench, "compile", [lambda s=s: f(*s) for s in sets], reference, count)
    found += peer(bench, "Triton", [lambda s=s: peers.triton_add_rms_norm(*s, 8) for s in sets], reference, count)
    copies = ([random(2, rows, width) for _ in sets] for _ in range(2))
    found += peer(bench, COPY, [lambda x=x, y=y: peers.copy(x, y, min(8192, width)) for x, y in zip(*copies)], calls=count)
    inputs = {f"{n}{i}": t for i, pair in enumerate(zip(a, b)) for n, t in zip("ab", pair)}
    outputs = {f"{n}{i}": random(rows, width) for i in range(count) for n in "sy"}
    found += ours(bench, model, inputs, outputs, count, lambda: {"s0": total, "y0": reference})
    floor = 8 * rows * width / bench.ceilings["copy_GBps"] / 1e3
    target = at_most_us(1.6) if rows == 1 else at_least_share_of(0.96, COPY) if rows == 8192 else None
    bench.point(f"add + RMSNorm {rows}x{width}", found, target, floor)


def norm(bench):
    for rows in (8192, 2048, 1):
        add_rms_norm(bench, rows)


# Attention

@guarded
def prefill_attention(bench, rows, target_us):
    c, count = random_llama.SIZES["8b"], card_models.repeats(target_us)
    model = card_models.prefill_attentions(bench.folder / "m.onnx", count)
    q, k, v = ([random(1, rows, h * c.head_dim) for _ in range(count)] for h in (c.heads, c.kv_heads, c.kv_heads))
    heads = lambda t: t.view(1, rows, -1, c.head_dim).transpose(1, 2)
    cos, sin = peers.tables(rows)
    turned = [(peers.rotate(heads(a), cos, sin), peers.rotate(heads(b), cos, sin), heads(d)) for a, b, d in zip(q, k, v)]
    reference = peers.reference_attention(*turned[0], True)
    tail = reference.shape[2]
    found = []
    for backend in ("cuDNN", "flash"):
        f = peers.attention(backend, True)
        found += peer(bench, f"{backend} attention alone", [lambda t=t: f(*t) for t in turned])
    f = peers.compiled(lambda a, b, d: F.scaled_dot_product_attention(peers.rotate(heads(a), cos, sin), peers.rotate(heads(b), cos, sin), heads(d), is_causal=True, enable_gqa=True))
    found += peer(bench, "compile (rotation + attention)", [lambda s=s: f(*s) for s in zip(q, k, v)])
    outputs = {f"y{i}": random(1, rows, c.heads * c.head_dim) for i in range(count)}
    inputs = {f"{n}{i}": t for n, ts in (("q", q), ("k", k), ("v", v)) for i, t in enumerate(ts)}
    inputs |= {"cos": cos[None, None].bfloat16(), "sin": sin[None, None].bfloat16()}
    # The last rows see the most keys.
    found += ours(bench, model, inputs, outputs, count, lambda: {}, f"--likely=sequence_length={rows}")
    if found and found[-1].name == "fusion":
        found[-1].error = norm_error(heads(outputs["y0"])[:, :, -tail:], reference)
    flops = 2 * rows * rows * c.heads * c.head_dim
    bench.point(f"rope + causal attention H=32/8 D=128 S={rows}", found, at_most_us(target_us),
                flops / bench.ceilings["matmul_TFLOPs"] / 1e6, rest_s=0.01)


def attention(bench):
    prefill_attention(bench, 2048, 70)
    prefill_attention(bench, 8192, 870)


LONGEST_CACHE = 8192
CACHED_LAYERS = {1: 128, 8: 24, 64: 4}  # by batch: their caches exceed the L2 cache, and a run takes about as long as the others'


def cached_models(bench):
    """{batch: model file} of layers of decode attention, compiled side by side."""
    models = {batch: card_models.decode_attentions(bench.folder / f"cached{batch}.onnx", batch, layers) for batch, layers in CACHED_LAYERS.items()}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda m: bench.compile(m, "--kv-cache=state", f"--max-context={LONGEST_CACHE + 64}", f"--likely=past_sequence_length={LONGEST_CACHE}"), models.values()))
    return models


def chained_attention(x, layers, c):
    """The last position's result, in fp32 rounded after each layer: [1, 1, hidden] of the embedded tokens [1, T, hidden]."""
    cos, sin = peers.tables(x.shape[1])
    width = c.kv_heads * c.head_dim
    heads = lambda t: t.unflatten(-1, (-1, c.head_dim)).transpose(1, 2).float()
    k, v, q = peers.rotate(heads(x[..., :width]), cos, sin).bfloat16(), heads(x[..., width:2 * width]), x[:, -1:]
    for _ in range(layers):
        turned = peers.rotate(heads(q), cos[-1:], sin[-1:])
        q = peers.reference_attention(turned, k, v, False).transpose(1, 2).flatten(2).bfloat16()
    return q


@guarded
def cached_attention(bench, model, batch, cached, target_us):
    """Of ours, a run is one graph of all layers, replayed at any length of the cache; embedding and lookups of the step are in its time."""
    c, layers = random_llama.SIZES["8b"], CACHED_LAYERS[batch]
    hidden, size = c.heads * c.head_dim, 4 * batch * c.kv_heads * cached * c.head_dim
    sets = card_models.copies(size, least=2, most=48)
    q = [random(batch, c.heads, 1, c.head_dim) for _ in range(sets)]
    kv = [(random(batch, c.kv_heads, cached, c.head_dim), random(batch, c.kv_heads, cached, c.head_dim)) for _ in range(sets)]
    reference = peers.reference_attention(q[0][:4], *(t[:4] for t in kv[0]), False)
    found = []
    for backend in ("cuDNN", "flash"):
        f = peers.attention(backend, False)
        new = peer(bench, f"{backend}, no rotation, no append", [lambda a=a, s=s: f(a, *s) for a, s in zip(q, kv)])
        for v in new:
            v.error = norm_error(f(q[0], *kv[0])[:4], reference)
        found += new
    if not bench.options.peers_only:
        loaded = model()
        session = loaded.session()
        ids = torch.randint(0, 512, (batch, cached), device="cuda")
        for part in ids.split(min(cached, 16384 // batch), 1):
            session.bind("input_ids", part.contiguous())
            session.run()
        y = torch.full((batch, 1, hidden), float("nan"), device="cuda", dtype=torch.bfloat16)
        session.bind("input_ids", ids[:, -1:].contiguous())
        session.bind_output("logits", y)

        def run():
            session.truncate(cached - 1)
            session.run()
        run()
        table = next(t for t in bench.weights(bench.folder / f"cached{batch}.onnx").values() if t.shape == (512, hidden))
        error = norm_error(y[:1], chained_attention(table[ids[:1]], layers, c))
        # Predicted for the length that was likely.
        us = predicted(loaded.explain(), "decode", "decode attention") / layers if cached == LONGEST_CACHE else None
        found.append(Variant("fusion", run, layers, tiny=bench.tiny, error=error, predicted_us=us or None))
    bench.point(f"rope + append + decode attention batch {batch} KV {cached}", found, at_most_us(target_us),
                size / bench.ceilings["read_GBps"] / 1e3)


def decode_attention(bench):
    models = {} if bench.options.peers_only else cached_models(bench)
    points = {1: ((1024, 6.5), (LONGEST_CACHE, 14)), 8: ((LONGEST_CACHE, 67),), 64: ((LONGEST_CACHE, 490),)}
    for batch, lengths in points.items():
        loaded = bench.open(models[batch]) if models else None
        for cached, target_us in lengths:
            cached_attention(bench, lambda loaded=loaded: loaded, batch, cached, target_us)
