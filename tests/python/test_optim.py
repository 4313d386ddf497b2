"""cairn.optim: every optimiser against torch's from the same start, groups, state in both directions, closures, hooks,
and optimisers written in Python."""
import copy
import gc
import importlib
import math
import pickle
import unittest
import warnings
import weakref

import cairn
from cases import Case

try:
    import torch
except ImportError:
    torch = None

need_torch = unittest.skipUnless(torch, "PyTorch is not installed")

# Settings beside the defaults, for each class.
SETTINGS = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2},
            {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"lr": 0.1, "maximize": True},
            {"lr": 0.1, "weight_decay": 1}],
    "Adam": [{}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}, {"weight_decay": 0.2, "amsgrad": True},
             {"maximize": True}, {"weight_decay": 0.1, "decoupled_weight_decay": True}, {"betas": [0.5, 0.99]}],
    "AdamW": [{}, {"lr": 0.05, "weight_decay": 0.3}, {"amsgrad": True, "maximize": True}, {"foreach": True}],
    "RMSprop": [{}, {"momentum": 0.9}, {"centered": True, "weight_decay": 0.1}, {"centered": True, "momentum": 0.5},
                {"alpha": 0.5, "maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5, "eps": 1e-3}],
    "Adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1}, {"lr": 0.1, "maximize": True}],
    "Adamax": [{}, {"betas": (0.5, 0.9), "weight_decay": 0.1}, {"maximize": True}],
    "NAdam": [{}, {"momentum_decay": 0.1, "weight_decay": 0.1}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{}, {"betas": (0.9, 0.9)}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "Adafactor": [{}, {"eps": (1e-5, 1e-2), "weight_decay": 0.1}, {"d": 2.0, "beta2_decay": -0.5}],
    "ASGD": [{}, {"lambd": 0.1, "t0": 5.0}, {"weight_decay": 0.1, "alpha": 0.5}],
    "Rprop": [{}, {"etas": (0.3, 1.5)}, {"step_sizes": (1e-4, 0.02)}],
    "Muon": [{"lr": 0.02}, {"nesterov": False, "weight_decay": 0.3}, {"adjust_lr_fn": "match_rms_adamw"}],
}
START = [[[0.3, -0.7, 1.1], [0.2, 0.9, -1.3]], [0.5, -0.4, 0.1]]


def part(m, name):
    return importlib.import_module(f"{m.__name__}.optim.{name}")


def start(m, dtype="float32", matrices=False):
    return [m.tensor(v, dtype=getattr(m, dtype), requires_grad=True) for v in START[:1 if matrices else 2]]


def loss_of(params, k=0):
    """Something curved that depends on the step, so that gradients change."""
    total = 0
    for i, p in enumerate(params):
        total = total + ((p - 0.1 * i) ** 2 + 0.3).sqrt().sum() + (p * 2).sin().sum() * math.sin(k + i + 1)
    return total


def train(m, name, settings, steps=20, dtype="float32", change=None):
    """The parameters after each of some steps."""
    params = start(m, dtype, name == "Muon")
    opt = getattr(m.optim, name)(params, **settings)
    seen = []
    for k in range(steps):
        opt.zero_grad()
        loss_of(params, k).backward()
        opt.step()
        if change:
            change(opt, k)
        seen.append([p.detach().tolist() for p in params])
    return seen


class Updates(Case):
    def test_all_against_torch(self):
        for name, settings in SETTINGS.items():
            for each in settings:
                for dtype, places in (("float64", 10), ("float32", 4)):
                    if name == "Muon":
                        places = 2  # bfloat16 inside
                    with self.subTest(optimiser=name, settings=each, dtype=dtype):
                        mine = train(cairn, name, each, dtype=dtype)
                        theirs = self.theirs(lambda m: train(m, name, each, dtype=dtype)[::19])
                        self.near(mine[::19], theirs, places)

    def test_all_run(self):
        for name in cairn.optim.__all__:
            cls = getattr(cairn.optim, name)
            if isinstance(cls, type) and name not in ("Optimizer", "LBFGS"):
                with self.subTest(name=name):
                    before = [p.tolist() for p in start(cairn, matrices=name == "Muon")]
                    self.assertNotEqual(train(cairn, name, {}, 1)[0], before)

    def test_lbfgs(self):
        def program(m, **settings):
            params = start(m, "float64")
            opt = m.optim.LBFGS(params, lr=0.3, max_iter=5, **settings)
            count = [0]

            def closure():
                opt.zero_grad()
                loss = loss_of(params)
                loss.backward()
                count[0] += 1
                return loss

            losses = [opt.step(closure).item() for _ in range(4)]
            state = opt.state[params[0]]
            return losses, count, [p.tolist() for p in params], state["n_iter"], state["func_evals"]

        for settings in ({}, {"line_search_fn": "strong_wolfe", "history_size": 3}):
            with self.subTest(optimiser="LBFGS", settings=settings):
                self.same(lambda m: program(m, **settings))
        with self.assertRaises(TypeError):
            cairn.optim.LBFGS(start(cairn)).step()

    @need_torch
    def test_sparse_adam_is_adam_of_touched_rows(self):
        dense = cairn.zeros(4, 2, requires_grad=True)
        opt = cairn.optim.SparseAdam([dense], lr=0.1)
        theirs = torch.zeros(4, 2, requires_grad=True)
        other = torch.optim.SparseAdam([theirs], lr=0.1)
        rows = torch.tensor([[0, 2]])
        for k in range(5):
            values = torch.full((2, 2), 1.0 + k)
            grad = torch.zeros(4, 2)
            grad[[0, 2]] = values
            dense.grad = cairn.tensor(grad.tolist())
            theirs.grad = torch.sparse_coo_tensor(rows, values, (4, 2), check_invariants=True)
            opt.step()
            other.step()
        with self.subTest(optimiser="SparseAdam"):
            self.near(dense.detach(), theirs.detach())

    def test_lion_by_hand(self):
        p = cairn.tensor([1.0, -1.0], requires_grad=True)
        opt = cairn.optim.Lion([p], lr=0.1, weight_decay=0.5)
        p.grad = cairn.tensor([3.0, -0.2])
        opt.step()
        self.near(p.detach(), [1 * 0.95 - 0.1, -1 * 0.95 + 0.1])

    def test_changes_in_between(self):
        def change(opt, k):
            group = opt.param_groups[0]
            group["lr"] = 0.1 / (k + 1)
            name = next(n for n in ("alpha", "momentum", "betas") if n in group)
            group[name] = (0.5, 0.7) if name == "betas" else 0.5
            group.update(weight_decay=0.01 * k)

        for name in ("SGD", "Adam", "RMSprop"):
            with self.subTest(name=name):
                settings = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
                self.near(train(cairn, name, settings, change=change),
                          self.theirs(lambda m: train(m, name, settings, change=change)), 4)

    def test_a_rate_that_is_a_tensor(self):
        p = cairn.ones(2, requires_grad=True)
        rate = cairn.tensor(0.5)
        opt = cairn.optim.SGD([p], lr=rate)
        p.grad = cairn.ones(2)
        opt.step()
        self.near(p.detach(), [0.5, 0.5])
        self.assertIs(opt.param_groups[0]["lr"], rate)
        rate.fill_(0.25)
        opt.step()
        self.near(p.detach(), [0.25, 0.25])

    def test_parameters_without_gradient_stay(self):
        a, b = cairn.ones(2, requires_grad=True), cairn.ones(2, requires_grad=True)
        opt = cairn.optim.Adam([a, b])
        a.sum().backward()
        opt.step()
        self.assertEqual(b.tolist(), [1, 1])
        self.assertIn(a, opt.state)
        self.assertNotIn(b, opt.state)
        self.assertEqual(len(opt.state), 1)

    def test_data_that_was_replaced(self):
        p = cairn.ones(2, requires_grad=True)
        opt = cairn.optim.SGD([p], lr=1.0, momentum=0.9)
        p.grad = cairn.ones(2)
        opt.step()
        p.data = cairn.tensor([5.0, 6.0])
        p.grad = cairn.ones(2)
        opt.step()
        self.near(p.detach(), [5 - 1.9, 6 - 1.9])


class Groups(Case):
    def test_objects_stay(self):
        a, b = start(cairn)
        opt = cairn.optim.SGD([{"params": [a], "lr": 0.5}, {"params": b}], lr=0.1, momentum=0.9)
        self.assertIs(opt.param_groups[0]["params"][0], a)
        self.assertIs(opt.param_groups[1]["params"][0], b)
        self.assertEqual([g["lr"] for g in opt.param_groups], [0.5, 0.1])
        self.assertEqual(opt.defaults["momentum"], 0.9)
        opt.param_groups[1]["note"] = {"any": object}
        self.assertEqual(opt.param_groups[1]["note"], {"any": object})

    def test_settings_of_groups(self):
        def program(m):
            a, b = start(m)
            c = m.ones(2, requires_grad=True)
            opt = m.optim.SGD([{"params": [a], "lr": 0.5, "nesterov": True, "momentum": 0.9},
                               {"params": b, "weight_decay": 0.3}], lr=0.1)
            opt.add_param_group({"params": [c], "lr": 0.01, "momentum": 0.5})
            for k in range(5):
                opt.zero_grad()
                loss_of([a, b, c], k).backward()
                opt.step()
            return [a.detach(), b.detach(), c.detach(), [sorted(g) for g in opt.param_groups]]

        self.same(program)

    def test_named_parameters(self):
        def program(m):
            a, b = start(m)
            opt = m.optim.Adam([("a", a), ("b", b)])
            saved = opt.state_dict()["param_groups"][0]
            return opt.param_groups[0]["param_names"], len(opt.param_groups[0]["params"]), saved["param_names"]

        self.same(program)

    def test_errors(self):
        def value(f):
            self.fails(f, ValueError)

        value(lambda m: m.optim.SGD([]))
        value(lambda m: m.optim.SGD(start(m), lr=-1))
        value(lambda m: m.optim.SGD(start(m), nesterov=True))
        value(lambda m: m.optim.Adam(start(m), betas=(1.0, 0.9)))
        value(lambda m: m.optim.Adam(start(m), eps=-1))
        value(lambda m: m.optim.AdamW(start(m), weight_decay=-1))
        value(lambda m: m.optim.RMSprop(start(m), momentum=-1))
        value(lambda m: m.optim.Adadelta(start(m), rho=2.0))
        value(lambda m: m.optim.Muon([m.ones(3, requires_grad=True)]))
        value(lambda m: m.optim.SGD([m.ones(2, requires_grad=True) * 2]))
        value(lambda m: m.optim.LBFGS([{"params": [p]} for p in start(m)]))
        for wrong in (lambda m: m.ones(2), lambda m: ["x"], lambda m: [1], lambda m: [{"params": set(start(m))}]):
            self.fails(lambda m: m.optim.SGD(wrong(m)), TypeError)

        def twice(m):
            a, b = start(m)
            m.optim.SGD([{"params": [a, b]}, {"params": [b]}])

        value(twice)
        with self.assertRaises(TypeError):
            cairn.optim.SGD(start(cairn), no_such=1)
        with self.assertRaises(ValueError):
            cairn.optim.SGD(start(cairn)).param_groups[0]["momentum"] = -1

    def test_repr(self):
        def program(m):
            a, b = start(m)
            return [repr(getattr(m.optim, name)([{"params": [a]}, {"params": [b], "lr": 1}], lr=0.25))
                    for name in ("SGD", "Adam", "RMSprop", "Adadelta")]

        self.same(program)

    def test_zero_grad(self):
        def program(m):
            a, b = start(m)
            opt = m.optim.SGD([a, b])
            loss_of([a, b]).backward()
            opt.zero_grad(set_to_none=False)
            zeros = a.grad.abs().sum().item(), b.grad.abs().sum().item()
            opt.zero_grad()
            return zeros, a.grad is None

        self.same(program)


class Closures(Case):
    def test_the_loss_comes_back(self):
        def program(m):
            params = start(m)
            opt = m.optim.SGD(params, lr=0.1)

            def closure():
                opt.zero_grad()
                loss = loss_of(params)
                loss.backward()
                return loss

            with m.no_grad():
                first = opt.step(closure)
            return first.item(), opt.step(closure).item(), opt.step() is None

        self.same(program)

    def test_exceptions_pass(self):
        for name in ("SGD", "LBFGS"):
            opt = getattr(cairn.optim, name)(start(cairn))

            def closure():
                raise KeyError("mine")

            with self.assertRaisesRegex(KeyError, "mine"):
                opt.step(closure)

    def test_hooks(self):
        def program(m):
            params = start(m)
            opt = m.optim.SGD(params, lr=0.1)
            seen = []
            first = opt.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
            opt.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
            every = part(m, "optimizer").register_optimizer_step_post_hook(lambda o, a, k: seen.append("all"))
            opt.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1})
            opt.register_load_state_dict_pre_hook(lambda o, s: seen.append("load"))
            loss_of(params).backward()
            opt.step()
            first.remove()
            opt.step()
            every.remove()
            opt.step()
            saved = opt.state_dict()
            opt.load_state_dict(saved)
            return seen, saved["extra"]

        self.same(program)


