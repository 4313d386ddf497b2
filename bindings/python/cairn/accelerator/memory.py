"""cairn.accelerator.memory: how much of the accelerator's memory is in use: cairn.cuda's functions."""
from ..cuda import (empty_cache as empty_cache, empty_host_cache as empty_host_cache, max_memory_allocated as
                    max_memory_allocated, max_memory_reserved as max_memory_reserved, mem_get_info as get_memory_info,
                    memory_allocated as memory_allocated, memory_reserved as memory_reserved,
                    memory_stats as memory_stats, reset_accumulated_memory_stats as reset_accumulated_memory_stats,
                    reset_peak_memory_stats as reset_peak_memory_stats)

__all__ = ["empty_cache", "empty_host_cache", "get_memory_info", "max_memory_allocated", "max_memory_reserved",
           "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
           "reset_peak_memory_stats"]
