#!/usr/bin/env python3
"""Judges cairn.nn's modules by PyTorch's own database of modules: for every entry, sample, mode and type the same
state in both, then results, gradients of inputs and parameters, buffers afterwards; and what must be refused.

usage: build/peers/bin/python tests/conformance/modules.py [--modules NAME...] [--dtypes NAME...] [--module NAME]

  --modules NAME...  these entries alone ("nn.Linear"; default: all)
  --dtypes NAME...   default: float32 float64
  --module NAME      the package to judge (default cairn; torch judges the harness itself)

Random modules are judged by the kind of their results. The last line is `N passed, N failed, N skipped`, counted by
entry, type and mode.
"""
import argparse
import importlib
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RANDOM = {"nn.RReLU", "nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"}   # and all dropouts, in training
# What torch refuses here works: a weight of another type than the input's is cast to it.
MORE_TYPES = {"nn.NLLLoss"}
# Gradients that are sums of hundreds of products or exponentials, whose order of adding shows in float32's last
# digits, near zero most: ten times assert_close's tolerances there.
WIDER = {"nn.ConvTranspose3d", "nn.LazyConvTranspose3d", "nn.CTCLoss", "nn.TransformerDecoderLayer", "nn.Transformer",
         "nn.TransformerEncoder", "nn.TransformerEncoderLayer", "nn.MultiheadAttention"}


class Judge:
    """One entry in one type and mode."""

    def __init__(self, package, info, dtype, training):
        import torch  # pylint: disable=import-outside-toplevel
        self.torch, self.package, self.info = torch, package, info
        self.dtype, self.training = dtype, training
        self.random = info.name in RANDOM or "Dropout" in info.name

    def samples(self):
        self.torch.manual_seed(0)
        return self.info.module_inputs_func(self.info, device="cpu", dtype=self.dtype, requires_grad=True,
                                            training=self.training)

    def build(self, package, here, given):
        """The module as the sample says, in this type and mode; the package's class has torch's name."""
        cls = self.info.module_cls if package is self.torch else getattr(package.nn, self.info.module_cls.__name__)
        args, kwargs = here.value(tuple(given.args)), here.value(dict(given.kwargs))
        module = cls(*args, **kwargs)
        return module.to(here.value(self.dtype)).train(self.training)

    def pair(self, sample):
        """(theirs, mine): translator, module and inputs of each, with one state; mine loads it."""
        import translate  # pylint: disable=import-outside-toplevel
        sides = []
        for package in (self.torch, self.package):
            here = translate.Translator(package)
            module = self.build(package, here, sample.constructor_input)
            inputs = sample.forward_input
            args, kwargs = here.value(tuple(inputs.args)), here.value(dict(inputs.kwargs))
            sides.append((here, module, args, kwargs))
        (_, theirs, args, kwargs), (here, mine, mine_args, mine_kwargs) = sides
        if "Lazy" in self.info.name:     # parameters take shape at the first call
            with self.torch.no_grad():
                theirs(*args, **kwargs)
            mine(*mine_args, **mine_kwargs)
        mine.load_state_dict({name: translate.Translator(self.package).value(t.detach())
                              for name, t in theirs.state_dict().items()})
        return sides

    def sample(self, sample):
        """None, or what differs."""
        (there, theirs, args, kwargs), (here, mine, mine_args, mine_kwargs) = self.pair(sample)
        self.torch.manual_seed(0)
        expected = self.leaves(theirs(*args, **kwargs), self.torch)
        actual = self.leaves(mine(*mine_args, **mine_kwargs), self.package)
        if len(actual) != len(expected):
            return f"{len(actual)} results instead of {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected)):
            if self.random and self.training:
                if tuple(a.shape) != tuple(e.shape):
                    return f"shape {tuple(a.shape)} instead of {tuple(e.shape)}"
                continue
            reason = self.differ(here.back(a), e.detach())
            if reason:
                return f"result {i}: {reason}"
        if self.random and self.training:
            return None
        return self.gradients(there, here, theirs, mine, expected, actual) or self.buffers(here, theirs, mine)

    def leaves(self, result, package):
        import compare  # pylint: disable=import-outside-toplevel
        packed = getattr(package.nn.utils.rnn, "PackedSequence")
        flat = [part for item in compare.flatten(result) for part in
                ([item.data] if isinstance(item, packed) else [item])]
        return [item for item in flat if isinstance(item, package.Tensor)]

    def gradients(self, there, here, theirs, mine, expected, actual):
        """Of a sum of results with fixed weights, with respect to inputs and parameters."""
        import translate  # pylint: disable=import-outside-toplevel
        chosen = [i for i, e in enumerate(expected) if e.requires_grad]
        leaves = [t for _, t in there.pairs if t.requires_grad] + [p for p in theirs.parameters() if p.requires_grad]
        own = [t for _, t in here.pairs if t.requires_grad] + [p for p in mine.parameters() if p.requires_grad]
        if not chosen or not leaves:
            return None
        if len(own) != len(leaves):
            return f"{len(own)} tensors ask for gradients instead of {len(leaves)}"
        self.torch.manual_seed(1)
        seeds = [self.torch.randn(expected[i].shape, dtype=self.torch.float64).to(expected[i].dtype) for i in chosen]
        want = self.torch.autograd.grad([expected[i] for i in chosen], leaves, seeds, allow_unused=True)
        maker = translate.Translator(self.package)
        have = self.package.autograd.grad([actual[i] for i in chosen], own, [maker.value(s) for s in seeds],
                                          allow_unused=True)
        for i, (a, e) in enumerate(zip(have, want)):
            if a is None and e is None:
                continue
            shape = tuple(leaves[i].shape)
            e = self.torch.zeros(shape, dtype=leaves[i].dtype) if e is None else e
            reason = self.differ(self.torch.zeros_like(e) if a is None else here.back(a), e)
            if reason:
                return f"gradient {i}: {reason}"
        return None

    def buffers(self, here, theirs, mine):
        own = dict(mine.named_buffers())
        for name, buffer in theirs.named_buffers():
            reason = self.differ(here.back(own[name]), buffer) if name in own else "absent"
            if reason:
                return f"buffer {name}: {reason}"
        return None

    def differ(self, actual, expected):
        from torch.testing._comparison import default_tolerances  # pylint: disable=import-outside-toplevel
        import compare  # pylint: disable=import-outside-toplevel

        def tolerance(dtype):
            rtol, atol = default_tolerances(dtype)
            times = 10 if self.info.name in WIDER and dtype == self.torch.float32 else 1
            return rtol * times, atol * times
        return compare.tensors(actual, expected, tolerance)

    def errors(self):
        """What torch refuses must be refused: reasons."""
        import translate  # pylint: disable=import-outside-toplevel
        if self.info.module_error_inputs_func is None or self.info.name in MORE_TYPES:
            return []
        found = []
        for wrong in self.info.module_error_inputs_func(self.info, device="cpu", dtype=self.dtype, requires_grad=False,
                                                        training=self.training):
            given, here = wrong.module_error_input, translate.Translator(self.package)
            try:
                module = self.build(self.package, here, given.constructor_input)
                inputs = given.forward_input
                module(*here.value(tuple(inputs.args)), **here.value(dict(inputs.kwargs)))
                found.append("accepted, where torch raises: " + str(wrong.error_regex)[:120])
            except translate.Untranslatable:
                continue
            except Exception as error:  # pylint: disable=broad-exception-caught
                found.append(None if str(error) else "an exception without a message")
        return found


