"""Rules that write operators of an ONNX graph by algebraically equal ones: one small function a rule.

A rule takes the graph and a node and answers the name of a value equal to the node's first output, computed by nodes that it has
emitted, or None where it does not apply."""
import copy

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

RULES = {}  # name: (operators, function)


def rule(*operators):
    def register(function):
        RULES[function.__name__] = (operators, function)
        return function
    return register


class Graph:
    """The nodes of a model with their types and constants, and those that a rule emits."""

    def __init__(self, model):
        self.model = copy.deepcopy(model)
        graph = onnx.shape_inference.infer_shapes(self.model, data_prop=True).graph
        self.types, self.constants, self.uses, self.producer = {}, {}, {}, {}
        for v in [*graph.value_info, *graph.input, *graph.output]:
            t = v.type.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in t.shape.dim] if t.HasField("shape") else None
            self.types[v.name] = t.elem_type, dims
        for t in graph.initializer:
            self.add_constant(t.name, nh.to_array(t))
        for n in self.model.graph.node:
            if n.op_type == "Constant" and n.attribute[0].name == "value":
                self.add_constant(n.output[0], nh.to_array(n.attribute[0].t))
            for x in n.input:
                self.uses[x] = self.uses.get(x, 0) + 1
            for y in n.output:
                self.producer[y] = n
        for v in self.model.graph.output:
            self.uses[v.name] = self.uses.get(v.name, 0) + 1
        self.opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        taken = [*self.types, *self.producer]
        self.emitted, self.count = [], max((int(n.split(".")[2]) for n in taken if n.startswith("respelled.")), default=0)

    def add_constant(self, name, array):
        self.constants[name] = array
        self.types[name] = h.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)

    # What a rule may ask.

    def element(self, x):
        return self.types.get(x, (0, None))[0]

    def is_float(self, x):
        return self.element(x) in (T.FLOAT, T.FLOAT16, T.BFLOAT16)

    def dims(self, x):
        return self.types.get(x, (0, None))[1]

    def rank(self, x):
        return len(self.dims(x)) if self.dims(x) is not None else None

    def size(self, x, axis):
        """The size of an axis where it is known."""
        d = self.dims(x)
        return d[axis] if d is not None and -len(d) <= axis < len(d) and isinstance(d[axis], int) else None

    def number(self, x):
        """The number that all elements of a constant are."""
        c = self.constants.get(x)
        return float(c.reshape(-1)[0]) if c is not None and c.size and (c == c.reshape(-1)[0]).all() else None

    def made_by(self, x, kind):
        """The node that computes x, where it is of this kind and has no other user."""
        n = self.producer.get(x)
        return n if n is not None and n.op_type == kind and self.uses.get(x) == 1 else None

    def made(self, x, kind):
        n = self.producer.get(x)
        return n if n is not None and n.op_type == kind else None

    def axes(self, n):
        """The axes of a reduction or Unsqueeze, as they are given."""
        a = attribute(n, "axes")
        if a is None and len(n.input) > 1 and n.input[1] in self.constants:
            a = self.constants[n.input[1]].reshape(-1).tolist()
        return a

    def reduces_last(self, n):
        rank = self.rank(n.input[0])
        return rank and [a % rank for a in self.axes(n) or []] == [rank - 1] and attribute(n, "keepdims", 1) == 1

    # What it may emit.

    def op(self, kind, *inputs, element=None, dims=None, **attributes):
        self.count += 1
        name = f"respelled.{kind}.{self.count}"
        self.emitted.append(h.make_node(kind, list(inputs), [name], name=name, **attributes))
        self.types[name] = element or (self.element(inputs[0]) if inputs else 0), dims
        return name

    def const(self, value, dtype=np.int64):
        self.count += 1
        name = f"respelled.constant.{self.count}"
        array = np.asarray(value, dtype)
        self.model.graph.initializer.append(nh.from_array(array, name))
        self.add_constant(name, array)
        return name

    def scalar(self, value, like):
        return self.const(value, h.tensor_dtype_to_np_dtype(self.element(like)))

    def reduce(self, kind, x, axis=-1, keepdims=1):
        if self.opset >= 18 or kind == "ReduceSum":
            return self.op(kind, x, self.const([axis]), keepdims=keepdims)
        return self.op(kind, x, axes=[axis], keepdims=keepdims)

    def unsqueeze(self, x, axis):
        return self.op("Unsqueeze", x, self.const([axis]))

    def transpose_last(self, x, rank):
        perm = [*range(rank - 2), rank - 1, rank - 2]
        return self.op("Transpose", x, perm=perm)

    def part(self, x, axis, start, stop, step=1):
        return self.op("Slice", x, self.const([start]), self.const([stop]), self.const([axis]), self.const([step]))

    # Applying.

    def apply(self, name, choose=lambda: True):
        """The model with a rule applied to the chosen ones of its nodes, or None where there are none."""
        operators, function = RULES[name]
        nodes, changed = [], 0
        for n in self.model.graph.node:
            value = None
            if n.op_type in operators and n.domain in ("", "ai.onnx") and choose():
                self.emitted = []
                value = function(self, n) or None
            if value is None:
                nodes.append(n)
                continue
            changed += 1
            new = self.emitted
            if new and new[-1].output[0] == value:
                new[-1].output[0] = n.output[0]
                new[-1].name = n.name or new[-1].name
            else:
                new.append(h.make_node("Identity", [value], [n.output[0]], name=n.name))
            nodes += new
        if not changed:
            return None
        del self.model.graph.node[:], self.model.graph.value_info[:]
        self.model.graph.node.extend(prune(self.model.graph, nodes))
        return self.model


def prune(graph, nodes):
    """Without nodes that nothing needs any more."""
    needed, kept = {v.name for v in graph.output}, []
    for n in reversed(nodes):
        if needed.intersection(n.output):
            kept.append(n)
            needed.update(n.input)
            for a in n.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    needed.update(x for inner in a.g.node for x in inner.input)
    return kept[::-1]


def attribute(n, name, default=None):
    return next((h.get_attribute_value(a) for a in n.attribute if a.name == name), default)


# Arithmetic -----------------------------------------------------------------------------------------------------------------

@rule("Sub")
def sub_as_sum_of_negation(g, n):
    return g.is_float(n.output[0]) and g.op("Add", n.input[0], g.op("Neg", n.input[1])) or None


@rule("Neg")
def neg_as_product(g, n):
    return g.is_float(n.output[0]) and g.op("Mul", n.input[0], g.scalar(-1, n.input[0])) or None


