"""cairn.optim.lr_scheduler: every schedule against torch's over 30 steps, with groups; states, resuming, combinations,
and schedules written in Python."""
import importlib
import math
import unittest
import warnings

import cairn
from cases import Case

try:
    import torch
except ImportError:
    torch = None

# Libraries that a state goes from and to.
PAIRS = [(cairn, cairn)] + ([(torch, cairn), (cairn, torch)] if torch else [])


class Quiet(Case):
    def setUp(self):
        warnings.filterwarnings("ignore", category=UserWarning)  # about the order of steps


def schedules(m):
    return importlib.import_module(m.__name__ + ".optim.lr_scheduler")


def averages(m):
    return importlib.import_module(m.__name__ + ".optim.swa_utils")


def optimizer(m, name="SGD", **settings):
    if name == "SGD":
        settings.setdefault("momentum", 0.9)
    return getattr(m.optim, name)([{"params": [m.ones(2, requires_grad=True)], "lr": 0.5},
                                   {"params": [m.ones(3, requires_grad=True)]}], lr=0.1, **settings)


def rates(opt):
    """What schedules may move."""
    return [[float(g["lr"]), g.get("momentum"), list(g["betas"]) if "betas" in g else None] for g in opt.param_groups]


# Each makes a schedule from (L: the module, opt).
MAKERS = {
    "step": lambda L, o: L.StepLR(o, 3),
    "step gamma": lambda L, o: L.StepLR(o, step_size=4, gamma=0.5),
    "multi step": lambda L, o: L.MultiStepLR(o, [2, 5, 5, 20], gamma=0.3),
    "constant": lambda L, o: L.ConstantLR(o, factor=0.5, total_iters=4),
    "linear": lambda L, o: L.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=10),
    "exponential": lambda L, o: L.ExponentialLR(o, 0.9),
    "polynomial": lambda L, o: L.PolynomialLR(o, total_iters=12, power=2.0),
    "cosine": lambda L, o: L.CosineAnnealingLR(o, T_max=7, eta_min=0.01),
    "restarts": lambda L, o: L.CosineAnnealingWarmRestarts(o, 4, T_mult=2, eta_min=0.001),
    "restarts once": lambda L, o: L.CosineAnnealingWarmRestarts(o, 5),
    "cyclic": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=5),
    "cyclic 2": lambda L, o: L.CyclicLR(o, 0.01, 0.1, 3, 4, mode="triangular2", cycle_momentum=False),
    "cyclic exp": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=4, mode="exp_range", gamma=0.95),
    "cyclic lists": lambda L, o: L.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], step_size_up=5, base_momentum=[0.7, 0.75],
                                            max_momentum=[0.9, 0.95]),
    "cyclic scale": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 0.7**x),
    "cyclic scale epochs": lambda L, o: L.CyclicLR(o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 1 / (1 + x),
                                                   scale_mode="iterations"),
    "one cycle": lambda L, o: L.OneCycleLR(o, 0.3, total_steps=31),
    "one cycle epochs": lambda L, o: L.OneCycleLR(o, max_lr=0.3, epochs=8, steps_per_epoch=4, anneal_strategy="linear"),
    "one cycle three": lambda L, o: L.OneCycleLR(o, 0.3, total_steps=35, three_phase=True, div_factor=10),
    "one cycle lists": lambda L, o: L.OneCycleLR(o, [0.3, 0.7], total_steps=31, base_momentum=[0.8, 0.7]),
    "lambda": lambda L, o: L.LambdaLR(o, lambda e: 1 / (e + 1)),
    "lambdas": lambda L, o: L.LambdaLR(o, [lambda e: 0.9**e, lambda e: min(1.0, (e + 1) / 10)]),
    "multiplicative": lambda L, o: L.MultiplicativeLR(o, lambda e: 0.95),
    "multiplicatives": lambda L, o: L.MultiplicativeLR(o, [lambda e: 0.95, lambda e: 1 / (1 + 0.1 * e)]),
    "chained": lambda L, o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)]),
    "sequential": lambda L, o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)], milestones=[5]),
    "warm up": lambda L, o: L.SequentialLR(o, [L.LinearLR(o, 0.01, total_iters=5), L.CosineAnnealingLR(o, 20)], [5]),
    "three": lambda L, o: L.SequentialLR(o, [L.LinearLR(o, 0.1, total_iters=4), L.StepLR(o, 3), L.LambdaLR(
        o, lambda e: 0.5**e)], [4, 15]),
    "nested": lambda L, o: L.SequentialLR(o, [L.ChainedScheduler([L.LinearLR(o), L.ExponentialLR(o, 0.9)]),
                                              L.PolynomialLR(o, 10)], [8]),
}


