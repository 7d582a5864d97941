#!/usr/bin/env python3
"""Kernels of the pointwise and row-reduction families over widths and types, as IR and as a list of cases.

    sweep.py --out DIR [--sample] [--widths 64,4096] [--types bf16] [--ops softmax]

Writes DIR/sweep.mlir (one fusion.kernel a case; rows are the size d0) and DIR/cases.txt (`name op width type type2`, read by
kernel-sweep). --sample takes the cases of the normal test run: every width and every op at least twice, a sixth of all.
"""
import argparse
import pathlib

WIDTHS = [1, 2, 3, 7, 8, 31, 33, 64, 127, 576, 1000, 1024, 1536, 4096, 4097, 8192, 14336, 65536, 131072]
TYPES = ["f32", "f16", "bf16"]


def mat(w, t):
    return f"tensor<?x{w}x{t}, #fusion.shape<[d0, {w}]>>"


def vec(w, t):
    return f"tensor<{w}x{t}>"


def col(t):
    return f"tensor<?x1x{t}, #fusion.shape<[d0, 1]>>"


def kernel(name, family, args, body, sizes=1):
    params = ", ".join(f"%{n}: {t}" for n, t in args)
    lines = "\n".join("  " + line for line in body)
    return (f'fusion.kernel @{name} config #fusion.config<"{family}", {{}}> sizes {sizes}\n    ({params}) {{\n{lines}\n}}\n')


def add_rms_norm(n, w, t, g):
    x, v = mat(w, t), vec(w, g)
    return kernel(n, "row_reduction", [("a", x), ("b", x), ("g", v)], [
        f"%s = fusion.add %a, %b : ({x}, {x}) -> {x}",
        f"%n = fusion.rms_norm %s, %g {{epsilon = 1.0e-5 : f32}} : ({x}, {v}) -> {x}",
        f"fusion.yield %s, %n : {x}, {x}"])


def rms_norm(n, w, t, g):
    x, v = mat(w, t), vec(w, g)
    return kernel(n, "row_reduction", [("x", x), ("g", v)], [
        f"%n = fusion.rms_norm %x, %g {{epsilon = 1.0e-5 : f32}} : ({x}, {v}) -> {x}",
        f"fusion.yield %n : {x}"])


def layer_norm(n, w, t, g):
    x, v = mat(w, t), vec(w, g)
    return kernel(n, "row_reduction", [("x", x), ("g", v), ("b", v)], [
        f"%n = fusion.layer_norm %x, %g, %b {{epsilon = 1.0e-5 : f32}} : ({x}, {v}, {v}) -> {x}",
        f"fusion.yield %n : {x}"])


def softmax(n, w, t, g):
    x = mat(w, t)
    return kernel(n, "row_reduction", [("x", x)], [
        f"%y = fusion.softmax %x axis = 1 : ({x}) -> {x}", f"fusion.yield %y : {x}"])


def reduce_sum(n, w, t, g):
    x, c = mat(w, t), col(t)
    return kernel(n, "row_reduction", [("x", x)], [
        f"%y = fusion.reduce_sum %x axes = [1] {{keepdims}} : ({x}) -> {c}", f"fusion.yield %y : {c}"])


def silu_mul(n, w, t, g):
    x = mat(w, t)
    return kernel(n, "pointwise", [("a", x), ("b", x)], [
        f"%s = fusion.silu %a : ({x}) -> {x}", f"%y = fusion.mul %s, %b : ({x}, {x}) -> {x}",
        f"fusion.yield %y : {x}"])


OPS = {f.__name__: f for f in (add_rms_norm, rms_norm, layer_norm, softmax, reduce_sum, silu_mul)}


def copy(n, w, t, g):
    x = mat(w, t)
    return kernel(n, "pointwise", [("x", x)], [f"fusion.yield %x : {x}"])


def bias_mask_softmax(n, w, t, g):
    """A prologue with a scalar, a broadcast vector and a cast, an epilogue with a cast."""
    x, v, f, fv = mat(w, t), vec(w, t), mat(w, "f32"), vec(w, "f32")
    return kernel(n, "row_reduction", [("x", x), ("m", v)], [
        f"%k = fusion.constant dense<0.125> : tensor<f32>",
        f"%c = fusion.cast %x : ({x}) -> {f}", f"%d = fusion.cast %m : ({v}) -> {fv}",
        f"%s = fusion.mul %c, %k : ({f}, tensor<f32>) -> {f}", f"%b = fusion.add %s, %d : ({f}, {fv}) -> {f}",
        f"%p = fusion.softmax %b axis = 1 : ({f}) -> {f}", f"%y = fusion.cast %p : ({f}) -> {x}",
        f"fusion.yield %y : {x}"])