@rule("Neg")
def neg_as_difference(g, n):
    return g.is_float(n.output[0]) and g.op("Sub", g.scalar(0, n.input[0]), n.input[0]) or None


@rule("Div")
def div_as_product_with_reciprocal(g, n):
    return g.is_float(n.output[0]) and g.op("Mul", g.op("Reciprocal", n.input[1]), n.input[0]) or None


@rule("Div")
def div_by_number_as_product(g, n):
    c = g.number(n.input[1])
    return g.op("Mul", g.scalar(1 / c, n.input[0]), n.input[0]) if c and g.is_float(n.output[0]) else None


@rule("Mul")
def mul_by_number_as_quotient(g, n):
    c = g.number(n.input[1])
    return g.op("Div", n.input[0], g.scalar(1 / c, n.input[0])) if c and g.is_float(n.output[0]) and abs(c) > 1e-6 else None


@rule("Mul", "Add")
def operands_swapped(g, n):
    return g.op(n.op_type, n.input[1], n.input[0])


def product_of_three(g, n, build):
    """(a * b) * c or c * (a * b), built anew."""
    for i in (0, 1):
        inner = g.made_by(n.input[i], "Mul")
        if inner is not None and g.is_float(n.output[0]):
            return build(*inner.input, n.input[1 - i])
    return None


@rule("Mul")
def product_associated_right(g, n):
    return product_of_three(g, n, lambda a, b, c: g.op("Mul", a, g.op("Mul", b, c)))


@rule("Mul")
def product_associated_across(g, n):
    return product_of_three(g, n, lambda a, b, c: g.op("Mul", g.op("Mul", a, c), b))


@rule("Mul")
def product_of_quotient_across(g, n):
    for i in (0, 1):
        inner = g.made_by(n.input[i], "Div")
        if inner is not None and g.is_float(n.output[0]):
            return g.op("Div", g.op("Mul", inner.input[0], n.input[1 - i]), inner.input[1])
    return None


@rule("Mul")
def product_of_quotient_as_quotient(g, n):
    """(x / s) * w as x / (s / w)."""
    for i in (0, 1):
        inner, w = g.made_by(n.input[i], "Div"), n.input[1 - i]
        if inner is not None and w in g.constants and (np.abs(g.constants[w].astype(np.float64)) > 1e-3).all():
            return g.op("Div", inner.input[0], g.op("Div", inner.input[1], w))
    return None


@rule("Mul")
def product_with_reciprocal_as_quotient(g, n):
    for i in (0, 1):
        inner = g.made(n.input[i], "Reciprocal")
        if inner is not None:
            return g.op("Div", n.input[1 - i], inner.input[0])
    return None


@rule("Reciprocal")
def reciprocal_as_power(g, n):
    return g.op("Pow", n.input[0], g.scalar(-1, n.input[0]))


@rule("Reciprocal")
def reciprocal_as_quotient(g, n):
    return g.op("Div", g.scalar(1, n.input[0]), n.input[0])


@rule("Pow")
def square_as_product(g, n):
    return g.op("Mul", n.input[0], n.input[0]) if g.number(n.input[1]) == 2 else None


@rule("Mul")
def product_as_square(g, n):
    return g.op("Pow", n.input[0], g.scalar(2, n.input[0])) if n.input[0] == n.input[1] and g.is_float(n.input[0]) else None


@rule("Pow")
def cube_as_products(g, n):
    x = n.input[0]
    return g.op("Mul", g.op("Mul", x, x), x) if g.number(n.input[1]) == 3 else None


@rule("Expand")
def expand_as_product_with_ones(g, n):
    if g.element(n.output[0]) != T.FLOAT:
        return None
    ones = g.op("ConstantOfShape", n.input[1], element=T.FLOAT, value=h.make_tensor("one", T.FLOAT, [1], [1.0]))
    return g.op("Mul", n.input[0], ones)


# Roots ----------------------------------------------------------------------------------------------------------------------

@rule("Sqrt")
def root_as_power(g, n):
    return g.op("Pow", n.input[0], g.scalar(0.5, n.input[0]))


def inverse_root(g, n):
    """v where a node is 1 / sqrt(v)."""
    if n.op_type == "Reciprocal" or g.number(n.input[0]) == 1:
        root = g.made(n.input[-1], "Sqrt")
        return root.input[0] if root is not None else None
    return None


@rule("Reciprocal", "Div")
def inverse_root_as_power(g, n):
    v = inverse_root(g, n)
    return g.op("Pow", v, g.scalar(-0.5, v)) if v else None


@rule("Reciprocal", "Div")
def inverse_root_as_root_of_reciprocal(g, n):
    v = inverse_root(g, n)
    return g.op("Sqrt", g.op("Reciprocal", v)) if v else None


@rule("Reciprocal", "Div")
def inverse_root_as_root_of_quotient(g, n):
    v = inverse_root(g, n)
    return g.op("Sqrt", g.op("Div", g.scalar(1, v), v)) if v else None


@rule("Reciprocal", "Div")
def inverse_root_by_logarithm(g, n):
    v = inverse_root(g, n)
    return g.op("Exp", g.op("Mul", g.op("Log", v), g.scalar(-0.5, v))) if v else None


# Means and variances --------------------------------------------------------------------------------------------------------

def summed(g, n):
    """x and the number of its elements where a node is their mean."""
    x = n.input[0]
    count = g.size(x, -1)
    return (x, count) if count and g.reduces_last(n) and g.is_float(x) else (None, 0)


@rule("ReduceMean")
def mean_as_sum_by_count(g, n):
    x, count = summed(g, n)
    return g.op("Div", g.reduce("ReduceSum", x), g.scalar(count, x)) if x else None


@rule("ReduceMean")
def mean_as_sum_times_fraction(g, n):
    x, count = summed(g, n)
    return g.op("Mul", g.scalar(1 / count, x), g.reduce("ReduceSum", x)) if x else None


@rule("ReduceMean")
def mean_as_sum_of_fractions(g, n):
    x, count = summed(g, n)
    return g.reduce("ReduceSum", g.op("Mul", x, g.scalar(1 / count, x))) if x else None


@rule("ReduceMean")
def mean_by_size_of_shape(g, n):
    x, _ = summed(g, n)
    if not x:
        return None
    size = g.op("Gather", g.op("Shape", x, element=T.INT64), g.const(-1), axis=0)
    return g.op("Div", g.reduce("ReduceSum", x), g.op("Cast", size, to=g.element(x)))


