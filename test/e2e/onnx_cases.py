"""ONNX's own node tests on the host target, and what they say of the operators that are imported.

    onnx_cases.py --bin build/dev/bin [PREFIX ...]      prints the cases that do not pass, and why
    onnx_cases.py --bin build/dev/bin --write           writes lib/Import/Operators.md
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from fusion import testing  # noqa: E402

EXCEPTIONS = HERE / "onnx-exceptions.txt"
PAGE = ROOT / "lib" / "Import" / "Operators.md"
# No exception is allowed for these.
COMPLETE = {"Attention", "RMSNormalization", "RotaryEmbedding", "LayerNormalization", "Gelu", "Swish", "SwiGLU", "DequantizeLinear", "TensorScatter"}
# Their expected numbers are written down with four digits: ONNX's own tolerance.
FOUR_DIGITS = {"test_averagepool_2d_ceil_last_window_starts_on_pad"}
CONSTANT_NEEDED = re.compile(r"node '([^']*)': \S+, opset \d+: [^\n]*(?:depends on data|known at compile time|expected (?:a )?constant)")


def operators(bin):
    with testing.Batch(bin) as b:
        code, _, text = b.call("operators")
        if code:
            raise RuntimeError(text)
    return [json.loads(line) for line in text.splitlines() if line]


def key(domain, name):
    return name if domain in ("", "ai.onnx") else f"{domain}.{name}"


def operators_of(graph):
    found = set()
    for n in graph.node:
        found.add(key(n.domain, n.op_type))
        for a in n.attribute:
            found |= operators_of(a.g)
    return found


def with_bodies(known):
    """Operators that are not imported and that the standard defines as functions of others."""
    every = onnx.defs.get_all_schemas_with_history()
    return {s.name for s in every if not s.domain and (s.has_function or s.has_context_dependent_function)} - known


def cases(known):
    """The node tests of which every operator is imported, those of which some are read through their bodies, and the number of all."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        everything = collect_testcases(None)
    imported = [c for c in everything if operators_of(c.model.graph) <= known]
    wider = known | with_bodies(known)
    tensors = lambda c: all(i.type.HasField("tensor_type") for i in c.model.graph.input)
    others = [c for c in everything if tensors(c) and not operators_of(c.model.graph) <= known and operators_of(c.model.graph) <= wider]
    return imported, others, len(everything)


def read_through_bodies(known, others, results):
    """{operator: number of its node tests} of operators with bodies that pass all of them."""
    tests = collections.defaultdict(list)
    for c in others:
        for name in operators_of(c.model.graph) - known:
            tests[name].append(results[c.name].verdict == "ok")
    return {name: len(passed) for name, passed in tests.items() if all(passed)}


@dataclasses.dataclass
class Outcome:
    verdict: str  # ok, refused (exit code 1) or wrong
    text: str = ""
    constants: set = dataclasses.field(default_factory=set)  # (operator, its input) that had to be known at compile time


def constants_needed(model, text):
    """Graph inputs behind the nodes of which the compiler says that an operand must be known, and those operands."""
    nodes = {n.name or f"{n.op_type}_{i}": n for i, n in enumerate(model.graph.node)}
    makers = {o: n for n in model.graph.node for o in n.output}
    names, operands = set(), set()
    for name in CONSTANT_NEEDED.findall(text):
        n = nodes.get(name)
        if n is None:
            continue
        line = next(x for x in text.splitlines() if f"node '{name}':" in x)
        for i in map(int, re.findall(r"input (\d+)", line)) if "input " in line else range(len(n.input)):
            if i < len(n.input):
                names.add(n.input[i])
                operands.add((key(n.domain, n.op_type), i))
    reached, work = set(), list(names)
    while work:
        v = work.pop()
        if v in reached:
            continue
        reached.add(v)
        if v in makers:
            work += [x for x in makers[v].input if x]
    return [i.name for i in model.graph.input if i.name in reached], operands


def with_constants(model, names, feeds):
    """The model with some inputs turned into initializers."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    del m.graph.input[:]
    m.graph.input.extend(i for i in model.graph.input if i.name not in names)
    m.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names)
    return m


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def compare(found, expected, name, rtol=1e-4):
    if found.dtype.kind == "V" and found.dtype.itemsize == expected.dtype.itemsize:
        found = found.view(expected.dtype)  # .npy has no name for float8
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise AssertionError(f"{name}: {found.dtype}{found.shape}, expected {expected.dtype}{expected.shape}")
    half = expected.dtype.itemsize <= 2 and expected.dtype.kind not in "biu"
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-2 if half else rtol, atol=1e-3 if half else 1e-6, err_msg=name)


def run_case(tools, case):
    outcome, model = Outcome("ok"), case.model
    initializers = {w.name for w in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in initializers]
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        for inputs, outputs in case.data_sets:
            feeds, constants = dict(zip(names, map(array, inputs))), []
            while True:
                onnx.save(with_constants(model, constants, feeds) if constants else model, tmp / "m.onnx")
                code, _, text = tools.call("fusion-compile", tmp / "m.onnx", "-o", tmp / "m.fusion", "--target=host")
                more, operands = constants_needed(model, text) if code == 1 else ([], set())
                outcome.constants |= operands
                if not set(more) - set(constants):
                    break
                constants += [n for n in more if n not in constants]
            if code:
                return Outcome("refused" if code == 1 else "wrong", f"exit {code}: {text}")
            try:
                found = tools.run(tmp / "m.fusion", {n: v for n, v in feeds.items() if n not in constants})
                for v, expected in zip(model.graph.output, outputs):
                    compare(found[testing.file_name(v.name)], array(expected), v.name, case.rtol if case.name in FOUR_DIGITS else 1e-4)
            except Exception as e:  # any failure is the case's result
                return Outcome("wrong", f"{type(e).__name__}: {e}")
    return outcome


def run_all(bin, selected):
    """{name: outcome}; a process of the tools for each core."""
    local, made = threading.local(), []

    def one(case):
        if not hasattr(local, "tools"):
            local.tools = testing.Batch(bin)
            made.append(local.tools)
        try:
            return run_case(local.tools, case)
        except Exception as e:
            return Outcome("wrong", f"{type(e).__name__}: {e}")

    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip((c.name for c in selected), pool.map(one, selected)))
    finally:
        for tools in made:
            tools.__exit__()


def exceptions():
    """{case: reason}; a line `# reason` stands above the cases that it is for."""
    found, reason = {}, None
    for line in EXCEPTIONS.read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line.strip():
            found.update(dict.fromkeys(line.split(), reason))
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--write", action="store_true")
    p.add_argument("prefix", nargs="*")
    a = p.parse_args()
    known = operators(a.bin)
    names = {key(o["domain"], o["name"]) for o in known}
    selected, others, total = cases(names)
    fit = lambda all: [c for c in all if not a.prefix or c.name.startswith(tuple(a.prefix))]
    selected, others = fit(selected), fit(others)
    results, through = run_all(a.bin, selected), run_all(a.bin, others)
    for name, o in through.items():
        if o.verdict == "wrong":
            print(f"{o.verdict:8} {name}  {' '.join(o.text.split())[-400:]}")
    for name, o in results.items():
        if o.verdict != "ok":
            print(f"{o.verdict:8} {name}  {' '.join(o.text.split())[-400:]}")
    print(f"{sum(o.verdict == 'ok' for o in results.values())} of {len(results)} pass; {total} cases in all")
    if a.write:
        import onnx_page
        PAGE.write_text(onnx_page.render(known, selected, total, results, exceptions(), read_through_bodies(names, others, through)))


if __name__ == "__main__":
    main()
