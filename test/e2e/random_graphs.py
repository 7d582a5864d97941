"""Random graphs of supported operators: the host target, fused and unfused, against onnxruntime.

    random_graphs.py --bin build/dev/bin [--seed N] [--count N]

Several graphs share a file, each with inputs and outputs of its own. A graph that differs is printed with its nodes; what is
found becomes a small test.
"""
import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import threading

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python"))

from fusion import testing  # noqa: E402

PER_FILE = 25
OPSET = 20
LIMIT = 1e-5  # norm of the difference over the norm of the reference, fp32
# Where that is passed, the result is held against fp64 and against what roundings of fp32 do to this graph: a difference of
# nearly equal numbers has few digits in every implementation.
SAMPLES, ULP = 8, 2.0**-23


class Graph:
    """Grows node by node; every value has a known shape and moderate elements."""

    def __init__(self, seed, prefix):
        self.r, self.prefix = np.random.default_rng(seed), prefix
        self.nodes, self.weights, self.feeds, self.values, self.count = [], [], {}, [], 0

    def name(self, kind):
        self.count += 1
        return f"{self.prefix}{kind}{self.count}"

    def constant(self, array):
        n = self.name("c")
        self.weights.append(nh.from_array(np.asarray(array), n))
        return n

    def input(self, shape):
        n = self.name("i")
        self.feeds[n] = (self.r.standard_normal(shape) * 0.8).astype(np.float32)
        self.values.append((n, tuple(shape)))

    def op(self, kind, inputs, shape, outputs=1, **attributes):
        names = [self.name("v") for _ in range(outputs)]
        self.nodes.append(h.make_node(kind, inputs, names, name=f"{self.prefix}{kind}_{self.count}", **attributes))
        return names[0] if outputs == 1 else names

    def add(self, kind, inputs, shape, **attributes):
        self.values.append((self.op(kind, inputs, shape, **attributes), tuple(int(s) for s in shape)))

    def pick(self, test=lambda shape: True):
        """Later values are likelier, so that graphs are deep."""
        fit = [v for v in self.values if test(v[1])]
        if not fit:
            return None, None
        return fit[min(len(fit) - 1, int(len(fit) * self.r.beta(2.5, 1)))]

    def tame(self, x, shape):
        """Keeps elements moderate, so that errors stay comparable."""
        return self.op(self.r.choice(["Tanh", "Sigmoid"]), [x], shape)


def unary(g):
    x, s = g.pick()
    kind = g.r.choice(["Neg", "Abs", "Exp", "Sigmoid", "Tanh", "Erf", "Relu", "Sqrt", "Softplus", "Reciprocal", "Gelu", "Sin", "Cos", "Floor", "Clip", "LeakyRelu", "HardSwish"])
    if kind in ("Exp", "Sin", "Cos"):
        x = g.tame(x, s)
    elif kind == "Sqrt":
        x = g.op("Abs", [x], s)
    elif kind == "Reciprocal":
        x = g.op("Add", [g.op("Abs", [x], s), g.constant(np.float32(0.5))], s)
    if kind == "Floor":  # no rounding error may decide it
        x = g.op("Mul", [g.op("Sign", [x], s), g.constant(np.float32(2.5))], s)
    inputs = [x, g.constant(np.float32(-0.7)), g.constant(np.float32(0.9))] if kind == "Clip" else [x]
    g.add(kind, inputs, s, **({"approximate": str(g.r.choice(["none", "tanh"]))} if kind == "Gelu" else {}))


def binary(g):
    x, s = g.pick()
    how = g.r.integers(5)
    y, t = g.pick(lambda q: q == s) if how < 2 else (None, None)
    if how == 2:
        y = g.constant(np.float32(g.r.uniform(0.3, 1.7)))
    elif how == 3 and s:
        y = g.constant(g.r.uniform(0.3, 1.7, s[-1:]).astype(np.float32))
    elif how == 4 and s:
        x2, _ = g.pick(lambda q: q == s)
        y = g.op("ReduceMean", [x2, g.constant(np.array([-1]))], s, keepdims=1)
    if y is None:
        y, t = g.pick(lambda q: q == s)
    kind = g.r.choice(["Add", "Sub", "Mul", "Max", "Min", "Div"])
    if kind == "Div":
        y = g.op("Add", [g.op("Abs", [y], s), g.constant(np.float32(0.6))], s)
    if kind == "Mul":
        x = g.tame(x, s)
    a, b = (x, y) if kind in ("Sub", "Div") or g.r.random() < 0.5 else (y, x)
    g.add(kind, [a, b], s)


