"""cairn.autocast and cairn.amp: types under autocast, the scaling of losses, averages of models (swa_utils)."""
import pickle
import threading
import unittest
import warnings

import cairn
from cases import Case

try:
    import torch
except ImportError:
    torch = None

need_torch = unittest.skipUnless(torch, "PyTorch is not installed")


def kind(t):
    return str(t.dtype).split(".")[-1]


class Autocast(Case):
    def test_types(self):
        def program(m):
            a, b = m.ones(3, 3), m.ones(3, 3)
            seen = []
            with m.autocast("cpu", dtype=m.bfloat16):
                seen += [kind(a @ b), kind(a + b), kind((a @ b).softmax(0)), kind(m.nn.functional.linear(a, b))]
                seen.append(m.is_autocast_enabled("cpu"))
                with m.autocast("cpu", enabled=False):
                    seen += [kind(a @ b), m.is_autocast_enabled("cpu")]
                with m.autocast(device_type="cpu", dtype=m.float16):
                    seen += [kind(a @ b), m.get_autocast_dtype("cpu") == m.float16]
                seen.append(kind(m.mm(a, b)))
            return seen + [kind(a @ b), m.is_autocast_enabled("cpu"), m.get_autocast_dtype("cpu") == m.bfloat16,
                           m.get_autocast_dtype("cuda") == m.float16]

        have = self.same(program) if torch else program(cairn)
        self.assertEqual((have[0], have[1]), ("bfloat16", "float32"))

    def test_decorator(self):
        def program(m):
            @m.autocast("cpu")
            def product(a):
                return a @ a

            @m.amp.autocast("cpu", dtype=m.float16)
            def half(a):
                return a @ a

            return kind(product(m.ones(2, 2))), kind(half(m.ones(2, 2))), kind(m.ones(2, 2) @ m.ones(2, 2))

        self.same(program)

    def test_exceptions_and_threads(self):
        with self.assertRaises(KeyError):
            with cairn.autocast("cpu"):
                raise KeyError
        self.assertFalse(cairn.is_autocast_enabled())
        seen = []
        with cairn.autocast("cpu"):
            thread = threading.Thread(target=lambda: seen.append(cairn.is_autocast_enabled()))
            thread.start()
            thread.join()
        self.assertEqual(seen, [False])

    def test_arguments(self):
        self.fails(lambda m: m.autocast(1), ValueError)
        self.fails(lambda m: m.autocast("nothing"), RuntimeError)
        if not cairn.cuda.is_available():
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                with cairn.autocast("cuda"):
                    self.assertFalse(cairn.is_autocast_enabled())
                with cairn.cuda.amp.autocast():
                    pass
            self.assertEqual(len(seen), 2)

    def test_training(self):
        def program(m):
            w = m.tensor([[0.5, -0.25], [1.0, 0.75]], requires_grad=True)
            x = m.tensor([[1.0, 2.0], [3.0, -1.0]])
            opt = m.optim.SGD([w], lr=0.125)
            for _ in range(3):
                opt.zero_grad()
                with m.autocast("cpu"):
                    y = m.nn.functional.linear(x, w)
                    loss = (y.float() ** 2).mean()
                loss.backward()
                opt.step()
            return kind(y), kind(w), kind(w.grad), w.detach()

        have = program(cairn)
        if torch:
            self.near(have, program(torch), 1)

    def test_custom_functions(self):
        def program(m):
            seen = []

            class Product(m.autograd.Function):
                @staticmethod
                @m.amp.custom_fwd(device_type="cpu", cast_inputs=m.float32)
                def forward(ctx, a, b):
                    ctx.save_for_backward(a, b)
                    seen.append([kind(a), m.is_autocast_enabled("cpu")])
                    return a @ b

                @staticmethod
                @m.amp.custom_bwd(device_type="cpu")
                def backward(ctx, g):
                    a, b = ctx.saved_tensors
                    seen.append(m.is_autocast_enabled("cpu"))
                    return g @ b.t(), a.t() @ g

            a = m.ones(2, 2, requires_grad=True)
            with m.autocast("cpu"):
                y = Product.apply(a @ a, a)
            y.sum().backward()
            return seen, kind(y)

        self.same(program)


