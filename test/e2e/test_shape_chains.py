"""Chains of shape arithmetic over symbolic sizes: compiled once, run at several sizes, the shapes as onnxruntime computes them.

Each chain turns s = Shape(x), of x [a, b, 8], into the shape t of a result.
"""
import pathlib
import tempfile
import unittest

import numpy as np
import onnxruntime
from onnx import helper as h, numpy_helper as nh, parser

from fusion import testing

CONSTANTS = """
<int64[1] m_far = {-9}, int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, int64[1] m1 = {-1}, int64[1] m2 = {-2}, int64[1] i64 = {64},
 int64[3] rev = {2, 1, 0}, int64[3] w = {1, 0, 0}, int64[3] big = {1, 4, 16}, int64[2] s31 = {3, 1}, int64[2] s13 = {1, 3}, int64[2] pads = {1, 2}, int64 sc2 = {2}, int64 sc3 = {3}, int64 sc0 = {0}, int64 sc1 = {1},
 int64[2,1] nd = {2, 0}, int64[1,1] nd1 = {1}, int64[2] twice = {2, 1}, float half = {0.5}, float f2 = {2.0}, float f3 = {3.0}, float f4 = {4.0}, float[3] fw = {1.0, 0.5, 0.25}, float fbig = {3.0e38}, float flow = {-3.0e38}, double d2 = {2.0},
 int32 j2 = {2}, bool[3] mask = {1, 0, 1}, int64[2,3] mat = {1, 0, 0, 0, 1, 1}, int64 k0 = {0}, float f05 = {0.5}>
"""
CHAINS = {
    "transpose": "r = Reshape(s, s31)\n q = Transpose<perm = [1, 0]>(r)\n t = Reshape(q, m1)",
    "tile": "h = Slice(s, i0, i2)\n t = Tile(h, i2)",
    "gather_nd": "t = GatherND(s, nd)",
    "gather_elements": "t = GatherElements<axis = 0>(s, rev)",
    "gather_2d": "r = Reshape(s, s13)\n q = Gather<axis = 1>(r, rev)\n t = Reshape(q, m1)",
    "scatter_nd": "t = ScatterND(s, nd1, i3)",
    "scatter_elements": "t = ScatterElements<axis = 0>(s, m1, i2)",
    "pad": "h = Slice(s, i0, i2)\n t = Pad(h, pads, sc3)",
    "clip": "t = Clip(s, sc2, sc3)",
    "minmax": "h = Max(s, i3)\n t = Min(h, i64, s)",
    "where": "c = Greater(s, i3)\n t = Where(c, s, i2)",
    "where_equal": "c = Equal(s, i3)\n t = Where(c, i2, s)",
    "logic": "c = Less(s, i3)\n d = Not(c)\n e = Or(c, d)\n f = Xor(e, mask)\n g = And(f, d)\n t = Where(g, s, i1)",
    "bool_int": "c = LessOrEqual(s, i3)\n d = Cast<to = 7>(c)\n t = Add(d, i1)",
    "int_bool": "m = Mod(s, i2)\n c = Cast<to = 9>(m)\n t = Where(c, s, i2)",
    "matmul": "r = Reshape(s, s31)\n q = MatMul(mat, r)\n t = Reshape(q, m1)",
    "matmul_sizes": "r = Reshape(s, s31)\n q = Transpose<perm = [1, 0]>(r)\n p = MatMul(q, r)\n t = Reshape(p, m1)",
    "einsum": 'p = Einsum<equation = "i,i->">(s, w)\n t = Unsqueeze(p, i0)',
    "reduce_prod": "t = ReduceProd<keepdims = 1>(s)",
    "reduce_sum_axis": "u = Concat<axis = 0>(s, s)\n v = Concat<axis = 0>(i2, i3)\n r = Reshape(u, v)\n t = ReduceSum<keepdims = 0>(r, i0)",
    "reduce_max": "t = ReduceMax<keepdims = 1>(s)",
    "reduce_min": "t = ReduceMin<keepdims = 1>(s)",
    "cumsum": "t = CumSum(s, sc0)",
    "cumsum_reverse": "t = CumSum<exclusive = 1, reverse = 1>(s, sc0)",
    "range": "a = Squeeze(h0, i0)\n b = Add(a, sc3)\n t = Range(a, b, sc1)",
    "mod": "m = Mod(s, i3)\n t = Add(m, i1)",
    "fmod_negative": "n = Neg(s)\n m = Mod<fmod = 1>(n, i3)\n p = Abs(m)\n t = Add(p, i1)",
    "mod_negative": "n = Neg(s)\n m = Mod(n, i3)\n t = Add(m, i1)",
    "mod_negative_divisor": "m = Mod(s, m2)\n t = Abs(m)",
    "div_negative": "n = Neg(s)\n m = Div(n, i2)\n t = Neg(m)",
    "div_sign_unknown": "n = Sub(s, i3)\n m = Div(n, i2)\n t = Abs(m)",
    "div_by_size": "p = ReduceProd<keepdims = 1>(s)\n q = Mul(s, i2)\n t = Div(p, q)",
    "div_negative_constant": "m = Div(s, m2)\n t = Abs(m)",
    "ceil_half": "f = Cast<to = 1>(s)\n g = Div(f, f2)\n c = Ceil(g)\n t = Cast<to = 7>(c)",
    "floor_third": "f = Cast<to = 1>(s)\n g = Div(f, f3)\n c = Floor(g)\n t = Cast<to = 7>(c)",
    "truncated_third": "f = Cast<to = 1>(s)\n g = Div(f, f3)\n t = Cast<to = 7>(g)",
    "round_half": "f = Cast<to = 1>(s)\n g = Mul(f, half)\n c = Round(g)\n t = Cast<to = 7>(c)",
    "round_third": "f = Cast<to = 1>(s)\n g = Div(f, f3)\n c = Round(g)\n t = Cast<to = 7>(c)",
    "resize_scale": "f = Cast<to = 1>(s)\n g = Mul(f, fw)\n c = Floor(g)\n t = Cast<to = 7>(c)",
    "sqrt": "f = Cast<to = 1>(s)\n g = Mul(f, f)\n r = Sqrt(g)\n t = Cast<to = 7>(r)",
    "sqrt_double": "f = Cast<to = 11>(s)\n g = Mul(f, f)\n h = Mul(g, d2)\n i = Div(h, d2)\n r = Sqrt(i)\n t = Cast<to = 7>(r)",
    "pow": "t = Pow(s, sc2)",
    "pow_float": "f = Cast<to = 1>(s)\n g = Pow(f, f2)\n h = Pow(g, f05)\n t = Cast<to = 7>(h)",
    "clip_float": "f = Cast<to = 1>(s)\n g = Clip(f, f2, f4)\n t = Cast<to = 7>(g)",
    "clip_wide": "f = Cast<to = 1>(s)\n g = Clip(f, flow, fbig)\n t = Cast<to = 7>(g)",
    "float_compare": "f = Cast<to = 1>(s)\n g = Mul(f, half)\n c = Greater(g, f2)\n t = Where(c, s, i1)",
    "float_sign": "f = Cast<to = 1>(s)\n g = Sub(f, f3)\n h = Sign(g)\n i = Abs(h)\n j = Cast<to = 7>(i)\n t = Add(j, i1)",
    "half_type": "f = Cast<to = 10>(s)\n g = Cast<to = 1>(f)\n t = Cast<to = 7>(g)",
    "int32": "f = Cast<to = 6>(s)\n g = Div(f, j2)\n t = Cast<to = 7>(g)",
    "trilu": "r = Reshape(s, s13)\n e = Expand(r, s31)\n l = Trilu<upper = 0>(e, k0)\n t = ReduceSum<keepdims = 0>(l, i0)",
    "topk": "v, k = TopK(big, i2)\n t = Gather(s, k)",
    "argmax": "k = ArgMax<axis = 0, keepdims = 1>(big)\n t = Gather(s, k)",
    "split": "a, b = Split<axis = 0>(s, twice)\n t = Concat<axis = 0>(b, a)",
    "slice_back": "t = Slice(s, m1, m_far, i0, m1)",
    "reduce_mean": "f = Cast<to = 1>(s)\n g = ReduceMean<keepdims = 1>(f)\n h = Floor(g)\n t = Cast<to = 7>(h)",
    "flatten": "u = Unsqueeze(s, i0)\n v = Flatten<axis = 1>(u)\n t = Squeeze(v, i0)",
    "l1": "t = ReduceL1<keepdims = 1>(s)",
}


