"""torch.nn.quantized: layers of quantised numbers, which cairn has in ONNX files alone. Programs may import the names.

Invariant: a layer raises when it is made."""
from __future__ import annotations

from ... import _absent

_WHY = "cairn quantises no modules (torch.ao)"
_NAMES = ("BatchNorm2d BatchNorm3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d DeQuantize "
          "Dropout ELU Embedding EmbeddingBag FXFloatFunctional FloatFunctional GroupNorm Hardswish InstanceNorm1d "
          "InstanceNorm2d InstanceNorm3d LSTM LayerNorm LeakyReLU Linear MaxPool2d MultiheadAttention PReLU "
          "QFunctional Quantize ReLU6 Sigmoid Softmax")
__all__ = ["dynamic", "functional", "modules"]
_made = _absent.spaces(__name__, {"dynamic": "GRU GRUCell LSTM LSTMCell Linear RNNCell", "functional": "linear conv2d",
                                  "modules": _NAMES}, _WHY)
dynamic, functional, modules = _made["dynamic"], _made["functional"], _made["modules"]


def __getattr__(name: str) -> object:
    return getattr(modules, name)
