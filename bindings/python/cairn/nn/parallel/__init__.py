"""cairn.nn.parallel: several devices. DataParallel works on one; processes of their own are not there."""
from .data_parallel import DataParallel as DataParallel, data_parallel as data_parallel

__all__ = ["DataParallel", "data_parallel"]
