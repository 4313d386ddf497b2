"""no_grad, enable_grad, set_grad_enabled and inference_mode: contexts, decorators, generators, threads; sdpa_kernel."""
import threading
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = [cairn] + ([torch] if torch else [])


class Modes(unittest.TestCase):
    def each(self, program, expected):
        """program(m) must return the same in cairn and, where it is installed, in torch."""
        for m in LIBRARIES:
            self.assertEqual(program(m), expected, m.__name__)
            self.assertTrue(m.is_grad_enabled())

    def test_contexts(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            seen = [(x * 2).requires_grad]
            with m.no_grad():
                seen.append((x * 2).requires_grad)
                with m.enable_grad():
                    seen.append((x * 2).requires_grad)
                seen.append(m.is_grad_enabled())
            with m.set_grad_enabled(False):
                seen.append(m.is_grad_enabled())
            seen.append(m.is_grad_enabled())
            return seen

        self.each(program, [True, False, True, False, False, True])

    def test_exceptions_end_them(self):
        def program(m):
            try:
                with m.no_grad():
                    raise KeyError
            except KeyError:
                return m.is_grad_enabled()

        self.each(program, True)

    def test_set_grad_enabled_at_once(self):
        def program(m):
            m.set_grad_enabled(False)
            off = m.is_grad_enabled()
            m.set_grad_enabled(True)
            return off, m.is_grad_enabled()

        self.each(program, (False, True))

    def test_one_object_again(self):
        mode = cairn.no_grad()
        for _ in range(2):
            with mode:
                with mode:
                    self.assertFalse(cairn.is_grad_enabled())
                self.assertFalse(cairn.is_grad_enabled())
            self.assertTrue(cairn.is_grad_enabled())

    def test_decorators(self):
        def program(m):
            @m.no_grad()
            def a(n):
                """what a does"""
                return [m.is_grad_enabled()] + (a(n - 1) if n else [])

            @m.no_grad
            def b():
                return m.is_grad_enabled()

            @m.set_grad_enabled(False)
            def c():
                return m.is_grad_enabled()

            @m.no_grad()
            def d():
                with m.enable_grad():
                    return m.is_grad_enabled()

            @m.inference_mode()
            def e():
                return m.is_inference_mode_enabled(), m.is_grad_enabled()

            return a(1), a.__name__, a.__doc__, b(), c(), d(), e(), m.is_grad_enabled()

        self.each(program, ([False, False], "a", "what a does", False, False, True, (True, False), True))

    def test_generators(self):
        def program(m):
            seen = []

            @m.no_grad()
            def steps():
                seen.append(m.is_grad_enabled())
                try:
                    got = yield 1
                    seen.append((got, m.is_grad_enabled()))
                    try:
                        yield 2
                    except KeyError:
                        seen.append(("caught", m.is_grad_enabled()))
                    yield 3
                    return 4
                finally:
                    seen.append(("closed", m.is_grad_enabled()))

            g = steps()
            seen.append((next(g), m.is_grad_enabled()))
            seen.append(g.send("word"))
            seen.append(g.throw(KeyError()))
            try:
                next(g)
            except StopIteration as stop:
                seen.append(stop.value)
            h = steps()
            next(h)
            h.close()
            seen.append(m.is_grad_enabled())
            return seen

        self.each(program, [False, (1, True), ("word", False), 2, ("caught", False), 3, ("closed", False), 4,
                            False, ("closed", False), True])

    def test_inference(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            with m.inference_mode():
                y = x * 2
                seen = [m.is_inference_mode_enabled(), m.is_grad_enabled(), y.is_inference(), y.requires_grad,
                        m.ones(1).is_inference()]
                with m.inference_mode(False):
                    seen += [m.is_inference_mode_enabled(), (x * 2).requires_grad]
            seen += [m.is_inference_mode_enabled(), x.is_inference()]
            with m.inference_mode(mode=False):
                seen.append((x * 2).requires_grad)
            return seen

        self.each(program, [True, False, True, False, True, False, True, False, False, True])

    def test_inference_tensors_never_record(self):
        for m in LIBRARIES:
            with m.inference_mode():
                y = m.ones(2)
            with self.assertRaises(RuntimeError):
                y.requires_grad_()
            self.assertFalse(y.clone().is_inference())

    def test_threads_have_their_own(self):
        seen = []

        def look():
            seen.append((cairn.is_grad_enabled(), cairn.is_inference_mode_enabled()))
            cairn.set_grad_enabled(False)

        with cairn.inference_mode():
            t = threading.Thread(target=look)
            t.start()
            t.join()
            self.assertTrue(cairn.is_inference_mode_enabled())
        self.assertEqual(seen, [(True, False)])
        self.assertTrue(cairn.is_grad_enabled())


class AttentionWays(unittest.TestCase):
    """sdpa_kernel: the choice holds inside, what is chosen can do it or raises, as in torch on the CPU."""

    def attend(self, m, **options):
        m.manual_seed(3)
        x = m.arange(48, dtype=m.float32).reshape(1, 2, 6, 4).mul(0.05).sin().requires_grad_(True)
        y = m.nn.functional.scaled_dot_product_attention(x, x, x, **options)
        y.square().sum().backward()
        return y.detach(), x.grad

    def fails(self, m, backends, **options):
        with m.nn.attention.sdpa_kernel(backends), self.assertRaises(RuntimeError) as caught:
            self.attend(m, **options)
        return str(caught.exception)

    def test_choices_agree(self):
        for m in LIBRARIES:
            ways = m.nn.attention.SDPBackend
            want = self.attend(m, is_causal=True)
            for choice in (ways.MATH, ways.FLASH_ATTENTION, [ways.MATH, ways.CUDNN_ATTENTION]):
                with m.nn.attention.sdpa_kernel(choice):
                    have = self.attend(m, is_causal=True)
                for a, b in zip(want, have):
                    self.assertTrue(m.allclose(a, b, rtol=1e-5, atol=1e-6), (m.__name__, choice))

    def test_choices_drop_alike(self):
        results = []
        for choice in (ways_of(cairn).MATH, ways_of(cairn).FLASH_ATTENTION):
            with cairn.nn.attention.sdpa_kernel(choice):
                results.append(self.attend(cairn, dropout_p=0.5))
        for a, b in zip(*results):
            self.assertTrue(cairn.allclose(a, b, rtol=1e-5, atol=1e-6))

    def test_impossible_ones_raise(self):
        for m in LIBRARIES:
            ways = m.nn.attention.SDPBackend
            self.fails(m, ways.CUDNN_ATTENTION)
            self.fails(m, [ways.EFFICIENT_ATTENTION, ways.CUDNN_ATTENTION])
            self.fails(m, [])
        self.assertIn("No available kernel", self.fails(cairn, ways_of(cairn).CUDNN_ATTENTION))
        with self.assertRaises(AssertionError):
            with cairn.nn.attention.sdpa_kernel("math"):
                pass

    def test_it_ends(self):
        ways = ways_of(cairn)
        with cairn.nn.attention.sdpa_kernel(ways.MATH):
            self.fails(cairn, ways.CUDNN_ATTENTION)
            self.attend(cairn, dropout_p=0.5)
        self.attend(cairn)

    def test_first_of_several(self):
        ways = ways_of(cairn)
        want = self.attend(cairn)
        with cairn.nn.attention.sdpa_kernel([ways.MATH, ways.FLASH_ATTENTION], set_priority=True):
            have = self.attend(cairn)
        self.assertTrue(cairn.allclose(want[0], have[0], rtol=1e-5, atol=1e-6))

    def test_compiled_functions_know_it(self):
        ways = ways_of(cairn)
        fn = cairn.compile(lambda x: cairn.nn.functional.scaled_dot_product_attention(x, x, x))
        x = cairn.ones(1, 2, 6, 4)
        fn(x)
        with cairn.nn.attention.sdpa_kernel(ways.CUDNN_ATTENTION), self.assertRaises(RuntimeError):
            fn(x)

    def test_dropout_drops_the_share(self):
        cairn.manual_seed(5)
        v = cairn.ones(1, 1, 64, 1)
        y = cairn.nn.functional.scaled_dot_product_attention(cairn.zeros(1, 1, 256, 4), cairn.zeros(1, 1, 64, 4), v,
                                                             dropout_p=0.25)
        self.assertAlmostEqual(y.mean().item(), 1, delta=0.02)
        kept = y.squeeze() * 64 * 0.75
        self.assertTrue(cairn.allclose(kept, kept.round(), atol=1e-3))
        leaves = [cairn.randn(1, 2, 3, 4, dtype=cairn.float64, requires_grad=True) for _ in range(3)]
        leaves.append(cairn.randn(3, 3, dtype=cairn.float64, requires_grad=True))

        def dropped(q, k, v, mask):
            cairn.manual_seed(1)
            return cairn.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.4)

        self.assertTrue(cairn.autograd.gradcheck(dropped, leaves))
        gone = cairn.nn.functional.scaled_dot_product_attention(v, v, v, dropout_p=1.0)
        self.assertEqual(gone.abs().sum().item(), 0)


def ways_of(m):
    return m.nn.attention.SDPBackend


if __name__ == "__main__":
    unittest.main()
