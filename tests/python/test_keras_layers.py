"""Layers of cairn.keras with their options, against Keras's own numbers: outputs, weights, configurations, shapes."""
import json
import pathlib
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import cairn
from cairn import keras
from cairn.keras import layers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keras_layer_cases as cases  # noqa: E402
import keras_layer_numbers as known  # noqa: E402

numbers, wave = cases.numbers, cases.wave


class Numbers(unittest.TestCase):
    def test_all(self):
        self.assertEqual(list(known.NUMBERS), list(cases.CASES))
        for name, (outs, weights) in known.NUMBERS.items():
            with self.subTest(case=name):
                got, own = cases.record(keras, name)
                self.assertEqual([o[0] for o in got], [o[0] for o in outs])
                self.assertEqual(own, weights)
                bound = 1e-4 if name in ("mel", "stft_log") else 1e-5  # logarithms of sums that nearly cancel
                for mine, theirs in zip(got, outs):
                    np.testing.assert_allclose(mine[1:], theirs[1:], rtol=bound, atol=bound)

    def test_configurations(self):
        for name, (shapes, make, call) in cases.CASES.items():
            with self.subTest(case=name):
                layer, run = cases.made(keras, name)
                again = type(layer).from_config(layer.get_config())
                inputs = cases._inputs(shapes)
                again(*inputs, **call)
                again.set_weights(layer.get_weights())
                for a, b in zip(cases.outputs(run()), cases.outputs(again(*inputs, **call))):
                    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    def test_shapes_before_building(self):
        for name, (outs, weights) in known.NUMBERS.items():
            shapes, make, call = cases.CASES[name]
            if "return_attention_scores" in call or "reverse" in call:
                continue
            with self.subTest(case=name):
                layer = make(keras)
                built = layer.built
                given = [[tuple(v.shape) for v in x] if isinstance(x, list) else tuple(x.shape)
                         for x in cases._inputs(shapes)]
                shape = layer.compute_output_shape(*given)
                first = shape[0] if shape and isinstance(shape[0], (list, tuple)) else shape
                self.assertEqual(list(first), outs[0][0])
                self.assertEqual(layer.built, built)


class Options(unittest.TestCase):
    def test_names(self):
        for kind, name in ((layers.ConvLSTM2D, "conv_lstm2d"), (layers.PReLU, "p_re_lu"),
                           (layers.Conv2DTranspose, "conv2d_transpose"), (layers.LSTM, "lstm"),
                           (layers.RMSNormalization, "rms_normalization"), (layers.ReLU, "re_lu"),
                           (layers.GlobalAveragePooling1D, "global_average_pooling1d")):
            from cairn.keras.layers.base import snake
            self.assertEqual(snake(kind.__name__), name)

    def test_configuration_has_all(self):
        config = layers.Conv2D(4, 3, activation="relu", kernel_regularizer="l2", name="c").get_config()
        self.assertEqual(config["kernel_size"], (3, 3))
        self.assertEqual(config["activation"], "relu")
        self.assertEqual(config["kernel_initializer"]["class_name"], "GlorotUniform")
        self.assertEqual(config["kernel_regularizer"]["class_name"], "L2")
        self.assertEqual((config["name"], config["trainable"], config["dtype"]), ("c", True, "float32"))
        json.dumps(config)

    def test_own_subclass(self):
        class Wide(layers.Dense):
            def __init__(self, units, factor=2, **kwargs):
                super().__init__(units, **kwargs)
                self.factor = factor

            def get_config(self):
                return {**super().get_config(), "factor": self.factor}
        made = Wide.from_config(Wide(3, factor=5, activation="tanh").get_config())
        self.assertEqual((made.units, made.factor), (3, 5))
        np.testing.assert_allclose(numbers(made(np.full((1, 2), 9.0, "float32"))),
                                   np.tanh(numbers(np.full((1, 2), 9.0) @ numbers(made.kernel))), rtol=1e-5)

    def test_regularizers_and_constraints(self):
        layer = layers.SeparableConv1D(3, 2, depthwise_regularizer="l2", pointwise_regularizer="l1",
                                       bias_regularizer="l2", depthwise_constraint="non_neg")
        layer(wave((2, 5, 4), 0.3))
        self.assertEqual(len(layer.losses), 3)
        self.assertIsNotNone(layer.depthwise_kernel.constraint)
        lstm = layers.LSTM(3, kernel_regularizer="l2", recurrent_constraint="unit_norm")
        lstm(wave((2, 4, 3), 0.3))
        self.assertEqual(len(lstm.losses), 1)
        self.assertIsNotNone(lstm.cell.recurrent_kernel.constraint)
        self.assertEqual(lstm.units, 3)

    def test_dropout_of_recurrent_layers(self):
        x = np.ones((4, 5, 3), "float32")
        for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
            for option in ("dropout", "recurrent_dropout"):
                layer = kind(6, **{option: 0.5})
                plain = numbers(layer(x))
                np.testing.assert_array_equal(plain, numbers(layer(x)))
                self.assertGreater(np.abs(numbers(layer(x, training=True)) - plain).max(), 1e-3)

    def test_stateful(self):
        x = wave((2, 6, 3), 0.4)
        layer = layers.LSTM(4, stateful=True, return_sequences=True)
        whole = numbers(layer(x))
        layer.reset_state()
        first, rest = numbers(layer(x[:, :3])), numbers(layer(x[:, 3:]))
        np.testing.assert_allclose(np.concatenate([first, rest], 1), whole, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "stateful"):
            layer(x[:1])

    def test_masks_pass_through(self):
        ids = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
        e = layers.Embedding(5, 3, mask_zero=True)(ids)
        want = ids != 0
        for layer in (layers.Dense(2), layers.Dropout(0.1), layers.LayerNormalization(), layers.Activation("relu"),
                      layers.LSTM(2, return_sequences=True), layers.Bidirectional(layers.GRU(2, return_sequences=True)),
                      layers.TimeDistributed(layers.Dense(2))):
            np.testing.assert_array_equal(numbers(layer(e)._keras_mask), want, layer.name)
        self.assertIsNone(getattr(layers.GlobalAveragePooling1D()(e), "_keras_mask", None))
        other = layers.Embedding(5, 3, mask_zero=True)(np.array([[1, 0, 4, 0], [0, 0, 0, 2]]))
        np.testing.assert_array_equal(numbers(layers.Add()([e, other])._keras_mask), want | numbers(
            other._keras_mask).astype(bool))
        both = layers.Concatenate(axis=1)([e, other])
        self.assertEqual(tuple(both._keras_mask.shape), (2, 8))

    def test_wrapped_module(self):
        net = keras.Sequential([keras.Input((4,)), layers.TorchModuleWrapper(cairn.nn.Linear(4, 3)), layers.Dense(1)])
        self.assertEqual(len(net.trainable_weights), 4)
        net.compile("sgd", "mse")
        x, y = wave((16, 4), 0.7), wave((16, 1), 0.2)
        before = net.evaluate(x, y, verbose=0)
        net.fit(x, y, epochs=5, verbose=0)
        self.assertLess(net.evaluate(x, y, verbose=0), before)

    def test_errors(self):
        for f in (lambda: layers.Conv2D(4, 3, padding="causal"), lambda: layers.Conv2D(4, 3, groups=3),
                  lambda: layers.Conv2D(4, (1, 2, 3)), lambda: layers.Dense(0), lambda: layers.Dropout(2.0),
                  lambda: layers.MaxPooling2D(data_format="sideways"), lambda: layers.Subtract()([1, 2, 3]),
                  lambda: layers.RandomRotation(0.2, fill_mode="mist"), lambda: layers.BatchNormalization(renorm=True),
                  lambda: layers.Discretization()):
            with self.assertRaises((TypeError, ValueError)):
                f()


