#!/usr/bin/env python3
"""What programs about texts and series rely on beside the numbers: packed sequences, recurrent layers and transformers
under other hands, old forms of calls, how things print. Where torch is installed it is asked the same."""
import collections
import io
import unittest
import warnings

import cairn

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = [cairn] + ([torch] if torch else [])


def spoken(text):
    return str(text).replace("torch.", "cairn.")


class Packed(unittest.TestCase):
    def test_errors(self):
        for m in LIBRARIES:
            pack = m.nn.utils.rnn.pack_padded_sequence
            with self.assertRaisesRegex(RuntimeError, "enforce_sorted"):
                pack(m.zeros(3, 2, 1), [2, 3])
            with self.assertRaisesRegex(RuntimeError, "enforce_sorted"):
                m.nn.utils.rnn.pack_sequence([m.zeros(1), m.zeros(2)])
            with self.assertRaises(RuntimeError):
                pack(m.zeros(3, 2, 1), [3, 0])
            with self.assertRaises(RuntimeError):
                m.nn.utils.rnn.pad_sequence([])

    def test_lengths(self):
        for m in LIBRARIES:
            for lengths in ([3, 2], (3, 2), m.tensor([3, 2]), m.tensor([3.0, 2.0]), m.tensor([3, 2], dtype=m.int32)):
                packed = m.nn.utils.rnn.pack_padded_sequence(m.arange(6.).view(3, 2, 1), lengths)
                self.assertEqual(packed.batch_sizes.tolist(), [2, 2, 1])
                self.assertEqual(packed.data.flatten().tolist(), [0, 1, 2, 3, 4])
            self.assertEqual(packed.long().data.dtype, m.int64)
            self.assertEqual(packed.int().data.dtype, m.int32)

    def test_texts_stay(self):
        for m in LIBRARIES:
            batch = m.utils.data.default_collate([("a", 1), ("b", 2)])
            self.assertEqual(batch[0], ("a", "b"))
            self.assertEqual(m.utils.data.default_collate(["a", "b"]), ["a", "b"])
            self.assertEqual(m.utils.data.default_collate([{"t": "a"}, {"t": "b"}]), {"t": ["a", "b"]})


class Recurrent(unittest.TestCase):
    def test_refused(self):
        for m in LIBRARIES:
            for layer in (m.nn.LSTM(4, 5), m.nn.GRU(4, 5), m.nn.RNN(4, 5)):
                with self.assertRaises(ValueError):
                    layer(m.zeros(4))
                with self.assertRaises(ValueError):
                    layer(m.zeros(3, 2, 4, dtype=m.float64))
                with self.assertRaises(RuntimeError):
                    layer(m.zeros(3, 2, 3))

    def test_dropout_of_one_layer(self):
        for m in LIBRARIES:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                m.nn.LSTM(3, 4, dropout=0.5)
                m.nn.GRU(3, 4, 2, dropout=0.5)
            self.assertEqual(len(told), 1)
            self.assertIn("num_layers=1", str(told[0].message))

    def test_names(self):
        for m in LIBRARIES:
            layer = m.nn.LSTM(3, 4, 2, bidirectional=True)
            self.assertEqual(layer._all_weights[1], ["weight_ih_l0_reverse", "weight_hh_l0_reverse",
                                                     "bias_ih_l0_reverse", "bias_hh_l0_reverse"])
            for names, weights in zip(layer._all_weights, layer.all_weights):
                for name, weight in zip(names, weights):
                    self.assertIs(layer.__getattr__(name), weight)
            with self.assertRaises(AttributeError):
                layer.__getattr__("weight_ih_l2")

    def test_autocast(self):
        with cairn.autocast("cpu", cairn.bfloat16):
            out, _ = cairn.nn.GRU(3, 4)(cairn.zeros(2, 1, 3, dtype=cairn.bfloat16))
        self.assertEqual(out.shape, (2, 1, 4))


