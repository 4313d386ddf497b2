"""Arguments of cairn.keras that differ from their defaults: each is honoured as Keras documents it, or refused, or
(where only speed depends on it) noted once. Expected numbers are worked out here, by numpy or by hand."""
import itertools
import json
import os
import pathlib
import sys
import tempfile
import unittest
import warnings
import zipfile

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import cairn
from cairn import _arguments, keras
from cairn.keras import layers, losses, metrics, ops

RNG = np.random.default_rng(7)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def floats(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


class Case(unittest.TestCase):
    def near(self, got, want, tolerance=1e-5):
        np.testing.assert_allclose(np.asarray(cairn.as_tensor(got).detach()), want, rtol=tolerance, atol=tolerance)

    def noted_once(self, where, make):
        """make() warns, and not again."""
        _arguments._noted.clear()
        for times in (1, 0):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                make()
            self.assertEqual([where in str(w.message) for w in seen], [True] * times, [str(w.message) for w in seen])

    def misspelt(self, name, f, *args):
        with self.assertRaisesRegex(TypeError, name):
            f(*args, **{name: 1})


class Losses(Case):
    def test_axis_of_binary_crossentropy(self):
        y, p = RNG.integers(0, 2, (4, 3, 2)).astype("float32"), RNG.uniform(0.05, 0.95, (4, 3, 2)).astype("float32")
        each = -(y * np.log(p) + (1 - y) * np.log(1 - p))
        for axis in (-1, 0, 1, -2):
            self.near(losses.binary_crossentropy(y, p, axis=axis), each.mean(axis))
            self.near(losses.BinaryCrossentropy(axis=axis, reduction="none")(y, p), each.mean(axis))
        scores = np.log(p / (1 - p))
        self.near(losses.binary_crossentropy(y, scores, from_logits=True, axis=1), each.mean(1), 1e-4)
        right = y * p + (1 - y) * (1 - p)
        self.near(losses.binary_focal_crossentropy(y, p, axis=1), ((1 - right) ** 2 * each).mean(1))
        self.near(losses.BinaryFocalCrossentropy(True, 0.3, axis=0, reduction=None)(y, p),
                  ((1 - right) ** 2 * each * (y * 0.3 + (1 - y) * 0.7)).mean(0))

    def test_axis_of_sparse_categorical_crossentropy(self):
        scores, y = floats(4, 5, 3), RNG.integers(0, 5, (4, 3))
        want = -np.take_along_axis(np.log(softmax(scores, 1)), y[:, None], 1)[:, 0]
        self.near(losses.sparse_categorical_crossentropy(y, scores, from_logits=True, axis=1), want)
        self.near(losses.sparse_categorical_crossentropy(y, softmax(scores, 1), axis=-2), want)
        self.near(losses.SparseCategoricalCrossentropy(True, axis=1)(y, scores), want.mean())
        self.near(ops.sparse_categorical_crossentropy(y, scores, True, axis=1), want)
        kept = y != 2
        loss = losses.SparseCategoricalCrossentropy(True, ignore_class=2, axis=1)
        self.near(loss(y, scores), want[kept].sum() / kept.sum())
        with self.assertRaisesRegex(ValueError, r"\(4, 5\)"):
            losses.sparse_categorical_crossentropy(y, scores, axis=2)

    def test_dtype(self):
        y, p = cairn.tensor([[0.0, 1.0]]), cairn.tensor([[0.1, 0.7]])
        for kind in ("float64", "float16", "bfloat16"):
            loss = losses.MeanSquaredError(dtype=kind)
            self.assertEqual((str(loss(y, p).dtype), loss.dtype), ("cairn." + kind, kind))
            self.assertEqual(losses.MeanSquaredError.from_config(loss.get_config()).dtype, kind)
        self.assertEqual(losses.Huber(dtype=keras.DTypePolicy("mixed_float16"))(y, p).dtype, cairn.float16)
        self.assertEqual(losses.MeanSquaredError().dtype, "float32")
        self.assertNotIn("dtype", losses.MeanSquaredError().get_config())
        near_one = cairn.tensor([[1.0 + 1e-12]], dtype=cairn.float64)
        for kind, want in (("float64", (1.0 + 1e-12) ** 2), ("float32", 1.0)):
            self.assertEqual(float(losses.MeanSquaredError(dtype=kind)(cairn.zeros(1, 1), near_one)), want)
        classes = losses.SparseCategoricalCrossentropy(dtype="float64")
        self.assertEqual(classes(cairn.tensor([1]), p).dtype, cairn.float64)

        class Own(losses.Loss):
            def call(self, y_true, y_pred):
                return (y_true - y_pred).abs().mean(-1)
        self.assertEqual(Own(dtype="float64")(np.array([[1, 2]]), p).dtype, cairn.float64)


class Metrics(Case):
    def test_dtype(self):
        for make in (lambda d: metrics.Mean(dtype=d), lambda d: metrics.Sum(dtype=d)):
            made = make("float64")
            made.update_state(cairn.tensor([0.1, 0.2]))
            self.assertEqual((made.result().dtype, made.dtype), (cairn.float64, "float64"))
        many = metrics.Sum(dtype="float16")
        many.update_state(cairn.ones(5000) * 20)
        self.assertEqual(float(many.result()), float("inf"))  # beyond 65504
        y, p = cairn.tensor([[0.0, 1.0], [1.0, 0.0]]), cairn.tensor([[0.2, 0.7], [0.6, 0.1]])
        for name in ("BinaryAccuracy", "AUC", "Precision", "R2Score", "F1Score", "MeanSquaredError", "Recall",
                     "RootMeanSquaredError", "CosineSimilarity", "TruePositives", "FBetaScore"):
            with self.subTest(metric=name):
                made = getattr(metrics, name)(dtype="float64")
                made.update_state(y, p)
                self.assertEqual(made.result().dtype, cairn.float64)
                self.assertEqual(type(made).from_config(made.get_config()).dtype, "float64")
        iou = metrics.MeanIoU(2, dtype="float64")
        iou.update_state([0, 1, 1], [0, 1, 0])
        self.assertEqual(iou.result().dtype, cairn.float64)
        own = metrics.Metric(dtype="float64", name="own")
        self.assertEqual(own.add_variable((2,)).dtype, cairn.float64)
        self.assertEqual(own.add_weight("n", dtype="int32").dtype, cairn.int32)
        with self.assertRaisesRegex(ValueError, "aggregation"):
            own.add_variable((), aggregation="median")

    def test_misspelt(self):
        self.misspelt("from_logit", metrics.BinaryCrossentropy)
        self.misspelt("initialiser", metrics.Metric().add_variable)

    def test_top_k_with_thresholds(self):
        y, p = np.array([[1, 0, 1, 0]], "float32"), np.array([[0.9, 0.8, 0.4, 0.1]], "float32")
        for thresholds, want in ((None, 1 / 2), (0.85, 1.0), ([0.3, 0.85], [1 / 2, 1.0])):
            made = metrics.Precision(thresholds, top_k=2)
            made.update_state(y, p)
            self.near(made.result(), want)

    def test_labels_of_auc(self):
        with self.assertRaisesRegex(ValueError, "multi_label"):
            metrics.AUC(num_labels=2)
        with self.assertRaisesRegex(ValueError, "multi_label"):
            metrics.AUC(label_weights=[1.0, 2.0])
        with self.assertRaisesRegex(ValueError, "num_labels=3"):
            metrics.AUC(multi_label=True, num_labels=3).update_state(np.zeros((2, 2)), np.zeros((2, 2)))
        with self.assertRaisesRegex(ValueError, "average"):
            metrics.F1Score(average="all")

    def test_weights_of_samples(self):
        model = keras.Sequential([keras.Input((2,)), layers.Dense(2)])
        x, y, w = floats(6, 2), np.array([0, 1, 0, 1, 0, 1]), np.array([1.0, 0, 0, 0, 0, 2.0], "float32")
        hit = np.asarray(model(x).argmax(-1)) == y
        model.compile("sgd", losses.SparseCategoricalCrossentropy(True), metrics=[cairn.metrics.Accuracy()],
                      weighted_metrics=["accuracy"])
        found = model.evaluate(x, y, sample_weight=w, verbose=0, return_dict=True)
        self.near(found["accuracy"], (hit * w).sum() / w.sum())
        model.compile("sgd", losses.SparseCategoricalCrossentropy(True), weighted_metrics=[cairn.metrics.Accuracy()])
        with self.assertRaisesRegex(ValueError, "sample_weight"):
            model.evaluate(x, y, sample_weight=w, verbose=0)
        self.near(model.evaluate(x, y, verbose=0)[1], hit.mean())


class Ops(Case):
    def test_multi_hot(self):
        x = np.array([[0, 2], [3, 3], [1, 9]])
        want = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]], "float32")
        self.near(ops.multi_hot(x, 4), want)
        self.near(ops.multi_hot(x, num_tokens=4), want)
        self.near(ops.multi_hot(x, 4, axis=0), want.T)
        self.near(ops.multi_hot(x[0], 4), want[0])
        deep = np.array([[[0, 1], [2, 1]]])  # labels along dimension 1, as in Keras
        self.near(ops.multi_hot(deep, 3), [[[1, 0, 1], [0, 1, 0]]])
        self.near(ops.multi_hot(deep, 3, axis=1), [[[1, 0], [0, 1], [1, 0]]])
        with self.assertRaisesRegex(ValueError, "sparse"):
            ops.multi_hot(x, 4, sparse=True)
        with self.assertRaisesRegex(ValueError, "num_classes"):
            ops.multi_hot(x)
        self.misspelt("num_tokes", ops.multi_hot, x)
        with self.assertRaisesRegex(ValueError, "sparse"):
            ops.one_hot(x, 4, sparse=True)

    def test_layer_normalization(self):
        x, gamma, beta = floats(2, 3, 4), floats(3), floats(3)
        mean, size = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 0.01)
        self.near(ops.layer_normalization(x, gamma, beta, axis=1, epsilon=0.01),
                  (x - mean) / size * gamma[:, None] + beta[:, None])
        self.near(ops.layer_normalization(x, gamma, axis=1, epsilon=0.01, rms_scaling=True), x / size * gamma[:, None])
        self.near(ops.layer_normalization(x, epsilon=0.0), (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True))
        self.misspelt("epsilom", ops.layer_normalization, x)
        root = np.sqrt(np.square(x).mean(1, keepdims=True) + 0.01)
        self.near(ops.rms_normalization(x, gamma, axis=1, epsilon=0.01), x / root * gamma[:, None])

    def test_ctc_decode(self):
        x, steps, classes, blank = floats(2, 4, 3) * 2, 4, 3, 1
        chances = np.log(softmax(x.astype("float64"), -1))
        want = []
        for row, n in zip(chances, (4, 3)):  # all paths, by the labels that they stand for
            sums = {}
            for path in itertools.product(range(classes), repeat=n):
                labels = tuple(k for k, _ in itertools.groupby(path) if k != blank)
                sums[labels] = sums.get(labels, 0.0) + np.exp(sum(row[t, k] for t, k in enumerate(path)))
            want.append(sorted(((np.log(v), k) for k, v in sums.items()), reverse=True))
        made, scores = ops.ctc_decode(x, [4, 3], "beam_search", beam_width=50, top_paths=3, mask_index=blank)
        self.assertEqual((tuple(made.shape), made.dtype, tuple(scores.shape)), ((3, 2, steps), cairn.int32, (2, 3)))
        for i in range(2):
            self.near(scores[i], [s for s, _ in want[i][:3]])
            for k in range(3):
                labels = list(want[i][k][1])
                self.assertEqual(made[k, i].tolist(), labels + [-1] * (steps - len(labels)))
        one, _ = ops.ctc_decode(x, [4, 3], "beam_search", beam_width=1, mask_index=blank)
        self.assertEqual(tuple(one.shape), (1, 2, steps))
        for wrong in ({"beam_width": 5}, {"top_paths": 2}, {"strategy": "best"},
                      {"strategy": "beam_search", "beam_width": 2, "top_paths": 3},
                      {"strategy": "beam_search", "merge_repeated": False}):
            with self.assertRaises(ValueError, msg=wrong):
                ops.ctc_decode(x, [4, 3], **wrong)
        greedy, score = ops.ctc_decode(np.array([[[0, 9, 1], [0, 9, 1], [5, 0, 0]]], "float32"), [3])
        self.assertEqual((greedy.tolist(), score.tolist()), ([[[1, -1, -1]]], [[-23.0]]))

    def test_beams(self):
        """A search of one beam is misled where a wider one is not."""
        scores = np.log(np.array([[[0.4, 0.6, 1e-9], [0.4, 0.6, 1e-9]]], "float32"))
        narrow, at_narrow = ops.ctc_decode(scores, [2], "beam_search", beam_width=1)
        wide, at_wide = ops.ctc_decode(scores, [2], "beam_search", beam_width=10)
        self.assertEqual(wide[0, 0].tolist(), [1, -1])
        self.near(at_wide, [[np.log(1 - 0.4 * 0.4)]], 1e-4)
        self.assertLess(float(at_narrow), float(at_wide))
        self.assertEqual(narrow[0, 0].tolist(), [1, -1])

    def test_others(self):
        x = floats(3, 4)
        self.near(ops.max(x, initial=2.0), 2.0)
        self.near(ops.min(x, axis=0, initial=-2.0), [-2.0] * 4)
        self.misspelt("initial", ops.sum, x)
        self.misspelt("keepdim", ops.mean, x)
        made = ops.prod(np.array([60000, 60000]), dtype="float32")
        self.assertEqual((made.dtype, float(made)), (cairn.float32, 3.6e9))
        with self.assertRaisesRegex(ValueError, "num=4"):
            ops.unstack(x, 4)
        self.assertEqual(len(ops.unstack(x, 4, axis=1)), 4)
        for f in (lambda: ops.convert_to_tensor(x, sparse=True), lambda: ops.convert_to_tensor(x, ragged=True),
                  lambda: ops.bincount(np.array([1]), sparse=True), lambda: ops.moments(x, [0], synchronized=True),
                  lambda: ops.unique(np.array([1]), size=3), lambda: ops.unique(np.array([1]), fill_value=0),
                  lambda: ops.argpartition(x, 4), lambda: ops.image.resize(floats(2, 2, 1), (4, 4), fill_mode="wrap")):
            self.assertRaises(ValueError, f)
        self.misspelt("optimise", ops.einsum, "ij->i", x)
        data, ids = np.arange(4.0), np.array([0, 0, 1, 2])
        self.noted_once("segment_sum", lambda: self.near(ops.segment_sum(data, ids, sorted=True), [1, 2, 3]))
        self.noted_once("scan", lambda: ops.scan(lambda c, v: (c + v, c), cairn.tensor(0.0), data, unroll=4))
        q = floats(1, 2, 1, 3)
        self.noted_once("flash_attention", lambda: ops.dot_product_attention(q, q, q, flash_attention=True))


