"""cairn.compile(mode="fast"): results and gradients are the function's up to rounding, ops are recognised, batch norms
fold into the layers before them; other modes, copies and CAIRN_COMPILE=exact keep to the bit."""
import copy
import os
import unittest

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn


def softmax(x):
    e = cairn.exp(x - x.max(-1, keepdim=True)[0])
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return d / cairn.sqrt((d ** 2).mean(-1, keepdim=True) + 1e-5) * w + b


def attention(q, k, v, mask):
    scores = cairn.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5 + mask
    return cairn.matmul(F.softmax(scores, -1), v)


def attention_of_heads(x, w):
    q, k, v = (x @ w).reshape(2, 6, 3, 4, 8).permute(2, 0, 3, 1, 4)
    return attention(q, k, v, cairn.zeros(1, 1, 6, 6)).transpose(1, 2).reshape(2, 6, 32)


def cross_entropy(x, t):
    return F.nll_loss(F.log_softmax(x, 1), t)


def gate(x, w, v):
    y = x @ w
    return y * cairn.sigmoid(y) * (x @ v)


r = cairn.randn
CASES = [  # function, arguments, what runs
    (softmax, lambda: [r(3, 8)], ["softmax"]),
    (layer_norm, lambda: [r(3, 8), r(8), r(8)], ["native_layer_norm"]),
    (attention, lambda: [r(2, 4, 6, 8), r(2, 4, 6, 8), r(2, 4, 6, 8), r(2, 1, 1, 6)], ["sdpa_forward"]),
    (attention_of_heads, lambda: [r(2, 6, 32), r(32, 96) / 6], ["sdpa_forward"]),
    (cross_entropy, lambda: [r(3, 8), cairn.tensor([1, 7, 0])], ["cross_entropy_rows"]),
    (gate, lambda: [r(3, 8), r(8, 5), r(8, 5)], []),
]


class FastTest(unittest.TestCase):
    def assertNear(self, a, b):
        self.assertTrue(cairn.allclose(a, b, rtol=1e-5, atol=2e-6), (a - b).abs().max())

    def test_functions(self):
        cairn.manual_seed(1)
        for fn, make, ops in CASES:
            with self.subTest(fn.__name__), cairn.no_grad():
                args = make()
                fast = cairn.compile(fn, mode="fast", fullgraph=True)
                for _ in range(3):
                    self.assertNear(fast(*args), fn(*args))
                text = compiler.explain(fast, *args)
                for op in ops:
                    self.assertIn(" %s(" % op, text)

    def test_gradients(self):
        cairn.manual_seed(2)
        for fn, make, _ in CASES:
            with self.subTest(fn.__name__):
                args = make()
                both = [[a.clone().requires_grad_() if a.is_floating_point() else a for a in args] for _ in range(2)]
                out = [f(*a) for f, a in zip((fn, cairn.compile(fn, mode="fast", fullgraph=True)), both)]
                self.assertNear(*out)
                direction = cairn.randn(out[0].shape)
                for y in out:
                    y.backward(direction)
                for a, b in zip(*both):
                    if a.is_floating_point():
                        self.assertNear(a.grad, b.grad)

    def networks(self):
        conv = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8),
                             nn.BatchNorm2d(8), nn.ReLU6(), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.BatchNorm2d(4))
        line = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh())
        for net, x in ((conv, cairn.randn(2, 3, 9, 8)), (line, cairn.randn(4, 6))):
            for norm in net.modules():
                if hasattr(norm, "running_var"):
                    norm.running_var.uniform_(0.5, 2)
                    norm.running_mean.normal_()
            yield net.eval(), x

    def test_folded_norms(self):
        for net, x in self.networks():
            fast = cairn.compile(net, mode="fast", fullgraph=True)
            with cairn.inference_mode():
                for i in range(4):
                    self.assertNear(fast(x), net(x))
                self.assertNotIn("native_batch_norm(", compiler.explain(fast, x))
            with cairn.no_grad():
                for p in net.parameters():
                    p.mul_(0.75)  # what was folded is made anew
            with cairn.inference_mode():
                self.assertNear(fast(x), net(x))
            net.train()
            self.assertNear(fast(x), copy.deepcopy(net)(x))

    def test_levels(self):
        for net, x in self.networks():
            with cairn.inference_mode():
                want = net(x)
                self.assertTrue(cairn.equal(cairn.compile(net)(x), want))
                again = copy.deepcopy(cairn.compile(lambda x: net(x), mode="fast"))
                self.assertNear(again(x), want)
                self.assertNotIn("native_batch_norm(", compiler.explain(again, x))
                os.environ["CAIRN_COMPILE"] = "exact"
                try:
                    self.assertTrue(cairn.equal(cairn.compile(net, mode="fast")(x), want))
                finally:
                    del os.environ["CAIRN_COMPILE"]


if __name__ == "__main__":
    unittest.main()