class Transformers(unittest.TestCase):
    def test_heads(self):
        for m in LIBRARIES:
            for make in (lambda: m.nn.MultiheadAttention(10, 3), lambda: m.nn.TransformerEncoderLayer(10, 3),
                         lambda: m.nn.TransformerDecoderLayer(10, 3)):
                with self.assertRaises(AssertionError):
                    make()

    def test_own_blocks(self):
        for m in LIBRARIES:
            class Layer(m.nn.TransformerEncoderLayer):
                seen = None

                def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
                    x, self.seen = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask)
                    return self.dropout1(x)

            layer = Layer(4, 2, 8, dropout=0.0, batch_first=True)
            plain = m.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
            plain.load_state_dict(layer.state_dict())
            x = m.arange(24.).view(2, 3, 4) / 10
            self.assertTrue(m.allclose(layer(x), plain(x), atol=1e-6))
            self.assertEqual(layer.seen.shape, (2, 3, 3))
            layer.seen = None
            stack = m.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            stack(x)
            self.assertEqual([one.seen.shape for one in stack.layers], [(2, 3, 3)] * 2)


class Forms(unittest.TestCase):
    def test_factor_first(self):
        for m in LIBRARIES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                t = m.ones(3)
                self.assertEqual(t.add_(-0.5, m.ones(3) * 4).tolist(), [-1] * 3)
                self.assertEqual(t.addcmul_(2, m.ones(3), m.ones(3) * 3).tolist(), [5] * 3)
                self.assertEqual(t.addcdiv_(-1, m.ones(3) * 4, m.ones(3) * 2).tolist(), [3] * 3)
                self.assertEqual(m.add(t, 2, m.ones(3)).tolist(), [5] * 3)
                self.assertEqual(m.sub(t, 2, m.ones(3)).tolist(), [1] * 3)
            with self.assertRaises(TypeError):
                t.mul_(2, m.ones(3))
        with self.assertWarns(UserWarning):
            cairn.ones(1).add_(1, cairn.ones(1))

    def test_ctc_lengths(self):
        for m in LIBRARIES:
            scores, targets = m.zeros(5, 2, 3).log_softmax(2), m.tensor([[1, 2], [2, 1]])
            loss = m.nn.CTCLoss()
            expected = loss(scores, targets, m.tensor([5, 4]), m.tensor([2, 1])).item()
            self.assertEqual(loss(scores, targets, (5, 4), [2, 1]).item(), expected)
            self.assertEqual(repr(loss), "CTCLoss()")
            self.assertEqual((loss.blank, loss.zero_infinity, loss.reduction), (0, False, "mean"))

    def test_results(self):
        for m in LIBRARIES:
            for made in (m.std_mean(m.ones(3)), m.var_mean(m.ones(3, 2), 0),
                         m.nn.functional.max_pool2d(m.ones(1, 1, 2, 2), 2, return_indices=True)):
                self.assertIs(type(made), tuple)
            self.assertEqual(m.histogram(m.arange(4.))[0].shape, (100,))
            self.assertEqual(m.arange(4.).histogram(m.tensor([0., 2., 4.])).hist.tolist(), [2, 2])
            for call in (int, float):
                with self.assertRaises(ValueError):
                    call(m.ones(2))

    def test_kinds_of_dictionaries(self):
        for m in LIBRARIES:
            saved = {"state": m.nn.Linear(1, 1).state_dict(), "plain": {"a": m.ones(1)},
                     "more": [collections.OrderedDict(b=1)]}
            for other in LIBRARIES:
                file = io.BytesIO()
                m.save(saved, file)
                file.seek(0)
                loaded = other.load(file)
                self.assertIs(type(loaded["state"]), collections.OrderedDict)
                self.assertIs(type(loaded["plain"]), dict)
                self.assertEqual(loaded["more"], [collections.OrderedDict(b=1)])
                self.assertEqual(list(loaded["state"]), ["weight", "bias"])


