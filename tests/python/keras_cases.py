"""Layers of cairn.keras and what Keras computes for them: cases, inputs and weights that follow from a formula.

    KERAS_BACKEND=torch python keras_cases.py      prints keras_numbers.py anew; needs Keras
"""
import sys

import numpy as np


def wave(shape, step):
    """Numbers between -1 and 1 that are the same everywhere."""
    n = int(np.prod(shape)) if len(shape) else 1
    return np.sin(np.arange(n, dtype="float64") * step + 0.3).astype("float32").reshape(shape)


# name -> (shapes of the inputs, or "ids" for integers; the layer)
CASES = {
    "dense": ([(2, 5)], lambda k: k.layers.Dense(3, activation="relu")),
    "dense_3d": ([(2, 4, 5)], lambda k: k.layers.Dense(3, activation="gelu")),
    "conv1d": ([(2, 9, 3)], lambda k: k.layers.Conv1D(4, 3, strides=2, padding="same")),
    "conv1d_causal": ([(2, 9, 3)], lambda k: k.layers.Conv1D(4, 3, padding="causal", dilation_rate=2)),
    "conv2d_valid": ([(2, 7, 6, 3)], lambda k: k.layers.Conv2D(4, 3, activation="relu")),
    "conv2d_same": ([(2, 7, 6, 3)], lambda k: k.layers.Conv2D(4, (2, 3), strides=2, padding="same")),
    "conv2d_groups": ([(2, 7, 6, 4)], lambda k: k.layers.Conv2D(6, 3, groups=2, padding="same")),
    "conv2d_transpose": ([(2, 4, 5, 3)], lambda k: k.layers.Conv2DTranspose(2, 3, strides=2, padding="same")),
    "conv2d_transpose_4": ([(2, 4, 5, 3)], lambda k: k.layers.Conv2DTranspose(2, 4, strides=2, padding="same")),
    "conv2d_transpose_valid": ([(2, 4, 5, 3)], lambda k: k.layers.Conv2DTranspose(2, 2, strides=3)),
    "depthwise": ([(2, 7, 6, 3)], lambda k: k.layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same")),
    "separable": ([(2, 7, 6, 3)], lambda k: k.layers.SeparableConv2D(5, 3, strides=2, padding="same")),
    "max_pool": ([(2, 7, 6, 3)], lambda k: k.layers.MaxPooling2D(3, strides=2, padding="same")),
    "average_pool": ([(2, 7, 6, 3)], lambda k: k.layers.AveragePooling2D(3, strides=2, padding="same")),
    "average_pool_1d": ([(2, 9, 3)], lambda k: k.layers.AveragePooling1D(2)),
    "global_average": ([(2, 7, 6, 3)], lambda k: k.layers.GlobalAveragePooling2D()),
    "global_max": ([(2, 9, 3)], lambda k: k.layers.GlobalMaxPooling1D()),
    "batch_norm": ([(2, 4, 3)], lambda k: k.layers.BatchNormalization()),
    "layer_norm": ([(2, 4, 6)], lambda k: k.layers.LayerNormalization()),
    "group_norm": ([(2, 4, 6)], lambda k: k.layers.GroupNormalization(3)),
    "embedding": ("ids", lambda k: k.layers.Embedding(10, 4)),
    "simple_rnn": ([(2, 6, 3)], lambda k: k.layers.SimpleRNN(4, return_sequences=True)),
    "lstm": ([(2, 6, 3)], lambda k: k.layers.LSTM(4)),
    "lstm_sequences": ([(2, 6, 3)], lambda k: k.layers.LSTM(4, return_sequences=True, go_backwards=True)),
    "lstm_relu": ([(2, 6, 3)], lambda k: k.layers.LSTM(4, activation="relu")),
    "gru": ([(2, 6, 3)], lambda k: k.layers.GRU(4, return_sequences=True)),
    "gru_before": ([(2, 6, 3)], lambda k: k.layers.GRU(4, reset_after=False)),
    "bidirectional": ([(2, 6, 3)], lambda k: k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))),
    "bidirectional_gru": ([(2, 6, 3)], lambda k: k.layers.Bidirectional(k.layers.GRU(4), merge_mode="sum")),
    "masked_lstm": ("ids", lambda k: k.Sequential([k.layers.Embedding(10, 4, mask_zero=True), k.layers.LSTM(3)])),
    "masked_gru": ("ids", lambda k: k.Sequential([
        k.layers.Embedding(10, 4, mask_zero=True), k.layers.Bidirectional(k.layers.GRU(3, return_sequences=True)),
        k.layers.GlobalAveragePooling1D()])),
    "time_distributed": ([(2, 4, 5)], lambda k: k.layers.TimeDistributed(k.layers.Dense(3))),
    "attention": ([(2, 4, 6), (2, 5, 6)], lambda k: k.layers.MultiHeadAttention(2, 3, value_dim=4)),
    "dot": ([(2, 4, 6), (2, 5, 6)], lambda k: k.layers.Dot(axes=(2, 2))),
    "concatenate": ([(2, 3), (2, 4)], lambda k: k.layers.Concatenate()),
    "average": ([(2, 3), (2, 3)], lambda k: k.layers.Average()),
    "prelu": ([(2, 3, 4)], lambda k: k.layers.PReLU(shared_axes=[1])),
    "leaky": ([(2, 3, 4)], lambda k: k.layers.LeakyReLU()),
    "softmax": ([(2, 3, 4)], lambda k: k.layers.Softmax(axis=1)),
    "permute": ([(2, 3, 4)], lambda k: k.layers.Permute((2, 1))),
    "zero_padding": ([(2, 3, 4, 1)], lambda k: k.layers.ZeroPadding2D(((1, 0), (2, 1)))),
    "cropping": ([(2, 5, 6, 1)], lambda k: k.layers.Cropping2D(((1, 0), (2, 1)))),
    "up_sampling": ([(2, 3, 4, 2)], lambda k: k.layers.UpSampling2D((2, 3))),
    "up_sampling_bilinear": ([(2, 3, 4, 2)], lambda k: k.layers.UpSampling2D(2, interpolation="bilinear")),
    "rescaling": ([(2, 3)], lambda k: k.layers.Rescaling(1.0 / 127.5, offset=-1.0)),
    "einsum": ([(2, 4, 5)], lambda k: k.layers.EinsumDense("abc,cd->abd", (4, 6), bias_axes="d")),
}
for _name in ("elu", "exponential", "gelu", "hard_sigmoid", "leaky_relu", "linear", "log_softmax", "mish", "relu6",
              "selu", "sigmoid", "silu", "softplus", "softsign", "tanh"):
    CASES["activation_" + _name] = ([(2, 6)], lambda k, n=_name: k.layers.Activation(n))