class States(Case):
    def convert(self, value, to):
        """A state dict of one library with tensors of the other."""
        if isinstance(value, (cairn.Tensor,) + ((torch.Tensor,) if torch else ())):
            return to.tensor(value.tolist(), dtype=getattr(to, str(value.dtype).split(".")[-1]))
        if isinstance(value, dict):
            return {k: self.convert(v, to) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.convert(v, to) for v in value)
        return value

    def names(self, value):
        """The structure, without numbers."""
        if isinstance(value, dict):
            return {k: self.names(v) for k, v in value.items()}
        return [self.names(v) for v in value] if isinstance(value, list) else type(value).__name__

    def run_both(self, name, settings):
        made = []
        for m in (cairn, torch):
            params = start(m, "float64", name == "Muon")
            opt = getattr(m.optim, name)(params, **settings)

            def closure(opt=opt, params=params):
                opt.zero_grad()
                loss = loss_of(params, 3)
                loss.backward()
                return loss

            for _ in range(3):
                opt.step(closure)
            made.append((params, opt, closure))
        return made

    @need_torch
    def test_both_ways(self):
        cases = [(n, s[-1]) for n, s in SETTINGS.items()] + [("LBFGS", {"max_iter": 3})]
        for name, settings in cases:
            with self.subTest(name=name):
                (p, mine, closure), (q, theirs, other) = self.run_both(name, settings)
                ours, saved = mine.state_dict(), theirs.state_dict()
                self.assertEqual(list(ours["param_groups"][0]), list(saved["param_groups"][0]))
                for state in saved["state"].values():
                    state.pop("al", None)  # LBFGS: room for a step, no state
                self.assertEqual(self.keys(ours["state"]), self.keys(saved["state"]))
                mine.load_state_dict(self.convert(saved, cairn))
                theirs.load_state_dict(self.convert(ours, torch))
                mine.step(closure)
                theirs.step(other)
                for a, b in zip(p, q):
                    self.near(a.detach(), b.detach(), 2 if name == "Muon" else 7)

    @staticmethod
    def keys(state):
        return {k: sorted(v) for k, v in state.items()}

    @need_torch
    def test_torchs_tensors_load(self):
        (p, mine, closure), (q, theirs, other) = self.run_both("Adam", {})
        mine.load_state_dict(theirs.state_dict())
        self.near(mine.state[p[0]]["exp_avg"], theirs.state[q[0]]["exp_avg"])
        self.assertIsInstance(mine.state[p[0]]["exp_avg"], cairn.Tensor)

    def test_a_state_goes_on(self):
        a, b = start(cairn), start(cairn)
        one, two = cairn.optim.AdamW(a, lr=0.1), cairn.optim.AdamW(b, lr=7.0)
        one.param_groups[0]["mine"] = "kept"
        for _ in range(3):
            loss_of(a).backward()
            one.step()
        two.load_state_dict(copy.deepcopy(one.state_dict()))
        self.assertEqual((two.param_groups[0]["lr"], two.param_groups[0]["mine"]), (0.1, "kept"))
        for x, y in zip(a, b):
            y.data = x.detach().clone()
            x.grad = y.grad = None
            self.assertEqual(one.state[x]["exp_avg"].tolist(), two.state[y]["exp_avg"].tolist())
            self.assertIsNot(one.state[x]["exp_avg"], two.state[y]["exp_avg"])
        for params, opt in ((a, one), (b, two)):
            loss_of(params).backward()
            opt.step()
        self.assertEqual([p.tolist() for p in a], [p.tolist() for p in b])

    def test_bad_states(self):
        opt = cairn.optim.SGD(start(cairn))
        good = opt.state_dict()
        with self.assertRaises(ValueError):
            opt.load_state_dict({"state": {}, "param_groups": []})
        with self.assertRaises(ValueError):
            opt.load_state_dict({"state": {}, "param_groups": [{**good["param_groups"][0], "params": [0]}]})

    def test_state_is_live(self):
        params = start(cairn)
        opt = cairn.optim.SGD(params, lr=0.1, momentum=0.9)
        p = params[0]
        self.assertEqual((dict(opt.state), opt.state.get(p)), ({}, None))
        loss_of(params).backward()
        opt.step()
        buffer = opt.state[p]["momentum_buffer"]
        self.assertIs(opt.state[p]["momentum_buffer"], buffer)
        self.near(buffer, p.grad)
        opt.step()
        self.near(buffer, p.grad * 1.9)
        buffer.zero_()
        opt.step()
        self.near(buffer, p.grad)
        opt.state[p]["momentum_buffer"] = cairn.zeros_like(p)
        opt.step()
        self.near(opt.state[p]["momentum_buffer"], p.grad)
        self.assertEqual([id(k) for k in opt.state], [id(x) for x in params])
        opt.state.clear()
        self.assertEqual(len(opt.state), 0)
        opt.step()
        self.near(opt.state[p]["momentum_buffer"], p.grad)
        del opt.state[p]
        self.assertNotIn(p, opt.state)

    def test_copies(self):
        params = start(cairn)
        opt = cairn.optim.Adam(params, lr=0.1)
        loss_of(params).backward()
        opt.step()
        again = copy.deepcopy({"params": params, "opt": opt})
        twin, other = again["opt"], again["params"]
        self.assertIs(twin.param_groups[0]["params"][0], other[0])
        self.near(twin.state[other[0]]["exp_avg"], opt.state[params[0]]["exp_avg"])
        for ps, o in ((params, opt), (other, twin)):
            o.zero_grad()
            loss_of(ps).backward()
            o.step()
        self.near(params[0].detach(), other[0].detach())
        loaded = pickle.loads(pickle.dumps(opt))
        self.assertEqual(loaded.param_groups[0]["lr"], 0.1)

    def test_nothing_is_kept_alive(self):
        params = start(cairn)
        opt = cairn.optim.Adam(params)
        loss_of(params).backward()
        opt.step()
        len(opt.state)
        gone = weakref.ref(opt)
        del opt
        gc.collect()
        self.assertIsNone(gone())