class Layers(Case):
    def test_weights_of_bidirectional(self):
        x, given = floats(2, 5, 3), [floats(3, 16), floats(4, 16), floats(16), floats(3, 16), floats(4, 16), floats(16)]
        both = layers.Bidirectional(layers.LSTM(4), weights=given)
        out = both(x)
        for mine, value in zip(both.get_weights(), given):
            np.testing.assert_array_equal(mine, value)
        ahead, back = layers.LSTM(4), layers.LSTM(4, go_backwards=True)
        for layer, own in ((ahead, given[:3]), (back, given[3:])):
            layer.build((None, 5, 3))
            layer.set_weights(own)
        self.near(out, np.concatenate([np.asarray(ahead(x).detach()), np.asarray(back(x).detach())], -1))

    def test_input_spec(self):
        class Own(layers.Layer):
            def call(self, inputs):
                return inputs
        for spec, right, wrong, said in (
                ({"ndim": 2}, (2, 3), (2, 3, 4), "2 dimensions, not 3"),
                ({"min_ndim": 3}, (2, 3, 4), (2, 3), "3 dimensions or more"),
                ({"max_ndim": 2}, (2, 3), (2, 3, 4), "at most 2"),
                ({"axes": {-1: 4}}, (2, 4), (2, 3), "size 4 along axis -1"),
                ({"shape": (None, 4)}, (2, 4), (2, 3), "shape"),
                ({"shape": (None, 4, 1), "allow_last_axis_squeeze": True}, (2, 4), (2, 3), "shape"),
                ({"dtype": "float64"}, None, (2, 3), "type float64")):
            layer = Own()
            layer.input_spec = layers.InputSpec(**spec)
            if right is not None:
                layer(floats(*right))
            with self.assertRaisesRegex(ValueError, said):
                layer(floats(*wrong))
        layer.input_spec = [layers.InputSpec(ndim=2), layers.InputSpec(ndim=3)]
        layer([floats(2, 3), floats(2, 3, 4)])
        with self.assertRaisesRegex(ValueError, "takes 2 inputs, not 1"):
            layer(floats(2, 3))

    def test_autocast(self):
        x = cairn.ones(2, 3, dtype=cairn.float64)
        self.assertEqual(layers.Identity()(x).dtype, cairn.float32)
        self.assertEqual(layers.Identity(autocast=False)(x).dtype, cairn.float64)

    def test_add_weight(self):
        layer = layers.Layer()
        self.assertEqual(layer.add_weight((2,), "ones", aggregation="mean").tolist(), [1, 1])
        self.misspelt("initialiser", layer.add_weight, (2,))
        with self.assertRaisesRegex(ValueError, "overwrite_with_gradient"):
            layer.add_weight((2,), overwrite_with_gradient=True)
        with keras.name_scope("outer"), keras.name_scope("inner"):
            named = layers.Dense(2, name="scoped")
            named.build((None, 3))
        self.assertEqual(named.kernel.path, "outer/inner/scoped/kernel")
        self.misspelt("deduplicat", keras.name_scope, "a")

    def test_output_shape(self):
        x = floats(2, 6)
        made = layers.Lambda(lambda t: t.reshape(-1, 2, 3), output_shape=(2, 3))
        self.assertEqual(tuple(made(x).shape), (2, 2, 3))
        self.assertEqual(made.get_config()["output_shape"], (2, 3))
        with self.assertRaisesRegex(ValueError, "output_shape"):
            layers.Lambda(lambda t: t, output_shape=(5,))(x)
        with self.assertRaisesRegex(ValueError, "output_shape"):
            layers.Lambda(lambda t: t, output_shape=lambda s: (s[0], s[1] + 1))(x)
        with self.assertRaisesRegex(ValueError, "output_shape"):
            layers.TorchModuleWrapper(cairn.nn.Linear(6, 2), output_shape=(3,))(x)

    def test_masks_that_are_given(self):
        x = floats(2, 4, 3)
        mask = np.array([[True, True, False, False], [True, False, True, True]])
        want = layers.LSTM(3, seed=1)
        model = keras.Sequential([keras.Input((4, 3)), want])
        self.near(model(x, mask=cairn.tensor(mask)), np.asarray(want(x, mask=cairn.tensor(mask)).detach()))
        self.assertFalse(np.allclose(np.asarray(model(x).detach()), np.asarray(model(x, mask=cairn.tensor(mask))
                                                                              .detach())))
        place = keras.Input((4, 3))
        functional = keras.Model(place, want(place))
        self.near(functional(x, mask=cairn.tensor(mask)), np.asarray(want(x, mask=cairn.tensor(mask)).detach()))

        class Masked(layers.Layer):
            def call(self, inputs, mask=None):
                return inputs if mask is None else inputs * mask.to(inputs.dtype).unsqueeze(-1)
        self.near(layers.TimeDistributed(Masked())(x, mask=cairn.tensor(mask)), x * mask[..., None])
        with self.assertRaisesRegex(ValueError, "mask"):
            layers.TimeDistributed(Masked())(x, mask=cairn.tensor(mask[:, :2]))

    def test_refused(self):
        for f in (lambda: layers.BatchNormalization(renorm=True),
                  lambda: layers.BatchNormalization(renorm_momentum=0.5),
                  lambda: layers.BatchNormalization(renorm_clipping={}),
                  lambda: layers.InputLayer((2,), input_tensor=keras.Input((2,))),
                  lambda: layers.StringLookup(encoding="latin-1"),
                  lambda: layers.IntegerLookup(vocabulary_dtype="int32"),
                  lambda: layers.Normalization().adapt(floats(4, 2), steps=1),
                  lambda: layers.TextVectorization(encoding="utf-16")):
            self.assertRaises(ValueError, f)
        self.noted_once("unroll", lambda: layers.LSTM(2, unroll=True))
        self.noted_once("use_cudnn", lambda: layers.GRU(2, use_cudnn=True))
        self.noted_once("batch_size", lambda: layers.Normalization().adapt(floats(4, 2), batch_size=2))
        two = layers.Normalization()
        two.adapt([np.zeros((2, 1), "float32"), np.ones((2, 1), "float32") * 4, np.ones((2, 1), "float32") * 100],
                  steps=2)
        self.near(two.mean, [[2.0]])

    def test_custom_objects(self):
        def twice(x):
            return 2.0 * x
        config = {**layers.LSTM(2).get_config(), "activation": "twice"}
        with self.assertRaises(ValueError):
            layers.LSTM.from_config(config)
        self.assertIs(layers.LSTM.from_config(config, {"twice": twice}).activation, twice)

        class Own(keras.DTypePolicy):
            pass
        config = {"class_name": "Own", "config": {"name": "float16"}}
        self.assertIs(type(keras.dtype_policies.deserialize(config, {"Own": Own})), Own)

    def test_variables_and_texts(self):
        made = keras.backend.variable([3.0, -4.0], constraint="non_neg")
        self.assertEqual(made.constraint(made).tolist(), [3.0, 0.0])
        words = layers.StringLookup(vocabulary=["a", "b"], invert=True)(np.array([1, 2]))
        self.assertIs(words.to("cpu"), words)
        for wrong in ((cairn.float32,), (None, cairn.float32)):
            self.assertRaisesRegex(TypeError, "float32", words.to, *wrong)
        self.misspelt("sed", keras.random.SeedGenerator)
        self.misspelt("interpolate", keras.preprocessing.image.smart_resize, floats(4, 4, 1), (2, 2))
        with self.assertRaisesRegex(ValueError, "data_format"):
            keras.applications.efficientnet.preprocess_input(floats(4, 4, 3), "rows_first")

    def test_reverse_dtype(self):
        layer = layers.ReversibleEmbedding(5, 3, reverse_dtype="float64")
        self.assertEqual(layer(floats(2, 3), reverse=True).dtype, cairn.float64)


