"""Small models of the four main patterns, and mutations of each: nearly the pattern, or the pattern in disguise.

A mutation says what must become of it: FUSED (the pattern's ops are raised all the same), or the reason code and the node at
which the report says that matching stopped."""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh

FUSED = "fused"
BIG = np.iinfo(np.int64).max


class Model:
    """Nodes by name (a node's first output is called like it), so that mutations can find them."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs = [], {}, {}, []
        self.rounds = False  # to 16 bits somewhere: the default numerics keep more

    def input(self, name, *shape, seed=0):
        self.inputs[name] = np.random.default_rng([len(self.inputs), seed]).standard_normal(shape).astype(np.float32)
        return name

    def const(self, name, value):
        self.weights[name] = np.asarray(value)
        return name

    def op(self, name, kind, *inputs, **attributes):
        self.nodes.append(h.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def slice(self, name, x, start, stop, axis, step=1):
        return self.op(name, "Slice", x, *(self.const(f"{name}.{k}", np.array([v])) for k, v in (("b", start), ("e", stop), ("a", axis), ("s", step))))

    # For mutations.

    def node(self, name):
        return next(n for n in self.nodes if n.name == name)

    def rewire(self, name, index, value):
        self.node(name).input[index] = value

    def behind(self, name, *steps):
        """Inserts (name, kind, more inputs, attributes) after a node, for all its users."""
        users = [(n, i) for n in self.nodes for i, x in enumerate(n.input) if x == name]
        at, value = self.nodes.index(self.node(name)) + 1, name
        for k, (new, kind, more, attributes) in enumerate(steps):
            self.nodes.insert(at + k, h.make_node(kind, [value, *more], [new], name=new, **attributes))
            value = new
        for n, i in users:
            n.input[i] = value

    def round(self, name, to=T.FLOAT16):
        self.rounds = True
        self.behind(name, (f"{name}.down", "Cast", [], {"to": to}), (f"{name}.up", "Cast", [], {"to": T.FLOAT}))

    def before(self, name, new, kind, *inputs, **attributes):
        self.nodes.insert(self.nodes.index(self.node(name)), h.make_node(kind, list(inputs), [new], name=new, **attributes))

    def proto(self):
        inputs = [h.make_tensor_value_info(n, T.FLOAT, a.shape) for n, a in self.inputs.items()]
        outputs = [h.make_tensor_value_info(n, T.FLOAT, None) for n in self.outputs]
        graph = h.make_graph(self.nodes, "g", inputs, outputs, [nh.from_array(a, n) for n, a in self.weights.items()])
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=10)


def rms_norm():
    m, width = Model(), 24
    m.op("sum", "Add", m.input("a", 2, 5, width), m.input("b", 2, 5, width))
    m.op("square", "Pow", "sum", m.const("two", np.float32(2)))
    m.op("mean", "ReduceMean", "square", m.const("last", np.array([-1])), keepdims=1)
    m.op("shifted", "Add", "mean", m.const("eps", np.float32(1e-3)))
    m.op("root", "Sqrt", "shifted")
    m.op("inverse", "Reciprocal", "root")
    m.op("normal", "Mul", "sum", "inverse")
    m.op("scaled", "Mul", m.const("w", np.linspace(0.5, 1.5, width).astype(np.float32)), "normal")
    m.op("y", "MatMul", "scaled", m.const("p", np.eye(width, dtype=np.float32)))
    m.outputs = ["y", "sum"]
    return m


def swiglu():
    m, width, inner = Model(), 16, 24
    r = np.random.default_rng(1)
    for name in ("gate", "up"):
        m.op(name, "MatMul", m.input("x", 2, 5, width) if name == "gate" else "x", m.const(f"w.{name}", (r.standard_normal((width, inner)) / 4).astype(np.float32)))
    m.op("sigmoid", "Sigmoid", "gate")
    m.op("silu", "Mul", "gate", "sigmoid")
    m.op("gated", "Mul", "silu", "up")
    m.op("y", "MatMul", "gated", m.const("w.down", (r.standard_normal((inner, width)) / 4).astype(np.float32)))
    m.outputs = ["y"]
    return m


def attention(rotated):
    m, size, rows = Model(), 8, 6
    for name in "qkv":
        m.input(name, 2, 2, rows, size)
    angle = np.outer(np.arange(rows), 100.0 ** (-np.arange(size // 2) / (size // 2)))
    m.const("cos", np.cos(np.concatenate([angle, angle], -1)).astype(np.float32))
    m.const("sin", np.sin(np.concatenate([angle, angle], -1)).astype(np.float32))
    for x in "qk" if rotated else "":
        m.slice(f"{x}.left", x, 0, size // 2, 3)
        m.slice(f"{x}.right", x, size // 2, BIG, 3)
        m.op(f"{x}.neg", "Neg", f"{x}.right")
        m.op(f"{x}.turned", "Concat", f"{x}.neg", f"{x}.left", axis=-1)
        m.op(f"{x}.cos", "Mul", x, "cos")
        m.op(f"{x}.sin", "Mul", f"{x}.turned", "sin")
        m.op(f"{x}.rope", "Add", f"{x}.cos", f"{x}.sin")
    tail = ".rope" if rotated else ""
    m.op("kT", "Transpose", "k" + tail, perm=[0, 1, 3, 2])
    m.op("scores", "MatMul", "q" + tail, "kT")
    m.op("scaled", "Mul", "scores", m.const("scale", np.float32(size ** -0.5)))
    m.op("masked", "Add", "scaled", m.const("mask", np.where(np.tril(np.ones((rows, rows))) > 0, 0, -1e9).astype(np.float32)))
    m.op("weights", "Softmax", "masked", axis=-1)
    m.op("mixed", "MatMul", "weights", "v")
    m.op("y", "Transpose", "mixed", perm=[0, 2, 1, 3])
    m.outputs = ["y"]
    return m


def rope():
    return attention(True)


def plain_attention():
    return attention(False)


def mutations(base):
    """Decorator's list: {name: (function, expectation)} of one base."""
    return MUTATIONS.setdefault(base, {})


