"""Attention, caches and norms as they are written now and then: raised, with onnxruntime's numbers, fused and unfused."""
import pathlib
import re
import tempfile
import unittest

import numpy as np
import onnx
import onnx.parser

from fusion import testing

LIMIT = 2e-6
HEADS, KEYS, SIZE = 4, 2, 8
QUERY = f"float[b,{HEADS},s,{SIZE}] q"


def parse(signature, body, outputs, weights=()):
    text = f'<ir_version: 8, opset_import: ["": 18]> forms ({signature}) => ({outputs}) <{", ".join(weights)}> {{ {body} }}'
    return onnx.parser.parse_model(text)


def places(rows, keys):
    """Where each query sees: `seen`, and how far its keys lie from it: `distance`."""
    return f"""
        sq = Shape<start: int = 2, end: int = 3>({rows}) sk = Shape<start: int = 2, end: int = 3>({keys})
        rank0 = Constant<value: tensor = int64[0] {{}}>()
        one = Constant<value: tensor = int64 {{1}}>() none = Constant<value: tensor = int64 {{0}}>() axis = Constant<value: tensor = int64[1] {{1}}>()
        nq = Reshape(sq, rank0) nk = Reshape(sk, rank0)
        i = Range(none, nq, one) j = Range(none, nk, one) past = Sub(nk, nq) at = Add(i, past)
        row = Unsqueeze(at, axis) seen = LessOrEqual(j, row) gap = Sub(j, row) distance = Cast<to: int = 1>(gap) """


def grouped(equation_q, equation_p, split, merge):
    """Two einsums over queries in groups, without repeated keys."""
    signature = f"{QUERY}, float[b,{KEYS},t,{SIZE}] k, float[b,{KEYS},t,{SIZE}] v"
    return parse(signature, places("q", "k") + f"""
        low = Constant<value: tensor = float {{-inf}}>() scale = Constant<value: tensor = float {{0.35}}>()
        to = Constant<value: tensor = int64[5] {{0, {KEYS}, {HEADS // KEYS}, -1, {SIZE}}}>()
        groups0 = Reshape(q, to) groups = Transpose<perm: ints = {split}>(groups0)
        scores = Einsum<equation: string = "{equation_q}">(groups, k) scaled = Mul(scores, scale) masked = Where(seen, scaled, low)
        p = Softmax<axis: int = -1>(masked) mixed = Einsum<equation: string = "{equation_p}">(p, v)
        y = Transpose<perm: ints = {merge}>(mixed) """, "y")


def folded(low):
    """Queries of a group as rows of one product, masked for each head."""
    signature = f"{QUERY}, float[b,{KEYS},t,{SIZE}] k, float[b,{KEYS},t,{SIZE}] v"
    return parse(signature, places("q", "k") + f"""
        low = Constant<value: tensor = float {{{low}}}>() scale = Constant<value: tensor = float {{0.35}}>()
        to = Constant<value: tensor = int64[4] {{0, {KEYS}, -1, {SIZE}}}>() back = Constant<value: tensor = int64[4] {{0, {HEADS}, -1, {SIZE}}}>()
        many = Constant<value: tensor = int64[1] {{{HEADS}}}>() few = Constant<value: tensor = int64[1] {{{KEYS}}}>()
        group = Constant<value: tensor = int64[1] {{{HEADS // KEYS}}}>()
        sb = Shape<start: int = 0, end: int = 1>(q) sgq = Mul(sq, group)
        rows = Reshape(q, to) kT = Transpose<perm: ints = [0, 1, 3, 2]>(k) scores = MatMul(rows, kT) scaled = Mul(scores, scale)
        four = Concat<axis: int = 0>(sb, many, sq, sk) three = Concat<axis: int = 0>(sb, few, sgq, sk)
        apart = Reshape(scaled, four) masked = Where(seen, apart, low) p = Softmax<axis: int = -1>(masked) together = Reshape(p, three)
        mixed = MatMul(together, v) y = Reshape(mixed, back) """, "y")