_two = (wave((4, 3), 0.7) * 0.5 + 0.5, wave((4, 3), 1.3) * 0.4 + 0.5)
_soft = tuple(v / v.sum(-1, keepdims=True) for v in _two)
_classes = np.array([0, 2, 1, 2])
LOSSES = {
    "mse": (*_two, lambda k: k.losses.MeanSquaredError()), "mae": (*_two, lambda k: k.losses.MeanAbsoluteError()),
    "mape": (*_two, lambda k: k.losses.MeanAbsolutePercentageError()),
    "msle": (*_two, lambda k: k.losses.MeanSquaredLogarithmicError()),
    "log_cosh": (*_two, lambda k: k.losses.LogCosh()),
    "huber": (*_two, lambda k: k.losses.Huber(0.3)), "hinge": (*_two, lambda k: k.losses.Hinge()),
    "kl": (*_soft, lambda k: k.losses.KLDivergence()), "poisson": (*_two, lambda k: k.losses.Poisson()),
    "cosine": (*_two, lambda k: k.losses.CosineSimilarity()),
    "binary": (*_two, lambda k: k.losses.BinaryCrossentropy(label_smoothing=0.1)),
    "binary_logits": (*_two, lambda k: k.losses.BinaryCrossentropy(from_logits=True)),
    "focal": (*_two, lambda k: k.losses.BinaryFocalCrossentropy()),
    "categorical": (*_soft, lambda k: k.losses.CategoricalCrossentropy(label_smoothing=0.1)),
    "categorical_logits": (_soft[0], _two[1], lambda k: k.losses.CategoricalCrossentropy(from_logits=True)),
    "sparse": (_classes, _soft[1], lambda k: k.losses.SparseCategoricalCrossentropy()),
    "sparse_logits": (_classes, _two[1], lambda k: k.losses.SparseCategoricalCrossentropy(from_logits=True)),
    "categorical_hinge": (*_two, lambda k: k.losses.CategoricalHinge()),
}
_yes = (np.arange(8) % 3 == 0).astype("float32")
_said = wave((8,), 0.9) * 0.5 + 0.5
METRICS = {
    "precision": (_yes, _said, lambda k: k.metrics.Precision()), "recall": (_yes, _said, lambda k: k.metrics.Recall()),
    "auc": (_yes, _said, lambda k: k.metrics.AUC()), "auc_pr": (_yes, _said, lambda k: k.metrics.AUC(curve="PR")),
    "binary_accuracy": (_yes, _said, lambda k: k.metrics.BinaryAccuracy()),
    "true_positives": (_yes, _said, lambda k: k.metrics.TruePositives(thresholds=0.4)),
    "top_k": (_classes, _soft[1], lambda k: k.metrics.SparseTopKCategoricalAccuracy(k=2)),
    "rmse": (*_two, lambda k: k.metrics.RootMeanSquaredError()), "r2": (*_two, lambda k: k.metrics.R2Score()),
    "iou": (_classes, np.array([0, 1, 1, 2]), lambda k: k.metrics.MeanIoU(3)),
    "f1": (np.eye(3, dtype="float32")[_classes], _soft[1], lambda k: k.metrics.F1Score(average="macro")),
    "cosine": (*_two, lambda k: k.metrics.CosineSimilarity()),
}
RATES = {
    "exponential": lambda s: s.ExponentialDecay(0.1, 10, 0.5), "inverse": lambda s: s.InverseTimeDecay(0.1, 10, 0.5),
    "staircase": lambda s: s.ExponentialDecay(0.1, 10, 0.5, staircase=True),
    "piecewise": lambda s: s.PiecewiseConstantDecay([5, 12], [0.1, 0.05, 0.01]),
    "polynomial": lambda s: s.PolynomialDecay(0.1, 20, 0.01, power=2.0),
    "cosine": lambda s: s.CosineDecay(0.1, 20, 0.1),
    "warmup": lambda s: s.CosineDecay(0.0, 20, warmup_target=0.1, warmup_steps=6),
    "restarts": lambda s: s.CosineDecayRestarts(0.1, 6, m_mul=0.8),
}


