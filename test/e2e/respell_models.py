"""Small models, one of each pattern, that respell.py writes in other spellings."""
import numpy as np

import near_miss_models as near

WIDTH, HEADS, KV_HEADS, SIZE, ROWS = 24, 4, 2, 8, 6
LAST = np.array([-1])


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def vector(m, name, low, high, width=WIDTH):
    return m.const(name, np.linspace(low, high, width).astype(np.float32))


def layer_norm():
    m = near.Model()
    m.op("x", "Add", m.input("a", 2, 5, WIDTH), m.input("b", 2, 5, WIDTH))
    m.op("mean", "ReduceMean", "x", m.const("last", LAST), keepdims=1)
    m.op("centred", "Sub", "x", "mean")
    m.op("square", "Pow", "centred", m.const("two", np.float32(2)))
    m.op("variance", "ReduceMean", "square", "last", keepdims=1)
    m.op("shifted", "Add", "variance", m.const("eps", np.float32(1e-3)))
    m.op("root", "Sqrt", "shifted")
    m.op("normal", "Div", "centred", "root")
    m.op("scaled", "Mul", "normal", vector(m, "w", 0.5, 1.5))
    m.op("biased", "Add", "scaled", vector(m, "bias", -1, 1))
    m.op("y", "MatMul", "biased", m.const("p", np.eye(WIDTH, dtype=np.float32)))
    m.outputs = ["y", "x"]
    return m


def norm_of_halves():
    """Computed in fp32 around a 16-bit input; 1 + w in the graph, as Gemma has it."""
    m = near.Model()
    m.op("narrow", "Cast", m.input("x", 2, 5, WIDTH), to=10)
    m.op("wide", "Cast", "narrow", to=1)
    m.op("square", "Mul", "wide", "wide")
    m.op("mean", "ReduceMean", "square", m.const("last", LAST), keepdims=1)
    m.op("shifted", "Add", m.const("eps", np.float32(1e-3)), "mean")
    m.op("root", "Sqrt", "shifted")
    m.op("inverse", "Div", m.const("one", np.float32(1)), "root")
    m.op("normal", "Mul", "wide", "inverse")
    m.op("weight", "Add", vector(m, "w", -0.5, 0.5), "one")
    m.op("scaled", "Mul", "normal", "weight")
    m.op("y", "MatMul", "scaled", m.const("p", np.eye(WIDTH, dtype=np.float32)))
    m.outputs = ["y"]
    return m


def gated(activate):
    m = near.Model()
    m.op("both", "MatMul", m.input("x", 2, 5, 16), m.const("w", random(1, 16, 2 * WIDTH) / 4))
    m.slice("gate", "both", 0, WIDTH, 2)
    m.slice("up", "both", WIDTH, near.BIG, 2)
    activate(m)
    m.op("gated", "Mul", "activated", "up")
    m.op("y", "MatMul", "gated", m.const("w.down", random(2, WIDTH, 16) / 4))
    m.outputs = ["y"]
    return m


def swiglu_packed():
    def activate(m):
        m.op("sigmoid", "Sigmoid", "gate")
        m.op("activated", "Mul", "gate", "sigmoid")
    return gated(activate)


def quick_geglu():
    def activate(m):
        m.op("steep", "Mul", "gate", m.const("alpha", np.float32(1.702)))
        m.op("sigmoid", "Sigmoid", "steep")
        m.op("activated", "Mul", "gate", "sigmoid")
    return gated(activate)


def geglu_erf():
    def activate(m):
        m.op("narrow", "Div", "gate", m.const("root", np.float32(2**0.5)))
        m.op("erf", "Erf", "narrow")
        m.op("above", "Add", "erf", m.const("one", np.float32(1)))
        m.op("product", "Mul", "gate", "above")
        m.op("activated", "Mul", "product", m.const("half", np.float32(0.5)))
    return gated(activate)


def geglu_tanh():
    def activate(m):
        m.op("cube", "Pow", "gate", m.const("three", np.float32(3)))
        m.op("small", "Mul", "cube", m.const("c", np.float32(0.044715)))
        m.op("inner", "Add", "gate", "small")
        m.op("argument", "Mul", "inner", m.const("root", np.float32((2 / np.pi) ** 0.5)))
        m.op("tanh", "Tanh", "argument")
        m.op("above", "Add", "tanh", m.const("one", np.float32(1)))
        m.op("half", "Mul", "gate", m.const("h", np.float32(0.5)))
        m.op("activated", "Mul", "half", "above")
    return gated(activate)


def heads(m, x, name, count):
    """[batch, count, rows, SIZE] of a projection of x."""
    m.op(f"{name}.flat", "MatMul", x, m.const(f"{name}.w", random(len(name) + count, WIDTH, count * SIZE) / 3))
    m.op(f"{name}.split", "Reshape", f"{name}.flat", m.const(f"{name}.shape", np.array([0, 0, count, SIZE])))
    return m.op(name, "Transpose", f"{name}.split", perm=[0, 2, 1, 3])


