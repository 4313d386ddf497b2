"""cairn.nn.parallel: several devices. DataParallel works on one; processes of their own are not there."""
from . import comm as comm, distributed as distributed, scatter_gather as scatter_gather
from .data_parallel import DataParallel as DataParallel, data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel
from .scatter_gather import gather as gather, scatter as scatter

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "scatter"]