def center(n, w, t, g):
    """Two chained reductions by hand, a row scalar as a second result."""
    x, c = mat(w, t), col(t)
    return kernel(n, "row_reduction", [("x", x)], [
        f"%m = fusion.reduce_mean %x axes = [1] {{keepdims}} : ({x}) -> {c}",
        f"%d = fusion.sub %x, %m : ({x}, {c}) -> {x}", f"%h = fusion.reduce_max %d axes = [1] {{keepdims}} : ({x}) -> {c}",
        f"%y = fusion.sub %d, %h : ({x}, {c}) -> {x}", f"fusion.yield %y, %h : {x}, {c}"])


def transpose_add(n, w, t, g):
    """A transposed operand and a broadcast row: lanes apart in memory."""
    x, xt, v = mat(w, t), f"tensor<{w}x?x{t}, #fusion.shape<[{w}, d0]>>", vec(w, t)
    return kernel(n, "pointwise", [("x", xt), ("v", v)], [
        f"%t = fusion.transpose %x perm = [1, 0] : ({xt}) -> {x}", f"%y = fusion.add %t, %v : ({x}, {v}) -> {x}",
        f"fusion.yield %y : {x}"])


def gather_rows(n, w, t, g):
    """An embedding lookup: 32 rows of a table by index."""
    i, tab, x = "tensor<?xi64, #fusion.shape<[d0]>>", f"tensor<32x{w}x{t}>", mat(w, t)
    return kernel(n, "pointwise", [("t", tab), ("i", i)], [
        f"%y = fusion.gather %t, %i axis = 0 : ({tab}, {i}) -> {x}", f"fusion.yield %y : {x}"])


def rotate_half(n, w, t, g):
    """Slices and a concatenation within the row, as rotary embeddings are spelt."""
    x, h = mat(w, t), mat(w // 2, t)
    return kernel(n, "pointwise", [("x", x)], [
        f'%a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : ({x}) -> {h}',
        f'%b = fusion.slice %x starts = ["0", "{w // 2}"] steps = [1, 1] : ({x}) -> {h}',
        f"%n = fusion.neg %b : ({h}) -> {h}", f"%y = fusion.concat %n, %a axis = 1 : ({h}, {h}) -> {x}",
        f"fusion.yield %y : {x}"])


def cases(a):
    n = 0
    for w in a.widths:
        for t in a.types:
            for op in a.ops:
                n += 1
                if a.sample and (n + WIDTHS.index(w) if w in WIDTHS else n) % 6:
                    continue
                yield op, OPS[op], w, t, t
    if a.only:
        return
    for op, f in (("bias_mask_softmax", bias_mask_softmax), ("center", center), ("transpose_add", transpose_add),
                  ("gather_rows", gather_rows), ("rotate_half", rotate_half), ("copy", copy)):
        for w in (66, 576, 4096) if not a.sample else (66, 576):
            for t in ("f32", "bf16"):
                yield op, f, w, t, t
    for op in ("add_rms_norm", "rms_norm", "layer_norm"):  # 16-bit rows, fp32 weights
        for w in (576, 4096):
            yield op, OPS[op], w, "bf16", "f32"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--sample", action="store_true")
    p.add_argument("--only", action="store_true", help="no case beside the given widths, types and ops")
    p.add_argument("--widths", type=lambda s: [int(x) for x in s.split(",")], default=WIDTHS)
    p.add_argument("--types", type=lambda s: s.split(","), default=TYPES)
    p.add_argument("--ops", type=lambda s: s.split(","), default=list(OPS))
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    ir, names = [], []
    for op, f, w, t, g in cases(a):
        name = f"{op}_{w}_{t}" + ("" if g == t else f"_{g}")
        ir.append(f(name, w, t, g))
        names.append(f"{name} {op} {w} {t} {g}")
    (a.out / "sweep.mlir").write_text("\n".join(ir))
    (a.out / "cases.txt").write_text("\n".join(names) + "\n")
    print(f"{len(names)} kernels in {a.out / 'sweep.mlir'}")


if __name__ == "__main__":
    main()
