"""cairn.onnx: quantised numbers, strings, ai.onnx.ml and ai.onnx.preview.training: what onnx's own cases do not reach.
Expected numbers are worked out by hand or with other ops; those of support vector machines are onnxruntime's."""
import unittest

import cairn
from onnx_files import FLOAT, INT64, STRING, field, info
from onnx_node import attribute

UINT8, INT8 = 2, 3
ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"


def model(op, inputs, outputs, domain="", version=21, kinds=(), **attrs):
    """One node; kinds: the types of its inputs, float32 where there are none."""
    names = inputs.split()
    kinds = list(kinds) or [FLOAT] * len(names)
    node = b"".join(field(1, "" if name == "_" else name) for name in names)
    node += b"".join(field(2, name) for name in outputs.split()) + field(4, op) + field(7, domain)
    node += b"".join(attribute(name, value) for name, value in attrs.items())
    graph = field(1, node) + b"".join(info(11, name, kind) for name, kind in zip(names, kinds) if name != "_")
    graph += b"".join(field(12, field(1, name)) for name in outputs.split())
    made = field(1, 8) + field(8, field(1, "") + field(2, 21)) + field(7, graph)
    if domain:
        made += field(8, field(1, domain) + field(2, version))
    return cairn.onnx.load_model_from_string(made)