class Images(unittest.TestCase):
    """Changes of images with what is drawn given, as Keras computes them. Pixels go up to 255, so 1e-3 is 4e-6 of
    them."""

    x = cases.PICTURES

    def test_known(self):
        table = cases.image_cases(keras, cairn.as_tensor)
        self.assertEqual(list(table), list(known.IMAGES))
        for name, (layer, drawn) in table.items():
            with self.subTest(layer=name):
                got = cases.digest(numbers(layer.transform_images(cairn.as_tensor(self.x.copy()), drawn)))
                self.assertEqual(got[0], known.IMAGES[name][0])
                np.testing.assert_allclose(got[1:], known.IMAGES[name][1:], rtol=1e-5, atol=1e-3)

    def test_both_layouts_and_single(self):
        for make in (lambda **k: layers.RandomRotation(0.3, seed=1, **k), lambda **k: layers.RandomFlip(seed=1, **k),
                     lambda **k: layers.RandomHue(0.3, seed=1, **k), lambda **k: layers.RandomErasing(seed=1, **k),
                     lambda **k: layers.RandAugment(seed=1, **k), lambda **k: layers.RandomCrop(4, 4, seed=1, **k),
                     lambda **k: layers.RandomGaussianBlur(seed=1, **k), lambda **k: layers.MixUp(seed=1, **k)):
            with self.subTest(layer=make().name):
                last = numbers(make()(self.x))
                first = numbers(make(data_format="channels_first")(self.x.transpose(0, 3, 1, 2)))
                np.testing.assert_allclose(last, first.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-3)
                self.assertEqual(numbers(make()(self.x[0])).shape, last.shape[1:])

    def test_labels_are_mixed(self):
        data = {"images": self.x, "labels": np.eye(2, dtype="float32")}
        for layer in (layers.MixUp(1.0, seed=3), layers.CutMix(seed=3)):
            out = layer(data, training=True)
            np.testing.assert_allclose(numbers(out["labels"]).sum(1), 1, rtol=1e-5)
            self.assertEqual(numbers(out["images"]).shape, self.x.shape)
            same = layer(data, training=False)
            np.testing.assert_array_equal(numbers(same["labels"]), data["labels"])

    def test_random_ones_train_by_default(self):
        layer = layers.RandomBrightness((0.2, 0.3))
        self.assertGreater(np.abs(numbers(layer(self.x)) - self.x).max(), 1)
        np.testing.assert_array_equal(numbers(layer(self.x, training=False)), self.x)
        model = keras.Sequential([layer])
        np.testing.assert_array_equal(model.predict(self.x, verbose=0), self.x)
        np.testing.assert_array_equal(numbers(layers.Pipeline([layer, layers.RandomFlip()])(self.x, training=False)),
                                      self.x)


if __name__ == "__main__":
    unittest.main()
