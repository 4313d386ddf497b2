"""cairn.limits: time, threads and cancellation of what a block computes, eager and compiled."""
import threading
import unittest

import cairn
from cairn import func, nn


class Limits(unittest.TestCase):
    def test_timeout(self):
        x = cairn.ones(3)
        with cairn.limits(timeout=1e-9):
            with self.assertRaisesRegex(TimeoutError, "exp: not begun, the time limit of 1e-09 s"):
                x.exp()
        self.assertEqual(x.exp().shape, (3,))
        with cairn.limits(timeout=1e6):
            self.assertEqual(x.exp().shape, (3,))

    def test_threads(self):
        before, x = cairn.get_num_threads(), cairn.randn(200, 200)
        cairn.set_num_threads(4)
        try:
            want = x @ x
            with cairn.limits(threads=2):
                self.assertEqual(cairn.get_num_threads(), 2)
                with cairn.limits(threads=3):
                    self.assertEqual(cairn.get_num_threads(), 2)
                    self.assertTrue(cairn.equal(x @ x, want))
                with cairn.limits(threads=1):
                    self.assertEqual(cairn.get_num_threads(), 1)
                    self.assertTrue(cairn.equal(x @ x, want))
            self.assertEqual(cairn.get_num_threads(), 4)
        finally:
            cairn.set_num_threads(before)

    def test_cancelled_loop(self):
        """An endless loop of a compiled function ends when another thread cancels it."""
        begun = threading.Event()

        def tell(count):
            begun.set()
            return count

        @cairn.compile(fullgraph=True)
        def forever(count):
            (count,) = func.while_loop(lambda n: n >= 0,
                                       lambda n: (cairn.compiler.host_call(tell, n, n) + 1,), (count,))
            return count

        within = cairn.limits()
        helper = threading.Thread(target=lambda: (begun.wait(), within.cancel()))
        helper.start()
        with self.assertRaises(cairn.Cancelled), within:
            forever(cairn.tensor(0.0))
        helper.join()
        self.assertTrue(issubclass(cairn.Cancelled, RuntimeError))
        with cairn.limits(), self.assertRaises(RuntimeError):
            within.__exit__(None, None, None)  # it does not hold any more

    def test_steps_are_whole(self):
        """A compiled training step that is stopped has changed nothing."""
        net = nn.Linear(4, 2)
        optimiser = cairn.optim.AdamW(net.parameters(), lr=0.1)

        @cairn.compile(fullgraph=True)
        def step(x):
            optimiser.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            optimiser.step()
            return loss

        x = cairn.randn(3, 4)
        for _ in range(3):
            step(x)
        before = [p.detach().clone() for p in net.parameters()]
        stopped = cairn.limits()
        stopped.cancel()
        with self.assertRaises(cairn.Cancelled), stopped:
            step(x)
        for p, q in zip(net.parameters(), before):
            self.assertTrue(cairn.equal(p, q))
        self.assertEqual(step(x).shape, ())

    def test_stopped_capture(self):
        """A function whose capture is stopped is captured at its next call."""
        double = cairn.compile(lambda x: x * 2 + 1)
        x = cairn.ones(3)
        stopped = cairn.limits()
        stopped.cancel()
        with self.assertRaises(cairn.Cancelled), stopped:
            double(x)
        self.assertEqual(double(x).tolist(), [3.0, 3.0, 3.0])
        self.assertEqual(cairn.compiler.stats(double)["eager_calls"], 0)

    def test_callers(self):
        """Threads of Python on one compiled function, within limits of their own."""
        net = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 10))
        forward, x = cairn.compile(net), cairn.randn(16, 30)
        with cairn.no_grad():
            want, wrong = net(x), []

            def call():
                with cairn.no_grad(), cairn.limits(timeout=1e6, threads=1):
                    for _ in range(20):
                        if not cairn.equal(forward(x), want):
                            wrong.append(1)

            callers = [threading.Thread(target=call) for _ in range(4)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
        self.assertEqual(wrong, [])

    def test_wrong(self):
        for wrong in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"threads": 0}, {"threads": -2}):
            with self.assertRaises(ValueError):
                cairn.limits(**wrong)
        within = cairn.limits(threads=1)
        with within, self.assertRaisesRegex(RuntimeError, "hold already"):
            within.__enter__()

    def test_weights_that_are_written_by_address(self):
        """What numpy or a pointer may write is seen by compiled functions, whatever they keep of weights."""
        net = nn.Linear(30, 40)
        forward, x = cairn.compile(net), cairn.randn(16, 30)
        with cairn.no_grad():
            for _ in range(4):
                forward(x)
            shown = memoryview(net.weight.detach())
            for value in (1.0, 2.0, 3.0):
                shown[0, 0] = value
                self.assertTrue(cairn.equal(forward(x), net(x)))
                self.assertEqual(net.weight[0, 0].item(), value)


if __name__ == "__main__":
    unittest.main()