def one_key():
    """All heads' queries, rows first, as rows of the product with the one key."""
    signature = f"float[b,s,{HEADS},{SIZE}] q, float[b,t,{SIZE}] k, float[b,t,{SIZE}] v"
    return parse(signature, f"""
        low = Constant<value: tensor = float {{-3.4e38}}>() scale = Constant<value: tensor = float {{0.35}}>()
        fold = Constant<value: tensor = int64[3] {{0, -1, {SIZE}}}>() many = Constant<value: tensor = int64[1] {{{HEADS}}}>()
        sb = Shape<start: int = 0, end: int = 1>(q) sq = Shape<start: int = 1, end: int = 2>(q) sk = Shape<start: int = 1, end: int = 2>(k) all = Mul(sq, many)
        rank0 = Constant<value: tensor = int64[0] {{}}>() one = Constant<value: tensor = int64 {{1}}>() none = Constant<value: tensor = int64 {{0}}>()
        axes = Constant<value: tensor = int64[2] {{1, 2}}>() nq = Reshape(sq, rank0) nk = Reshape(sk, rank0)
        i = Range(none, nq, one) j = Range(none, nk, one) past = Sub(nk, nq) at = Add(i, past) row = Unsqueeze(at, axes) seen = LessOrEqual(j, row)
        rows = Reshape(q, fold) kT = Transpose<perm: ints = [0, 2, 1]>(k) scores = MatMul(rows, kT) scaled = Mul(scores, scale)
        four = Concat<axis: int = 0>(sb, sq, many, sk) three = Concat<axis: int = 0>(sb, all, sk)
        apart = Reshape(scaled, four) masked = Where(seen, apart, low) p = Softmax<axis: int = -1>(masked) together = Reshape(p, three)
        mixed = MatMul(together, v) back = Shape(q) y = Reshape(mixed, back) """, "y")


def plain(masked, guard="p = Identity(weights)"):
    """One key a head; `masked` computes it from the scores `s`."""
    signature = f"{QUERY}, float[b,{HEADS},t,{SIZE}] k, float[b,{HEADS},t,{SIZE}] v"
    return parse(signature, places("q", "k") + f"""
        scale = Constant<value: tensor = float {{0.35}}>() kT = Transpose<perm: ints = [0, 1, 3, 2]>(k) scores = MatMul(q, kT) s = Mul(scores, scale)
        {masked} weights = Softmax<axis: int = -1>(masked) {guard} y = MatMul(p, v) """, "y")


ALIBI = f"""slopes = Constant<value: tensor = float[{HEADS},1,1] {{0.5, 0.25, 0.125, 0.0625}}>() bias = Mul(slopes, distance) biased = Add(s, bias)
    low = Constant<value: tensor = float {{-1e9}}>() masked = Where(seen, biased, low)"""
FACTOR = """b = Cast<to: int = 1>(seen) kept = Mul(s, b) whole = Constant<value: tensor = float {1}>() rest = Sub(whole, b)
    far = Constant<value: tensor = float {10000}>() off = Mul(rest, far) masked = Sub(kept, off)"""
ROWS_WITHOUT = """low = Constant<value: tensor = float {-inf}>() first = Constant<value: tensor = int64 {1}>() later = Less(j, first) hidden = And(seen, later)
    last = Not(hidden) both = And(seen, last) masked = Where(both, s, low)"""
TO_NUMBERS = """zero = Constant<value: tensor = float {0}>() most = Constant<value: tensor = float {3.4028235e38}>() least = Neg(most)
    bad = IsNaN(weights) good = Where(bad, zero, weights) inf = IsInf(good) more = Greater(good, zero) up = And(inf, more) cut = Where(up, most, good)
    inf2 = IsInf(cut) less = Less(cut, zero) down = And(inf2, less) p = Where(down, least, cut)"""


def cached(weigh):
    """Keys and values behind what the caller keeps; `weigh` computes the weights from the scores `s`."""
    past = f"float[b,{HEADS},p,{SIZE}]"
    signature = f"{QUERY}, float[b,{HEADS},s,{SIZE}] k, float[b,{HEADS},s,{SIZE}] v, {past} pk, {past} pv"
    return parse(signature, f"""
        new_k = Neg(k) new_v = Neg(v) all.k = Concat<axis: int = 2>(pk, new_k) all.v = Concat<axis: int = 2>(pv, new_v) kT = Transpose<perm: ints = [0, 1, 3, 2]>(all.k)
        s = MatMul(q, kT) {weigh} y = MatMul(weights, all.v) """.replace("all.", "all_"), "y, all_k, all_v")


def norm(body):
    return parse(f"float[b,s,{SIZE}] x", f"eps = Constant<value: tensor = float {{1e-5}}>() {body}", "y",
                 [f"float[{SIZE}] w = {{{', '.join(str(1 + i / 8) for i in range(SIZE))}}}", f"int64[1] first = {{1}}", "int64[1] last = {2}"])


FIRST = """t = Transpose<perm: ints = [0, 2, 1]>(x) wt = Unsqueeze(w, first) """
RMS_FIRST = FIRST + """tt = Mul(t, t) m = ReduceMean(tt, first) e = Add(m, eps) r = Sqrt(e) d = Div(t, r) dw = Mul(d, wt) y = Transpose<perm: ints = [0, 2, 1]>(dw)"""
LAYER_FIRST = FIRST + """mean = ReduceMean(t, first) c = Sub(t, mean) cc = Mul(c, c) m = ReduceMean(cc, first) e = Add(m, eps) r = Sqrt(e) d = Div(c, r)
    dw = Mul(d, wt) db = Add(dw, wt) y = Transpose<perm: ints = [0, 2, 1]>(db)"""
