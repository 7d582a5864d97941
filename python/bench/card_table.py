#!/usr/bin/env python3
"""README's tables of a run of card.py: what was measured, beside the best peer, what is asked, and what was predicted.

    card_table.py results.json... [--readme README.md]

Several files are parts of one run: the same card, versions and day, other sections (cards of one machine may share the work).
Prints Markdown; with --readme it takes the place of what stands between `<!-- card.py -->` and `<!-- /card.py -->` in that file.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys

BEGIN, END = "<!-- card.py -->", "<!-- /card.py -->"
HEADINGS = {"gemm": "Products, bf16", "gemm-rows": "Products of 128 to 1024 rows, bf16", "gated": "Gated MLP front, bf16", "gemv": "One row, bf16", "norm": "Norms, bf16",
            "attention": "Prefill attention, bf16", "decode-attention": "Decode attention, bf16", "int4-row": "int4, one row", "int4-few": "int4, 8 to 64 rows",
            "int4-many": "int4, 128 rows and more", "formats": "NVFP4 and FP8", "zeros": "int4 with integer zero points", "front": "int4 SwiGLU front",
            "model": "Llama-3-8B shape, bf16", "model-int4": "Llama-3-8B shape, int4 with a bf16 head"}


def duration(us):
    return f"{us:.2f} us" if us < 10 else f"{us:.1f} us" if us < 1000 else f"{us / 1e3:.2f} ms"


def is_ours(name):
    return name.startswith("fusion")


class Point:
    def __init__(self):
        self.times, self.asked = {}, None

    def cells(self):
        ours = self.times["fusion"]
        # What moves bytes or is asked to be the best of others is no peer of its own.
        peers = {n: t for n, t in self.times.items() if not is_ours(n) and not n.startswith("copy") and n != "torch.compile's best"}
        best = min(peers, key=lambda n: peers[n]["us"]) if peers else None
        spread = 100 * (ours["high"] - ours["low"]) / ours["us"]
        yield duration(ours["us"]) + (f" ({spread:.0f} %)" if spread else "")
        yield f"{best} {duration(peers[best]['us'])}" if best else ""
        asked = self.asked
        if not asked:
            yield ""
        else:
            measured = "" if asked["asked"].endswith(" us") else f" ({asked['measured']:.{0 if asked['measured'] > 10 else 2}f})"
            yield f"{asked['asked']}: {'met' if asked['met'] else 'missed'}{measured}"
        yield duration(ours["predicted_us"]) if ours.get("predicted_us") else ""


def collect(results):
    """{section: {point: Point}}, in the order of HEADINGS."""
    sections = collections.defaultdict(lambda: collections.defaultdict(Point))
    for r in results:
        point = sections[r["section"]][r["point"]]
        if "variant" in r:
            point.times[r["variant"]] = r
        else:
            point.asked = r
    return {s: sections[s] for s in HEADINGS if s in sections}


def render(run):
    e, c = run["environment"], run["ceilings"]
    points = [p for s in collect(run["results"]).values() for p in s.values() if "fusion" in p.times]
    asked = [p.asked for p in points if p.asked]
    ratios = sorted(p.times["fusion"]["predicted_us"] / p.times["fusion"]["us"] for p in points if p.times["fusion"].get("predicted_us"))
    yield (f"{e['card']}; torch {e['torch']}, triton {e['triton']}, CUDA {e['cuda']}, cuDNN {e['cudnn']}; {e['date']}. Ceilings in the same run: "
           f"{c['read_GBps']:.0f} GB/s read, {c['copy_GBps']:.0f} GB/s copied, {c['matmul_TFLOPs']:.0f} bf16 TFLOP/s. Medians of rounds in random order, "
           f"10 % to 90 % in brackets. {sum(a['met'] for a in asked)} of {len(asked)} points are as asked.")
    if ratios:
        yield (f"Predicted over measured: median {statistics.median(ratios):.2f}, 10 % to 90 % of {len(ratios)} points "
               f"{ratios[len(ratios) // 10]:.2f} to {ratios[-1 - len(ratios) // 10]:.2f}.")
    for section, found in collect(run["results"]).items():
        rows = [(name, p) for name, p in found.items() if "fusion" in p.times]
        if not rows:
            continue
        yield ""
        yield f"| {HEADINGS[section]} | this | best peer | asked | predicted |"
        yield "|---|---|---|---|---|"
        for name, point in rows:
            yield f"| {name} | " + " | ".join(point.cells()) + " |"


def read(paths):
    """The parts of a run as one; the ceilings are those of the first."""
    parts = [json.loads(path.read_text()) for path in paths]
    for path, part in zip(paths, parts):
        if part["environment"] != parts[0]["environment"]:
            sys.exit(f"{path}: not of the run of {paths[0]}: {part['environment']}, expected {parts[0]['environment']}")
    return {**parts[0], "results": [r for part in parts for r in part["results"]]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path, nargs="+")
    p.add_argument("--readme", type=pathlib.Path)
    a = p.parse_args()
    text = "\n".join(render(read(a.results)))
    if not a.readme:
        print(text)
        return
    before = a.readme.read_text()
    if BEGIN not in before or END not in before:
        sys.exit(f"{a.readme}: no {BEGIN} and {END}")
    head, rest = before.split(BEGIN, 1)
    a.readme.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")


if __name__ == "__main__":
    main()
