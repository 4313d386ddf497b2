"""keras.applications.resnet50."""
from __future__ import annotations

from typing import Any

from ._common import decode_predictions as decode_predictions, preprocess_input as _prepared
from ._resnet import ResNet50 as ResNet50

__all__ = ["ResNet50", "decode_predictions", "preprocess_input"]


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """Images of numbers from 0 to 255, blue first, less the mean."""
    return _prepared(x, data_format, "caffe")
