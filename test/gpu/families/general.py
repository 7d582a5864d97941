"""What falls to the general kernels: products of any type, layout and batch; scatters; running sums; reductions over any axes;
packed results."""
import numpy as np

from frame import Case, Expected, Graph


def product(dtype, left, right, left_order=None, right_order=None):
    """Batched products, either side transposed in its last axes or permuted."""
    g = Graph("f32", seed=sum(left) * 3 + sum(right))
    integer = np.issubdtype(np.dtype(dtype), np.integer)
    make = lambda shape: g.rng.integers(-50, 50, shape) if integer else g.rng.standard_normal(shape)
    names = [g.input(n, value=make(shape), dtype=np.dtype(dtype)) for n, shape in (("a", left), ("b", right))]
    values = [g.values[n].astype(np.int64 if integer else np.float64) for n in names]
    for i, order in enumerate((left_order, right_order)):
        if order:
            names[i] = g.node("Transpose", [names[i]], perm=order)
            values[i] = values[i].transpose(order)
    a, b = values
    y = g.output(g.node("MatMul", names), dtype=np.dtype(dtype))
    value = a @ b
    if integer:
        return g.case({y: Expected(value.astype(dtype))})
    return g.case({y: Expected(value, scale=np.abs(a) @ np.abs(b))})


def scatter_nd(count, rows, width, reduction):
    g = Graph("f32", seed=count + rows)
    data, updates = g.input("data", (rows, width)), g.input("updates", (count, width))
    index = g.rng.integers(0, rows, (count, 1))
    where = g.input("where", value=index, dtype=np.dtype(np.int64))
    y = g.output(g.node("ScatterND", [data, where, updates], reduction=reduction))
    value, scale = g[data].copy(), np.abs(g[data])
    for i, u in zip(index[:, 0], g[updates]):
        value[i] = value[i] + u if reduction == "add" else u
        scale[i] += np.abs(u)
    return g.case({y: Expected(value, scale=scale)})


def scatter_elements(rows, width, axis):
    g = Graph("f32", seed=rows + width + axis)
    data, updates = g.input("data", (rows, width)), g.input("updates", (rows, width))
    index = g.rng.integers(0, (rows, width)[axis], (rows, width))
    where = g.input("where", value=index, dtype=np.dtype(np.int64))
    y = g.output(g.node("ScatterElements", [data, where, updates], axis=axis))
    value = g[data].copy()
    for i in range(rows):
        for j in range(width):
            value[(index[i, j], j) if axis == 0 else (i, index[i, j])] = g[updates][i, j]
    return g.case({y: Expected(value)})


def cumsum(shape, axis, exclusive=0, reverse=0):
    g = Graph("f32", seed=sum(shape))
    x = g.input("x", value=g.rng.integers(0, 3, shape), dtype=np.dtype(np.int64))
    y = g.output(g.node("CumSum", [x, g.constant(axis)], exclusive=exclusive, reverse=reverse), dtype=np.dtype(np.int64))
    value = g.values[x]
    ordered = np.flip(value, axis) if reverse else value
    total = np.cumsum(ordered, axis) - (ordered if exclusive else 0)
    return g.case({y: Expected(np.flip(total, axis) if reverse else total)})


def reduce(op, shape, axes, keepdims):
    g = Graph("f32", seed=sum(shape) + len(axes))
    x = g.input("x", shape)
    y = g.output(g.node(op, [x, g.constant(list(axes))], keepdims=keepdims))
    kind = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max}[op]
    keep = bool(keepdims)
    scale = np.abs(g[x]).sum(axes, keepdims=keep) / (np.prod([shape[a] for a in axes]) if op == "ReduceMean" else 1)
    return g.case({y: Expected(kind(g[x], axes, keepdims=keep), scale=scale)})


def softmax(dtype, shape, axis):
    g = Graph("f32", seed=sum(shape) + axis)
    x = g.input("x", value=3 * g.rng.standard_normal(shape), dtype=np.dtype(dtype))
    y = g.output(g.node("Softmax", [x], axis=axis), dtype=np.dtype(dtype))
    e = np.exp(g[x] - g[x].max(axis, keepdims=True))
    value = e / e.sum(axis, keepdims=True)
    return g.case({y: Expected(value, scale=value * (2 + g[x].max(axis, keepdims=True) - g[x]))})


def arg_max(shape, axis, last):
    g = Graph("f32", seed=sum(shape))
    x = g.input("x", value=g.rng.integers(0, 40, shape).astype(np.float32))
    y = g.output(g.node("ArgMax", [x], axis=axis, keepdims=0, select_last_index=last), dtype=np.dtype(np.int64))
    value = g.values[x]
    found = value.shape[axis] - 1 - np.argmax(np.flip(value, axis), axis) if last else np.argmax(value, axis)
    return g.case({y: Expected(found.astype(np.int64))})


PRODUCTS = [((5, 70, 33), (33, 90)), ((2, 3, 40, 72), (3, 72, 96)), ((2, 1, 17, 64), (2, 4, 64, 20)), ((33,), (33, 65)), ((40, 33), (33,)),
            ((7, 1, 130), (7, 130, 5)), ((1, 2048), (2048, 320)), ((3, 0), (0, 8))]


def cases(sample):
    every = []
    for i, (a, b) in enumerate(PRODUCTS):
        for dtype in ("float32", "float64", "int32"):
            every.append((f"product_{dtype}_{i}", product, (dtype, a, b)))
    every.append(("product_left_transposed", product, ("float32", (2, 70, 40), (2, 70, 96), (0, 2, 1))))
    every.append(("product_right_transposed", product, ("float32", (2, 40, 70), (2, 96, 70), None, (0, 2, 1))))
    every.append(("product_heads_inside", product, ("float32", (2, 33, 4, 64), (2, 50, 4, 64), (0, 2, 1, 3), (0, 2, 3, 1))))
    every += [(f"scatter_nd_{r}_{n}", scatter_nd, (n, 70, 33, r)) for r in ("none", "add") for n in (1, 40, 300)]
    every += [(f"scatter_elements_{axis}", scatter_elements, (37, 50, axis)) for axis in (0, 1)]
    every += [("cumsum", cumsum, ((3, 1000), 1)), ("cumsum_exclusive", cumsum, ((5, 7, 9), 1, 1)), ("cumsum_reverse", cumsum, ((2, 300), 1, 1, 1))]
    for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
        every += [(f"{op.lower()}_{''.join(map(str, axes))}_{keep}", reduce, (op, (7, 33, 65), axes, keep))
                  for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)) for keep in (0, 1)]
    every += [(f"softmax_{dtype}_{axis}", softmax, (dtype, (5, 70, 33), axis)) for dtype in ("float32", "float64") for axis in (0, 1, 2)]
    every += [(f"arg_max_{axis}_{last}", arg_max, ((9, 70, 33), axis, last)) for axis in (0, 1, 2) for last in (0, 1)]
    for i, (name, build, args) in enumerate(every):
        if not sample or i % 6 == 0:
            yield Case(name, lambda build=build, args=args: build(*args))
