"""keras.applications.imagenet_utils."""
from ._common import decode_predictions as decode_predictions, preprocess_input as preprocess_input

__all__ = ["decode_predictions", "preprocess_input"]
