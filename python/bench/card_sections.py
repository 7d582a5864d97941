"""The sections of the card's benchmark: which points, against what, and what must be reached."""
import dataclasses
import functools
import json
import time
import traceback

import torch
import torch.nn.functional as F

import card_llama
import card_models
import card_peers as peers
from card_measure import Variant, graphed, norm_error
from fusion.builders import random_llama

LAYER = {"wqkv": (6144, 4096), "wo": (4096, 4096), "gate+up": (28672, 4096), "down": (4096, 14336), "head": (128256, 4096)}
MATRICES = [LAYER[n] for n in ("wqkv", "wo", "gate+up", "down")]


def random(*shape, scale=1.0):
    return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_(0, scale)


def guarded(function):
    """A point that fails is reported; the others go on. Points beyond the section's time are left out."""
    @functools.wraps(function)
    def run(bench, *arguments):
        if bench.left < 0:
            print(f"{function.__name__} {' '.join(str(a) for a in arguments if not callable(a))}: left out, no time")
            return
        try:
            function(bench, *arguments)
        except Exception as e:  # noqa: BLE001
            print(f"FAIL {function.__name__} {' '.join(str(a) for a in arguments if not callable(a))}: {type(e).__name__}: {str(e)[:700]}", flush=True)
            if not isinstance(e, RuntimeError):
                traceback.print_exc()
        torch.cuda.empty_cache()
    return run


def ours(bench, model, inputs, outputs, count, references, *options):
    """The compiled model as a variant; `references` gives {output: what it must be}."""
    if bench.options.peers_only:
        return []
    loaded = bench.load(model, *options)
    session = loaded.session()
    for name, tensor in inputs.items():
        session.bind(name, tensor)
    for name, tensor in outputs.items():
        tensor.fill_(float("nan"))
        session.bind_output(name, tensor)
    torch.cuda.synchronize()
    session.run()
    error = max((norm_error(outputs[name], value) for name, value in references().items()), default=None)
    predicted = loaded.explain().get("buckets") or [{}]
    return [Variant("fusion", session.run, count, wall=True, overhead_us=bench.overhead_us, error=error, predicted_us=predicted[0].get("us_after", 0) / count or None)]


def peer(bench, name, functions, reference=None):
    """A captured peer, or nothing when it fails."""
    if bench.options.ours_only:
        return []
    try:
        first = functions[0]()
        first = first[-1] if isinstance(first, tuple) else first
        error = norm_error(first, reference) if reference is not None and first.shape == reference.shape else None
        return [Variant(name, *graphed(functions), error=error)]
    except Exception as e:  # noqa: BLE001
        print(f"  {name}: {type(e).__name__}: {str(e)[:200]}")
        return []


# Products

def linear_variants(bench, x, w):
    """cuBLAS and cuBLASLt over [N, K] weights."""
    reference = x[0].float() @ w[0].float().t()
    found = []
    for library in ("cublas", "cublaslt"):
        with peers.blas(library):
            found += peer(bench, {"cublas": "cuBLAS", "cublaslt": "cuBLASLt"}[library], [lambda a=a, b=b: F.linear(a, b) for a, b in zip(x, w)], reference)
    return found, reference


@guarded
def product(bench, m, n, k, target, rest_s=0.0):
    floor = max(2 * (m * k + k * n + m * n) / bench.ceilings["copy_GBps" if m > 64 else "read_GBps"] / 1e3, 2 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    sets = card_models.copies(2 * (m * k + k * n + m * n), most=8)
    count = max(sets, card_models.repeats(floor))
    model = card_models.matmuls(bench.folder / "m.onnx", m, n, k, sets, count)
    weights = bench.weights(model)
    x, w = [random(m, k) for _ in range(count)], [weights[f"w{i}"].t().contiguous() for i in range(sets)]
    found, reference = linear_variants(bench, x[:sets], w)
    y = {f"y{i}": random(m, n) for i in range(count)}
    found += ours(bench, model, {f"x{i}": t for i, t in enumerate(x)}, y, count, lambda: {"y0": reference})
    if bench.options.max_autotune and bench.left > 40:
        f = peers.compiled(F.linear, "max-autotune")
        found += peer(bench, "compile max-autotune", [lambda a=a, b=b: f(a, b) for a, b in zip(x, w)], reference)
    bench.point(f"matmul M={m} N={n} K={k}", found, target(floor), floor, rest_s=rest_s)


def against_lt(least):
    return lambda floor: ("cuBLASLt / fusion", lambda t: t["cuBLASLt"] / t["fusion"] if "cuBLASLt" in t else None, least)


def gemm(bench):
    for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), *((2048, *s) for s in MATRICES)]:
        product(bench, m, n, k, against_lt(1.0), 0.02)
    for m in (128, 256, 512, 1024):
        for n, k in MATRICES:
            product(bench, m, n, k, against_lt(0.95), 0.005)


