"""cairn.utils.benchmark: how long a statement takes, measured with care: Timer, Measurement, Compare."""
from .compare import Compare as Compare
from .timer import Measurement as Measurement, TaskSpec as TaskSpec, Timer as Timer, timer as timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]
