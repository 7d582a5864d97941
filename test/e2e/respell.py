"""Writes operators of ONNX models by algebraically equal ones and asks that they are raised all the same, or explained.

    respell.py --bin build/dev/bin [--models DIR] [--rule REGEX] [--base REGEX] [--pairs N | --wrong N] [--seed N] [--keep DIR]

Every rule (respell_rules.py) on every small model (respell_models.py), exported fixture (exports/) and file of DIR (NAME.onnx with
inputs NAME.npz, keys in:NAME), and N random pairs of rules. A case passes when
  * the respelled model is valid and onnxruntime computes the same from it (else the case says nothing, and is counted as such);
  * as many ops of each pattern are raised as from the model as it was, and as many sites fused, or a remark names the pattern,
    the node where matching stopped, what was expected and what was found;
  * the numbers are onnxruntime's.
"""
import argparse
import collections
import copy
import json
import pathlib
import random
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python")]

import respell_models  # noqa: E402
from fusion import testing  # noqa: E402
from respell_rules import RULES, Graph, perturbed  # noqa: E402

PATTERNS = ("rms_norm", "layer_norm", "silu", "gelu", "rope", "attention", "softmax", "kv_append")
LIMIT = 2e-5  # fp32: norm of the difference over the norm
ROUNDED = 2.0**-11
SAME = 1e-5  # what a respelling may change by its own roundings
# The pattern in whose remark a miss of another is explained: attention without its softmax, a rotation, a norm's core.
EXPLAINS = {"attention": ("attention", "softmax", "mask"), "layer_norm": ("layer_norm", "rms_norm"), "gelu": ("gelu", "silu"), "silu": ("silu", "gelu"),
            "rope_attention": ("attention", "softmax", "rope"), "swiglu": ("silu", "gelu"), "geglu": ("gelu", "silu"),
            "add_rms_norm": ("rms_norm",), "add_layer_norm": ("rms_norm", "layer_norm")}


class Mismatch(Exception):
    pass


class Base:
    """A model with inputs, and what it raises to as it is."""

    def __init__(self, name, proto, feeds, limit=LIMIT):
        self.name, self.proto, self.feeds, self.limit = name, proto, feeds, limit
        self._known = self._applicable = None

    def applicable(self, names):
        if self._applicable is None:
            self._applicable = [n for n in names if Graph(self.proto).apply(n)]
        return self._applicable

    def known(self, folder):
        if not self._known:
            self._known = *examine(self.proto, folder)[:2], testing.run_onnxruntime(self.proto, self.feeds)
        return self._known


def small_models():
    for name, build in respell_models.BASES.items():
        m = build()
        rounds = any(n.op_type == "Cast" for n in m.nodes)  # to 16 bits, and the default numerics keep more
        yield Base(name, onnx.shape_inference.infer_shapes(m.proto()), m.inputs, ROUNDED if rounds else LIMIT)  # the checker wants shapes of outputs


def exported():
    import test_exports
    for kind in ("dynamo18", "dynamo23", "ts17"):
        model = onnx.load(HERE / "exports" / f"{kind}.onnx")
        yield Base(kind, model, test_exports.feeds(model, 2, 5, 7))


def stored(folder):
    for path in sorted(folder.glob("*.onnx")):
        if path.with_suffix(".npz").exists():
            model, z = onnx.load(path), np.load(path.with_suffix(".npz"))
            kinds = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
            if not any(t.data_type in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16) for t in model.graph.initializer):
                yield Base(path.stem, model, {k[3:]: z[k].astype(kinds[k[3:]]) for k in z.files if k.startswith("in:")})


def examine(proto, folder):
    """(raised ops, fused sites, misses, artifact)"""
    path, artifact = folder / "m.onnx", folder / "m.fusion"
    onnx.save(proto, path)
    tools = testing.tools
    tools.must("fusion-compile", path, "--target=host", "--emit=raised", "-o", folder / "m.mlir")
    ir = (folder / "m.mlir").read_text()
    raised = {op: len(re.findall(rf"= fusion\.{op}\b", ir)) for op in PATTERNS}
    code, out, err = tools.call("fusion-compile", path, "-o", artifact, "--target=host", "--explain=json")
    if code:
        raise testing.ToolError(["fusion-compile", path], code, err)
    text = out or err  # the tools in one process print all in one
    report = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
    fused = collections.Counter(s["kind"] for s in report["sites"] if s["outcome"] == "fused")
    misses = [(s["kind"], s["node"], b["message"]) for s in report["sites"] if s["outcome"] == "almost matched" for b in s["buckets"]]
    return raised, fused, misses, artifact


def check(before, after, misses):
    """Counts as before, or an explanation."""
    for kind in sorted({*before, *after}):
        if kind == "softmax" or after.get(kind, 0) >= before.get(kind, 0):
            continue
        wanted = EXPLAINS.get(kind, (kind,))
        told = [m for m in misses if m[0] in wanted and m[1] and all(word in m[2] for word in ("stopped", "expected", "found"))]
        if not told:
            raise Mismatch(f"{kind}: {after.get(kind, 0)} instead of {before.get(kind, 0)}, and no remark says why ({misses})")
        return "explained: " + "; ".join(sorted({f"{k} {re.sub('[0-9]+', '#', m)}" for k, _, m in told}))
    return "raised"