class Against(Quiet):
    def run_one(self, m, make, opt_name="SGD", steps=30):
        opt = optimizer(m, opt_name)
        schedule = make(schedules(m), opt)
        seen = [rates(opt)]
        for _ in range(steps):
            opt.step()
            schedule.step()
            seen.append([rates(opt), schedule.get_last_lr(), schedule.last_epoch if hasattr(schedule, "last_epoch")
                         and type(schedule).__name__ != "ChainedScheduler" else None])
        return seen, [g["initial_lr"] for g in opt.param_groups]

    def test_all(self):
        for name, make in MAKERS.items():
            for opt_name in ("SGD", "AdamW"):
                made = type(make(schedules(cairn), optimizer(cairn, opt_name)))
                with self.subTest(name, schedule=made.__name__, optimizer=opt_name):
                    self.near(self.run_one(cairn, make, opt_name),
                              self.theirs(lambda m: self.run_one(m, make, opt_name)), 12)

    def test_plateau(self):
        metrics = [1.0, 0.9, 0.9, 0.91, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.4] + [0.4] * 18

        def program(m, **settings):
            opt = optimizer(m)
            schedule = schedules(m).ReduceLROnPlateau(opt, patience=1, **settings)
            seen = []
            for k, metric in enumerate(metrics):
                schedule.step(m.tensor(metric) if k % 2 else metric)
                seen.append([rates(opt), schedule.best, schedule.num_bad_epochs, schedule.get_last_lr()])
            return seen

        for settings in ({}, {"factor": 0.5, "cooldown": 2}, {"mode": "max"}, {"min_lr": [0.05, 0.01]},
                         {"threshold_mode": "abs", "threshold": 0.05, "min_lr": 0.02}):
            with self.subTest(schedule="ReduceLROnPlateau", settings=settings):
                mine, theirs = program(cairn, **settings), self.theirs(lambda m: program(m, **settings))
                self.near([r[0] for r in mine], [r[0] for r in theirs], 12)
                self.assertEqual([r[2] for r in mine], [r[2] for r in theirs])
                self.near([r[1] for r in mine], [float(r[1]) for r in theirs])

    def test_swa_lr(self):
        def program(m, **settings):
            opt = optimizer(m)
            schedule = averages(m).SWALR(opt, **settings)
            seen = []
            for _ in range(12):
                schedule.step()
                seen.append(rates(opt))
            return seen

        for settings in ({"swa_lr": 0.05}, {"swa_lr": [0.05, 0.01], "anneal_epochs": 5, "anneal_strategy": "linear"}):
            self.same(lambda m: program(m, **settings))

    def test_errors(self):
        def value(make):
            self.fails(lambda m: make(schedules(m), optimizer(m)), ValueError)

        value(lambda L, o: L.OneCycleLR(o, 0.1))
        value(lambda L, o: L.OneCycleLR(o, 0.1, total_steps=10, pct_start=2.0))
        value(lambda L, o: L.OneCycleLR(o, [0.1], total_steps=10))
        value(lambda L, o: L.CyclicLR(o, 0.1, 0.2, mode="none"))
        value(lambda L, o: L.ReduceLROnPlateau(o, factor=1.0))
        value(lambda L, o: L.ReduceLROnPlateau(o, mode="none"))
        value(lambda L, o: L.LambdaLR(o, [lambda e: 1.0]))
        value(lambda L, o: L.ConstantLR(o, factor=2.0))
        value(lambda L, o: L.LinearLR(o, start_factor=0))
        value(lambda L, o: L.CosineAnnealingWarmRestarts(o, 0))
        value(lambda L, o: L.SequentialLR(o, [L.StepLR(o, 3)], [1, 2]))
        value(lambda L, o: L.SequentialLR(o, [], []))
        self.fails(lambda m: schedules(m).StepLR(m.ones(2), 3), TypeError)
        self.fails(lambda m: schedules(m).StepLR(optimizer(m), 3, last_epoch=4), KeyError)

        def too_far(L, o):
            s = L.OneCycleLR(o, 0.1, total_steps=3)
            for _ in range(5):
                s.step()

        value(too_far)

        def foreign(L, o):
            other = type(o)([o.param_groups[0]["params"][0]], lr=0.1)
            L.ChainedScheduler([L.StepLR(o, 3), L.StepLR(other, 3)])

        value(foreign)


