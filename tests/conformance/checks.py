"""The checks of one OpInfo entry and dtype, each over its samples: what is called, what must come out.

Both sides get copies of the same sample: torch's is the oracle. A check gives an `Outcome`; a sample that torch
itself refuses, or that has no counterpart, is left out. `place` is told where the run is before every call, so
that a crash can be named.
"""
import dataclasses
import random
import warnings

import torch

import allowances
import compare
import names
import randoms
import translate

MAY_RAISE = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
# Check -> PyTorch's tests whose skips stand for it.
SKIPS = {
    "noncontiguous": [("TestCommon", "test_noncontiguous_samples")],
    "method": [("TestCommon", "test_variant_consistency_eager")],
    "inplace": [("TestCommon", "test_variant_consistency_eager")],
    "operator": [("TestCommon", "test_variant_consistency_eager")],
    "out": [("TestCommon", "test_out"), ("TestCommon", "test_out_warning")],
    "errors": [("TestCommon", "test_errors")],
    "gradient": [("TestBwdGradients", "test_fn_grad")],
    "second": [("TestBwdGradients", "test_fn_gradgrad"), ("TestBwdGradients", "test_fn_grad")],
}
SIDE_LIMIT = 60        # samples of the checks that repeat the forward one in another form


@dataclasses.dataclass
class Outcome:
    check: str
    samples: int = 0
    failed: int = 0
    reason: str = ""
    sample: str = ""
    skipped: str = ""

    def fail(self, reason, sample):
        self.failed += 1
        if not self.reason:
            self.reason, self.sample = reason, sample

    def note(self, reason, sample):
        self.samples += 1
        if reason:
            self.fail(reason, sample)


def said(error):
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__}: {text[:300]}"


def describe(sample):
    return sample.summary().replace(', device="cpu"', "").replace("torch.", "")[:600]


def over(judge, outcome, samples, body):
    """Notes in an outcome what body(sample) says of each: None, a reason, or NotImplemented: nothing to compare."""
    for i, sample in enumerate(samples):
        text = describe(sample)
        judge.place(f"{outcome.check} {i} {text}")
        try:
            reason = body(sample)
        except translate.Untranslatable:
            continue
        except Exception as error:  # pylint: disable=broad-exception-caught
            reason = said(error)
        if reason is not NotImplemented:
            outcome.note(reason, text)
    return outcome


