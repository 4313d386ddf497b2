#!/usr/bin/env python3
"""Judges sparse tensors by PyTorch's own OpInfo samples of sparse layouts.

usage: build/peers/bin/python tests/conformance/sparse_ops.py [--ops NAME...] [--dtypes NAME...] [--layouts NAME...]
                                                              [--all]

Each op that OpInfo says takes a layout is called on OpInfo's samples of that layout, by the package and by torch: what
comes out must have the same layout, shape, type and elements, and the values of each sparse leaf the same gradient.
What torch itself refuses is passed over. --all prints each failure rather than one an op. The last line is
`N passed, N failed, N skipped`, counted by sample.
"""
import argparse
import os
import pathlib
import sys
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
DTYPES = ["float32", "float64", "int64", "bool", "complex64"]
# What is random or not set has nothing to compare but its shape and layout.
NO_VALUES = {"randn_like", "rand_like", "empty_like", "randint_like"}
# Ops and layouts that the package refuses, and why.
REFUSED = {"masked." + name: "masked reductions take dense tensors" for name in ("sum", "prod", "amax", "amin", "mean")}


def supports(op, layout):
    return getattr(op, "supports_sparse" if layout == "sparse_coo" else "supports_" + layout, False)


def dense(t):
    return t.to_dense() if str(t.layout).rpartition(".")[2] != "strided" else t