def numbers(value):
    value = value.detach() if hasattr(value, "detach") else value
    return np.asarray(value, dtype="float64")


def layer_output(k, name):
    """What the layer of a case makes of its inputs, with weights by formula."""
    shapes, make = CASES[name]
    if shapes == "ids":
        inputs = [np.array([[3, 1, 4, 0, 0], [0, 9, 2, 6, 5]])]
    else:
        inputs = [wave(s, 0.37 + 0.1 * i) for i, s in enumerate(shapes)]
    layer = make(k)

    def call():
        if name == "attention":
            return layer(*inputs)
        return layer(inputs if len(inputs) > 1 else inputs[0])
    call()
    set_by_formula(layer)
    return numbers(call())


def set_by_formula(layer):
    old = layer.get_weights()
    new = [wave(w.shape, 0.61) * 0.8 for w in old]
    if len(old) == 4 and old[3].ndim == 1:  # a variance
        new[3] = np.abs(wave(old[3].shape, 0.61))
    layer.set_weights(new)


def digest(values):
    """A few numbers that say much about an array."""
    flat = values.reshape(-1)
    return [list(values.shape), round(float(flat.mean()), 6), round(float((flat * wave(flat.shape, 1.7)).sum()), 5)]


def main():
    import keras
    for title, table in (("LAYERS", {n: digest(layer_output(keras, n)) for n in CASES}),
                         ("LOSS", {n: round(float(numbers(f(keras)(t, p))), 6) for n, (t, p, f) in LOSSES.items()}),
                         ("METRIC", {n: round(float(numbers(f(keras)(t, p))), 6) for n, (t, p, f) in METRICS.items()}),
                         ("RATE", {n: [round(float(f(keras.optimizers.schedules)(i)), 7) for i in (0, 3, 7, 11, 25)]
                                   for n, f in RATES.items()})):
        print("%s = {" % title)
        for name, value in table.items():
            print("    %r: %r," % (name, value))
        print("}")


if __name__ == "__main__":
    sys.exit(main())
