"""cairn.testing: what assert_close accepts and refuses, and what make_tensor makes. Where PyTorch is there, every case
of assert_close is judged by torch.testing too: both must accept it, or refuse it with the same type of exception.
"""
import math
import unittest

import cairn
from cairn.testing import assert_close, make_tensor

try:
    import torch
except ImportError:
    torch = None

NAN, INF = math.nan, math.inf

# (what assert_close must raise, None: nothing; a function of the library that gives both sides; its options)
CASES = [
    (None, lambda c: (c.tensor([1.0, 2.0]), c.tensor([1.0, 2.0])), {}),
    (None, lambda c: (c.tensor([1.0, 2.0]), c.tensor([1.0, 2.000001])), {}),
    (AssertionError, lambda c: (c.tensor([1.0, 2.0]), c.tensor([1.0, 2.0001])), {}),
    (None, lambda c: (c.tensor([1.0]), c.tensor([1.1])), dict(rtol=0.2, atol=0.0)),
    (AssertionError, lambda c: (c.tensor([1.0]), c.tensor([1.1])), dict(rtol=0.0, atol=0.01)),
    (ValueError, lambda c: (c.tensor([1.0]), c.tensor([1.1])), dict(rtol=0.1)),
    (ValueError, lambda c: (c.tensor([1.0]), c.tensor([1.1])), dict(atol=0.1)),
    (AssertionError, lambda c: (c.tensor([1.0]), c.tensor([1.0], dtype=c.float64)), {}),
    (None, lambda c: (c.tensor([1.0]), c.tensor([1.0], dtype=c.float64)), dict(check_dtype=False)),
    (None, lambda c: (c.tensor([1.0005], dtype=c.float16), c.tensor([1.0])), dict(check_dtype=False)),
    (AssertionError, lambda c: (c.tensor([1, 2]), c.tensor([1, 3])), {}),
    (None, lambda c: (c.tensor([1, 2]), c.tensor([1, 3])), dict(rtol=0.0, atol=1.0)),
    (AssertionError, lambda c: (c.tensor([2 ** 62]), c.tensor([2 ** 62 + 1])), {}),
    (AssertionError, lambda c: (c.tensor([True, False]), c.tensor([True, True])), {}),
    (None, lambda c: (c.tensor([True, False]), c.tensor([True, False])), {}),
    (AssertionError, lambda c: (c.zeros(2, 3), c.zeros(3, 2)), {}),
    (AssertionError, lambda c: (c.zeros(1), c.zeros(())), {}),
    (None, lambda c: (c.zeros(0, 3), c.zeros(0, 3)), {}),
    (None, lambda c: (c.zeros(3, 2), c.zeros(2, 3).t()), {}),
    (AssertionError, lambda c: (c.zeros(3, 2), c.zeros(2, 3).t()), dict(check_stride=True)),
    (AssertionError, lambda c: (c.tensor([NAN]), c.tensor([NAN])), {}),
    (None, lambda c: (c.tensor([NAN]), c.tensor([NAN])), dict(equal_nan=True)),
    (AssertionError, lambda c: (c.tensor([NAN]), c.tensor([1.0])), dict(equal_nan=True)),
    (None, lambda c: (c.tensor([INF, -INF]), c.tensor([INF, -INF])), {}),
    (AssertionError, lambda c: (c.tensor([INF]), c.tensor([-INF])), {}),
    (AssertionError, lambda c: (c.tensor([1.0]), c.tensor([INF])), dict(rtol=1.0, atol=1.0)),
    (None, lambda c: (c.ones(2, requires_grad=True), c.ones(2)), {}),
    (None, lambda c: (c.tensor([1.0], dtype=c.bfloat16), c.tensor([1.01], dtype=c.bfloat16)), {}),
    (AssertionError, lambda c: (c.tensor([1.0], dtype=c.bfloat16), c.tensor([1.05], dtype=c.bfloat16)), {}),
    # numbers
    (None, lambda c: (1.0, 1.0 + 1e-9), {}),
    (AssertionError, lambda c: (1.0, 1.001), {}),
    (AssertionError, lambda c: (1, 1.0), {}),
    (None, lambda c: (1, 1.0), dict(check_dtype=False)),
    (AssertionError, lambda c: (1, 2), {}),
    (None, lambda c: (NAN, NAN), dict(equal_nan=True)),
    (AssertionError, lambda c: (NAN, NAN), {}),
    (AssertionError, lambda c: (True, False), {}),
    (None, lambda c: (None, None), {}),
    (AssertionError, lambda c: (None, 1), {}),
    (TypeError, lambda c: (c.tensor(1.0), 1.0), {}),
    (TypeError, lambda c: ("a", "a"), {}),
    # containers
    (None, lambda c: ([c.ones(2), 3], [c.ones(2), 3]), {}),
    (None, lambda c: ((c.ones(2),), [c.ones(2)]), {}),
    (AssertionError, lambda c: ([c.ones(2)], [c.ones(2), c.ones(2)]), {}),
    (None, lambda c: ({"a": c.ones(2), "b": [1.0]}, {"b": [1.0], "a": c.ones(2)}), {}),
    (AssertionError, lambda c: ({"a": c.ones(2)}, {"b": c.ones(2)}), {}),
    (AssertionError, lambda c: ({"a": [c.ones(2), c.zeros(1)]}, {"a": [c.ones(2), c.ones(1)]}), {}),
    (TypeError, lambda c: ([c.ones(2)], c.ones(2)), {}),
]


def raised(check, sides, options):
    """The type of exception, None without one."""
    try:
        check(*sides, **options)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error)
    return None


