"""What backward keeps, and what a program may write to before it: .data, results and inputs of ops, the tensors of
custom functions. Programs run in torch, too, where it is installed."""
import gc
import unittest
import weakref

import cairn
from cases import Case, plain


def refuses(act):
    """Does it raise a RuntimeError?"""
    try:
        act()
    except RuntimeError:
        return True
    return False


class Data(Case):
    def test_writes_are_not_seen(self):
        def program(m):
            x, w = m.ones(3, requires_grad=True), m.full((3,), 2.0, requires_grad=True)
            y = x * w
            w.data.mul_(2)
            y.sum().backward()
            return plain(x.grad), plain(w), w._version

        self.same(program, [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0], 0])

    def test_has_a_version_of_its_own(self):
        def program(m):
            x = m.zeros(2, 2, requires_grad=True)
            a, b = x.data, x.data
            row = a[0]
            row.add_(1)
            return [t._version for t in (x, a, b, row)], plain(x), a.data_ptr() == x.data_ptr()

        self.same(program, [[0, 1, 0, 1], [[1.0, 1.0], [0.0, 0.0]], True])

    def test_it_counts_for_what_reads_it(self):
        def program(m):
            x, u = m.ones(3), m.ones(3, requires_grad=True)
            d = x.data
            of_data, of_tensor = d * u, x * u
            d.mul_(2)
            return refuses(of_data.sum().backward), refuses(of_tensor.sum().backward)

        self.same(program, [True, False])

    def test_detach_shares_the_version(self):
        def program(m):
            x = m.ones(3, requires_grad=True)
            v = x * 1
            y = v * x
            v.detach().mul_(2)
            return v._version, refuses(y.sum().backward)

        self.same(program, [1, True])

    def test_views_stay_fresh(self):
        def program(m):
            x = m.ones(4, requires_grad=True)
            base = x * 2
            view = base[:2]
            base.data.add_(1)
            (view * 3).sum().backward()
            return plain(x.grad), plain(view)

        self.same(program, [[6.0, 6.0, 0.0, 0.0], [3.0, 3.0]])

    def test_what_is_kept_of_values_is_made_anew(self):
        weight = cairn.ones(4, 4, requires_grad=True)
        with cairn.autocast("cpu", cairn.bfloat16):
            first = cairn.ones(1, 4) @ weight
            weight.data.mul_(2)
            second = cairn.ones(1, 4) @ weight
        self.assertEqual([first[0, 0].item(), second[0, 0].item()], [4.0, 8.0])

    def test_kept_weights_are_made_anew(self):
        """What kernels make of weights, eager and in compiled functions, where these are written through .data."""
        net = cairn.nn.Sequential(cairn.nn.Linear(96, 128), cairn.nn.Linear(128, 64)).eval()
        x = cairn.randn(32, 96)
        compiled = cairn.compile(net)
        with cairn.no_grad():
            for _ in range(4):
                before = [net(x), compiled(x)]
                for p in net.parameters():
                    p.data.mul_(2)
                for old, now in zip(before, [net(x), compiled(x)]):
                    want = x @ net[0].weight.t() + net[0].bias
                    want = want @ net[1].weight.t() + net[1].bias
                    # products of weights that grow up to 16 times
                    self.assertTrue(cairn.allclose(now, want, rtol=1e-4, atol=1e-3))
                    self.assertFalse(cairn.allclose(now, old, rtol=1e-2, atol=1e-3))