class Folder(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.folder / name)


class Files(Folder):
    def fitted(self):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
        model.compile("adam", "mse")
        model.fit(floats(8, 3), floats(8, 2), epochs=1, verbose=0)
        return model

    def test_include_optimizer(self):
        model = self.fitted()
        for ending in ("keras", "h5"):
            with_it, without = self.path("with." + ending), self.path("without." + ending)
            model.save(with_it)
            model.save(without, include_optimizer=False)
            self.assertTrue(keras.models.load_model(with_it).compiled)
            bare = keras.models.load_model(without)
            self.assertFalse(bare.compiled)
            for a, b in zip(bare.get_weights(), model.get_weights()):
                np.testing.assert_array_equal(a, b)
        with zipfile.ZipFile(self.path("without.keras")) as archive:
            self.assertNotIn("compile_config", json.loads(archive.read("config.json")))
            self.assertNotIn(b"optimizer", archive.read("model.weights.h5"))
        self.assertLess(os.path.getsize(self.path("without.keras")), os.path.getsize(self.path("with.keras")))

    def test_names_of_options(self):
        model = self.fitted()
        self.misspelt("include_optimiser", model.save, self.path("a.keras"))
        self.misspelt("overwrit", keras.models.save_model, model, self.path("a.keras"))
        self.misspelt("recursiv", keras.models.clone_model, model)
        with self.assertRaisesRegex(ValueError, "zipped"):
            model.save(self.path("a.keras"), zipped=False)
        with self.assertRaisesRegex(ValueError, "save_format"):
            model.save(self.path("a.keras"), save_format="h5")
        model.save(self.path("a.keras"), save_format="keras", zipped=True)
        self.misspelt("safe_mod", keras.saving.deserialize_keras_object, {})

    def test_safe_mode(self):
        code = {"class_name": "__lambda__", "config": {"value": "x"}}
        with self.assertRaisesRegex(ValueError, "safe_mode=False"):
            keras.saving.deserialize_keras_object({"layers": [code]}, safe_mode=False)
        model = self.fitted()
        model.save(self.path("a.keras"))
        self.assertEqual(len(keras.models.load_model(self.path("a.keras"), safe_mode=False).layers), 1)

    def test_archive_format(self):
        inner = self.folder / "inner.txt"
        inner.write_text("here")
        with zipfile.ZipFile(self.path("a.zip"), "w") as archive:
            archive.write(inner, "inner.txt")
        for how, good in (("auto", True), ("zip", True), (["tar", "zip"], True), ("tar", False), (["tar"], False)):
            def get(how=how):
                return keras.utils.get_file("b.zip", self.path("a.zip"), extract=True, archive_format=how,
                                            cache_dir=self.path("cache"), force_download=True)
            if good:
                self.assertEqual(pathlib.Path(get(), "inner.txt").read_text(), "here")
            else:
                self.assertRaisesRegex(ValueError, "no archive: tar", get)
        self.assertRaisesRegex(ValueError, "archive_format", keras.utils.get_file, "c.zip", self.path("a.zip"),
                               extract=True, archive_format="rar", cache_dir=self.path("cache"))