def gemv(bench):
    for name, share in (("wqkv", 0.88), ("wo", 0.82), ("gate+up", 0.95), ("down", 0.90), ("head", 0.97)):
        product(bench, 1, *LAYER[name], lambda floor, share=share: (f"share of read bandwidth ({name})", lambda t: floor / t["fusion"], share))
    for m in (8, 16, 64):
        for n, k in MATRICES:
            product(bench, m, n, k, against_lt(1.0))


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
    found = peer(bench, "cuBLAS, one concatenated GEMM alone", [lambda a=a, b=b: F.linear(a, b) for a, b in zip(x, both)])
    sets = list(zip(x, gate, up))
    found += peer(bench, "eager", [lambda s=s: peers.gated(*s) for s in sets], reference)
    f = peers.compiled(peers.gated)
    found += peer(bench, "compile", [lambda s=s: f(*s) for s in sets], reference)
    found += peer(bench, "Triton", [lambda s=s: peers.triton_gated(*s) for s in sets], reference)
    found += ours(bench, model, {f"x{i}": t for i, t in enumerate(x)}, {f"y{i}": random(m, n) for i in range(count)}, count, lambda: {"y0": reference})
    if m <= 16:
        target = ("read floor / fusion", lambda t: floor / t["fusion"], round(1 / 1.08, 3))
    else:
        target = ("concatenated GEMM alone / fusion", lambda t: t["cuBLAS, one concatenated GEMM alone"] / t["fusion"], 0.97)
    bench.point(f"gated MLP front M={m} {k}->{n}", found, target, floor, rest_s=0.0 if m <= 16 else 0.02)


def gated(bench):
    for m in (1, 16, 2048, 8192):
        gated_product(bench, m)


# Norms

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
    found = peer(bench, "eager", [lambda s=s: peers.add_rms_norm(*s) for s in sets], reference)
    f = peers.compiled(peers.add_rms_norm)
    found += peer(bench, "compile", [lambda s=s: f(*s) for s in sets], reference)
    found += peer(bench, "Triton", [lambda s=s: peers.triton_add_rms_norm(*s, 8) for s in sets], reference)
    copies = ([random(2, rows, width) for _ in sets] for _ in range(2))
    found += peer(bench, "copy of as many bytes", [lambda x=x, y=y: peers.copy(x, y, min(8192, width)) for x, y in zip(*copies)])
    inputs = {f"{n}{i}": t for i, pair in enumerate(zip(a, b)) for n, t in zip("ab", pair)}
    outputs = {f"{n}{i}": random(rows, width) for i in range(count) for n in "sy"}
    found += ours(bench, model, inputs, outputs, count, lambda: {"s0": total, "y0": reference})
    floor = 8 * rows * width / bench.ceilings["copy_GBps"] / 1e3
    target = ("1.6 us / fusion", lambda t: 1.6 / t["fusion"], 1.0) if rows == 1 else ("share of copy", lambda t: floor / t["fusion"], 0.96)
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
    found += ours(bench, model, inputs, outputs, count, lambda: {})
    if found and found[-1].name == "fusion":
        found[-1].error = norm_error(heads(outputs["y0"])[:, :, -tail:], reference)
    flops = 2 * rows * rows * c.heads * c.head_dim
    bench.point(f"rope + causal attention H=32/8 D=128 S={rows}", found, (f"{target_us} us / fusion", lambda t: target_us / t["fusion"], 1.0),
                flops / bench.ceilings["matmul_TFLOPs"] / 1e6, rest_s=0.01)


def attention(bench):
    prefill_attention(bench, 2048, 70)
    prefill_attention(bench, 8192, 870)