class AssertClose(unittest.TestCase):
    def test_cases(self):
        for number, (want, sides, options) in enumerate(CASES):
            with self.subTest(case=number, options=options):
                self.assertIs(raised(assert_close, sides(cairn), options), want)

    @unittest.skipIf(torch is None, "PyTorch is not installed")
    def test_cases_by_torch(self):
        for number, (want, sides, options) in enumerate(CASES):
            with self.subTest(case=number, options=options):
                self.assertIs(raised(torch.testing.assert_close, sides(torch), options), want)

    def message(self, *args, **options):
        with self.assertRaises(AssertionError) as caught:
            assert_close(*args, **options)
        return str(caught.exception)

    def test_message_of_tensors(self):
        text = self.message(cairn.tensor([[1.0, 2.0], [3.0, 4.5]]), cairn.tensor([[1.0, 2.5], [3.0, 4.0]]))
        self.assertIn("2 of 4 elements differ (50.0 %)", text)
        self.assertIn("first at (0, 1) is 2.0, expected 2.5", text)
        self.assertIn("greatest absolute difference: 0.5 at (0, 1), allowed 1e-05", text)
        self.assertIn("greatest relative difference: 0.2 at (0, 1)", text)

    def test_message_names_the_item(self):
        text = self.message({"a": [cairn.ones(2), cairn.zeros(1)]}, {"a": [cairn.ones(2), cairn.ones(1)]})
        self.assertIn("item ['a'][1]:", text)

    def test_message_of_attributes(self):
        self.assertIn("(2, 3), expected (3, 2)", self.message(cairn.zeros(2, 3), cairn.zeros(3, 2)))
        text = self.message(cairn.zeros(2), cairn.zeros(2, dtype=cairn.int32))
        self.assertIn("cairn.float32, expected cairn.int32", text)

    def test_own_message(self):
        self.assertEqual(self.message(1.0, 2.0, msg="no"), "no")
        self.assertTrue(self.message(1.0, 2.0, msg=lambda text: "seen: " + text).startswith("seen: assert_close"))

    def test_not_a_number_is_named(self):
        text = self.message(cairn.tensor([1.0, NAN]), cairn.tensor([1.0, 2.0]))
        self.assertIn("greatest absolute difference: nan at (1,)", text)

    def test_subclasses(self):
        class Mine(cairn.Tensor):
            pass
        try:
            mine = cairn.ones(2).as_subclass(Mine)
        except (AttributeError, NotImplementedError, TypeError):
            self.skipTest("no as_subclass")
        assert_close(mine, cairn.ones(2))
        with self.assertRaises(TypeError):
            assert_close(mine, cairn.ones(2), allow_subclasses=False)

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        assert_close(numpy.ones(3), numpy.ones(3))
        assert_close(numpy.float64(1.0), numpy.float64(1.0))
        with self.assertRaises(AssertionError):
            assert_close(numpy.ones(3), numpy.zeros(3))
        with self.assertRaises(TypeError):
            assert_close(numpy.ones(3), cairn.ones(3))


class MakeTensor(unittest.TestCase):
    def test_ranges(self):
        for dtype, low, high in [(cairn.float32, -9, 9), (cairn.float64, -9, 9), (cairn.float16, -9, 9),
                                 (cairn.bfloat16, -9, 9), (cairn.int64, -9, 9), (cairn.int8, -9, 9),
                                 (cairn.uint8, 0, 9), (cairn.bool, 0, 1)]:
            with self.subTest(dtype=dtype):
                t = make_tensor(50, 40, dtype=dtype, device="cpu")
                self.assertEqual((tuple(t.shape), t.dtype, t.requires_grad), ((50, 40), dtype, False))
                values = t.to(cairn.float64)
                self.assertGreaterEqual(values.min().item(), low)
                self.assertLessEqual(values.max().item(), high)
                self.assertGreater(values.max().item() - values.min().item(), 0.9 * (high - low))

    def test_low_and_high(self):
        t = make_tensor((200,), dtype=cairn.float32, low=3, high=4)
        self.assertTrue(3 <= t.min().item() and t.max().item() < 4)
        t = make_tensor((200,), dtype=cairn.int32, low=-1, high=2)
        self.assertEqual(sorted(set(t.tolist())), [-1, 0, 1])
        whole = make_tensor((99,), dtype=cairn.float64, low=-INF, high=INF)
        self.assertTrue(whole.isfinite().all().item())

    def test_shapes(self):
        self.assertEqual(tuple(make_tensor((), dtype=cairn.float32).shape), ())
        self.assertEqual(tuple(make_tensor((2, 0), dtype=cairn.int64).shape), (2, 0))
        self.assertEqual(tuple(make_tensor([2, 3], dtype=cairn.float32).shape), (2, 3))

    def test_options(self):
        gap = make_tensor(3, 4, dtype=cairn.float32, noncontiguous=True)
        self.assertEqual((tuple(gap.shape), gap.is_contiguous()), ((3, 4), False))
        leaf = make_tensor(3, dtype=cairn.float64, requires_grad=True)
        self.assertTrue(leaf.requires_grad and leaf.is_leaf)
        bits = make_tensor(100, dtype=cairn.int64, low=0, high=2, exclude_zero=True)
        self.assertEqual(set(bits.tolist()), {1})

    def test_refused(self):
        for options in [dict(dtype=cairn.int64, requires_grad=True), dict(dtype=cairn.float32, low=2, high=1),
                        dict(dtype=cairn.int64, low=NAN, high=1)]:
            with self.subTest(**options), self.assertRaises(ValueError):
                make_tensor(3, **options)


if __name__ == "__main__":
    unittest.main()