def own_optimizer(m):
    class Momentum(m.optim.Optimizer):
        def __init__(self, params, lr=part(m, "optimizer").required, momentum=0.9):
            super().__init__(params, {"lr": lr, "momentum": momentum})

        @m.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with m.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"], state["buffer"] = 0, m.zeros_like(p)
                    state["step"] += 1
                    state["buffer"].mul_(group["momentum"]).add_(p.grad)
                    p.add_(state["buffer"], alpha=-group["lr"])
            return loss

    return Momentum


class Own(Case):
    def test_in_python(self):
        def program(m):
            params = start(m, "float64")
            opt = own_optimizer(m)([{"params": params[:1]}, {"params": params[1:], "lr": 0.01}], lr=0.05)
            for k in range(10):
                opt.zero_grad()
                loss_of(params, k).backward()
                opt.step()
            saved = opt.state_dict()
            again = own_optimizer(m)([{"params": params[:1]}, {"params": params[1:]}], lr=1.0)
            again.load_state_dict(saved)
            again.step()
            return ([p.detach() for p in params], list(saved["state"]), saved["state"][0]["step"],
                    again.state[params[1]]["step"], again.param_groups[1]["lr"], repr(again))

        self.same(program)

    def test_required(self):
        self.fails(lambda m: own_optimizer(m)(start(m)), (ValueError, KeyError, TypeError))

    def test_with_schedules_and_scaling(self):
        def program(m):
            params = start(m)
            opt = own_optimizer(m)(params, lr=0.1)
            schedule = m.optim.lr_scheduler.OneCycleLR(opt, 0.5, total_steps=12)
            seen = []
            for k in range(10):
                opt.zero_grad()
                loss_of(params, k).backward()
                opt.step()
                schedule.step()
                seen.append([opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"]])
            return seen, [p.detach() for p in params]

        self.same(program)

    def test_a_child_of_adam(self):
        def program(m):
            class Clipped(m.optim.Adam):
                def step(self, closure=None):
                    for group in self.param_groups:
                        for p in group["params"]:
                            p.grad.clamp_(-0.1, 0.1)
                    return super().step(closure)

            params = start(m)
            opt = Clipped(params, lr=0.1)
            count = []
            opt.register_step_post_hook(lambda *a: count.append(1))
            loss_of(params).backward()
            opt.step()
            return [p.detach() for p in params], opt.state[params[0]]["exp_avg"]

        self.same(program)

    def test_duplicates_warn(self):
        p = cairn.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            cairn.optim.SGD([p, p])
        self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    unittest.main()
