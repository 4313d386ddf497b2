"""Seeds, states and generators, in one thread and in several."""
import threading
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = [cairn] + ([torch] if torch else [])


def in_thread(work):
    result = []
    t = threading.Thread(target=lambda: result.append(work()))
    t.start()
    t.join()
    return result[0]


class Seeds(unittest.TestCase):
    def test_repeat(self):
        for m in LIBRARIES:
            self.assertIs(m.manual_seed(7), m.default_generator)
            a = m.randn(5).tolist()
            b = m.randn(5).tolist()
            m.manual_seed(7)
            self.assertEqual(a, m.randn(5).tolist())
            self.assertNotEqual(a, b)
            self.assertEqual(m.initial_seed(), 7)

    def test_values(self):
        for m in LIBRARIES:
            m.manual_seed(-1)
            self.assertEqual(m.initial_seed(), 2 ** 64 - 1)
            m.manual_seed(2 ** 64 - 1)
            m.manual_seed(3.0)
            self.assertEqual(m.initial_seed(), 3)
            with self.assertRaises((RuntimeError, ValueError)):
                m.manual_seed(2 ** 64)
            drawn = m.seed()
            self.assertEqual(m.initial_seed(), drawn)

    def test_states(self):
        for m in LIBRARIES:
            m.manual_seed(1)
            m.rand(3)
            state = m.get_rng_state()
            self.assertEqual(state.dtype, m.uint8)
            a = m.rand(4).tolist()
            m.set_rng_state(state)
            self.assertEqual(a, m.rand(4).tolist())
            with m.random.fork_rng():
                m.manual_seed(99)
                m.rand(10)
            b = m.rand(4).tolist()
            m.set_rng_state(state)
            m.rand(4)
            self.assertEqual(b, m.rand(4).tolist())
            with self.assertRaises((TypeError, RuntimeError)):
                m.set_rng_state(m.zeros(3))
            with self.assertRaises((TypeError, RuntimeError)):
                m.set_rng_state([1, 2])


class Generators(unittest.TestCase):
    def test_own_numbers(self):
        for m in LIBRARIES:
            m.manual_seed(5)
            g = m.Generator()
            self.assertIs(g.manual_seed(11), g)
            self.assertEqual(g.initial_seed(), 11)
            self.assertEqual(str(g.device), "cpu")
            a = m.rand(4, generator=g).tolist()
            outside = m.rand(4).tolist()
            m.manual_seed(5)
            self.assertEqual(outside, m.rand(4).tolist())  # g left the default numbers alone
            g.manual_seed(11)
            self.assertEqual(a, m.rand(4, generator=g).tolist())
            state = g.get_state()
            b = m.randn(3, generator=g).tolist()
            g.set_state(state)
            self.assertEqual(b, m.randn(3, generator=g).tolist())
            copy = g.clone_state()
            self.assertEqual(m.rand(2, generator=g).tolist(), m.rand(2, generator=copy).tolist())

    def test_ops(self):
        for m in LIBRARIES:
            def run():
                g = m.Generator(device="cpu").manual_seed(2)
                return [m.randint(0, 100, (3,), generator=g).tolist(), m.randperm(5, generator=g).tolist(),
                        m.bernoulli(m.full((4,), 0.5), generator=g).tolist(), m.randn(3, generator=g).tolist()]

            self.assertEqual(run(), run(), m.__name__)

    def test_wrong_generators(self):
        for m in LIBRARIES:
            with self.assertRaises(TypeError):
                m.rand(2, generator=5)
            self.assertEqual(len(m.rand(2, generator=None)), 2)
        cairn.manual_seed(4)
        a = cairn.rand(2, generator=cairn.default_generator).tolist()
        cairn.manual_seed(4)
        self.assertEqual(a, cairn.rand(2).tolist())

    def test_one_generator_in_several_threads(self):
        g = cairn.Generator().manual_seed(1)
        drawn, threads = [], []
        for _ in range(4):
            threads.append(threading.Thread(
                target=lambda: drawn.extend(tuple(cairn.rand(40000, generator=g)[:4].tolist()) for _ in range(20))))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(drawn), 80)
        self.assertEqual(len(set(drawn)), 80)  # no two drew the same


class Threads(unittest.TestCase):
    def test_streams(self):
        def draw():
            return cairn.rand(4).tolist()

        cairn.manual_seed(21)
        first, second = in_thread(draw), in_thread(draw)
        here = draw()
        self.assertNotEqual(first, second)
        self.assertNotEqual(first, here)
        cairn.manual_seed(21)
        self.assertEqual([first, second, here], [in_thread(draw), in_thread(draw), draw()])

    def test_a_seed_from_a_thread_reaches_later_ones(self):
        def draw():
            return cairn.rand(4).tolist()

        cairn.manual_seed(1)
        mine = draw()
        in_thread(lambda: cairn.manual_seed(77))
        a = in_thread(draw)
        in_thread(lambda: cairn.manual_seed(77))
        self.assertEqual(a, in_thread(draw))
        rest = draw()  # but not this one, which has drawn
        cairn.manual_seed(1)
        self.assertEqual([mine, rest], [draw(), draw()])


if __name__ == "__main__":
    unittest.main()
