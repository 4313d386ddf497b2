"""cairn.keras: layers, losses, metrics and rates against Keras's own numbers; the ways to build and train a model."""
import math
import os
import pathlib
import sys
import tempfile
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
import hand  # noqa: E402
import keras_cases as cases  # noqa: E402
import keras_numbers as known  # noqa: E402


def spots(n=160):
    """Points inside and outside of a circle."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (n, 2)).astype("float32")
    return x, (np.square(x).sum(1) < 0.5).astype("int64")


class Numbers(unittest.TestCase):
    def near(self, got, want, places=1e-4):
        self.assertLess(abs(got - want), places * max(1.0, abs(want)), (got, want))

    def test_layers(self):
        for name, (shape, mean, product) in known.LAYERS.items():
            with self.subTest(layer=name):
                got = cases.digest(cases.layer_output(keras, name))
                self.assertEqual(got[0], shape)
                self.near(got[1], mean)
                self.near(got[2], product)

    def test_losses(self):
        for name, want in known.LOSS.items():
            with self.subTest(loss=name):
                target, output, make = cases.LOSSES[name]
                self.near(float(make(keras)(target, output)), want)

    def test_metrics(self):
        for name, want in known.METRIC.items():
            with self.subTest(metric=name):
                target, output, make = cases.METRICS[name]
                self.near(float(make(keras)(target, output)), want)

    def test_rates(self):
        for name, want in known.RATE.items():
            with self.subTest(rate=name):
                rate = cases.RATES[name](keras.optimizers.schedules)
                np.testing.assert_allclose([rate(i) for i in (0, 3, 7, 11, 25)], want, rtol=1e-5, atol=1e-7)

    def test_gradients_reach_all_weights(self):
        for name in cases.CASES:
            shapes, make = cases.CASES[name]
            if shapes == "ids" or len(shapes) > 1:
                continue
            with self.subTest(layer=name):
                layer = make(keras)
                out = layer(cases.wave(shapes[0], 0.37), training=True).square().sum()
                if layer.trainable_weights:
                    out.backward()
                for w in layer.trainable_weights:
                    self.assertIsNotNone(w.grad, w.name)


class Layers(unittest.TestCase):
    def test_weights(self):
        layer = layers.Dense(3)
        self.assertEqual(layer.weights, [])
        layer.build((None, 5))
        self.assertEqual([w.shape for w in layer.get_weights()], [(5, 3), (3,)])
        self.assertEqual([w.name for w in layer.weights], ["kernel", "bias"])
        limit = math.sqrt(6 / 8)
        kernel = layer.get_weights()[0]
        self.assertTrue((np.abs(kernel) <= limit).all() and kernel.std() > 0.2 * limit)
        self.assertFalse(layer.get_weights()[1].any())
        with self.assertRaisesRegex(ValueError, "shape"):
            layer.set_weights([np.zeros((3, 5)), np.zeros(3)])
        with self.assertRaisesRegex(ValueError, "5 features"):
            layer(np.zeros((1, 4), "float32"))

    def test_lstm_weights(self):
        layer = layers.LSTM(4)
        layer.build((None, 6, 3))
        self.assertEqual([tuple(w.shape) for w in layer.weights], [(3, 16), (4, 16), (16,)])
        np.testing.assert_array_equal(layer.get_weights()[2], [0] * 4 + [1] * 4 + [0] * 8)
        square = layer.get_weights()[1]
        np.testing.assert_allclose(square @ square.T, np.eye(4), atol=1e-5)

    def test_states(self):
        x = cases.wave((2, 6, 3), 0.4)
        out, h, c = layers.LSTM(4, return_state=True)(x)
        np.testing.assert_allclose(cases.numbers(out), cases.numbers(h))
        self.assertEqual(tuple(c.shape), (2, 4))
        gru = layers.GRU(4, return_sequences=True, return_state=True)
        whole, _ = gru(x)
        first, state = gru(x[:, :3])
        rest, _ = gru(x[:, 3:], initial_state=state)
        np.testing.assert_allclose(cases.numbers(whole)[:, 3:], cases.numbers(rest), atol=1e-6)

    def test_training_is_said(self):
        x = np.ones((50, 40), "float32")
        drop = layers.Dropout(0.5)
        np.testing.assert_array_equal(cases.numbers(drop(x)), x)
        share = (cases.numbers(drop(x, training=True)) == 0).mean()
        self.assertTrue(0.4 < share < 0.6, share)
        model = keras.Sequential([drop])
        np.testing.assert_array_equal(cases.numbers(model(x)), x)
        self.assertTrue((cases.numbers(model(x, training=True)) == 0).any())

    def test_batch_normalization_moves(self):
        x = cases.wave((8, 3), 0.5) * 3 + 1
        norm = layers.BatchNormalization(momentum=0.9)
        out = cases.numbers(norm(x, training=True))
        np.testing.assert_allclose(out.mean(0), 0, atol=1e-5)
        gamma, beta, mean, variance = norm.get_weights()
        np.testing.assert_allclose(mean, 0.1 * x.mean(0), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(variance, 0.9 + 0.1 * x.var(0), rtol=1e-5)
        self.assertEqual(len(norm.trainable_weights), 2)
        norm.trainable = False
        norm(x, training=True)
        np.testing.assert_array_equal(norm.get_weights()[2], mean)

    def test_own_layer(self):
        class Scaled(layers.Layer):
            def __init__(self, units=2, **kwargs):
                super().__init__(**kwargs)
                self.units = units

            def build(self, input_shape):
                self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer="random_normal",
                                         trainable=True)
                self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True)

            def call(self, inputs):
                return keras.ops.matmul(inputs, self.w) + self.b

            def get_config(self):
                return {"units": self.units, "name": self.name}
        layer = Scaled(3)
        self.assertEqual(tuple(layer(np.ones((2, 4), "float32")).shape), (2, 3))
        self.assertEqual(len(layer.weights), 2)
        self.assertEqual(sorted(layer.state_dict()), ["b", "w"])
        model = keras.Sequential([keras.Input((4,)), layer])
        with keras.saving.custom_object_scope({"Scaled": Scaled}):
            again = keras.models.clone_model(model)
        again.set_weights(model.get_weights())
        x = np.ones((2, 4), "float32")
        np.testing.assert_allclose(again.predict(x), model.predict(x))

    def test_preparing(self):
        x = cases.wave((20, 3), 0.8) * 4 + 2
        normal = layers.Normalization()
        normal.adapt(x)
        out = cases.numbers(normal(x))
        np.testing.assert_allclose(out.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(out.std(0), 1, atol=1e-5)
        image = cases.wave((2, 6, 6, 3), 0.2)
        for layer in (layers.RandomFlip(), layers.RandomRotation(0.1), layers.RandomZoom(0.2),
                      layers.RandomTranslation(0.1, 0.1), layers.RandomContrast(0.2)):
            np.testing.assert_array_equal(cases.numbers(layer(image, training=False)), image)
            self.assertEqual(tuple(layer(image, training=True).shape), image.shape)
        self.assertEqual(tuple(layers.Resizing(3, 4)(image).shape), (2, 3, 4, 3))
        hot = layers.CategoryEncoding(num_tokens=4, output_mode="multi_hot")(np.array([[0, 1], [3, 3]]))
        np.testing.assert_array_equal(cases.numbers(hot), [[1, 1, 0, 0], [0, 0, 0, 1]])


class Models(unittest.TestCase):
    def setUp(self):
        keras.utils.set_random_seed(1)

    def test_sequential(self):
        x, y = spots()
        model = keras.Sequential()
        model.add(keras.Input(shape=(2,)))
        model.add(layers.Dense(16, activation="relu"))
        model.add(layers.Dense(2, activation="softmax"))
        self.assertEqual(model.output_shape, (None, 2))
        self.assertEqual(model.count_params(), 2 * 16 + 16 + 16 * 2 + 2)
        model.compile(optimizer=keras.optimizers.Adam(0.02), loss="sparse_categorical_crossentropy",
                      metrics=["accuracy"])
        history = model.fit(x, y, epochs=30, batch_size=16, verbose=0)
        self.assertGreater(history.history["accuracy"][-1], 0.9)
        loss, accuracy = model.evaluate(x, y, verbose=0)
        self.assertGreater(accuracy, 0.9)
        said = model.predict(x)
        self.assertIsInstance(said, np.ndarray)
        self.assertAlmostEqual(float((said.argmax(1) == y).mean()), accuracy, places=5)
        lines = []
        model.summary(print_fn=lines.append)
        self.assertIn("Trainable params: 82", lines[0])

    def test_built_late(self):
        model = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(1)])
        self.assertEqual(model.weights, [])
        x, y = spots()
        model.compile("sgd", "mse")
        model.fit(x, y, epochs=1, verbose=0)
        self.assertEqual(len(model.weights), 4)
        model = keras.Sequential([layers.Dense(4, input_shape=(3,))])
        self.assertEqual(model.count_params(), 16)

    def test_functional(self):
        a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
        shared = layers.Dense(5, activation="tanh")
        both = layers.concatenate([shared(a), layers.Dense(5)(b)])
        skip = layers.add([shared(a), layers.Dense(5)(both)]) * 2.0
        first = layers.Dense(1, name="first")(skip)
        second = layers.Dense(3, activation="softmax", name="second")(both)
        model = keras.Model(inputs=[a, b], outputs=[first, second])
        self.assertEqual(len(model.weights), 10)
        self.assertEqual(first.shape, (None, 1))
        x = {"a": cases.wave((12, 4), 0.3), "b": cases.wave((12, 3), 0.4)}
        y = {"first": cases.wave((12, 1), 0.9), "second": np.arange(12) % 3}
        model.compile("adam", loss={"first": "mse", "second": "sparse_categorical_crossentropy"},
                      loss_weights={"first": 0.5}, metrics={"second": ["accuracy"]})
        logs = model.fit(x, y, epochs=2, batch_size=4, verbose=0).history
        self.assertEqual(set(logs), {"loss", "first_loss", "second_loss", "second_accuracy"})
        self.assertAlmostEqual(logs["loss"][0], 0.5 * logs["first_loss"][0] + logs["second_loss"][0], places=5)
        one, two = model.predict([x["a"], x["b"]])
        self.assertEqual((one.shape, two.shape), ((12, 1), (12, 3)))
        inner = keras.Model(a, shared(a))
        outer = keras.Sequential([inner, layers.Dense(2)])
        self.assertEqual(tuple(outer(x["a"]).shape), (12, 2))
        with self.assertRaisesRegex(ValueError, "shape"):
            inner(np.zeros((2, 5), "float32"))
        with self.assertRaisesRegex(ValueError, "not among the inputs"):
            keras.Model(a, both)

    def test_open_sizes(self):
        tokens = keras.Input(shape=(None,), dtype="int32")
        x = layers.Embedding(20, 8)(tokens)
        x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
        self.assertEqual(x.shape, (None, None, 8))
        model = keras.Model(tokens, layers.Dense(1, activation="sigmoid")(layers.GlobalMaxPooling1D()(x)))
        for t in (3, 7):
            self.assertEqual(tuple(model(np.ones((2, t), "int64")).shape), (2, 1))

    def test_subclass(self):
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.blocks = []
                for n in (8, 8):
                    self.blocks.append(layers.Dense(n, activation="relu"))
                self.drop = layers.Dropout(0.1)
                self.head = layers.Dense(2)

            def call(self, inputs, training=False):
                for block in self.blocks:
                    inputs = block(inputs)
                if training:
                    inputs = self.drop(inputs, training=training)
                return self.head(inputs)
        x, y = spots()
        model = Net()
        model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=[keras.metrics.SparseCategoricalAccuracy()])
        logs = model.fit(x, y, epochs=3, verbose=0, validation_data=(x, y)).history
        self.assertIn("val_sparse_categorical_accuracy", logs)
        self.assertEqual(len(model.trainable_weights), 6)

    def test_train_step(self):
        class Own(keras.Model):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
                self.tracker = keras.metrics.Mean(name="loss")

            @property
            def metrics(self):
                return [self.tracker]

            def call(self, x):
                return self.inner(x)

            def train_step(self, data):
                x, y = data[:2]
                loss = keras.ops.mean(keras.ops.square(self(x, training=True)[:, 0] - keras.ops.cast(y, "float32")))
                self.zero_grad()
                loss.backward()
                weights = [v for v in self.trainable_weights]
                gradients = [v.value.grad for v in weights]
                with cairn.no_grad():
                    self.optimizer.apply(gradients, weights)
                self.tracker.update_state(loss)
                return {m.name: m.result() for m in self.metrics}
        x, y = spots()
        model = Own(keras.Sequential([keras.Input((2,)), layers.Dense(8, activation="relu"), layers.Dense(1)]))
        model.compile(optimizer=keras.optimizers.SGD(0.1))
        weights = hand.copies(model.get_weights())
        logs = model.fit(x, y, epochs=4, shuffle=False, verbose=0).history
        self.assertEqual(list(logs), ["loss"])
        want = hand.losses(hand.dense(weights), weights, (x, y), lambda p, t: (p[:, 0] - t.float()).square().mean(),
                           hand.sgd(weights, 0.1), 4)
        np.testing.assert_allclose(logs["loss"], want, rtol=1e-5)
        for have, w in zip(model.get_weights(), weights):
            np.testing.assert_allclose(have, w.detach().numpy(), atol=1e-6)

    def test_loop_by_hand(self):
        x, y = spots()
        model = keras.Sequential([keras.Input((2,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
        optimizer = keras.optimizers.Adam(learning_rate=0.05)
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metric = keras.metrics.SparseCategoricalAccuracy()
        weights, right = hand.copies(model.get_weights()), []
        want = hand.losses(hand.dense(weights), weights, (x, y), cairn.nn.functional.cross_entropy,
                           hand.adam(weights, 0.05), 25, len(x))
        values = []
        for _ in range(25):
            loss = loss_fn(y, model(x, training=True))
            model.zero_grad()
            loss.backward()
            optimizer.apply_gradients((w.grad, w) for w in model.trainable_weights)
            metric.update_state(y, model(x))
            values.append(float(loss))
            right.append((np.asarray(model(x).detach()).argmax(1) == y).mean())
        np.testing.assert_allclose(values, want, rtol=1e-4)
        self.assertEqual(optimizer.iterations, 25)
        self.assertAlmostEqual(float(metric.result()), np.mean(right), places=6)
        metric.reset_state()
        self.assertEqual(float(metric.result()), 0.0)

    def test_regularizers_and_add_loss(self):
        class Extra(layers.Layer):
            def call(self, inputs):
                self.add_loss(0.5 * keras.ops.mean(inputs))
                return inputs
        model = keras.Sequential([keras.Input((3,)), Extra(), layers.Dense(
            2, kernel_regularizer=keras.regularizers.l2(0.1), kernel_initializer="ones")])
        model.compile("sgd", "mse")
        x = np.ones((4, 3), "float32")
        loss = model.test_on_batch(x, 3 * np.ones((4, 2), "float32"))
        self.assertAlmostEqual(loss, 0.1 * 6 + 0.5, places=5)

    def test_frozen_layers(self):
        base = keras.Sequential([keras.Input((2,)), layers.Dense(4), layers.BatchNormalization()])
        base.trainable = False
        model = keras.Sequential([base, layers.Dense(1)])
        model.compile("adam", "mse")
        before = base.get_weights()
        x, y = spots()
        model.fit(x, y, epochs=1, verbose=0)
        for a, b in zip(before, base.get_weights()):
            np.testing.assert_array_equal(a, b)
        self.assertEqual(len(model.trainable_weights), 2)
        self.assertEqual(len(model.non_trainable_weights), 6)

    def test_masked_sequences(self):
        model = keras.Sequential([layers.Embedding(10, 4, mask_zero=True), layers.LSTM(3)])
        short, long = np.array([[3, 4, 5]]), np.array([[3, 4, 5, 0, 0], ])
        first = model.predict(short)
        np.testing.assert_allclose(model.predict(long), first, atol=1e-6)
        np.testing.assert_allclose(model.predict(keras.utils.pad_sequences([[3, 4, 5]], 6)), first, atol=1e-6)

    def test_mixed_with_modules(self):
        model = keras.Sequential([cairn.nn.Linear(2, 8), layers.ReLU(), cairn.nn.Linear(8, 2)])
        x, y = spots()
        weights = hand.copies([w.T if w.ndim == 2 else w for w in model.parameters()])
        model.compile(cairn.optim.SGD(model.parameters(), lr=0.2), "cross_entropy", metrics=["accuracy"])
        logs = model.fit(x, y, epochs=5, shuffle=False, verbose=0).history
        want = hand.losses(hand.dense(weights), weights, (x, y), cairn.nn.functional.cross_entropy,
                           hand.sgd(weights, 0.2), 5)
        np.testing.assert_allclose(logs["loss"], want, rtol=1e-5)


class Saving(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.keras")

    def again(self, model, x):
        model.save(self.path)
        read = keras.models.load_model(self.path)
        for a, b in zip(np.atleast_1d(model.predict(x)), np.atleast_1d(read.predict(x))):
            np.testing.assert_array_equal(a, b)
        return read

    def test_sequential(self):
        model = keras.Sequential([
            keras.Input((6, 6, 1)), layers.Conv2D(4, 3, activation="relu", kernel_regularizer="l2"),
            layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)])
        model.compile(keras.optimizers.Adam(0.003), "mse", metrics=["mae"])
        read = self.again(model, cases.wave((2, 6, 6, 1), 0.3))
        self.assertAlmostEqual(float(read.optimizer.learning_rate), 0.003)
        self.assertEqual(read.layers[0].name, model.layers[0].name)

    def test_functional(self):
        a = keras.Input((4,))
        x = layers.Dense(4, activation="relu")(a)
        model = keras.Model(a, layers.Dense(2)(layers.add([x, a]) * 0.5 + keras.ops.relu(a)))
        self.again(model, cases.wave((3, 4), 0.3))

    def test_weights(self):
        make = lambda: keras.Sequential([keras.Input((3,)), layers.Dense(2)])  # noqa: E731
        first, second = make(), make()
        path = self.path + ".weights.h5"
        first.save_weights(path)
        second.load_weights(path)
        np.testing.assert_array_equal(first.get_weights()[0], second.get_weights()[0])

    def test_unknown(self):
        class Odd(layers.Layer):
            def call(self, x):
                return x
        keras.Sequential([keras.Input((2,)), Odd()]).save(self.path)
        with self.assertRaisesRegex(ValueError, "Odd"):
            keras.models.load_model(self.path)
        keras.models.load_model(self.path, custom_objects={"Odd": Odd})


class Optimizers(unittest.TestCase):
    def test_a_rate_set_later_counts(self):
        """The numbers of each optimiser are beside Keras's in test_keras_training.py."""
        def losses(optimizer):
            keras.utils.set_random_seed(0)
            model = keras.Sequential([keras.Input((2,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])
            model.compile(optimizer, "mse")
            return model.fit(x, y, epochs=6, shuffle=False, verbose=0).history["loss"]

        x, y = spots(64)
        for name in ("sgd", "rmsprop", "adam", "adamw", "nadam", "adamax", "adagrad", "adadelta", "adafactor"):
            with self.subTest(optimizer=name):
                optimizer = keras.optimizers.get(name)
                optimizer.learning_rate = 0.05
                have = losses(optimizer)
                self.assertEqual(have, losses(type(optimizer)(learning_rate=0.05)))
                self.assertEqual(len(set(have)), 6)
                still = losses(type(optimizer)(learning_rate=0.0))
                self.assertEqual(still, still[:1] * 6)

    def test_rates_and_clipping(self):
        weight = keras.Variable(np.zeros(2, "float32"))
        rate = keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)
        optimizer = keras.optimizers.SGD(rate, clipnorm=1.0)
        for _ in range(2):
            optimizer.apply([cairn.tensor([3.0, 4.0])], [weight])
        np.testing.assert_allclose(weight.numpy(), [-0.9, -1.2], rtol=1e-5)
        with self.assertRaisesRegex(TypeError, "schedule"):
            optimizer.learning_rate.assign(0.1)
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.learning_rate.assign(0.1)
        self.assertAlmostEqual(float(optimizer.learning_rate), 0.1)
        with self.assertRaisesRegex(ValueError, "unknown optimizer"):
            keras.optimizers.get("no_such")

    def test_constraint(self):
        layer = layers.Dense(3, kernel_constraint=keras.constraints.MaxNorm(0.5))
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(keras.optimizers.SGD(1.0), "mse")
        model.fit(cases.wave((8, 4), 0.3), cases.wave((8, 3), 0.4) * 5, verbose=0)
        self.assertTrue((np.linalg.norm(layer.get_weights()[0], axis=0) <= 0.5 + 1e-4).all())


class Answers(unittest.TestCase):
    def test_numbers_while_gradients_are_recorded(self):
        """model(x).numpy(), as programs write that know no other kind of tensor."""
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        x = cases.wave((2, 4), 0.3)
        self.assertEqual(model(x).numpy().shape, (2, 3))
        self.assertEqual(np.array(model(x)).shape, (2, 3))
        self.assertAlmostEqual(float(keras.ops.softmax(model(x)).numpy().sum()), 2.0, 5)
        loss = keras.losses.MeanSquaredError()(cases.wave((2, 3), 0.1), model(x))
        self.assertAlmostEqual(float(loss.numpy()), float(loss), 6)
        self.assertEqual(f"{loss:.4f}", "%.4f" % float(loss))
        self.assertEqual(str(loss), str(loss.detach().as_subclass(cairn.Tensor).requires_grad_()).replace(
            "requires_grad=True", "grad_fn=<%s>" % loss.grad_fn.name()))
        with cairn.GradientTape() as tape:
            loss = keras.losses.MeanSquaredError()(cases.wave((2, 3), 0.1), model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_weights)
        self.assertEqual([tuple(g.shape) for g in gradients], [(4, 3), (3,)])


class Utils(unittest.TestCase):
    def test_data(self):
        np.testing.assert_array_equal(keras.utils.to_categorical([0, 2], 3), [[1, 0, 0], [0, 0, 1]])
        np.testing.assert_array_equal(keras.utils.pad_sequences([[1, 2, 3], [4]], 2), [[2, 3], [0, 4]])
        np.testing.assert_array_equal(keras.utils.pad_sequences([[1], [2, 3]], padding="post"), [[1, 0], [2, 3]])
        series = keras.utils.timeseries_dataset_from_array(np.arange(10.0), np.arange(10.0) + 3, 3, batch_size=4)
        x, y = next(iter(series))
        np.testing.assert_array_equal(cases.numbers(x)[1], [1, 2, 3])
        self.assertEqual(float(y[1]), 4.0)

    def test_ops_and_random(self):
        x = cases.wave((2, 3), 0.4)
        np.testing.assert_allclose(cases.numbers(keras.ops.mean(x, axis=-1, keepdims=True)), x.mean(-1, keepdims=True),
                                   rtol=1e-5)
        np.testing.assert_allclose(cases.numbers(keras.ops.logsumexp(x, axis=0)), np.log(np.exp(x).sum(0)), rtol=1e-5)
        self.assertEqual(tuple(keras.random.normal((2, 3), seed=3).shape), (2, 3))
        own = keras.random.SeedGenerator(5)
        self.assertFalse(bool((keras.random.uniform((4,), seed=own) == keras.random.uniform((4,), seed=own)).all()))
        place = keras.Input((3,))
        self.assertEqual(keras.ops.sum(keras.ops.exp(place), axis=1).shape, (None,))


if __name__ == "__main__":
    unittest.main()
