"""Every layer of cairn.nn against what torch's computed: the golden files of tests/nn, which the C library is tested
with too, read by this package. Needs neither torch nor numpy; test_nn_layers.py compares more where torch is installed.

A case is made from its description alone: text, names of the state, results, gradients of inputs and parameters and
what a call changes of the state, in the modes that were recorded. Random cases have only moments and are left to C.
"""
import unittest

import cairn
from cairn import nn
from recorded_layers import called, described, flat, values


class Recorded(unittest.TestCase):
    def near(self, have, want, tolerance, what):
        self.assertIsNotNone(have, what)
        self.assertEqual((have.dtype, have.shape), (want.dtype, want.shape), what)
        have = have.detach().to_dense() if have.is_sparse else have.detach()
        a, b = have.double(), want.double()
        self.assertEqual(a.isfinite().tolist(), b.isfinite().tolist(), what)
        a, b = a[a.isfinite()], b[b.isfinite()]
        if a.numel():
            self.assertLessEqual(float((a - b).abs().max()), tolerance * max(1.0, float(b.abs().max())), what)

    def compare(self, i, case, mode, tensors):
        def kept(kind):
            start = f"{i}.{mode}.{kind}."
            return {k[len(start):]: v for k, v in tensors.items() if k.startswith(start)}

        module = getattr(nn, case["class"])(**values(case["make"], tensors))
        self.assertEqual(list(module.state_dict()), case["state"])
        self.assertEqual([k for k, _ in module.named_parameters()], case["parameters"])
        if case.get("text"):
            self.assertEqual(repr(module), case["text"])
        module.load_state_dict({k: tensors[f"{i}.state.{k}"] for k in case["state"]})
        module.train(mode == "train")
        arguments = values(case["call"], tensors)
        leaves = {k: arguments[k].requires_grad_() for k in kept("gin")}
        given = {k: leaves[k].clone() if k in leaves else v for k, v in arguments.items()}
        out, tolerance = flat(called(module, case, given)), max(case.get("tol", 1e-5), 2e-5)
        for k, want in kept("out").items():
            self.near(out[int(k)], want, tolerance, f"result {k}")
        pairs = [(out[int(k)], cot) for k, cot in kept("cot").items()]
        if pairs:
            cairn.autograd.backward([t for t, _ in pairs], [c for _, c in pairs])
        for k, want in kept("gin").items():
            self.near(leaves[k].grad, want, tolerance, f"gradient of {k}")
        parameters = dict(module.named_parameters())
        for k, want in kept("grad").items():
            self.near(parameters[k].grad, want, tolerance, f"gradient of {k}")
        for k, want in kept("after").items():
            self.near(module.state_dict()[k], want, tolerance, f"{k} after the call")
        return 1

    def family(self, name):
        """How many cases of a file were compared; each in a mode that has results."""
        cases, tensors = described(name)
        compared = 0
        for i, case in enumerate(cases):
            for mode in ("train", "eval"):
                if any(k.startswith(f"{i}.{mode}.out.") for k in tensors):
                    with self.subTest(case["label"], mode=mode):
                        compared += self.compare(i, case, mode, tensors)
        return compared

    def test_activation(self):
        self.assertGreaterEqual(self.family("activation"), 79)

    def test_attention(self):
        self.assertGreaterEqual(self.family("attention"), 43)

    def test_conv(self):
        self.assertGreaterEqual(self.family("conv"), 42)

    def test_distance(self):
        self.assertGreaterEqual(self.family("distance"), 7)

    def test_dropout(self):
        self.assertGreaterEqual(self.family("dropout"), 12)

    def test_embedding(self):
        self.assertGreaterEqual(self.family("embedding"), 32)

    def test_linear(self):
        self.assertGreaterEqual(self.family("linear"), 7)

    def test_loss(self):
        self.assertGreaterEqual(self.family("loss"), 149)

    def test_norm(self):
        self.assertGreaterEqual(self.family("norm"), 69)

    def test_pad(self):
        self.assertGreaterEqual(self.family("pad"), 47)

    def test_pool(self):
        self.assertGreaterEqual(self.family("pool"), 61)

    def test_rnn(self):
        self.assertGreaterEqual(self.family("rnn"), 57)

    def test_shape(self):
        self.assertGreaterEqual(self.family("shape"), 54)


if __name__ == "__main__":
    unittest.main()
