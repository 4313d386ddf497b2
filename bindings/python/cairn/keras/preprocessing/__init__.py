"""keras.preprocessing: data sets of files and series, and what older programs find here (image, sequence, text)."""
from .._directory import image_dataset_from_directory as image_dataset_from_directory, \
    text_dataset_from_directory as text_dataset_from_directory, \
    timeseries_dataset_from_array as timeseries_dataset_from_array
from ..utils import pad_sequences as pad_sequences
from . import image as image, sequence as sequence, text as text

__all__ = ["image", "image_dataset_from_directory", "pad_sequences", "sequence", "text", "text_dataset_from_directory",
           "timeseries_dataset_from_array"]
