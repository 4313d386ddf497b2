"""keras.applications.efficientnet: nets that take numbers from 0 to 255 as they are."""
from __future__ import annotations

from typing import Any

from ._common import decode_predictions as decode_predictions
from ._efficientnet import EfficientNetB0 as EfficientNetB0, EfficientNetB1 as EfficientNetB1, \
    EfficientNetB2 as EfficientNetB2, EfficientNetB3 as EfficientNetB3, EfficientNetB4 as EfficientNetB4, \
    EfficientNetB5 as EfficientNetB5, EfficientNetB6 as EfficientNetB6, EfficientNetB7 as EfficientNetB7

__all__ = ["EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5",
           "EfficientNetB6", "EfficientNetB7", "decode_predictions", "preprocess_input"]


def preprocess_input(x: Any, data_format: str | None = None) -> Any:
    """x itself, in either layout: the net has a layer for it."""
    if data_format not in (None, "channels_last", "channels_first"):
        raise ValueError("data_format is channels_last or channels_first, not %r" % (data_format,))
    return x