class Compiled(unittest.TestCase):
    def test_same(self):
        net = cairn.nn.Linear(2, 3)
        x = cairn.ones(1, 2)
        self.assertEqual(cairn.compile(net, mode="max-autotune")(x).tolist(), net(x).tolist())

        @cairn.compile
        def twice(t):
            return t * 2

        @cairn.compile(fullgraph=True, dynamic=False)
        def thrice(t):
            return t * 3

        @cairn.jit.script
        def half(t: cairn.Tensor) -> cairn.Tensor:
            return t / 2

        self.assertEqual((twice(x) + thrice(x) + half(x)).tolist(), [[5.5, 5.5]])
        self.assertEqual(cairn.jit.trace(net, (x,))(x).tolist(), net(x).tolist())
        self.assertFalse(cairn.jit.is_scripting())

    def test_refused(self):
        with self.assertRaises(RuntimeError):
            cairn.compile(abs, mode="default", options={})
        with self.assertRaises(TypeError):
            cairn.compile(3)
        with self.assertRaises(NotImplementedError):
            cairn.jit.save(cairn.nn.Linear(1, 1), io.BytesIO())

    def test_modules(self):
        class Cell(cairn.jit.ScriptModule):
            def __init__(self):
                super().__init__()
                self.ih, self.hh = cairn.nn.Linear(2, 4), cairn.nn.Linear(4, 4)

            @cairn.jit.script_method
            def forward(self, x, h):
                return (self.ih(x) + self.hh(h)).tanh()

            @cairn.jit.ignore
            def named(self):
                return "cell"

            @cairn.jit.unused
            def other(self):
                return 1

        cell = Cell()
        self.assertEqual(cell(cairn.ones(1, 2), cairn.zeros(1, 4)).shape, (1, 4))
        self.assertEqual((cell.named(), cell.other(), len(list(cell.parameters()))), ("cell", 1, 4))


class Printing(unittest.TestCase):
    def same(self, make):
        """Printed by cairn as by torch; returns cairn's."""
        texts = [spoken(make(m)) for m in LIBRARIES]
        self.assertEqual(texts, texts[:1] * len(texts))
        return texts[0]

    def test_formats(self):
        self.assertEqual(self.same(lambda m: f"{m.tensor(2.5)} {m.tensor(3)} {m.tensor(2.5, requires_grad=True):.1f}"),
                         "2.5 3 2.5")
        self.assertEqual(self.same(lambda m: f"{m.tensor([1, 2])}"), "tensor([1, 2])")
        self.assertIn("Parameter containing", self.same(lambda m: f"{m.nn.Parameter(m.tensor(1.0))}"))

    def test_lines(self):
        """Where the line ends before grad_fn depends on the name's length."""
        for n in range(1, 9):
            for step in (0.5, 0.25, 100.25):
                self.same(lambda m: m.cat([m.arange(n, dtype=m.float32).mul(step).requires_grad_()]))
                self.same(lambda m: m.arange(n, dtype=m.float64).mul(step).requires_grad_().exp().log())
        text = self.same(lambda m: m.cat([m.arange(6.).mul(0.5).requires_grad_()]))
        self.assertEqual(text.split("\n")[1], "       grad_fn=<CatBackward0>)")

    def test_options(self):
        def tensors(m):
            return [m.tensor([1e-5, 12345.678]), m.tensor([0.5, 2.0]), m.arange(1200)]

        steps = [{"sci_mode": False}, {"precision": 2}, {"sci_mode": True}, {"linewidth": 40, "threshold": 20},
                 {"profile": "short"}, {"threshold": float("inf"), "precision": 3}, {"edgeitems": 1, "threshold": 5},
                 {"profile": "default"}]
        try:
            for options in steps:
                for m in LIBRARIES:
                    m.set_printoptions(**options)
                self.same(lambda m: [str(t) for t in tensors(m)])
        finally:
            for m in LIBRARIES:
                m.set_printoptions(profile="default")
        cairn.set_printoptions(sci_mode=False, precision=2)
        self.assertEqual(str(cairn.tensor([1e-5, 12345.678])), "tensor([    0.00, 12345.68])")
        cairn.set_printoptions(profile="default")
        self.assertEqual(str(cairn.tensor([1e-5, 1.0])), "tensor([1.0000e-05, 1.0000e+00])")


if __name__ == "__main__":
    unittest.main()
