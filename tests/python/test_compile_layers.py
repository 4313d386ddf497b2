"""Every layer of cairn.nn through cairn.compile: results, gradients of inputs and parameters, what a call changes of
the state and the random numbers it draws are those of the module as it is, to the bit, in training and in evaluation
mode; with mode="fast" up to rounding. The cases are those of the golden files of tests/nn, random ones included."""
import copy
import unittest
import warnings

import cairn
from cairn import compiler, nn
from recorded_layers import FOLDER, called, described, flat, made, values


def as_it_is(case, mode):
    """Why such a call runs as it is; None: it is captured."""
    if "batch_sizes" in case["call"]:
        return "lengths are read"
    if case["class"] == "AdaptiveLogSoftmaxWithLoss":
        return "which rows belong to a cluster depends on values"
    if case["make"].get("inplace") and (mode == "train" or "ropout" not in case["class"]):
        return "gradients flow through a write into the input"
    return None


def floats(arguments):
    return [k for k, v in arguments.items() if isinstance(v, cairn.Tensor) and v.is_floating_point()]


def near(have, want):
    """Sums of some hundred float32 terms in another order."""
    return cairn.allclose(have, want, rtol=1e-5, atol=1e-5) if want.is_floating_point() else cairn.equal(have, want)


class CompiledLayers(unittest.TestCase):
    def same(self, have, want, what, level):
        if want is None or have is None:
            self.assertIs(have, want, what)
            return
        # the gradient of a table of embeddings is sparse where it is asked for, but dense in programs
        have, want = (t if t.layout is cairn.strided else t.to_dense() for t in (have, want))
        self.assertEqual((have.dtype, have.shape, have.requires_grad), (want.dtype, want.shape, want.requires_grad),
                         what)
        alike = near if level == "fast" else cairn.equal
        self.assertTrue(alike(have.detach().nan_to_num(7.5), want.detach().nan_to_num(7.5))
                        and cairn.equal(have.isnan(), want.isnan()), what)

    def run_once(self, module, call, case, arguments, fixed):
        """Results, gradients, state, and where the random numbers stand."""
        leaves = {k: arguments[k].detach().clone().requires_grad_() for k in floats(arguments) if k not in fixed}
        given = {k: leaves[k].clone() if k in leaves else v for k, v in arguments.items()}
        cairn.manual_seed(3)
        out = flat(called(call, case, given))
        roots = [t for t in out if isinstance(t, cairn.Tensor) and t.requires_grad]
        module.zero_grad()
        if roots:
            cairn.autograd.backward(roots, [cairn.linspace(-1, 1, t.numel(), dtype=t.dtype).view(t.shape)
                                            for t in roots])
        found = {f"result {k}": t for k, t in enumerate(out)}
        found.update({f"gradient of {k}": t.grad for k, t in leaves.items()})
        found.update({f"gradient of {k}": p.grad for k, p in module.named_parameters()})
        found.update({f"{k} after the call": t.clone() for k, t in module.state_dict().items()})
        found["the next random numbers"] = cairn.rand(2)
        return found

    def compare(self, i, case, mode, tensors, level):
        module = made(i, case, tensors).train(mode == "train")
        other = copy.deepcopy(module)
        fast, arguments = cairn.compile(other, mode=level), values(case["call"], tensors)
        for _ in range(2):
            want = self.run_once(module, module, case, arguments, case.get("fixed", ()))
            have = self.run_once(other, fast, case, arguments, case.get("fixed", ()))
            self.assertEqual(list(want), list(have))
            for name in want:
                self.same(have[name], want[name], name, level)
        counts = compiler.stats(fast)
        want = (0, 0, 2) if as_it_is(case, mode) else (1, 2, 0)
        self.assertEqual((counts["executables"], counts["runs"], counts["eager_calls"]), want)

    def family(self, name):
        cases, tensors = described(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i, case in enumerate(cases):
                for mode in () if case.get("error") else case.get("modes", ("train", "eval")):
                    for level in ("default", "fast"):
                        with self.subTest(case["label"], mode=mode, level=level):
                            self.compare(i, case, mode, tensors, level)
        return len(cases)

    def test_families(self):
        names = sorted(path.stem for path in FOLDER.glob("*.safetensors"))
        self.assertGreater(len(names), 12)
        for name in names:
            self.assertGreater(self.family(name), 0)


if __name__ == "__main__":
    unittest.main()
