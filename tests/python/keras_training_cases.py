"""Small fits with known numbers: each case trains a model from the same weights in the library that it is given (Keras
or cairn.keras) and returns what came out. test_keras_training.py has what Keras 3.15 returned."""
import math


def wave(rows, columns, step):
    """Numbers without a pattern that a short fit would see."""
    return [[math.sin(1.0 + step * (i * columns + j) ** 1.3) for j in range(columns)] for i in range(rows)]


def classes(n, many):
    return [(i * i + i // 3) % many for i in range(n)]


def set_weights(model, array, scale=0.5):
    """Matrices become waves, vectors stay."""
    new = []
    for k, w in enumerate(model.get_weights()):
        count = 1
        for n in w.shape:
            count *= int(n)
        flat = [v[0] * scale for v in wave(count, 1, 0.7 + 0.1 * k)]
        new.append(array(flat).reshape(tuple(int(n) for n in w.shape)) if len(w.shape) > 1 else w)
    model.set_weights(new)


def mlp(keras, array, last=2, activation=None):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="tanh"),
                              keras.layers.Dense(last, activation=activation)])
    set_weights(model, array)
    return model


def flat(history):
    return {k: [float(v) for v in values] for k, values in history.history.items()}


def optimizers(keras, array):
    """Tiny gradients, so that it shows where an optimiser adds its epsilon."""
    o, s = keras.optimizers, keras.optimizers.schedules
    x = array(wave(32, 5, 0.9)) * 0.01
    y = x[:, :2] * 0.5 + x[:, 2:4]
    made = {"sgd": "sgd", "rmsprop": "rmsprop", "adam": "adam", "adamw": "adamw", "nadam": "nadam", "adamax": "adamax",
            "adagrad": "adagrad", "adadelta": "adadelta", "lion": "lion", "ftrl": "ftrl", "lamb": o.Lamb(),
            "momentum": o.SGD(s.ExponentialDecay(0.1, 3, 0.5), momentum=0.9),
            "nesterov": o.SGD(s.CosineDecay(0.1, 20), momentum=0.9, nesterov=True),
            "rmsprop_momentum": o.RMSprop(s.PolynomialDecay(0.01, 10), momentum=0.5),
            "centered": o.RMSprop(0.01, centered=True), "clipnorm": o.Adam(1e-2, clipnorm=0.001),
            "global_clipnorm": o.Adam(1e-2, global_clipnorm=0.001, weight_decay=0.01),
            "amsgrad": o.Adam(0.01, amsgrad=True), "ema": o.Adam(0.01, use_ema=True, ema_momentum=0.9),
            "accumulate": o.Adam(0.01, gradient_accumulation_steps=2),
            "scaled": o.LossScaleOptimizer(o.Adam(0.01))}
    found = {}
    for name, optimizer in made.items():
        model = mlp(keras, array)
        model.compile(optimizer, "mse")
        logs = flat(model.fit(x, y, epochs=3, batch_size=8, shuffle=False, verbose=0))
        found[name] = [v * 1e3 for v in logs["loss"]] + [1e3 * model.evaluate(x, y, verbose=0)]
    return found


def weights_of_samples(keras, array):
    x, y = array(wave(30, 5, 0.9)), array(classes(30, 3))
    found = {}
    for name, options in (("class_weight", {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}}),
                          ("sample_weight", {"sample_weight": array([0.1 * (i % 7) for i in range(30)])}),
                          ("split", {"validation_split": 0.2})):
        model = mlp(keras, array, 3, "softmax")
        model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=[
            keras.metrics.SparseCategoricalCrossentropy(name="ce")])
        logs = flat(model.fit(x, y, epochs=2, batch_size=8, shuffle=False, verbose=0, **options))
        found.update({name + "/" + k: v for k, v in logs.items()})
    return found


def several_outputs(keras, array):
    layers = keras.layers
    a, b = keras.Input((5,), name="a"), keras.Input((3,), name="b")
    both = layers.concatenate([layers.Dense(4, activation="relu")(a), b])
    model = keras.Model([a, b], {"size": layers.Dense(1, name="size")(both),
                                 "kind": layers.Dense(3, activation="softmax", name="kind")(both)})
    set_weights(model, array)
    model.compile("adam", {"size": "mse", "kind": "sparse_categorical_crossentropy"},
                  loss_weights={"size": 2.0, "kind": 0.5}, metrics={"size": ["mae"], "kind": ["accuracy"]})
    inputs = {"a": array(wave(24, 5, 0.9)), "b": array(wave(24, 3, 0.4))}
    goals = {"size": array(wave(24, 1, 0.3)), "kind": array(classes(24, 3))}
    found = flat(model.fit(inputs, goals, epochs=2, batch_size=8, shuffle=False, verbose=0))
    found["evaluate"] = [float(v) for v in model.evaluate(inputs, goals, verbose=0)]
    found["weights"] = [float(w.sum()) for w in model.get_weights()]
    return found


def masked_sequences(keras, array):
    layers = keras.layers
    model = keras.Sequential([keras.Input((None,)), layers.Embedding(20, 4, mask_zero=True),
                              layers.LSTM(6, return_sequences=True), layers.Dense(3, activation="softmax")])
    set_weights(model, array)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    x = array([[1, 2, 3, 0], [4, 5, 0, 0], [7, 8, 9, 1]])
    y = array([[1, 2, 0, 0], [1, 1, 0, 0], [2, 2, 1, 1]])
    return flat(model.fit(x, y, epochs=3, shuffle=False, verbose=0))


def own_functions(keras, array):
    """A loss of (N) beside (N, 1), a loss class, a metric class, what layers add."""
    ops, layers = keras.ops, keras.layers

    def contrastive(y_true, y_pred):
        near, far = ops.square(y_pred), ops.square(ops.maximum(1.0 - y_pred, 0.0))
        return ops.mean((1.0 - y_true) * near + y_true * far)

    class Scaled(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return 3.0 * ops.mean(ops.square(y_true - y_pred), axis=-1)

    class Largest(keras.metrics.Metric):
        def __init__(self, name="largest", **options):
            super().__init__(name=name, **options)
            self.most = self.add_weight(name="most", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.most.assign(ops.maximum(self.most, ops.max(y_pred)))

        def result(self):
            return self.most

    class Quiet(layers.Layer):
        def call(self, inputs):
            self.add_loss(0.1 * ops.mean(ops.square(inputs)))
            return inputs
    x, y = array(wave(24, 5, 0.9)), array([float(c) for c in classes(24, 2)])
    found = {}
    model = mlp(keras, array, 1)
    model.compile("sgd", contrastive, metrics=[Largest(), "mae"])
    found.update({"function/" + k: v for k, v in flat(model.fit(x, y, epochs=2, shuffle=False, verbose=0)).items()})
    model = keras.Sequential([keras.Input((5,)), layers.Dense(4, kernel_regularizer="l2"), Quiet(), layers.Dense(1)])
    set_weights(model, array)
    model.compile("sgd", Scaled())
    logs = flat(model.fit(x, y[:, None], epochs=2, shuffle=False, verbose=0))
    found.update({"class/" + k: v for k, v in logs.items()})
    return found


CASES = (optimizers, weights_of_samples, several_outputs, masked_sequences, own_functions)
