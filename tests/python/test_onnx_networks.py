"""ONNX's operators of networks: recurrent ones, attention, norms, dropout. What they give is compared with cairn's own
layers and ops, or with numbers by onnxruntime 1.31."""
import math
import unittest

import cairn
from cairn.nn import functional as F
from onnx_node import model, run, run_compiled

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 3, 1, 2]}  # where cairn's gates go in ONNX's


def layer(op, ways, steps=5, batch=3, size=4, hidden=6):
    """cairn's layer, its input and states, and the node's inputs of the same weights."""
    cairn.manual_seed(3)
    kind = {"RNN": cairn.nn.RNN, "GRU": cairn.nn.GRU, "LSTM": cairn.nn.LSTM}[op]
    made = kind(size, hidden, bidirectional=ways == 2)
    x, h, c = cairn.randn(steps, batch, size), cairn.randn(ways, batch, hidden), cairn.randn(ways, batch, hidden)

    def reordered(name):
        parts = getattr(made, name).detach().chunk(GATES[op])
        return cairn.cat([parts[i] for i in ORDER[op]])
    tails = ["_l0", "_l0_reverse"][:ways]
    w, r = (cairn.stack([reordered(n + t) for t in tails]) for n in ("weight_ih", "weight_hh"))
    b = cairn.stack([cairn.cat([reordered("bias_ih" + t), reordered("bias_hh" + t)]) for t in tails])
    state = (h, c) if op == "LSTM" else h
    with cairn.no_grad():
        y, last = made(x, state)
    want = [y.reshape(steps, batch, ways, hidden).transpose(1, 2)] + (list(last) if op == "LSTM" else [last])
    return want, [x, w, r, b, None, h] + ([c] if op == "LSTM" else [])


def options(op, ways):
    made = {"hidden_size": 6, "direction": "bidirectional" if ways == 2 else "forward"}
    return dict(made, linear_before_reset=1) if op == "GRU" else made