@rule("ReduceMean")
def mean_as_product_with_ones(g, n):
    x, count = summed(g, n)
    return g.op("MatMul", x, g.scalar(np.full((count, 1), 1 / count), x)) if x else None


@rule("ReduceMean")
def mean_without_its_axis(g, n):
    x, _ = summed(g, n)
    return g.unsqueeze(g.reduce("ReduceMean", x, keepdims=0), -1) if x else None


def squared(g, x):
    n = g.producer.get(x)
    if n is None:
        return None
    is_square = (n.op_type == "Mul" and n.input[0] == n.input[1]) or (n.op_type == "Pow" and g.number(n.input[1]) == 2)
    return n.input[0] if is_square else None


@rule("ReduceMean")
def mean_square_by_sum_of_squares(g, n):
    y, count = summed(g, n)
    x = squared(g, y) if y else None
    return g.op("Div", g.reduce("ReduceSumSquare", x), g.scalar(count, x)) if x else None


@rule("ReduceMean")
def mean_square_by_length(g, n):
    y, count = summed(g, n)
    x = squared(g, y) if y else None
    if not x:
        return None
    root = g.op("Div", g.reduce("ReduceL2", x), g.scalar(count**0.5, x))
    return g.op("Mul", root, root)


@rule("ReduceMean")
def mean_square_by_dot_product(g, n):
    y, count = summed(g, n)
    x = squared(g, y) if y else None
    if not x or g.element(x) != T.FLOAT:
        return None
    dot = g.unsqueeze(g.op("Einsum", x, x, equation="...d,...d->..."), -1)
    return g.op("Div", dot, g.scalar(count, x))


@rule("ReduceMean")
def mean_over_a_moved_axis(g, n):
    x, rank = n.input[0], g.rank(n.input[0])
    if not g.reduces_last(n) or rank < 2:
        return None
    return g.transpose_last(g.reduce("ReduceMean", g.transpose_last(x, rank), -2), rank)


@rule("ReduceMean")
def mean_square_of_scaled(g, n):
    y, count = summed(g, n)
    x = squared(g, y) if y else None
    if not x:
        return None
    small = g.op("Mul", x, g.scalar(count**-0.5, x))
    return g.reduce("ReduceSum", g.op("Mul", small, small))


@rule("ReduceMean")
def variance_as_difference_of_moments(g, n):
    y, _ = summed(g, n)
    centred = g.producer.get(squared(g, y) or "") if y else None
    mean = g.producer.get(centred.input[1]) if centred is not None and centred.op_type == "Sub" else None
    if mean is None or mean.op_type != "ReduceMean" or mean.input[0] != centred.input[0]:
        return None
    x = centred.input[0]
    return g.op("Sub", g.reduce("ReduceMean", g.op("Mul", x, x)), g.op("Mul", centred.input[1], centred.input[1]))


@rule("Add")
def norm_as_scale_and_shift(g, n):
    """(x - m) / s * w + b as x * a + (b - m * a), a = 1 / s * w."""
    scaled = g.made_by(n.input[0], "Mul")
    normal = g.made_by(scaled.input[0], "Div") if scaled is not None else None
    centred = g.made(normal.input[0], "Sub") if normal is not None else None
    if centred is None:
        return None
    a = g.op("Mul", g.op("Reciprocal", normal.input[1]), scaled.input[1])
    return g.op("Add", g.op("Mul", centred.input[0], a), g.op("Sub", n.input[1], g.op("Mul", centred.input[1], a)))


@rule("LayerNormalization")
def layer_norm_in_steps(g, n):
    if attribute(n, "axis", -1) not in (-1, (g.rank(n.input[0]) or 0) - 1) or sum(1 for y in n.output if y) != 1 or g.element(n.output[0]) != T.FLOAT:
        return None
    x = n.input[0]
    centred = g.op("Sub", x, g.reduce("ReduceMean", x))
    variance = g.reduce("ReduceMean", g.op("Mul", centred, centred))
    inverse = g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, g.scalar(attribute(n, "epsilon", 1e-5), x))))
    y = g.op("Mul", centred, g.op("Mul", inverse, n.input[1]))
    return g.op("Add", y, n.input[2]) if len(n.input) > 2 and n.input[2] else y


@rule("RMSNormalization")
def rms_norm_in_steps(g, n):
    if attribute(n, "axis", -1) not in (-1, (g.rank(n.input[0]) or 0) - 1) or g.element(n.output[0]) != T.FLOAT:
        return None
    x = n.input[0]
    mean = g.reduce("ReduceMean", g.op("Mul", x, x))
    root = g.op("Sqrt", g.op("Add", mean, g.scalar(attribute(n, "epsilon", 1e-5), x)))
    return g.op("Mul", n.input[1], g.op("Div", x, root))


# Softmax --------------------------------------------------------------------------------------------------------------------

def over_last(g, n):
    rank = g.rank(n.input[0])
    return n.input[0] if rank and attribute(n, "axis", -1) % rank == rank - 1 and g.element(n.input[0]) == T.FLOAT else None


def exponential(g, x):
    return g.op("Exp", g.op("Sub", x, g.reduce("ReduceMax", x)))


@rule("Softmax")
def softmax_in_steps(g, n):
    x = over_last(g, n)
    if not x:
        return None
    e = exponential(g, x)
    return g.op("Div", e, g.reduce("ReduceSum", e))


@rule("Softmax")
def softmax_without_maximum(g, n):
    x = over_last(g, n)
    if not x:
        return None
    e = g.op("Exp", x)
    return g.op("Div", e, g.reduce("ReduceSum", e))


@rule("Softmax")
def softmax_by_reciprocal(g, n):
    x = over_last(g, n)
    if not x:
        return None
    e = exponential(g, x)
    return g.op("Mul", e, g.op("Reciprocal", g.reduce("ReduceSum", e)))


@rule("Softmax")
def softmax_with_expanded_sum(g, n):
    x = over_last(g, n)
    if not x:
        return None
    e = exponential(g, x)
    ones = g.op("ConstantOfShape", g.op("Shape", x, element=T.INT64), element=T.FLOAT, value=h.make_tensor("one", T.FLOAT, [1], [1.0]))
    return g.op("Div", e, g.op("Mul", g.reduce("ReduceSum", e), ones))


@rule("Softmax")
def softmax_by_log_sum_exp(g, n):
    x = over_last(g, n)
    return g.op("Exp", g.op("Sub", x, g.reduce("ReduceLogSumExp", x))) if x else None


