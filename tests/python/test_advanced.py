"""What programs do beyond calling layers and optimisers: hooks of all modules, attributes past the tree, computed
parameters, schedules and optimisers derived from the library's, state changed by hand, models without data."""
import collections
import math
import unittest
import warnings

import cairn
from cairn import nn, optim
from cairn.nn.modules import module as module_hooks
from cairn.nn.utils import parametrizations, parametrize
from cairn.optim import lr_scheduler


class Hooks(unittest.TestCase):
    def test_lists_are_there_and_hold_the_hooks(self):
        layer = nn.Linear(2, 2)
        self.assertEqual(len(layer._forward_hooks), 0)
        seen = []

        def hook(module, args, output):
            seen.append(1)

        layer.register_forward_hook(hook)
        layer.register_forward_pre_hook(lambda module, args, kwargs: seen.append(2), with_kwargs=True)
        self.assertEqual(list(layer._forward_hooks.values()), [hook])
        layer(cairn.ones(1, 2))
        self.assertEqual(seen, [2, 1])
        layer._forward_hooks.clear()
        layer._forward_pre_hooks = collections.OrderedDict()
        layer(cairn.ones(1, 2))
        self.assertEqual(seen, [2, 1])

    def test_always_called(self):
        layer, seen = nn.Linear(2, 2), []
        layer.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
        with self.assertRaises(RuntimeError):
            layer(cairn.ones(1, 3))
        self.assertEqual(seen, [None])

    def test_of_all_modules(self):
        net, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
        x = cairn.ones(1, 2, requires_grad=True)
        for register in (module_hooks.register_module_full_backward_hook, module_hooks.register_module_backward_hook,
                         module_hooks.register_module_full_backward_pre_hook):
            with register(lambda m, *grads: seen.append(type(m).__name__) and None):
                net(x).sum().backward()
            self.assertEqual(sorted(seen), ["Linear", "ReLU", "Sequential"])
            seen.clear()
        net(x).sum().backward()
        self.assertEqual(seen, [])

    def test_registration(self):
        seen = []
        with module_hooks.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)), \
                module_hooks.register_module_module_registration_hook(lambda m, n, c: seen.append("child " + n)), \
                module_hooks.register_module_buffer_registration_hook(lambda m, n, b: seen.append("buffer " + n)):
            nn.Sequential(nn.BatchNorm1d(1, affine=False), nn.Linear(1, 1))
        self.assertEqual(sorted(seen), ["bias", "buffer num_batches_tracked", "buffer running_mean",
                                        "buffer running_var", "child 0", "child 1", "weight"])
        seen.clear()
        nn.Linear(1, 1)
        self.assertEqual(seen, [])

    def test_gradients_of_results_that_are_no_tensors_are_none(self):
        lstm, seen = nn.LSTM(2, 3), []
        lstm.register_full_backward_hook(lambda m, given, out: seen.append([g is None for g in out]))
        lstm(cairn.ones(4, 1, 2, requires_grad=True))[0].sum().backward()
        self.assertEqual(seen, [[False, True]])


class Attributes(unittest.TestCase):
    def test_past_the_tree(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                object.__setattr__(self, "hidden", nn.Linear(2, 2))
                self.shown = nn.Linear(2, 2)

            def __setattr__(self, name, value):
                super().__setattr__("my_" + name if name == "scale" else name, value)

        net = Net()
        net.scale = 3
        self.assertEqual((net.my_scale, len(list(net.parameters()))), (3, 2))
        self.assertEqual(net.hidden(cairn.ones(1, 2)).shape, (1, 2))
        del net.shown
        self.assertEqual(list(net.children()), [])

    def test_tables_name_the_derived_class(self):
        class Wide(nn.Linear):
            pass

        self.assertIn("Wide", str(cairn.summary(nn.Sequential(Wide(2, 3)), (1, 2))))


class Computed(unittest.TestCase):
    def test_orthogonal(self):
        for how in ("matrix_exp", "cayley", "householder", None):
            for rows, columns in ((4, 4), (5, 3), (3, 5)):
                layer = parametrizations.orthogonal(nn.Linear(columns, rows), orthogonal_map=how)
                self.assertEqual(parametrize.type_before_parametrizations(layer), nn.Linear)
                optimizer = optim.SGD(layer.parameters(), lr=0.5)
                for _ in range(2):
                    weight = layer.weight
                    square = weight.mT @ weight if rows >= columns else weight @ weight.mT
                    self.assertLess(float((square - cairn.eye(min(rows, columns))).abs().max()), 1e-5)
                    layer(cairn.ones(2, columns)).square().sum().backward()
                    optimizer.step()
        layer = parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="householder", use_trivialization=False)
        turned = cairn.linalg.qr(cairn.arange(9.0).cos().reshape(3, 3)).Q
        layer.weight = turned
        self.assertLess(float((layer.weight - turned).abs().max()), 1e-5)
        layer = parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False)
        with self.assertRaises(NotImplementedError):
            layer.weight = turned

    def test_cached_and_checked(self):
        class Double(nn.Module):
            def forward(self, x):
                return x * 2

        class Short(nn.Module):
            def forward(self, x):
                return x[:1]

        layer = nn.Linear(2, 2)
        weight = layer.weight
        parametrize.register_parametrization(layer, "weight", Double())
        self.assertIs(layer.parametrizations.weight.original, weight)
        self.assertIsNot(layer.weight, layer.weight)
        with parametrize.cached():
            self.assertIs(layer.weight, layer.weight)
        with self.assertRaises(ValueError):
            parametrize.register_parametrization(nn.Linear(2, 2), "weight", Short())