# What PyTorch's autocast does with ops of a device that is not the CPU, op by op; expressions of float32 x, y (3, 4)
# and z (4, 4), the same of the low type (h, k, l) and classes c.
LOW = """x @ z; t.addbmm(z, e, e); t.addmm(z, z, z); t.addmv(x[:, 0], x, z[0]); t.addr(x, x[:, 0], x[0])
t.bmm(e, e); t.baddbmm(e, e, e); t.chain_matmul(x, z); t.linalg.multi_dot([x, z]); t.mm(x, z); t.mv(x, z[0])
F.prelu(x, z[0]); F.linear(x, z); t.einsum("ij,jk->ik", x, z); F.conv1d(e, e)
F.conv2d(z[None, None], z[None, None]); F.conv3d(e[None, None], e[None, None]); F.conv_transpose1d(e, e)
F.conv_transpose2d(e[None], e[..., None]); F.conv_transpose3d(e[None, None], e[None, None])
on(nn.RNNCell(4, 4))(x); on(nn.GRUCell(4, 4))(x); on(nn.LSTMCell(4, 4))(x)[0]; on(nn.LSTMCell(4, 4))(x)[1]
on(nn.LSTM(4, 4))(e)[0]; t.linalg.vecdot(x, y); F.scaled_dot_product_attention(e[None], e[None], e[None])"""
WIDE = """t.addcdiv(h, y, k); t.addcmul(h, y, k); t.atan2(h, y); F.bilinear(h, y, l[None]); t.vdot(h[0], y[0])
t.cross(h[:, :3], y[:, :3], dim=1); t.dot(h[0], y[0]); F.grid_sample(h[None, None], y[None, None, :, :2])
t.index_put(h, (c[:1],), y[0]); t.scatter_add(h, 0, c[:, None], y); t.tensordot(h, y, dims=([1], [1]))
t.cat([h, y]); t.stack([h, y])"""
WHOLE = """h.acos(); h.asin(); h.cosh(); h.erfinv(); h.exp(); h.expm1(); h.log(); h.log10(); h.log2(); h.log1p()
h.sinh(); h.reciprocal(); h.rsqrt(); h.tan(); h ** 1.5; 2.0 ** h; 1.0 / h; h.sum(); h.sum(0); h.prod(); h.norm()
t.cdist(h, k); t.linalg.vector_norm(h); t.linalg.matrix_norm(h); t.linalg.matrix_norm(h, 1); h.logsumexp(0)
h.cumsum(0); h.cumprod(0); t.dist(h, k); h.renorm(2, 0, 1.0); F.pdist(h); F.softmax(h, -1); F.log_softmax(h, -1)
F.softmin(h, -1); F.softplus(h); F.layer_norm(h, (4,)); F.group_norm(h, 2); F.rms_norm(h, (4,)); F.normalize(h)
F.cosine_similarity(h, k); F.interpolate(l[None, None], scale_factor=2)
F.interpolate(l[None, None], scale_factor=2, mode="bilinear"); F.cross_entropy(h, c); F.nll_loss(h, c)
F.mse_loss(h, k); F.l1_loss(h, k); F.smooth_l1_loss(h, k); F.huber_loss(h, k)
F.binary_cross_entropy_with_logits(h, k); F.cosine_embedding_loss(h, k, h[:, 0].sign()); F.poisson_nll_loss(h, k)
F.hinge_embedding_loss(h, k.sign()); F.kl_div(h, k); F.margin_ranking_loss(h, k, k.sign())
F.soft_margin_loss(h, k); F.multi_margin_loss(h, c); F.multilabel_margin_loss(h, t.zeros_like(h, dtype=t.int64))
F.triplet_margin_loss(h, k, h)"""
AS_THEY_COME = "h + k; F.gelu(h); F.relu(h); h.mean(); h.std(); F.dropout(h); h.sqrt(); h.tanh(); F.embedding(c, h)"


