"""vmap as a rule for batches: nesting, places, randomness, errors, and what is composed of it: gradients of each
example, Jacobians and Hessians, ensembles, the neural tangent kernel, functions with rules of their own. The loop over
the examples is the judge."""
import unittest

import cairn
import cairn.utils.checkpoint
from cairn import func, nn


def loop(f, *args, out=0):
    """f for each example along dimension 0 of args, stacked."""
    rows = [f(*row) for row in zip(*args)]
    if isinstance(rows[0], (tuple, list)):
        return tuple(cairn.stack(list(column), out) for column in zip(*rows))
    return cairn.stack(rows, out)


class Case(unittest.TestCase):
    def setUp(self):
        cairn.manual_seed(0)

    def close(self, have, want, near=1e-5):     # float32: sums in another order
        if isinstance(want, dict):
            self.assertEqual(list(have), list(want))
            have, want = list(have.values()), list(want.values())
        if isinstance(want, (tuple, list)):
            self.assertEqual(len(have), len(want))
            for h, w in zip(have, want):
                self.close(h, w, near)
            return
        self.assertEqual(tuple(have.shape), tuple(want.shape))
        self.assertEqual(have.dtype, want.dtype)
        self.assertTrue(cairn.allclose(have, want, rtol=near, atol=near), (have - want).abs().max())


class Places(Case):
    def test_in_and_out(self):
        x, y = cairn.randn(3, 4, 5), cairn.randn(5, 4)
        self.close(func.vmap(lambda a, b: a @ b, in_dims=(2, 0), out_dims=1)(x, y),
                   cairn.stack([x[:, :, i] @ y[i] for i in range(5)], 1))
        self.close(func.vmap(lambda a, b: a * b, in_dims=(-1, None))(x, y[0]), (x * y[0, :, None]).movedim(2, 0))

    def test_trees(self):
        x, y = cairn.randn(3, 2), cairn.randn(4, 3)
        f = func.vmap(lambda d, k: {"sum": d["a"] + d["b"][0], "k": (k * d["a"],)},
                      in_dims=({"a": 0, "b": (1,)}, None), out_dims={"sum": 1, "k": 0})
        got = f({"a": x, "b": (y[:2],)}, 3)
        self.close(got["sum"], (x + y[:2].T).T)
        self.close(got["k"][0], 3 * x)

    def test_none_out(self):
        x = cairn.randn(3)
        y, same = func.vmap(lambda a: (a + 1, x.sum()), out_dims=(0, None))(x)
        self.close(y, x + 1)
        self.close(same, x.sum())
        with self.assertRaisesRegex(ValueError, "out_dim is None"):
            func.vmap(lambda a: a + 1, out_dims=None)(x)

    def test_nested(self):
        x, y = cairn.randn(3, 5), cairn.randn(4, 5)
        outer = func.vmap(func.vmap(cairn.dot, in_dims=(None, 0)), in_dims=(0, None))
        self.close(outer(x, y), x @ y.T)
        cube = cairn.randn(2, 3, 4)
        thrice = func.vmap(func.vmap(func.vmap(lambda a, b: a * b + cube.sum(), in_dims=(0, None)), in_dims=(0, None)),
                           in_dims=(0, 0))
        self.close(thrice(cube, cairn.arange(2.)), cube * cairn.arange(2.)[:, None, None] + cube.sum())

    def test_chunks(self):
        x = cairn.randn(7, 3)
        for chunk in (1, 2, 3, 7, 100):
            self.close(func.vmap(lambda a: (a.softmax(-1), a.sum()), chunk_size=chunk)(x), (x.softmax(-1), x.sum(1)))
        self.close(func.vmap(cairn.sin, out_dims=1, chunk_size=2)(x), x.sin().T)

    def test_none(self):
        self.assertEqual(tuple(func.vmap(lambda a: a.sum(0) @ a.T)(cairn.randn(0, 2, 3)).shape), (0, 2))