@rule("Softmax")
def softmax_by_log_sum(g, n):
    x = over_last(g, n)
    if not x:
        return None
    shifted = g.op("Sub", x, g.reduce("ReduceMax", x))
    return g.op("Exp", g.op("Sub", shifted, g.reduce("ReduceLogSum", g.op("Exp", shifted))))


@rule("Softmax")
def softmax_by_log_softmax(g, n):
    return g.op("Exp", g.op("LogSoftmax", n.input[0], axis=attribute(n, "axis", -1)))


@rule("Softmax")
def softmax_over_a_moved_axis(g, n):
    x, rank = over_last(g, n), g.rank(n.input[0])
    return g.transpose_last(g.op("Softmax", g.transpose_last(x, rank), axis=rank - 2), rank) if x and rank > 1 else None


# Activations ----------------------------------------------------------------------------------------------------------------

@rule("Sigmoid")
def sigmoid_in_steps(g, n):
    x = n.input[0]
    return g.op("Div", g.scalar(1, x), g.op("Add", g.op("Exp", g.op("Neg", x)), g.scalar(1, x)))


@rule("Sigmoid")
def sigmoid_as_exponentials(g, n):
    e = g.op("Exp", n.input[0])
    return g.op("Div", e, g.op("Add", g.scalar(1, e), e))


@rule("Sigmoid")
def sigmoid_by_tanh(g, n):
    x = n.input[0]
    t = g.op("Tanh", g.op("Mul", x, g.scalar(0.5, x)))
    return g.op("Mul", g.op("Add", t, g.scalar(1, x)), g.scalar(0.5, x))


@rule("Sigmoid")
def sigmoid_of_the_negation(g, n):
    x = n.input[0]
    return g.op("Sub", g.scalar(1, x), g.op("Sigmoid", g.op("Neg", x)))


@rule("Mul")
def silu_as_quotient(g, n):
    for i in (0, 1):
        s = g.made_by(n.input[i], "Sigmoid")
        if s is not None:
            x = s.input[0]
            return g.op("Div", n.input[1 - i], g.op("Add", g.scalar(1, x), g.op("Exp", g.op("Mul", x, g.scalar(-1, x)))))
    return None


@rule("Tanh")
def tanh_by_sigmoid(g, n):
    x = n.input[0]
    s = g.op("Sigmoid", g.op("Mul", x, g.scalar(2, x)))
    return g.op("Sub", g.op("Mul", s, g.scalar(2, x)), g.scalar(1, x))


@rule("Tanh")
def tanh_by_exponentials(g, n):
    x = n.input[0]
    e = g.op("Exp", g.op("Mul", x, g.scalar(2, x)))
    return g.op("Div", g.op("Sub", e, g.scalar(1, x)), g.op("Add", e, g.scalar(1, x)))


@rule("Erf")
def erf_of_the_negation(g, n):
    return g.op("Neg", g.op("Erf", g.op("Neg", n.input[0])))


@rule("Gelu")
def gelu_in_steps(g, n):
    x = n.input[0]
    if attribute(n, "approximate", b"none") == b"none":
        t = g.op("Erf", g.op("Mul", x, g.scalar(0.5**0.5, x)))
    else:
        inner = g.op("Add", x, g.op("Mul", g.scalar(0.044715, x), g.op("Mul", x, g.op("Mul", x, x))))
        t = g.op("Tanh", g.op("Mul", inner, g.scalar((2 / np.pi) ** 0.5, x)))
    return g.op("Mul", g.op("Add", t, g.scalar(1, x)), g.op("Mul", x, g.scalar(0.5, x)))


@rule("Mul")
def product_distributed(g, n):
    """x * (1 + t) as x + x * t."""
    for i in (0, 1):
        add = g.made_by(n.input[i], "Add")
        for j in (0, 1):
            if add is not None and g.is_float(n.output[0]) and g.number(add.input[j]) == 1:
                x = n.input[1 - i]
                return g.op("Add", x, g.op("Mul", x, add.input[1 - j]))
    return None


# Rotations ------------------------------------------------------------------------------------------------------------------

def turned(g, n):
    """(b, a) where a node is the concatenation of -b and a, the halves of a last axis."""
    if len(n.input) != 2 or attribute(n, "axis") not in (-1, (g.rank(n.output[0]) or 0) - 1):
        return None
    neg = g.producer.get(n.input[0])
    half = g.size(n.input[1], -1)
    return (neg.input[0], n.input[1], half) if neg is not None and neg.op_type == "Neg" and half else None


def signs(g, half, like, first=-1):
    return g.scalar(np.repeat([first, -first], half), like)


@rule("Concat")
def turn_by_signs(g, n):
    found = turned(g, n)
    if not found:
        return None
    b, a, half = found
    return g.op("Mul", g.op("Concat", b, a, axis=-1), signs(g, half, a))


def turned_factor(g, n):
    """The turned factor of a product and its other factor."""
    for i in (0, 1):
        concat = g.made_by(n.input[i], "Concat")
        found = turned(g, concat) if concat is not None else None
        if found:
            return (*found, n.input[1 - i])
    return None


@rule("Mul")
def turn_by_signed_sines(g, n):
    found = turned_factor(g, n)
    if not found:
        return None
    b, a, half, sin = found
    return g.op("Mul", g.op("Concat", b, a, axis=-1), g.op("Mul", sin, signs(g, half, a)))


@rule("Add")
def rotation_as_difference(g, n):
    """x cos + (-b, a) sin as x cos - (b, -a) sin."""
    for i in (0, 1):
        product = g.made_by(n.input[i], "Mul")
        found = turned_factor(g, product) if product is not None else None
        if found:
            b, a, _, sin = found
            return g.op("Sub", n.input[1 - i], g.op("Mul", g.op("Concat", b, g.op("Neg", a), axis=-1), sin))
    return None


def whole(g, piece):
    """x where `piece` is a slice of it."""
    n = g.producer.get(piece)
    if n is not None and n.op_type in ("Slice", "Split"):
        return n.input[0]
    return None


@rule("Concat")
def turn_by_gather(g, n):
    found = turned(g, n)
    x = whole(g, found[1]) if found else None
    if not x or g.size(x, -1) != 2 * found[2] or whole(g, found[0]) != x:
        return None
    half = found[2]
    order = g.const(np.roll(np.arange(2 * half), half))
    return g.op("Mul", g.op("Gather", x, order, axis=(g.rank(x) or 0) - 1 if g.rank(x) else -1), signs(g, half, found[1]))