MUTATIONS = {}


def mutation(base, expectation):
    def register(function):
        mutations(base)[function.__name__] = (function, expectation)
        return function
    return register


# RMSNorm ------------------------------------------------------------------------------------------------------------------

@mutation(rms_norm, FUSED)
def norm_normal_is_an_output(m):
    m.outputs.append("normal")


@mutation(rms_norm, FUSED)
def norm_mean_has_another_user(m):
    m.op("mean.used", "Exp", "mean")
    m.outputs += ["mean", "mean.used"]


@mutation(rms_norm, FUSED)
def norm_mean_without_its_axis(m):
    m.node("mean").attribute[0].i = 0
    m.behind("mean", ("mean.axis", "Unsqueeze", ["last"], {}))


@mutation(rms_norm, FUSED)
def norm_weight_of_rows(m):
    m.const("w", np.linspace(0.5, 1.5, 5).astype(np.float32)[:, None])


@mutation(rms_norm, ("EPS_NOT_CONST", "shifted"))
def norm_epsilon_is_an_input(m):
    del m.weights["eps"]
    m.inputs["eps"] = np.array(1e-3, np.float32)


@mutation(rms_norm, ("EPS_NOT_CONST", "shifted"))
def norm_epsilon_varies(m):
    m.const("eps", np.linspace(1e-3, 1e-2, 24).astype(np.float32))


@mutation(rms_norm, ("EPS_NOT_CONST", "shifted"))
def norm_epsilon_is_negative(m):
    m.const("eps", np.float32(-1e-6))


@mutation(rms_norm, ("AXIS_NOT_LAST", "mean"))
def norm_over_rows(m):
    m.const("last", np.array([1]))


@mutation(rms_norm, ("CAST_ORDER", "mean.down"))
def norm_mean_is_rounded(m):
    m.round("mean")


@mutation(rms_norm, ("PATTERN", "shifted"))
def norm_epsilon_outside_of_the_root(m):
    m.rewire("root", 0, "mean")
    m.rewire("shifted", 0, "root")
    m.rewire("inverse", 0, "shifted")
    i, j = m.nodes.index(m.node("shifted")), m.nodes.index(m.node("root"))
    m.nodes[i], m.nodes[j] = m.nodes[j], m.nodes[i]