@guarded
def cached_attention(bench, batch, cached, target_us):
    c = random_llama.SIZES["8b"]
    size = 4 * batch * c.kv_heads * cached * c.head_dim
    layers = card_models.copies(size, least=2, most=32)
    q = [random(batch, c.heads, 1, c.head_dim) for _ in range(layers)]
    kv = [(random(batch, c.kv_heads, cached, c.head_dim), random(batch, c.kv_heads, cached, c.head_dim)) for _ in range(layers)]
    reference = peers.reference_attention(q[0][:4], *(t[:4] for t in kv[0]), False)
    found = []
    for backend in ("cuDNN", "flash"):
        f = peers.attention(backend, False)
        new = peer(bench, f"{backend}, no rotation, no append", [lambda a=a, s=s: f(a, *s) for a, s in zip(q, kv)])
        for v in new:
            v.error = norm_error(f(q[0], *kv[0])[:4], reference)
        found += new
    del kv
    if not bench.options.peers_only:
        model = card_models.decode_attentions(bench.folder / "m.onnx", batch, layers)
        loaded = bench.load(model, "--kv-cache=state", f"--max-context={cached + 64}")
        session = loaded.session()
        fill = torch.randint(0, 512, (batch, cached), device="cuda")
        session.bind("input_ids", fill)
        session.run()
        one = fill[:, :1].contiguous()
        session.bind("input_ids", one)

        def run():
            session.truncate(cached - 1)
            session.run()
        decode = [b for b in loaded.explain().get("buckets", []) if b["name"] == "decode"] or [{}]
        found.append(Variant("fusion", run, layers, wall=True, overhead_us=bench.overhead_us, predicted_us=decode[0].get("us_after", 0) / layers or None))
    bench.point(f"rope + append + decode attention batch {batch} KV {cached}", found, (f"{target_us} us / fusion", lambda t: target_us / t["fusion"], 1.0),
                size / bench.ceilings["read_GBps"] / 1e3)


def decode_attention(bench):
    for point in ((1, 1024, 6.5), (1, 8192, 14), (8, 8192, 67), (64, 8192, 490)):
        cached_attention(bench, *point)


# Four bits

INT4_TARGETS = {(1, 28672): 18, (1, 4096, 4096): 4.2, (1, 4096, 14336): 11, (1, 6144): 5.5, (8, 28672): 20, (16, 28672): 22, (64, 28672): 31,
                (16, 4096, 4096): 8, (64, 4096, 4096): 11, (16, 4096, 14336): 15, (64, 4096, 14336): 21}
INT4_SHARES = {128: 0.75, 256: 0.92, 512: 1.0, 2048: 0.98}


