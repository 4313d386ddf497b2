"""no_grad, enable_grad, set_grad_enabled and inference_mode: contexts, decorators, generators, threads."""
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


if __name__ == "__main__":
    unittest.main()
