"""compile(jit_compile=True): histories, weights, evaluations and predictions are those of a model as it is, to the bit;
steps are really compiled; what cannot be captured runs as it is."""
import os
import unittest
import warnings

import cairn
from cairn import compiler, keras
from cairn.keras import layers


def dense():
    model = keras.Sequential([keras.Input((6,)), layers.Dense(12, activation="relu"), layers.BatchNormalization(),
                              layers.Dropout(0.3), layers.Dense(3, activation="softmax")])
    return model, cairn.randn(40, 6), cairn.randint(0, 3, (40,))


def images():
    model = keras.Sequential([keras.Input((8, 8, 2)), layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(),
                              layers.Flatten(), layers.Dense(3, activation="softmax")])
    return model, cairn.randn(24, 8, 8, 2), cairn.randint(0, 3, (24,))


def masked():
    model = keras.Sequential([layers.Embedding(9, 5, mask_zero=True), layers.LSTM(6, return_sequences=True),
                              layers.Dense(4, activation="softmax")])
    return model, cairn.randint(0, 9, (20, 7)), cairn.randint(0, 4, (20, 7))


def penalised():
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, kernel_regularizer="l2", activity_regularizer="l2"),
                              layers.Dense(3, activation="softmax", bias_constraint=keras.constraints.MaxNorm(0.5))])
    return model, cairn.randn(40, 6), cairn.randint(0, 3, (40,))


class JitTest(unittest.TestCase):
    def run_one(self, make, jit, settings, fit):
        """What training leaves: histories, figures, outputs, weights; and what was compiled."""
        cairn.manual_seed(1)
        keras.utils.set_random_seed(1)
        model, x, y = make()
        model.compile(**{"optimizer": "adam", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"],
                         **settings()}, jit_compile=jit)
        compiler.reset()
        history = model.fit(x, y, epochs=3, batch_size=16, verbose=0, **fit())
        found = [history.history, model.evaluate(x, y, verbose=0), model.predict(x, verbose=0).tolist(),
                 [w.tolist() for w in model.get_weights()]]
        return found, compiler.stats()

    def same(self, make, settings=dict, fit=dict, as_it_is=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, none = self.run_one(make, False, settings, fit)
            have, counts = self.run_one(make, True, settings, fit)
        self.assertEqual(want, have)
        self.assertEqual(none["runs"], 0)
        self.assertGreater(counts["runs"], 0)
        self.assertEqual(counts["eager_calls"] > 0, as_it_is, counts)
        return counts

    def test_networks(self):
        for make in (dense, images, masked, penalised):
            with self.subTest(make.__name__):
                self.same(make)

    def test_programs_are_few(self):
        """40 samples in batches of 16, the last of 8: two programs each to train and to look, and for predict, whose
        batches are of 32 and 8; the first batch of all runs as it is where it makes weights."""
        counts = self.same(dense)
        self.assertEqual(counts["executables"], 6)

    def test_what_fit_takes(self):
        weights = cairn.linspace(0.1, 2, 40)
        self.same(dense, fit=lambda: {"sample_weight": weights})
        self.same(dense, fit=lambda: {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}, "validation_split": 0.25})
        self.same(dense, settings=lambda: {"weighted_metrics": ["accuracy"]}, fit=lambda: {"sample_weight": weights})

    def test_callbacks(self):
        seen = []

        class Look(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                seen.append((batch, logs["loss"]))
        self.same(dense, fit=lambda: {"validation_split": 0.25, "callbacks": [
            Look(), keras.callbacks.EarlyStopping(patience=1), keras.callbacks.ReduceLROnPlateau(patience=0),
            keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1))]})
        half = len(seen) // 2
        self.assertEqual(seen[:half], seen[half:])

    def test_optimizers_and_losses(self):
        self.same(dense, settings=lambda: {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=0.5)})
        self.same(dense, settings=lambda: {"optimizer": keras.optimizers.AdamW(
            keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), use_ema=True, gradient_accumulation_steps=2)})
        self.same(dense, settings=lambda: {"loss": lambda y, p: keras.losses.sparse_categorical_crossentropy(y, p) * 2})

    def test_mixed_precision(self):
        keras.mixed_precision.set_global_policy("mixed_float16")
        os.environ["CAIRN_COMPILE"] = "exact"  # halves are rounded where eager rounds them
        try:
            self.same(dense, settings=lambda: {"optimizer": keras.optimizers.LossScaleOptimizer(
                keras.optimizers.SGD(0.1), initial_scale=2.0 ** 40, dynamic_growth_steps=2)})
        finally:
            keras.mixed_precision.set_global_policy("float32")
            del os.environ["CAIRN_COMPILE"]

    def test_layers_that_are_frozen_later(self):
        found = []
        for jit in (False, True):
            cairn.manual_seed(1)
            keras.utils.set_random_seed(1)
            model, x, y = dense()
            model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=jit)
            model.fit(x, y, verbose=0)
            model.layers[0].trainable = False
            model.fit(x, y, verbose=0)
            found.append([w.tolist() for w in model.get_weights()])
        self.assertEqual(*found)

    # ---- what runs as it is ----
    def test_losses_that_count(self):
        """Metrics of the program's own inside of compute_loss."""
        class Counting(keras.Sequential):
            def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
                loss = super().compute_loss(x, y, y_pred, sample_weight, training)
                self.tracker.update_state(loss)
                return loss

        def make():
            model = Counting([keras.Input((6,)), layers.Dense(3, activation="softmax")])
            model.tracker = keras.metrics.Mean("own")
            return model, cairn.randn(40, 6), cairn.randint(0, 3, (40,))
        self.same(make, as_it_is=True)

    def test_several_outputs(self):
        found = []
        for jit in (False, True):
            cairn.manual_seed(1)
            keras.utils.set_random_seed(1)
            a = keras.Input((4,))
            h = layers.Dense(5, activation="tanh")(a)
            model = keras.Model(a, [layers.Dense(1, name="p")(h), layers.Dense(2, name="q")(h)])
            model.compile("adam", {"p": "mse", "q": "mae"}, loss_weights={"p": 1.0, "q": 0.3}, jit_compile=jit)
            x = cairn.randn(20, 4)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                history = model.fit(x, [x.sum(1, keepdim=True), x[:, :2]], epochs=2, verbose=0)
            found.append([history.history, [w.tolist() for w in model.get_weights()]])
        self.assertEqual(*found)
        self.assertEqual(set(found[0][0]), {"loss", "p_loss", "q_loss"})

    def test_steps_of_the_program(self):
        class Own(keras.Sequential):
            def train_step(self, data):
                return super().train_step(data)
        model = Own([keras.Input((6,)), layers.Dense(3)])
        with self.assertWarnsRegex(UserWarning, "Own.train_step is the program's own"):
            model.compile("sgd", "mse", jit_compile=True)

    def test_switches(self):
        model, x, y = dense()
        compiler.reset()
        model.compile("sgd", "sparse_categorical_crossentropy", jit_compile="auto")
        model.fit(x, y, verbose=0)
        self.assertEqual(compiler.stats()["runs"], 0)
        with self.assertWarnsRegex(UserWarning, "exclude each other"):
            model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=True, run_eagerly=True)
        with self.assertRaisesRegex(ValueError, "jit_compile"):
            model.compile("sgd", "sparse_categorical_crossentropy", jit_compile="yes")


if __name__ == "__main__":
    unittest.main()