class Writes(Case):
    """In between an op and its backward."""

    def after(self, make, write):
        """The gradient of an op with a write behind it; NULL as a list: it is refused."""
        def program(m):
            x = (m.arange(12.0).reshape(3, 4) + 1) / 8
            x.requires_grad_()
            inner = x * 1
            made = make(m, inner)
            write(inner, made)
            try:
                made.sum().backward()
            except RuntimeError:
                return None
            return plain(x.grad)

        self.same(program)

    def test_results(self):
        functional = "relu sigmoid tanh normalize softmax".split()
        for make in (lambda m, x: 1 / x, lambda m, x: x / 3, lambda m, x: 2 / (x + x), lambda m, x: x.exp(),
                     lambda m, x: (x / 4).erfinv(), lambda m, x: x.sqrt(), lambda m, x: x.sin(), lambda m, x: x.log()):
            self.after(make, lambda x, y: y.mul_(2))
        for name in functional:
            options = {"dim": 1} if name in ("softmax", "normalize") else {}
            self.after(lambda m, x, n=name, o=options: getattr(m.nn.functional, n)(x, **o) * 1 if n == "tanh" else
                       getattr(m.nn.functional, n)(x, **o), lambda x, y: y.mul_(2))

    def test_inputs(self):
        for make in (lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 3])),
                     lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 1, 3]), label_smoothing=0.1),
                     lambda m, x: m.nn.functional.tanhshrink(x),
                     lambda m, x: m.nn.functional.l1_loss(x, x.detach() * 2),
                     lambda m, x: m.nn.functional.kl_div(x, x.detach() - 1, reduction="none", log_target=True),
                     lambda m, x: m.special.ndtr(x), lambda m, x: x + 3, lambda m, x: x * 3, lambda m, x: x.cos(),
                     lambda m, x: m.ldexp(x, m.ones(4, requires_grad=True)), lambda m, x: m.linalg.svdvals(x[:2, :2]),
                     lambda m, x: m.nn.functional.adaptive_avg_pool2d(x[None], 1), lambda m, x: x ** 2):
            self.after(make, lambda x, y: x.mul_(2))

    def test_values_of_index_put(self):
        def program(m):
            x, values = m.zeros(4, requires_grad=True), m.ones(2, requires_grad=True)
            inner = values * 1
            y = m.index_put(x * 1, (m.tensor([1, 2]),), inner)
            inner.mul_(5)
            (y * m.arange(4.0)).sum().backward()
            return plain(x.grad), plain(values.grad)

        self.same(program, [[0.0, 0.0, 0.0, 3.0], [1.0, 2.0]])

    def loss(self, scores, write):
        inner = scores * 1
        loss = cairn.nn.functional.cross_entropy(inner[1:], cairn.tensor([0, 1, 3]))
        loss = loss + cairn.nn.functional.l1_loss(inner[0], cairn.zeros(4))
        if write:
            inner.mul_(3)
            inner[0].zero_()
        return cairn.autograd.grad(loss, scores)[0]

    def test_parts_of_one_memory(self):
        scores = cairn.randn(4, 4, requires_grad=True)
        self.assertTrue(cairn.equal(self.loss(scores, False), self.loss(scores, True)))

    def test_compiled(self):
        scores = cairn.randn(4, 4, requires_grad=True)
        compiled = cairn.compile(lambda: self.loss(scores, True))
        for _ in range(3):
            self.assertTrue(cairn.allclose(self.loss(scores, False), compiled()))

    def test_a_graph_writes(self):
        """A compiled step writes to a tensor of which a pending backward has kept something."""
        scores, state = cairn.randn(3, 4, requires_grad=True), cairn.zeros(3, 4)
        step = cairn.compile(lambda: state.mul_(2.0).add_(1.0))

        def gradient(write):
            state.copy_(scores.detach())
            state.requires_grad_(False)
            loss = cairn.nn.functional.l1_loss(scores * 1, state, reduction="sum")
            if write:
                step()
            return cairn.autograd.grad(loss, scores)[0]

        wanted = gradient(False)
        for _ in range(3):
            self.assertTrue(cairn.equal(wanted, gradient(True)))

    def test_nothing_is_copied_without_a_write(self):
        x = cairn.randn(64, 64, requires_grad=True)
        inner = x * 1
        loss = cairn.nn.functional.cross_entropy(inner, cairn.zeros(64, dtype=cairn.int64))
        where = inner.data_ptr()
        loss.backward()
        self.assertEqual(inner.data_ptr(), where)
        inner.mul_(2)  # after it, nobody wants the old values