class Lists(unittest.TestCase):
    """The lists of a device, on the one that stands for it without a GPU; PyTorch 2.15 says the same of cuda."""

    def check(self, expressions, want):
        x, y, z, e = (cairn.rand(*shape).to("mirror") * 0.5 + 0.25 for shape in ((3, 4), (3, 4), (4, 4), (4, 4, 4)))
        here = {"t": cairn, "nn": cairn.nn, "F": cairn.nn.functional, "x": x, "y": y, "z": z, "e": e,
                "h": x.bfloat16(), "k": y.bfloat16(), "l": z.bfloat16(), "on": lambda module: module.to("mirror"),
                "c": cairn.tensor([0, 1, 2]).to("mirror")}
        saved = cairn._C._autocast_begin(False, cairn.bfloat16)
        try:
            for text in expressions.replace("\n", ";").split(";"):
                with self.subTest(text.strip()):
                    self.assertEqual(kind(eval(text.strip(), here)), want)
        finally:
            cairn._C._autocast_end(saved)

    def test_low(self):
        self.check(LOW, "bfloat16")

    def test_float32(self):
        self.check(WHOLE, "float32")
        # PyTorch refuses this one there; in float32 nothing is lost that the input had
        self.check("F.binary_cross_entropy(h, k)", "float32")

    def test_widest(self):
        self.check(WIDE, "float32")
        self.check("t.cat([h, k]); t.addcmul(h, k, h); t.dot(h[0], k[0])", "bfloat16")

    def test_others(self):
        self.check(AS_THEY_COME, "bfloat16")


