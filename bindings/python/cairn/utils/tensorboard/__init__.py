"""Logs that TensorBoard reads: SummaryWriter with torch's methods."""
from .writer import SummaryWriter

__all__ = ["SummaryWriter"]
