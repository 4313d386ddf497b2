"""com.microsoft's fused operators: onnxruntime's numbers where it runs them on a CPU, formulas elsewhere."""
import unittest

import cairn
from cairn.nn import functional as F
from onnx_node import run, run_compiled

# Operator, inputs (shapes of waves, whole numbers, None), attributes; of each result the first, the middle and the last
# number and the sum of all, by onnxruntime 1.31.
RECORDED = [
    ("GroupQueryAttention", [(2, 3, 32), (2, 3, 32), (2, 3, 32), None, None, [2, 2], [3], None, None, None, None,
     (2,)], {"num_heads": 2, "kv_num_heads": 2, "softcap": 2.0, "scale": 0.7}, [[0.403501, 0.824825, 0.880029,
     -0.580951]]),
    ("Attention", [(2, 3, 4), (4, 24), (24,), [[1, 1, 0], [0, 1, 1]]], {"num_heads": 2, "unidirectional": 1},
     [[-0.953575, -2.34172, -0.659147, 28.6938]]),
    ("Attention", [(2, 3, 4), (4, 24), (24,), [2, 3], (2, 2, 2, 2, 4)], {"num_heads": 2}, [[-0.549608, 0.684103,
     0.337247, -2.99615], [-0.756802, -0.997199, -1.3928, 17.1887]]),
    ("Attention", [(2, 3, 4), (4, 22), (22,), None, None, (1, 2, 3, 3)], {"num_heads": 2, "qkv_hidden_sizes": [8, 8,
     6], "scale": 0.4}, [[-0.685509, -0.774871, 1.06865, 7.62547]]),
    ("MultiHeadAttention", [(2, 3, 8), (2, 4, 8), (2, 4, 6), (22,), [[1, 0, 1, 1], [1, 1, 1, 0]], (1, 2, 3, 4)],
     {"num_heads": 2}, [[1.23059, 0.521984, -0.802253, -6.19347]]),
    ("MultiHeadAttention", [(2, 3, 8), (2, 3, 8), (2, 3, 8), None, None, None, (2, 2, 2, 4), (2, 2, 2, 4)],
     {"num_heads": 2, "unidirectional": 1}, [[0.476605, -0.622501, -0.683686, -1.68694], [-0.279415, -0.469612,
     -0.999998, 0.991614], [0.656987, 0.107053, -0.99338, -0.0641754]]),
    ("MultiHeadAttention", [(1, 2, 8), (1, 2, 3, 4), (1, 2, 3, 4)], {"num_heads": 2}, [[0.534546, -0.196359,
     0.158719, 1.24719]]),
    ("GroupQueryAttention", [(1, 3, 64), (1, 3, 32), (1, 3, 32), (1, 2, 4, 16), (1, 2, 4, 16), [6], [7], (9, 8), (9,
     8)], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 4}, [[-0.778472, 0.0933936,
     0.877619, -1.59835], [0.14112, -0.625764, -0.64121, -3.16375], [-0.756802, -0.650823, 0.997588, -2.12287]]),
    ("GroupQueryAttention", [(2, 1, 128), None, None, (2, 2, 6, 16), (2, 2, 6, 16), [4, 4], [5], (9, 8), (9, 8)],
     {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1}, [[-0.9009, 0.249161, -0.437522,
     -1.04898]]),
    ("RotaryEmbedding", [(2, 3, 24), [2], (9, 2), (9, 2)], {"num_heads": 4, "rotary_embedding_dim": 4}, [[0.313276,
     -0.574364, 0.476857, 0.25843]]),
    ("SkipLayerNormalization", [(2, 3, 8), (1, 3, 8), (8,), (8,), (8,)], {"epsilon": 0.01}, [[-0.665551, 1.06783,
     1.2383, -16.8538], [0.854904, -0.257674, -0.669415, 0.0134641], [1.15177, 1.18427, 1.46661, 6.92929],
     [0.0846685, 0.602897, -1.73899, 0.107713]]),
    ("SkipSimplifiedLayerNormalization", [(2, 3, 8), (2, 3, 8), (8,), (8,)], {"epsilon": 0.01}, [[1.11644, 1.63677,
     0.135902, 4.90328], [0.0, 0.0, 0.0, 0.0], [1.24956, 2.93647, 0.895239, 7.77246], [0.982591, 0.612994,
     -0.994876, -1.4311]]),
    ("EmbedLayerNormalization", [[[1, 2, 0], [3, 4, 1]], [[0, 1, 1], [0, 0, 1]], (5, 8), (6, 8), (2, 8), (8,), (8,),
     [[1, 1, 0], [1, 1, 1]]], {}, [[0.173592, 0.139859, 2.25483, -6.10094], [2.0, 3.0, 3.0, 5.0], [-0.192627,
     -1.05248, -1.16937, -6.35643]]),
    ("FusedConv", [(1, 2, 5, 5), (3, 2, 3, 3), (3,), (1, 3, 3, 3)], {"activation": "Relu"}, [[3.91861, 0.0, 0.0,
     73.6886]]),
    ("FusedConv", [(1, 2, 5, 5), (3, 2, 3, 3), (3,)], {"activation": "Clip", "activation_params": [-0.1, 0.3],
     "pads": [1, 1, 0, 0]}, [[-0.1, -0.1, -0.1, 4.87381]]),
    ("FusedGemm", [(3, 4), (5, 4), (5,)], {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha":
     0.5}, [[1.69035, -0.222555, -0.117768, 5.51675]]),
    ("FusedMatMul", [(4, 3, 2), (3, 4, 5)], {"transBatchA": 1, "transA": 1, "alpha": 0.3}, [[0.177021, -0.591669,
     -0.102613, 0.335805]]),
    ("BiasGelu", [(3, 4), (4,)], {}, [[0.673141, 1.64851, -0.0680411, 12.9259]]),
    ("FastGelu", [(3, 4), (4,)], {}, [[0.673044, 1.64839, -0.0680413, 12.9246]]),
    ("QuickGelu", [(3, 4)], {"alpha": 1.3}, [[0.0, 0.587855, -0.20896, 3.47844]]),
    ("CDist", [(3, 4), (5, 4)], {"metric": "sqeuclidean"}, [[1.23596, 8.99622, 0.574475, 49.9075]]),
    ("ExpandDims", [(3, 4), -1], {}, [[0.0, 0.796565, -0.800667, 3.87217]]),
    ("Trilu", [(2, 3, 3)], {"upper": 0}, [[0.0, -0.187295, 0.00681464, 0.229441]]),
    ("DecoderMaskedMultiHeadAttention", [(2, 1, 8), (2, 1, 8), (2, 1, 8), [[1, 0, 1, 1], [1, 1, 1, 1]], None, (2, 2,
     6, 4), (2, 2, 6, 4), [3], None, None, (24,)], {"num_heads": 2, "past_present_share_buffer": 1}, [[0.723903,
     0.588844, -0.308879, 2.53616], [-0.958924, -0.893681, -0.961885, 1.24747], [-0.279415, -0.895105, -0.176513,
     -2.67503]]),
    ("CropAndResize", [(2, 3, 6, 5), (3, 4), [0, 1, 1], [4, 3]], {"extrapolation_value": 0.7}, [[0.214815, 0.7, 0.7,
     59.047]]),
    ("ConvTransposeWithDynamicPads", [(1, 2, 4, 4), (2, 3, 3, 3), [1, 0, 1, 1], (3,)], {"strides": [2, 2]},
     [[0.0334361, 1.65812, 0.12543, -71.2454]]),
    ("GatherND", [(2, 3, 4), [[0, 1], [1, 2]]], {}, [[0.995881, 0.898708, 0.792427, 6.92475]]),
]