def angles(m, doubled):
    a = np.outer(np.arange(ROWS), 100.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    a = np.concatenate([a, a], -1) if doubled else a
    m.const("cos", np.cos(a).astype(np.float32))
    m.const("sin", np.sin(a).astype(np.float32))


def rotate_halves(m, x):
    m.slice(f"{x}.left", x, 0, SIZE // 2, 3)
    m.slice(f"{x}.right", x, SIZE // 2, near.BIG, 3)
    m.op(f"{x}.neg", "Neg", f"{x}.right")
    m.op(f"{x}.turned", "Concat", f"{x}.neg", f"{x}.left", axis=-1)
    m.op(f"{x}.cos", "Mul", x, "cos")
    m.op(f"{x}.sin", "Mul", f"{x}.turned", "sin")
    return m.op(f"{x}.rope", "Add", f"{x}.cos", f"{x}.sin")


def rotate_pairs(m, x):
    m.slice(f"{x}.even", x, 0, near.BIG, 3, 2)
    m.slice(f"{x}.odd", x, 1, near.BIG, 3, 2)
    for name, left, right, kind in ("re", "cos", "sin", "Sub"), ("im", "sin", "cos", "Add"):
        m.op(f"{x}.{name}.a", "Mul", f"{x}.even", left)
        m.op(f"{x}.{name}.b", "Mul", f"{x}.odd", right)
        m.op(f"{x}.{name}", kind, f"{x}.{name}.a", f"{x}.{name}.b")
        m.op(f"{x}.{name}.1", "Unsqueeze", f"{x}.{name}", m.const(f"{x}.{name}.axis", LAST))
    m.op(f"{x}.pairs", "Concat", f"{x}.re.1", f"{x}.im.1", axis=-1)
    return m.op(f"{x}.rope", "Reshape", f"{x}.pairs", m.const(f"{x}.flat.shape", np.array([0, 0, 0, SIZE])))


def repeat(m, x):
    m.op(f"{x}.wide", "Unsqueeze", x, m.const("second", np.array([2])))
    m.op(f"{x}.copies", "Expand", f"{x}.wide", m.const("copies", np.array([2, KV_HEADS, HEADS // KV_HEADS, ROWS, SIZE])))
    return m.op(f"{x}.all", "Reshape", f"{x}.copies", m.const("heads", np.array([0, HEADS, ROWS, SIZE])))


def block(rotate, doubled):
    m = near.Model()
    x = m.input("x", 2, ROWS, WIDTH)
    q, k, v = heads(m, x, "q", HEADS), heads(m, x, "k", KV_HEADS), heads(m, x, "v", KV_HEADS)
    angles(m, doubled)
    q, k = rotate(m, q), rotate(m, k)
    k, v = repeat(m, k), repeat(m, v)
    m.op("kT", "Transpose", k, perm=[0, 1, 3, 2])
    m.op("scores", "MatMul", q, "kT")
    m.op("scaled", "Mul", "scores", m.const("scale", np.float32(SIZE**-0.5)))
    m.op("masked", "Add", "scaled", m.const("mask", np.where(np.tril(np.ones((ROWS, ROWS))) > 0, 0, -1e9).astype(np.float32)))
    m.op("weights", "Softmax", "masked", axis=-1)
    m.op("mixed", "MatMul", "weights", v)
    m.op("rows", "Transpose", "mixed", perm=[0, 2, 1, 3])
    m.op("flat", "Reshape", "rows", m.const("flat.shape", np.array([0, 0, HEADS * SIZE])))
    m.op("y", "MatMul", "flat", m.const("o.w", random(9, HEADS * SIZE, WIDTH) / 4))
    m.outputs = ["y"]
    return m


def block_of_halves():
    return block(rotate_halves, True)


def block_of_pairs():
    return block(rotate_pairs, False)


def of_operators():
    """LayerNormalization and Gelu as operators."""
    m = near.Model()
    m.op("x", "Add", m.input("a", 2, 5, WIDTH), m.input("b", 2, 5, WIDTH))
    m.op("normal", "LayerNormalization", "x", vector(m, "w", 0.5, 1.5), vector(m, "bias", -1, 1), axis=-1, epsilon=1e-5)
    m.op("up", "MatMul", "normal", m.const("w.up", random(1, WIDTH, 32) / 4))
    m.op("gelu", "Gelu", "up")
    m.op("y", "MatMul", "gelu", m.const("w.down", random(2, 32, WIDTH) / 4))
    m.outputs = ["y", "x"]
    return m


def selected_attention():
    m = near.plain_attention()
    near.select(m, np.tril(np.ones((ROWS, ROWS), bool)), -1e30)
    return m


BASES = {f.__name__: f for f in (near.rms_norm, norm_of_halves, layer_norm, near.swiglu, swiglu_packed, quick_geglu, geglu_erf, geglu_tanh,
                                 near.rope, near.plain_attention, block_of_halves, block_of_pairs, of_operators, selected_attention)}
