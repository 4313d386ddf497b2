"""cairn.zoo under the name that torchvision has for it, with torchvision's modules beside it: resnet, segmentation,
detection. Those are Python, because programs derive from their classes and put parts of their own into them; the
classification networks are C's."""
import sys
from typing import TYPE_CHECKING, Any

from .. import zoo

if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...

zoo.__path__ = __path__
sys.modules[__name__] = zoo
