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