@mutation(rms_norm, ("PATTERN", "cube"))
def norm_of_cubes(m):
    m.const("two", np.float32(3))
    m.behind("square", ("cube", "Abs", [], {}))


@mutation(rms_norm, ("PATTERN", "normal"))
def norm_of_another_value(m):
    m.rewire("normal", 0, "a")


# SwiGLU -------------------------------------------------------------------------------------------------------------------

@mutation(swiglu, FUSED)
def swiglu_sigmoid_is_an_output(m):
    m.outputs.append("sigmoid")


@mutation(swiglu, FUSED)
def swiglu_silu_is_an_output(m):
    m.outputs.append("silu")


@mutation(swiglu, FUSED)
def swiglu_gate_has_another_user(m):
    m.op("gate.used", "Exp", "gate")
    m.outputs.append("gate.used")


@mutation(swiglu, FUSED)
def swiglu_up_on_the_left(m):
    m.node("gated").input[:] = ["up", "silu"]


def steepen(m, factor):
    m.before("sigmoid", "steep", "Mul", "gate", m.const("alpha", np.asarray(factor, np.float32)))
    m.rewire("sigmoid", 0, "steep")


@mutation(swiglu, FUSED)
def swiglu_with_a_factor_inside(m):
    steepen(m, 1.702)


@mutation(swiglu, FUSED)
def swiglu_of_halves(m):
    m.const("w.both", np.concatenate([m.weights["w.up"], m.weights["w.gate"]], 1))
    m.nodes[:2] = [h.make_node("MatMul", ["x", "w.both"], ["both"], name="both"), h.make_node("Split", ["both"], ["up", "gate"], name="halves", axis=-1, num_outputs=2)]


@mutation(swiglu, ("PATTERN", "sigmoid"))
def swiglu_sigmoid_of_the_other(m):
    m.rewire("sigmoid", 0, "up")
    m.rewire("gated", 1, "gate")


@mutation(swiglu, ("CAST_ORDER", "sigmoid.down"))
def swiglu_sigmoid_is_rounded(m):
    m.round("sigmoid")


@mutation(swiglu, ("PATTERN", "sigmoid"))
def swiglu_added(m):
    m.node("silu").op_type = "Add"


@mutation(swiglu, ("PATTERN", "sigmoid"))
def swiglu_factor_varies(m):
    steepen(m, np.linspace(0.5, 2, 24))


# RoPE ---------------------------------------------------------------------------------------------------------------------

@mutation(rope, FUSED)
def rope_turned_is_an_output(m):
    m.outputs.append("q.turned")


@mutation(rope, FUSED)
def rope_result_is_an_output(m):
    m.outputs.append("k.rope")


@mutation(rope, FUSED)
def rope_sum_the_other_way_round(m):
    m.node("q.rope").input[:] = ["q.sin", "q.cos"]


@mutation(rope, FUSED)
def rope_backwards(m):
    m.const("sin", -m.weights["sin"])


@mutation(rope, FUSED)
def rope_without_a_sign(m):
    m.node("q.neg").op_type = "Identity"


@mutation(rope, FUSED)
def rope_sign_on_the_other_half(m):
    m.rewire("q.neg", 0, "q.left")
    m.node("q.turned").input[:] = ["q.right", "q.neg"]
    m.rewire("q.cos", 1, "sin")
    m.rewire("q.sin", 1, "cos")
    m.node("q.rope").op_type = "Sub"


@mutation(rope, ("PATTERN", "q.turned"))
def rope_of_unequal_parts(m):
    m.const("q.left.e", np.array([3]))
    m.const("q.right.b", np.array([3]))


@mutation(rope, ("CAST_ORDER", "q.sin.up"))
def rope_product_is_rounded(m):
    m.round("q.sin")


@mutation(rope, ("LAYOUT", "q.sin"))
def rope_sines_are_one_number(m):
    m.rewire("q.sin", 1, m.const("half", np.float32(0.5)))


@mutation(rope, FUSED)
def rope_as_a_difference(m):
    m.node("q.rope").op_type = "Sub"


