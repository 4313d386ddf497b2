"""What the generated layers derive from: torch's families (_ConvNd, _BatchNorm, ...), which programs ask about with
isinstance, and what their members share."""
from __future__ import annotations

import re
from typing import Any, Callable, ClassVar, TypeVar

from .. import _C
from .._modes import no_grad
from .._tensor import Tensor
from .._types import of_package
from . import _hooks
from .module import Module

__all__ = ["RNNCellBase"]

_by_name: dict[str, type[Module]] = {}  # classes of C -> classes here


def _register(space: dict[str, Any], names: list[str]) -> None:
    """Makes classes known under their names in C, and gives them torch's place."""
    for name in names:
        _by_name[name] = space[name]
        space[name].__module__ = "cairn.nn"


_Forward = TypeVar("_Forward", bound=Callable[..., Any])


def _native(forward: _Forward) -> _Forward:
    """Marks a forward that says which arguments the class takes and leaves the rest to C: calls of the module go there
    without it."""
    setattr(forward, "_native", True)
    return forward


def _computed(module: Module, *given: Any) -> Tensor:
    """What the class in C makes of its arguments (several results are a tuple)."""
    made: Tensor = _C.ModuleBase.forward(module, *given)
    return made


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """torch's old words for `reduction`."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


class _Layer(Module):
    """A class of C."""

    _own_forward = False
    forward = _C.ModuleBase.forward

    def _build(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        self._make(name, *args, **kwargs)
        self._settled()
        if any(_hooks._registration.values()):
            _hooks.announce(self)

    def _wrapped(self) -> None:
        self._settled()

    def extra_repr(self) -> str:
        """A setting that was given as a tuple is shown as one, also where C has one number for it."""
        def shown(found: re.Match[str]) -> str:
            value = self.__dict__.get(found[1])
            return "%s=%s" % (found[1], value) if isinstance(value, tuple) else found[0]

        return re.sub(r"(\w+)=-?\d+(?=, |$)", shown, self._describe())

    def _settled(self) -> None:
        """Attributes that torch has beside the arguments."""


class _Parametric(_Layer):
    """A layer whose parameters can be drawn anew."""

    def _build(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        super()._build(name, *args, **kwargs)
        if type(self).reset_parameters is not _home(type(self)).reset_parameters:  # a program's own way to start
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the parameters as at the beginning."""
        fresh = Module.__new__(_Layer)
        name, arguments = self._recipe()
        fresh._make(str(name), **arguments)
        with no_grad():
            for mine, its in ((self._parameters, fresh._parameters), (self._buffers, fresh._buffers)):
                for name, value in mine.items():
                    if value is not None and its.get(name) is not None and its[name].shape == value.shape:
                        value.copy_(its[name])


def _home(cls: type[Any]) -> type[Any]:
    """The class of the library that a class is or derives from."""
    for base in cls.__mro__:
        if of_package(base.__module__):
            return base
    return Module


class _ConvNd(_Parametric):
    """Convolutions."""

    transposed: ClassVar[bool] = False

    def _settled(self) -> None:
        rest = self.__dict__
        rest["transposed"] = type(self).transposed
        rest.setdefault("output_padding", (0,) * len(rest["kernel_size"]))


class _ConvTransposeNd(_ConvNd):
    """Transposed convolutions."""

    transposed = True


class _NormBase(_Parametric):
    """Norms with running statistics."""

    _version = 2

    def reset_running_stats(self) -> None:
        """Forgets what batches so far were like."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        key = prefix + "num_batches_tracked"
        version = (local_metadata or {}).get("version")
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked  # files from before it was counted lack it
            state_dict[key] = count if count is not None else _C.tensor(0)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """Batch norms."""


class _InstanceNorm(_NormBase):
    """Instance norms."""


class _DropoutNd(_Layer):
    """Dropouts."""


class _Pool(_Layer):
    def _settled(self) -> None:
        if self.__dict__.get("stride", 0) is None:
            self.__dict__["stride"] = self.kernel_size


class _MaxPoolNd(_Pool):
    """Maxima of windows."""


class _AvgPoolNd(_Pool):
    """Means of windows."""


class _MaxUnpoolNd(_Pool):
    """Inverses of maxima."""


class _LPPoolNd(_Layer):
    """Power means of windows."""


class _AdaptiveAvgPoolNd(_Layer):
    """Means with a given size of output."""


class _AdaptiveMaxPoolNd(_Layer):
    """Maxima with a given size of output."""


class _FractionalMaxPoolNd(_Layer):
    """Maxima of windows at random places."""


class _Upsample(_Layer):
    """Resizing."""

    def _settled(self) -> None:
        self.__dict__["name"] = type(self).__name__


class _Loss(_Layer):
    """Losses. Programs derive their own from it: with `reduction`, how values of a batch become one."""
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        from ._losses import _reduction
        self._begin()
        older = size_average is not None or reduce is not None  # own losses may have words of their own
        self.reduction = _reduction(size_average, reduce, "mean") if older else reduction


class _WeightedLoss(_Loss):
    """Losses with weights of classes."""

    def __init__(self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class RNNCellBase(_Parametric):
    """One step of a recurrent layer."""
