"""Parts of torch.utils.data that programs take apart: how samples become a batch, and who works."""
from . import collate as collate, worker as worker

__all__ = ["collate", "worker"]