class Meaning(Case):
    def test_in_place(self):
        def f(a):
            made = a.new_zeros(2, 3)
            made[0] = a
            made[1, 1:].add_(a[1:]).mul_(2)
            view = made.T
            view[0, 0] = 7.0
            return made
        x = cairn.randn(4, 3)
        self.close(func.vmap(f)(x), loop(f, x))
        kept = x.clone()
        func.vmap(lambda a: a.mul_(2))(kept)
        self.close(kept, 2 * x)
        with self.assertRaisesRegex(RuntimeError, "in place is not possible"):
            func.vmap(lambda a: cairn.zeros(3).add_(a))(x)

    def test_types(self):
        """A number without dimensions raises the type as in one example, though it has a dimension in the batch."""
        x, number = cairn.ones(3, 2), cairn.ones(3, dtype=cairn.float64)
        self.assertEqual(func.vmap(lambda a, b: a * b)(x, number).dtype, cairn.float32)
        self.assertEqual(func.vmap(lambda a, b: a.to(cairn.int32) + b)(x, cairn.arange(3)).dtype, cairn.int32)
        self.assertEqual(func.vmap(lambda a, b: a.sum() * b)(x, number).dtype, cairn.float64)

    def test_indices(self):
        x, i, j = cairn.randn(5, 3, 4), cairn.randint(0, 3, (5, 2)), cairn.randint(0, 4, (5, 2))
        for f in (lambda a, p, q: a[p], lambda a, p, q: a[p, q], lambda a, p, q: a[:, q], lambda a, p, q: a[..., q],
                  lambda a, p, q: a.index_select(1, q), lambda a, p, q: a.gather(0, p[:, None].expand(2, 4)),
                  lambda a, p, q: a.take(q), lambda a, p, q: a[p[:, None], q], lambda a, p, q: x[0][p, q],
                  lambda a, p, q: x[0][:, q], lambda a, p, q: a[x[0, 0, :3] > -9],
                  lambda a, p, q: nn.functional.embedding(p, a), lambda a, p, q: nn.functional.one_hot(q, 4),
                  lambda a, p, q: a.index_put((p,), a[0] * 2), lambda a, p, q: a.index_add(0, p, a[:2])):
            self.close(func.vmap(f)(x, i, j), loop(f, x, i, j))
        at, to = i[:, 0], j[:, 0]
        for f in (lambda a, p, q: a[p], lambda a, p, q: a[p, q], lambda a, p, q: a[:, q], lambda a, p, q: a[1:, q],
                  lambda a, p, q: x[0, p, q], lambda a, p, q: a[None, ..., q]):
            self.close(func.vmap(f)(x, at, to), loop(f, x, at, to))

        def write(a, p, q):
            a = a.clone()
            a[p, q] = 5.0
            a[p] = a[0] * 2
            a[:, q] += 1
            return a
        self.close(func.vmap(write)(x, at, to), loop(write, x, at, to))
        deep, given = cairn.randn(5, 2, 3, 4, 3), cairn.randn(5, 2, 2, 3)

        def writes(a, p, q, v):
            a = a.clone()
            a[:, p, q] = v                                  # (2, 2, 3): a dim in front of the indices, one behind
            a[:, :, q] += v[0].T[:, :, None]
            a[:, p[:, None], q] = given[0].sum(0)[:, None]  # one for all examples, broadcast
            return a.index_put((p, p), v[0, 0, 0], accumulate=True)
        self.close(func.vmap(writes)(deep, i % 2, j, given), loop(writes, deep, i % 2, j, given))

    def test_complex(self):
        x = cairn.randn(4, 3, dtype=cairn.complex64)
        f = lambda a: (a * a.conj()).real.sum() + (a.exp() / (1 + a)).abs().sum() + cairn.fft.fft(a).imag.sum()
        self.close(func.vmap(f)(x), loop(f, x))

    def test_gradient_outside(self):
        w, x = cairn.randn(5, 3, requires_grad=True), cairn.randn(4, 3)
        func.vmap(lambda a: (w @ a).tanh().sum())(x).sum().backward()
        have, w.grad = w.grad, None
        (x @ w.T).tanh().sum().backward()
        self.close(have, w.grad)

    def test_compiled(self):
        f = lambda a: (a.sin() * a).sum()
        each = cairn.compile(func.vmap(func.grad(f)))
        x = cairn.randn(6, 3)
        self.close(each(x), x.cos() * x + x.sin())
        inside = cairn.compile(f)
        self.close(func.vmap(inside)(x), (x.sin() * x).sum(1))

    def test_control(self):
        x = cairn.randn(5, 3)
        self.close(func.vmap(lambda a: cairn.where(a.sum() > 0, a, -a))(x), loop(lambda a: a if a.sum() > 0 else -a, x))


