"""Training as Keras does it: numbers of short fits beside those of Keras 3.15, what is printed, who is told what."""
import contextlib
import io
import re
import unittest

import cairn
from cairn import keras
from cairn.keras import layers, ops
import hand
from keras_training_cases import CASES, classes, mlp, wave

# What Keras 3.15 returned for keras_training_cases.py.
KERAS = {
    "optimizers": {
        "sgd": [0.068353, 0.0680673, 0.067818, 0.067595],
        "rmsprop": [0.0698287, 0.0719579, 0.0702934, 0.069615],
        "adam": [0.0740883, 0.0652731, 0.0635998, 0.0640904],
        "adamw": [0.0740878, 0.0652717, 0.0635976, 0.0640876],
        "nadam": [0.0700725, 0.0667022, 0.0658822, 0.0639751],
        "adamax": [0.0736005, 0.0665361, 0.0636746, 0.064039],
        "adagrad": [0.0683748, 0.0682764, 0.0681822, 0.0680991],
        "adadelta": [0.0683842, 0.0683707, 0.0683574, 0.0683457],
        "lion": [0.0695384, 0.0683755, 0.0676558, 0.0638178],
        "ftrl": [0.0513582, 0.0437404, 0.0437133, 0.0436848],
        "lamb": [0.067599, 0.0654792, 0.0648896, 0.0645139],
        "momentum": [0.0698888, 0.0691077, 0.0701478, 0.0699997],
        "nesterov": [0.0706588, 0.0679083, 0.0663668, 0.0659438],
        "rmsprop_momentum": [0.653171, 0.231741, 0.0746505, 0.0721004],
        "centered": [0.773907, 0.152686, 0.0747203, 0.0831377],
        "clipnorm": [0.202026, 0.0820446, 0.0947828, 0.0947781],
        "global_clipnorm": [0.203803, 0.0855089, 0.0955238, 0.0891117],
        "amsgrad": [0.123319, 0.152616, 0.0939417, 0.0839263],
        "ema": [0.123319, 0.152617, 0.0939424, 0.0826817],
        "accumulate": [0.222717, 0.0670524, 0.154603, 0.110534],
        "scaled": [0.123319, 0.152617, 0.0939424, 0.0839256],
    },
    "weights_of_samples": {
        "class_weight/accuracy": [0.366667, 0.4],
        "class_weight/ce": [1.12748, 1.11423],
        "class_weight/loss": [1.37177, 1.35564],
        "sample_weight/accuracy": [0.366667, 0.366667],
        "sample_weight/ce": [1.11683, 1.10728],
        "sample_weight/loss": [0.316435, 0.31373],
        "split/accuracy": [0.416667, 0.416667],
        "split/ce": [1.07844, 1.07257],
        "split/loss": [1.07844, 1.07257],
        "split/val_accuracy": [0.166667, 0.166667],
        "split/val_ce": [1.28038, 1.28021],
        "split/val_loss": [1.28038, 1.28021],
    },
    "several_outputs": {
        "kind_accuracy": [0.416667, 0.416667],
        "kind_loss": [1.0692, 1.06758],
        "loss": [2.04905, 2.03214],
        "size_loss": [0.757226, 0.749173],
        "size_mae": [0.723248, 0.720152],
        "evaluate": [2.02186, 0.744286, 1.06657, 0.416667, 0.718744],
        "weights": [0.967594, 0.000431295, 0.818642, -0.00141885, 0.390391, -0.00160924],
    },
    "masked_sequences": {
        "accuracy": [0.111111, 0.111111, 0.111111],
        "loss": [1.11151, 1.10992, 1.10833],
    },
    "own_functions": {
        "function/largest": [0.791307, 0.788235],
        "function/loss": [0.501434, 0.494674],
        "function/mae": [0.497691, 0.495207],
        "class/loss": [1.82015, 1.70608],
    },
}


def near(a, b):
    return abs(a - b) <= 2e-5 + 3e-4 * abs(b)


class Numbers(unittest.TestCase):
    def test_fits(self):
        for case in CASES:
            found = case(keras, cairn.tensor)
            self.assertEqual(sorted(found), sorted(KERAS[case.__name__]))
            for name, want in KERAS[case.__name__].items():
                with self.subTest(case=case.__name__, name=name):
                    self.assertEqual(len(found[name]), len(want))
                    self.assertTrue(all(near(a, b) for a, b in zip(found[name], want)), (found[name], want))

    def test_mixed_precision(self):
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        try:
            policy = keras.mixed_precision.global_policy()
            self.assertEqual((policy.compute_dtype, policy.variable_dtype), ("bfloat16", "float32"))
            model = mlp(keras, cairn.tensor, 3)
            self.assertEqual(model(cairn.ones(2, 5)).dtype, cairn.bfloat16)
            self.assertEqual({w.dtype for w in model.weights}, {cairn.float32})
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            x, y = cairn.tensor(wave(32, 5, 0.9)), cairn.tensor(classes(32, 3))
            weights = hand.copies(model.get_weights())
            want = hand.losses(hand.dense(weights, cairn.tanh), weights, (x, y), cairn.nn.functional.cross_entropy,
                               hand.adam(weights), 8)
            logs = model.fit(x, y, epochs=8, verbose=0).history["loss"]
            for have, exact in zip(logs, want):  # bfloat16 has 8 bits
                self.assertLess(abs(have - exact), 2**-8 * exact, (logs, want))
            self.assertNotEqual(logs, want)
            keras.mixed_precision.set_global_policy("mixed_float16")
            model.compile("adam", "mse")
            self.assertIsInstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        finally:
            keras.mixed_precision.set_global_policy("float32")
        self.assertEqual(layers.Dense(1).compute_dtype, "float32")


