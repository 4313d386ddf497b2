"""cairn.transforms.io under the name that torchvision has for it."""
import sys

from .transforms import io
from .transforms.io import *  # noqa: F401,F403

sys.modules[__name__] = io