class Judge:
    """All checks of one entry and dtype."""

    def __init__(self, module, op, dtype, limit=0, place=None, reference=False):
        self.module, self.op, self.dtype = module, op, dtype
        self.limit = limit
        self.place = place or (lambda text: None)
        self.tolerance = compare.Tolerance(op)
        self.open = False     # the sample at hand has ties, and another index was chosen than torch's
        self.call = names.function(module, op)
        self.differentiable = (op.supports_autograd and dtype in FLOATS and dtype in op.backward_dtypes)
        make = op.reference_inputs if reference else op.sample_inputs
        try:
            self.samples = self.take(make("cpu", dtype, requires_grad=self.differentiable))
            if self.differentiable and not reference:   # some entries give fewer samples where gradients are asked
                plain = self.take(make("cpu", dtype, requires_grad=False))
                self.samples += plain if len(plain) > len(self.samples) else []
        except ValueError:      # some larger sets mix in integers, for which gradients cannot be asked
            self.samples = self.take(make("cpu", dtype, requires_grad=False))

    def take(self, samples):
        """All samples, or some of the first hundred by a fixed seed."""
        limit = self.limit
        if not limit:
            return list(samples)
        pool = []
        for sample in samples:
            pool.append(sample)
            if len(pool) >= 100 + limit:
                break
        if len(pool) <= limit:
            return pool
        choice = random.Random(f"{self.op.full_name} {self.dtype}")
        return [pool[i] for i in sorted(choice.sample(range(len(pool)), limit))]

    def side(self, samples):
        """The samples of a side check: enough of them, spread evenly."""
        limit = self.limit or SIDE_LIMIT
        step = max(1, -(-len(samples) // limit))
        return samples[::step]

    # ---- the two sides of a call ----
    def oracle(self, sample, call=None):
        """(translator, result) of torch, or None where torch refuses the sample (or nobody could hold it)."""
        there = translate.Translator(torch)
        torch.manual_seed(0)
        try:
            first, args, kwargs = there.sample(sample)
            return there, (call or self.op.op)(first, *args, **kwargs), (first, args, kwargs)
        except Exception:  # pylint: disable=broad-exception-caught
            return None

    def mine(self, sample, call=None):
        """(translator, result, values) of the package; Untranslatable and errors pass through."""
        here = translate.Translator(self.module)
        first, args, kwargs = here.sample(sample)
        self.module.manual_seed(0)
        return here, (call or self.call)(first, *args, **kwargs), (first, args, kwargs)

    def truth(self, sample, grads=None):
        """Lazily, the float64 results of a sample (with grads: the gradients for these grad_outputs); None where
        nothing but torch's own result will do. A GPU adds in another order than torch on the CPU, the mirror does
        not."""
        elsewhere = translate.Translator.device not in (None, "mirror")
        if not elsewhere and not allowances.reason(self.op.name, self.dtype, grads is not None):
            return None
        found = []

        def make():
            if not found:
                try:
                    found.append(self.wide(sample, grads))
                except Exception:  # pylint: disable=broad-exception-caught
                    found.append(None)
            return found[0]
        return make

    def wide(self, sample, grads):
        there, result, _ = self.oracle(compare.widened(sample))
        if grads is None:
            return result
        outs = differentiable(sample.output_process_fn_grad(result))
        leaves = [made for _, made in there.pairs if made.requires_grad]
        return torch.autograd.grad(outs, leaves, [compare.wide(g) for g in grads], allow_unused=True)

    def skipped(self, check):
        if (self.op.name, check) in allowances.WRONG:
            return allowances.WRONG[self.op.name, check]
        for test_class, test in SKIPS.get(check, []):
            if compare.marks(self.op, test_class, test, self.dtype)[0]:
                return f"{test} is skipped by the entry"
        return ""

    # ---- forward and gradients ----
    def forward(self, check="forward", samples=None):
        """Results and gradients over the samples: two outcomes."""
        values, grads = Outcome(check), Outcome("gradient" if check == "forward" else f"{check} gradient")
        grads.skipped = self.skipped("gradient")
        for i, sample in enumerate(self.samples if samples is None else samples):
            text = describe(sample)
            self.place(f"{check} {i} {text}")
            theirs = self.oracle(sample)
            if theirs is None:
                continue
            try:
                mine = self.mine(sample)
                values.note(self.judge_result(mine, theirs, sample), text)
            except translate.Untranslatable:
                continue
            except Exception as error:  # pylint: disable=broad-exception-caught
                values.note(said(error), text)
                continue
            if self.differentiable and not (grads.skipped or self.undefined(sample) or self.open):
                self.place(f"{grads.check} {i} {text}")
                self.judge_gradient(mine, theirs, sample, grads, text)
        return [values, grads]

    def undefined(self, sample):
        return names.is_random(self.op, sample) or self.op.name in names.UNDEFINED

    def results(self, here, sample, grads=True):
        open_index = self.op.name in compare.TIES and not sample.kwargs.get("stable")
        ties = sample.input if open_index else None
        return compare.Results(here, self.tolerance, grads, ties)

    def judge_result(self, mine, theirs, sample):
        here, actual, _ = mine
        _, expected, _ = theirs
        results = self.results(here, sample)
        if self.undefined(sample):
            return randoms.same_kind(results, actual, expected)
        fix = compare.UP_TO_SIGNS.get(self.op.name)
        if fix is not None and isinstance(expected, tuple):
            actual, expected = self.without_signs(here, actual, expected, fix)
            results = compare.Results(translate.Translator(torch), self.tolerance, grads=False)
        reason = results.whole(actual, expected, self.truth(sample))
        self.open = results.open or (self.op.name == "msort" and compare.equals(sample.input))
        return reason or self.judge_inputs(here, theirs[0], sample)

    def without_signs(self, here, actual, expected, fix):
        back = tuple(here.back(a) for a in actual)
        plain = tuple(e.detach() for e in expected)
        if len(back) != len(plain) or any(a.shape != b.shape for a, b in zip(back, plain)):
            return back, plain
        return fix(back), fix(plain)

    def judge_inputs(self, here, there, sample):
        """What a call writes into its arguments (running statistics, fillers) is a result as well."""
        wide = self.oracle(compare.widened(sample)) if self.truth(sample) else None
        for i, ((_, mine), (_, theirs)) in enumerate(zip(here.pairs, there.pairs)):
            if not theirs.requires_grad:
                truth = wide and (lambda i=i: wide[0].pairs[i][1].detach().double())
                reason = compare.tensors(here.back(mine), theirs.detach(), self.tolerance, truth)
                if reason:
                    return f"an argument was left different: {reason}"
        return None

    def judge_gradient(self, mine, theirs, sample, outcome, text):
        try:
            outs = differentiable(sample.output_process_fn_grad(theirs[1]))
            leaves = [made for _, made in theirs[0].pairs if made.requires_grad]
            if not outs or not leaves:
                return
            torch.manual_seed(1)
            seeds = [torch.randn(o.shape, dtype=compare.wide_type(o)).to(o.dtype) for o in outs]
            expected = torch.autograd.grad(outs, leaves, seeds, allow_unused=True)
        except Exception:  # pylint: disable=broad-exception-caught
            return
        here = mine[0]
        try:
            processed = compare.flatten(sample.output_process_fn_grad(mine[1]))
        except (TypeError, AttributeError):
            return      # the entry's own processing is written for torch alone
        try:
            reason = self.gradient_reason(here, processed, outs, seeds, expected, sample)
        except Exception as error:  # pylint: disable=broad-exception-caught
            reason = "autograd.grad " + said(error)
        outcome.note(reason, text)

    def gradient_reason(self, here, processed, outs, seeds, expected, sample):
        mine = [o for o in processed if here.is_tensor(o) and o.requires_grad]
        if len(mine) != len(outs):
            return f"{len(mine)} results ask for gradients instead of {len(outs)}"
        leaves = [made for _, made in here.pairs if made.requires_grad]
        maker = translate.Translator(self.module)
        actual = self.module.autograd.grad(mine, leaves, [maker.value(s) for s in seeds], allow_unused=True)
        if not isinstance(actual, tuple) or len(actual) != len(expected):
            return "autograd.grad gave no tuple of one gradient per input"
        truth = self.truth(sample, seeds)
        for i, (a, e) in enumerate(zip(actual, expected)):
            shape_of = [made for _, made in here.pairs if made.requires_grad][i]
            e = torch.zeros(tuple(shape_of.shape), dtype=self.dtype) if e is None else e.detach()
            a = torch.zeros_like(e) if a is None else here.back(a)
            e = e if e.dtype == a.dtype or expected[i] is not None else e.to(a.dtype)
            this = truth and (lambda i=i: first_truth(truth(), i))
            reason = compare.tensors(a, e, self.tolerance, this, gradient=True)
            if reason:
                return f"gradient {i}: {reason}"
        return None

    def noncontiguous(self):
        outcome = Outcome("noncontiguous")
        outcome.skipped = self.skipped("noncontiguous")
        if outcome.skipped:
            return [outcome]
        samples = []
        for sample in self.side(self.samples):
            try:
                samples.append(sample.noncontiguous())
            except Exception:  # pylint: disable=broad-exception-caught
                continue
        return self.forward("noncontiguous", samples)

    # ---- gradients of gradients ----
    def second(self):
        """The derivative of the gradients, in float64."""
        outcome = Outcome("second")
        outcome.skipped = self.skipped("second")
        wanted = self.differentiable and self.op.supports_gradgrad and self.dtype in (torch.float64, torch.complex128)
        if outcome.skipped or not wanted:
            return [outcome]
        for i, sample in enumerate(self.side(self.samples)):
            if self.undefined(sample):
                continue
            text = describe(sample)
            self.place(f"second {i} {text}")
            try:
                expected = self.twice(torch, self.oracle(sample), sample)
            except Exception:  # pylint: disable=broad-exception-caught
                continue
            try:
                mine = self.mine(sample)
                actual = self.twice(self.module, mine, sample)
                reason = self.second_reason(mine[0], actual, expected)
            except translate.Untranslatable:
                continue
            except Exception as error:  # pylint: disable=broad-exception-caught
                reason = said(error)
            outcome.note(reason, text)
        return [outcome]

    def twice(self, module, called, sample):
        """The gradients of <gradients, weights> with respect to the inputs and to the grad_outputs."""
        there, result, _ = called
        outs = [o for o in compare.flatten(sample.output_process_fn_grad(result))
                if there.is_tensor(o) and o.requires_grad]
        leaves = [made for _, made in there.pairs if made.requires_grad]
        weights = torch.Generator().manual_seed(2)

        def drawn(like):
            dtype = torch.complex128 if like.is_complex() else torch.float64
            value = torch.randn(tuple(like.shape), dtype=dtype, generator=weights)
            return translate.Translator(module).value(value)
        seeds = [drawn(o).requires_grad_(True) for o in outs]
        first = module.autograd.grad(outs, leaves, seeds, create_graph=True, allow_unused=True)
        drawn_first = [drawn(leaf) for leaf in leaves]
        pairs = [(g, w) for g, w in zip(first, drawn_first) if g is not None and g.requires_grad]
        if not pairs:
            return [None] * (len(leaves) + len(seeds))
        return module.autograd.grad([g for g, _ in pairs], leaves + seeds, [w for _, w in pairs], allow_unused=True)

    def second_reason(self, here, actual, expected):
        if len(actual) != len(expected):
            return f"{len(actual)} second gradients instead of {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected)):
            e = torch.zeros(()) if e is None else e.detach()
            a = torch.zeros_like(e) if a is None else here.back(a)
            e = torch.zeros_like(a) if expected[i] is None else e
            near = 1e-7 if e.dtype in (torch.float64, torch.complex128) else 1e-5  # an input of float32 among others
            near += allowances.OWN_ERROR.get(self.op.name, (0.0, ""))[0]
            reason = compare.tensors(a, e, lambda dtype, near=near: (near, near))
            if reason:
                return f"second gradient {i}: {reason}"
        return None

    def errors(self):
        """What torch refuses must be refused, by an exception that a program can catch."""
        outcome = Outcome("errors")
        outcome.skipped = self.skipped("errors")
        if self.op.error_inputs_func is None or outcome.skipped:
            return [outcome]
        for i, wrong in enumerate(self.op.error_inputs("cpu")):
            sample = wrong.sample_input
            text = describe(sample)
            self.place(f"errors {i} {text}")
            reflected = self.op.name.startswith("__") and not isinstance(sample.input, torch.Tensor)
            if reflected or self.oracle(sample) is not None:
                continue
            try:
                self.mine(sample)
                outcome.note(f"accepted, where torch raises {wrong.error_type.__name__}", text)
            except translate.Untranslatable:
                continue
            except MAY_RAISE:
                outcome.note(None, text)
            except Exception as error:  # pylint: disable=broad-exception-caught
                outcome.note(said(error), text)
        return [outcome]

    def distribution(self):
        """The moments of random ops."""
        outcome = Outcome("distribution")
        if self.dtype in (torch.float32, torch.float64):
            self.place("distribution")
            for reason in randoms.distribution(self.module, self.op.name, self.op.variant_test_name, self.dtype):
                outcome.note(reason, "a large sample")
        return [outcome]


def first_truth(values, i):
    return None if values is None or values[i] is None else compare.wide(values[i].detach())


def differentiable(result):
    return [o for o in compare.flatten(result) if isinstance(o, torch.Tensor) and o.requires_grad]


def quiet():
    warnings.simplefilter("ignore")
    torch.set_warn_always(False)
