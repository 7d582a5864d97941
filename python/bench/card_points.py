"""What the sections of the card's benchmark share: ours and the peers as variants of a point."""
import functools
import time
import traceback

import torch

from card_measure import Variant, graphed, norm_error

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
        start = time.time()
        try:
            function(bench, *arguments)
            print(f"  ({time.time() - start:.1f} s)", flush=True)
        except Exception as e:  # noqa: BLE001
            print(f"FAIL {function.__name__} {' '.join(str(a) for a in arguments if not callable(a))}: {type(e).__name__}: {str(e)[:700]}", flush=True)
            if not isinstance(e, RuntimeError):
                traceback.print_exc()
            if isinstance(e, getattr(torch, "AcceleratorError", ())):
                raise  # the card refuses everything that follows in this process
        torch.cuda.empty_cache()
    return run


def predicted(explain, bucket=None, template=""):
    """Microseconds that the compiler gives the kernels of a bucket (of the first), or those of a template."""
    bucket = bucket or explain["buckets"][0]["name"]
    return sum(k["us"] * k["launches"] for k in explain["kernels"] if k["bucket"] == bucket and template in k["template"])


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
    return [Variant("fusion", session.run, count, tiny=bench.tiny, error=error, predicted_us=predicted(loaded.explain()) / count or None)]


WRONG = 0.05  # of the reference's norm: more than any peer loses in 16 bits


def peer(bench, name, functions, reference=None, calls=None):
    """A captured peer, or nothing when it fails or computes something else. `calls` in one run: as many as ours where its runs have a
    number of them. Each call runs once outside of the capture, so that a fault is found where it is made."""
    if bench.options.ours_only:
        return []
    try:
        first = functions[0]()
        first = first[-1] if isinstance(first, tuple) else first
        error = norm_error(first, reference) if reference is not None and first.shape == reference.shape else None
        if error is not None and not error < WRONG:
            print(f"  {name}: error {error:.1e}, left out")
            return []
        for f in functions[1:]:
            f()
        torch.cuda.synchronize()
        return [Variant(name, *graphed(functions, calls), error=error)]
    except Exception as e:  # noqa: BLE001
        print(f"  {name}: {type(e).__name__}: {str(e)[:200]}")
        return []
