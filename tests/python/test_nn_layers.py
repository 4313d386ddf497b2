"""Every layer of cairn.nn against torch's: the same state in both, then results, gradients of inputs and parameters,
buffers after the call, text, names in the state dictionary and attributes, in training and evaluation mode.

The cases are those that the C library's golden files are made of (tests/nn/cases_*.py). A class that no case makes
fails the test, so a new layer needs no edit here, only its cases there.
"""
import copy
import importlib
import inspect
import os
import pathlib
import sys
import unittest
import warnings

import cairn
from cairn import nn

try:
    import numpy
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE.parent / "nn"
# Classes of cairn alone, and containers, which hold what the program puts in (test_nn_module.py).
NOT_HERE = {"Residual", "Parallel", "Sequential", "ModuleList", "ModuleDict"}
# Attributes of torch that say how it computes.
INNER = {"training", "activation_relu_or_gelu", "use_nested_tensor", "options", "enable_nested_tensor", "mask_check",
         "process_group"}


def ours(value):
    """A value of a case as cairn's functions take it."""
    import golden
    if isinstance(value, torch.Tensor):
        made = cairn.from_numpy(value.detach().to(torch.float32).numpy().copy()).to(cairn.bfloat16) \
            if value.dtype == torch.bfloat16 else cairn.from_numpy(value.detach().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, golden.M):
        return getattr(nn, value.cls)(**{k: ours(v) for k, v in value.make.items()})
    if isinstance(value, torch.dtype):
        return getattr(cairn, str(value).replace("torch.", ""))
    if isinstance(value, (list, tuple)):
        return tuple(ours(v) for v in value)
    return value


def flat(result):
    if isinstance(result, nn.utils.rnn.PackedSequence):
        return [result.data, result.batch_sizes]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return [result]