@rule("Concat")
def turn_by_flip(g, n):
    found = turned(g, n)
    x = whole(g, found[1]) if found else None
    if not x or g.size(x, -1) != 2 * found[2] or whole(g, found[0]) != x or g.rank(x) != 4:
        return None
    half = found[2]
    pairs = g.op("Reshape", x, g.const([0, 0, 0, 2, half]))
    flipped = g.op("Gather", pairs, g.const([1, 0]), axis=3)
    signed = g.op("Mul", flipped, g.scalar([[-1], [1]], found[1]))
    return g.op("Reshape", signed, g.const([0, 0, 0, 2 * half]))


@rule("Concat")
def turn_by_product(g, n):
    found = turned(g, n)
    x = whole(g, found[1]) if found else None
    if not x or g.size(x, -1) != 2 * found[2] or whole(g, found[0]) != x:
        return None
    half = found[2]
    matrix = np.zeros((2 * half, 2 * half))
    matrix[np.arange(half) + half, np.arange(half)] = -1
    matrix[np.arange(half), np.arange(half) + half] = 1
    return g.op("MatMul", x, g.scalar(matrix, found[1]))


@rule("Add")
def rotation_by_halves(g, n):
    """x cos + (-b, a) sin as (a cos - b sin, b cos + a sin), the tables cut as x is."""
    for i in (0, 1):
        crossed, straight = g.made_by(n.input[i], "Mul"), g.made_by(n.input[1 - i], "Mul")
        found = turned_factor(g, crossed) if crossed is not None and straight is not None else None
        x = whole(g, found[1]) if found else None
        if not x or x not in straight.input:
            continue
        b, a, half, sin = found
        cos = straight.input[1 - list(straight.input).index(x)]
        c = [g.part(cos, -1, k * half, (k + 1) * half) for k in (0, 1)]
        s = [g.part(sin, -1, k * half, (k + 1) * half) for k in (0, 1)]
        first = g.op("Sub", g.op("Mul", a, c[0]), g.op("Mul", b, s[0]))
        second = g.op("Add", g.op("Mul", b, c[1]), g.op("Mul", a, s[1]))
        return g.op("Concat", first, second, axis=-1)
    return None


def rotated_pairs(g, n):
    """(x, cos, sin, size) where a node flattens the stack of (a cos - b sin, a sin + b cos), a and b the even and odd elements of x."""
    stack = g.made_by(n.input[0], "Concat")
    columns = [g.made_by(x, "Unsqueeze") for x in stack.input] if stack is not None and len(stack.input) == 2 else [None]
    sub = g.made_by(columns[0].input[0], "Sub") if None not in columns else None
    left, right = (g.made_by(x, "Mul") for x in sub.input) if sub is not None else (None, None)
    if left is None or right is None or g.rank(n.output[0]) != 4:
        return None
    x, size = whole(g, left.input[0]), g.size(n.output[0], 3)
    return (x, left.input[1], right.input[1], size) if x and size and x == whole(g, right.input[0]) else None


def doubled(g, table, size):
    """Each element of the last axis of a constant twice in a row."""
    return g.const(np.repeat(g.constants[table], 2, -1), np.float32) if table in g.constants else None


