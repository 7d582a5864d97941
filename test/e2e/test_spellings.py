"""What a file may look like besides its operators: opsets, constants behind nodes, absent operands, initializers as inputs, If."""
import unittest

import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnx.reference import ReferenceEvaluator

from fusion import testing

LIMIT = 2e-6
X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)


def node(op, inputs, outputs, **attributes):
    return h.make_node(op, inputs, outputs if isinstance(outputs, list) else [outputs], name=f"/{op}_{outputs}", **attributes)


def model(nodes, weights, opset=21, outputs=("y",), extra_inputs=(), functions=(), domains=()):
    inputs = [h.make_tensor_value_info("x", T.FLOAT, X.shape)] + [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(weights[n].dtype), weights[n].shape) for n in extra_inputs]
    graph = h.make_graph(nodes, "g", inputs, [h.make_tensor_value_info(o, T.FLOAT, None) for o in outputs], [nh.from_array(np.asarray(a), n) for n, a in weights.items()])
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    return h.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 20 else 10, functions=functions)


def of_opset(opset):
    """Operators whose axes moved from attributes to inputs, spelled as the opset wants them."""
    w = {"w": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32), "one": np.float32(1e-3)}
    def axes(op, x, y, axis, since, **attributes):
        if opset < since:
            return node(op, [x], y, axes=[axis], **attributes)
        w.setdefault(f"axis{axis}", np.array([axis]))
        return node(op, [x, f"axis{axis}"], y, **attributes)
    split = node("Split", ["h"], ["a", "b"], axis=-1, **({"num_outputs": 2} if opset >= 18 else {}))
    nodes = [node("MatMul", ["x", "w"], "h"), split, node("Sigmoid", ["a"], "s"), node("Mul", ["a", "s"], "silu"), node("Mul", ["silu", "b"], "g"),
             node("Mul", ["g", "g"], "gg"), axes("ReduceMean", "gg", "m", -1, 18, keepdims=1), node("Add", ["m", "one"], "e"), node("Sqrt", ["e"], "r"), node("Div", ["g", "r"], "n"),
             axes("ReduceSum", "gg", "total", -1, 13, keepdims=0), axes("Unsqueeze", "total", "wide", 2, 13), node("Softmax", ["n"], "p", axis=-1), node("Add", ["p", "wide"], "y")]
    return model(nodes, w, opset)


