"""Operators of encoders and routers at open sizes, with onnxruntime's numbers: pools, batch norms, one-hot dispatch of experts; positions of no row."""
import unittest

import numpy as np
import onnx.parser

from fusion import testing

LIMIT = 1e-5
random = np.random.default_rng(7)


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]> {text}')


def normal(*shape):
    return random.standard_normal(shape, dtype=np.float32)


# What the attributes say, the sizes of x behind [n, 2], and sizes to run at.
POOLS = [
    ("kernel_shape = [2], strides = [2]", "t", [(2,), (3,), (8,)]),
    ("kernel_shape = [3], pads = [1, 1], strides = [2]", "t", [(1,), (2,), (9,)]),
    ("kernel_shape = [3], pads = [1, 1], strides = [2], ceil_mode = 1", "8", [(8,)]),
    ("kernel_shape = [2, 3], strides = [3, 2], ceil_mode = 1", "9, 10", [(9, 10)]),
    ("kernel_shape = [2, 3], dilations = [2, 1], strides = [1, 2]", "h, w", [(3, 3), (5, 6)]),
    ('kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"', "7, 8", [(7, 8)]),
    ('kernel_shape = [4, 3], auto_pad = "SAME_LOWER"', "h, w", [(1, 1), (7, 8)]),
    ("kernel_shape = [14, 14], strides = [14, 14]", "h, w", [(28, 30)]),
]

EXPERTS = """g (float[n,8] x, float[8,4] gate, float[4,8,6] up, float[4,6,8] down) => (float[n,8] y)
  <int64[1] count = {2}, int64 experts = {4}, float[2] values = {0.0, 1.0}, int64[1] last = {-1}, int64[1] one = {1}, int64[1] zero = {0}>
  {
    scores = MatMul(x, gate) p = Softmax(scores) best, place = TopK(p, count) sum = ReduceSum(best, last) share = Div(best, sum)
    hot = OneHot(place, experts, values) column = Unsqueeze(share, last) shares = Mul(hot, column) dispatch = ReduceSum<keepdims = 0>(shares, one)
    all = Unsqueeze(x, zero) h0 = MatMul(all, up) h = Relu(h0) o = MatMul(h, down)
    byExpert = Transpose(dispatch) weight = Unsqueeze(byExpert, last) part = Mul(o, weight) y = ReduceSum<keepdims = 0>(part, zero)
  }"""


class PoolsAndExpertsTest(unittest.TestCase):
    def check(self, model, feeds):
        reference = testing.run_onnxruntime(model, feeds)
        for options in ([], ["--disable-fusion=all"]):
            found = testing.run_model(model, feeds, *options)
            for name, expected in reference.items():
                self.assertEqual(found[name].shape, expected.shape)
                if expected.size:
                    self.assertLessEqual(testing.error(found[name], expected), LIMIT)

    def test_pools(self):
        for operator in ("MaxPool", "AveragePool", "AveragePool<count_include_pad = 1,"):
            name, _, more = operator.partition("<")
            for attributes, sizes, runs in POOLS:
                rank = 2 + sizes.count(",") + 1
                model = parse(f"g (float[n,2,{sizes}] x) => (float[{','.join('abcd'[:rank])}] y) {{ y = {name}<{more}{attributes}>(x) }}", 19)
                for run in runs:
                    with self.subTest(operator, attributes=attributes, sizes=run):
                        self.check(model, {"x": normal(2, 2, *run)})

    def test_places_of_maxima(self):
        for order in (0, 1):
            model = parse(f"""g (float[n,2,h,w] x) => (float[a,b,c,d] y, int64[e,f,i,j] z)
                {{ y, z = MaxPool<kernel_shape = [2, 3], pads = [1, 1, 0, 1], strides = [2, 1], storage_order = {order}>(x) }}""")
            self.check(model, {"x": normal(2, 2, 5, 6)})

    def test_batch_norm(self):
        model = parse("g (float[n,3,t] x, float[3] a, float[3] b, float[3] m, float[3] v) => (float[n,3,t] y) { y = BatchNormalization<epsilon = 0.01>(x, a, b, m, v) }")
        self.check(model, {"x": normal(2, 3, 4), "a": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))})

    def test_one_hot(self):
        for axis in (-1, 0, 1):
            model = parse(f"g (int64[n,s] x) => (float[a,b,c] y) <int64 d = {{5}}, float[2] v = {{-1.0, 2.5}}> {{ y = OneHot<axis = {axis}>(x, d, v) }}")
            self.check(model, {"x": random.integers(-7, 8, (3, 4))})

    def test_experts_by_one_hot(self):
        for rows in (1, 7):
            self.check(parse(EXPERTS), {"x": normal(rows, 8), "gate": normal(8, 4), "up": normal(4, 8, 6), "down": normal(4, 6, 8)})

    def test_positions_of_no_row(self):
        forms = {"onnx": (23, "int64[b,s]", "y = RotaryEmbedding(x, c, s, p)", lambda p: np.full((1, 2), p)),
                 "microsoft": (18, "int64[b,s]", "y = com.microsoft.RotaryEmbedding(x, p, c, s)", lambda p: np.full((1, 2), p)),
                 "start": (18, "int64[1]", "y = com.microsoft.RotaryEmbedding(x, p, c, s)", lambda p: np.array([p]))}
        angles = np.arange(8, dtype=np.float32)[:, None] * np.linspace(0.1, 1, 4, dtype=np.float32)
        for name, (opset, shape, node, places) in forms.items():
            model = parse(f"g (float[b,2,s,8] x, {shape} p, float[8,4] c, float[8,4] s) => (float[b,2,s,8] y) {{ {node} }}", opset)
            model.ir_version = 10 if opset > 20 else 8
            feeds = {"x": normal(1, 2, 2, 8), "c": np.cos(angles), "s": np.sin(angles), "p": places(3)}
            self.check(model, feeds)
            for position in (-1, 8):
                for options in ([], ["--disable-fusion=all"]):
                    with self.subTest(name, position=position, options=options):
                        with self.assertRaisesRegex(testing.ToolError, f"an index is out of range; input 'p' holds {position}$"):
                            testing.run_model(model, {**feeds, "p": places(position)}, *options)


if __name__ == "__main__":
    unittest.main()
