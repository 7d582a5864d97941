#!/usr/bin/env python3
"""Speed on a card: generated kernels and whole models beside torch eager, torch.compile, cuBLAS(Lt), attention backends and hand-written
Triton, in one run.

    card.py [--bin build/dev/bin] [--only gemm,gemm-rows,gated,gemv,norm,attention,decode-attention,int4-row,int4-few,
            int4-many,formats,zeros,front,model,model-int4] [--seconds 60] [--max-autotune]
            [--peers-only | --ours-only] [--layers N] [--out results.json]

Medians of rounds in random order, each operation repeated over random tensors that exceed the L2 cache; the spread (10 % to 90 % of
the rounds) is printed. All repetitions of an operation are one CUDA graph, ours and the peers', of the same number where one is
given (about 1.8 ms of work), and timed alike: by the processor's clock until the run is complete, less a run of one tiny kernel
(a session's for ours, a graph's for the peers) made just before. Where a variant rests before each run, so do all of its point:
products of 64 rows and more, in 16 bits and with packed weights, for 5 ms, of more than 1024 rows for 20 ms, since each would run
at the clocks that the power of the one before it left. Packed ones of so many rows are raced without rests as well, of which
nothing is asked. Ceilings (bytes read and copied, bf16 FLOPs) are measured first.
`predicted` is the compiler's model of each kernel's template (--explain), made before the run.

Sections take less than --seconds each and run alone; --out adds to what the file has of the same card and versions, so that a
run can be divided. `card_table.py` writes README's table from it.
Needs torch, triton, numpy, onnx, ml_dtypes, and ptxas of a CUDA toolkit. Without a card it says `skipped`.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

SECTIONS = ("gemm", "gemm-rows", "gated", "gemv", "norm", "attention", "decode-attention", "int4-row", "int4-few", "int4-many",
            "formats", "zeros", "front", "model", "model-int4")


def environment():
    import torch
    import triton
    query = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return {"card": f"{torch.cuda.get_device_name()}, {query.stdout.splitlines()[0]}", "torch": torch.__version__, "triton": triton.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


class Bench:
    """What the sections share: tools, ceilings, results."""

    def __init__(self, options, folder):
        import card_measure
        self.options, self.folder, self.results, self.section = options, folder, [], None
        self.ceilings = card_measure.ceilings()
        self.environment = environment()
        self.deadline = 0.0
        self.resume()
        self.tiny = None if options.peers_only else self.tiny_run()
        print("ceilings: " + ", ".join(f"{k} {v:.0f}" for k, v in self.ceilings.items()), flush=True)

    @property
    def left(self):
        """Seconds until the section should end."""
        return self.deadline - time.time()

    def tiny_run(self):
        """A run of ours of one tiny kernel."""
        import card_measure
        import card_models
        import torch
        session = self.load(card_models.nothing(self.folder / "nothing.onnx")).session()
        x = torch.ones(64, device="cuda", dtype=torch.bfloat16)
        y = torch.empty_like(x)
        session.bind("x", x)
        session.bind_output("y", y)
        def run(*, alive=(x, y)):
            session.run()
        runs = {"ours": run, "a graph": card_measure.tiny_graph()}
        times = {name: statistics.median(card_measure.microseconds(run) for _ in range(101)) for name, run in runs.items()}
        print("a run of one tiny kernel: " + ", ".join(f"{name} {us:.1f} us" for name, us in times.items()))
        return run

    def tool(self, name, *arguments):
        p = subprocess.run([str(self.options.bin / name), *map(str, arguments)], capture_output=True, text=True, timeout=300)
        if p.returncode:
            raise RuntimeError(f"{name}: exit {p.returncode}: {p.stderr[-600:]}")
        return p.stdout

    def compile(self, model, *options):
        """Compiles an ONNX file for the card."""
        self.tool("fusion-compile", model, "-o", model.with_suffix(".fusion"), "--target=sm_90a", *options)

    def load(self, model, *options):
        """Compiles an ONNX file for the card and opens it."""
        self.compile(model, *options)
        return self.open(model)

    def open(self, model):
        """Opens what an ONNX file was compiled to."""
        from fusion import runtime
        artifact = model.with_suffix(".fusion")
        loaded = runtime.Model(artifact, "cuda", runtime.Library(runtime.find_library(self.options.bin)))
        artifact.unlink()  # the weights are on the card
        return loaded

    def weights(self, model):
        """{name: tensor on the card} of a model's external data."""
        import ml_dtypes  # noqa: F401 - registers bfloat16
        import numpy as np
        import onnx
        import torch
        result = {}
        for t in onnx.load(model, load_external_data=False).graph.initializer:
            place = {e.key: e.value for e in t.external_data}
            if not place:
                continue
            dtype = onnx.helper.tensor_dtype_to_np_dtype(t.data_type)
            raw = np.fromfile(model.parent / place["location"], np.uint8, int(place["length"]), offset=int(place["offset"]))
            tensor = torch.from_numpy(raw).cuda()
            if dtype.itemsize == 2:
                tensor = tensor.view(torch.bfloat16)
            # Two elements of 4 bits a byte.
            result[t.name] = tensor.view(*t.dims[:-1], -1)
        return result

    def point(self, name, variants, target=None, floor_us=None, rounds=21, rest_s=0.0):
        """Races variants and records them."""
        import card_measure
        if variants:
            self.record(name, variants, card_measure.race(variants, rounds, rest_s), target, floor_us)

    def record(self, name, variants, times, target=None, floor_us=None):
        """Prints and keeps {variant: Timing} of a point, and whether it is what is asked."""
        ours = times.get("fusion")
        print(name + (f"   floor {floor_us:.2f} us" if floor_us else ""))
        for v in sorted(variants, key=lambda v: times[v.name].us):
            t = times[v.name]
            note = f"  {t.us / floor_us:5.2f} x floor" if floor_us else ""
            note += f"  {ours.us / t.us:5.2f} = fusion / this" if ours and v.name != "fusion" else ""
            note += f"  predicted {v.predicted_us:.2f} us ({v.predicted_us / t.us:.2f})" if v.predicted_us else ""
            note += f"  error {v.error:.1e}" if v.error is not None else ""
            print(f"  {v.name:34s} {t.us:10.2f} us  spread {100 * t.spread:4.1f} %{note}")
            self.results.append({"section": self.section, "point": name, "variant": v.name, "us": t.us, "low": t.low, "high": t.high, "error": v.error,
                                 "predicted_us": v.predicted_us, "floor_us": floor_us})
        if ours and target:
            found = target.measure({k: t.us for k, t in times.items()})
            if found is None:
                print(f"  asked {target.wanted}: what it is held against was not measured")
            else:
                met = found <= target.asked if target.most else found >= target.asked
                print(f"  measured {found:.3f}, asked {target.wanted}: {'met' if met else 'MISSED'}")
                self.results.append({"section": self.section, "point": name, "asked": target.wanted, "measured": found, "met": met})
        sys.stdout.flush()

    def earlier(self, point, variant):
        """Microseconds of a point of this file, or None."""
        return next((r["us"] for r in self.results if r["point"] == point and r.get("variant") == variant), None)

    def begin(self, section):
        self.section, self.deadline = section, time.time() + self.options.seconds
        self.results = [r for r in self.results if r["section"] != section]

    def save(self):
        if self.options.out:
            self.options.out.write_text(json.dumps({"environment": self.environment, "ceilings": self.ceilings, "results": self.results}, indent=1))

    def resume(self):
        """Takes over what an earlier part of the run measured."""
        if not self.options.out or not self.options.out.exists():
            return
        before = json.loads(self.options.out.read_text())
        if before["environment"] == self.environment:
            self.results = before["results"]

    def conclude(self):
        """Predictions beside measurements, in short."""
        ratios = sorted(r["predicted_us"] / r["us"] for r in self.results if r.get("predicted_us"))
        if ratios:
            print(f"predicted / measured, {len(ratios)} points: median {statistics.median(ratios):.2f}, 10 % to 90 %: "
                  f"{ratios[len(ratios) // 10]:.2f} to {ratios[-1 - len(ratios) // 10]:.2f}")
        asked = [r for r in self.results if "met" in r]
        print(f"asked: {sum(r['met'] for r in asked)} of {len(asked)} points met")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=HERE.parents[1] / "build/dev/bin")
    p.add_argument("--only", type=lambda s: s.split(","), default=list(SECTIONS))
    p.add_argument("--seconds", type=float, default=60, help="of a section; points beyond are left out")
    p.add_argument("--max-autotune", action="store_true", help="torch.compile's slow mode for operations too (for models it always runs)")
    p.add_argument("--ours-only", action="store_true")
    p.add_argument("--peers-only", action="store_true")
    p.add_argument("--layers", type=int, default=32, help="of the whole models")
    p.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="folder for models, 40 GB for the whole ones")
    p.add_argument("--out", type=pathlib.Path)
    options = p.parse_args()
    if unknown := set(options.only) - set(SECTIONS):
        p.error(f"unknown sections {sorted(unknown)}, expected {', '.join(SECTIONS)}")
    try:
        import torch
        present = torch.cuda.is_available()
    except ImportError:
        present = False
    if not present:
        print("skipped: no torch with a card")
        return
    options.bin = options.bin.resolve()
    torch.set_grad_enabled(False)
    import card_sections
    options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.scratch) as tmp:
        bench = Bench(options, pathlib.Path(tmp))
        for name in options.only:
            print(f"== {name}", flush=True)
            bench.begin(name)
            start = time.time()
            try:
                getattr(card_sections, name.replace("-", "_"))(bench)
            finally:
                bench.save()
            torch.cuda.empty_cache()
            print(f"== {name}: {time.time() - start:.0f} s", flush=True)
        bench.conclude()
    print(bench.environment)
    sys.stdout.flush()
    os._exit(0)  # torch's compile workers outlive it


if __name__ == "__main__":
    main()