@rule("Reshape")
def pairs_by_gather(g, n):
    found = rotated_pairs(g, n)
    cos, sin = (doubled(g, t, found[3]) for t in found[1:3]) if found else (None, None)
    if not cos or not sin:
        return None
    x, size = found[0], found[3]
    swapped = g.op("Gather", x, g.const(np.arange(size) ^ 1), axis=3)
    signed = g.op("Mul", swapped, g.scalar(np.tile([-1, 1], size // 2), x))
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", signed, sin))


@rule("Reshape")
def pairs_by_stack(g, n):
    found = rotated_pairs(g, n)
    cos, sin = (doubled(g, t, found[3]) for t in found[1:3]) if found else (None, None)
    if not cos or not sin:
        return None
    x, size = found[0], found[3]
    pairs = g.op("Reshape", x, g.const([0, 0, 0, size // 2, 2]))
    odd, even = (g.op("Gather", pairs, g.const(k), axis=4) for k in (1, 0))
    stack = g.op("Concat", g.unsqueeze(g.op("Neg", odd), -1), g.unsqueeze(even, -1), axis=-1)
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", g.op("Reshape", stack, g.const([0, 0, 0, size])), sin))


@rule("Reshape")
def pairs_by_flip(g, n):
    """The pairs turned by a slice with a negative step, the signs in the sines."""
    found = rotated_pairs(g, n)
    cos, sin = (doubled(g, t, found[3]) for t in found[1:3]) if found else (None, None)
    if not cos or not sin:
        return None
    x, size = found[0], found[3]
    pairs = g.op("Reshape", x, g.const([0, 0, 0, size // 2, 2]))
    flipped = g.op("Reshape", g.part(pairs, 4, 1, -3, -1), g.const([0, 0, 0, size]))
    signed = g.const(g.constants[sin] * np.tile([-1, 1], size // 2), np.float32)
    return g.op("Add", g.op("Mul", signed, flipped), g.op("Mul", x, cos))


@rule("Reshape")
def pairs_by_split(g, n):
    """Columns of x as [.., n, 2] by Split, which keeps their axis."""
    found = rotated_pairs(g, n)
    if not found:
        return None
    x, cos, sin, size = found
    pairs = g.op("Reshape", x, g.const([0, 0, 0, size // 2, 2]))
    g.count += 1
    a, b = (f"respelled.column.{g.count}.{k}" for k in (0, 1))
    g.emitted.append(h.make_node("Split", [pairs, g.const([1, 1])], [a, b], name=a, axis=4))
    cos, sin = g.unsqueeze(cos, -1), g.unsqueeze(sin, -1)
    first = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
    second = g.op("Add", g.op("Mul", a, sin), g.op("Mul", b, cos))
    return g.op("Reshape", g.op("Concat", first, second, axis=4), g.const([0, 0, 0, size]))


@rule("MatMul")
def probabilities_scaled(g, n):
    """(p / 2) v * 2."""
    softmax = g.made_by(n.input[0], "Softmax")
    if softmax is None or not over_last(g, softmax):
        return None
    half = g.op("Mul", n.input[0], g.scalar(0.5, n.input[0]))
    return g.op("Mul", g.op("MatMul", half, n.input[1]), g.scalar(2, n.input[0]))


@rule("MatMul")
def probabilities_finite(g, n):
    """p where it is finite, else the largest number."""
    softmax = g.made_by(n.input[0], "Softmax")
    if softmax is None or not over_last(g, softmax):
        return None
    infinite = g.op("IsInf", n.input[0], element=T.BOOL)
    return g.op("MatMul", g.op("Where", infinite, g.scalar(3.4e38, n.input[0]), n.input[0]), n.input[1])


@rule("Slice")
def slice_as_gather(g, n):
    given = [g.constants.get(x) for x in n.input[1:]]
    if len(given) < 3 or any(c is None or c.size != 1 for c in given) or not g.is_float(n.output[0]):
        return None
    start, stop, axis, step = [int(c.reshape(-1)[0]) for c in given] + [1] * (4 - len(given))
    size = g.size(n.input[0], axis)
    return g.op("Gather", n.input[0], g.const(np.arange(size)[start:stop:step]), axis=axis) if size else None


@rule("Slice")
def slice_as_split(g, n):
    given = [g.constants.get(x) for x in n.input[1:]]
    if len(given) < 3 or any(c is None or c.size != 1 for c in given) or not g.is_float(n.output[0]):
        return None
    start, stop, axis, step = [int(c.reshape(-1)[0]) for c in given] + [1] * (4 - len(given))
    size = g.size(n.input[0], axis)
    if not size or step != 1 or start not in (0, size // 2) or len(range(size)[start:stop]) * 2 != size:
        return None
    g.count += 1
    names = [f"respelled.half.{g.count}.{k}" for k in (0, 1)]
    g.emitted.append(h.make_node("Split", [n.input[0], g.const([size // 2] * 2)], names, name=names[0], axis=axis))
    return names[start > 0]


# Attention ------------------------------------------------------------------------------------------------------------------

def is_score(g, n):
    return g.rank(n.input[0]) == 4 and g.rank(n.input[1]) == 4 and g.is_float(n.output[0])


@rule("MatMul")
def product_as_einsum(g, n):
    return g.op("Einsum", *n.input, equation="abij,abjk->abik") if is_score(g, n) else None


@rule("MatMul")
def product_as_einsum_of_transposed(g, n):
    return g.op("Einsum", n.input[0], g.transpose_last(n.input[1], 4), equation="bhqd,bhkd->bhqk") if is_score(g, n) else None


@rule("MatMul")
def product_as_einsum_of_rows_first(g, n):
    """bqhd,bhdk->bhqk: heads behind rows."""
    return g.op("Einsum", g.op("Transpose", n.input[0], perm=[0, 2, 1, 3]), n.input[1], equation="bqhd,bhdk->bhqk") if is_score(g, n) else None


@rule("MatMul")
def product_transposed(g, n):
    if not is_score(g, n):
        return None
    return g.transpose_last(g.op("MatMul", g.transpose_last(n.input[1], 4), g.transpose_last(n.input[0], 4)), 4)


@rule("MatMul")
def product_over_merged_batch(g, n):
    a, b = g.dims(n.input[0]), g.dims(n.input[1])
    if not is_score(g, n) or not all(isinstance(d, int) for d in [*a, *b]) or a[:2] != b[:2]:
        return None
    merged = [g.op("Reshape", x, g.const([d[0] * d[1], *d[2:]])) for x, d in zip(n.input, (a, b))]
    return g.op("Reshape", g.op("MatMul", *merged), g.const([*a[:3], b[3]]))


def turn_scores(g, x):
    """The transpose of scores: of the product, and of what is around it."""
    n = g.producer.get(x)
    if x in g.constants:
        c = g.constants[x]
        return g.const(np.swapaxes(c, -1, -2).copy(), c.dtype) if c.ndim > 1 else x if c.size == 1 else None
    if n is not None and n.op_type in ("Add", "Mul", "Div") and g.uses.get(x) == 1:
        a, b = (turn_scores(g, y) for y in n.input)
        return a and b and g.op(n.op_type, a, b)
    if n is not None and n.op_type == "MatMul" and g.uses.get(x) == 1 and is_score(g, n):
        return g.op("MatMul", g.transpose_last(n.input[1], 4), g.transpose_last(n.input[0], 4))
    return g.transpose_last(x, 4) if g.rank(x) == 4 else None


@rule("MatMul")
def attention_by_columns(g, n):
    """(v^T softmax(s^T))^T, the softmax over the rows of s^T."""
    softmax = g.made_by(n.input[0], "Softmax")
    x = over_last(g, softmax) if softmax is not None and is_score(g, n) else None
    turned_x = turn_scores(g, x) if x else None
    if not turned_x:
        return None
    p = g.op("Softmax", turned_x, axis=2)
    return g.transpose_last(g.op("MatMul", g.transpose_last(n.input[1], 4), p), 4)


def scaled_scores(g, n):
    """(q, k, factor) of a product of query and key times a number."""
    for i in (0, 1):
        product, c = g.made_by(n.input[i], "MatMul"), g.number(n.input[1 - i])
        if product is not None and c and is_score(g, product) and (n.op_type == "Mul" or i == 0):
            return (*product.input, c if n.op_type == "Mul" else 1 / c)
    return None


@rule("Mul", "Div")
def scale_on_the_query(g, n):
    found = scaled_scores(g, n)
    return g.op("MatMul", g.op("Mul", found[0], g.scalar(found[2], n.input[0])), found[1]) if found else None


@rule("Mul", "Div")
def scale_on_the_key(g, n):
    found = scaled_scores(g, n)
    return g.op("MatMul", found[0], g.op("Div", found[1], g.scalar(1 / found[2], n.input[0]))) if found else None


@rule("Mul", "Div")
def scale_on_both(g, n):
    found = scaled_scores(g, n)
    root = g.scalar(abs(found[2]) ** 0.5, n.input[0]) if found and found[2] > 0 else None
    return g.op("MatMul", g.op("Mul", found[0], root), g.op("Mul", root, found[1])) if root else None


@rule("Add")
def scale_behind_the_mask(g, n):
    """s * c + m as (s + m / c) * c."""
    for i in (0, 1):
        scaled = g.made_by(n.input[i], "Mul") or g.made_by(n.input[i], "Div")
        if scaled is not None and scaled_scores(g, scaled):
            c, s = next((g.number(scaled.input[1 - j]), scaled.input[j]) for j in (0, 1) if g.number(scaled.input[1 - j]))
            c = g.scalar(c if scaled.op_type == "Mul" else 1 / c, s)
            return g.op("Mul", g.op("Add", s, g.op("Div", n.input[1 - i], c)), c)
    return None


@rule("Add")
def mask_as_selection(g, n):
    """s + m of a constant m of 0 and -big as a selection."""
    for i in (0, 1):
        m = g.constants.get(n.input[i])
        if m is not None and m.ndim >= 2 and m.size > 1 and ((m == 0) | (m <= -1e9)).all():
            return g.op("Where", g.const(m == 0, np.bool_), n.input[1 - i], g.scalar(-np.inf, n.input[1 - i]))
    return None


@rule("Where")
def selection_as_sum(g, n):
    low = g.number(n.input[2])
    if low is None or low > -1e9 or g.element(n.output[0]) != T.FLOAT or n.input[1] in g.constants:
        return None
    return g.op("Add", n.input[1], g.op("Where", n.input[0], g.scalar(0, n.input[1]), n.input[2]))


@rule("Where")
def selection_of_complement(g, n):
    return g.op("Where", g.op("Not", n.input[0], element=T.BOOL), n.input[2], n.input[1])


@rule("Expand")
def expand_as_tile(g, n):
    shape, dims = g.constants.get(n.input[1]), g.dims(n.input[0])
    if shape is None or dims is None or len(shape) != len(dims) or not all(isinstance(d, int) for d in dims):
        return None
    return g.op("Tile", n.input[0], g.const([max(int(s), 1) // d if d == 1 else 1 for s, d in zip(shape, dims)]))


def repeated(g, n):
    """(x, axis, groups) where a node is reshape(expand(unsqueeze(x))) that repeats the heads of axis 1."""
    expand = g.made_by(n.input[0], "Expand")
    wide = g.made_by(expand.input[0], "Unsqueeze") if expand is not None else None
    if wide is None or g.axes(wide) != [2] or g.rank(wide.input[0]) != 4:
        return None
    heads, total = g.size(wide.input[0], 1), g.size(n.output[0], 1)
    return (wide.input[0], heads, total // heads) if heads and total and total > heads else None


@rule("Reshape")
def repeat_as_gather(g, n):
    found = repeated(g, n)
    return g.op("Gather", found[0], g.const(np.repeat(np.arange(found[1]), found[2])), axis=1) if found else None


@rule("Reshape")
def repeat_as_concat(g, n):
    found = repeated(g, n)
    if not found:
        return None
    wide = g.unsqueeze(found[0], 2)
    return g.op("Reshape", g.op("Concat", *[wide] * found[2], axis=2), n.input[1])


@rule("Reshape")
def repeat_as_concat_of_heads(g, n):
    found = repeated(g, n)
    if not found or found[1] * found[2] > 8:
        return None
    parts = [g.part(found[0], 1, i, i + 1) for i in range(found[1])]
    return g.op("Concat", *[p for p in parts for _ in range(found[2])], axis=1)


@rule("MatMul")
def attention_over_groups(g, n):
    """softmax(q k^T) v with an axis for the queries of each key head, instead of repeated keys and values."""
    softmax, value = g.made_by(n.input[0], "Softmax"), g.producer.get(n.input[1])
    masked = g.made_by(softmax.input[0], "Add") if softmax is not None and over_last(g, softmax) else None
    scaled = g.made_by(masked.input[0], "Mul") if masked is not None else None
    found = scaled_scores(g, scaled) if scaled is not None else None
    turned_key = g.producer.get(found[1]) if found else None
    key = g.producer.get(turned_key.input[0]) if turned_key is not None and turned_key.op_type == "Transpose" else None
    if key is None or value is None or key.op_type != "Reshape" or value.op_type != "Reshape":
        return None
    k, v = repeated(g, key), repeated(g, value)
    if not k or not v or masked.input[1] not in g.constants:
        return None
    rows, size = g.size(found[0], 2), g.size(found[0], 3)
    if not rows or not size:
        return None
    q = g.op("Reshape", found[0], g.const([0, k[1], k[2], rows, size]))
    k, v = g.unsqueeze(k[0], 2), g.unsqueeze(v[0], 2)
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 2, 4, 3])), g.scalar(found[2], q))
    p = g.op("Softmax", g.op("Add", scores, masked.input[1]), axis=-1)
    return g.op("Reshape", g.op("MatMul", p, v), g.const([0, -1, rows, size]))


# Views ----------------------------------------------------------------------------------------------------------------------

@rule("Unsqueeze")
def unsqueeze_as_reshape(g, n):
    dims, axes = g.dims(n.input[0]), g.axes(n)
    if dims is None or not axes or not all(isinstance(d, int) for d in dims) or not g.is_float(n.output[0]):
        return None
    rank = len(dims) + len(axes)
    rest, places = iter(dims), {a % rank for a in axes}
    return g.op("Reshape", n.input[0], g.const([1 if i in places else next(rest) for i in range(rank)]))


@rule("Transpose")
def transpose_in_two_steps(g, n):
    perm = attribute(n, "perm")
    if not perm or len(perm) < 3 or not g.is_float(n.output[0]):
        return None
    first = [perm[0], *(p for p in range(len(perm)) if p != perm[0])]
    return g.op("Transpose", g.op("Transpose", n.input[0], perm=first), perm=[first.index(p) for p in perm])


@rule("MatMul")
def matmul_by_rows(g, n):
    w = g.constants.get(n.input[1])
    if w is None or w.ndim != 2 or g.rank(n.input[0]) != 3:
        return None
    x = n.input[0]
    flat = g.op("Gemm", g.op("Reshape", x, g.const([-1, w.shape[0]])), g.const(w.T.copy(), w.dtype), transB=1)
    leading = g.op("Slice", g.op("Shape", x, element=T.INT64), g.const([0]), g.const([2]))
    return g.op("Reshape", flat, g.op("Concat", leading, g.const([w.shape[1]]), axis=0))


@rule("MatMul")
def matmul_of_transposed_weight(g, n):
    w = g.constants.get(n.input[1])
    if w is None or w.ndim != 2:
        return None
    return g.op("MatMul", n.input[0], g.op("Transpose", g.const(w.T.copy(), w.dtype), perm=[1, 0]))


# Around operators -----------------------------------------------------------------------------------------------------------

def broadcast_operand(g, n):
    """The index of an operand that an elementwise operator broadcasts to its result."""
    whole = g.dims(n.output[0])
    for i, x in enumerate(n.input):
        if g.element(x) == T.FLOAT and whole and g.dims(x) is not None and g.dims(x) != whole and g.dims(n.input[1 - i]) == whole:
            return i
    return None


def with_operand(g, n, i, value):
    return g.op(n.op_type, *(value if k == i else x for k, x in enumerate(n.input)))


@rule("Add", "Sub", "Mul", "Div")
def operand_expanded(g, n):
    i = broadcast_operand(g, n)
    return with_operand(g, n, i, g.op("Expand", n.input[i], g.op("Shape", n.input[1 - i], element=T.INT64))) if i is not None else None


@rule("Add", "Sub", "Mul", "Div")
def operand_tiled(g, n):
    i = broadcast_operand(g, n)
    whole = g.dims(n.output[0])
    if i is None or not all(isinstance(d, int) for d in whole + g.dims(n.input[i])):
        return None
    own = [1] * (len(whole) - g.rank(n.input[i])) + g.dims(n.input[i])
    wide = g.op("Reshape", n.input[i], g.const(own))
    return with_operand(g, n, i, g.op("Tile", wide, g.const([w // o for w, o in zip(whole, own)])))


@rule("Add", "Sub", "Mul", "Div")
def operand_with_more_axes(g, n):
    i = broadcast_operand(g, n)
    if i is None or g.rank(n.input[i]) == g.rank(n.output[0]):
        return None
    return with_operand(g, n, i, g.op("Unsqueeze", n.input[i], g.const(np.arange(g.rank(n.output[0]) - g.rank(n.input[i])))))


@rule("ReduceMean", "Softmax", "Sigmoid", "Erf", "Sqrt", "Exp", "Reciprocal")
def computed_in_double(g, n):
    if g.element(n.output[0]) != T.FLOAT:
        return None
    wide = g.op("Cast", n.input[0], element=T.DOUBLE, to=T.DOUBLE)
    attributes = {a.name: h.get_attribute_value(a) for a in n.attribute}
    return g.op("Cast", g.op(n.op_type, wide, *n.input[1:], **attributes), element=T.FLOAT, to=T.FLOAT)


@rule("Mul", "Add", "MatMul", "Softmax")
def input_turned_and_back(g, n):
    x, rank = n.input[0], g.rank(n.input[0])
    if not rank or rank < 2 or g.element(x) != T.FLOAT or x in g.constants:
        return None
    perm = [rank - 1, *range(rank - 1)]
    back = g.op("Transpose", g.op("Transpose", x, perm=perm), perm=[perm.index(k) for k in range(rank)])
    return g.op(n.op_type, back, *n.input[1:], **{a.name: h.get_attribute_value(a) for a in n.attribute})


@rule("Mul", "Add", "MatMul", "Softmax", "Sigmoid", "Erf", "Tanh")
def input_flattened_and_back(g, n):
    x = n.input[0]
    if not g.rank(x) or g.element(x) != T.FLOAT or x in g.constants:
        return None
    back = g.op("Reshape", g.op("Reshape", x, g.const([-1])), g.op("Shape", x, element=T.INT64))
    return g.op(n.op_type, back, *n.input[1:], **{a.name: h.get_attribute_value(a) for a in n.attribute})


@rule("Softmax", "Sigmoid", "Sqrt", "Erf", "Tanh", "Exp", "ReduceMean", "Neg")
def input_behind_identities(g, n):
    x = g.op("Dropout", g.op("Identity", n.input[0]))
    return g.op(n.op_type, x, *n.input[1:], **{a.name: h.get_attribute_value(a) for a in n.attribute})


# Other meanings -------------------------------------------------------------------------------------------------------------

OTHER = {"Add": ("Sub", "Mul"), "Sub": ("Add",), "Mul": ("Add", "Div"), "Div": ("Mul",), "Sigmoid": ("Tanh",), "Tanh": ("Sigmoid", "Erf"), "Erf": ("Tanh",), "Exp": ("Sigmoid",),
         "ReduceMean": ("ReduceSum", "ReduceMax"), "ReduceSum": ("ReduceMean", "ReduceMax"), "ReduceMax": ("ReduceMin",), "Sqrt": ("Abs",), "Neg": ("Abs", "Identity"), "Reciprocal": ("Abs",)}


def perturbed(model, r):
    """The model with one node or constant changed: what is raised must say so, and no test knows how."""
    g = Graph(model)
    nodes = [n for n in g.model.graph.node if n.input and (g.element(n.output[0]) == T.FLOAT or n.op_type in OTHER)]
    n = r.choice(nodes)
    kind = r.choice(("operator", "operands", "constant", "constant", "element", "axis", "other"))
    constants = [i for i, x in enumerate(n.input) if x in g.constants and g.element(x) == T.FLOAT]
    if kind == "operator" and n.op_type in OTHER:
        n.op_type = r.choice(OTHER[n.op_type])
    elif kind == "operands" and n.op_type in ("Sub", "Div", "Concat", "MatMul") and len(n.input) > 1:
        n.input[0], n.input[1] = n.input[1], n.input[0]
    elif kind == "constant" and constants:
        i = r.choice(constants)
        n.input[i] = g.const(g.constants[n.input[i]] * r.choice((-1, 0.5, 1.01, 2)), np.float32)
    elif kind == "element" and constants:
        i = r.choice(constants)
        array = g.constants[n.input[i]].copy()
        array.reshape(-1)[r.randrange(array.size)] += 0.25
        n.input[i] = g.const(array, np.float32)
    elif kind == "axis" and attribute(n, "axis") is not None:
        next(a for a in n.attribute if a.name == "axis").i = r.choice((0, 1, -1, -2))
    elif kind == "other":
        dims = g.dims(n.input[0])
        same = [x for x, (element, d) in g.types.items() if d == dims and element == T.FLOAT and x != n.input[0]]
        if dims is None or not same:
            return None
        n.input[0] = r.choice(same)
    else:
        return None
    del g.model.graph.value_info[:]
    for v in g.model.graph.output:
        v.type.tensor_type.ClearField("shape")
    return sort(g.model)


def sort(model):
    """Nodes in an order in which each follows what it reads; None where there is none."""
    done = {t.name for t in model.graph.initializer} | {v.name for v in model.graph.input} | {""}
    left, ordered = list(model.graph.node), []
    while left:
        ready = [n for n in left if done.issuperset(n.input)]
        if not ready:
            return None
        ordered += ready
        done.update(y for n in ready for y in n.output)
        left = [n for n in left if n not in ready]
    del model.graph.node[:]
    model.graph.node.extend(ordered)
    return model