class Randomness(Case):
    def test_three_ways(self):
        x = cairn.ones(64, 50)
        drop = lambda a: nn.functional.dropout(a, 0.5)
        for f in (drop, lambda a: cairn.rand(3) + a[:3], lambda a: cairn.bernoulli(a * 0.5), cairn.randn_like):
            with self.assertRaisesRegex(RuntimeError, "randomness error mode"):
                func.vmap(f)(x)
            same = func.vmap(f, randomness="same")(x)
            self.close(same, same[:1].expand_as(same))
            other = func.vmap(f, randomness="different")(x)
            self.assertGreater(len({tuple(row) for row in other.tolist()}), 32)
        kept = (func.vmap(drop, randomness="different")(x) > 0).float().mean()
        self.assertLess(abs(float(kept) - 0.5), 0.05)       # of 3200 numbers: more than five deviations
        self.assertEqual(len(set(func.vmap(lambda a: cairn.rand(()), randomness="different")(x).tolist())), 64)

    def test_unknown(self):
        with self.assertRaises(RuntimeError):
            func.vmap(cairn.sin, randomness="some")


class Errors(Case):
    def refuses(self, kind, text, f, *args, **options):
        with self.assertRaisesRegex(kind, text):
            func.vmap(f, **options)(*args)
        self.close(cairn.ones(2) + 1, cairn.full((2,), 2.0))    # no vmap is left behind

    def test_values(self):
        x = cairn.randn(3, 2)
        self.refuses(RuntimeError, r"vmap: It looks like you're.*calling \.item\(\)", lambda a: a.sum().item(), x)
        self.refuses(RuntimeError, "data-dependent control flow", lambda a: a if a.sum() > 0 else -a, x)
        self.refuses(RuntimeError, "dynamic shape", lambda a: a.nonzero(), x)
        self.refuses(RuntimeError, "dynamic shape", lambda a: a[a > 0], x)

    def test_places(self):
        x = cairn.randn(3, 2)
        self.refuses(ValueError, "same size in the mapped dimension", lambda a, b: a, x, cairn.randn(4))
        self.refuses(ValueError, "in_dim", lambda a: a, x, in_dims=2)
        self.refuses(ValueError, "in_dim", lambda a, b: a, x, 3)
        self.refuses(ValueError, "not compatible with the structure", lambda a: a, x, in_dims=(0, 0))
        self.refuses(ValueError, "at least one", lambda a: a, x, in_dims=(None,))
        self.refuses(ValueError, "must only return Tensors", lambda a: 3, x)
        self.refuses(ValueError, "no inputs", lambda: x)
        self.refuses(ValueError, "chunk_size", cairn.sin, x, chunk_size=0)

    def test_escaped(self):
        found = []
        func.vmap(lambda a: found.append(a) or a)(cairn.randn(3))
        with self.assertRaisesRegex(RuntimeError, "outside of the vmap"):
            found[0] + 1

    def test_shown(self):
        found = []
        note = lambda a: found.append((repr(a), tuple(a.shape), a.dtype, a.requires_grad)) or a
        func.vmap(note)(cairn.tensor([1., 2.]))
        self.assertRegex(found[0][0], r"BatchedTensor\(lvl=\d+, bdim=0, value=\ntensor\(\[1., 2.\]\)\n\)")
        self.assertEqual(found[0][1:], ((), cairn.float32, False))

    def test_warned(self):
        """What has no rule says so."""
        with self.assertWarnsRegex(UserWarning, "performance drop"):
            func.vmap(lambda a: cairn.histc(a, 4, -1, 1))(cairn.rand(3, 9))