class Names:
    """While C's cases run with cairn, the names of torch in their file mean cairn's."""

    def __init__(self, family):
        self.space = sys.modules["cases_" + family].__dict__

    def __enter__(self):
        self.saved = dict(self.space)
        swap = {"torch": cairn, "PackedSequence": nn.utils.rnn.PackedSequence, "nn": nn, "F": nn.functional}
        self.space.update({k: v for k, v in swap.items() if k in self.space})

    def __exit__(self, *unused):
        self.space.update(self.saved)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(CASES))
        sys.dont_write_bytecode = True
        warnings.simplefilter("ignore")
        import golden
        cls.golden = golden
        cls.families = {f: importlib.import_module("cases_" + f).CASES for f in golden.families()}

    def near(self, have, want, tol, what):
        if want is None:
            self.assertIsNone(have, what)
            return
        self.assertIsNotNone(have, what)
        have, want = (t.detach().to_dense() if t.is_sparse else t for t in (have, want))
        a = have.detach().to(cairn.float64 if have.is_floating_point() else have.dtype).numpy()
        b = want.detach().double().numpy() if want.is_floating_point() else want.numpy()
        self.assertEqual(a.shape, b.shape, what)
        scale = max(1.0, float(numpy.abs(b[numpy.isfinite(b)]).max()) if numpy.isfinite(b).any() else 1.0)
        both = numpy.isfinite(a) & numpy.isfinite(b)
        self.assertTrue(numpy.array_equal(numpy.isfinite(a), numpy.isfinite(b)), what)
        if both.any():
            self.assertLessEqual(float(numpy.abs(a[both] - b[both]).max()) / scale, tol, what)

    def made(self, case):
        """The module in both libraries, with the same state, and the arguments of its call."""
        g = self.golden
        make, values = g.drawn(case, case.make, "make"), g.drawn(case, case.call, "call")
        theirs = getattr(torch.nn, case.cls)(**{k: g.build(v) for k, v in make.items()})
        if case.move:
            g.moved(theirs, case)
        mine = getattr(nn, case.cls)(**{k: ours(v) for k, v in make.items()})
        have, want = list(mine.state_dict()), list(theirs.state_dict())
        self.assertEqual(have, want)
        self.assertEqual([k for k, _ in mine.named_parameters()], [k for k, _ in theirs.named_parameters()])
        self.assertEqual([k for k, _ in mine.named_buffers()], [k for k, _ in theirs.named_buffers()])
        mine.load_state_dict({k: ours(v) for k, v in theirs.state_dict().items()})
        return mine, theirs, values

    def compare(self, family, case, mode, mine, theirs, values):
        g = self.golden
        g.Run.before = {k: v.clone() for k, v in theirs.state_dict().items()}
        want = g.Run(case, theirs, values, mode)
        module = copy.deepcopy(mine).train(mode == "train")
        leaves = {k: ours(v).requires_grad_(k not in case.fixed) for k, v in values.items()
                  if isinstance(v, torch.Tensor) and v.is_floating_point()}
        given = {k: leaves[k].clone() if k in leaves else ours(v) for k, v in values.items()}
        with Names(family):
            out = flat(case.run(module, given))
        self.assertEqual(len(out), len(want.out))
        tol = max(case.tol, 2e-5)
        for k, (a, b) in enumerate(zip(out, want.out)):
            self.near(a, b, tol, "result %d" % k)
        pairs = [(t, ours(c)) for t, c in zip(out, want.cots) if c is not None]
        if pairs:
            cairn.autograd.backward([t for t, _ in pairs], [c for _, c in pairs])
        for k, grad in want.gin.items():
            self.near(leaves[k].grad, grad, tol, "gradient of " + k)
        parameters = dict(module.named_parameters())
        self.assertEqual({k for k, p in parameters.items() if p.grad is not None}, set(want.grad))
        for k, grad in want.grad.items():
            self.near(parameters[k].grad, grad, tol, "gradient of " + k)
        state = module.state_dict()
        for k, value in want.module.state_dict().items():
            self.near(state[k], value, tol, k)

    def attributes(self, mine, theirs):
        """What torch keeps of its settings, programs read."""
        for name, want in vars(theirs).items():
            if name[0] == "_" or name in INNER or isinstance(want, torch.nn.Module):
                continue
            self.assertTrue(hasattr(mine, name), "no attribute " + name)
            have = getattr(mine, name)
            if callable(want) or isinstance(want, torch.Tensor):
                continue
            if want is not None and not isinstance(want, (int, float, str, tuple, list, bool)):
                continue
            self.assertEqual((name, have), (name, want))
            if isinstance(want, (tuple, list)):
                self.assertIsInstance(have, type(want), name)

    def one(self, family, case):
        if case.error:
            with self.assertRaises(Exception), Names(family):
                g = self.golden
                make, values = g.drawn(case, case.make, "make"), g.drawn(case, case.call, "call")
                module = getattr(nn, case.cls)(**{k: ours(v) for k, v in make.items()})
                case.run(module, {k: ours(v) for k, v in values.items()})
            return
        mine, theirs, values = self.made(case)
        if case.text:
            self.assertEqual(repr(mine), repr(theirs))
        self.attributes(mine, theirs)
        for mode in case.modes:
            if not (case.random and mode == "train"):
                self.compare(family, case, mode, mine, theirs, values)
            else:
                with Names(family):
                    case.run(mine.train(), {k: ours(v) for k, v in values.items()})

    def test_all(self):
        only = os.environ.get("CASE", "")
        for family, cases in self.families.items():
            for case in cases:
                if only in case.label:
                    with self.subTest(case.label):
                        self.one(family, case)

    def test_every_class_has_a_case(self):
        tried = {case.cls for cases in self.families.values() for case in cases}
        from cairn.nn.layer import _by_name
        known = {n for n, c in _by_name.items() if c.__module__.startswith("cairn.nn") and hasattr(nn, n)}
        self.assertGreater(len(known), 130)
        self.assertEqual(sorted(known - tried - NOT_HERE), [])

    def test_signatures(self):
        """Arguments by position and by name are torch's, with its defaults."""
        from cairn.nn.layer import _by_name
        for name, mine in _by_name.items():
            theirs = getattr(torch.nn, name, None)
            if theirs is None or name in NOT_HERE or name in ("RNN", "LSTM", "GRU"):
                continue
            with self.subTest(name):
                want = [p for p in inspect.signature(theirs.__init__).parameters.values()
                        if p.name not in ("min_value", "max_value")]
                have = list(inspect.signature(mine.__init__).parameters.values())
                self.assertEqual([(p.name, p.kind) for p in have], [(p.name, p.kind) for p in want])
                for a, b in zip(have, want):
                    if not callable(b.default):
                        self.assertEqual((a.name, a.default), (b.name, b.default))


if __name__ == "__main__":
    unittest.main()