class Printed(unittest.TestCase):
    def said(self, f):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            f()
        return text.getvalue()

    def test_summary(self):
        keras.backend.clear_session()
        a = keras.Input((8,), name="a")
        x = layers.Dense(4, activation="relu")(a)
        y = layers.add([x, layers.Dense(4)(x)])
        model = keras.Model(a, layers.Dense(1)(y), name="branches")
        text = self.said(lambda: model.summary(line_length=76))
        self.assertIn("""\
Model: "branches"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ a (InputLayer)      │ (None, 8)         │          0 │ -                 │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense (Dense)       │ (None, 4)         │         36 │ a[0][0]           │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_1 (Dense)     │ (None, 4)         │         20 │ dense[0][0]       │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ add (Add)           │ (None, 4)         │          0 │ dense[0][0],      │
│                     │                   │            │ dense_1[0][0]     │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ dense_2 (Dense)     │ (None, 1)         │          5 │ add[0][0]         │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 61 (244.00 B)
 Trainable params: 61 (244.00 B)
 Non-trainable params: 0 (0.00 B)
""", text)
        self.assertEqual([k.name for k in model.layers], ["a", "dense", "dense_1", "add", "dense_2"])

    def test_lines(self):
        model = mlp(keras, cairn.tensor, 1)
        model.compile("sgd", "mse", metrics=["mae"])
        x, y = cairn.tensor(wave(20, 5, 0.9)), cairn.tensor(wave(20, 1, 0.3))
        lines = self.said(lambda: model.fit(x, y, epochs=2, batch_size=10, verbose=2)).splitlines()
        self.assertEqual(lines[0::2], ["Epoch 1/2", "Epoch 2/2"])
        self.assertRegex(lines[1], r"^2/2 - \d+s - \d+\w+/step - loss: \d\.\d{4} - mae: \d\.\d{4}$")
        self.assertRegex(self.said(lambda: model.predict(x)), r"^1/1 ━+ \d+s \d+\w+/step\n$")
        self.assertEqual(self.said(lambda: model.predict(x, verbose=0)), "")

    def test_callbacks(self):
        told = []

        class Note(keras.callbacks.Callback):
            def on_train_begin(self, logs=None):
                told.append("train")

            def on_epoch_end(self, epoch, logs=None):
                told.append((epoch, list(logs)))

            def on_test_batch_end(self, batch, logs=None):
                told.append(("test", batch))

            def on_train_end(self, logs=None):
                told.append(sorted(logs))
        model = mlp(keras, cairn.tensor, 1)
        model.compile("sgd", "mse", metrics=["mae"])
        x, y = cairn.tensor(wave(20, 5, 0.9)), cairn.tensor(wave(20, 1, 0.3))
        model.fit(x, y, epochs=1, verbose=0, validation_data=(x, y), callbacks=[Note()])
        names = ["loss", "mae", "val_loss", "val_mae"]
        self.assertEqual(told, ["train", ("test", 0), (0, names), names])