def where(g):
    x, s = g.pick()
    y, _ = g.pick(lambda q: q == s)
    # Compared with what no computation is near to.
    c = g.op(str(g.r.choice(["Greater", "Less", "GreaterOrEqual"])), [g.op("Sign", [x], s), g.constant(np.float32(0.5))], s)
    if g.r.random() < 0.3:
        c = g.op("Not", [c], s)
    g.add("Where", [c, x, y], s)


def reduce(g):
    x, s = g.pick(len)
    if x is None:
        return
    axis, keep = int(g.r.integers(-len(s), len(s))), int(g.r.integers(2))
    t = list(s)
    if keep:
        t[axis] = 1
    else:
        del t[axis]
    g.add(str(g.r.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"])), [x, g.constant(np.array([axis]))], t, keepdims=keep)


def softmax(g):
    x, s = g.pick(len)
    if x is not None:
        g.add(str(g.r.choice(["Softmax", "LogSoftmax"])), [x], s, axis=int(g.r.integers(-len(s), len(s))))


def norm(g):
    x, s = g.pick(lambda q: q and q[-1] > 1)
    if x is None:
        return
    w = g.constant((1 + 0.1 * g.r.standard_normal(s[-1])).astype(np.float32))
    kind = g.r.integers(3)
    if kind == 0:
        b = g.constant((0.1 * g.r.standard_normal(s[-1])).astype(np.float32))
        g.add("LayerNormalization", [x, w, b][:2 + int(g.r.integers(2))], s, axis=-1, epsilon=1e-3)
        return
    eps, last = g.constant(np.float32(1e-3)), g.constant(np.array([-1]))
    square = g.op("Mul", [x, x], s) if g.r.random() < 0.5 else g.op("Pow", [x, g.constant(np.float32(2))], s)
    root = g.op("Sqrt", [g.op("Add", [g.op("ReduceMean", [square, last], s, keepdims=1), eps], s)], s)
    y = g.op("Div", [x, root], s) if kind == 1 else g.op("Mul", [x, g.op("Reciprocal", [root], s)], s)
    g.add("Mul", [w, y] if g.r.random() < 0.5 else [y, w], s)
    if g.r.random() < 0.2:
        g.values.append((y, s))  # the normalised value is used besides


def gate(g):
    x, s = g.pick(lambda q: q and q[-1] % 2 == 0)
    if x is None:
        return
    a, b = g.op("Split", [x], s, outputs=2, axis=-1, num_outputs=2)
    t = s[:-1] + (s[-1] // 2,)
    if g.r.random() < 0.3:
        a, b = b, a
    act = g.op("Mul", [a, g.op("Sigmoid", [a], t)], t) if g.r.random() < 0.6 else g.op("Gelu", [a], t)
    g.add("Mul", [act, b] if g.r.random() < 0.5 else [b, act], t)


def matmul(g):
    x, s = g.pick(lambda q: len(q) >= 2)
    if x is None:
        return
    how = g.r.integers(3)
    if how == 0:
        y, t = g.pick(lambda q: len(q) == len(s) and q[:-2] == s[:-2] and q[-2] == s[-1])
        if y is not None:
            g.add("MatMul", [g.tame(x, s), g.tame(y, t)], s[:-1] + t[-1:])
            return
    n = int(g.r.choice([1, 3, 8, 17]))
    w = (g.r.standard_normal((s[-1], n)) / np.sqrt(max(s[-1], 1))).astype(np.float32)
    if how == 1:
        w = g.op("Transpose", [g.constant(np.ascontiguousarray(w.T))], (), perm=[1, 0])
    else:
        w = g.constant(w)
    g.add("MatMul", [x, w], s[:-1] + (n,))


def transpose(g):
    x, s = g.pick(len)
    if x is not None:
        perm = [int(p) for p in g.r.permutation(len(s))]
        g.add("Transpose", [x], [s[p] for p in perm], perm=perm)


def reshape(g):
    x, s = g.pick(len)
    if x is None:
        return
    t = list(s)
    i = int(g.r.integers(len(t)))
    if len(t) > 1 and g.r.random() < 0.5:
        j = min(i, len(t) - 2)
        t[j:j + 2] = [t[j] * t[j + 1]]
    else:
        for f in (2, 3, 4):
            if t[i] % f == 0:
                t[i:i + 1] = [f, t[i] // f]
                break
    if len(t) > 5:
        return
    g.add("Reshape", [x, g.constant(np.array(t, np.int64))], t)


def pieces(g):
    x, s = g.pick(lambda q: q and max(q) > 1)
    if x is None:
        return
    axis = int(g.r.choice([i for i, n in enumerate(s) if n > 1]))
    step = int(g.r.choice([1, 1, 2, -1]))
    n = s[axis]
    start = int(g.r.integers(0, n - 1)) if step > 0 else n - 1
    stop = n if step > 0 else -n - 1
    t = list(s)
    t[axis] = len(range(n)[start:stop if step > 0 else None:step])
    g.add("Slice", [x] + [g.constant(np.array([v])) for v in (start, stop, axis, step)], t)


def concat(g):
    x, s = g.pick(len)
    if x is None:
        return
    y, _ = g.pick(lambda q: q == s)
    axis = int(g.r.integers(len(s)))
    t = list(s)
    t[axis] *= 2
    if int(np.prod(t)) < 20000:
        g.add("Concat", [x, y], t, axis=axis)


def gather(g):
    x, s = g.pick(len)
    if x is None:
        return
    axis, count = int(g.r.integers(len(s))), int(g.r.integers(1, 5))
    g.add("Gather", [x, g.constant(g.r.integers(-s[axis], s[axis], count))], s[:axis] + (count,) + s[axis + 1:], axis=axis)


def expand(g):
    x, s = g.pick(lambda q: 1 in q and int(np.prod(q)) < 4000)
    if x is None:
        return
    t = [int(g.r.integers(1, 5)) if n == 1 else n for n in s]
    g.add("Expand", [x, g.constant(np.array(t, np.int64))], t)


def rotate(g):
    x, s = g.pick(lambda q: len(q) >= 2 and q[-1] % 2 == 0)
    if x is None:
        return
    half, big = s[-1] // 2, np.iinfo(np.int64).max
    angle = g.r.uniform(0, 6, (s[-2], half)).astype(np.float32)
    angle = np.concatenate([angle, angle], -1)
    cut = lambda a, b: g.op("Slice", [x] + [g.constant(np.array([v])) for v in (a, b, len(s) - 1)], s)
    turned = g.op("Concat", [g.op("Neg", [cut(half, big)], s), cut(0, half)], s, axis=-1)
    g.add("Add", [g.op("Mul", [x, g.constant(np.cos(angle))], s), g.op("Mul", [turned, g.constant(np.sin(angle))], s)], s)


def attend(g):
    q, s = g.pick(lambda t: len(t) == 4 and max(t) < 40)
    if q is None:
        return
    k, t = g.pick(lambda u: len(u) == 4 and u[:2] == s[:2] and u[3] == s[3])
    v, _ = g.pick(lambda u: len(u) == 4 and u[:3] == t[:3])
    scores = g.op("MatMul", [g.tame(q, s), g.op("Transpose", [g.tame(k, t)], (), perm=[0, 1, 3, 2])], ())
    scores = g.op("Mul", [scores, g.constant(np.float32(s[3] ** -0.5))], ())
    if g.r.random() < 0.6:
        mask = np.where(np.tril(np.ones((s[2], t[2])), t[2] - s[2]) > 0, 0, -1e9).astype(np.float32)
        mask[:, 0] = 0
        scores = g.op("Add", [scores, g.constant(mask)], ())
    g.add("MatMul", [g.op("Softmax", [scores], (), axis=-1), v], s[:3] + (_[3],))


STEPS = [(unary, 5), (binary, 6), (where, 1), (reduce, 2), (softmax, 1), (norm, 3), (gate, 2), (matmul, 3), (transpose, 2), (reshape, 2),
         (pieces, 2), (concat, 1), (gather, 1), (expand, 1), (rotate, 1), (attend, 2)]


def make(seed, prefix):
    g = Graph(seed, prefix)
    width, rows = int(g.r.choice([2, 6, 8, 12, 16, 33])), int(g.r.integers(1, 7))
    shapes = [(rows, width), (2, rows, width), (2, 2, rows, width), (width,), (2, rows, 1)]
    for _ in range(int(g.r.integers(1, 4))):
        g.input(shapes[int(g.r.integers(len(shapes)))])
    weights = np.array([w for _, w in STEPS], float)
    for _ in range(int(g.r.integers(4, 16))):
        STEPS[int(g.r.choice(len(STEPS), p=weights / weights.sum()))][0](g)
    used = {i for n in g.nodes for i in n.input}
    outputs = [n for n, _ in g.values if n not in used and n not in g.feeds][-4:] or [g.op("Identity", [g.values[0][0]], ())]
    # Now and then a value that others use is an output as well.
    inner = [n for n, _ in g.values if n in used and n not in g.feeds]
    if inner and g.r.random() < 0.4:
        outputs.append(str(g.r.choice(inner)))
    return g, list(dict.fromkeys(outputs))


def model_of(graphs):
    shapes = lambda g: [h.make_tensor_value_info(n, T.FLOAT, a.shape) for n, a in g.feeds.items()]
    graph = h.make_graph([n for g, _ in graphs for n in g.nodes], "random", [i for g, _ in graphs for i in shapes(g)],
                         [h.make_tensor_value_info(o, T.FLOAT, None) for _, outs in graphs for o in outs], [w for g, _ in graphs for w in g.weights])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", OPSET)], ir_version=10)


def run_file(tools, graphs):
    """{output: array} of the fused and of the unfused form."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        onnx.save(model_of(graphs), tmp / "m.onnx")
        feeds = {n: a for g, _ in graphs for n, a in g.feeds.items()}
        found = []
        # The unfused form with half the code: the oldest processor's.
        for options in ([], ["--disable-fusion=all", "--host-cpu=x86-64-v3"]):
            tools.compile(tmp / "m.onnx", tmp / "m.fusion", *options)
            found.append(tools.run(tmp / "m.fusion", feeds))
        return found


def evaluate(g, outputs, rounding=None):
    """The outputs in fp64 by onnx's reference. A generator as `rounding` moves each operand and each result by up to a last place
    of fp32, as computing in fp32 may."""
    def wide(a):
        a = np.asarray(a)
        if a.dtype.kind != "f":
            return a
        a = a.astype(np.float64)
        return a if rounding is None else a * (1 + ULP * rounding.uniform(-1, 1, a.shape))

    exact = {w.name: nh.to_array(w) for w in g.weights} | g.feeds
    known = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in exact.items()}
    for n in g.nodes:
        operands = {i: wide(known[i]) for i in n.input}
        infos = [h.make_tensor_value_info(i, h.np_dtype_to_tensor_dtype(a.dtype), a.shape) for i, a in operands.items()]
        graph = h.make_graph([n], "node", infos, [h.make_value_info(o, onnx.TypeProto()) for o in n.output])
        made = ReferenceEvaluator(h.make_model(graph, opset_imports=[h.make_opsetid("", OPSET)])).run(None, operands)
        known |= {o: wide(a) for o, a in zip(n.output, made)}
    return {o: known[o] for o in outputs}


def ill_conditioned(g, output, found):
    """Whether fp32 cannot compute this output better: its distance from fp64 is what roundings cause."""
    exact = evaluate(g, [output])[output]
    moved = [testing.error(evaluate(g, [output], np.random.default_rng(k))[output], exact) for k in range(SAMPLES)]
    return testing.error(found, exact) <= max(moved)


def compare(graphs, reference, forms):
    """Yields a line for each output of {form: outputs} that differs from the reference, with the graph's name."""
    for g, outputs in graphs:
        for form, found in forms.items():
            for o in outputs:
                if not np.isfinite(reference[o]).all():
                    continue
                try:
                    e = testing.error(found[o], reference[o])
                    bad = e > LIMIT and not ill_conditioned(g, o, found[o])
                except AssertionError as why:
                    yield f"{g.prefix}: {form} {o}: {why}"
                    continue
                if bad:
                    yield f"{g.prefix}: {form} {o}: error {e:.1e}"


def differences(tools, graphs):
    reference = testing.run_onnxruntime(model_of(graphs), {n: a for g, _ in graphs for n, a in g.feeds.items()})
    fused, unfused = run_file(tools, graphs)
    return compare(graphs, reference, {"fused": fused, "unfused": unfused})


def check(bin, seed, count):
    """Lines that say what differs; graph N of seed S is called gS_N_."""
    local, made = threading.local(), []

    def one(first):
        if not hasattr(local, "tools"):
            local.tools = testing.Batch(bin)
            made.append(local.tools)
        numbers = range(first, min(first + PER_FILE, count))
        graphs = [make([seed, k], f"g{seed}_{k}_") for k in numbers]
        try:
            return list(differences(local.tools, graphs))
        except testing.ToolError as e:
            if len(graphs) == 1:
                return [f"{graphs[0][0].prefix}: {e}"]
        lines = []  # one of them fails: each on its own
        for graph in graphs:
            try:
                lines += differences(local.tools, [graph])
            except testing.ToolError as e:
                lines.append(f"{graph[0].prefix}: {e}")
        return lines

    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return [line for lines in pool.map(one, range(0, count, PER_FILE)) for line in lines]
    finally:
        for tools in made:
            tools.__exit__()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=1000)
    a = p.parse_args()
    lines = check(a.bin, a.seed, a.count)
    print("\n".join(lines))
    print(f"{a.count} graphs, {len(lines)} differences")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
