"""Layers of cairn.keras with their options: what they are made of, and what they are called on.

    KERAS_BACKEND=torch python keras_layer_cases.py      prints keras_layer_numbers.py anew; needs Keras

A case is the shapes of the inputs (or the inputs themselves), the layer, and arguments of the call.
"""
import sys
import textwrap

import numpy as np

from keras_cases import digest, numbers, wave

IDS = np.array([[3, 1, 4, 0, 0], [0, 9, 2, 6, 5]])
SEQ = [(2, 6, 3)]
IMG = [(2, 7, 6, 4)]
FIRST = [(2, 4, 7, 6)]
MASK = np.array([[1, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 0]], dtype=bool)


def _cases():
    made = {}

    def case(name, shapes, make, **call):
        made[name] = (shapes, make, call)

    # ---- convolutions ----
    for n, shape in ((1, (2, 9, 4)), (2, (2, 7, 6, 4)), (3, (2, 5, 4, 6, 4))):
        first = (shape[0], shape[-1]) + shape[1:-1]
        for tag, options in (("valid", {}), ("same", {"padding": "same"}),
                             ("same_2", {"padding": "same", "strides": 2}), ("valid_2", {"strides": 2}),
                             ("dilated", {"padding": "same", "dilation_rate": 2}),
                             ("groups", {"groups": 2}), ("bare", {"use_bias": False, "activation": "tanh"})):
            case("conv%dd_%s" % (n, tag), [shape],
                 lambda k, n=n, o=options: getattr(k.layers, "Conv%dD" % n)(6, 3 if n < 3 else 2, **o))
        case("conv%dd_first" % n, [first], lambda k, n=n: getattr(k.layers, "Conv%dD" % n)(
            3, 2, padding="same", data_format="channels_first", activation="relu"))
        for tag, options in (("valid", {}), ("same", {"padding": "same"}),
                             ("same_2", {"padding": "same", "strides": 2}), ("valid_2", {"strides": 2}),
                             ("valid_3", {"strides": 3, "use_bias": False}),
                             ("out", {"strides": 2, "output_padding": 1}),
                             ("same_out", {"strides": 2, "padding": "same", "output_padding": 1}),
                             ("dilated", {"dilation_rate": 2})):
            case("conv%dd_transpose_%s" % (n, tag), [shape], lambda k, n=n, o=options: getattr(
                k.layers, "Conv%dDTranspose" % n)(2, 3, **o))
        case("conv%dd_transpose_first" % n, [first], lambda k, n=n: getattr(k.layers, "Conv%dDTranspose" % n)(
            2, 3, strides=2, padding="same", data_format="channels_first"))
        for kind in ("MaxPooling", "AveragePooling"):
            case("%s%dd" % (kind, n), [shape], lambda k, n=n, kind=kind: getattr(k.layers, "%s%dD" % (kind, n))(2))
            case("%s%dd_first" % (kind, n), [first], lambda k, n=n, kind=kind: getattr(k.layers, "%s%dD" % (kind, n))(
                2, strides=1, data_format="channels_first"))
            case("Global%s%dd" % (kind, n), [shape],
                 lambda k, n=n, kind=kind: getattr(k.layers, "Global%s%dD" % (kind, n))(keepdims=True))
            case("Global%s%dd_first" % (kind, n), [first], lambda k, n=n, kind=kind: getattr(
                k.layers, "Global%s%dD" % (kind, n))(data_format="channels_first"))
            case("Adaptive%s%dd" % (kind, n), [shape],
                 lambda k, n=n, kind=kind: getattr(k.layers, "Adaptive%s%dD" % (kind, n))(3))
        case("MaxPooling%dd_same" % n, [shape], lambda k, n=n: getattr(k.layers, "MaxPooling%dD" % n)(
            3, strides=2, padding="same"))
        case("zero_padding%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "ZeroPadding%dD" % n)(2))
        case("cropping%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "Cropping%dD" % n)(
            (1, 2) if n == 1 else ((1, 0), (0, 2), (1, 1))[:n]))
        case("up_sampling%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "UpSampling%dD" % n)(2))
        if n < 3:
            case("depthwise%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "DepthwiseConv%dD" % n)(
                3, strides=2, padding="same", depth_multiplier=2, activation="relu"))
            case("depthwise%dd_first" % n, [first], lambda k, n=n: getattr(k.layers, "DepthwiseConv%dD" % n)(
                3, data_format="channels_first", use_bias=False))
            case("separable%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "SeparableConv%dD" % n)(
                5, 3, padding="same", depth_multiplier=2, activation="relu"))
            case("separable%dd_first" % n, [first], lambda k, n=n: getattr(k.layers, "SeparableConv%dD" % n)(
                5, 3, strides=2, data_format="channels_first"))
    case("conv1d_causal", [(2, 9, 4)], lambda k: k.layers.Conv1D(3, 3, padding="causal", dilation_rate=2))
    case("zero_padding2d_first", FIRST, lambda k: k.layers.ZeroPadding2D(((1, 0), (2, 3)), "channels_first"))
    case("zero_padding1d_pair", [(2, 9, 4)], lambda k: k.layers.ZeroPadding1D((1, 3)))
    case("cropping2d_first", FIRST, lambda k: k.layers.Cropping2D((1, 2), "channels_first"))
    case("up_sampling2d_first", FIRST, lambda k: k.layers.UpSampling2D((2, 1), "channels_first", "bilinear"))
    case("flatten_first", FIRST, lambda k: k.layers.Flatten("channels_first"))
    case("reshape", [(2, 3, 4)], lambda k: k.layers.Reshape((-1, 2)))
    case("repeat_vector", [(2, 3)], lambda k: k.layers.RepeatVector(4))

    # ---- recurrent ----
    for kind in ("SimpleRNN", "LSTM", "GRU"):
        make = (lambda k, kind=kind, **o: getattr(k.layers, kind)(4, **o))
        for tag, options in (("plain", {}), ("sequences", {"return_sequences": True}),
                             ("back", {"return_sequences": True, "go_backwards": True}),
                             ("bare", {"use_bias": False, "activation": "relu"}), ("unrolled", {"unroll": True}),
                             ("state", {"return_state": True})):
            case("%s_%s" % (kind, tag), SEQ, lambda k, make=make, o=options: make(k, **o))
        case(kind + "_masked", SEQ, lambda k, make=make: make(k, return_sequences=True), mask=MASK)
        case(kind + "_masked_last", SEQ, lambda k, make=make: make(k, go_backwards=True), mask=MASK)
        case(kind + "_masked_state", SEQ, lambda k, make=make: make(k, return_state=True), mask=MASK)
        case(kind + "_masked_zero", SEQ, lambda k, make=make: make(
            k, return_sequences=True, zero_output_for_mask=True), mask=MASK)
        case(kind + "_initial", SEQ, lambda k, make=make: make(k, return_sequences=True),
             initial_state=[wave((2, 4), 0.9) for _ in range(2 if kind == "LSTM" else 1)])
        case(kind + "_cell", SEQ, lambda k, kind=kind: k.layers.RNN(getattr(k.layers, kind + "Cell")(4)))
        case(kind + "_stacked", SEQ, lambda k, kind=kind: k.layers.RNN(
            [getattr(k.layers, kind + "Cell")(n) for n in (4, 3)], return_sequences=True))
    case("gru_before", SEQ, lambda k: k.layers.GRU(4, reset_after=False, recurrent_activation="hard_sigmoid"))
    for mode in ("concat", "sum", "mul", "ave", None):
        case("bidirectional_%s" % mode, SEQ, lambda k, m=mode: k.layers.Bidirectional(
            k.layers.GRU(4, return_sequences=True), merge_mode=m))
    case("bidirectional_state", SEQ, lambda k: k.layers.Bidirectional(k.layers.LSTM(3, return_state=True)))
    case("bidirectional_masked", SEQ, lambda k: k.layers.Bidirectional(k.layers.LSTM(3, return_sequences=True)),
         mask=MASK)
    case("bidirectional_two", SEQ, lambda k: k.layers.Bidirectional(
        k.layers.LSTM(3), backward_layer=k.layers.GRU(3, go_backwards=True)))
    case("time_distributed", [(2, 3, 7, 6, 2)], lambda k: k.layers.TimeDistributed(k.layers.Conv2D(3, 3)))
    for n, shape in ((1, (2, 4, 6, 2)), (2, (2, 4, 5, 6, 2)), (3, (2, 3, 4, 3, 5, 2))):
        case("conv_lstm%dd" % n, [shape], lambda k, n=n: getattr(k.layers, "ConvLSTM%dD" % n)(
            3, 2, padding="same", return_sequences=True))
        case("conv_lstm%dd_valid" % n, [shape], lambda k, n=n: getattr(k.layers, "ConvLSTM%dD" % n)(
            2, 2, activation="relu", recurrent_activation="hard_sigmoid", use_bias=False, return_state=True))
    case("conv_lstm2d_first", [(2, 4, 2, 5, 6)], lambda k: k.layers.ConvLSTM2D(
        3, (3, 2), strides=2, padding="same", data_format="channels_first", go_backwards=True))

    # ---- norms ----
    for training in (False, True):
        tag = "_training" if training else ""
        case("batch_norm" + tag, IMG, lambda k: k.layers.BatchNormalization(epsilon=0.01, momentum=0.8),
             training=training)
        case("batch_norm_first" + tag, FIRST, lambda k: k.layers.BatchNormalization(axis=1, scale=False),
             training=training)
        case("batch_norm_2d" + tag, [(5, 4)], lambda k: k.layers.BatchNormalization(center=False), training=training)
    case("batch_norm_masked", SEQ, lambda k: k.layers.BatchNormalization(), training=True, mask=MASK)
    case("layer_norm_axes", [(2, 4, 5, 6)], lambda k: k.layers.LayerNormalization(axis=[1, 3], epsilon=0.1))
    case("layer_norm_bare", [(2, 4, 6)], lambda k: k.layers.LayerNormalization(scale=False))
    case("group_norm_first", FIRST, lambda k: k.layers.GroupNormalization(2, axis=1))
    case("group_norm_each", IMG, lambda k: k.layers.GroupNormalization(-1, scale=False))
    case("rms_norm", [(2, 4, 6)], lambda k: k.layers.RMSNormalization(epsilon=0.01))
    case("unit_norm", [(2, 4, 6)], lambda k: k.layers.UnitNormalization(axis=[1, 2]))
    case("spectral", [(3, 5)], lambda k: k.layers.SpectralNormalization(k.layers.Dense(4), power_iterations=2),
         training=True)

    # ---- attention ----
    pair, three = [(2, 4, 6), (2, 5, 6)], [(2, 4, 6), (2, 5, 6), (2, 5, 6)]
    mask = np.arange(40).reshape(2, 4, 5) % 3 > 0
    heads = (lambda k, **o: k.layers.MultiHeadAttention(2, 3, **o))
    case("heads", pair, lambda k: heads(k, value_dim=4, output_shape=5))
    case("heads_three", three, lambda k: heads(k, use_bias=False))
    case("heads_mask", pair, heads, attention_mask=mask)
    case("heads_causal", [(2, 5, 6), (2, 5, 6)], heads, use_causal_mask=True)
    case("heads_scores", pair, heads, return_attention_scores=True, attention_mask=mask)
    case("heads_window", [(2, 5, 6), (2, 5, 6)], lambda k: heads(k, sliding_window=2))
    case("heads_gate", pair, lambda k: heads(k, use_gate=True))
    case("heads_axes", [(2, 4, 3, 6), (2, 4, 3, 6)], lambda k: heads(k, attention_axes=(2,)))
    case("heads_all", [(2, 4, 3, 6), (2, 4, 3, 6)], lambda k: heads(k))
    case("heads_out", pair, lambda k: heads(k, output_shape=(2, 3)))
    case("group_query", pair, lambda k: k.layers.GroupQueryAttention(3, 4, 2), attention_mask=mask)
    case("group_query_gate", pair, lambda k: k.layers.GroupQueryAttention(3, 4, 2, use_gate=True, use_bias=False))
    for tag, options in (("dot", {}), ("scale", {"use_scale": True}), ("concat", {"score_mode": "concat"})):
        case("attention_" + tag, [pair], lambda k, o=options: k.layers.Attention(**o))
    case("attention_mask", [three], lambda k: k.layers.Attention(),
         mask=[MASK[:, :4], MASK[:, 1:], MASK[:, 1:]], use_causal_mask=True)
    case("attention_scores", [pair], lambda k: k.layers.Attention(), return_attention_scores=True)
    case("additive", [pair], lambda k: k.layers.AdditiveAttention(), mask=[MASK[:, :4], MASK[:, 1:]])

    # ---- the others ----
    case("dense_relu6", [(2, 5)], lambda k: k.layers.Dense(3, "relu6", kernel_constraint="non_neg"))
    case("einsum_heads", [(2, 4, 6)], lambda k: k.layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de",
                                                                     activation="relu"))
    case("einsum_dots", [(2, 4, 5, 6)], lambda k: k.layers.EinsumDense("...x,xy->...y", 3, bias_axes="y"))
    case("reversible", [IDS], lambda k: k.layers.ReversibleEmbedding(10, 4))
    case("reversible_back", [(2, 5, 4)], lambda k: k.layers.ReversibleEmbedding(10, 4, logit_soft_cap=2.0),
         reverse=True)
    case("prelu_shared", IMG, lambda k: k.layers.PReLU(shared_axes=[1, 2]))
    case("relu_all", [(2, 6)], lambda k: k.layers.ReLU(0.8, 0.1, 0.2))
    case("softmax_axes", [(2, 3, 4)], lambda k: k.layers.Softmax(axis=(1, 2)))
    case("softmax_masked", [(2, 6)], lambda k: k.layers.Softmax(), mask=MASK)
    case("elu", [(2, 6)], lambda k: k.layers.ELU(0.5))
    case("leaky", [(2, 6)], lambda k: k.layers.LeakyReLU(0.1))
    for kind in ("Add", "Multiply", "Average", "Maximum", "Minimum"):
        case(kind.lower(), [[(2, 3, 4)] * 3], lambda k, kind=kind: getattr(k.layers, kind)())
    case("subtract", [[(2, 3, 4)] * 2], lambda k: k.layers.Subtract())
    case("add_wide", [[(2, 3, 4), (2, 4)]], lambda k: k.layers.Add())
    case("concatenate_1", [[(2, 3, 4), (2, 5, 4)]], lambda k: k.layers.Concatenate(axis=1))
    case("dot_one", [[(2, 4), (2, 4)]], lambda k: k.layers.Dot(1, normalize=True))
    case("dot_axes", [[(2, 4, 3), (2, 5, 4)]], lambda k: k.layers.Dot((1, 2)))
    case("normalization", [(4, 3)], lambda k: k.layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 9.0]))
    case("normalization_invert", [(4, 3)], lambda k: k.layers.Normalization(axis=None, mean=2.0, variance=4.0,
                                                                            invert=True))
    case("discretization", [(4, 3)], lambda k: k.layers.Discretization([-0.5, 0.0, 0.4]))
    case("discretization_count", [(4, 3)], lambda k: k.layers.Discretization([-0.5, 0.0, 0.4], output_mode="count"))
    for mode in ("one_hot", "multi_hot", "count"):
        case("category_" + mode, [IDS], lambda k, m=mode: k.layers.CategoryEncoding(10, m))
    case("stft", [(2, 600, 2)], lambda k: k.layers.STFTSpectrogram("magnitude", 64, 32, 128, scaling="spectrum"))
    case("stft_log", [(2, 600, 1)], lambda k: k.layers.STFTSpectrogram(frame_length=64, padding="same"))
    case("mel", [(2, 600)], lambda k: k.layers.MelSpectrogram(fft_length=128, sequence_stride=64, num_mel_bins=8,
                                                              sampling_rate=800))
    return made


