"""Sizes of zero at run time: an empty batch, an empty sequence, an empty past. Compiled once, run on the host, as onnxruntime computes it."""
import pathlib
import tempfile
import unittest

import numpy as np
import onnxruntime
from onnx import numpy_helper, parser

from fusion import testing

# Name: (inputs, outputs, initializers, body). Each of b, s and p is run at 0 and more.
GRAPHS = {
    "pointwise": ("float[b,s,8] x", "float[b,s,8] y, int64[3] n", "<float[8] w>", "m = Mul(x, w)\n y = Tanh(m)\n n = Shape(y)"),
    "matmul": ("float[b,s,8] x", "float[b,s,6] y", "<float[8,6] m, float[6] c>", "p = MatMul(x, m)\n y = Add(p, c)"),
    "matmul_chain": ("float[b,s,8] x", "float[b,s,8] y", "<float[8,6] m, float[6,8] r>", "p = MatMul(x, m)\n g = Sigmoid(p)\n q = MatMul(g, r)\n y = Add(q, x)"),
    "matmul_of_empty_depth": ("float[4,p] x, float[p,6] z", "float[4,6] y", "", "y = MatMul(x, z)"),
    "softmax": ("float[b,s,8] x", "float[b,s,8] y", "", "y = Softmax<axis = -1>(x)"),
    "layer_norm": ("float[b,s,8] x", "float[b,s,8] y, float[b,s,8] a", "<float[8] w, float[8] c>", "a = Add(x, x)\n y = LayerNormalization(a, w, c)"),
    "reduce_rows": ("float[b,s,8] x", "float[b,s] y", "<int64[1] last = {-1}>", "y = ReduceSum<keepdims = 0>(x, last)"),
    "reduce_to_sum": ("float[b,s,8] x", "float[b,8] y, float[8] z", "<int64[1] one = {1}>", "y = ReduceSum<keepdims = 0>(x, one)\n z = ReduceProd<axes = [0, 1], keepdims = 0>(x)"),
    "concat": ("float[b,p,8] old, float[b,s,8] x", "float[b,t,8] y, float[b,t,8] z", "", "y = Concat<axis = 1>(old, x)\n z = Neg(y)"),
    "views": ("float[b,s,8] x", "float[b,2,s,4] y, float[k,8] z", "<int64[4] split = {0, 0, 2, 4}, int64[2] flat = {-1, 8}>", "r = Reshape(x, split)\n y = Transpose<perm = [0, 2, 1, 3]>(r)\n z = Reshape(x, flat)"),
    "gather": ("int64[b,s] i", "float[b,s,8] y", "<float[10,8] table>", "y = Gather(table, i)"),
    "where": ("float[b,s,8] x", "float[b,s,8] y", "<float zero = {0.0}>", "c = Less(x, zero)\n y = Where(c, zero, x)"),
    "cast": ("float[b,s,8] x", "int64[b,s,8] y, bool[b,s,8] z", "", "y = Cast<to = 7>(x)\n z = Cast<to = 9>(x)"),
    "slice": ("float[b,s,8] x", "float[b,k,8] y", "<int64[1] from = {1}, int64[1] to = {9}, int64[1] axis = {1}>", "y = Slice(x, from, to, axis)"),
    "attention": ("float[b,2,s,4] q, float[b,2,p,4] pk, float[b,2,p,4] pv, float[b,2,s,4] k, float[b,2,s,4] v",
                  "float[b,2,s,4] y, float[b,2,t,4] keys, float[b,2,t,4] values", "<float scale = {0.5}>",
                  "keys = Concat<axis = 2>(pk, k)\n values = Concat<axis = 2>(pv, v)\n kt = Transpose<perm = [0, 1, 3, 2]>(keys)\n qs = Mul(q, scale)\n"
                  " s1 = MatMul(qs, kt)\n w = Softmax<axis = -1>(s1)\n y = MatMul(w, values)"),
    "cumsum": ("float[b,s] x", "float[b,s] y", "<int64 axis = {1}>", "y = CumSum(x, axis)"),
    "expand": ("float[b,1,8] x, float[s] z", "float[b,s,8] y", "<int64[1] one = {1}>", "n = Shape(z)\n m = Concat<axis = 0>(one, n, one)\n y = Expand(x, m)"),
    "tile": ("float[b,s] x", "float[b,k] y", "<int64[2] times = {1, 3}>", "y = Tile(x, times)"),
    "static": ("float[0,8] x", "float[0,6] y, float[8] z", "<float[8,6] m, int64[1] rows = {0}>", "y = MatMul(x, m)\n z = ReduceSum<keepdims = 0>(x, rows)"),
    "pad": ("float[b,s] x", "float[b,k] y", "<int64[4] pads = {0, 1, 0, 2}>", "y = Pad(x, pads)"),
}


def feeds_of(session, sizes, r):
    feeds = {}
    for i in session.get_inputs():
        shape = [sizes.get(d, d) for d in i.shape]
        feeds[i.name] = r.integers(0, 10, shape) if i.type == "tensor(int64)" else r.standard_normal(shape).astype(np.float32)
    return feeds


class EmptyTest(unittest.TestCase):
    def check(self, name, options):
        inputs, outputs, weights, body = GRAPHS[name]
        opset = 17 if "ReduceProd<axes" in body else 18
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng ({inputs}) => ({outputs})\n{weights}\n{{\n {body}\n}}')
        r = np.random.default_rng(3)
        for info in model.graph.value_info:
            if not any(t.name == info.name for t in model.graph.initializer):
                shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
                model.graph.initializer.append(numpy_helper.from_array(r.standard_normal(shape).astype(np.float32), info.name))
        del model.graph.value_info[:]
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        with tempfile.TemporaryDirectory() as tmp:
            (pathlib.Path(tmp) / "m.onnx").write_bytes(model.SerializeToString())
            testing.tools.compile(f"{tmp}/m.onnx", f"{tmp}/m.fusion", *options)
            self.compare(name, f"{tmp}/m.fusion", session, r)

    def compare(self, name, artifact, session, r):
        for b, s, p in ((2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (1, 1, 0)):
            with self.subTest(graph=name, b=b, s=s, p=p):
                feeds = feeds_of(session, {"b": b, "s": s, "p": p}, r)
                found = testing.tools.run(artifact, feeds)
                for output, expected in zip(session.get_outputs(), session.run(None, feeds)):
                    self.assertEqual(found[output.name].shape, expected.shape)
                    self.assertEqual(found[output.name].dtype, expected.dtype)
                    np.testing.assert_allclose(found[output.name], expected, rtol=2e-5, atol=1e-6)


for graph in GRAPHS:
    setattr(EmptyTest, f"test_{graph}", lambda self, graph=graph: self.check(graph, ()))
    setattr(EmptyTest, f"test_{graph}_unfused", lambda self, graph=graph: self.check(graph, ("--disable-fusion=all",)))
