"""torch.nn.modules' names: the classes of cairn.nn once more, under the files that torch has them in."""
from __future__ import annotations

import sys
import types
from typing import Any

from ... import nn as _nn
from .. import _hooks, _state, layer as _layer, lazy as _lazy, module as _module
from . import utils as utils

_FAMILIES: dict[str, Any] = {
    "activation": ("CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish "
                   "MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus "
                   "Softshrink Softsign Tanh Tanhshrink Threshold"),
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": ("BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm "
                  "_BatchNorm _NormBase"),
    "channelshuffle": "ChannelShuffle",
    "container": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "conv": ("Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d "
             "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d _ConvNd _ConvTransposeNd"),
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout _DropoutNd",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": ("InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
                     "LazyInstanceNorm3d _InstanceNorm"),
    "linear": "Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear",
    "loss": ("BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss "
             "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss "
             "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss "
             "TripletMarginLoss TripletMarginWithDistanceLoss _Loss _WeightedLoss"),
    "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "padding": " ".join(kind + "Pad%dd" % n for n in (1, 2, 3)
                        for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")),
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": (" ".join(kind + "%dd" % n for n in (1, 2, 3) for kind in
                         ("AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "LPPool", "MaxPool", "MaxUnpool"))
                + " FractionalMaxPool2d FractionalMaxPool3d _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd _AvgPoolNd "
                  "_LPPoolNd _MaxPoolNd _MaxUnpoolNd"),
    "rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    "sparse": "Embedding EmbeddingBag",
    "transformer": ("Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
                    "TransformerEncoderLayer"),
    "upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}


def _settle(home: types.ModuleType, classes: list[type]) -> None:
    """Gives classes torch's place as their own where inspect finds their text there: a module has one file, that of
    most of them. The others are at home where they are written."""
    own = {cls: next((f for f in vars(cls).values() if isinstance(f, types.FunctionType)), None) for cls in classes}
    spaces = {cls: f.__globals__ for cls, f in own.items() if f is not None and f.__module__.startswith("cairn.nn.")}
    files = [space["__file__"] for space in spaces.values()]
    if not files:
        return
    home.__file__ = max(files, key=files.count)
    for cls, space in spaces.items():
        if space["__file__"] == home.__file__:
            cls.__module__ = home.__name__
        elif "._" not in space["__name__"]:
            cls.__module__ = space["__name__"]


def _space(name: str, members: dict[str, Any]) -> None:
    made = types.ModuleType("cairn.nn.modules." + name, "Classes of cairn.nn.")
    made.__dict__.update(members)
    sys.modules[made.__name__] = made
    _settle(made, [m for m in members.values() if isinstance(m, type) and m.__module__.endswith(".nn")])
    globals()[name] = made
    globals().update({k: v for k, v in members.items() if isinstance(v, type)})


for _name, _members in _FAMILIES.items():
    _space(_name, {m: getattr(_nn, m, None) or getattr(_lazy, m, None) or getattr(_layer, m)
                   for m in _members.split()})
_space("module", {"_EXTRA_STATE_KEY_SUFFIX": "_extra_state",
                  "Module": _module.Module, "_IncompatibleKeys": _state._IncompatibleKeys,
                  **{k: v for k, v in vars(_hooks).items() if k.startswith("register_module_")}})