RMS_DOT = f"""xx = Einsum<equation: string = "...d,...d->...">(x, x) wide = Unsqueeze(xx, last) n = Constant<value: tensor = float {{{SIZE}}}>()
    m = Div(wide, n) e = Add(m, eps) r = Sqrt(e) d = Div(x, r) y = Mul(d, w)"""


class UncommonFormsTest(unittest.TestCase):
    def check(self, model, sizes=({"b": 2, "s": 3, "t": 5, "p": 4}, {"b": 1, "s": 1, "t": 7, "p": 0}, {"b": 3, "s": 4, "t": 4, "p": 2}), **expected):
        random = np.random.default_rng(5)
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            onnx.save(model, tmp / "m.onnx")
            ir = testing.tools.must("fusion-compile", tmp / "m.onnx", "--emit=raised", "-o", "-")
            self.assertEqual({op: len(re.findall(rf"= fusion\.{op}\b", ir)) for op in expected}, expected, ir)
            testing.tools.compile(tmp / "m.onnx", tmp / "fused")
            testing.tools.compile(tmp / "m.onnx", tmp / "unfused", "--disable-fusion=all")
            for size in sizes:
                feeds = {i.name: random.standard_normal([d.dim_value or size[d.dim_param] for d in i.type.tensor_type.shape.dim]).astype(np.float32)
                         for i in model.graph.input}
                for form in "fused", "unfused":
                    found = testing.tools.run(tmp / form, feeds)
                    for name, reference in testing.run_onnxruntime(model, feeds).items():
                        np.testing.assert_array_equal(np.isnan(found[name]), np.isnan(reference), f"{form} {name} of {size}")
                        self.assertLessEqual(testing.error(np.nan_to_num(found[name]), np.nan_to_num(reference)), LIMIT, f"{form} {name} of {size}")

    def test_groups_without_repeats(self):
        self.check(grouped("bkgsd,bktd->bkgst", "bkgst,bktd->bkgsd", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]), attention=1, softmax=0, expand=0)

    def test_groups_behind_rows(self):
        self.check(grouped("bskgd,bktd->bkgst", "bkgst,bktd->bskgd", [0, 3, 1, 2, 4], [0, 1, 2, 3, 4]), attention=1, softmax=0, expand=0)

    def test_groups_as_rows(self):
        for low in "-inf", "-1e9", "-1e4":
            with self.subTest(low):
                self.check(folded(low), attention=1, softmax=0, expand=0)

    def test_heads_as_rows_of_one_key(self):
        self.check(one_key(), attention=1, softmax=0)

    def test_heads_as_rows_of_one_key_for_fixed_sizes(self):
        model = one_key()
        for i in model.graph.input:
            for d in i.type.tensor_type.shape.dim:
                d.dim_value = {"b": 2, "s": 5, "t": 6}.get(d.dim_param, d.dim_value)
        self.check(model, sizes=[{}], attention=1, softmax=0, where=0)

    def test_bias_beside_a_selected_number(self):
        self.check(plain(ALIBI), attention=1, softmax=0)

    def test_mask_as_a_factor(self):
        self.check(plain(FACTOR), attention=1, softmax=0)

    def test_not_a_number_and_infinities_are_replaced(self):
        self.check(plain(ROWS_WITHOUT, TO_NUMBERS), attention=1, softmax=0)
        self.check(plain(ROWS_WITHOUT), attention=1, softmax=0)

    def test_caches_beside_what_is_no_attention(self):
        self.check(cached("weights = Sigmoid(s)"), attention=0, kv_append=2)
        self.check(cached("one = Constant<value: tensor = float {1}>() e = Exp(s) axis = Constant<value: tensor = int64[1] {-1}>() t = ReduceSum(e, axis) "
                          "more = Add(t, one) weights = Div(e, more)"), attention=0, kv_append=2)

    def test_caches_beside_attention(self):
        self.check(cached("weights = Softmax<axis: int = -1>(s)"), attention=1, kv_append=2)

    def test_norms_channels_first(self):
        self.check(norm(RMS_FIRST), rms_norm=1, transpose=0)
        self.check(norm(LAYER_FIRST), layer_norm=1, transpose=0)

    def test_norm_of_a_dot_product(self):
        self.check(norm(RMS_DOT), rms_norm=1, matmul=0)

    def test_rows_over_their_length(self):
        self.check(norm(f"""u = LpNormalization<axis: int = -1, p: int = 2>(x) root = Constant<value: tensor = float {{{SIZE**0.5}}}>() v = Mul(u, root)
            used = Mul(v, w) y = Add(used, eps)"""), rms_norm=1)
        self.check(norm("u = LpNormalization<axis: int = 1, p: int = 1>(x) y = Mul(u, w)"), rms_norm=0)


if __name__ == "__main__":
    unittest.main()
