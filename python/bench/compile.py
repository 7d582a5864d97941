#!/usr/bin/env python3
"""Time and memory of fusion-compile on a model, against the size of its weights.

    compile.py [--bin build/dev/bin] [--repeat N] MODEL.onnx [option of fusion-compile ...]

Memory is what the process holds at its worst, sampled every 5 ms: anonymous pages, and all resident ones (mapped weights
included).
"""
import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]


def weight_bytes(path):
    m = onnx.load(path, load_external_data=False)
    size = lambda t: next((int(e.value) for e in t.external_data if e.key == "length"), len(t.raw_data))
    return sum(map(size, m.graph.initializer))


def measure(command):
    """(seconds, peak anonymous bytes, peak resident bytes)"""
    start, peak = time.monotonic(), {"RssAnon": 0, "VmRSS": 0}
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while p.poll() is None:
        try:
            for line in pathlib.Path(f"/proc/{p.pid}/status").read_text().splitlines():
                key = line.split(":")[0]
                if key in peak:
                    peak[key] = max(peak[key], int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.005)
    if p.returncode:
        raise SystemExit(f"exit {p.returncode}: {' '.join(map(str, command))}")
    return time.monotonic() - start, peak["RssAnon"], peak["VmRSS"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("model", type=pathlib.Path)
    a, options = p.parse_known_args()
    weights = weight_bytes(a.model)
    with tempfile.TemporaryDirectory() as tmp:
        command = [a.bin / "fusion-compile", a.model, "-o", f"{tmp}/m.fusion", "--target=host", "--kv-cache=state", "--max-context=1024", *options]
        rows = [measure(command) for _ in range(a.repeat)]
    seconds, anonymous, resident = (statistics.median(r[i] for r in rows) for i in range(3))
    print(f"{a.model.name}: {weights / 1e6:.0f} MB of weights, {seconds:.1f} s, anonymous {anonymous / 1e6:.0f} MB ({anonymous / weights:.2f} x the weights), "
          f"resident {resident / 1e6:.0f} MB ({resident / weights:.2f} x)")


if __name__ == "__main__":
    main()
