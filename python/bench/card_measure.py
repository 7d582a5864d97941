"""Timing on a card: variants in random order, medians and spread; the ceilings that everything is held against.

Everything is timed alike: by the processor's clock, from before a run (a session's, or a peer's graph's) until it is complete, less
a run of one tiny kernel made the same way just before. So neither launch nor wait counts, nor the about 2 us of that kernel.
"""
import dataclasses
import functools
import random
import statistics
import time
import typing

import torch


@dataclasses.dataclass
class Variant:
    name: str
    run: typing.Callable[[], None]  # returns when it is complete
    calls: int = 1  # executions of the operation in one run
    tiny: typing.Callable[[], None] | None = None  # a run of one tiny kernel made the same way; without it, a graph's
    error: float | None = None
    predicted_us: float | None = None


@dataclasses.dataclass
class Target:
    """What a point must be: `measure` of {variant: microseconds} at least (or at most) `asked`."""
    wanted: str
    asked: float
    measure: typing.Callable[[dict], float | None]
    most: bool = True


def at_most_us(us):
    return Target(f"at most {us} us", us, lambda t: t["fusion"])


def at_most(times, variant, name=None):
    """No more than so many times another variant's time."""
    return Target(f"at most {times:g} x {name or variant}", times, lambda t: t["fusion"] / t[variant] if variant in t else None)


def at_most_floor(times, floor_us):
    return Target(f"at most {times:g} x the read floor", times, lambda t: t["fusion"] / floor_us)


def at_least_speed(times, variant):
    return Target(f"at least {times:g} x the speed of {variant}", times, lambda t: t[variant] / t["fusion"] if variant in t else None, most=False)


def at_least_share_of(share, variant):
    return Target(f"at least {100 * share:g} % of {variant}", share, lambda t: t[variant] / t["fusion"] if variant in t else None, most=False)


def at_least_share(share, of, floor_us):
    return Target(f"at least {100 * share:g} % of {of}", share, lambda t: floor_us / t["fusion"], most=False)


@dataclasses.dataclass
class Timing:
    us: float
    low: float  # 10 % and 90 % of the rounds
    high: float

    @property
    def spread(self):
        return (self.high - self.low) / self.us


class Replay:
    """A run of a captured graph, with the calls that it is made of: it reads the tensors that they hold, which nothing else may keep
    alive. (The next capture returns freed memory to the card.)"""

    def __init__(self, graph, functions):
        self.graph, self.functions = graph, functions

    def __call__(self):
        self.graph.replay()
        torch.cuda.synchronize()


@functools.cache
def tiny_graph():
    """A run of one tiny kernel, as peers run."""
    x = torch.ones(64, device="cuda", dtype=torch.bfloat16)
    return graphed([lambda: -x], 1)[0]


def graphed(functions, calls=None, least_ms=1.8):
    """One CUDA graph of `calls` calls that take turns, by default as many as outweigh its launch; (run, number of calls). Results
    stay alive, so each call writes memory of its own."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for f in functions[:2]:
            f()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        functions[0]()
        end.record()
        torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(side)
    each = max(begin.elapsed_time(end), 1e-3)
    calls = calls or len(functions) * max(1, min(64, round(least_ms / (each * len(functions)))))
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for i in range(calls):
            kept.append(functions[i % len(functions)]())
    del kept
    return Replay(graph, functions), calls


def microseconds(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def once(variant):
    """Microseconds of one execution."""
    tiny = variant.tiny or tiny_graph()
    tiny()  # wakes processor and card
    apart = microseconds(tiny)
    return (microseconds(variant.run) - apart) / variant.calls


def rest_s(rows):
    """Seconds before each run of products of so many rows: what draws much power slows what follows it. (Packed ones of 64 rows do: they
    run at 1.43 GHz even so, dense ones at 1.8.)"""
    return 0.02 if rows > 1024 else 0.005 if rows >= 64 else 0.0


def race(variants, rounds=21, rest_s=0.0):
    """{name: Timing}. Every round runs each variant once, in another order; `rest_s` lets the clocks recover before each."""
    times = {v.name: [] for v in variants}
    for v in variants:
        once(v), once(v)
    for _ in range(rounds):
        for v in random.sample(variants, len(variants)):
            if rest_s:
                time.sleep(rest_s)
            times[v.name].append(once(v))
    def timing(t):
        t = sorted(t)
        return Timing(statistics.median(t), t[len(t) // 10], t[-1 - len(t) // 10])
    return {name: timing(t) for name, t in times.items()}


def norm_error(found, reference):
    found, reference = found.double().flatten(), reference.double().flatten()
    return float((found - reference).norm() / reference.norm().clamp_min(1e-30))


def ceilings():
    """Bytes a second read and copied, bf16 FLOP a second, in this run."""
    import card_peers
    n = 1 << 30
    x = torch.empty(n, dtype=torch.bfloat16, device="cuda").normal_()
    y = torch.empty_like(x)
    partial = torch.empty(132 * 16, device="cuda")
    m = 8192
    a, b = (torch.randn(m, m, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    variant = lambda name, function: Variant(name, *graphed([function], 2))
    reads = [variant(f"read {s}", lambda s=s: card_peers.read(x, partial, *s)) for s in card_peers.READ_SHAPES]
    copies = [variant("copy", lambda: card_peers.copy(x, y)), variant("tensor.copy_", lambda: y.copy_(x))]
    # Apart: what draws much power slows what follows it.
    t = {name: timing for group in (reads, copies, [variant("matmul", lambda: a @ b)]) for name, timing in race(group, rounds=15).items()}
    read = min(t[v.name].us for v in reads)
    copy = min(t["copy"].us, t["tensor.copy_"].us)
    return {"read_GBps": 2 * n / read / 1e3, "copy_GBps": 4 * n / copy / 1e3, "matmul_TFLOPs": 2 * m ** 3 / t["matmul"].us / 1e6}