class Looking(Quiet):
    def test_attributes(self):
        opt = optimizer(cairn)
        s = cairn.optim.lr_scheduler.StepLR(opt, 3, gamma=0.5)
        self.assertIs(s.optimizer, opt)
        self.assertEqual((s.step_size, s.gamma, s.last_epoch, s.base_lrs, s._step_count), (3, 0.5, 0, [0.5, 0.1], 1))
        s.gamma = 0.1
        for _ in range(3):
            s.step()
        self.near(opt.param_groups[0]["lr"], 0.05)
        s.last_epoch = 10
        self.assertEqual(s.last_epoch, 10)
        with self.assertRaises(AttributeError):
            s.no_such

    def test_order_warns(self):
        opt = optimizer(cairn)
        s = cairn.optim.lr_scheduler.StepLR(opt, 3)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            s.step()
        self.assertEqual(len(seen), 1)

    def test_epochs(self):
        def program(m):
            L = schedules(m)
            opt = optimizer(m)
            s = L.CosineAnnealingWarmRestarts(opt, 3, T_mult=2)
            seen = []
            for k in range(40):
                s.step(k / 4)
                seen.append([rates(opt), s.last_epoch])
            one, two = optimizer(m), optimizer(m)
            steps, line = L.StepLR(one, 3), L.LinearLR(two, total_iters=8)
            for k in (5, 2, 9):
                steps.step(k)
                line.step(k)
                seen.append([rates(one), rates(two)])
            return seen

        self.same(program)

    def test_a_rate_set_by_hand(self):
        def program(m):
            opt = optimizer(m)
            s = schedules(m).ExponentialLR(opt, 0.5)
            s.step()
            opt.param_groups[0]["lr"] = 8.0
            s.step()
            return rates(opt), s.get_last_lr()

        self.same(program)

    def test_groups_that_come_later(self):
        def program(m):
            opt = optimizer(m)
            s = schedules(m).StepLR(opt, 2)
            s.step()
            opt.add_param_group({"params": [m.ones(1, requires_grad=True)], "lr": 0.9})
            s.step()
            return rates(opt), s.get_last_lr()

        self.same(program)

    def test_tensor_rates(self):
        def program(m):
            opt = m.optim.SGD([m.ones(2, requires_grad=True)], lr=m.tensor(0.5))
            rate = opt.param_groups[0]["lr"]
            s = schedules(m).StepLR(opt, 1, 0.5)
            s.step()
            return opt.param_groups[0]["lr"] is rate, float(rate)

        self.same(program)

    def test_a_failing_function(self):
        def bad(epoch):
            if epoch == 2:
                raise KeyError("mine")
            return 1.0

        s = cairn.optim.lr_scheduler.LambdaLR(optimizer(cairn), bad)
        s.step()
        with self.assertRaisesRegex(KeyError, "mine"):
            s.step()


class States(Quiet):
    def test_both_ways(self):
        """Half the way in one library, the rest in the other."""
        for name, make in MAKERS.items():
            if name in ("lambdas",):
                continue
            with self.subTest(name=name):
                whole = self.theirs(lambda m: self.halves(m, m, make))
                for one, two in PAIRS:
                    self.near(self.halves(one, two, make), whole, 12)

    def halves(self, one, two, make):
        opt = optimizer(one)
        s = make(schedules(one), opt)
        for _ in range(9):
            s.step()
        saved, whole = s.state_dict(), opt.state_dict()
        other = optimizer(two)
        t = make(schedules(two), other)
        other.load_state_dict(whole)
        t.load_state_dict(saved)
        seen = [t.get_last_lr()]
        for _ in range(9):
            t.step()
            seen.append(rates(other))
        return seen

    def test_resume_by_epoch(self):
        def program(m):
            L, opt = schedules(m), optimizer(m)
            for g in opt.param_groups:
                g["initial_lr"] = g["lr"]
            s = L.CosineAnnealingLR(opt, 10, last_epoch=4)
            seen = [rates(opt)]
            for _ in range(4):
                s.step()
                seen.append(rates(opt))
            line = L.LambdaLR(opt, lambda e: 1 / (e + 1), last_epoch=6)
            return seen, rates(opt), line.last_epoch

        self.same(program)

    def test_plateau(self):
        def program(one, two):
            opt = optimizer(one)
            s = schedules(one).ReduceLROnPlateau(opt, patience=2, factor=0.5)
            for metric in (1.0, 1.0, 1.0):
                s.step(metric)
            other = optimizer(two)
            t = schedules(two).ReduceLROnPlateau(other)
            t.load_state_dict(s.state_dict())
            for metric in (1.0, 1.0, 1.0, 1.0):
                t.step(metric)
            return [g["lr"] for g in other.param_groups]

        whole = self.theirs(lambda m: program(m, m))
        for a, b in PAIRS:
            self.near(program(a, b), whole)

    def test_callable_objects(self):
        def program(m):
            class Factor:
                def __init__(self):
                    self.calls = 0

                def __call__(self, epoch):
                    self.calls += 1
                    return 1.0

            opt = optimizer(m)
            s = schedules(m).LambdaLR(opt, Factor())
            s.step()
            saved = s.state_dict()
            t = schedules(m).LambdaLR(optimizer(m), Factor())
            t.load_state_dict(saved)
            return saved["lr_lambdas"][0], t.lr_lambdas[0].calls

        self.same(program)


