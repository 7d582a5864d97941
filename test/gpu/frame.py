"""Cases of the sweeps on the card: an ONNX graph, its inputs, and what must come out, in fp64.

A family is a module of families/ with a function `cases(sample)` that yields Case objects; `sample` asks for the few that the
normal test run takes. A case builds its graph only when it runs, in a process of its own:

    def cases(sample):
        for m in (1, 17, 64):
            yield Case(f"matmul_{m}", lambda m=m: build(m))

    def build(m):
        g = Graph("bf16", seed=m)
        x, w = g.input("x", (m, 512)), g.weight("w", (512, 256), scale=512 ** -0.5)
        y = g.output(g.node("MatMul", [x, w]))
        return g.case({y: Expected(g[x] @ g[w], scale=abs(g[x]) @ abs(g[w]))})

What is allowed, by the numerics contract: one rounding to the result's type, and fp32 arithmetic (`scale` is the size of what
cancels); or, with `rounded`, no more error than the graph that rounds after every node.
"""
import dataclasses
import typing

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

TYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
# Bits of the significand, and the exponent of the smallest normal number.
PRECISION = {"float64": (53, -1022), "float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126), "float8_e4m3fn": (4, -6), "float8_e5m2": (3, -14)}
# Rounding steps of fp32 that an accumulation may be off by, in units of `scale`.
FP32_STEPS = 16 * 2.0 ** -24


@dataclasses.dataclass
class Expected:
    """An output in fp64. `scale`: the sum of the magnitudes that were added up, element by element. `rounded`: the same output
    by a graph that rounds after every node; the norm of the error may be 1.05 times that graph's. `dtype`: its type, where an
    .npy file does not say it (8-bit floats)."""
    value: np.ndarray
    scale: np.ndarray | None = None
    rounded: np.ndarray | None = None
    dtype: np.dtype | None = None


@dataclasses.dataclass
class Built:
    model: onnx.ModelProto
    feeds: dict
    expected: dict


@dataclasses.dataclass
class Case:
    name: str
    build: typing.Callable[[], Built]
    options: tuple = ()  # of fusion-compile


def rounded_to(value, dtype):
    """fp64 values rounded once to a type, in fp64 again."""
    return np.asarray(value, np.float64).astype(np.float32).astype(dtype).astype(np.float64) if dtype != np.float32 else np.asarray(value, np.float32).astype(np.float64)


class Graph:
    """One graph under construction. graph[name] is a tensor's value in fp64, as the device will read it."""

    def __init__(self, dtype="bf16", seed=0, opset=21):
        self.dtype, self.opset, self.rng = TYPES[dtype], opset, np.random.default_rng(seed)
        self.nodes, self.inputs, self.outputs, self.initializers, self.feeds, self.values = [], [], [], [], {}, {}

    def __getitem__(self, name):
        return self.values[name].astype(np.float64)

    def _make(self, shape, scale, value, dtype):
        dtype = TYPES.get(dtype, dtype) if dtype is not None else self.dtype
        if value is None:
            value = self.rng.standard_normal(shape, np.float32) * scale
        return np.asarray(value).astype(dtype)

    def input(self, name, shape=None, scale=1.0, value=None, dtype=None, dims=None):
        """`dims` names symbolic sizes; without it the shape is static."""
        array = self._make(shape, scale, value, dtype)
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims or array.shape))
        self.feeds[name] = self.values[name] = array
        return name

    def weight(self, name, shape=None, scale=1.0, value=None, dtype=None):
        array = self._make(shape, scale, value, dtype)
        self.values[name] = array
        t = onnx.TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape, raw_data=array.tobytes())
        self.initializers.append(t)
        return name

    def constant(self, value, dtype=np.int64):
        name = f"/Constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op, inputs, outputs=1, domain="", name=None, **attributes):
        name = name or f"/{op}_{len(self.nodes)}"
        names = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, domain=domain, **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def output(self, name, dtype=None):
        dtype = self.dtype if dtype is None else TYPES.get(dtype, dtype)
        self.outputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None))
        return name

    def model(self):
        graph = helper.make_graph(self.nodes, "case", self.inputs, self.outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)

    def case(self, expected):
        return Built(self.model(), self.feeds, expected)


def step(value, dtype):
    """The distance of neighbouring numbers of a type at |value|."""
    bits, least = PRECISION[np.dtype(dtype).name]
    magnitude = np.abs(value)
    exponent = np.floor(np.log2(np.where(magnitude > 0, magnitude, 1.0)))
    return 2.0 ** (np.maximum(np.where(magnitude > 0, exponent, least), least) - (bits - 1))


def norm_error(found, reference):
    return float(np.linalg.norm(found - reference) / max(np.linalg.norm(reference), 1e-30))


def check(found, expected):
    """An empty text, or what is wrong with an output; and its error in units of what is allowed."""
    reference = np.asarray(expected.value, np.float64)
    if found.shape != reference.shape:
        return f"shape {found.shape}, expected {reference.shape}", np.inf
    if found.dtype.kind == "V" and expected.dtype is not None:
        found = found.view(expected.dtype)
    if np.issubdtype(found.dtype, np.integer) or found.dtype == bool:
        wrong = np.argwhere(found != expected.value)
        return (f"{len(wrong)} of {found.size} integers differ, first at {tuple(map(int, wrong[0]))}", np.inf) if len(wrong) else ("", 0.0)
    y = found.astype(np.float64)
    if (np.isnan(y) != np.isnan(reference)).any():
        at = tuple(map(int, np.argwhere(np.isnan(y) != np.isnan(reference))[0]))
        return f"{int(np.isnan(y).sum())} NaN, expected {int(np.isnan(reference).sum())}, first at {at}", np.inf
    if expected.rounded is not None:
        limit = 1.05 * norm_error(rounded_to(expected.rounded, found.dtype), reference) + FP32_STEPS
        ratio = norm_error(y, reference) / limit
        if ratio <= 1:
            return "", ratio
        at = np.unravel_index(int(np.nanargmax(np.abs(y - reference))), y.shape)
        return f"error {ratio * limit:.2e} above {limit:.2e}; worst at {tuple(map(int, at))}: {y[at]:.6g}, expected {reference[at]:.6g}", ratio
    with np.errstate(invalid="ignore"):
        difference = np.where((y == reference) | np.isnan(reference), 0.0, np.abs(y - reference))
    scale = np.abs(reference) if expected.scale is None else np.broadcast_to(expected.scale, reference.shape)
    allowed = 0.51 * step(np.where(np.isfinite(reference), reference, 0.0), found.dtype) + FP32_STEPS * np.where(np.isfinite(scale), scale, 0.0)
    ratios = difference / allowed
    worst = float(ratios.max()) if ratios.size else 0.0
    if worst <= 1:
        return "", worst
    at = np.unravel_index(int(np.argmax(ratios)), y.shape)
    bad = int((ratios > 1).sum())
    first = tuple(map(int, np.argwhere(ratios > 1)[0]))
    return (f"{bad} of {y.size} wrong, first at {first}: {y[first]:.6g}, expected {reference[first]:.6g}; worst {worst:.3g} times what is "
            f"allowed at {tuple(map(int, at))}: {y[at]:.6g}, expected {reference[at]:.6g}"), worst
