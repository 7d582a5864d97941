"""What the compiler is raced against on the card: plain torch, torch.compile, cuBLAS, attention backends, hand-written Triton."""
import contextlib

import torch
import torch.nn.functional as F
import triton
import triton.language as tl


def compiled(function, mode=None):
    """torch.compile for one shape. max-autotune without its own graphs: all peers are captured alike."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False, fullgraph=True, mode={"max-autotune": "max-autotune-no-cudagraphs"}.get(mode, mode))


@contextlib.contextmanager
def blas(library):
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library(library)
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


# Bandwidth

@triton.jit
def _read(x, out, count, BLOCK: tl.constexpr):
    program, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    lanes, total = tl.arange(0, BLOCK), tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(count):
        total += tl.load(x + (i * programs + program) * BLOCK + lanes).to(tl.float32)
    tl.store(out + program, tl.sum(total, 0))


# Elements a program loads at once, its warps, programs: the best of them counts.
READ_SHAPES = ((8192, 8, 132 * 4), (4096, 4, 132 * 8), (16384, 16, 132 * 2), (2048, 4, 132 * 16))


def read(x, partial, block, warps, programs):
    _read[(programs,)](x, partial, x.numel() // (block * programs), BLOCK=block, num_warps=warps)


@triton.jit
def _copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


def copy(x, y, block=8192):
    _copy[(x.numel() // block,)](x, y, BLOCK=block, num_warps=8)


# Norms

def add_rms_norm(a, b, weight):
    s = a + b
    f = s.float()
    return s, weight * (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(s.dtype)


@triton.jit
def _add_rms_norm(a, b, w, s, y, WIDTH: tl.constexpr):
    row, lanes = tl.program_id(0).to(tl.int64) * WIDTH, tl.arange(0, WIDTH)
    total = (tl.load(a + row + lanes).to(tl.float32) + tl.load(b + row + lanes).to(tl.float32)).to(tl.bfloat16)
    tl.store(s + row + lanes, total)
    f = total.to(tl.float32)
    n = (f * tl.rsqrt(tl.sum(f * f, 0) / WIDTH + 1e-5)).to(tl.bfloat16).to(tl.float32)
    tl.store(y + row + lanes, (n * tl.load(w + lanes).to(tl.float32)).to(tl.bfloat16))


def triton_add_rms_norm(a, b, weight, warps):
    s, y = torch.empty_like(a), torch.empty_like(a)
    _add_rms_norm[(a.shape[0],)](a, b, weight, s, y, WIDTH=a.shape[1], num_warps=warps)
    return s, y


# Gated product

def gated(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


@triton.jit
def _gated(x, gate, up, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, across = tl.program_id(0), tl.cdiv(N, BN)
    group = tile // (8 * across)
    height = min(tl.cdiv(M, BM) - group * 8, 8)
    rows = (group * 8 + (tile % (8 * across)) % height) * BM + tl.arange(0, BM)
    columns, depth = (tile % (8 * across)) // height * BN + tl.arange(0, BN), tl.arange(0, BK)
    a, b = tl.zeros((BM, BN), dtype=tl.float32), tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(x + rows[:, None] * K + (k + depth)[None, :], mask=rows[:, None] < M, other=0.0)
        at = columns[None, :] * K + (k + depth)[:, None]
        a, b = tl.dot(left, tl.load(gate + at), a), tl.dot(left, tl.load(up + at), b)
    tl.store(y + rows[:, None] * N + columns[None, :], (a * tl.sigmoid(a) * b).to(tl.bfloat16), mask=rows[:, None] < M)


def triton_gated(x, gate, up):
    (m, k), n = x.shape, gate.shape[0]
    bm, bn, bk, warps = (16, 64, 128, 4) if m <= 16 else (128, 128, 64, 8)
    y = torch.empty(m, n, device=x.device, dtype=x.dtype)
    _gated[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](x, gate, up, y, m, n, k, BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=3)
    return y


# Attention

def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def tables(rows, d=128, base=500000.0):
    angle = torch.outer(torch.arange(rows, device="cuda").float(), 1.0 / base ** (torch.arange(0, d, 2, device="cuda").float() / d))
    angle = torch.cat((angle, angle), -1)
    return angle.cos().bfloat16(), angle.sin().bfloat16()


def attention(backend, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kind = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}[backend]

    def run(q, k, v):
        with sdpa_kernel(kind):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return run


def reference_attention(q, k, v, causal, rows=256):
    """fp32, of the last rows; q and k rotated already."""
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s, t = q.shape[2], k.shape[2]
    rows = min(rows, s)
    score = q[:, :, s - rows:].float() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        score = score.masked_fill(torch.arange(t - rows, t, device="cuda")[:, None] < torch.arange(t, device="cuda")[None], float("-inf"))
    return torch.softmax(score, -1) @ v


# Four bits

def dequantised(packed, scales):
    """[N, K] in bf16 from MatMulNBits' blocks."""
    q = torch.stack((packed & 15, packed >> 4), -1).view(*packed.shape[:2], -1)
    return ((q.bfloat16() - 8) * scales[..., None]).flatten(1)


def low_bit(kind, weights, i, global_scale):
    """[N, K] in bf16 of a weight of card_models.low_bit_weight."""
    q, s = weights[f"q{i}"], weights[f"s{i}"]
    if kind == "fp8":
        return (q.view(torch.float8_e4m3fn).float() * s.float()[:, None]).bfloat16()
    if kind == "nvfp4":
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
        values = torch.cat((values, -values))
        codes = torch.stack((q & 15, q >> 4), -1).flatten(1)
        scales = s.view(torch.float8_e4m3fn).float() * global_scale
        return (values[codes.long()] * scales.repeat_interleave(16, 1)).bfloat16()
    if kind == "int4":
        return dequantised(q, s)
    z = torch.stack((weights[f"z{i}"] & 15, weights[f"z{i}"] >> 4), -1).flatten(1)
    codes = torch.stack((q & 15, q >> 4), -1).view(*q.shape[:2], -1)
    return ((codes.float() - z.float()[..., None]) * s.float()[..., None]).bfloat16().flatten(1)


def tinygemm(packed, scales, zeros=None):
    """torch's own int4 kernel over the same weights; it adds `zero` to what it makes of (q - 8) scale."""
    n = packed.shape[0]
    flat = packed.reshape(n, -1)
    weight = torch._convert_weight_to_int4pack(((flat & 15) << 4) | (flat >> 4), 8)
    offset = torch.zeros_like(scales)
    if zeros is not None:
        z = torch.stack((zeros & 15, zeros >> 4), -1).flatten(1)
        offset = ((8 - z.float()) * scales.float()).bfloat16()
    factors = torch.stack((scales.t(), offset.t()), -1).contiguous()
    return lambda x: torch._weight_int4pack_mm(x, weight, 128, factors)


def rms_norm(x, weight):
    f = x.float()
    return weight * (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