def own_schedule(m):
    class Warmup(schedules(m).LRScheduler):
        def __init__(self, optimizer, warmup, decay, last_epoch=-1):
            self.warmup, self.decay = warmup, decay
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            if self.last_epoch < self.warmup:
                return [base * (self.last_epoch + 1) / self.warmup for base in self.base_lrs]
            return [g["lr"] * self.decay for g in self.optimizer.param_groups]

    return Warmup


class Own(Quiet):
    def run_both(self, make, steps=15):
        def program(m):
            opt = optimizer(m)
            s = make(m, schedules(m), own_schedule(m), opt)
            seen = [rates(opt)]
            for _ in range(steps):
                s.step()
                seen.append([rates(opt), s.get_last_lr()])
            return seen

        self.same(program)

    def test_alone(self):
        self.run_both(lambda m, L, W, o: W(o, 4, 0.9))

    def test_in_others(self):
        self.run_both(lambda m, L, W, o: L.SequentialLR(o, [W(o, 4, 0.9), L.StepLR(o, 2, 0.5)], [6]))
        self.run_both(lambda m, L, W, o: L.SequentialLR(o, [L.StepLR(o, 2, 0.5), W(o, 4, 0.9)], [6]))
        self.run_both(lambda m, L, W, o: L.ChainedScheduler([L.StepLR(o, 2, 0.5), W(o, 4, 0.9)]))

    def test_state(self):
        def program(m):
            opt = optimizer(m)
            s = own_schedule(m)(opt, 4, 0.9)
            for _ in range(6):
                s.step()
            t = own_schedule(m)(optimizer(m), 9, 0.1)
            t.load_state_dict(s.state_dict())
            return t.warmup, t.decay, t.last_epoch, t.get_last_lr(), s.state_dict()["warmup"]

        self.same(program)

    def test_own_step(self):
        """A schedule of the kind that older programs have: no base class, or a step of its own."""
        def program(m):
            class Noam:
                def __init__(self, optimizer, size, warmup):
                    self.optimizer, self.size, self.warmup, self.count = optimizer, size, warmup, 0

                def step(self):
                    self.count += 1
                    lr = self.size**-0.5 * min(self.count**-0.5, self.count * self.warmup**-1.5)
                    for g in self.optimizer.param_groups:
                        g["lr"] = lr
                    self.optimizer.step()

            class Half(schedules(m)._LRScheduler):
                def get_lr(self):
                    return [base * 0.5**self.last_epoch for base in self.base_lrs]

                def step(self, epoch=None):
                    self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
                    for g, lr in zip(self.optimizer.param_groups, self.get_lr()):
                        g["lr"] = lr

            one, two = optimizer(m), optimizer(m)
            noam, half = Noam(one, 64, 3), Half(two)
            seen = []
            for _ in range(5):
                noam.step()
                half.step()
                seen.append([rates(one), rates(two), half.last_epoch])
            return seen

        self.same(program)

    def test_warmup_cosine(self):
        opt = optimizer(cairn)
        s = cairn.optim.lr_scheduler.WarmupCosineLR(opt, 4, 12, min_factor=0.1)
        self.near(opt.param_groups[0]["lr"], 0.125)
        for _ in range(12):
            s.step()
        self.near(opt.param_groups[0]["lr"], 0.05)
        self.assertTrue(math.isfinite(s.get_last_lr()[1]))


if __name__ == "__main__":
    unittest.main()