class Judge:
    """The samples of one op, layout and type."""

    def __init__(self, module, op, layout, dtype):
        self.module, self.op, self.layout, self.dtype = module, op, layout, dtype
        self.passed, self.skipped, self.failures = 0, 0, []

    def run(self):
        import names  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        target = names.function(self.module, self.op)
        grad = self.op.supports_autograd and self.dtype.is_floating_point and self.op.name not in NO_VALUES
        try:
            samples = list(self.op.sample_inputs_sparse(getattr(torch, self.layout), "cpu", self.dtype,
                                                        requires_grad=grad))
        except unittest.SkipTest:       # none of this type
            return self
        except NotImplementedError:     # OpInfo has none of this layout: its dense ones, with some elements left out
            samples = self.thinned(torch, grad)
        for sample in samples:
            self.one(target, sample, grad)
        return self

    def thinned(self, torch, grad):
        for sample in self.op.sample_inputs("cpu", self.dtype, requires_grad=False):
            x, layout = sample.input, getattr(torch, self.layout)
            if x.ndim < (1 if self.layout == "sparse_coo" else 2) or not x.numel():
                continue
            keep = (torch.arange(x.numel()) % 3 != 1).reshape(x.shape)
            blocks = {"blocksize": (1, 1)} if "bs" in self.layout else {}
            for coalesced in (True, False) if self.layout == "sparse_coo" else (True,):
                try:
                    made = torch.where(keep, x, torch.zeros_like(x)).to_sparse(layout=layout, **blocks)
                except RuntimeError:    # batches with different numbers of elements
                    continue
                if not coalesced:
                    twice = torch.cat([made.indices(), made.indices().flip(1)], 1)
                    made = torch.sparse_coo_tensor(twice, torch.cat([made.values(), made.values().flip(0)]), x.shape)
                sample.input = made.detach().requires_grad_(grad)
                yield type(sample)(sample.input, args=sample.args, kwargs=sample.kwargs)

    def one(self, target, sample, grad):
        import translate  # pylint: disable=import-outside-toplevel
        there = translate.SparseTranslator(self.module)
        try:
            theirs = self.op.op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            self.skipped += 1      # torch refuses its own sample
            return
        try:
            args = there.value((sample.input, *sample.args))
            kwargs = there.value(dict(sample.kwargs))
            ours = target(*args, **kwargs)
            why = self.compare(ours, theirs) or (self.gradients(there.pairs, ours, theirs) if grad else "")
        except translate.Untranslatable as error:
            self.skipped += 1
            return
        except Exception as error:  # pylint: disable=broad-exception-caught
            why = "%s: %s" % (type(error).__name__, str(error).partition("\n")[0])
        if why:
            self.failures.append("%s  [%s]" % (why, self.text(sample)))
        else:
            self.passed += 1

    def compare(self, ours, theirs):
        import numpy  # pylint: disable=import-outside-toplevel
        if not hasattr(theirs, "layout"):
            return "" if ours == theirs else "%r is not %r" % (ours, theirs)
        a, b = str(ours.layout).rpartition(".")[2], str(theirs.layout).rpartition(".")[2]
        if a != b:
            return "layout %s is not %s" % (a, b)
        if tuple(ours.shape) != tuple(theirs.shape):
            return "shape %s is not %s" % (tuple(ours.shape), tuple(theirs.shape))
        if str(ours.dtype).rpartition(".")[2] != str(theirs.dtype).rpartition(".")[2]:
            return "type %s is not %s" % (ours.dtype, theirs.dtype)
        if self.op.name in NO_VALUES:
            return ""
        x, y = dense(ours.detach()).numpy(), dense(theirs.detach()).resolve_conj().numpy()
        if numpy.allclose(x, y, rtol=2e-5, atol=1e-5, equal_nan=True):     # sums of float32 in another order
            return ""
        return "elements differ by up to %.3g" % numpy.nanmax(numpy.abs(x.astype(complex) - y.astype(complex)))

    def gradients(self, pairs, ours, theirs):
        """Of the sum of all elements, for each leaf: the gradients that both have."""
        if not theirs.requires_grad or theirs.dtype.is_complex:
            return ""
        for leaf, _ in pairs:       # some samples share a leaf
            leaf.grad = None
        try:
            dense(theirs).sum().backward()
        except (RuntimeError, NotImplementedError):
            return ""
        dense(ours).sum().backward()
        for leaf, twin in pairs:
            if leaf.grad is None:
                continue
            if twin.grad is None:
                return "a leaf has no gradient"
            import numpy  # pylint: disable=import-outside-toplevel
            x, y = self.at_places(leaf, twin)
            if not numpy.allclose(x, y, rtol=2e-5, atol=1e-5, equal_nan=True):
                return "gradients differ by up to %.3g" % numpy.nanmax(numpy.abs(x - y))
        return ""

    def at_places(self, leaf, twin):
        """Both gradients, dense; of a sparse leaf at its places, since torch may fill in others (masked=False)."""
        import torch  # pylint: disable=import-outside-toplevel
        x, y = dense(twin.grad).numpy(), dense(leaf.grad)
        if leaf.layout is not torch.strided:
            ones = leaf.detach().clone()
            values = ones._values() if leaf.layout is torch.sparse_coo else ones.values()
            values.fill_(1)
            y = torch.where(dense(ones) != 0, y, torch.zeros_like(y))
        return x, y.numpy()

    @staticmethod
    def text(sample):
        def brief(v):
            return "%s%s" % (str(v.layout).rpartition(".")[2], tuple(v.shape)) if hasattr(v, "layout") else repr(v)
        return ", ".join([brief(sample.input), *map(brief, sample.args),
                          *("%s=%s" % (k, brief(v)) for k, v in sample.kwargs.items())])[:200]


def main():
    options = arguments()
    sys.path.insert(0, str(HERE))
    sys.path.append(str(pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "python"))
    warnings.simplefilter("ignore")
    try:
        import opinfo  # pylint: disable=import-outside-toplevel
        import torch  # pylint: disable=import-outside-toplevel
        opinfo.import_expecttest()
        with opinfo.devices_hidden():
            # pylint: disable-next=import-outside-toplevel
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        print("skipped: the package %s is not installed" % error.name)
        return 77
    module = opinfo.load(options.module)
    passed = failed = skipped = 0
    for op in op_db:
        for layout in options.layouts:
            if not supports(op, layout) or op.full_name in REFUSED or (options.ops and op.full_name not in options.ops):
                continue
            for name in options.dtypes:
                dtype = getattr(torch, name)
                if dtype not in op.dtypes:
                    continue
                judge = Judge(module, op, layout, dtype).run()
                passed, failed = passed + judge.passed, failed + len(judge.failures)
                skipped += judge.skipped
                for why in judge.failures if options.all else judge.failures[:1]:
                    print("%s %s %s (%d of %d): %s" % (op.full_name, layout, name, len(judge.failures),
                                                       len(judge.failures) + judge.passed, why))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ops", nargs="+")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS)
    parser.add_argument("--module", default="cairn")
    parser.add_argument("--all", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
