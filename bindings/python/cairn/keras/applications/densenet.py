"""keras.applications.densenet."""
from __future__ import annotations

from typing import Any

from ._common import decode_predictions as decode_predictions, preprocess_input as _prepared
from ._densenet import DenseNet121 as DenseNet121, DenseNet169 as DenseNet169, DenseNet201 as DenseNet201

__all__ = ["DenseNet121", "DenseNet169", "DenseNet201", "decode_predictions", "preprocess_input"]


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """Images of numbers from 0 to 255, by mean and deviation."""
    return _prepared(x, data_format, "torch")
