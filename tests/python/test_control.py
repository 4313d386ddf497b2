"""cond, while_loop, scan, map and host_call: eager and compiled the same, with gradients; against PyTorch where it is
installed."""
import unittest
import warnings

import cairn
from cairn import compiler, func, nn

try:
    import torch
    from torch._higher_order_ops.map import map as torch_map
    from torch._higher_order_ops.scan import scan as torch_scan
    from torch._higher_order_ops.while_loop import while_loop as torch_while
except ImportError:
    torch = None


def numbers(tree):
    """Nested values as lists of numbers."""
    if isinstance(tree, dict):
        return {key: numbers(value) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return [numbers(value) for value in tree]
    return tree.detach().tolist()


class Control(unittest.TestCase):
    def both(self, fn, *inputs):
        """Results and gradients of a function as it is and compiled, which must be the same to the bit."""
        found = []
        for code in (fn, cairn.compile(fn, fullgraph=True)):
            given = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
            cairn.manual_seed(3)
            made = code(*given)
            leaves = [t for t in cairn._trees.leaves(made) if t.requires_grad]
            if leaves:
                sum((t.sin().sum() for t in leaves)).backward()
            found.append((numbers(made), [None if x.grad is None else x.grad.tolist() for x in given]))
        self.assertEqual(found[0][0], found[1][0])
        for eager, compiled in zip(found[0][1], found[1][1]):
            if eager is None and compiled is not None:  # an operand of the branch that was not taken
                self.assertFalse(cairn.tensor(compiled).abs().max().item())
            else:
                self.assertEqual(eager, compiled)
        return found[0]

    def test_cond(self):
        def fn(x, w):
            return cairn.cond(x.sum() > 0, lambda x: {"y": x.sin() * w, "z": x},
                              lambda x: {"y": x.cos(), "z": x * 2}, (x,))
        w = cairn.tensor([1.0, 2.0])
        self.both(fn, cairn.tensor([1.0, 2.0]), w)
        self.both(fn, cairn.tensor([-1.0, -2.0]), w)
        self.assertEqual(cairn.cond(True, lambda: 1, lambda: 2), 1)  # no tensor: decided at once

    def test_cond_takes_both_branches_of_one_program(self):
        fn = cairn.compile(lambda x: cairn.cond(x.sum() > 0, cairn.sin, cairn.cos, (x,)), fullgraph=True)
        for x in (cairn.ones(3), -cairn.ones(3), cairn.ones(3)):
            self.assertTrue(cairn.equal(fn(x), cairn.sin(x) if x[0] > 0 else cairn.cos(x)))
        self.assertEqual(compiler.stats(fn)["executables"], 1)

    def test_scan(self):
        def fn(h, xs, w):
            def step(carry, x):
                carry = cairn.tanh(x @ w + carry)
                return carry, {"h": carry, "square": carry * carry}
            return func.scan(step, h, xs)
        cairn.manual_seed(0)
        self.both(fn, cairn.randn(4), cairn.randn(6, 3), cairn.randn(3, 4))
        last, ys = fn(cairn.zeros(4), cairn.randn(0, 3), cairn.randn(3, 4))
        self.assertEqual((list(last.shape), list(ys["h"].shape)), ([4], [0, 4]))
        count, none = func.scan(lambda n, _: (n + 1, n), cairn.tensor(0), None, length=3)
        self.assertEqual((count.item(), none.tolist()), (3, [0, 1, 2]))

    def test_map(self):
        w = cairn.randn(3, 4)
        self.both(lambda xs, w: func.map(lambda x: (cairn.tanh(x[0] @ w), x[1].sum()), (xs, xs * 2)),
                  cairn.randn(5, 3), w)
        self.assertEqual(func.map(lambda x, k: x + k, cairn.arange(3), 2).tolist(), [2, 3, 4])

    def test_while_loop(self):
        def fn(x):
            return func.while_loop(lambda i, x: (i < 5) & (x.max() < 30), lambda i, x: (i + 1, x * 1.5),
                                   (cairn.tensor(0), x), max_steps=8)
        self.both(fn, cairn.tensor([1.0, 2.0]))
        self.both(fn, cairn.tensor([20.0, 2.0]))
        self.assertEqual(func.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,))[0].item(), 3)
        free = cairn.compile(lambda x: func.while_loop(lambda x: x.max() < 30, lambda x: (x * 1.5,), (x,))[0],
                             fullgraph=True)
        self.assertEqual(free(cairn.tensor([1.0])).item(), 1.5 ** 9)
        with self.assertRaisesRegex(RuntimeError, "max_steps"):
            free(cairn.tensor([1.0], requires_grad=True))

    def test_floats_are_inputs_of_programs(self):
        def fn(x, rate):
            def step(h, x):
                return cairn.cond(x.sum() > 0, lambda h: h * rate, lambda h: h + 1, (h,)), h + rate
            return func.scan(step, cairn.zeros(2), x)
        fast, x = cairn.compile(fn, fullgraph=True), cairn.tensor([[1.0, 2.0], [-3.0, 1.0], [1.0, 1.0]])
        for rate in (0.5, 0.25, 3.0):
            self.assertEqual(numbers(fast(x, rate)), numbers(fn(x, rate)))

    def test_nested(self):
        def fn(h, xs, w):
            def step(h, x):
                h = cairn.cond(x.sum() > 0, lambda h: cairn.tanh(h @ w), lambda h: h * 0.5, (h,))
                return h, h
            return func.scan(step, h, xs, reverse=True)
        cairn.manual_seed(1)
        self.both(fn, cairn.randn(3), cairn.randn(5, 2), cairn.randn(3, 3))

    def test_random_numbers(self):
        drop = nn.Dropout(0.5)
        _, ys = self.both(lambda x: func.scan(lambda h, x: (h + 1, drop(x)), cairn.zeros(1), x),
                          cairn.ones(4, 16))[0]
        self.assertNotEqual(ys[0], ys[1])

    def test_a_recurrent_network_trains_alike(self):
        def train(compiled):
            cairn.manual_seed(5)
            cell, head = nn.RNNCell(4, 8), nn.Linear(8, 2)
            optimiser = cairn.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)

            def step(x, y):
                optimiser.zero_grad()
                last, _ = func.scan(lambda h, x: (cell(x, h), h), cairn.zeros(3, 8), x)
                loss = nn.functional.cross_entropy(head(last), y)
                loss.backward()
                optimiser.step()
                return loss
            fn = cairn.compile(step, fullgraph=True) if compiled else step
            losses = [fn(cairn.randn(6, 3, 4), cairn.tensor([0, 1, 0])).item() for _ in range(20)]
            return losses, [p.tolist() for p in cell.parameters()]
        eager, compiled = train(False), train(True)
        self.assertEqual(eager, compiled)
        self.assertLess(eager[0][-1], eager[0][0] + 1)

    def test_mistakes(self):
        x = cairn.ones(3)
        with self.assertRaisesRegex(RuntimeError, "structure"):
            cairn.compile(lambda x: cairn.cond(x.sum() > 0, lambda x: (x,), lambda x: [x], (x,)), fullgraph=True)(x)
        with self.assertRaisesRegex(RuntimeError, "carried value 0"):
            func.scan(lambda h, x: (h.double(), x), cairn.zeros(3), cairn.ones(2, 3))
        with self.assertRaisesRegex(RuntimeError, "expected tensors"):
            cairn.cond(x.sum() > 0, lambda x: x, lambda x: x, (1.0,))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            func.map(lambda x: x + 1 / 0, x)
        with self.assertRaisesRegex(RuntimeError, "return the new value"):
            cairn.compile(lambda x: cairn.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x, (x,)), fullgraph=True)(x)

    def test_host_call(self):
        seen = []

        def look(x):
            seen.append(x.tolist())
            return x * 10

        @cairn.compile(fullgraph=True)
        def fn(x):
            y = compiler.host_call(look, x, x + 1)
            compiler.host_call(look, x, x)  # nobody reads it
            return y + 1
        for _ in range(2):
            self.assertEqual(fn(cairn.ones(2)).tolist(), [21, 21])
        self.assertEqual(seen, [[2, 2], [1, 1]] * 2)

        def fails(x):
            raise KeyError("no")
        with self.assertRaises(KeyError):
            cairn.compile(lambda x: compiler.host_call(fails, x, x), fullgraph=True)(cairn.ones(2))
        with self.assertRaisesRegex(RuntimeError, "type and shape"):
            compiler.host_call(lambda x: x.double(), cairn.ones(2), cairn.ones(2))