def text(chains):
    """One model; names of a chain's own values get its number."""
    lines = ["s = Shape(x)", "h0 = Shape<start = 0, end = 1>(x)"]
    for i, chain in enumerate(chains):
        own = [n.strip() for line in chain.split("\n") for n in line.split(" = ")[0].split(",")]
        for line in chain.split("\n"):
            left, right = line.strip().split(" = ", 1)
            cut = right.index("(", right.rindex(">") if ">" in right and "<" in right.split("(")[0] else 0)
            rename = lambda names: ", ".join(f"{n.strip()}_{i}" if n.strip() in own else n.strip() for n in names.split(","))
            lines.append(f"{rename(left)} = {right[:cut]}({rename(right[cut + 1:-1])})")
        lines += [f"shapevalue{i} = ConstantOfShape(t_{i})", f"value{i} = Identity(t_{i})"]
    body = "\n ".join(lines)
    outputs = ", ".join(f"float shapevalue{i}, int64 value{i}" for i in range(len(chains)))
    return f'<ir_version: 9, opset_import: ["" : 18]>\ng (float[a,b,8] x) => ({outputs})\n{CONSTANTS}\n{{\n {body}\n}}'


def model_of(chains):
    model = parser.parse_model(text(chains))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


class RandomChain:
    """Integers, floats and truth values of three elements, each computed from earlier ones; the integers are compared."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.weights = [h.make_node("Shape", ["x"], ["v0"])], []
        self.values = {"int": ["v0"], "float": [], "bool": []}
        for _ in range(self.r.integers(4, 14)):
            self.r.choice([self.add_integer, self.add_truth, self.add_float, self.add_move])()

    def op(self, kind, result, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(kind, inputs, [name], name=name, **attributes))
        if result:
            self.values[result].append(name)
        return name

    def constant(self, value, dtype=np.int64):
        self.weights.append(nh.from_array(np.asarray(value, dtype), f"c{len(self.weights)}"))
        return self.weights[-1].name

    def pick(self, kind):
        return str(self.r.choice(self.values[kind])) if self.values[kind] else None

    def add_integer(self):
        a, b = self.pick("int"), self.pick("int")
        kind = self.r.choice(["Add", "Sub", "Min", "Max", "Neg", "Abs", "Sign", "Mul", "Div", "Mod", "Clip"])
        if kind in ("Neg", "Abs", "Sign"):
            self.op(kind, "int", [a])
        elif kind == "Mul":
            self.op(kind, "int", [a, self.constant(self.r.integers(-3, 5))])
        elif kind in ("Div", "Mod"):
            self.op(kind, "int", [a, self.constant(self.r.choice([2, 3, 4, 7, -2, -3]))])
        elif kind == "Clip":
            self.op(kind, "int", [a, self.constant(-3), self.constant(self.r.integers(0, 9))])
        else:
            self.op(kind, "int", [a, b])

    def add_truth(self):
        a, b = self.pick("int"), self.r.choice([self.pick("int"), self.constant(self.r.integers(-2, 9))])
        truth = self.op(self.r.choice(["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]), "bool", [a, b])
        other = self.op(self.r.choice(["And", "Or", "Xor"]), "bool", [truth, self.pick("bool")])
        self.op("Where", "int", [self.op("Not", "bool", [other]), a, self.pick("int")])

    def add_float(self):
        f = self.pick("float") or self.op("Cast", "float", [self.pick("int")], to=1)
        factor = self.constant(self.r.choice([2, 4, 0.5, 1.5]), np.float32)
        f = self.op(self.r.choice(["Mul", "Div", "Add", "Sub"]), None, [f, factor])
        f = self.op(self.r.choice(["Floor", "Ceil", "Round"]), "float", [f])
        self.op("Cast", "int", [f], to=7)

    def add_move(self):
        a = self.pick("int")
        kind = self.r.choice(["Gather", "CumSum", "Slice", "MatMul", "ScatterElements", "Reduce"])
        if kind == "Gather":
            self.op(kind, "int", [a, self.constant(self.r.integers(-3, 3, 3))])
        elif kind == "CumSum":
            self.op(kind, "int", [a, self.constant(0)], exclusive=int(self.r.integers(2)), reverse=int(self.r.integers(2)))
        elif kind == "Slice":
            first = self.r.integers(0, 4)
            self.op(kind, "int", [self.op("Concat", None, [a, self.pick("int")], axis=0), self.constant([first]), self.constant([first + 3])])
        elif kind == "MatMul":
            self.op(kind, "int", [self.constant(self.r.integers(-1, 3, (3, 3))), a])
        elif kind == "ScatterElements":
            self.op(kind, "int", [a, self.constant([self.r.integers(3)]), self.constant([self.r.integers(9)])], axis=0)
        else:
            total = self.op(self.r.choice(["ReduceSum", "ReduceMax", "ReduceMin"]), None, [a], keepdims=1)
            self.op("Expand", "int", [total, self.constant([3])])

    def model(self):
        names = self.values["int"][1:]
        self.op("ConstantOfShape", None, [self.op("Abs", None, [names[-1]])])
        outputs = [h.make_tensor_value_info(n, 7, [3]) for n in names] + [h.make_tensor_value_info(self.nodes[-1].output[0], 1, None)]
        graph = h.make_graph(self.nodes, "g", [h.make_tensor_value_info("x", 1, ["a", "b", 8])], outputs, self.weights)
        return h.make_model(graph, ir_version=9, opset_imports=[h.make_opsetid("", 18)])


class ShapeChainsTest(unittest.TestCase):
    def test_random(self):
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3  # it warns of unused constants
        compiled = 0
        for seed in range(40):
            chain = RandomChain(seed)
            if len(chain.values["int"]) == 1:
                continue
            model = chain.model()
            session = onnxruntime.InferenceSession(model.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
            names = [o.name for o in model.graph.output]
            with tempfile.TemporaryDirectory() as tmp:
                (pathlib.Path(tmp) / "m.onnx").write_bytes(model.SerializeToString())
                code, _, text = testing.tools.call("fusion-compile", f"{tmp}/m.onnx", "-o", f"{tmp}/m.fusion", "--target=host")
                if code == 1 and "characters, expected at most" in text:
                    continue  # deeper than a size may be
                self.assertEqual(code, 0, text)
                compiled += 1
                for a, b in ((1, 1), (2, 3), (5, 4), (9, 2)):
                    feeds = {"x": np.zeros((a, b, 8), np.float32)}
                    expected = session.run(names[:-1], feeds)
                    if np.prod(np.abs(expected[-1]).astype(float)) > 1e6:
                        continue  # a result that is not worth its memory
                    found = testing.tools.run(f"{tmp}/m.fusion", feeds)
                    with self.subTest(seed=seed, a=a, b=b):
                        for name, value in zip(names, expected):
                            self.assertEqual(found[name].tolist(), value.tolist(), name)
                        self.assertEqual(list(found[names[-1]].shape), np.abs(expected[-1]).tolist())
        self.assertGreater(compiled, 30)

    def test_as_onnxruntime(self):
        model = model_of(CHAINS.values())
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for a, b in ((1, 1), (2, 3), (3, 2), (5, 4), (7, 9), (64, 5)):
            feeds = {"x": np.zeros((a, b, 8), np.float32)}
            found = testing.run_model(model, feeds)
            expected = dict(zip((o.name for o in model.graph.output), session.run(None, feeds)))
            for i, name in enumerate(CHAINS):
                with self.subTest(chain=name, a=a, b=b):
                    self.assertEqual(found[f"value{i}"].tolist(), expected[f"value{i}"].tolist())
                    self.assertEqual(found[f"shapevalue{i}"].shape, expected[f"shapevalue{i}"].shape)