@guarded
def int4_product(bench, m, n, k):
    floor = max((n * k // 2 + 2 * n * k // 128) / bench.ceilings["read_GBps"] / 1e3, 2 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    sets = card_models.copies(n * k // 2, most=32)
    count = max(sets, card_models.repeats(floor))
    model = card_models.int4_matmuls(bench.folder / "m.onnx", m, n, k, sets, count)
    weights = bench.weights(model)
    x = [random(m, k) for _ in range(count)]
    dense = [peers.dequantised(weights[f"q{i}"], weights[f"s{i}"]) for i in range(min(sets, 4))]
    reference = x[0].float() @ dense[0].float().t()
    found = peer(bench, "bf16 dense cuBLAS", [lambda a=a, w=w: F.linear(a, w) for a, w in zip(x, dense)], reference)
    if not bench.options.ours_only:
        kernels = [peers.tinygemm(weights[f"q{i}"], weights[f"s{i}"]) for i in range(sets)]
        found += peer(bench, "tinygemm", [lambda a=a, f=f: f(a) for a, f in zip(x, kernels)], reference)
        f = peers.compiled(lambda a, q, s: F.linear(a, peers.dequantised(q, s)))
        if m in (1, 2048):
            found += peer(bench, "compile (dequantise + matmul)", [lambda a=a, i=i: f(a, weights[f"q{i}"], weights[f"s{i}"]) for i, a in enumerate(x[:sets])], reference)
    found += ours(bench, model, {f"x{i}": t for i, t in enumerate(x)}, {f"y{i}": random(m, n) for i in range(count)}, count, lambda: {"y0": reference})
    us = INT4_TARGETS.get((m, n)) or INT4_TARGETS.get((m, n, k))
    target = (f"{us} us / fusion", lambda t: us / t["fusion"], 1.0) if us else None
    if m in INT4_SHARES and n == 28672:
        target = ("bf16 dense / fusion", lambda t: t["bf16 dense cuBLAS"] / t["fusion"], INT4_SHARES[m])
    bench.point(f"int4 g128 M={m} N={n} K={k}", found, target, floor)


def int4(bench):
    for m in (1, 16, 64):
        for n, k in reversed(MATRICES):
            int4_product(bench, m, n, k)
    for m in (8, 128, 256, 512, 2048):
        int4_product(bench, m, 28672, 4096)


# Other formats of 4 and 8 bits

FORMAT_TARGETS = {("nvfp4", 1): 28, ("nvfp4", 64): 38, ("fp8", 1): 31, ("fp8", 64): 38}
ROW_BYTES = {"fp8": lambda k: k, "nvfp4": lambda k: k / 2 + k / 16, "int4": lambda k: k / 2 + k / 64, "zeros": lambda k: k / 2 + k / 64 + k / 256}


@guarded
def low_bit_product(bench, kind, m, n, k):
    size = int(n * ROW_BYTES[kind](k))
    floor = max(size / bench.ceilings["read_GBps"] / 1e3, 2 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    sets = card_models.copies(size, most=8)
    count = max(sets, card_models.repeats(floor, most=100))
    model = card_models.low_bit_matmuls(bench.folder / "m.onnx", kind, m, n, k, sets, count)
    weights = bench.weights(model)
    x = [random(m, k) for _ in range(count)]
    dense = [peers.low_bit(kind, weights, i, card_models.GLOBAL_SCALE) for i in range(min(sets, 3))]
    reference = x[0].float() @ dense[0].float().t()
    found = peer(bench, "bf16 dense cuBLAS", [lambda a=a, w=w: F.linear(a, w) for a, w in zip(x, dense)], reference)
    outputs = {f"y{i}": random(m, n) for i in range(count)}
    inputs = {f"x{i}": t for i, t in enumerate(x)}
    found += ours(bench, model, inputs, outputs, count, lambda: {"y0": reference})
    us = FORMAT_TARGETS.get((kind, m))
    target = (f"{us} us / fusion", lambda t: us / t["fusion"], 1.0) if us else ("bf16 dense / fusion", lambda t: t["bf16 dense cuBLAS"] / t["fusion"], 1.0)
    if kind == "zeros":
        model = card_models.low_bit_matmuls(bench.folder / "s.onnx", "int4", m, n, k, sets, count)
        symmetric = ours(bench, model, inputs, outputs, count, lambda: {})
        found += [dataclasses.replace(v, name="fusion, symmetric") for v in symmetric]
        target = ("1.08 x symmetric / fusion", lambda t: 1.08 * t["fusion, symmetric"] / t["fusion"], 1.0)
    bench.point(f"{kind} M={m} N={n} K={k}", found, target, floor)


@guarded
def low_bit_front(bench, m, n, k):
    """silu(x gate) * (x up) in int4, beside one product of as many rows."""
    size = 2 * int(n * ROW_BYTES["int4"](k))
    floor = max(size / bench.ceilings["read_GBps"] / 1e3, 4 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)
    sets = card_models.copies(size, most=8)
    count = max(sets, card_models.repeats(floor, most=100))
    x = [random(m, k) for _ in range(count)]
    inputs = {f"x{i}": t for i, t in enumerate(x)}
    model = card_models.low_bit_matmuls(bench.folder / "m.onnx", "int4", m, n, k, sets, count, gated=True)
    weights = bench.weights(model)
    gate, up = (peers.low_bit("int4", weights, i, 1).float() for i in (0, 1))
    reference = F.silu(x[0].float() @ gate.t()) * (x[0].float() @ up.t())
    found = ours(bench, model, inputs, {f"y{i}": random(m, n) for i in range(count)}, count, lambda: {"y0": reference})
    plain = card_models.low_bit_matmuls(bench.folder / "p.onnx", "int4", m, 2 * n, k, sets, count)
    found += [dataclasses.replace(v, name="fusion, plain product") for v in ours(bench, plain, inputs, {f"y{i}": random(m, 2 * n) for i in range(count)}, count, lambda: {})]
    bench.point(f"int4 SwiGLU front M={m} {k}->{n}", found, ("1.05 x plain product / fusion", lambda t: 1.05 * t["fusion, plain product"] / t["fusion"], 1.0), floor)


def low_bit(bench):
    for m in (1, 64, 2048):
        for kind in ("nvfp4", "fp8"):
            low_bit_product(bench, kind, m, 28672, 4096)
    for m in (16, 64, 128, 2048):
        low_bit_product(bench, "zeros", m, 28672, 4096)
    for m in (1, 16, 64):
        low_bit_front(bench, m, 14336, 4096)


# Whole models

def generated(bench, form, c):
    """Tokens a second of our decode at a context of 1024 and microseconds of a prefill of 2048, by fusion-run."""
    start = time.time()
    path = bench.folder / "llama.onnx"
    size = random_llama.build(path, c, form)
    built = time.time()
    bench.tool("fusion-compile", path, "-o", bench.folder / "llama.fusion", "--target=sm_90a", "--kv-cache=state", "--max-context=2304", "--logits=last")
    path.with_name("llama.onnx.data").unlink()
    print(f"written {size / 1e9:.1f} GB in {built - start:.1f} s, compiled in {time.time() - built:.1f} s", flush=True)
    result = {}
    for prompt, count in ((1024, 64), (2048, 2)):
        ids = ",".join(str(i * 7919 % c.vocab) for i in range(prompt))
        out = json.loads(bench.tool("fusion-run", bench.folder / "llama.fusion", "--device=cuda", f"--generate={count}", f"--prompt-ids={ids}", "--bench=5", "--json"))
        result[prompt] = out
        print(f"  prompt {prompt}: " + ", ".join(f"{k} {v:.1f}" for k, v in out.items() if isinstance(v, float)), flush=True)
    (bench.folder / "llama.fusion").unlink()
    return 1e6 / result[1024]["decode_tokens_per_s"], 2048e6 / result[2048]["prefill_tokens_per_s"]


def fixed(name, us):
    """A time that another program measured."""
    return {"variant": name, "us": us}


@guarded
def whole_model(bench, form, targets):
    c = dataclasses.replace(random_llama.SIZES["8b"], layers=bench.options.layers)
    decode, prefill = {}, {}
    if not bench.options.ours_only and form == "bf16":
        model = card_llama.Llama(c, 2176)
        for mode in ("default", "max-autotune"):
            model.compile_layers(mode)
            step = card_llama.decode_step(model, 1023)
            seconds = card_llama.warm(step)
            times = race_one(graphed([step]))
            decode[f"compile per layer ({mode}), graph"] = times
            print(f"  torch.compile {mode}: first step {seconds:.0f} s, {1e6 / times:.1f} tokens/s", flush=True)
        model.compile_layers("default")
        run = card_llama.prefill(model, 2048)
        card_llama.warm(run)
        prefill["compile per layer (default)"] = race_one((run, 1), 7)
        del model, step, run
        torch.cuda.empty_cache()
    if not bench.options.peers_only:
        decode["fusion"], prefill["fusion"] = generated(bench, form, c)
    for point, times, tokens in ((f"{form} decode, batch 1, context 1024", decode, 1), (f"{form} prefill of 2048 tokens", prefill, 2048)):
        print(f"{c.layers} layers, {point}")
        for name, us in sorted(times.items(), key=lambda p: p[1]):
            print(f"  {name:40s} {us / 1e3:9.3f} ms  {tokens * 1e6 / us:9.1f} tokens/s" + (f"  {times['fusion'] / us:5.2f} = fusion / this" if "fusion" in times and name != "fusion" else ""))
            bench.results.append({"point": point, **fixed(name, us)})
    if "fusion" in decode and targets:
        print(f"  decode: {1e6 / decode['fusion']:.1f} tokens/s, wanted {targets}: {'met' if 1e6 / decode['fusion'] >= targets else 'MISSED'}")


def race_one(replay_and_calls, rounds=15):
    from card_measure import race
    return race([Variant("x", *replay_and_calls)], rounds)["x"].us


def model(bench):
    whole_model(bench, "bf16", 255)


def model_int4(bench):
    whole_model(bench, "int4", 560)