@unittest.skipUnless(torch, "PyTorch is not installed")
class AgainstTorch(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def same(self, ours, theirs):
        self.assertEqual(numbers(ours), numbers(theirs))

    def test_cond(self):
        def fn(lib):
            return [lib.cond(x.sum() > 4, lambda x: x * 2, lambda x: x - 1, (x,))
                    for x in (lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]))]
        self.same(fn(cairn), fn(torch))

    def test_scan(self):
        def step(carry, x):
            return carry + x, carry * 2
        for dim, reverse in ((0, False), (1, False), (0, True), (1, True)):
            data = [[[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]], [[13.0, 17.0], [19.0, 23.0], [29.0, 31.0]]]
            init = [[0.5] * 2] * (2 if dim else 3)
            self.same(func.scan(step, cairn.tensor(init), cairn.tensor(data), dim=dim, reverse=reverse),
                      torch_scan(step, torch.tensor(init), torch.tensor(data), dim=dim, reverse=reverse))

    def test_map(self):
        self.same(func.map(lambda x, y: x * y, cairn.tensor([[1.0, 2.0], [3.0, 4.0]]), cairn.tensor(3.0)),
                  torch_map(lambda x, y: x * y, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor(3.0)))

    def test_while_loop(self):
        def fn(lib, loop):
            return loop(lambda i, x: i.sum() < 4, lambda i, x: (i + 1, x * 2), (lib.zeros(1), lib.tensor([1.0, 3.0])))
        self.same(fn(cairn, func.while_loop), fn(torch, torch_while))


if __name__ == "__main__":
    unittest.main()