class Data(Folder):
    def test_split_dataset(self):
        x, y = np.arange(20), np.arange(20) * 10
        draws = []
        for seed in (1, 1, 2, None):
            left, right = keras.utils.split_dataset((x, y), left_size=0.7, shuffle=True, seed=seed)
            self.assertEqual((len(left[0]), len(right[0])), (14, 6))
            self.assertEqual(sorted(left[0].tolist() + right[0].tolist()), x.tolist())
            np.testing.assert_array_equal(left[1].numpy(), left[0].numpy() * 10)
            draws.append(left[0].tolist())
        self.assertEqual(draws[0], draws[1])
        self.assertNotEqual(draws[0], draws[2])
        self.assertNotEqual(draws[0], draws[3])
        left, right = keras.utils.split_dataset(x, 5, 0.1)
        self.assertEqual((left.tolist(), right.tolist()), ([0, 1, 2, 3, 4], [18, 19]))
        for sizes in ((None, None), (0.9, 0.5), (30, None), (1.5, None), (-1, None)):
            self.assertRaises(ValueError, keras.utils.split_dataset, x, *sizes)

    def test_streams(self):
        data = keras.utils.timeseries_dataset_from_array(np.arange(8.0), None, 2, batch_size=None)
        self.noted_once("num_parallel_calls", lambda: data.map(lambda t: t + 1, num_parallel_calls=4))
        self.noted_once("num_parallel_calls", lambda: data.batch(2, num_parallel_calls=4))
        self.noted_once("prefetch", lambda: data.prefetch(2))
        self.noted_once("with_options", lambda: data.with_options({}))
        with self.assertRaisesRegex(ValueError, "filename"):
            data.cache(self.path("cache"))
        self.misspelt("drop_reminder", data.batch, 2)
        self.misspelt("parallel", data.map, abs)
        self.noted_once("workers", lambda: keras.utils.PyDataset(workers=3))
        for make in (keras.utils.image_dataset_from_directory, keras.utils.text_dataset_from_directory):
            with self.assertRaisesRegex(ValueError, "format"):
                make(str(self.folder), format="grain")

    def test_class_split(self):
        x, y = np.zeros((4, 2, 2, 1), "float32"), np.array([0, 0, 1, 1])
        flow = keras.preprocessing.image.ImageDataGenerator(validation_split=0.5).flow
        with self.assertRaisesRegex(ValueError, "ignore_class_split"):
            flow(x, y, subset="training")
        self.assertEqual(flow(x, y, subset="training", ignore_class_split=True).n, 2)
        self.assertEqual(flow(x, y[[0, 2, 1, 3]], subset="training").n, 2)

    def test_progress(self):
        bar = keras.utils.Progbar(10, verbose=0, stateful_metrics=["b"])
        for step, value in ((1, 1.0), (3, 4.0), (4, 7.0)):
            bar.update(step, [("a", value), ("b", value)])
        self.assertEqual({k: t / n for k, (t, n) in bar.sums.items()}, {"a": (1 + 2 * 4 + 7) / 4, "b": 7.0})
        one = keras.utils.Progbar(10, verbose=0, stateless_metrics=["b"])
        for step, value in ((1, 1.0), (2, 4.0)):
            one.update(step, [("a", value), ("b", value)])
        self.assertEqual({k: t / n for k, (t, n) in one.sums.items()}, {"a": 4.0, "b": 2.5})
        one.update(10, [("b", 9.0)])  # the last as it is
        self.assertEqual(one.sums["b"], (9.0, 1))
        self.assertRaises(ValueError, keras.utils.Progbar, 3, stateful_metrics=["a"], stateless_metrics=["b"])
        self.assertIn("/sample", keras.utils.Progbar(3, verbose=0, unit_name="sample").bar.line({}, True))

    def test_plots(self):
        model = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="one")])
        model.layers[0].trainable = False
        text = keras.utils.model_to_dot(model, show_dtype=True, show_trainable=True).to_string()
        self.assertIn("dtype: float32", text)
        self.assertIn("not trainable", text)
        keras.utils.plot_model(model, self.path("a.svg"), show_trainable=True)
        self.assertIn("not trainable", pathlib.Path(self.path("a.svg")).read_text())
        outer = keras.Sequential([keras.Input((3,)), model])
        for wrong in ({"expand_nested": True}, {"subgraph": True}):
            self.assertRaises(ValueError, keras.utils.model_to_dot, outer, **wrong)
        self.misspelt("show_shape", keras.utils.plot_model, model)


