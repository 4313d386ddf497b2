"""cairn.compile: whole training steps compute what they compute as they are, to the bit: networks, optimisers,
schedules, checking."""
import copy
import os
import tempfile
import unittest
import warnings

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn
from cairn.utils.checkpoint import checkpoint


class Block(nn.Module):
    """A transformer block with a causal mask."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.qkv(self.first(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(17, 16), nn.Embedding(8, 16)
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 17)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(cairn.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x)).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 12, num_layers=2, batch_first=True, dropout=0.2), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(checkpoint(self.lstm, x, use_reentrant=False)[0][:, -1])


class Checkpointed(nn.Sequential):
    """Whose parts are computed again in backward."""

    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False)


def mlp():
    net = nn.Sequential(Checkpointed(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3)), nn.BatchNorm1d(32),
                        nn.Linear(32, 5))
    return net, lambda: (cairn.randn(8, 10), cairn.randint(0, 5, (8,)))


def cnn():
    net = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6),
                        Checkpointed(nn.ReLU(), nn.Dropout(0.2), nn.MaxPool2d(2)), nn.Flatten(), nn.Linear(96, 5))
    return net, lambda: (cairn.randn(4, 2, 8, 8), cairn.randint(0, 5, (4,)))


def lstm():
    return Recurrent(), lambda: (cairn.randn(4, 7, 6), cairn.randint(0, 5, (4,)))


def gpt():
    return GPT(), lambda: (cairn.randint(0, 17, (3, 8)), cairn.randint(0, 17, (24,)))


def trainer(make, device="cpu", seed=1):
    """A network with its optimiser, and ten batches."""
    cairn.manual_seed(seed)
    net, batch = make()
    batches = [[t.to(device) for t in batch()] for _ in range(10)]
    net.to(device)
    return net, cairn.optim.AdamW(net.parameters(), lr=1e-2), batches


def training_step(net, optimiser, how):
    def step(x, y):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        return loss
    return how(step)


class StepsTest(unittest.TestCase):
    def assertEqualNets(self, a, b):
        for (name, x), (_, y) in zip(a.state_dict().items(), b.state_dict().items()):
            self.assertTrue(cairn.equal(x, y), name)

    def steps(self, make, step_of, calls=50):
        """step_of(net, optimiser, how) -> a function of a batch; eager and compiled, 50 steps."""
        nets, losses = [], []
        for how in (lambda f: f, cairn.compile):
            net, optimiser, batches = trainer(make)
            step = step_of(net, optimiser, how)
            cairn.manual_seed(5)
            losses.append([step(*batches[i % 10]).item() for i in range(calls)])
            nets.append(net)
        self.assertEqual(losses[0], losses[1])
        self.assertEqualNets(*nets)
        return step

    def test_whole_steps(self):
        for make in (mlp, cnn, lstm, gpt):
            with self.subTest(make.__name__):
                step = self.steps(make, training_step)
                self.assertEqual(compiler.stats(step)["eager_calls"], 0)
                self.assertEqual(compiler.stats(step)["executables"], 1)
                self.assertEqual(compiler.stats(step)["runs"], 50)

    def test_whole_steps_that_go_on_from_a_file(self):
        """In the middle, in a new network and a new program; on the mirror device, too, which takes graphs whole."""
        def kept(net, optimiser):
            return {"net": net.state_dict(), "optimiser": optimiser.state_dict(), "numbers": cairn.get_rng_state()}
        for make in (mlp, cnn, lstm, gpt):
            for device in ("cpu", "mirror"):
                with self.subTest(make.__name__, device=device), tempfile.TemporaryDirectory() as folder:
                    eager, optimiser, batches = trainer(make, device)
                    step, path = training_step(eager, optimiser, lambda f: f), os.path.join(folder, "kept.pt")
                    cairn.manual_seed(5)
                    want = [step(*batches[i % 10]).item() for i in range(50)]
                    net, optimiser, _ = trainer(make, device)
                    step = training_step(net, optimiser, cairn.compile)
                    cairn.manual_seed(5)
                    have = [step(*batches[i % 10]).item() for i in range(23)]
                    cairn.save(kept(net, optimiser), path)
                    net, optimiser, _ = trainer(make, device, seed=2)
                    loaded = cairn.load(path)
                    net.load_state_dict(loaded["net"])
                    optimiser.load_state_dict(loaded["optimiser"])
                    cairn.set_rng_state(loaded["numbers"])
                    step = training_step(net, optimiser, cairn.compile)
                    have += [step(*batches[i % 10]).item() for i in range(23, 50)]
                    self.assertEqual(have, want)
                    self.assertEqualNets(net, eager)
                    self.assertEqual(compiler.stats(step)["eager_calls"], 0)

    def test_forward_in_an_eager_loop(self):
        def step_of(net, optimiser, how):
            fast = how(net)

            def step(x, y):
                loss = F.cross_entropy(fast(x), y)
                loss.backward()
                optimiser.step()
                optimiser.zero_grad()
                return loss
            step.fast = fast
            return step
        for make in (mlp, cnn, lstm, gpt):
            with self.subTest(make.__name__):
                step = self.steps(make, step_of, 20)
                self.assertEqual(compiler.stats(step.fast)["executables"], 1)
                self.assertEqual(compiler.stats(step.fast)["eager_calls"], 0)

    def test_accumulation_and_hooks(self):
        (net, _, batches), (other, _, _) = trainer(mlp), trainer(mlp)
        seen = []
        for n in (net, other):
            n[0][0].weight.register_hook(lambda g: seen.append(g.abs().sum().item()) or g * 2)
        fast = cairn.compile(other)
        for f in (net, fast):
            cairn.manual_seed(5)
            for x, y in batches[:3]:
                F.cross_entropy(f(x), y).backward()
        self.assertEqual(seen[:3], seen[3:])
        for p, q in zip(net.parameters(), other.parameters()):
            self.assertTrue(cairn.equal(p.grad, q.grad))

    def loop(self, schedule, average, optimiser=cairn.optim.AdamW):
        """A net with all that a training loop has; what steps, and what there is to compare and to save."""
        cairn.manual_seed(4)
        net = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3))
        optimiser = optimiser(net.parameters(), lr=0.01)
        scaler = cairn.amp.GradScaler("cpu", init_scale=1e38, growth_interval=4)
        rates, averaged = schedule(optimiser), average(net)

        def step(x, y):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(x), y)
            scaler.scale(loss * 10).backward()
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimiser)
            scaler.update()
            averaged.update_parameters(net)
            rates.step()
            return loss
        return step, {"net": net, "optimiser": optimiser, "scaler": scaler, "rates": rates, "averaged": averaged}

    def test_whole_loops(self):
        """GradScaler, clipping, optimiser, schedule and average in one program, 50 steps, resumed in the middle."""
        sched, swa = cairn.optim.lr_scheduler, cairn.optim.swa_utils
        schedules = {
            "step": lambda o: sched.StepLR(o, 7, gamma=0.5),
            "function": lambda o: sched.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
            "sequence": lambda o: sched.SequentialLR(o, [sched.LinearLR(o, 0.1, total_iters=5),
                                                         sched.CosineAnnealingLR(o, 40)], [5]),
            "one cycle": lambda o: sched.OneCycleLR(o, 0.1, total_steps=60),  # of the momentum, too
        }
        averages = {"mean": swa.AveragedModel,
                    "exponential": lambda net: swa.AveragedModel(net, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9),
                                                                 use_buffers=True)}
        for name, schedule in schedules.items():
            for kind, average in averages.items():
                with self.subTest(name, average=kind):
                    step, eager = self.loop(schedule, average)
                    other, parts = self.loop(schedule, average)
                    fast = compiler.compile(other, fullgraph=True)
                    scales = set()
                    for i in range(50):
                        if i == 25:  # goes on from what was saved
                            kept = {key: part.state_dict() for key, part in parts.items()}
                            other, parts = self.loop(schedule, average)
                            for key, state in copy.deepcopy(kept).items():
                                parts[key].load_state_dict(state)
                            fast = compiler.compile(other, fullgraph=True)
                        cairn.manual_seed(100 + i)
                        batch = cairn.randn(8, 6), cairn.randint(0, 3, (8,))
                        cairn.manual_seed(i)
                        want = step(*batch)
                        cairn.manual_seed(i)
                        self.assertTrue(cairn.equal(fast(*batch), want))
                        scales.add(eager["scaler"].get_scale())
                    self.assertGreater(len(scales), 1)  # it overflowed
                    stats = compiler.stats(fast)
                    self.assertEqual((stats["executables"], stats["eager_calls"]), (1, 0))
                    for key in ("net", "averaged"):
                        for a, b in zip(eager[key].state_dict().values(), parts[key].state_dict().values()):
                            self.assertTrue(cairn.equal(a, b))
                    self.assertEqual(eager["scaler"].state_dict(), parts["scaler"].state_dict())
                    self.assertEqual(eager["rates"].get_last_lr(), parts["rates"].get_last_lr())
                    for name_of in ("lr", "betas"):
                        self.assertEqual(*(p["optimiser"].param_groups[0][name_of] for p in (eager, parts)))

    def small_step(self, how, make):
        """A step of a small net: its optimiser, and what `how` makes of it."""
        cairn.manual_seed(0)
        net = nn.Linear(2, 2)
        optimiser = make(net.parameters())

        def step(x):
            optimiser.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            optimiser.step()
            return loss
        return optimiser, how(step)

    def test_momentum_that_goes_round(self):
        """Outside of the step: settings that a step follows do not make it another."""
        optim = cairn.optim
        for make in (lambda p: optim.SGD(p, lr=0.01, momentum=0.9), lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
                     lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True), lambda p: optim.AdamW(p, lr=0.01)):
            found = []
            for how in (lambda f: f, compiler.compile):
                optimiser, step = self.small_step(how, make)
                schedule, losses = optim.lr_scheduler.CyclicLR(optimiser, 0.01, 0.1, step_size_up=3), []
                for _ in range(9):
                    losses.append(step(cairn.ones(1, 2)).item())
                    schedule.step()
                found.append(losses)
            self.assertEqual(*found)
            self.assertEqual(compiler.stats(step)["executables"], 1)

    def test_loops_that_cannot_be(self):
        step, parts = self.loop(lambda o: cairn.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
                                cairn.optim.swa_utils.AveragedModel, cairn.optim.NAdam)
        with self.assertRaisesRegex(cairn.CaptureError, "momentum"):
            compiler.compile(step, fullgraph=True)(cairn.randn(8, 6), cairn.randint(0, 3, (8,)))
        self.assertEqual(parts["rates"].last_epoch, 0)

    def test_settings_of_optimisers(self):
        class Plain(cairn.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})

            @cairn.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"])

        def losses(how, make, changes):
            optimiser, step = self.small_step(how, make)
            found = []
            for change in changes:
                optimiser.param_groups[0].update(change)
                found += [step(cairn.ones(1, 2)).item() for _ in range(2)]
            return found, step
        # How many programs a step has then: those with another formula are others, where C's optimisers know that.
        for make, changes, programs in (
                (lambda p: cairn.optim.AdamW(p, lr=0.1),
                 ({}, {"weight_decay": 0.5}, {"lr": 0.01}, {"betas": (0.5, 0.6)}), 3),
                (lambda p: cairn.optim.Adam(p, lr=0.1), ({}, {"betas": (0.8, 0.999)}, {"lr": 0.01}), 1),
                (lambda p: cairn.optim.Adam(p, lr=0.1), ({}, {"betas": (0.4, 0.999)}, {"betas": (0.8, 0.9)}), 3),
                (lambda p: cairn.optim.SGD(p, lr=0.1, momentum=0.5), ({}, {"momentum": 0.1}, {"lr": 0.01}), 1),
                (lambda p: cairn.optim.SGD(p, lr=0.1, momentum=0.5), ({}, {"momentum": 0.0}, {"momentum": 0.1}), 3),
                (lambda p: cairn.optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.2, weight_decay=0.1, maximize=True),
                 ({}, {"dampening": 0.1}), 2),
                (lambda p: cairn.optim.Adam(p, lr=cairn.tensor(0.1), capturable=True),
                 ({}, {"lr": cairn.tensor(0.05)}, {"lr": 0.01}), None),
                (lambda p: Plain(p, 0.1), ({}, {"lr": 0.01}), 2)):
            want, _ = losses(lambda f: f, make, changes)
            have, step = losses(cairn.compile, make, changes)
            self.assertEqual(want, have)
            if programs:
                self.assertEqual(compiler.stats(step)["executables"], programs)

    def test_dampening_where_a_capture_fails(self):
        """The buffer that a capture made has not begun."""
        found = []
        for how in (lambda f: f, cairn.compile):
            cairn.manual_seed(0)
            net = nn.Linear(2, 2)
            optimiser = cairn.optim.SGD(net.parameters(), lr=0.1, momentum=0.5, dampening=0.5)

            def step(x):
                optimiser.zero_grad()
                net(x).square().sum().backward()
                optimiser.step()
                return net.weight.sum().item()  # which cannot be captured
            step = how(step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append([step(cairn.ones(1, 2)) for _ in range(3)])
        self.assertEqual(found[0], found[1])

    def test_computed_parameters(self):
        for norm in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
            found = []
            for how in (lambda f: f, lambda f: cairn.compile(f, fullgraph=True)):
                cairn.manual_seed(0)
                net = nn.Sequential(norm(nn.Linear(3, 4)), nn.Tanh(), norm(nn.Linear(4, 2)))
                optimiser = cairn.optim.SGD(net.parameters(), lr=0.1)

                def step(x):
                    optimiser.zero_grad()
                    loss = net(x).square().sum()
                    loss.backward()
                    optimiser.step()
                    return loss
                step = how(step)
                losses = [step(cairn.ones(2, 3) + i).item() for i in range(4)]
                found.append((losses, {name: t.tolist() for name, t in net.state_dict().items()}))
            self.assertEqual(found[0], found[1])

    def test_schedules_step_outside(self):
        """A capture that fails has not counted a step."""
        net = nn.Linear(2, 2)
        optimiser = cairn.optim.SGD(net.parameters(), lr=1.0)
        schedule = cairn.optim.lr_scheduler.StepLR(optimiser, 1, 0.5)

        @cairn.compile
        def step(x):
            optimiser.zero_grad()
            net(x).sum().backward()
            optimiser.step()
            schedule.step()
        for i in range(3):
            step(cairn.ones(1, 2))
            self.assertEqual((schedule.last_epoch, optimiser.param_groups[0]["lr"]), (i + 1, 0.5 ** (i + 1)))

    def test_check_of_steps(self):
        os.environ["CAIRN_COMPILE"] = "check"
        self.addCleanup(os.environ.pop, "CAIRN_COMPILE")
        for make in (mlp, cnn, lstm, gpt):
            with self.subTest(make.__name__):
                step = self.steps(make, training_step, 5)
                self.assertEqual(compiler.stats(step)["eager_calls"], 0)


if __name__ == "__main__":
    unittest.main()
