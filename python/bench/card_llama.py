"""A Llama-3-8B shape in torch, as a careful user writes it: fused QKV weight, static cache, attention over it without a mask."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from card_peers import rotate, tables


def parameter(*shape, scale=0.02):
    return nn.Parameter(torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_(0, scale), requires_grad=False)


def rms_norm(x, weight):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


class Linear(nn.Module):
    def __init__(self, n, k):
        super().__init__()
        self.weight = parameter(n, k)

    def forward(self, x):
        return F.linear(x, self.weight)


class Int4Linear(nn.Module):
    """Random 4-bit weights in groups of 128 for torch's own kernel."""

    def __init__(self, n, k):
        super().__init__()
        codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
        scales = torch.empty(k // 128, n, device="cuda", dtype=torch.bfloat16).uniform_(0.5, 1.5) * (k ** -0.5 / 4.6)
        self.register_buffer("packed", torch._convert_weight_to_int4pack(codes, 8))
        self.register_buffer("factors", torch.stack((scales, torch.zeros_like(scales)), -1).contiguous())
        self.n = n

    def forward(self, x):
        return torch._weight_int4pack_mm(x.reshape(-1, x.shape[-1]), self.packed, 128, self.factors).view(*x.shape[:-1], self.n)


class Layer(nn.Module):
    def __init__(self, c, context, linear):
        super().__init__()
        self.c, width = c, c.heads * c.head_dim
        self.kv = c.kv_heads * c.head_dim
        self.qkv, self.o = linear(width + 2 * self.kv, c.hidden), linear(c.hidden, width)
        self.gate_up, self.down = linear(2 * c.ffn, c.hidden), linear(c.hidden, c.ffn)
        self.n1, self.n2 = parameter(c.hidden), parameter(c.hidden)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.empty(1, c.kv_heads, context, c.head_dim, device="cuda", dtype=torch.bfloat16).normal_())

    def forward(self, x, cos, sin, position, seen: int):
        c, (batch, rows, _) = self.c, x.shape
        split = self.qkv(rms_norm(x, self.n1)).split([c.heads * c.head_dim, self.kv, self.kv], -1)
        q, k, v = (t.view(batch, rows, -1, c.head_dim).transpose(1, 2) for t in split)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys[:, :, position], self.values[:, :, position] = k, v
        if rows > 1:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            y = F.scaled_dot_product_attention(q, self.keys[:, :, :seen], self.values[:, :, :seen], enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, rows, -1))
        gate, up = self.gate_up(rms_norm(x, self.n2)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, context, linear=Linear):
        super().__init__()
        self.embedding, self.head, self.norm = parameter(c.vocab, c.hidden), parameter(c.vocab, c.hidden), parameter(c.hidden)
        self.layers = nn.ModuleList(Layer(c, context, linear) for _ in range(c.layers))
        self.cos, self.sin = tables(context, c.head_dim)

    def forward(self, ids, position, seen=1024):
        x, cos, sin = F.embedding(ids, self.embedding), self.cos[position], self.sin[position]
        for layer in self.layers:
            x = layer(x, cos, sin, position, seen)
        return F.linear(rms_norm(x[:, -1:], self.norm), self.head)[:, -1].argmax(-1, keepdim=True)

    def compile_layers(self, mode):
        torch._dynamo.reset()
        for layer in self.layers:
            layer._compiled_call_impl = None
            if mode != "eager":
                layer.compile(mode={"max-autotune": "max-autotune-no-cudagraphs"}.get(mode), fullgraph=True, dynamic=False)


def decode_step(model, at):
    """One token at position `at`, to be captured: feeds its own choice back."""
    ids, position = torch.zeros(1, 1, dtype=torch.int64, device="cuda"), torch.tensor([at], device="cuda")
    return lambda: ids.copy_(model(ids, position))


def prefill(model, rows):
    ids, position = torch.randint(0, model.embedding.shape[0], (1, rows), device="cuda"), torch.arange(rows, device="cuda")
    return lambda: model(ids, position)


def warm(function):
    """Seconds of the first call, compilation included."""
    start = time.time()
    function()
    torch.cuda.synchronize()
    return time.time() - start