class Zeros(Case):
    def test_of_no_gradient_comes_none(self):
        """Where no gradient arrives none leaves, though the logarithm is of a negative number."""
        def program(m):
            found = []
            for op, other in ((m.xlogy, [-1.0, 2.0, 0.0]), (m.special.xlog1py, [-3.0, 1.0, -1.0])):
                x, y = m.tensor([2.0, 3.0, 0.0], requires_grad=True), m.tensor(other, requires_grad=True)
                op(x, y).backward(m.tensor([0.0, 1.0, 1.0]))
                found.append([plain(x.grad), plain(y.grad)[:2]])
            return found

        self.same(program)


class Functions(Case):
    def test_the_very_tensors(self):
        def program(m):
            seen = []

            class Cube(m.autograd.Function):
                @staticmethod
                def forward(ctx, x, w):
                    ctx.save_for_backward(x, None, w)
                    return x ** 3 * w

                @staticmethod
                def backward(ctx, g):
                    a, none, b = ctx.saved_tensors
                    seen.append([a is x, none is None, b is w, a.requires_grad, a.grad_fn is not None])
                    return 3 * a ** 2 * b * g, a ** 3 * g

            leaf = m.tensor(2.0, requires_grad=True)
            x, w = leaf * 1, m.nn.Parameter(m.tensor(5.0))
            y = Cube.apply(x, w)
            first, = m.autograd.grad(y, leaf, create_graph=True)
            second, = m.autograd.grad(first, leaf, retain_graph=True)
            y.backward()
            return first.item(), second.item(), leaf.grad.item(), w.grad.item(), seen

        self.same(program, [60.0, 60.0, 60.0, 8.0, [[True, True, True, True, True]] * 2])

    def test_results_have_their_history(self):
        def program(m):
            seen = []

            class Exp(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.save_for_backward(y)
                    return y

                @staticmethod
                def backward(ctx, g):
                    y, = ctx.saved_tensors
                    seen.append([y.requires_grad, y.grad_fn is not None])
                    return g * y

            x = m.tensor(1.0, requires_grad=True)
            Exp.apply(x).backward()
            first, = m.autograd.grad(Exp.apply(x), x, create_graph=True)
            second, = m.autograd.grad(first, x)
            return first.item(), second.item(), seen[:2]

        self.same(program)

    def test_graph_inside_of_forward(self):
        """A forward that records, and a backward that goes through what it has saved."""
        def program(m):
            class Inner(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    with m.enable_grad():
                        a = x.detach().requires_grad_()
                        y = (a * a).sum()
                    ctx.save_for_backward(a, y)
                    return y.detach()

                @staticmethod
                def backward(ctx, g):
                    a, y = ctx.saved_tensors
                    return m.autograd.grad(y, a, g)

            x = m.tensor([1.0, 2.0], requires_grad=True)
            Inner.apply(x).backward()
            return plain(x.grad)

        self.same(program, [2.0, 4.0])

    def test_changed_since(self):
        def program(m):
            class Square(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                def backward(ctx, g):
                    x, = ctx.saved_tensors
                    return 2 * x * g

            x = m.tensor([3.0], requires_grad=True)
            inner = x * 1
            y = Square.apply(inner)
            inner.mul_(2)
            return refuses(y.backward)

        self.same(program, True)

    def test_nothing_stays(self):
        class Exp(cairn.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(x, y)
                return y

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[1]

        x = cairn.tensor(1.0, requires_grad=True) * 1
        y = Exp.apply(x)
        seen = [weakref.ref(x), weakref.ref(y)]
        del x, y
        gc.collect()
        self.assertEqual([r() for r in seen], [None, None])


if __name__ == "__main__":
    unittest.main()