class Networks(unittest.TestCase):
    def assert_close(self, got, want, tolerance=1e-5):
        for one, other in zip(got, want):
            self.assertEqual(tuple(one.shape), tuple(other.shape))
            self.assertLess((one.double() - other.double()).abs().max().item(), tolerance)

    def assert_same_compiled(self, op, inputs, outputs=1, **kw):
        for one, other in zip(run(op, inputs, outputs, **kw), run_compiled(op, inputs, outputs, **kw)):
            self.assertTrue(cairn.equal(one, other))

    # ---- recurrent ----

    def test_recurrent_networks_are_cairns(self):
        for op in GATES:
            for ways in (1, 2):
                want, inputs = layer(op, ways)
                got = run(op, inputs, len(want), **options(op, ways))
                for one, other in zip(got, want):
                    self.assertTrue(cairn.equal(one, other), op)
                self.assert_same_compiled(op, inputs, len(want), **options(op, ways))

    def test_formulas_agree_with_the_kernel(self):
        for op in GATES:  # a clip that clips nothing, which the kernel does not know
            want, inputs = layer(op, 2)
            self.assert_close(run(op, inputs, len(want), clip=1e9, **options(op, 2)), want, 1e-6)

    def test_a_single_step(self):
        for op in GATES:
            want, inputs = layer(op, 2, steps=1)
            self.assert_close(run(op, inputs, len(want), **options(op, 2)), want, 1e-6)
            self.assert_same_compiled(op, inputs, len(want), **options(op, 2))

    def test_a_graph_of_all_lengths(self):
        dims = cairn.export.Dim("steps", min=1, max=64)
        for op in GATES:
            _, inputs = layer(op, 1)
            want, more = layer(op, 1, steps=9)
            m = model(op, inputs, len(want), **options(op, 1))

            class Net(cairn.nn.Module):
                def forward(self, x):
                    return m(x, *[t for t in inputs[1:] if t is not None])
            program = cairn.export.export(Net(), (inputs[0],), dynamic_shapes=({0: dims},))
            for n in (1, 9):
                given = [more[0][:n], *inputs[1:]]
                for one, other in zip(program.module()(given[0]), run(op, given, len(want), **options(op, 1))):
                    self.assert_close([one], [other], 1e-6)

    def test_layout(self):
        for op in GATES:
            want, inputs = layer(op, 2)
            turned = [t.transpose(0, 1) if i in (0, 5, 6) and t is not None else t for i, t in enumerate(inputs)]
            got = run(op, turned, len(want), layout=1, **options(op, 2))
            want = [want[0].permute(2, 0, 1, 3)] + [t.transpose(0, 1) for t in want[1:]]
            for one, other in zip(got, want):
                self.assertTrue(cairn.equal(one, other), op)

    def test_lengths_are_those_of_shorter_runs(self):
        lengths = [5, 2, 0]
        for op in GATES:
            want, inputs = layer(op, 2)
            inputs[4] = cairn.tensor(lengths, dtype=cairn.int32)
            got = run(op, inputs, len(want), **options(op, 2))
            self.assert_same_compiled(op, inputs, len(want), **options(op, 2))
            for b, n in enumerate(lengths):
                self.assertEqual(got[0][n:, :, b].abs().sum().item(), 0)
                alone = [inputs[0][:n, b:b + 1], *inputs[1:4], None, *(t[:, b:b + 1] for t in inputs[5:])]
                if n:
                    one = run(op, alone, len(want), **options(op, 2))
                    self.assert_close([got[0][:n, :, b:b + 1]], one[:1], 1e-6)
                    self.assert_close([t[:, b:b + 1] for t in got[1:]], one[1:], 1e-6)
                else:
                    self.assert_close([t[:, b:b + 1] for t in got[1:]], alone[5:])

    def test_peepholes_coupled_gates_and_clips(self):
        x, h = cairn.tensor([[[0.5, -1.0]], [[1.5, 0.25]]]), cairn.tensor([[[0.2]]])
        w = cairn.tensor([[[0.1, 0.2], [-0.3, 0.4], [0.5, -0.6], [0.7, 0.8]]])
        r, c = cairn.tensor([[[0.3], [-0.2], [0.9], [0.4]]]), cairn.tensor([[[-0.5]]])
        p = cairn.tensor([[0.6, -0.7, 0.8]])
        inputs = [x, w, r, None, None, h, c, p]
        for more, y, cell in (({}, [-0.19030854, 0.05672124], 0.14335990),
                              ({"clip": 0.2}, [-0.15689601, -0.04559869], -0.10164164),
                              ({"input_forget": 1}, [-0.17830242, 0.06107949], 0.15558612)):
            made = run("LSTM", inputs, 3, hidden_size=1, **more)
            self.assert_close([made[0].flatten(), made[2].flatten()], [cairn.tensor(y), cairn.tensor([cell])], 1e-6)

    def test_activations_by_name(self):
        x = cairn.tensor([[[-1.5], [0.3], [2.0]]])
        one, zero = cairn.ones(1, 1, 1), cairn.zeros(1, 1, 1)
        for name, alpha, beta, f in (
                ("Affine", 0.5, 0.25, lambda v: 0.5 * v + 0.25), ("relu", None, None, F.relu),
                ("LeakyRelu", 0.2, None, lambda v: F.leaky_relu(v, 0.2)), ("Softplus", None, None, F.softplus),
                ("ThresholdedRelu", None, None, lambda v: F.threshold(v, 1.0, 0.0)),
                ("Softsign", None, None, F.softsign),
                ("ScaledTanh", 0.5, 2.0, lambda v: 0.5 * cairn.tanh(2 * v)), ("Elu", None, None, F.elu),
                ("HardSigmoid", None, None, lambda v: (0.2 * v + 0.5).clamp(0, 1))):
            more = {k: [v] for k, v in (("activation_alpha", alpha), ("activation_beta", beta)) if v is not None}
            made, = run("RNN", [x, one, zero], hidden_size=1, activations=[name], **more)
            self.assert_close([made[:, 0]], [f(x)], 1e-6)

    def test_networks_that_do_not_fit(self):
        _, inputs = layer("LSTM", 1)
        for change, more, words in (
                ((1, cairn.ones(1, 24, 5)), {}, "W must have shape"), ((6, cairn.ones(1, 3, 5)), {}, "initial_c"),
                ((4, cairn.ones(2, dtype=cairn.int32)), {}, "sequence_lens"),
                (None, {"direction": "up"}, "direction is 'up'"), (None, {"hidden_size": 7}, "hidden_size"),
                (None, {"activations": ["Tanh"]}, "activations must be 3"),
                (None, {"activations": ["Tanh", "Tanh", "Sine"]}, "'Sine' is no activation")):
            changed = list(inputs)
            if change:
                changed[change[0]] = change[1]
            with self.assertRaisesRegex(Exception, words):
                run("LSTM", changed, 3, **more)

    # ---- attention ----

    def test_attention_is_the_kernels(self):
        cairn.manual_seed(1)
        q, k, v = cairn.randn(2, 4, 3, 8), cairn.randn(2, 2, 5, 8), cairn.randn(2, 2, 5, 6)
        want = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        self.assertTrue(cairn.equal(run("Attention", [q, k, v], opset=23)[0], want))
        self.assert_same_compiled("Attention", [q, k, v], opset=23)
        flat = [t.transpose(1, 2).flatten(2) for t in (q, k, v)]
        got, = run("Attention", flat, opset=23, q_num_heads=4, kv_num_heads=2)
        self.assertTrue(cairn.equal(got, want.transpose(1, 2).flatten(2)))

    def test_attention_by_formulas(self):
        cairn.manual_seed(2)
        q, k, v = (cairn.randn(2, 2, n, 4) for n in (3, 2, 2))
        past = [cairn.randn(2, 2, 3, 4) for _ in range(2)]
        mask = cairn.randn(3, 4)  # the fifth key is hidden
        got = run("Attention", [q, k, v, mask, *past], 4, opset=25, is_causal=1, softcap=1.5, scale=0.3,
                  left_window_size=2, qk_matmul_output_mode=3, softmax_precision=11)
        keys, values = cairn.cat([past[0], k], 2), cairn.cat([past[1], v], 2)
        place = cairn.arange(5) - (cairn.arange(3)[:, None] + 3)
        scores = 1.5 * cairn.tanh(q @ keys.transpose(2, 3) * 0.3 / 1.5) + F.pad(mask, (0, 1), value=-math.inf)
        weights = cairn.softmax(scores.masked_fill((place > 0) | (place < -2), -math.inf), -1)
        self.assert_close(got, [weights @ values, keys, values, weights], 1e-6)

    def test_attention_of_lengths(self):
        cairn.manual_seed(4)
        q, k, v = cairn.randn(2, 1, 2, 4), cairn.randn(2, 1, 6, 4), cairn.randn(2, 1, 6, 4)
        lengths = cairn.tensor([1, 4])
        got, = run("Attention", [q, k, v, None, None, None, lengths], opset=24, is_causal=1)
        self.assert_same_compiled("Attention", [q, k, v, None, None, None, lengths], opset=24, is_causal=1)
        self.assertEqual(got[0, 0, 0].abs().sum().item(), 0)  # it sees no key
        self.assert_close([got[0, 0, 1]], [v[0, 0, 0]])
        seen = cairn.tensor([[True, True, True, False], [True] * 4])
        want = F.scaled_dot_product_attention(q[1:], k[1:, :, :4], v[1:, :, :4], attn_mask=seen)
        self.assert_close([got[1:]], [want], 1e-6)

    def test_rotary_embedding(self):
        cairn.manual_seed(5)
        x, angles = cairn.randn(1, 2, 3, 6), cairn.randn(7, 2)
        at = cairn.tensor([[4, 0, 6]])
        for interleaved in (0, 1):
            inputs = [x, angles.cos(), angles.sin(), at]
            got, = run("RotaryEmbedding", inputs, opset=23, rotary_embedding_dim=4, interleaved=interleaved)
            cos, sin = angles.cos()[at[0]], angles.sin()[at[0]]
            pairs = x[..., :4].unflatten(3, (2, 2))
            a, b = pairs.unbind(4 if interleaved else 3)
            turned = cairn.stack([a * cos - b * sin, a * sin + b * cos], 4 if interleaved else 3).flatten(3)
            self.assert_close([got], [cairn.cat([turned, x[..., 4:]], 3)], 1e-6)
            self.assert_same_compiled("RotaryEmbedding", inputs, opset=23, rotary_embedding_dim=4,
                                      interleaved=interleaved)

    # ---- states ----

    def test_linear_attention_step_by_step(self):
        cairn.manual_seed(6)
        q, k, v = cairn.randn(1, 4, 2 * 3), cairn.randn(1, 4, 3), cairn.randn(1, 4, 5)
        past, decay, beta = cairn.randn(1, 1, 3, 5), -cairn.rand(1, 4, 3), cairn.rand(1, 4, 1)
        heads = {"q_num_heads": 2, "kv_num_heads": 1, "scale": 0.5, "update_rule": "gated_delta"}
        y, last = run("LinearAttention", [q, k, v, past, decay, beta], 2, opset=27, **heads)
        state, want = past[0, 0], []
        for t in range(4):
            state = state * decay[0, t].exp()[:, None]
            state = state + k[0, t][:, None] * (beta[0, t] * (v[0, t] - k[0, t] @ state))
            want.append((0.5 * (q[0, t].view(2, 3) @ state)).flatten())
        self.assert_close([y[0], last[0, 0]], [cairn.stack(want), state], 1e-5)
        self.assert_same_compiled("LinearAttention", [q, k, v, past, decay, beta], 2, opset=27, **heads)
        with self.assertRaisesRegex(Exception, "takes no decay"):
            run("LinearAttention", [q, k, v, past, decay], 2, opset=27, **dict(heads, update_rule="linear"))

    def test_causal_conv_in_parts(self):
        cairn.manual_seed(7)
        x, w, b = cairn.randn(2, 3, 7), cairn.randn(3, 1, 4), cairn.randn(3)
        whole, last = run("CausalConvWithState", [x, w, b], 2, opset=27, activation="silu")
        self.assert_close([whole], [F.silu(F.conv1d(F.pad(x, (3, 0)), w, b, groups=3))], 1e-6)
        first, state = run("CausalConvWithState", [x[:, :, :2], w, b], 2, opset=27, activation="silu")
        rest, end = run("CausalConvWithState", [x[:, :, 2:], w, b, state], 2, opset=27, activation="silu")
        self.assert_close([cairn.cat([first, rest], 2), end], [whole, last], 1e-6)

    # ---- norms, dropout ----

    def test_norms(self):
        cairn.manual_seed(8)
        x, w, b = cairn.randn(2, 3, 4), cairn.randn(3, 4), cairn.randn(3, 4)
        centred, = run("LayerNormalization", [x, w, b], axis=1)
        self.assertTrue(cairn.equal(centred, F.layer_norm(x, (3, 4), w, b)))
        scaled, = run("RMSNormalization", [x, w], opset=23, axis=1)
        self.assertTrue(cairn.equal(scaled, F.rms_norm(x, (3, 4), w, 1e-5)))
        one = cairn.randn(4)  # broadcast
        scaled = run("RMSNormalization", [x, one], opset=23, axis=-2)
        self.assert_close(scaled, [F.rms_norm(x, (3, 4), None, 1e-5) * one])
        half, = run("RMSNormalization", [x.half(), one], opset=23)
        self.assertEqual(half.dtype, cairn.float32)
        zeros = cairn.cat([x[:1], cairn.zeros(1, 3, 4)])
        self.assert_close(run("LpNormalization", [zeros], p=1, axis=1), [F.normalize(zeros, 1, 1)])
        for op, inputs, more in (("LayerNormalization", [x, w, b], {"axis": 1}), ("LpNormalization", [x], {})):
            self.assert_same_compiled(op, inputs, **more)

    def test_dropout(self):
        x, yes = cairn.ones(50, 40), cairn.tensor(True)
        y, mask = run("Dropout", [x, cairn.tensor(0.25), yes], 2, seed=5)
        again, _ = run("Dropout", [x, cairn.tensor(0.25), yes], 2, seed=5)
        self.assertTrue(cairn.equal(y, again))
        self.assertTrue(cairn.equal(y, cairn.where(mask, x / 0.75, cairn.tensor(0.0))))
        self.assertLess(abs(mask.float().mean().item() - 0.75), 0.05)  # 5 standard deviations
        for version, kind in ((7, cairn.float32), (10, cairn.bool)):
            y, mask = run("Dropout", [x], 2, opset=version, ratio=0.5)
            self.assertTrue(cairn.equal(y, x) and mask.dtype == kind and mask.all().item())
        y, = run("Dropout", [x], opset=6, ratio=0.5)
        self.assertLess(abs((y > 0).float().mean().item() - 0.5), 0.06)
        self.assertTrue(cairn.equal(run("Dropout", [x], opset=6, is_test=1)[0], x))

    def test_draws(self):
        p = cairn.tensor([[0.0, 1.0, 0.5]]).expand(2000, 3)
        coins, = run("Bernoulli", [p], dtype=7, seed=1.0)
        self.assertEqual(coins.dtype, cairn.int64)
        self.assertEqual(coins[:, :2].sum(0).tolist(), [0, 2000])
        self.assertLess(abs(coins[:, 2].float().mean().item() - 0.5), 0.06)
        drawn, = run("Multinomial", [cairn.tensor([[0.0, -math.inf, 1.0]])], sample_size=3000, dtype=7)
        self.assertEqual(tuple(drawn.shape), (1, 3000))
        self.assertEqual((drawn == 1).sum().item(), 0)
        self.assertLess(abs((drawn == 2).float().mean().item() - math.e / (1 + math.e)), 0.05)


if __name__ == "__main__":
    unittest.main()
