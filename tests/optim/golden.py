"""Writes what PyTorch's optimisers and schedules do, for test_optim.c and test_schedule.c.

    python tests/optim/golden.py          (needs torch and safetensors)

optimisers.safetensors: the same two parameters and 20 gradients for all cases; for each case the parameters after steps
1, 5 and 20 and the state after the last; what the case is, and the groups of its state_dict, are JSON in the metadata.
adamw.pt: a checkpoint that torch.save wrote in the middle of a case: the optimiser's state and the parameters.
schedules.json: for each case the rates of two groups over 50 steps, and momenta where the schedule moves them.
Lion is not in PyTorch: it is written here by its paper (Chen et al., 2023, program 2).
"""
import json
import math
import pathlib
import warnings

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
STEPS, MARKS = 20, (1, 5, 20)
SHAPES = [(3, 4), (5,)]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(torch.sign(m * beta1 + g * (1 - beta1)), alpha=-group["lr"])
                m.mul_(beta2).add_(g, alpha=1 - beta2)


CASES = [
    ("SGD", {}), ("SGD", dict(lr=0.1, weight_decay=0.05, maximize=True)), ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    ("SGD", dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    ("SGD", dict(lr=0.05, momentum=0.8, maximize=True)),
    ("Adam", {}), ("Adam", dict(lr=0.02, betas=[0.8, 0.95], weight_decay=0.1)),
    ("Adam", dict(lr=0.02, amsgrad=True)), ("Adam", dict(lr=0.02, betas=[0.4, 0.9], maximize=True, eps=1e-3)),
    ("Adam", dict(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True)),
    ("AdamW", {}), ("AdamW", dict(lr=0.02, weight_decay=0.2, amsgrad=True, maximize=True)),
    ("RMSprop", {}), ("RMSprop", dict(lr=0.02, centered=True)), ("RMSprop", dict(lr=0.02, momentum=0.9)),
    ("RMSprop", dict(lr=0.02, alpha=0.9, momentum=0.7, centered=True, weight_decay=0.1, maximize=True)),
    ("Adagrad", {}), ("Adagrad", dict(lr=0.1, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.2)),
    ("Adagrad", dict(lr=0.1, maximize=True)),
    ("Adadelta", {}), ("Adadelta", dict(lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True)),
    ("Adamax", {}), ("Adamax", dict(lr=0.02, betas=[0.7, 0.9], weight_decay=0.1, maximize=True)),
    ("NAdam", {}), ("NAdam", dict(lr=0.02, weight_decay=0.1, momentum_decay=0.01)),
    ("NAdam", dict(lr=0.02, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("RAdam", {}), ("RAdam", dict(lr=0.02, betas=[0.9, 0.9], weight_decay=0.1)),
    ("RAdam", dict(lr=0.02, betas=[0.8, 0.95], weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("ASGD", {}), ("ASGD", dict(lr=0.1, lambd=0.01, alpha=0.5, t0=5.0, weight_decay=0.1, maximize=True)),
    ("Rprop", {}), ("Rprop", dict(lr=0.05, etas=[0.6, 1.5], step_sizes=[1e-3, 0.1], maximize=True)),
    ("Adafactor", {}), ("Adafactor", dict(lr=0.1, beta2_decay=-0.5, eps=[1e-6, 1e-2], d=2.0, weight_decay=0.1)),
    ("Adafactor", dict(maximize=True)),
    ("Muon", {}), ("Muon", dict(lr=0.02, momentum=0.8, nesterov=False, weight_decay=0.0)),
    ("Muon", dict(lr=0.02, adjust_lr_fn="match_rms_adamw", ns_steps=3)),
    ("SparseAdam", {}), ("SparseAdam", dict(lr=0.02, betas=[0.8, 0.95], maximize=True)),
    ("Lion", {}), ("Lion", dict(lr=0.01, betas=[0.8, 0.95], weight_decay=0.1, maximize=True)),
]

LBFGS_CASES = [dict(max_iter=4), dict(lr=0.5, max_iter=6, history_size=3),
               dict(max_iter=5, line_search_fn="strong_wolfe"),
               dict(lr=0.7, max_iter=8, history_size=2, line_search_fn="strong_wolfe")]


def tuples(args):
    return {k: tuple(v) if isinstance(v, list) else v for k, v in args.items()}


def plain(x):
    """A state_dict without tensors, as JSON has it."""
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def run_case(name, args, dtype, start, grads, tensors, key):
    shapes = SHAPES[:1] if name == "Muon" else SHAPES
    params = [torch.nn.Parameter(start[i].to(dtype, copy=True)) for i in range(len(shapes))]
    make = Lion if name == "Lion" else getattr(torch.optim, name)
    opt = make(params, **tuples(args))
    kept = [[] for _ in shapes]
    for step in range(STEPS):
        for i, p in enumerate(params):
            g = grads[i][step].to(dtype, copy=True)
            p.grad = g.to_sparse() if name == "SparseAdam" else g
        opt.step()
        if step + 1 == STEPS // 2 and (name, dtype, args.get("amsgrad")) == ("AdamW", torch.float32, True):
            torch.save({"case": key, "optimizer": opt.state_dict(), "params": [p.detach() for p in params]},
                       HERE / "adamw.pt")
        if step + 1 in MARKS:
            for i, p in enumerate(params):
                kept[i].append(p.detach().clone())
    for i in range(len(shapes)):
        tensors["%s.p%d" % (key, i)] = torch.stack(kept[i])
    state = opt.state_dict()
    for number, values in state["state"].items():
        for k, v in values.items():
            tensors["%s.s%d.%s" % (key, number, k)] = v.clone() if torch.is_tensor(v) else torch.tensor(float(v))
    return plain(state["param_groups"])


def run_lbfgs(args, dtype, start, tensors, key):
    a, b = tensors["lbfgs.a"].to(dtype), tensors["lbfgs.b"].to(dtype)
    params = [torch.nn.Parameter(s.to(dtype, copy=True)) for s in start]
    opt = torch.optim.LBFGS(params, **args)

    def closure():
        opt.zero_grad()
        loss = ((params[0] @ a - b) ** 2).sum() + 0.1 * (params[0] ** 4).sum() + (params[1] ** 2).sum()
        loss.backward()
        return loss

    losses, kept = [], [[], []]
    for _ in range(3):
        losses.append(opt.step(closure).detach())
        for i, p in enumerate(params):
            kept[i].append(p.detach().clone())
    tensors[key + ".loss"] = torch.stack(losses)
    for i in range(2):
        tensors["%s.p%d" % (key, i)] = torch.stack(kept[i])
    return opt.state_dict()["state"][0]["func_evals"]


def optimisers():
    torch.manual_seed(7)
    start = [torch.randn(s, dtype=torch.float64) for s in SHAPES]
    grads = [torch.randn((STEPS, *s), dtype=torch.float64) for s in SHAPES]
    for g in grads:
        g[torch.rand(g.shape) < 0.1] = 0
    # Numbers that float32 holds, so that both types start from the same.
    start, grads = [s.float().double() for s in start], [g.float().double() for g in grads]
    tensors = {"start.%d" % i: s for i, s in enumerate(start)} | {"grads.%d" % i: g for i, g in enumerate(grads)}
    tensors["lbfgs.a"], tensors["lbfgs.b"] = torch.randn(4, 6).double(), torch.randn(3, 6).double()
    cases = []
    for dtype, tag in ((torch.float32, "f32"), (torch.float64, "f64")):
        for i, (name, args) in enumerate(CASES):
            key = "%s.%d" % (tag, i)
            groups = run_case(name, args, dtype, start, grads, tensors, key)
            cases.append(dict(key=key, name=name, args=args, dtype=tag, groups=groups))
        for i, args in enumerate(LBFGS_CASES):
            key = "%s.lbfgs%d" % (tag, i)
            evals = run_lbfgs(args, dtype, start, tensors, key)
            cases.append(dict(key=key, name="LBFGS", args=args, dtype=tag, evals=evals))
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "optimisers.safetensors",
              {"cases": json.dumps(cases)})


# ---- schedules ----

SCHEDULES = [
    ("StepLR", dict(step_size=7)), ("StepLR", dict(step_size=3, gamma=0.5)),
    ("MultiStepLR", dict(milestones=[4, 10, 10, 30], gamma=0.3)),
    ("ConstantLR", {}), ("ConstantLR", dict(factor=0.25, total_iters=9)),
    ("LinearLR", {}), ("LinearLR", dict(start_factor=0.1, end_factor=0.8, total_iters=20)),
    ("ExponentialLR", dict(gamma=0.9)), ("PolynomialLR", {}), ("PolynomialLR", dict(total_iters=30, power=2.5)),
    ("CosineAnnealingLR", dict(T_max=10)), ("CosineAnnealingLR", dict(T_max=17, eta_min=0.01)),
    ("CosineAnnealingWarmRestarts", dict(T_0=7)), ("CosineAnnealingWarmRestarts", dict(T_0=5, T_mult=2, eta_min=0.001)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.2, step_size_up=6)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.2, step_size_up=4, step_size_down=7, mode="triangular2",
                      base_momentum=0.7, max_momentum=0.95)),
    ("CyclicLR", dict(base_lr=0.01, max_lr=0.2, step_size_up=5, mode="exp_range", gamma=0.97, cycle_momentum=False)),
    ("OneCycleLR", dict(max_lr=0.3, total_steps=51)),
    ("OneCycleLR", dict(max_lr=0.3, epochs=6, steps_per_epoch=9, pct_start=0.4, anneal_strategy="linear",
                        three_phase=True, base_momentum=0.8, max_momentum=0.9)),
    ("OneCycleLR", dict(max_lr=0.3, total_steps=60, cycle_momentum=False, div_factor=10.0, final_div_factor=100.0)),
    ("ReduceLROnPlateau", {}),
    ("ReduceLROnPlateau", dict(factor=0.5, patience=2, cooldown=1, min_lr=0.001, threshold=0.01)),
    ("ReduceLROnPlateau", dict(mode="max", factor=0.3, patience=3, threshold=0.05, threshold_mode="abs")),
    ("SWALR", dict(swa_lr=0.05)), ("SWALR", dict(swa_lr=0.02, anneal_epochs=20, anneal_strategy="linear")),
    ("LambdaLR", {}), ("MultiplicativeLR", {}), ("ChainedScheduler", {}), ("SequentialLR", {}), ("WarmupCosineLR", {}),
]


def metric(step):
    """A loss that falls, stalls and rises."""
    return round(2.0 - 0.1 * min(step, 12) + 0.03 * max(0, step - 30), 6)


def make_schedule(name, args, opt):
    lr = torch.optim.lr_scheduler
    if name == "LambdaLR":
        return lr.LambdaLR(opt, lambda e: 0.95 ** e)
    if name == "MultiplicativeLR":
        return lr.MultiplicativeLR(opt, lambda e: 1 - 0.5 / (e + 1))
    if name == "ChainedScheduler":
        return lr.ChainedScheduler([lr.ConstantLR(opt, factor=0.1, total_iters=8), lr.ExponentialLR(opt, gamma=0.95)])
    if name == "SequentialLR":
        parts = [lr.LinearLR(opt, start_factor=0.2, total_iters=5), lr.StepLR(opt, step_size=6, gamma=0.5),
                 lr.ExponentialLR(opt, gamma=0.9)]
        return lr.SequentialLR(opt, parts, milestones=[6, 25])
    if name == "WarmupCosineLR":  # cairn's own: a linear rise, then half a cosine
        def factor(e):
            if e < 5:
                return (e + 1) / 5
            return 0.1 + 0.9 * (1 + math.cos(math.pi * min(1, (e - 5) / 35))) / 2
        return lr.LambdaLR(opt, factor)
    if name == "SWALR":
        return torch.optim.swa_utils.SWALR(opt, **args)
    return getattr(lr, name)(opt, **args)


def run_schedule(name, args, beta):
    params = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    groups = [dict(params=[params[0]]), dict(params=[params[1]], lr=0.5)]
    opt = torch.optim.Adam(groups, lr=0.1) if beta else torch.optim.SGD(groups, lr=0.1, momentum=0.85)
    schedule = make_schedule(name, args, opt)
    rates, momenta = [], []
    for step in range(51):
        rates.append([g["lr"] for g in opt.param_groups])
        momenta.append(opt.param_groups[0]["betas"][0] if beta else opt.param_groups[0]["momentum"])
        opt.step()
        if name == "ReduceLROnPlateau":
            schedule.step(metric(step))
        elif step < 50:
            schedule.step()
    return dict(name=name, args=args, adam=beta, rates=rates, momenta=momenta)


def schedules():
    cases = [run_schedule(n, a, beta) for n, a in SCHEDULES for beta in ((False, True) if "Cycl" in n else (False,))]
    (HERE / "schedules.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    optimisers()
    schedules()
    for name in ("optimisers.safetensors", "adamw.pt", "schedules.json"):
        print("%-24s %8d bytes" % (name, (HERE / name).stat().st_size))