def judged(judge):
    """(samples, failures, first reason)"""
    import translate  # pylint: disable=import-outside-toplevel
    count, reasons = 0, []
    for sample in judge.samples():
        try:
            reason = judge.sample(sample)
        except translate.Untranslatable:
            continue
        except Exception as error:  # pylint: disable=broad-exception-caught
            reason = f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        count += 1
        if reason:
            reasons.append(f"{reason} [{sample.desc or sample.constructor_input.args}]")
    errors = judge.errors()
    return count + len(errors), reasons + [e for e in errors if e]


def main():
    options = arguments()
    sys.path.insert(0, str(HERE))
    sys.path.append(str(pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "python"))
    import opinfo  # pylint: disable=import-outside-toplevel
    try:
        import torch  # pylint: disable=import-outside-toplevel
        opinfo.import_expecttest()
        with opinfo.devices_hidden():
            from torch.testing._internal.common_modules import module_db  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        missing = (error.name or "torch").partition(".")[0]
        print(f"skipped: {'PyTorch' if missing == 'torch' else 'the package ' + missing} is not installed")
        return 77
    import checks  # pylint: disable=import-outside-toplevel
    checks.quiet()
    torch.set_num_threads(1)
    package = importlib.import_module(options.module)
    passed = failed = skipped = 0
    for info in module_db:
        for name in options.dtypes if not options.modules or info.name in options.modules else []:
            for training in (True, False):
                if getattr(torch, name) not in info.dtypes:
                    continue
                count, reasons = judged(Judge(package, info, getattr(torch, name), training))
                passed += count > 0 and not reasons
                failed += bool(reasons)
                skipped += not count
                if reasons:
                    print(f"FAIL {info.name} {name} {'train' if training else 'eval'} ({len(reasons)} of {count}): "
                          f"{reasons[0]}", flush=True)
    if skipped:
        print(f"skipped {skipped}: no sample that the package can be given")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--modules", nargs="+")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--module", default="cairn")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