class Network(nn.Module):
    """Convolutions, norms, attention, dropout: what gradients of each example go through."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1)
        self.norm = nn.GroupNorm(3, 6)
        self.more = nn.Conv2d(6, 8, 3, stride=2, groups=2)
        self.layer = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        x = self.more(x).flatten(2).transpose(1, 2)
        x = self.layer(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(x.mean(1))


class Compositions(Case):
    """None of these runs example by example."""

    def setUp(self):
        super().setUp()
        self.loops = cairn._C._vmap_loops()

    def tearDown(self):
        self.assertEqual(cairn._C._vmap_loops(), self.loops)

    def per_example(self, net, loss, x, y, **options):
        params = {k: p.detach() for k, p in net.named_parameters()}
        have = func.vmap(func.grad(loss), in_dims=(None, 0, 0), **options)(params, x, y)
        rows = [func.grad(loss)(params, a, b) for a, b in zip(x, y)]
        self.close(have, {k: cairn.stack([row[k] for row in rows]) for k in params}, 2e-5)  # four layers deep

    def test_gradients_of_each_example(self):
        net = Network()

        def loss(params, a, b):
            out = func.functional_call(net, params, (a[None],))
            return nn.functional.cross_entropy(out, b[None])
        self.per_example(net, loss, cairn.randn(8, 2, 9, 9), cairn.randint(0, 5, (8,)))

    def test_gradients_of_each_text(self):
        net = nn.Sequential(nn.Embedding(11, 8, padding_idx=3), nn.RMSNorm(8), nn.Linear(8, 8), nn.GELU(),
                            nn.Flatten(0), nn.Linear(40, 3))

        def loss(params, a, b):
            return nn.functional.cross_entropy(func.functional_call(net, params, (a,)), b)
        self.per_example(net, loss, cairn.randint(0, 11, (6, 5)), cairn.randint(0, 3, (6,)))

    def test_dropout_of_each(self):
        net = nn.Sequential(nn.Linear(4, 30), nn.Dropout(0.5), nn.Linear(30, 1))
        params = dict(net.named_parameters())
        loss = lambda p, a: func.functional_call(net, p, (a,)).sum()
        grads = func.vmap(func.grad(loss), in_dims=(None, 0), randomness="different")(params, cairn.ones(20, 4))
        self.assertGreater(len({tuple(row) for row in (grads["2.weight"] == 0).flatten(1).tolist()}), 10)
        grads = func.vmap(func.grad(loss), in_dims=(None, 0), randomness="same")(params, cairn.ones(20, 4))
        self.close(grads["2.weight"], grads["2.weight"][:1].expand_as(grads["2.weight"]))

    def test_ensemble(self):
        nets = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(5)]
        params, buffers = func.stack_module_state(nets)
        x = cairn.randn(7, 3)
        call = lambda p, b, v: func.functional_call(nets[0], (p, b), (v,))
        self.close(func.vmap(call, in_dims=(0, 0, None))(params, buffers, x), cairn.stack([net(x) for net in nets]))
        func.vmap(call, in_dims=(0, 0, None))(params, buffers, x).square().sum().backward()
        nets[2](x).square().sum().backward()
        self.close(params["0.weight"].grad[2], nets[2][0].weight.grad)

    def test_jacobians(self):
        w, b = cairn.randn(4, 3), cairn.randn(4)
        f = lambda v: (w @ v + b).tanh()
        x, many = cairn.randn(3), cairn.randn(6, 3)
        want = cairn.diag(1 - f(x) ** 2) @ w
        for jac in (func.jacrev, func.jacfwd):
            self.close(jac(f)(x), want)
            self.close(func.vmap(jac(f))(many), loop(jac(f), many))
            self.close(jac(f, chunk_size=2)(x), want) if jac is func.jacrev else None
        self.close(func.jacrev(func.vmap(f))(many).diagonal(dim1=0, dim2=2).movedim(-1, 0), loop(func.jacrev(f), many))

    def test_hessians(self):
        f = lambda v: (v.sin() * v.roll(1)).sum() * v.prod()
        x, many = cairn.randn(4), cairn.randn(5, 4)
        want = func.jacrev(func.jacrev(f))(x)
        for outer, inner in ((func.jacfwd, func.jacrev), (func.jacfwd, func.jacfwd), (func.jacrev, func.jacfwd)):
            self.close(outer(inner(f))(x), want)
        self.close(func.hessian(f)(x), want)
        self.close(func.vmap(func.hessian(f))(many), loop(func.hessian(f), many))
        self.close(func.grad(lambda v: func.vmap(f)(v[None]).sum())(x), func.grad(f)(x))
        self.close(func.grad(lambda v: func.hessian(f)(v).diagonal().sum())(x),
                   func.grad(lambda v: func.jacrev(func.grad(f))(v).diagonal().sum())(x))

    def test_products(self):
        f = lambda v: (v.sin() * v.sum(), v.exp())
        x, v = cairn.randn(5, 3), cairn.randn(5, 3)
        self.close(func.vmap(lambda a, t: func.jvp(f, (a,), (t,))[1])(x, v),
                   loop(lambda a, t: func.jvp(f, (a,), (t,))[1], x, v))
        one = x[0]
        _, back = func.vjp(f, one)
        self.close(func.vmap(lambda t: back((t, t))[0])(v), loop(lambda t: back((t, t))[0], v))
        _, forward = func.linearize(f, one)
        self.close(func.vmap(forward)(v), loop(forward, v))
        self.close(func.jvp(func.vmap(f), (x,), (v,))[1], loop(lambda a, t: func.jvp(f, (a,), (t,))[1], x, v))
        self.close(func.jvp(func.vmap(func.grad(lambda a: f(a)[0].sum())), (x,), (v,))[1],
                   loop(lambda a, t: func.hessian(lambda q: f(q)[0].sum())(a) @ t, x, v))

    def test_tangent_kernel(self):
        """The kernel of two data sets, by whole Jacobians and by products with vectors."""
        net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
        params = {k: p.detach() for k, p in net.named_parameters()}
        a, b = cairn.randn(4, 1, 6, 6), cairn.randn(3, 1, 6, 6)
        one = lambda p, v: func.functional_call(net, p, (v[None],))[0]

        def rows(v):
            jac = func.vmap(func.jacrev(one), in_dims=(None, 0))(params, v)
            return [j.flatten(2) for j in jac.values()]
        whole = sum(cairn.einsum("naf,mbf->nmab", p, q) for p, q in zip(rows(a), rows(b)))

        def product(v, u):
            _, back = func.vjp(lambda p: one(p, v), params)

            def column(e):
                return func.jvp(lambda p: one(p, u), (params,), (back(e)[0],))[1]
            return func.vmap(column)(cairn.eye(2))
        found = func.vmap(func.vmap(product, in_dims=(None, 0)), in_dims=(0, None))(a, b)
        self.close(found, whole, 1e-4)      # sums of hundreds of products, in another order

    def test_checkpoint(self):
        w, x = cairn.randn(3, requires_grad=True), cairn.randn(4, 3)
        again = cairn.utils.checkpoint.checkpoint
        func.vmap(lambda a: again(lambda v: (v * w).tanh().sum(), a, use_reentrant=False))(x).sum().backward()
        self.close(w.grad, ((1 - (x * w.detach()).tanh() ** 2) * x).sum(0))
        each = func.vmap(func.grad(lambda v, a: again(lambda q: (q * a).tanh().sum(), v, use_reentrant=False)),
                         in_dims=(None, 0))
        self.close(each(w.detach(), x), (1 - (x * w.detach()).tanh() ** 2) * x)

    def test_old_forms(self):
        f = lambda v: (v ** 2).cumsum(0)
        x = cairn.randn(4)
        jacobian = cairn.autograd.functional.jacobian
        self.close(jacobian(f, x, vectorize=True), jacobian(f, x))
        self.close(jacobian(f, x, vectorize=True, strategy="forward-mode"), jacobian(f, x))
        hessian = cairn.autograd.functional.hessian
        self.close(hessian(lambda v: f(v).sum(), x, vectorize=True), hessian(lambda v: f(v).sum(), x))


class Scale(cairn.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * x * w, x + w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return 2 * g * x * w + h, g * x * x + h


class Sorted(cairn.autograd.Function):
    @staticmethod
    def forward(x, dim):
        return x.sort(dim).values

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, dim):
        assert info.batch_size == x.shape[in_dims[0]] and info.randomness == "error" and in_dims[1] is None
        return Sorted.apply(x.movedim(in_dims[0], 0), dim + 1), 0


class Functions(Case):
    def test_generated(self):
        x, w = cairn.randn(4, 3, requires_grad=True), cairn.randn(3, requires_grad=True)
        y, z = func.vmap(Scale.apply, in_dims=(0, None))(x, w)
        (y.sum() + 2 * z.sum()).backward()
        self.close(x.grad, 2 * (x * w).detach() + 2)
        self.close(w.grad, (x * x).sum(0).detach() + 8)
        each = func.vmap(func.grad(lambda a, b: Scale.apply(a, b)[0].sum(), argnums=1), in_dims=(0, None))
        self.close(each(x.detach(), w.detach()), (x * x).detach())
        twice = func.vmap(func.hessian(lambda a: Scale.apply(a, w.detach())[0].sum()))(x.detach())
        self.close(twice, cairn.diag(2 * w.detach()).expand(4, 3, 3))

    def test_own_rule(self):
        x = cairn.randn(2, 5, 3)
        self.close(func.vmap(lambda a: Sorted.apply(a, 0), in_dims=1)(x), x.sort(0).values.movedim(1, 0))
        self.close(func.vmap(func.vmap(lambda a: Sorted.apply(a, 0)))(x), x.sort(2).values)

    def test_none(self):
        class Plain(cairn.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
        with self.assertRaisesRegex(RuntimeError, "does not have vmap support"):
            func.vmap(Plain.apply)(cairn.randn(3))

    def test_forward_rule(self):
        """Forward mode takes a Function's jvp, and nothing else."""
        class Power(cairn.autograd.Function):
            @staticmethod
            def forward(ctx, x, k, y):
                ctx.save_for_forward(x)
                ctx.k = k
                return x ** k + y, y * 2

            @staticmethod
            def backward(ctx, *grads):
                raise RuntimeError("backward is not for forward mode")

            @staticmethod
            def jvp(ctx, tangent, _, other):
                x, = ctx.saved_tensors
                return ctx.k * x ** (ctx.k - 1) * tangent + other, other * 2
        x, y, v, w = cairn.randn(4, 3)
        f = lambda a, b: Power.apply(a, 3, b)[0].sin() + Power.apply(a, 2, b)[1]
        want = (x ** 3 + y).cos() * (3 * x * x * v + w) + 2 * w
        self.close(func.jvp(f, (x, y), (v, w))[1], want)
        self.close(func.linearize(f, x, y)[1](v, w), want)
        self.close(cairn.autograd.functional.jvp(f, (x, y), (v, w))[1], want)
        self.close(func.jacfwd(f)(x, y) @ v + func.jacfwd(f, argnums=1)(x, y) @ w, want)
        forward = cairn.autograd.forward_ad
        with forward.dual_level():
            made = f(forward.make_dual(x, v), forward.make_dual(y, w))
            self.close(forward.unpack_dual(made).tangent, want)

    def test_recording(self):
        """Directions are no gradients: a level has them in no_grad, and leaves it on behind."""
        x, v = cairn.randn(2, 3)
        forward = cairn.autograd.forward_ad
        with cairn.no_grad():
            with forward.dual_level():
                dual = forward.make_dual(x, v)
                made = dual.clone()
                made[1:].mul_(dual[:2])
                primal, tangent = forward.unpack_dual(made.sin())
                self.assertFalse(primal.requires_grad)
            self.assertFalse(cairn.is_grad_enabled())
        plain = cairn.cat([x[:1], x[1:] * x[:2]])
        moved = cairn.cat([v[:1], v[1:] * x[:2] + x[1:] * v[:2]])
        self.close(primal, plain.sin())
        self.close(tangent, plain.cos() * moved)

    def test_seeds(self):
        """Gradients that are computed by logarithms of their seeds have derivatives by them at ones."""
        x, v = cairn.randn(5, dtype=cairn.float64), cairn.randn(5, dtype=cairn.float64)
        f = lambda a: a.logcumsumexp(0)
        self.close(func.jvp(f, (x,), (v,))[1], func.jacrev(f)(x) @ v, 1e-5)     # by logarithms
        self.close(func.jacfwd(f)(x), func.jacrev(f)(x), 1e-5)

    def test_custom_op(self):
        @cairn.library.custom_op("vmap_test::double", mutates_args=())
        def double(x: cairn.Tensor) -> cairn.Tensor:
            return cairn.tensor([2 * v for v in x.tolist()])
        x = cairn.randn(4, 3)
        self.close(func.vmap(double)(x), 2 * x)

        @double.register_vmap
        def _(info, in_dims, x):
            return 2 * x, in_dims[0]
        self.close(func.vmap(double, in_dims=1)(x), 2 * x.T)


if __name__ == "__main__":
    unittest.main()
