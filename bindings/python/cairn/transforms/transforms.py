"""torchvision.transforms.transforms' path to the same classes."""
from . import *  # noqa: F401,F403
from . import __all__ as __all__
