"""Sections of the card's benchmark with weights of 4 and 8 bits."""
import dataclasses

import torch.nn.functional as F

import card_models
import card_peers as peers
from card_measure import at_most, at_most_us, rest_s
from card_points import MATRICES, guarded, ours, peer, random

ROW_BYTES = {"fp8": lambda k: k, "nvfp4": lambda k: k / 2 + k / 16, "int4": lambda k: k / 2 + k / 64, "zeros": lambda k: k / 2 + k / 64 + k / 256}
DENSE = "bf16 dense cuBLASLt"
SYMMETRIC = "fusion, symmetric"
# (M, N, K): microseconds asked of int4 in groups of 128.
INT4_US = {(1, 28672, 4096): 18, (1, 4096, 4096): 4.2, (1, 4096, 14336): 11, (1, 6144, 4096): 5.5, (8, 28672, 4096): 20, (16, 28672, 4096): 22,
           (64, 28672, 4096): 31, (16, 4096, 4096): 8, (64, 4096, 4096): 11, (16, 4096, 14336): 15, (64, 4096, 14336): 21}
INT4_OF_DENSE = {128: 0.75, 256: 0.92, 512: 1.0, 2048: 0.98}
FORMAT_US = {("nvfp4", 1): 28, ("nvfp4", 64): 38, ("fp8", 1): 31, ("fp8", 64): 38}


def floor_us(bench, size, m, n, k):
    return max(size / bench.ceilings["read_GBps"] / 1e3, 2 * m * n * k / bench.ceilings["matmul_TFLOPs"] / 1e6)


def dense_peers(bench, x, dense, reference):
    """The same product in bf16: cuBLASLt's first heuristic, and cuBLAS."""
    found = []
    for library, name in (("cublaslt", DENSE), ("cublas", "bf16 dense cuBLAS")):
        with peers.blas(library):
            found += peer(bench, name, [lambda a=a, w=dense[i % len(dense)]: F.linear(a, w) for i, a in enumerate(x)], reference)
    return found


def tinygemm_peer(bench, x, weights, sets, reference):
    try:
        kernels = [peers.tinygemm(weights[f"q{i}"], weights[f"s{i}"], weights.get(f"z{i}")) for i in range(sets)]
    except RuntimeError as e:
        print(f"  tinygemm: {str(e)[:200]}")
        return []
    return peer(bench, "tinygemm", [lambda a=a, f=kernels[i % sets]: f(a) for i, a in enumerate(x)], reference)


def compiled_peer(bench, kind, x, weights, sets, reference):
    """torch.compile of decoding the weight and multiplying: one row fuses both, more rows leave the product to cuBLAS."""
    f = peers.compiled(lambda a, w: F.linear(a, peers.low_bit(kind, w, 0, card_models.GLOBAL_SCALE)))
    each = [{name[0] + "0": t for name, t in weights.items() if name[1:] == str(i)} for i in range(sets)]
    return peer(bench, "compile (decode + matmul)", [lambda a=a, w=each[i % sets]: f(a, w) for i, a in enumerate(x)], reference)


@guarded
def product(bench, kind, m, n, k, target):
    size = int(n * ROW_BYTES[kind](k))
    floor = floor_us(bench, size, m, n, k)
    sets = card_models.copies(size, most=24)
    count = max(sets, card_models.repeats(floor))
    model = card_models.low_bit_matmuls(bench.folder / "m.onnx", kind, m, n, k, sets, count)
    weights = bench.weights(model)
    x = [random(m, k) for _ in range(count)]
    dense = [peers.low_bit(kind, weights, i, card_models.GLOBAL_SCALE) for i in range(min(sets, 4))]
    reference = x[0].float() @ dense[0].float().t()
    found = dense_peers(bench, x[:8], dense, reference)
    if not bench.options.ours_only:
        if kind in ("int4", "zeros"):
            found += tinygemm_peer(bench, x[:max(8, sets)], weights, sets, reference)
        found += compiled_peer(bench, kind, x[:max(4, min(sets, 8))], weights, sets, reference)
    outputs = {f"y{i}": random(m, n) for i in range(count)}
    inputs = {f"x{i}": t for i, t in enumerate(x)}
    found += ours(bench, model, inputs, outputs, count, lambda: {"y0": reference})
    if kind == "zeros":
        model = card_models.low_bit_matmuls(bench.folder / "s.onnx", "int4", m, n, k, sets, count)
        found += [dataclasses.replace(v, name=SYMMETRIC) for v in ours(bench, model, inputs, outputs, count, lambda: {})]
    name = f"{kind}{' g128' if kind in ('int4', 'zeros') else ''} M={m} N={n} K={k}"
    bench.point(name, found, target, floor, rest_s=rest_s(m))
    if rest_s(m) >= 0.02:
        # What is left of it when the card is hot: asked of nobody.
        bench.point(f"{name}, without rests", [v for v in found if v.name in ("fusion", SYMMETRIC, DENSE)], floor_us=floor)


def int4_us(bench, m, n, k):
    product(bench, "int4", m, n, k, at_most_us(INT4_US[m, n, k]))


def int4_row(bench):
    for n, k in reversed(MATRICES):
        int4_us(bench, 1, n, k)


def int4_few(bench):
    for m, n, k in INT4_US:
        if m > 1:
            int4_us(bench, m, n, k)


def int4_many(bench):
    for m, times in INT4_OF_DENSE.items():
        product(bench, "int4", m, 28672, 4096, at_most(times, DENSE))


def formats(bench):
    for m in (1, 64, 2048):
        for kind in ("nvfp4", "fp8"):
            us = FORMAT_US.get((kind, m))
            product(bench, kind, m, 28672, 4096, at_most_us(us) if us else at_most(1.0, DENSE))


def zeros(bench):
    for m in (1, 16, 64, 128, 2048):
        product(bench, "zeros", m, 28672, 4096, at_most(1.08, SYMMETRIC, "the symmetric time"))


@guarded
def gated_front(bench, m, n=14336, k=4096):
    """silu(norm(x) gate) * (norm(x) up) in int4, beside one product of as many rows."""
    size = 2 * int(n * ROW_BYTES["int4"](k))
    floor = floor_us(bench, size, m, 2 * n, k)
    sets = card_models.copies(size, most=8)
    count = max(sets, card_models.repeats(floor))
    x = [random(m, k) for _ in range(count)]
    inputs = {f"x{i}": t for i, t in enumerate(x)}
    model = card_models.low_bit_matmuls(bench.folder / "m.onnx", "int4", m, n, k, sets, count, gated=True)
    weights = bench.weights(model)
    gate, up = (peers.low_bit("int4", weights, i, 1).float() for i in (0, 1))
    normed = peers.rms_norm(x[0], weights["g"]).float()
    reference = F.silu(normed @ gate.t()) * (normed @ up.t())
    found = ours(bench, model, inputs, {f"y{i}": random(m, n) for i in range(count)}, count, lambda: {"y0": reference})
    plain = card_models.low_bit_matmuls(bench.folder / "p.onnx", "int4", m, 2 * n, k, sets, count)
    found += [dataclasses.replace(v, name="fusion, plain product") for v in ours(bench, plain, inputs, {f"y{i}": random(m, 2 * n) for i in range(count)}, count, lambda: {})]
    bench.point(f"int4 SwiGLU front M={m} {k}->{n}", found, at_most(1.05, "fusion, plain product", "the plain product"), floor)


def front(bench):
    for m in (1, 16):
        gated_front(bench, m)