CASES = _cases()


def _inputs(shapes):
    def one(s, i):
        return s if isinstance(s, np.ndarray) else wave(s, 0.37 + 0.1 * i)
    return [[one(s, i) for i, s in enumerate(given)] if isinstance(given, list) else one(given, at)
            for at, given in enumerate(shapes)]


def made(k, name, convert=lambda v: v):
    """The layer of a case with weights by formula, and its call."""
    shapes, make, call = CASES[name]
    inputs = [[convert(v) for v in x] if isinstance(x, list) else convert(x) for x in _inputs(shapes)]
    more = {key: convert(v) if isinstance(v, np.ndarray) else [convert(m) for m in v] if isinstance(v, list) else v
            for key, v in call.items()}
    layer = make(k)
    layer(*inputs, **more)
    names = [w.name for w in layer.weights]
    layer.set_weights([np.abs(wave(w.shape, 0.61)) if n == "moving_variance" else (wave(w.shape, 0.61) * 0.8).astype(
        w.dtype) for w, n in zip(layer.get_weights(), names)])
    return layer, lambda: layer(*inputs, **more)


def outputs(value):
    """The tensors of a result, one after the other."""
    if isinstance(value, (list, tuple)):
        return [o for v in value for o in outputs(v)]
    return [numbers(value)]


