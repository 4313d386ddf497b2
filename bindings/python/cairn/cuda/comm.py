"""cairn.cuda.comm: cairn.nn.parallel.comm."""
from ..nn.parallel.comm import *  # noqa: F401,F403
from ..nn.parallel.comm import __all__ as __all__
