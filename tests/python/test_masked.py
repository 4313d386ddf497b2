"""cairn.masked beside torch.masked: what a mask leaves out, where all is left out, types, dimensions, gradients."""
import math
import unittest

import cairn
from cases import Case

ROWS = [[3.0, -1.0, 2.0, 0.5], [1.5, 4.0, -2.0, 7.0], [2.0, 2.5, -3.0, 1.0]]
MASK = [[True, False, True, True], [False, False, False, False], [True, True, False, True]]
REDUCTIONS = ["sum", "prod", "amax", "amin", "mean", "norm", "var", "std", "logsumexp"]


def masked(m):
    return m.masked if m is cairn else __import__("torch.masked").masked


def given(m, dtype=None, grad=False):
    x = m.tensor(ROWS, dtype=dtype or m.float64)
    return x.requires_grad_() if grad else x, m.tensor(MASK)


def shown(value):
    """NaN and infinities as words, so that lists of them compare."""
    if isinstance(value, list):
        return [shown(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def kind(value):
    return str(value.dtype).rsplit(".", maxsplit=1)[-1]


class Reductions(Case):
    def test_dims(self):
        for name in REDUCTIONS:
            for dim in (None, 1, (0, 1), -2, ()):
                for keepdim in (False, True):
                    def program(m, name=name, dim=dim, keepdim=keepdim):
                        x, mask = given(m)
                        more = {"dim": dim, "keepdim": keepdim}
                        f = getattr(masked(m), name)
                        return [shown(f(x, mask=mask, **more).tolist()), shown(f(x, **more).tolist())]
                    with self.subTest(name=name, dim=dim, keepdim=keepdim):
                        self.same(program)

    def test_types(self):
        for name in ("sum", "prod", "amax", "amin", "argmax", "argmin"):
            def program(m, name=name):
                x, mask = given(m, m.int8)
                made = getattr(masked(m), name)(x, 1, mask=mask)
                wide = getattr(masked(m), name)(x, 1, mask=mask, dtype=m.float32)
                return [kind(made), made.tolist(), kind(wide), wide.tolist()]
            with self.subTest(name=name):
                self.same(program)

    def test_gradients(self):
        for name in REDUCTIONS:
            def program(m, name=name):
                x, mask = given(m, grad=True)
                mask = mask | m.tensor([[False], [True], [False]])
                getattr(masked(m), name)(x, 1, mask=mask).sum().backward()
                return x.grad.tolist()
            with self.subTest(name=name):
                self.same(program)

    def test_median(self):
        self.same(lambda m: shown(masked(m).median(given(m)[0], 1, mask=given(m)[1]).tolist()))
        self.fails(lambda m: masked(m).median(given(m, m.int64)[0], 1, mask=given(m)[1]), ValueError)

    def test_norms(self):
        for order in (0.0, 1.0, 3.0, math.inf, -math.inf):
            self.same(lambda m, order=order: shown(masked(m).norm(given(m)[0], order, 1, mask=given(m)[1]).tolist()))

    def test_variance(self):
        self.same(lambda m: shown(masked(m).var(given(m)[0], 1, False, mask=given(m)[1]).tolist()))
        self.same(lambda m: shown(masked(m).std(given(m)[0], 1, correction=2, mask=given(m)[1]).tolist()))
        self.same(lambda m: kind(masked(m).var(given(m, m.int64)[0], 1, mask=given(m)[1])))
        self.fails(lambda m: masked(m).var(given(m)[0], 1, True, correction=1), AssertionError)


class Along(Case):
    def test_forms(self):
        for name in ("cumsum", "cumprod", "softmax", "log_softmax", "softmin"):
            for dim in (0, -1):
                self.same(lambda m, name=name, dim=dim:
                          shown(getattr(masked(m), name)(given(m)[0], dim, mask=given(m)[1]).tolist()))

    def test_normalize(self):
        self.same(lambda m: masked(m).normalize(given(m)[0], 2.0, 1, mask=given(m)[1]).tolist())

    def test_pairs(self):
        def program(m):
            x, mask = given(m)
            return shown(masked(m).logaddexp(x, x.flip(0), input_mask=mask, other_mask=~mask).tolist())
        self.same(program)


class Refused(Case):
    def test_masks(self):
        self.fails(lambda m: masked(m).sum(m.ones(3), mask=m.ones(2, 3) > 0), IndexError)
        self.fails(lambda m: masked(m).sum(m.ones(3), mask=m.ones(2) > 0))

    def test_dims(self):
        self.fails(lambda m: masked(m).sum(m.ones(3), 1), IndexError)
        self.fails(lambda m: masked(m).sum(m.ones(3, 2), (0, 0)))
        self.fails(lambda m: masked(m).mean(m.ones(3, dtype=m.int64)), ValueError)


class Native(Case):
    """The functions of _forms_native: results, statistics, and running statistics left behind."""

    def test_norms(self):
        def program(m):
            x = m.arange(24, dtype=m.float64).reshape(2, 4, 3).sin()
            w, b = m.arange(1, 5, dtype=m.float64), m.arange(4, dtype=m.float64)
            mean, var = m.zeros(4, dtype=m.float64), m.ones(4, dtype=m.float64)
            made = [m.native_batch_norm(x, w, b, mean, var, True, 0.25, 1e-5), (mean, var),
                    m.native_batch_norm(x, None, None, mean, var, False, 0.25, 1e-5),
                    m._native_batch_norm_legit(x, w, b, True, 0.1, 1e-5),
                    m.native_group_norm(x, w, b, 2, 4, 3, 2, 1e-5),
                    m.native_layer_norm(x, [3], None, None, 1e-5)]
            return [[r.tolist() for r in results] for results in made]
        self.same(program)
        x = cairn.ones(2, 4, 3, requires_grad=True)
        self.assertEqual([r.requires_grad for r in cairn.native_layer_norm(x, [3], None, None, 1e-5)],
                         [True, False, False])
        made = cairn._batch_norm_with_update(x, None, None, cairn.zeros(4), cairn.ones(4), 0.1, 1e-5)
        self.assertEqual([r.shape for r in made], [(2, 4, 3), (4,), (4,), (0,)])
        for wrong in ((2, 4, 4), (1, 8, 3)):
            with self.assertRaises(RuntimeError):
                cairn.native_group_norm(x, None, None, *wrong, 2, 1e-5)
        with self.assertRaises(TypeError):
            cairn._native_batch_norm_legit(x, None, None, True, 0.1)

    def test_attention(self):
        def program(m):
            q = m.arange(48, dtype=m.float64).reshape(1, 2, 3, 8).sin()
            k = m.arange(64, dtype=m.float64).reshape(1, 2, 4, 8).cos()
            f = m._scaled_dot_product_flash_attention_for_cpu
            made = [f(q, k, k), f(q, k, k, 0.0, True), f(q, k, k, scale=0.5),
                    f(q, k, k, attn_mask=m.arange(12, dtype=m.float64).reshape(3, 4))]
            return [[r.tolist() for r in results] for results in made]
        self.same(program)
        self.fails(lambda m: m._scaled_dot_product_flash_attention_for_cpu(*[m.ones(1, 1, 2, 4)] * 3, 0.5))

    def test_lu(self):
        def program(m):
            a = m.arange(9, dtype=m.float64).reshape(3, 3).sin() + m.eye(3, dtype=m.float64)
            plain, more = m.lu(a), a.lu(get_infos=True)
            return [plain[0].tolist(), plain[1].tolist(), more[2].tolist(), len(plain), len(more)]
        self.same(program)
        self.same(lambda m: m.lu(m.zeros(2, 2), True, True)[2].item())
        out = cairn.empty(0), cairn.empty(0, dtype=cairn.int32)
        self.assertIs(cairn.lu(cairn.eye(2), out=out)[0], out[0])
        self.assertEqual(out[0].tolist(), [[1, 0], [0, 1]])
        with self.assertRaises(TypeError):
            cairn.lu(cairn.eye(2), get_infos=True, out=out)

    def test_upsample(self):
        x = cairn.arange(16.0).reshape(1, 1, 4, 4)
        f = cairn._upsample_bilinear2d_aa
        self.assertEqual(f(x, [2, 2], False).tolist(), f(x, None, False, scale_factors=[0.5, 0.5]).tolist())
        for size, factors in ((None, None), ([2, 2], [0.5, 0.5])):
            with self.assertRaises(RuntimeError):
                f(x, size, False, scale_factors=factors)


if __name__ == "__main__":
    unittest.main()