class Scaler(Case):
    def steps(self, m, bad=(3, 4), own=False, **settings):
        """Scales, parameters and what was returned over some steps, of which some overflow."""
        p = m.tensor([1.0, -2.0], requires_grad=True)
        opt = m.optim.SGD([p], lr=0.1)
        scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2, **settings)
        seen = []
        for k in range(8):
            opt.zero_grad()
            loss = (p * p).sum() * (float("inf") if k in bad else 1.0)
            scaler.scale(loss).backward()
            if k % 2:
                scaler.unscale_(opt)
            scaler.step(opt)
            scaler.update()
            seen.append([scaler.get_scale(), p.tolist()])
        return seen, scaler.state_dict()

    def test_steps(self):
        self.same(self.steps)
        self.same(lambda m: self.steps(m, growth_factor=4.0, backoff_factor=0.25))
        self.same(lambda m: self.steps(m, enabled=False, bad=()))

    def test_a_device_decides(self):
        if not cairn.cuda.is_available():
            self.skipTest("no CUDA device")

        def steps(device, optimizer, **settings):
            p = cairn.tensor([1.0, -2.0], device=device, requires_grad=True)
            opt = getattr(cairn.optim, optimizer)([p], lr=0.1, **settings)
            scaler = cairn.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
            seen = []
            for k in range(8):
                opt.zero_grad()
                scaler.scale((p * p).sum() * (float("inf") if k in (0, 3, 4) else 1.0)).backward()
                if k % 2:
                    scaler.unscale_(opt)
                scaler.step(opt)
                scaler.update()
                seen.append((scaler.get_scale(), [round(v, 5) for v in p.tolist()]))
            count = opt.state_dict()["state"].get(0, {}).get("step")
            return seen, scaler.state_dict(), count if count is None else float(count)

        for name, settings in [("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "dampening": 0.5}),
                               ("Adam", {}), ("AdamW", {"amsgrad": True}), ("RMSprop", {})]:
            with self.subTest(name, **settings):
                self.assertEqual(steps("cuda", name, **settings), steps("cpu", name, **settings))

    def test_interface(self):
        def program(m):
            s = m.amp.GradScaler("cpu", init_scale=4.0)
            x = m.tensor(2.0)
            one, two = s.scale([x, x * 2])
            pair = s.scale((x, x))
            seen = [one.item(), two.item(), isinstance(pair, tuple), [v.item() for v in s.scale(iter([x]))]]
            s.set_growth_factor(3.0)
            s.set_backoff_factor(0.25)
            s.set_growth_interval(7)
            s.update(16.0)
            seen += [s.get_scale(), s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval(),
                     s.is_enabled()]
            t = m.amp.GradScaler("cpu")
            t.load_state_dict(s.state_dict())
            return seen, t.get_scale(), sorted(t.state_dict())

        self.same(program)
        again = pickle.loads(pickle.dumps(cairn.amp.GradScaler("cpu", init_scale=4.0)))
        self.assertEqual(again.get_scale(), 4.0)

    def test_mistakes(self):
        def twice(m):
            p = m.ones(2, requires_grad=True)
            opt = m.optim.SGD([p])
            s = m.amp.GradScaler("cpu")
            s.scale(p.sum()).backward()
            s.unscale_(opt)
            s.unscale_(opt)

        def stepped(m):
            p = m.ones(2, requires_grad=True)
            opt = m.optim.SGD([p])
            s = m.amp.GradScaler("cpu")
            s.scale(p.sum()).backward()
            s.step(opt)
            s.step(opt)

        self.fails(twice)
        self.fails(stepped)
        self.fails(lambda m: m.amp.GradScaler("cpu").step(m.optim.SGD([m.ones(1, requires_grad=True)]),
                                                          closure=lambda: None))

    def test_without_a_device(self):
        if cairn.cuda.is_available():
            self.skipTest("there is a device")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            s = cairn.cuda.amp.GradScaler()
        self.assertEqual((len(seen), s.is_enabled(), s.get_scale(), s.state_dict()), (1, False, 1.0, {}))
        x = cairn.ones(2)
        self.assertIs(s.scale(x), x)

    def test_an_optimizer_in_python(self):
        def program(m):
            class Plain(m.optim.Optimizer):
                def __init__(self, params, lr):
                    super().__init__(params, {"lr": lr})

                @m.no_grad()
                def step(self):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.sub_(p.grad * group["lr"])
                    return "stepped"

            p = m.ones(2, requires_grad=True)
            opt = Plain([p], 0.5)
            s = m.amp.GradScaler("cpu", init_scale=64.0)
            seen = []
            for factor in (1.0, float("nan"), 1.0):
                opt.zero_grad()
                s.scale((p * p).sum() * factor).backward()
                seen.append(s.step(opt))
                s.update()
            return seen, p.detach(), s.get_scale()

        self.same(program)


class Averages(Case):
    def nets(self, m):
        m.manual_seed(0)
        net = m.nn.Sequential(m.nn.Linear(2, 3), m.nn.BatchNorm1d(3), m.nn.Linear(3, 1))
        with m.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(m.arange(p.numel()).reshape(p.shape) * 0.1 * (i + 1))
        return net

    def follow(self, m, **settings):
        S = __import__(m.__name__ + ".optim.swa_utils", fromlist=["x"])
        net = self.nets(m)
        rule = settings.pop("rule", None)
        if rule:
            settings.update(rule(S))
        mean = S.AveragedModel(net, **settings)
        for k in range(4):
            with m.no_grad():
                for p in net.parameters():
                    p.add_(0.5 * (k + 1))
                net[1].running_mean.add_(1.0)
            mean.update_parameters(net)
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]])
        mean.eval()
        return ([p.detach() for p in mean.parameters()], mean.module[1].running_mean, mean.n_averaged,
                mean(x).detach() / 1000, list(mean.state_dict()))

    @need_torch
    def test_models(self):
        rules = [{}, {"use_buffers": True}, {"rule": lambda S: {"multi_avg_fn": S.get_ema_multi_avg_fn(0.9)}},
                 {"rule": lambda S: {"avg_fn": S.get_ema_avg_fn(0.5)}, "use_buffers": True},
                 {"rule": lambda S: {"avg_fn": lambda a, b, n: 0.25 * a + 0.75 * b}},
                 {"rule": lambda S: {"multi_avg_fn": S.get_swa_multi_avg_fn()}}]
        for rule in rules:
            with self.subTest(rule=rule):
                self.same(lambda m: self.follow(m, **dict(rule)))

    @need_torch
    def test_update_bn(self):
        def program(m):
            S = __import__(m.__name__ + ".optim.swa_utils", fromlist=["x"])
            net = self.nets(m)
            data = [m.tensor([[1.0, 2.0], [3.0, 5.0]]), (m.tensor([[0.0, -2.0], [7.0, 5.0]]), 1)]
            S.update_bn(data, net)
            return net[1].running_mean, net[1].running_var, net[1].momentum

        self.same(program)


if __name__ == "__main__":
    unittest.main()