def case(base, rules, seed, folder, probability=1.0):
    """What became of a respelling: raised, explained: .., or None where no rule applies or the numbers differ by themselves."""
    r = random.Random(seed)
    proto = base.proto
    for name in rules:
        proto = Graph(proto).apply(name, lambda: r.random() < probability)
        if proto is None:
            return None
    raised, fused, reference = base.known(folder)
    try:
        onnx.checker.check_model(proto)
        respelled = testing.run_onnxruntime(proto, base.feeds)
    except Exception as e:  # what onnxruntime does not take says nothing
        return f"no reference: {str(e)[:160]}"
    try:
        if any(testing.error(respelled[n], reference[n]) > SAME for n in reference):
            return "no reference: other numbers"
    except AssertionError as e:
        return f"no reference: {e}"
    raised_now, fused_now, misses, artifact = examine(proto, folder)
    found = testing.tools.run(artifact, base.feeds)
    for n, y in respelled.items():
        error = testing.error(found[testing.file_name(n)], y)
        if error > base.limit:
            raise Mismatch(f"output {n}: error {error:.1e}")
    outcome = check(raised, raised_now, misses)
    return check(fused, fused_now, misses) if outcome == "raised" else outcome


def in_double(proto, feeds):
    """What the model computes in fp64, by output."""
    proto = copy.deepcopy(proto)
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    del proto.graph.value_info[:]
    for t in proto.graph.initializer:
        if t.data_type == single:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
    for v in [*proto.graph.input, *proto.graph.output]:
        if v.type.tensor_type.elem_type == single:
            v.type.tensor_type.elem_type = double
    for n in proto.graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.name == "to" and a.i == single:
                a.i = double
            if n.op_type == "ConstantOfShape" and a.t.data_type == single:
                a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(np.float64)))
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
    names = [o.name for o in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, wide)))


def wrong_case(base, seed, folder):
    """A respelled model with another meaning: its numbers are onnxruntime's, whatever is raised."""
    r = random.Random(seed)
    rules = r.sample(base.applicable(list(RULES)), 1)
    proto = perturbed(Graph(base.proto).apply(rules[0]), r)
    if proto is None:
        return None
    try:
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
        reference = testing.run_onnxruntime(proto, base.feeds)
        half = testing.run_onnxruntime(proto, {n: (a * np.float32(1 + 2e-7)).astype(a.dtype) for n, a in base.feeds.items()})
    except Exception:  # nodes that do not fit together say nothing
        return None
    # What the last bit of an input changes, no implementation has to agree on.
    if any(not np.isfinite(y).all() or testing.error(half[n], y) > base.limit / 10 for n, y in reference.items()):
        return None
    artifact = examine(proto, folder)[3]
    found = testing.tools.run(artifact, base.feeds)
    for n, y in reference.items():
        error = testing.error(found[testing.file_name(n)], y)
        # exp(x - log(sum(exp(x)))) of x = 1e9 has no digit right in fp32: then the reference is what is wrong.
        if error > base.limit and testing.error(y, in_double(proto, base.feeds)[n]) <= base.limit:
            raise Mismatch(f"output {n}: error {error:.1e} of another meaning")
    return "right"


def run(cases, keep=None):
    """Counts outcomes; returns the failures."""
    outcomes, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as tmp:
        for base, rules, seed, probability in cases:
            try:
                folder = pathlib.Path(tmp)
                outcome = case(base, rules, seed, folder, probability) if rules else wrong_case(base, seed, folder)
            except (Mismatch, testing.ToolError, AssertionError) as e:
                outcome = "failed"
                failures.append(f"{base.name} {'+'.join(rules) or 'wrong'} seed {seed}: {str(e)[-900:]}")
                print("FAIL", failures[-1], flush=True)
                if keep:
                    (pathlib.Path(tmp) / "m.onnx").rename(keep / f"{base.name}-{'-'.join(rules) or seed}.onnx")
            if outcome:
                outcomes[outcome.split(":")[0]] += 1
                if outcome not in ("raised", "right") and keep:
                    print(f"{base.name} {'+'.join(rules)}: {outcome}", flush=True)
    return outcomes, failures


def single(bases, pattern="", seed=0):
    return [(b, (name,), seed, 1.0) for b in bases for name in RULES if re.search(pattern, name)]


def pairs(bases, count, seed, pattern=""):
    """Pairs of rules that each find something in their model."""
    r, names, cases = random.Random(seed), [n for n in RULES if re.search(pattern, n)], []
    for i in range(count):
        base = r.choice(bases)
        applicable = base.applicable(names)
        if len(applicable) > 1:
            cases.append((base, tuple(r.sample(applicable, 2)), seed + i, r.choice((1.0, 0.5))))
    return cases


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--rule", default="")
    p.add_argument("--base", default="")
    p.add_argument("--pairs", type=int, default=0)
    p.add_argument("--wrong", type=int, default=0, help="respelled models with a random change of their meaning: only the numbers are checked")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--keep", type=pathlib.Path, help="folder for respelled files that fail; prints what is explained too")
    a = p.parse_args()
    if a.keep:
        a.keep.mkdir(parents=True, exist_ok=True)
    with testing.Batch(a.bin.resolve()) as testing.tools:
        bases = [*small_models(), *exported(), *(stored(a.models) if a.models else ())]
        bases = [b for b in bases if re.search(a.base, b.name)]
        cases = pairs(bases, a.pairs, a.seed, a.rule) if a.pairs else single(bases, a.rule, a.seed)
        if a.wrong:
            cases = [(bases[i % len(bases)], (), a.seed + i, 1.0) for i in range(a.wrong)]
        outcomes, failures = run(cases, a.keep)
    print(", ".join(f"{n} {k}" for k, n in sorted(outcomes.items())))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