class OwnSteps(unittest.TestCase):
    def test_train_step(self):
        class Custom(keras.Model):
            def train_step(self, data):
                x, y = data
                self.zero_grad()
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
                loss.backward()
                weights = self.trainable_weights
                with cairn.no_grad():
                    self.optimizer.apply([v.value.grad for v in weights], weights)
                for metric in self.metrics:
                    if metric.name == "loss":
                        metric.update_state(loss)
                    else:
                        metric.update_state(y, y_pred)
                return {m.name: m.result() for m in self.metrics}
        inputs = keras.Input((5,))
        own = Custom(inputs, layers.Dense(1)(inputs))
        plain = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
        x, y = cairn.tensor(wave(32, 5, 0.9)), cairn.tensor(wave(32, 1, 0.3))
        own.set_weights(plain.get_weights())
        logs = []
        for model in (own, plain):
            model.compile("adam", "mse", metrics=["mae"])
            logs.append(model.fit(x, y, epochs=3, verbose=0, shuffle=False).history)
        self.assertEqual(sorted(logs[0]), ["loss", "mae"])
        for name in logs[0]:
            self.assertTrue(all(near(a, b) for a, b in zip(logs[0][name], logs[1][name])), logs)

    def test_distiller(self):
        class Distiller(keras.Model):
            def __init__(self, student, teacher):
                super().__init__()
                self.student, self.teacher = student, teacher

            def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, allow_empty=False):
                goal = ops.softmax(self.teacher(x, training=False))
                return keras.losses.KLDivergence()(goal, ops.softmax(y_pred))

            def call(self, x):
                return self.student(x)
        model = Distiller(mlp(keras, cairn.tensor, 3), mlp(keras, cairn.tensor, 3))
        model.student.set_weights([w * 0.5 for w in model.student.get_weights()])
        model.teacher.trainable = False
        model.compile("adam", metrics=["accuracy"])
        x, y = cairn.tensor(wave(32, 5, 0.9)), cairn.tensor(classes(32, 3))
        weights, teacher = hand.copies(model.student.get_weights()), model.teacher.get_weights()
        goal = hand.dense([cairn.as_tensor(w) for w in teacher], cairn.tanh)(x).softmax(1)
        want = hand.losses(hand.dense(weights, cairn.tanh), weights, (x, y),
                           lambda p, t: (goal * (goal / p.softmax(1)).log()).sum(1).mean(), hand.adam(weights), 5)
        logs = model.fit(x, y, epochs=5, verbose=0).history
        self.assertTrue(all(near(a, b) for a, b in zip(logs["loss"], want)), (logs["loss"], want))
        self.assertEqual(sorted(logs), ["accuracy", "loss"])
        self.assertTrue(all(cairn.equal(cairn.as_tensor(a), cairn.as_tensor(b))
                            for a, b in zip(teacher, model.teacher.get_weights())))

    def test_own_optimizer(self):
        class Signs(keras.optimizers.Optimizer):
            def build(self, variables):
                super().build(variables)
                self.last = [self.add_variable_from_reference(v, "last") for v in variables]

            def update_step(self, gradient, variable, learning_rate):
                kept = self.last[self._get_variable_index(variable)]
                self.assign(kept, ops.add(ops.multiply(0.5, kept), gradient))
                self.assign_sub(variable, ops.multiply(learning_rate, ops.sign(kept)))
        model = mlp(keras, cairn.tensor, 1)
        model.compile(Signs(0.01), "mse")
        x, y = cairn.tensor(wave(32, 5, 0.9)), cairn.tensor(wave(32, 1, 0.3))
        weights = hand.copies(model.get_weights())
        kept = [cairn.zeros_like(w) for w in weights]

        def step(gradients):
            for w, k, g in zip(weights, kept, gradients):
                k.copy_(0.5 * k + g)
                w -= 0.01 * k.sign()
        want = hand.losses(hand.dense(weights, cairn.tanh), weights, (x, y), cairn.nn.functional.mse_loss, step, 4)
        logs = model.fit(x, y, epochs=4, verbose=0).history["loss"]
        self.assertTrue(all(near(a, b) for a, b in zip(logs, want)), (logs, want))
        self.assertEqual(int(model.optimizer.iterations), 4)


class Package(unittest.TestCase):
    def test_modules(self):
        """Where programs import from."""
        from importlib import import_module
        for name, part in (("callbacks", "EarlyStopping"), ("optimizers.schedules", "CosineDecay"),
                           ("optimizers.legacy", "Adam"), ("datasets.mnist", "load_data"),
                           ("datasets.imdb", "load_data"),
                           ("utils", "plot_model"), ("config", "floatx"), ("mixed_precision", "Policy"),
                           ("dtype_policies", "DTypePolicy"), ("tree", "map_structure"), ("models", "model_from_json"),
                           ("ops.image", "resize"), ("ops.nn", "softmax"), ("ops.numpy", "sum"),
                           ("preprocessing.sequence", "pad_sequences"), ("backend", "l2_normalize")):
            with self.subTest(module=name):
                self.assertTrue(hasattr(import_module("cairn.keras." + name), part))
        with self.assertRaisesRegex(FileNotFoundError, "imdb.npz"):
            keras.datasets.imdb.load_data("no_such_folder/imdb.npz")

    def test_plots(self):
        a = keras.Input((4,), name="a")
        model = keras.Model(a, layers.add([a, layers.Dense(4, name="d")(a)]))
        self.assertTrue(re.search(r'"a" -> "d";', keras.utils.model_to_dot(model).to_string()))

    def test_ops_on_places(self):
        """Ops in a functional model, by name and by sign, are layers of it."""
        a = keras.Input((3, 4))
        b = ops.reshape(ops.transpose(a, (0, 2, 1)), (-1, 12)) * 2.0
        c = ops.concatenate([b[:, :2], ops.mean(b, axis=1, keepdims=True)], axis=-1)
        model = keras.Model(a, ops.softmax(1.0 - c))
        self.assertEqual(model.output_shape, (None, 3))
        self.assertEqual([getattr(k, "class_name", "") for k in model.layers[1:3]], ["Transpose", "Reshape"])
        x = cairn.tensor(wave(2, 12, 0.9)).reshape(2, 3, 4)
        flat = x.transpose(1, 2).reshape(2, 12) * 2
        want = (1 - cairn.cat([flat[:, :2], flat.mean(1, keepdim=True)], 1)).softmax(1)
        self.assertTrue(cairn.allclose(model(x), want, atol=1e-6))


if __name__ == "__main__":
    unittest.main()