class SpellingsTest(unittest.TestCase):
    def check(self, m, feeds=None, reference=None):
        feeds = feeds or {"x": X}
        reference = reference or testing.run_onnxruntime(m, feeds)
        found = testing.run_model(m, feeds)
        for name, r in reference.items():
            self.assertLessEqual(testing.error(found[name], r), LIMIT, name)

    def test_opsets_13_to_28(self):
        reference = testing.run_onnxruntime(of_opset(21), {"x": X})
        for opset in range(13, 29):
            with self.subTest(opset=opset):
                self.check(of_opset(opset), reference=reference)

    def test_opset_29_is_refused(self):
        with self.assertRaisesRegex(testing.ToolError, "opset 29 is not supported, expected 13 to 28"):
            testing.run_model(of_opset(29), {"x": X})

    def test_unchanged_operators_of_older_opsets(self):
        m = model([node("Tanh", ["x"], "t"), node("Not", ["c"], "d"), node("Cast", ["d"], "f", to=1), node("Mul", ["t", "t"], "y"), node("Identity", ["f"], "z")],
                  {"c": np.array([True, False])}, 13, ("y", "z"))
        self.check(m)
        # Only types, options with defaults and optional operands were added to these.
        self.check(model([node("MatMul", ["x", "w"], "h"), node("Add", ["h", "b"], "a"), node("ReduceMean", ["a"], "m", axes=[-1], keepdims=1), node("Sub", ["a", "m"], "c"),
                          node("Clip", ["c", "", "top"], "d"), node("QuantizeLinear", ["d", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "y")],
                         {"w": np.eye(8, dtype=np.float32)[::-1].copy(), "b": np.ones(8, np.float32), "top": np.float32(0.9), "s": np.float32(0.02), "z": np.uint8(120)}, 11))
        # The default axis and what it means have changed.
        with self.assertRaisesRegex(testing.ToolError, "Softmax.*changed between opset 11 and 13"):
            testing.run_model(model([node("Softmax", ["x"], "y")], {}, 11), {"x": X})
        bad = model([node("Squeeze", ["x"], "y", axes=[0])], {}, 11)
        with self.assertRaisesRegex(testing.ToolError, "Squeeze.*changed between opset 11 and 13"):
            testing.run_model(bad, {"x": X})

    def test_constants_behind_nodes(self):
        nodes = [node("Identity", ["start"], "s0"), node("Cast", ["s0"], "s1", to=T.INT64), node("Reshape", ["s1", "flat"], "s2"),
                 node("Cast", ["stop"], "e1", to=T.INT64), node("Abs", ["e1"], "e2"), node("Unsqueeze", ["axis", "zero"], "a1"),
                 node("Slice", ["x", "s2", "e2", "a1"], "cut"), node("CastLike", ["half", "cut"], "h1"), node("Mul", ["cut", "h1"], "y")]
        self.check(model(nodes, {"start": np.array(1, np.int32), "flat": np.array([-1]), "stop": np.array([-4], np.int32), "axis": np.array(1), "zero": np.array([0]), "half": np.array(0.5, np.float64)}))

    def test_shape_arithmetic_leaves_no_trace(self):
        nodes = [node("Shape", ["x"], "s"), node("Gather", ["s", "last"], "n"), node("Unsqueeze", ["n", "zero"], "n1"), node("Div", ["n1", "two"], "half"),
                 node("Concat", ["keep", "half", "two"], "shape", axis=0), node("Reshape", ["x", "shape"], "r"), node("ReduceSum", ["r", "end"], "y", keepdims=0)]
        self.check(model(nodes, {"last": np.array(2), "zero": np.array([0]), "two": np.array([2]), "keep": np.array([2, -1]), "end": np.array([-1])}))

    def test_absent_operands(self):
        w = {"w": np.linspace(0.5, 1.5, 8).astype(np.float32), "top": np.float32(0.4), "axes": np.array([2]), "begin": np.array([0]), "end": np.array([6])}
        nodes = [node("Clip", ["x", "", "top"], "c"), node("LayerNormalization", ["c", "w", ""], ["n", "", "inv"], axis=-1), node("Slice", ["n", "begin", "end", "axes", ""], "y"), node("Neg", ["inv"], "z")]
        m = model(nodes, w, outputs=("y", "z"))
        # onnxruntime takes no empty bias: the reference has none at all.
        del nodes[1].input[2:]
        self.check(m, reference=testing.run_onnxruntime(model(nodes, w, outputs=("y", "z")), {"x": X}))

    def test_initializers_as_inputs(self):
        w = np.random.default_rng(2).standard_normal((8, 3)).astype(np.float32)
        m = model([node("MatMul", ["x", "w"], "y")], {"w": w}, extra_inputs=["w"])
        self.check(m)
        # Compiled as a constant: a value for it is refused, never ignored.
        with self.assertRaisesRegex(testing.ToolError, "no input 'w'"):
            testing.run_model(m, {"x": X, "w": w + 1})

    def test_initializers_that_stay_inputs(self):
        w = np.random.default_rng(2).standard_normal((8, 3)).astype(np.float32)
        m = model([node("MatMul", ["x", "w"], "a"), node("Add", ["a", "b"], "y")], {"w": w, "b": np.ones(3, np.float32)}, extra_inputs=["w", "b"])
        for feeds, options in (({"w": w + 1}, ["--keep-input=w"]), ({"w": w + 1, "b": w[0]}, ["--keep-input=all"]), ({"w": w + 1, "b": w[0]}, ["--keep-input=w,b", "--disable-fusion=all"])):
            with self.subTest(options=options):
                feeds["x"] = X
                found = testing.run_model(m, feeds, *options)
                self.assertLessEqual(testing.error(found["y"], testing.run_onnxruntime(m, feeds)["y"]), LIMIT)
        for option, says in (("v", "no graph input has that name"), ("x", "has no initializer")):
            with self.assertRaisesRegex(testing.ToolError, f"--keep-input {option}: .*{says}"):
                testing.run_model(m, {"x": X}, f"--keep-input={option}")

    def test_top_k(self):
        x = np.random.default_rng(3).standard_normal((2, 5, 40)).astype(np.float32)
        x[0, 1, 5:] = -np.inf  # fewer than k that are better than the worst
        x[1, :, 7] = x[1, :, 3]  # equal ones: the first wins
        for largest in (1, 0):
            for axis, k in ((-1, 6), (1, 3), (0, 1)):
                m = model([node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=largest)], {"k": np.array([k])}, outputs=("y", "i"))
                m.graph.output[1].type.tensor_type.elem_type = T.INT64
                m.graph.input[0].CopyFrom(h.make_tensor_value_info("x", T.FLOAT, [2, "n", 40]))
                reference = testing.run_onnxruntime(m, {"x": x})
                for options in ([], ["--disable-fusion=all"]):
                    with self.subTest(axis=axis, largest=largest, options=options):
                        found = testing.run_model(m, {"x": x}, *options)
                        np.testing.assert_array_equal(found["y"], reference["y"])
                        np.testing.assert_array_equal(found["i"], reference["i"])

    def test_operators_that_the_standard_defines_by_others(self):
        x = np.random.default_rng(4).standard_normal((2, 8, 4, 6)).astype(np.float32)
        w = {"s": np.linspace(0.5, 1.5, 8).astype(np.float32), "b": np.linspace(-1, 1, 8).astype(np.float32)}
        nodes = [node("MeanVarianceNormalization", ["x"], "m"), node("GroupNormalization", ["m", "s", "b"], "g", num_groups=4), node("DepthToSpace", ["g"], "y", blocksize=2)]
        for opset, count in ((21, 2), (28, 3)):
            m = model(nodes[:count], w, opset, outputs=("y",) if count == 3 else ("g",))
            m.graph.input[0].CopyFrom(h.make_tensor_value_info("x", T.FLOAT, ["n", 8, 4, 6]))
            outputs = [o.name for o in m.graph.output]
            self.check(m, {"x": x}, dict(zip(outputs, ReferenceEvaluator(m).run(None, {"x": x}))))

    def test_functions_are_inlined(self):
        f = h.make_function("local", "Silu", ["a"], ["b"], [h.make_node("Sigmoid", ["a"], ["s"]), h.make_node("Mul", ["a", "s"], ["b"])], [h.make_opsetid("", 21)])
        g = h.make_function("local", "Gate", ["a", "b"], ["c"], [h.make_node("Silu", ["a"], ["s"], domain="local"), h.make_node("Mul", ["s", "b"], ["c"])],
                            [h.make_opsetid("", 21), h.make_opsetid("local", 1)])
        nodes = [node("Gate", ["x", "x"], "a", domain="local"), node("Gate", ["a", "x"], "y", domain="local")]
        self.check(model(nodes, {}, functions=[f, g], domains=["local"]))

    def test_if_on_what_is_known(self):
        branch = lambda op: h.make_graph([h.make_node(op, ["x"], ["o"])], op, [], [h.make_tensor_value_info("o", T.FLOAT, None)])
        for wanted in (2, 3):
            nodes = [node("Shape", ["x"], "s"), node("Size", ["s"], "rank"), node("Equal", ["rank", "n"], "is"), node("Not", ["is"], "no"), node("Not", ["no"], "c"),
                     node("If", ["c"], "y", then_branch=branch("Tanh"), else_branch=branch("Neg"))]
            with self.subTest(wanted=wanted):
                self.check(model(nodes, {"n": np.array(wanted)}))

    def test_sizes_of_zero(self):
        """No element along the contracted axis: products of nothing are 0, whether the size is known or not."""
        for rows, inner in ((3, 0), (0, 4), (0, 0)):
            for known in (True, False):
                x = np.ones((rows, inner), np.float32)
                m = model([node("MatMul", ["x", "w"], "h"), node("Add", ["h", "b"], "y")], {"w": np.ones((inner, 5), np.float32), "b": np.ones(5, np.float32)})
                m.graph.input[0].CopyFrom(h.make_tensor_value_info("x", T.FLOAT, [rows if known else "n", inner]))
                for options in ([], ["--disable-fusion=all"]):
                    with self.subTest(rows=rows, inner=inner, known=known, options=options):
                        np.testing.assert_array_equal(testing.run_model(m, {"x": x}, *options)["y"], np.ones((rows, 5), np.float32))

    def test_file_without_node_names(self):
        m = of_opset(21)
        for n in m.graph.node:
            n.ClearField("name")
        self.check(m)
