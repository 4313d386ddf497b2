"""cond, while_loop, scan, map and host_call: eager and compiled the same, with gradients; against PyTorch where it is
installed."""
import os
import tempfile
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
        with self.assertRaisesRegex(RuntimeError, "clone it first"):
            cairn.compile(lambda x: func.scan(lambda h, x: (h.add_(x), x), cairn.zeros(3), x), fullgraph=True)(
                cairn.ones(2, 3))

    def test_writing_to_operands(self):
        fast = cairn.compile(lambda x: cairn.cond(x.sum() > 0, lambda x: x.add_(1) * 2, lambda x: x, (x,)),
                             fullgraph=True)
        for value, left, made in ((1.0, 2, 4), (-1.0, -1, -1)):
            x = cairn.full((2,), value)
            self.assertEqual(fast(x).tolist(), [made] * 2)
            self.assertEqual(x.tolist(), [left] * 2)

    def test_running_means_in_a_scan(self):
        def train(compiled):
            cairn.manual_seed(5)
            net, seen = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()), cairn.zeros(2)
            optimiser = cairn.optim.SGD(net.parameters(), lr=0.1)

            def half(x):
                seen[1] += 1
                return net(x) * 0.5

            def step(xs):
                def one(h, x):
                    y = cairn.cond(x.sum() > 0, net, half, (x,))
                    return h + y.square().mean(), y
                optimiser.zero_grad()
                loss, _ = func.scan(one, cairn.tensor(0.0), xs)
                loss.backward()
                optimiser.step()
                return loss
            fn = cairn.compile(step, fullgraph=True) if compiled else step
            losses = [fn(cairn.randn(4, 6, 3)).item() for _ in range(5)]
            return losses, seen.tolist(), [t.tolist() for t in (*net.parameters(), *net.buffers())]
        eager, compiled = train(False), train(True)
        self.assertEqual(eager, compiled)
        self.assertGreater(eager[1][1], 0)

    def test_loaded_graphs_train(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.head = nn.RNNCell(4, 8), nn.Linear(8, 2)

            def forward(self, xs):
                def step(h, x):
                    return cairn.cond(x.abs().max() > 1.5, lambda h: h * 0.5, lambda h: self.cell(x, h), (h,)), h
                return self.head(func.scan(step, cairn.zeros(3, 8), xs)[0])

        def train(net):
            optimiser = cairn.optim.SGD(net.parameters(), lr=0.1)
            cairn.manual_seed(8)
            losses = []
            for _ in range(10):
                optimiser.zero_grad()
                loss = net(cairn.randn(6, 3, 4)).square().mean()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
            return losses
        cairn.manual_seed(2)
        net = Net()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.safetensors")
            cairn.jit.save(cairn.jit.trace(net, cairn.randn(6, 3, 4)), path)
            loaded = cairn.jit.load(path)
        many = cairn.randn(2, 6, 3, 4)
        self.assertTrue(cairn.equal(func.vmap(loaded)(many), cairn.stack([net(x) for x in many])))
        self.assertEqual(train(net), train(loaded))
        own = dict(net.named_parameters())
        self.assertEqual({name: p.tolist() for name, p in loaded.named_parameters()},
                         {name: own[name].tolist() for name, _ in loaded.named_parameters()})

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

    def near(self, ours, theirs):
        for a, b in zip(ours, theirs):
            self.assertTrue(torch.allclose(torch.tensor(a.detach().tolist()), b.detach().float(), 1e-5, 1e-6))

    def test_gradients_of_gradients(self):
        """A gradient penalty through a scan with a branch in it, compiled; a plain loop in PyTorch."""
        def body(lib, cond):
            return lambda h, x, w: cond(x.sum() > 0, lambda h: lib.tanh(h @ w + x), lambda h: h * 0.5, (h,))

        def penalty(lib, loop, h, xs, w):
            loss = loop(h, xs, w).square().sum()
            grads = lib.autograd.grad(loss, (h, xs, w), create_graph=True)
            return lib.autograd.grad(sum((g ** 3).sum() for g in grads), (h, xs, w))

        def ours(h, xs, w):
            step = body(cairn, cairn.cond)
            return penalty(cairn, lambda h, xs, w: func.scan(lambda h, x: (step(h, x, w), h), h, xs)[0], h, xs, w)

        def theirs(h, xs, w):
            def loop(h, xs, w):
                for x in xs:
                    h = body(torch, lambda p, yes, no, args: (yes if p else no)(*args))(h, x, w)
                return h
            return penalty(torch, loop, h, xs, w)
        torch.manual_seed(0)
        given = [torch.randn(3), torch.randn(5, 3), torch.randn(3, 3)]
        want = theirs(*[t.clone().requires_grad_() for t in given])
        for code in (ours, cairn.compile(ours, fullgraph=True)):
            self.near(code(*[cairn.tensor(t.tolist(), requires_grad=True) for t in given]), want)

    def test_writing_outside(self):
        """Momenta and weights of a small training loop, written in place in a scan; a plain loop in PyTorch."""
        def update(lib, w, m, x, y):
            loss = ((x * w).sum() - y).square()
            grad, = lib.autograd.grad(loss, w)
            with lib.no_grad():
                m.mul_(0.9).add_(grad)
                w.sub_(m * 0.05)
            return loss.detach()
        torch.manual_seed(0)
        xs, ys, w0 = torch.randn(6, 3), torch.randn(6), torch.randn(3)
        w, m = w0.clone().requires_grad_(), torch.zeros(3)
        losses = torch.stack([update(torch, w, m, x, y) for x, y in zip(xs, ys)])
        ours, moment = cairn.tensor(w0.tolist(), requires_grad=True), cairn.zeros(3)

        @cairn.compile(fullgraph=True)
        def train(xs, ys):
            def step(total, row):
                loss = update(cairn, ours, moment, *row)
                return total + loss, loss
            return func.scan(step, cairn.tensor(0.0), (xs, ys))[1]
        made = train(cairn.tensor(xs.tolist()), cairn.tensor(ys.tolist()))
        self.near((made, ours, moment), (losses, w, m))

    def test_while_loop(self):
        def fn(lib, loop):
            return loop(lambda i, x: i.sum() < 4, lambda i, x: (i + 1, x * 2), (lib.zeros(1), lib.tensor([1.0, 3.0])))
        self.same(fn(cairn, func.while_loop), fn(torch, torch_while))


if __name__ == "__main__":
    unittest.main()
