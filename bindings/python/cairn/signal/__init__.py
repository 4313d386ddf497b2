"""torch.signal's names: window functions."""
from . import windows as windows