STUMPS = dict(
    nodes_treeids=[0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 0], nodes_featureids=[1, 0, 0, 0],
    nodes_values=[0.5, 0.0, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
    nodes_truenodeids=[1, 0, 0, 0], nodes_falsenodeids=[2, 0, 0, 0], target_treeids=[0, 0, 1],
    target_nodeids=[1, 2, 0], target_ids=[0, 0, 0], target_weights=[1.0, 2.0, 10.0], n_targets=1)


class Features(unittest.TestCase):
    def same_compiled(self, m, *tensors):
        fast = cairn.compile(lambda *xs: m(*xs), fullgraph=True)
        eager = m(*tensors)
        for _ in range(2):
            made = fast(*tensors)
            for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (eager, made))):
                self.assertTrue(cairn.equal(one, other))
        return eager

    def test_products_of_int8_are_exact(self):
        for dtype, kind, low in ((cairn.uint8, UINT8, 0), (cairn.int8, INT8, -128)):
            a = cairn.randint(low, low + 256, (2, 5, 300)).to(dtype)
            b = cairn.randint(low, low + 256, (300, 7)).to(dtype)
            u, v = cairn.tensor(low + 3, dtype=dtype), cairn.randint(low, low + 256, (7,)).to(dtype)
            want = cairn.matmul(a.double() - u.double(), b.double() - v.double())
            m = model("MatMulInteger", "a b u v", "y", kinds=[kind] * 4)
            self.assertEqual(self.same_compiled(m, a, b, u, v).tolist(), want.tolist())

    def test_convolutions_of_int8_are_exact(self):
        x = cairn.randint(0, 256, (2, 4, 9, 8)).to(cairn.uint8)
        w = cairn.randint(-128, 128, (6, 2, 3, 2)).to(cairn.int8)
        u, v = cairn.tensor(7, dtype=cairn.uint8), cairn.tensor([0, 1, -2, 3, 4, 5], dtype=cairn.int8)
        m = model("ConvInteger", "x w u v", "y", kinds=[UINT8, INT8, UINT8, INT8], group=2, strides=[2, 1],
                  dilations=[1, 2], pads=[1, 0, 2, 1])
        padded = cairn.nn.functional.pad(x.double() - 7, (0, 1, 1, 2))
        want = cairn.nn.functional.conv2d(padded, w.double() - v.double().reshape(6, 1, 1, 1), stride=(2, 1),
                                          dilation=(1, 2), groups=2)
        self.assertEqual(self.same_compiled(m, x, w, u, v).tolist(), want.tolist())

    def test_blocks_that_do_not_divide_a_size(self):
        x, scale = cairn.tensor([[3.0, 5.0, 9.0, 250.0, -8.0]]), cairn.tensor([[1.0, 2.0, 4.0]])
        m = model("QuantizeLinear", "x s", "y", axis=1, block_size=2, output_dtype=INT8)
        self.assertEqual(self.same_compiled(m, x, scale).tolist(), [[3, 5, 4, 125, -2]])
        with self.assertRaisesRegex(Exception, "blocks of 2"):
            m(x, cairn.ones(1, 2))

    def test_weights_of_four_bits(self):
        b = cairn.randint(0, 256, (3, 2, 8)).to(cairn.uint8)
        scale, a = cairn.rand(6) + 0.5, cairn.randn(2, 20)
        numbers = cairn.stack([b % 16, b // 16], dim=-1).reshape(3, 2, 16).float()
        w = ((numbers - 8) * scale.reshape(3, 2, 1)).reshape(3, 32)[:, :20]
        m = model("MatMulNBits", "a b s", "y", "com.microsoft", 1, [FLOAT, UINT8, FLOAT], K=20, N=3, bits=4,
                  block_size=16)
        self.assertTrue(cairn.equal(self.same_compiled(m, a, b, scale), cairn.nn.functional.linear(a, w)))

    def test_sums_of_quantised_numbers_are_rounded_once(self):
        a, b = cairn.tensor([[0, 255, 130]], dtype=cairn.uint8), cairn.tensor([[128, 1, 127]], dtype=cairn.uint8)
        z, s = cairn.tensor(128, dtype=cairn.uint8), cairn.tensor(0.5)
        m = model("QLinearAdd", "a as az b bs bz ys yz", "y", "com.microsoft", 1,
                  [UINT8, FLOAT, UINT8, UINT8, FLOAT, UINT8, FLOAT, UINT8])
        self.assertEqual(self.same_compiled(m, a, s, z, b, s, z, cairn.tensor(1.0), z).tolist(), [[64, 128, 128]])

    def test_trees_of_every_kind_of_test(self):
        rows = [float("-inf"), 0.0, 0.5, 0.75, float("nan")]
        x = cairn.tensor([[9.0, v] for v in rows])
        holds = {"LEQ": [1, 1, 1, 0, 0], "LT": [1, 1, 0, 0, 0], "GTE": [0, 0, 1, 1, 0], "GT": [0, 0, 0, 1, 0],
                 "EQ": [0, 0, 1, 0, 0], "NEQ": [1, 1, 0, 1, 1]}
        for name, want in holds.items():
            for tracks in (0, 1):
                m = model("TreeEnsembleRegressor", "x", "y", ML, 3,
                          **{**STUMPS, "nodes_modes": ["BRANCH_" + name, "LEAF", "LEAF", "LEAF"],
                             "nodes_missing_value_tracks_true": [tracks, 0, 0, 0]})
                wanted = want[:4] + [1 if tracks else want[4]]
                self.assertEqual(self.same_compiled(m, x).flatten().tolist(), [12.0 - yes for yes in wanted], name)

    def test_many_rows_go_in_parts(self):
        m = model("TreeEnsembleRegressor", "x", "y", ML, 3, **STUMPS)
        x = cairn.randn(200000, 2)
        self.assertTrue(cairn.equal(m(x), cairn.where(x[:, 1:] <= 0.5, 11.0, 12.0)))

    def test_trees_that_are_none(self):
        for change, words in (({"nodes_truenodeids": [0, 0, 0, 0]}, "lead back"),
                              ({"nodes_falsenodeids": [7, 0, 0, 0]}, "not there"),
                              ({"target_ids": [0, 5, 0]}, "out of range"),
                              ({"nodes_featureids": [-1, 0, 0, 0]}, "negative"),
                              ({"nodes_values": [0.5]}, "its nodes"), ({"nodes_nodeids": [0, 1, 1, 0]}, "one number"),
                              ({"nodes_featureids": [5, 0, 0, 0]}, "6 features")):
            with self.assertRaisesRegex(Exception, words):
                model("TreeEnsembleRegressor", "x", "y", ML, 3, **{**STUMPS, **change})(cairn.ones(1, 2))

    def test_labels_of_words_and_numbers(self):
        m = model("LabelEncoder", "x", "y", ML, 2, keys_floats=[float("nan"), 1.0, 1.0], values_int64s=[4, 5, 6])
        self.assertEqual(self.same_compiled(m, cairn.tensor([1.0, 7.0, float("nan")])).tolist(), [5, -1, 4])
        m = model("CategoryMapper", "x", "y", ML, 1, [INT64], cats_int64s=[3, 4], cats_strings=["z", "a"])
        self.assertEqual(m.run({"x": [4, 9]})[0].tolist(), ["a", "_Unused"])
        m = model("OneHotEncoder", "x", "y", ML, 1, [INT64], cats_int64s=[5, 3], zeros=0)
        self.assertEqual(m(cairn.tensor([3, 5])).tolist(), [[0.0, 1.0], [1.0, 0.0]])
        with self.assertRaisesRegex(Exception, "no category"):
            m(cairn.tensor([3, 4]))

    def test_maps(self):
        zipped = model("ZipMap", "x", "y", ML, 1, classlabels_strings=["a", "b"])
        self.assertEqual(zipped.run({"x": [[1.0, 2.0], [3.0, 4.0]]}), [[{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]])

    def test_support_vectors(self):
        m = model("SVMClassifier", "x", "l s", ML, 1, coefficients=[1.0, -1.0], support_vectors=[0.0, 0.0, 1.0, 1.0],
                  rho=[0.25], vectors_per_class=[1, 1], kernel_type="LINEAR", kernel_params=[1.0, 0.0, 3.0],
                  classlabels_ints=[10, 20])
        labels, scores = self.same_compiled(m, cairn.tensor([[1.0, 1.0], [0.0, 0.0]]))
        self.assertEqual(labels.tolist(), [20, 10])
        self.assertEqual(scores.tolist(), [[1.75, -1.75], [-0.25, 0.25]])

    def test_regular_expressions(self):
        for pattern, yes, no in ((r"a{2,3}b?", ["aa", "aaab"], ["a", "aaaa"]),
                                 (r"(?i)stra(ss|\x{df})e", ["STRASSE", "Stra\u00dfe"], ["S"]),
                                 (r"[^a-c\d]+|[[:upper:]]", ["xyz", "Q"], ["xb", "9"]), (r"^\w+\b.\Bd$", [], ["ab d"]),
                                 (r"(a*)*b", ["b", "a" * 50 + "b"], ["a" * 5000]), (r".", ["\u00fc"], ["\n", ""]),
                                 (r"\Q.*\E(?P<n>x|)", [".*", ".*x"], ["ab"])):
            m = model("RegexFullMatch", "x", "y", kinds=[STRING], pattern=pattern)
            for texts, want in ((yes, True), (no, False)):
                for text in texts:
                    self.assertEqual(m.run({"x": [text]})[0].tolist(), [want], (pattern, text))
        for pattern in ("(", "a)", "*", "[b-a]", r"\pL", "a{1001}", "(" * 999, "((a{1000}){1000}){1000}", r"\1"):
            with self.assertRaisesRegex(Exception, "pattern"):
                model("RegexFullMatch", "x", "y", kinds=[STRING], pattern=pattern).run({"x": ["a"]})

    def test_words(self):
        split = model("StringSplit", "x", "y n", kinds=[STRING], maxsplit=1)
        made, counts = split.run({"x": ["  a  b c ", "", "d"]})
        self.assertEqual(made.tolist(), [["a", "b c "], ["", ""], ["d", ""]])
        self.assertEqual(counts.tolist(), [2, 0, 1])
        upper = model("StringNormalizer", "x", "y", kinds=[STRING], case_change_action="UPPER", stopwords=["\u00c4B"])
        self.assertEqual(upper.run({"x": ["\u00e4b", "\u03b1c\u0436"]})[0].tolist(), ["\u0391C\u0416"])

    def test_grams_that_the_pool_has_twice(self):
        m = model("TfIdfVectorizer", "x", "y", kinds=[INT64], mode="TFIDF", min_gram_length=1, max_gram_length=2,
                  max_skip_count=1, ngram_counts=[0, 2], ngram_indexes=[0, 2, 1], weights=[1.0, 0.5, 2.0],
                  pool_int64s=[4, 5, 4, 5])
        self.assertEqual(m(cairn.tensor([[4, 5, 5], [5, 4, 9]])).tolist(), [[1.0, 4.0, 1.0], [1.0, 0.0, 0.5]])

    def test_optimisers_compile(self):
        m = model("Adam", "r t x g v h", "a b c", TRAINING, 1, [FLOAT, INT64] + [FLOAT] * 4, alpha=0.5, beta=0.75,
                  epsilon=0.0)
        args = [cairn.tensor(0.5), cairn.tensor(2)] + [cairn.tensor([v]) for v in (1.0, 2.0, 0.0, 0.0)]
        x, v, h = self.same_compiled(m, *args)
        self.assertEqual((v.tolist(), h.tolist()), ([1.0], [1.0]))
        self.assertAlmostEqual(x.item(), 1 - 0.5 * (1 - 0.75 ** 2) ** 0.5 / 0.75, places=6)


if __name__ == "__main__":
    unittest.main()