class Training(Folder):
    def model(self):
        model = cairn.Model(cairn.nn.Linear(2, 1, bias=False))
        with cairn.no_grad():
            model.module.weight.zero_()
        model.compile(lambda p: cairn.optim.SGD(p, lr=0.25), "mse")
        return model

    def test_backup_in_an_epoch(self):
        x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
        model = self.model()

        def cut(batch, logs):
            seen.append(batch)
            if len(seen) == 6:
                raise KeyboardInterrupt
        seen = []
        backup = cairn.callbacks.BackupAndRestore(self.path("backup"), save_freq=3, double_checkpoint=True)
        stop = cairn.callbacks.LambdaCallback(on_train_batch_end=cut)
        at = {}
        note = cairn.callbacks.LambdaCallback(
            on_train_batch_end=lambda b, logs: at.setdefault(len(at) + 1, model.module.weight.detach().clone()))
        with self.assertRaises(KeyboardInterrupt):
            model.fit(x, y, batch_size=2, epochs=3, verbose=0, callbacks=[note, backup, stop])
        again = self.model()
        epochs = []
        resumed = cairn.callbacks.BackupAndRestore(self.path("backup"), save_freq=3, delete_checkpoint=False)
        first = cairn.callbacks.LambdaCallback(on_epoch_begin=lambda e, logs: epochs.append(
            (e, again.module.weight.detach().clone())))
        again.fit(x, y, batch_size=2, epochs=3, verbose=0, callbacks=[resumed, first])
        self.assertEqual([e for e, _ in epochs], [1, 2])  # batch 6 is in epoch 1, which begins anew
        self.assertTrue(cairn.equal(epochs[0][1], at[6]))
        with open(self.path("backup/backup.pt"), "wb") as file:
            file.write(b"broken")
        third = self.model()
        epochs.clear()
        third.fit(x, y, batch_size=2, epochs=1, verbose=0, callbacks=[
            cairn.callbacks.BackupAndRestore(self.path("backup")), cairn.callbacks.LambdaCallback(
                on_train_begin=lambda logs: epochs.append(third.module.weight.detach().clone()))])
        self.assertTrue(cairn.equal(epochs[0], at[3]))  # the one before
        for wrong in (0, "batch", 2.5):
            self.assertRaises(ValueError, cairn.callbacks.BackupAndRestore, self.path("b"), wrong)

    def test_callbacks(self):
        self.misspelt("on_epoch_ends", cairn.callbacks.LambdaCallback)
        self.misspelt("histogram", cairn.callbacks.TensorBoard)
        for wrong in ({"profile_batch": 2}, {"embeddings_freq": 1}, {"embeddings_metadata": "a"},
                      {"update_freq": "step"}):
            self.assertRaises(ValueError, cairn.callbacks.TensorBoard, **wrong)

    def test_compile(self):
        model = self.model()
        for given in ({"steps_per_execution": 4}, {"run_eagerly": False}):
            self.noted_once(next(iter(given)), lambda: model.compile("sgd", "mse", **given))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.compile("sgd", "mse", jit_compile="auto", steps_per_execution=1, run_eagerly=True)
        self.noted_once("jit_compile", lambda: keras.optimizers.SGD(jit_compile=True))
        self.misspelt("name", keras.optimizers.SGD().apply_gradients, [])

    def test_scale_of_the_loss(self):
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
            model.compile("sgd", "mse")
            self.assertIsInstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
            model.compile("sgd", "mse", auto_scale_loss=False)
            self.assertNotIsInstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
            with self.assertRaisesRegex(ValueError, "autocast"):
                layers.Layer().add_weight((2,), autocast=False)
        finally:
            keras.mixed_precision.set_global_policy("float32")

    def test_sizes_of_batches(self):
        model, x, y = self.model(), cairn.ones(8, 2), cairn.ones(8, 1)
        pairs = cairn.utils.data.TensorDataset(x, y)
        loader, seen = cairn.utils.data.DataLoader(pairs, batch_size=4), []
        count = cairn.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
        for data, size, want in (((x, y), None, 1), ((x, y), 3, 3), ((pairs,), 2, 4), ((loader,), 4, 2)):
            model.fit(*data, batch_size=size, verbose=0, callbacks=[count])
            self.assertEqual(len(seen), want)
            seen.clear()
        for wrong in ({"batch_size": 2}, {"sample_weight": np.ones(8)}):
            for given in (loader, [(x[:4], y[:4]), (x[4:], y[4:])]):
                for f in (model.fit, model.evaluate):
                    self.assertRaisesRegex(ValueError, next(iter(wrong)), f, given, verbose=0, **wrong)
        with self.assertRaisesRegex(ValueError, "batch_size"):
            model.fit(x, y, validation_data=loader, validation_batch_size=2, verbose=0)
        model.fit(x, y, batch_size=2, validation_data=loader, verbose=0)

    def test_scale_of_another_optimizer(self):
        self.misspelt("clipnorm", keras.optimizers.LossScaleOptimizer, keras.optimizers.SGD())
        made = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=4.0)
        self.assertEqual(float(made.scale_loss(cairn.tensor(1.0))), 4.0)
        optimizer = keras.optimizers.SGD()
        with self.assertRaisesRegex(ValueError, "layout"):
            optimizer.add_variable((2,), layout="rows")
        with self.assertRaisesRegex(ValueError, "aggregation"):
            optimizer.add_variable((2,), aggregation="all")

    def test_zero_grad(self):
        model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
        model(floats(3, 2)).sum().backward()
        model.zero_grad(set_to_none=False)
        self.assertEqual([float(p.grad.abs().sum()) for p in model.parameters()], [0.0, 0.0])
        model.zero_grad()
        self.assertEqual([p.grad for p in model.parameters()], [None, None])

    def test_pictures_of_weights(self):
        model = self.model()
        x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
        board = cairn.callbacks.TensorBoard(self.path("logs"), histogram_freq=1, write_images=True,
                                            write_steps_per_second=True)
        model.fit(x, y, epochs=1, verbose=0, callbacks=[board])
        written = b"".join(f.read_bytes() for f in pathlib.Path(self.path("logs/train")).iterdir())
        for tag in (b"module/weight/image", b"epoch_steps_per_second", b"model"):
            self.assertIn(tag, written)


if __name__ == "__main__":
    unittest.main()
