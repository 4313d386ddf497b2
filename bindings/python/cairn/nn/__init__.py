"""Neural networks: layers, containers, and the class Module that networks derive from."""
from .. import _C
from . import functional as functional
from ._entries import _Entries
from .layer import RNNCellBase as RNNCellBase, _by_name
from .module import Module as Module
from .parameter import Buffer as Buffer, Parameter as Parameter

_C._set_module_classes(Module, Parameter, _Entries, _by_name)

from ._layers import *  # noqa: E402,F401,F403
from .containers import *  # noqa: E402,F401,F403
from .containers import ParameterDict as ParameterDict, ParameterList as ParameterList  # noqa: E402
from .forms import *  # noqa: E402,F401,F403
from .recurrent import *  # noqa: E402,F401,F403
from .recurrent import RNNBase as RNNBase  # noqa: E402
from .attention import *  # noqa: E402,F401,F403
from . import init as init, modules as modules, parameter as parameter, utils as utils  # noqa: E402
from .lazy import *  # noqa: E402,F401,F403
from .parallel import DataParallel as DataParallel  # noqa: E402
from . import common_types as common_types, grad as grad, parallel as parallel  # noqa: E402
