"""keras.preprocessing: sequence.pad_sequences and timeseries_dataset_from_array, where older programs look for them."""
from .utils import pad_sequences as pad_sequences, timeseries_dataset_from_array as timeseries_dataset_from_array


class sequence:
    pad_sequences = staticmethod(pad_sequences)