@mutation(rope, ("PATTERN", "q.turned"))
def rope_of_another_value(m):
    m.before("q.cos", "q.other", "Abs", "q")
    m.rewire("q.cos", 0, "q.other")


@mutation(rope, FUSED)
def rope_halves_of_the_table_differ(m):
    m.const("cos2", m.weights["cos"] * np.linspace(0.5, 1, 8).astype(np.float32))
    m.rewire("q.cos", 1, "cos2")


# Attention ----------------------------------------------------------------------------------------------------------------

@mutation(plain_attention, FUSED)
def attention_weights_are_an_output(m):
    m.outputs.append("weights")


@mutation(plain_attention, FUSED)
def attention_scores_have_another_user(m):
    m.op("scores.used", "Tanh", "scaled")
    m.outputs.append("scores.used")


@mutation(plain_attention, FUSED)
def attention_permuted_mask(m):
    m.before("masked", "mask.T", "Transpose", "mask", perm=[1, 0])
    m.rewire("masked", 1, "mask.T")


@mutation(plain_attention, FUSED)
def attention_soft_mask(m):
    m.const("mask", np.where(np.tril(np.ones((6, 6))) > 0, 0, -3).astype(np.float32))


def select(m, visible, low):
    m.const("visible", visible)
    m.nodes[m.nodes.index(m.node("masked"))] = h.make_node("Where", ["visible", "scaled", m.const("low", np.float32(low))], ["masked"], name="masked")


@mutation(plain_attention, FUSED)
def attention_selected_scores(m):
    select(m, np.tril(np.ones((6, 6), bool)), -1e9)


@mutation(plain_attention, FUSED)
def attention_selected_scores_of_a_row_that_sees_nothing(m):
    select(m, np.tril(np.ones((6, 6), bool), -1), -1e9)


@mutation(plain_attention, ("MASK_UNPROVEN", "masked"))
def attention_selected_scores_keep_weight(m):
    select(m, np.tril(np.ones((6, 6), bool)), -5)


@mutation(plain_attention, ("MASK_UNPROVEN", "masked"))
def attention_selected_sums_of_low_biases(m):
    select(m, np.tril(np.ones((6, 6), bool)), -1e9)
    m.before("masked", "padded", "Add", "scaled", m.const("padding", np.array([-3e38, 0, 0, 0, 0, 0], np.float32)))
    m.rewire("masked", 1, "padded")


@mutation(plain_attention, FUSED)
def attention_scale_by_columns(m):
    m.before("scores", "q.scaled", "Mul", "q", m.const("by", np.linspace(0.5, 2, 8).astype(np.float32)))
    m.rewire("scores", 0, "q.scaled")


@mutation(plain_attention, FUSED)
def attention_probabilities_cleared(m):
    m.behind("weights", ("weights.bad", "IsNaN", [], {}))
    m.before("mixed", "weights.good", "Where", "weights.bad", m.const("zero", np.float32(0)), "weights")
    m.rewire("weights.bad", 0, "weights")
    m.rewire("mixed", 0, "weights.good")


@mutation(plain_attention, ("AXIS_NOT_LAST", "weights"))
def attention_over_rows(m):
    m.node("weights").attribute[0].i = 2


@mutation(plain_attention, ("CAST_ORDER", "masked.down"))
def attention_scores_are_rounded(m):
    m.round("masked")


@mutation(plain_attention, ("PATTERN", "masked"))
def attention_mask_is_a_factor(m):
    m.node("masked").op_type = "Mul"
    m.const("mask", np.tril(np.ones((6, 6))).astype(np.float32))


@mutation(plain_attention, ("PATTERN", "capped"))
def attention_capped_behind_the_mask(m):
    m.const("mask", np.linspace(-1, 1, 36).reshape(6, 6).astype(np.float32))
    m.behind("masked", ("capped", "Tanh", [], {}))


@mutation(plain_attention, FUSED)
def attention_value_is_a_product(m):
    m.before("mixed", "kk", "MatMul", "k", "kT")
    m.rewire("mixed", 1, "kk")


@mutation(plain_attention, ("PATTERN", "masked"))
def attention_scores_of_an_input(m):
    m.input("bias", 2, 2, 6, 6)
    m.rewire("scaled", 0, "bias")