# These take numbers as inputs, which a graph that is captured does not know.
NUMBERS = ("GroupQueryAttention", "ExpandDims", "DecoderMaskedMultiHeadAttention", "CropAndResize",
           "ConvTransposeWithDynamicPads")


def wave(k, shape):
    n = cairn.Size(shape).numel()
    return cairn.sin(cairn.arange(n, dtype=cairn.float64) * (0.37 + 0.11 * k) + k).float().reshape(shape)


def given(op, inputs):
    whole = cairn.int64 if op in ("RotaryEmbedding", "ConvTransposeWithDynamicPads", "GatherND") else cairn.int32
    return [None if x is None else wave(i, x) if isinstance(x, tuple) else cairn.tensor(x, dtype=whole)
            for i, x in enumerate(inputs)]


def fused(op, inputs, outputs=1, **attrs):
    return run(op, inputs, outputs, opset=1, domain="com.microsoft", **attrs)


class Fused(unittest.TestCase):
    def assert_close(self, one, other, tolerance=1e-5):
        self.assertEqual(tuple(one.shape), tuple(other.shape))
        self.assertLess((one - other).abs().max().item(), tolerance)

    def test_recorded_numbers(self):
        for op, inputs, attrs, want in RECORDED:
            made = fused(op, given(op, inputs), len(want), **attrs)
            for t, (first, middle, last, total) in zip(made, want):
                flat = t.double().flatten()
                size = flat.abs().sum().item() + 1
                with self.subTest(op=op, attrs=attrs):
                    for got, number in ((flat[0], first), (flat[len(flat) // 2], middle), (flat[-1], last)):
                        self.assertAlmostEqual(got.item(), number, delta=2e-5)  # six digits are stored
                    self.assertAlmostEqual(flat.sum().item(), total, delta=2e-6 * size + 2e-5)

    def test_compiled_gives_the_same_bits(self):
        for op, inputs, attrs, want in RECORDED:
            if op in NUMBERS:
                continue
            x = given(op, inputs)
            eager = fused(op, x, len(want), **attrs)
            for one, other in zip(eager, run_compiled(op, x, len(want), opset=1, domain="com.microsoft", **attrs)):
                self.assertTrue(cairn.equal(one, other), op)

    def test_packed_heads(self):
        cairn.manual_seed(1)
        q, k, v = (cairn.randn(2, 3, 2, 4) for _ in range(3))
        want, = fused("MultiHeadAttention", [t.flatten(2) for t in (q, k, v)], num_heads=2)
        packed, = fused("MultiHeadAttention", [cairn.stack([q, k, v], 3)], num_heads=2)
        self.assertTrue(cairn.equal(packed, want))
        packed, = fused("MultiHeadAttention", [q.flatten(2), cairn.stack([k, v], 3)], num_heads=2)
        self.assertTrue(cairn.equal(packed, want))

    def test_norms_with_channels_last(self):
        cairn.manual_seed(2)
        x, w, b, skip, more = cairn.randn(2, 3, 3, 8), cairn.randn(8), cairn.randn(8), cairn.randn(2, 8), cairn.randn(8)
        norm = F.group_norm(x.permute(0, 3, 1, 2), 4, w, b).permute(0, 2, 3, 1)
        self.assert_close(fused("GroupNorm", [x, w, b], groups=4, activation=1)[0], F.silu(norm))
        added = x + skip[:, None, None] + more
        y, total = fused("SkipGroupNorm", [x, w, b, skip, more], 2, groups=4)
        self.assert_close(total, added)
        self.assert_close(y, F.group_norm(added.permute(0, 3, 1, 2), 4, w, b).permute(0, 2, 3, 1))

    def test_small_ones(self):
        cairn.manual_seed(3)
        x, b, skip = cairn.randn(1, 3, 8), cairn.randn(8), cairn.randn(1, 3, 8)
        self.assert_close(fused("BiasAdd", [x, b, skip])[0], x + b + skip)
        left, right = (x + b).chunk(2, -1)
        self.assert_close(fused("BiasSplitGelu", [x, b])[0], left * F.gelu(right))
        flat = cairn.softmax((x + b).flatten(1), 1).view(1, 3, 8)
        self.assert_close(fused("BiasSoftmax", [x, b], axis=1, is_inner_broadcast=0)[0], flat)
        bins, = fused("Rfft", [x], onesided=1, normalized=0, signal_ndim=1)
        self.assertEqual(tuple(bins.shape), (1, 3, 5, 2))
        self.assert_close(fused("Irfft", [bins], onesided=1, normalized=0, signal_ndim=1)[0], x)
        image, w = cairn.randn(1, 5, 5, 2), cairn.randn(3, 3, 3, 2)
        want = F.conv2d(image.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        self.assert_close(fused("NhwcConv", [image, w])[0], want)
        y, mask = fused("BiasDropout", [x, b, skip, cairn.tensor(0.5), cairn.tensor(True)], 2)
        self.assert_close(y, cairn.where(mask, (x + b) * 2, cairn.tensor(0.0)) + skip)
        self.assertEqual(fused("Range", [cairn.tensor(2), cairn.tensor(5)])[0].tolist(), [2, 3, 4])

    def test_operators_that_both_domains_have(self):
        cairn.manual_seed(4)
        x, w, b, past = cairn.randn(2, 3, 5), cairn.randn(3, 1, 4), cairn.randn(3), cairn.randn(2, 3, 3)
        q, k, v, decay = cairn.randn(1, 4, 6), cairn.randn(1, 4, 3), cairn.randn(1, 4, 5), -cairn.rand(1, 4, 1)
        heads = {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": "gated"}
        for op, inputs, attrs in (("CausalConvWithState", [x, w, b, past], {"activation": "silu"}),
                                  ("LinearAttention", [q, k, v, None, decay], heads)):
            for one, other in zip(fused(op, inputs, 2, **attrs), run(op, inputs, 2, opset=27, **attrs)):
                self.assertTrue(cairn.equal(one, other))
        y, places, counts = fused("Unique", [cairn.tensor([2.0, 1.0, 1.0, 3.0, 4.0, 3.0])], 3)
        self.assertEqual(y.tolist(), [2, 1, 3, 4])
        self.assertEqual(places.tolist(), [0, 1, 1, 2, 3, 2])
        self.assertEqual(counts.tolist(), [1, 2, 2, 1])
        self.assert_close(fused("GemmFastGelu", [x, x[0].T, b])[0], F.gelu(x @ x[0].T + b, approximate="tanh"))

    def test_wrong_use_is_said(self):
        x, w = cairn.randn(1, 2, 8), cairn.randn(8, 24)
        for op, inputs, attrs, words in (
                ("Attention", [x, w], {"num_heads": 3}, "has not 3 heads"),
                ("Attention", [x, w], {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
                ("MultiHeadAttention", [x], {"num_heads": 2}, "key or value is missing"),
                ("FusedGemm", [x[0], w], {"activation": "Sine"}, "'Sine' is not there"),
                ("CDist", [x[0], x[0]], {"metric": "cosine"}, "metric is 'cosine'"),
                ("SkipLayerNormalization", [x, x, w[0]], {}, "the scale must have 8 numbers")):
            with self.assertRaisesRegex(Exception, words):
                fused(op, inputs, **attrs)


if __name__ == "__main__":
    unittest.main()
