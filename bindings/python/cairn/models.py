"""cairn.zoo under the name that torchvision has for it."""
import sys
from typing import TYPE_CHECKING, Any

from . import zoo

if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...

sys.modules[__name__] = zoo