def rates(scheduler, optimizer, steps):
    out = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        out.append(optimizer.param_groups[0]["lr"])
    return out


class Derived(unittest.TestCase):
    def optimizer(self):
        return optim.SGD([nn.Parameter(cairn.ones(2))], lr=0.1, momentum=0.9)

    def near(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertAlmostEqual(a, b, places=12)

    def test_get_lr_of_a_program_is_asked(self):
        class Warm(lr_scheduler.StepLR):
            def __init__(self, optimizer, warmup, *args, **kwargs):
                self.warmup = warmup
                super().__init__(optimizer, *args, **kwargs)

            def get_lr(self):
                if self.last_epoch < self.warmup:
                    return [b * (self.last_epoch + 1) / self.warmup for b in self.base_lrs]
                return super().get_lr()

        optimizer = self.optimizer()
        scheduler = Warm(optimizer, 2, step_size=3, gamma=0.5)
        self.near([optimizer.param_groups[0]["lr"]], [0.05])
        self.near(rates(scheduler, optimizer, 6), [0.1, 0.1, 0.05, 0.05, 0.05, 0.025])
        state = scheduler.state_dict()
        self.assertEqual((state["warmup"], state["last_epoch"], state["_step_count"]), (2, 6, 7))
        again = Warm(self.optimizer(), 5, step_size=9)
        again.load_state_dict(state)
        self.assertEqual((again.warmup, again.step_size, again.last_epoch), (2, 3, 6))

    def test_formula_below(self):
        class Floor(lr_scheduler.CosineAnnealingLR):
            def get_lr(self):
                return [max(r, 0.05) for r in super().get_lr()]

        class More(lr_scheduler.LambdaLR):
            def get_lr(self):
                return [r + 1 for r in super().get_lr()]

        optimizer = self.optimizer()
        got = rates(Floor(optimizer, T_max=4), optimizer, 3)
        self.near(got, [0.05 * (1 + math.cos(math.pi / 4)), 0.05, 0.05])
        optimizer = self.optimizer()
        self.near(rates(More(optimizer, lambda epoch: 0.5 ** epoch), optimizer, 2), [1.05, 1.025])
        optimizer = self.optimizer()
        chained = lr_scheduler.ChainedScheduler([More(optimizer, lambda epoch: 1.0)])
        self.near(rates(chained, optimizer, 1), [1.1])

    def test_step_of_a_program_is_the_first_one_too(self):
        class Own(lr_scheduler.LRScheduler):
            def step(self):
                self.last_epoch += 1
                for group in self.optimizer.param_groups:
                    group["lr"] = 1.0 / (self.last_epoch + 1)

        optimizer = self.optimizer()
        scheduler = Own(optimizer)
        self.assertEqual((optimizer.param_groups[0]["lr"], scheduler.last_epoch), (1.0, 0))
        self.near(rates(scheduler, optimizer, 2), [0.5, 1 / 3])

    def test_counts_are_whole_and_asking_outside_warns(self):
        optimizer = self.optimizer()
        plateau = lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
        for _ in range(3):
            plateau.step(1.0)
        self.assertEqual(repr(plateau.num_bad_epochs), "2")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            lr_scheduler.StepLR(optimizer, 2).get_lr()
        self.assertEqual(len(told), 1)


class Memory(unittest.TestCase):
    def test_changed_by_hand(self):
        def run(change):
            p = nn.Parameter(cairn.tensor([1.0, -2.0]))
            optimizer = optim.Adam([p], lr=0.1)
            for i in range(4):
                if i == 2:
                    change(optimizer, p)
                p.grad = cairn.tensor([0.5 + i, 1.0])
                optimizer.step()
            return p.detach().clone(), optimizer

        def in_place(optimizer, p):
            state = optimizer.state[p]
            state["step"] = cairn.tensor(0.0)
            state["exp_avg"].zero_()
            state["exp_avg_sq"].zero_()

        def forgotten(optimizer, p):
            del optimizer.state[p]

        self.assertTrue(cairn.equal(run(in_place)[0], run(forgotten)[0]))
        self.assertFalse(cairn.equal(run(in_place)[0], run(lambda o, p: None)[0]))
        _, optimizer = run(lambda o, p: o.state[p].update(mine=cairn.ones(1)))
        p = optimizer.param_groups[0]["params"][0]
        self.assertEqual(sorted(optimizer.state_dict()["state"][0]), ["exp_avg", "exp_avg_sq", "mine", "step"])
        other = optim.Adam([nn.Parameter(p.detach().clone())], lr=0.1)
        other.load_state_dict(optimizer.state_dict())
        self.assertEqual(other.state[other.param_groups[0]["params"][0]]["mine"].tolist(), [1.0])

    def test_one_optimiser_around_another(self):
        class Sharpness(optim.Optimizer):
            def __init__(self, params, base, rho=0.05, **kwargs):
                super().__init__(params, dict(rho=rho, **kwargs))
                self.base = base(self.param_groups, **kwargs)
                self.param_groups = self.base.param_groups

            @cairn.no_grad()
            def first(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        self.state[p]["old"] = p.data.clone()
                        p.add_(p.grad, alpha=group["rho"])

            @cairn.no_grad()
            def second(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.data = self.state[p]["old"]
                self.base.step()

        p = nn.Parameter(cairn.tensor([1.0, 2.0]))
        sharp = Sharpness([p], optim.SGD, rho=0.5, lr=0.1)
        p.square().sum().backward()
        sharp.first()
        sharp.zero_grad()
        p.square().sum().backward()
        sharp.second()
        self.assertTrue(cairn.allclose(p, cairn.tensor([0.6, 1.2])))


class Meta(unittest.TestCase):
    def test_shapes_without_data(self):
        net = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.Tanh())
        x = cairn.zeros(2, 3, device="meta")
        y = net(x)
        self.assertEqual((tuple(y.shape), str(y.device), y.is_meta), ((2, 4), "meta", True))
        self.assertEqual(repr(x), "tensor(..., device='meta', size=(2, 3))")
        y.sum().backward()
        self.assertEqual(tuple(net[0].weight.grad.shape), (4, 3))
        with self.assertRaisesRegex(NotImplementedError, "no data"):
            x.cpu()
        with self.assertRaises(NotImplementedError):
            x.nonzero()
        real = nn.Linear(3, 4)
        moved = net.to_empty(device="cpu")
        moved[0].load_state_dict(real.state_dict())
        self.assertTrue(cairn.equal(moved(cairn.ones(1, 3)), real(cairn.ones(1, 3)).tanh()))


class Autocast(unittest.TestCase):
    def test_devices_apart(self):
        x = cairn.ones(2, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with cairn.autocast("cuda", dtype=cairn.float16):
                self.assertEqual((x @ x).dtype, cairn.float32)
                self.assertFalse(cairn.is_autocast_enabled("cpu"))
                with cairn.autocast("cpu", dtype=cairn.bfloat16):
                    self.assertEqual((x @ x).dtype, cairn.bfloat16)
                    with cairn.autocast("cuda", enabled=False):
                        self.assertEqual((x @ x).dtype, cairn.bfloat16)
                        self.assertTrue(cairn.is_autocast_cpu_enabled())
                self.assertEqual((x @ x).dtype, cairn.float32)
        cairn.set_autocast_enabled("cpu", True)
        self.assertEqual((x @ x).dtype, cairn.bfloat16)
        cairn.set_autocast_enabled("cpu", False)
        self.assertEqual((x @ x).dtype, cairn.float32)


if __name__ == "__main__":
    unittest.main()
