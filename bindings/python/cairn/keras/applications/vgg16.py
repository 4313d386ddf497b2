"""keras.applications.vgg16."""
from __future__ import annotations

from typing import Any

from ._common import decode_predictions as decode_predictions, preprocess_input as _prepared
from ._vgg import VGG16 as VGG16

__all__ = ["VGG16", "decode_predictions", "preprocess_input"]


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """Images of numbers from 0 to 255, blue first, less the mean."""
    return _prepared(x, data_format, "caffe")
