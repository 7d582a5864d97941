#!/usr/bin/env python3
"""Time and memory of fusion-compile on a model, against the size of its weights.

    compile.py [--bin build/dev/bin] [--repeat N] [--layers 10,30] MODEL.onnx [option of fusion-compile ...]

--layers compiles the first layers of the model only (a decoder as torch's dynamo exporter writes it), to see how the time grows.
Memory is what the process holds at its worst, sampled every 5 ms: anonymous pages, and all resident ones (mapped weights
included). Beside each figure stands what is asked of it. The arena is that of each program at its largest sizes, against
what its fullest launch needs.
"""
import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile
import time

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]


def first_layers(path, count, folder):
    """A copy of a decoder with its first layers only: the final norm takes what the next layer would."""
    m = onnx.load(path, load_external_data=False)
    makers = {o: n for n in m.graph.node for o in n.output}
    users = {}
    for n in m.graph.node:
        for i in n.input:
            users.setdefault(i, []).append(n)

    def stream(weight):
        """The residual stream that the norm with this weight reads."""
        name = next(i.name for i in m.graph.initializer if i.name.endswith(weight))
        scaled, = (n for n in users[name] if n.op_type == "Mul")
        normal = makers[next(i for i in scaled.input if i != name)]
        return next(i for i in normal.input if makers[i].op_type == "Add")

    kept = stream(f"model.layers.{count}.input_layernorm.weight")
    last = stream("model.norm.weight")
    later = lambda name: any(part.isdigit() and int(part) >= count for part in name.split("."))
    # Some cache tells the length of the past: another one tells it as well.
    renamed = {i.name: ".".join(str(count - 1) if part.isdigit() else part for part in i.name.split(".")) for i in m.graph.input if later(i.name)}
    renamed[last] = kept
    for n in m.graph.node:
        n.input[:] = [renamed.get(i, i) for i in n.input]
    outputs = [o for o in m.graph.output if not later(o.name)]
    alive, work, nodes = set(), [o.name for o in outputs], set()
    while work:
        value = work.pop()
        if value not in alive:
            alive.add(value)
            if value in makers:
                nodes.add(makers[value].name)
                work += makers[value].input
    keep = lambda items, test: [x for x in items if test(x)]
    for field, items in (("node", keep(m.graph.node, lambda n: n.name in nodes)), ("input", keep(m.graph.input, lambda i: i.name in alive)),
                         ("initializer", keep(m.graph.initializer, lambda i: i.name in alive)), ("output", outputs), ("value_info", [])):
        m.graph.ClearField(field)
        getattr(m.graph, field).extend(items)
    for t in m.graph.initializer:
        for e in t.external_data:
            if e.key == "location" and not (folder / e.value).exists():
                os.link(path.parent / e.value, folder / e.value)
    onnx.save(m, folder / f"{count}.onnx")
    return folder / f"{count}.onnx"


def layers_of(path):
    m = onnx.load(path, load_external_data=False)
    return sum(o.name.endswith(".key") for o in m.graph.output)


def weight_bytes(path):
    m = onnx.load(path, load_external_data=False)
    size = lambda t: next((int(e.value) for e in t.external_data if e.key == "length"), len(t.raw_data))
    return sum(map(size, m.graph.initializer))


def measure(command):
    """(seconds, peak anonymous bytes, peak resident bytes, seconds of processor time)"""
    start, peak = time.monotonic(), {"RssAnon": 0, "VmRSS": 0}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
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
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.monotonic() - start, peak["RssAnon"], peak["VmRSS"], busy


def command(a, model, options):
    return [a.bin / "fusion-compile", model, "--target=host", "--kv-cache=state", "--max-context=1024", *options]


def compile_model(a, model, options):
    """Medians of measure()."""
    with tempfile.TemporaryDirectory() as tmp:
        rows = [measure([*command(a, model, options), "-o", f"{tmp}/m.fusion"]) for _ in range(a.repeat)]
    return [statistics.median(column) for column in zip(*rows)]


def compare_layers(a, options):
    """A hard link holds the weights: the folder is beside the model."""
    with tempfile.TemporaryDirectory(dir=a.model.parent) as tmp:
        for count in map(int, a.layers.split(",")):
            model = a.model if count == layers_of(a.model) else first_layers(a.model, count, pathlib.Path(tmp))
            seconds, _, _, busy = compile_model(a, model, options)
            print(f"{count} layers: {seconds:.2f} s, {busy:.2f} s of processor time, {busy / count * 1e3:.0f} ms a layer", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev/bin")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--layers", help="numbers of layers, parted by commas")
    p.add_argument("model", type=pathlib.Path)
    a, options = p.parse_known_args()
    if a.layers:
        return compare_layers(a, options)
    weights = weight_bytes(a.model)
    seconds, anonymous, resident, busy = compile_model(a, a.model, options)
    cores = len(os.sched_getaffinity(0))
    print(f"{a.model.name}: {weights / 1e6:.0f} MB of weights, {'' if a.repeat == 1 else f'medians of {a.repeat}, '}{cores} cores")
    rows = [("time", f"{seconds:.1f} s, {busy:.1f} s of processor time", seconds, 10), ("anonymous memory", f"{anonymous / 1e6:.0f} MB", anonymous / weights, 0.5),
            ("resident memory", f"{resident / 1e6:.0f} MB", resident / weights, 1.3)]
    planned = subprocess.run([*command(a, a.model, options), "--emit=planned", "-o", "-"], check=True, capture_output=True, text=True).stdout
    for name, used, bound in re.findall(r"plan\.program @(\S+) .*arena \[(\d+), (\d+)\]", planned):
        rows.append((f"arena of {name}", f"{int(used) / 1e6:.2f} MB", int(used) / max(int(bound), 1), 1.1))
    for name, text, figure, asked in rows:
        print(f"  {name:24}{text:36}{'' if name == 'time' else f'{figure:.2f} x   '}asked {asked}{' s' if name == 'time' else ' x'}: {'met' if figure <= asked else 'missed'}")


if __name__ == "__main__":
    main()
