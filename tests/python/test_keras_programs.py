"""Programs as Keras's tutorials write them, with the import changed and in small: each gives the numbers of Keras, or
of the same training written out by hand."""
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

import hand
from keras_program_cases import CASES

# What Keras 3.15, on PyTorch, returned for keras_program_cases.py.
KERAS = {
    "convnet": {
        "accuracy": [0.33333334, 0.3125, 0.3125],
        "loss": [2.8934882, 2.767535, 2.6525867],
        "val_accuracy": [0.33333334, 0.33333334, 0.33333334],
        "val_loss": [2.860719, 2.7335145, 2.6147454],
        "predict": [
            0.98215139, 0.012733836, 0.00051812059, 0.0045967316, 0.98303807, 0.0056051202, 0.0082563832,
            0.003100381],
    },
    "variational_autoencoder": {
        "kl_loss": [0.96294135, 0.18687187, 0.063518323, 0.043666899],
        "total_loss": [46.032318, 44.533596, 44.262646, 44.131165],
        "decoded": [0.46672645, 0.43189266, 0.46455947, 0.46351513, 0.49846551, 0.43592769, 0.46735546, 0.40024653],
    },
    "gan": {
        "d_loss": [1.0998204, 1.061969, 1.0241078, 0.98606229, 0.94797963],
        "g_loss": [0.73605353, 0.71601659, 0.70022851, 0.68871421, 0.68083787],
        "generated": [-0.24556208, 0.27499044, -0.097839698, -0.23181778],
    },
    "sequence_to_sequence": {
        "accuracy": [0.23958333, 0.34375, 0.390625, 0.43229166],
        "loss": [1.5855113, 1.4960527, 1.4261841, 1.3465146],
        "states": [
            0.34448719, -0.29249653, -0.015173841, -0.13495691, 0.18750744, -0.46667704, 0.50375426, -0.24746783,
            0.35869518, -0.14251679, -0.099137358, -0.273491, 0.3814424, -0.16487288, -0.13334326, -0.49699226,
            1.2826943, -0.49313903, -0.027600817, -0.24109833, 0.44475225, -0.84370416, 1.0080903, -0.70400178,
            1.0500209, -0.2387127, -0.15999433, -0.65793145, 0.82635486, -0.27647772, -0.29033938, -1.0395958],
    },
    "transformer_classifier": {
        "accuracy": [0.69999999, 0.69999999, 0.69999999, 0.71666664],
        "loss": [0.64680809, 0.59587157, 0.56869853, 0.54275668],
        "val_accuracy": [0.69999999, 0.69999999, 0.69999999, 0.69999999],
        "val_loss": [0.60649848, 0.57753289, 0.55206794, 0.5257895],
    },
    "text_with_lstm": {
        "accuracy": [0.37777779, 0.75555557, 0.77777779],
        "area": [0.26821864, 0.71659923, 0.76619428],
        "loss": [0.70048368, 0.68539065, 0.67510653],
    },
}


def digits():
    (x, y), _ = keras.datasets.digits.load_data()
    return x[:600, ..., None].astype("float32"), y[:600]


class Numbers(unittest.TestCase):
    """A few dozen steps add up roundings: 1e-5 of a number, 5e-6 near zero."""

    def check(self, case):
        found, wanted = case(keras), KERAS[case.__name__]
        self.assertEqual(sorted(found), sorted(wanted))
        for name, want in wanted.items():
            with self.subTest(name):
                np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=5e-6)


for _case in CASES:
    setattr(Numbers, "test_" + _case.__name__, lambda self, case=_case: self.check(case))


class Programs(unittest.TestCase):
    def setUp(self):
        keras.utils.set_random_seed(3)

    def test_residual_network_and_transfer(self):
        inputs = keras.Input(shape=(8, 8, 1), name="img")
        x = layers.Conv2D(8, 3, padding="same", use_bias=False)(inputs)
        x = layers.Activation("relu")(layers.BatchNormalization()(x))
        y = layers.SeparableConv2D(8, 3, activation="relu", padding="same")(x)
        x = layers.GlobalAveragePooling2D()(layers.add([x, y]))
        base = keras.Model(inputs, x, name="base")
        data, goal = digits()
        first = keras.Sequential([base, layers.Dense(10)])
        first.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        first.fit(data, goal, epochs=2, batch_size=32, verbose=0)
        base.trainable = False
        again = keras.Input(shape=(8, 8, 1))
        outputs = layers.Dense(1)(layers.Dropout(0.1)(base(again, training=False)))
        model = keras.Model(again, outputs)
        model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True),
                      metrics=[keras.metrics.BinaryAccuracy()])
        kept = base.get_weights()
        model.fit(data, goal % 2, epochs=1, verbose=0)
        for a, b in zip(kept, base.get_weights()):
            np.testing.assert_array_equal(a, b)
        self.assertEqual(len(model.trainable_weights), 2)

    def test_gradient_tape(self):
        x, y = digits()
        model = keras.Sequential([layers.Flatten(), layers.Dense(10)])
        optimizer, losses = keras.optimizers.SGD(learning_rate=0.5), []
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model(x[:1])
        weights = hand.copies(model.get_weights())
        want = hand.losses(lambda t: hand.dense(weights)(t.reshape(len(t), -1)), weights, (x, y),
                           cairn.nn.functional.cross_entropy, hand.sgd(weights, 0.5), 8, len(x))
        for _ in range(8):
            with keras.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            grads = tape.gradient(loss, model.trainable_weights)
            optimizer.apply_gradients(zip(grads, model.trainable_weights))
            losses.append(float(loss))
        np.testing.assert_allclose(losses, want, rtol=1e-5)

    def test_time_series(self):
        wave = np.sin(np.arange(300) * 0.2).astype("float32")[:, None]
        data = keras.utils.timeseries_dataset_from_array(wave[:-5], wave[5:, 0], sequence_length=6, batch_size=32)
        model = keras.Sequential([keras.Input((6, 1)), layers.GRU(8), layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
        stop = keras.callbacks.EarlyStopping(monitor="loss", patience=3)
        logs = model.fit(data, epochs=5, validation_data=data, callbacks=[stop], verbose=0).history
        seen = np.stack([wave[i:i + 6] for i in range(290)])
        off = model.predict(seen, verbose=0)[:, 0] - wave[5:295, 0]
        np.testing.assert_allclose((logs["val_loss"][-1], logs["val_mae"][-1]),
                                   (np.square(off).mean(), abs(off).mean()), rtol=1e-4)
        self.assertLess(logs["val_loss"][-1], 0.5 * wave.var())

    def test_mixture_of_both_styles(self):
        class Net(cairn.Model):
            def __init__(self):
                super().__init__()
                self.body = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(),
                                              layers.Dense(32, activation="relu"), layers.Dropout(0.2)])
                self.head = cairn.nn.Linear(32, 10)

            def forward(self, x):
                return self.head(self.body(x))
        x, y = digits()
        model = Net()
        model.compile("adam", "cross_entropy", metrics=["accuracy"])
        model.fit(x, y, epochs=12, verbose=0)
        loss, accuracy = model.evaluate(x, y, verbose=0)
        out = model.eval()(cairn.as_tensor(x)).detach()
        np.testing.assert_allclose(loss, cairn.nn.functional.cross_entropy(out, cairn.as_tensor(y)).item(), rtol=1e-5)
        self.assertAlmostEqual(accuracy, float((out.argmax(1) == cairn.as_tensor(y)).float().mean()), places=6)
        self.assertGreater(accuracy, 0.8)


if __name__ == "__main__":
    unittest.main()
