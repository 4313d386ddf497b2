"""The version of the library, as torch.version has it."""
from ._C import _version

__version__ = _version()
cuda: str | None = None  # the CUDA version a build is tied to: none, the plugin takes what the machine has
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"  # a build does not note it
debug = False
