"""Data sets, samplers and the loader that puts batches together, with torch.utils.data's names.

Workers are threads of this process: nothing is pickled or copied, and they end with the loop. Data sets of the library
(cairn.datasets, TensorDataset, and parts and sums of them) are run by the library's own threads, without Python. With a
multiprocessing_context workers are processes. What a loader yields depends on its seed, never on number and kind of
its workers.
"""
from ._collate import default_collate, default_convert
from ._workers import WorkerInfo, get_worker_info
from .dataloader import DataLoader
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,
                      random_split)
from .distributed import DistributedSampler
from .sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
                      WeightedRandomSampler)

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
           "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
           "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo", "default_collate",
           "default_convert", "get_worker_info", "random_split"]

_PIPES = frozenset(("DFIterDataPipe", "IterDataPipe", "MapDataPipe", "argument_validation", "functional_datapipe",
                    "runtime_validation"))  # names of datapipes/datapipe.py
_PARTS = frozenset(("datapipes", "graph", "graph_settings"))


def __getattr__(name: str) -> object:
    from importlib import import_module
    if name in _PARTS:
        return import_module("." + name, __name__)
    if name in _PIPES:
        return getattr(import_module(".datapipes.datapipe", __name__), name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
