"""keras.applications.xception."""
from __future__ import annotations

from typing import Any

from ._common import decode_predictions as decode_predictions, preprocess_input as _prepared
from ._xception import Xception as Xception

__all__ = ["Xception", "decode_predictions", "preprocess_input"]


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """Images of numbers from 0 to 255, as -1 to 1."""
    return _prepared(x, data_format, "tf")