def record(k, name, convert=lambda v: v):
    """[shape, mean, weighted sum] of each output; names and shapes of the weights, which a call may change."""
    layer, call = made(k, name, convert)
    outs = [digest(o) for o in outputs(call())]
    return [outs, [[w.name, list(w.shape)] for w in layer.weights]]


PICTURES = (wave((2, 6, 7, 3), 0.21) * 127 + 128).astype("float32")


def image_cases(k, tensor):
    """Layers that change images, each with what it would have drawn."""
    def t(values, *shape):
        return tensor(np.array(values, dtype="float32").reshape(shape or (-1,)))

    def turned(**options):
        layer, angle, zero = k.layers.RandomRotation(0.5, **options), t([30.0, -75.0]), t([0.0, 0.0])
        if not hasattr(layer, "_compute_affine_matrix"):
            return layer, {"angle": angle}
        return layer, {"rotation_matrix": layer._compute_affine_matrix(0.5, 0.5, angle, zero, zero, zero + 1, zero,
                                                                       zero, 6, 7)}
    two, wide = np.array([0.3, 0.8]), (2, 1, 1, 1)
    return {
        "rotation": turned(), "rotation_constant": turned(fill_mode="constant", fill_value=9.0),
        "zoom": (k.layers.RandomZoom(0.5), {"height_zoom": t(two + 0.5, 2, 1), "width_zoom": t(two + 0.4, 2, 1)}),
        "translation": (k.layers.RandomTranslation(0.5, 0.5, fill_mode="wrap"),
                        {"translations": t([1.5, -2.0, 0.3, 2.2], 2, 2)}),
        "shear": (k.layers.RandomShear(0.5, 0.5), {"shear_factor": t([0.2, -0.1, 0.0, 0.4], 2, 2)}),
        "brightness": (k.layers.RandomBrightness(0.5), {"rgb_delta": t([40.0, -60.0], *wide)}),
        "contrast": (k.layers.RandomContrast(0.5), {"contrast_factor": t(two + 0.5, *wide)}),
        "degeneration": (k.layers.RandomColorDegeneration(0.5), {"factor": t(two, *wide)}),
        "saturation": (k.layers.RandomSaturation(0.5), {"factor": t(two * 2)}),
        "hue": (k.layers.RandomHue(0.5), {"factor": t([0.2, -0.3])}),
        "sharpness": (k.layers.RandomSharpness(0.5), {"factor": t(two)}),
        "posterization": (k.layers.RandomPosterization(4), {"shift_factor": tensor(np.array([3, 6], dtype="uint8"))}),
        "solarization": (k.layers.Solarization(), {"additions": t(two * 50, *wide), "thresholds": t(two * 200, *wide)}),
        "contrast_auto": (k.layers.AutoContrast(), None), "equal": (k.layers.Equalization(), None),
        "resizing": (k.layers.Resizing(4, 5, "bicubic"), None),
        "resizing_crop": (k.layers.Resizing(4, 4, crop_to_aspect_ratio=True), None),
        "resizing_pad": (k.layers.Resizing(4, 4, pad_to_aspect_ratio=True, fill_value=3.0), None),
        "center_crop": (k.layers.CenterCrop(3, 4), None), "center_grown": (k.layers.CenterCrop(9, 9), None)}


def main():
    import keras
    import torch
    print('"""What Keras 3.15 computes for keras_layer_cases.py, as that file prints it: [shape, mean, a weighted sum] '
          'of each\noutput, then names and shapes of weights; and of images changed."""')
    print("NUMBERS = {")
    for name in CASES:
        line = "%r: %r," % (name, record(keras, name, lambda v: torch.as_tensor(v)))
        print(textwrap.fill(line, 118, initial_indent="    ", subsequent_indent="        "))
    print("}\nIMAGES = {")
    for name, (layer, drawn) in image_cases(keras, torch.as_tensor).items():
        print("    %r: %r," % (name, digest(numbers(layer.transform_images(torch.as_tensor(PICTURES.copy()), drawn)))))
    print("}")


if __name__ == "__main__":
    sys.exit(main())
