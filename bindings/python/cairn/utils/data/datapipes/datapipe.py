"""The bases of pipes: data sets whose methods are classes of pipes, each under the name it was registered with.

Place in the flow: a pipe is an IterableDataset or a Dataset, so that a DataLoader takes it. Invariant: a name belongs
to one class of each kind."""
from __future__ import annotations

import functools
from typing import Any, Callable, Iterator, TypeVar

from ..dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "IterDataPipe", "MapDataPipe", "functional_datapipe", "argument_validation",
           "runtime_validation"]

_T = TypeVar("_T")
_Any = TypeVar("_Any", bound=Callable[..., Any])


def _method(pipe: Any, functions: dict[str, Callable[..., Any]], name: str) -> Any:
    if name in functions:
        made = functools.partial(functions[name], pipe)
        functools.update_wrapper(made, functions[name], assigned=("__doc__",))
        return made
    raise AttributeError("'%s' object has no attribute '%s'" % (type(pipe).__name__, name))


def _registered(functions: dict[str, Callable[..., Any]], name: str, made: Callable[..., Any]) -> None:
    if name in functions:
        raise Exception("Unable to add DataPipe function name %s as it is already taken" % name)
    functions[name] = made


class IterDataPipe(IterableDataset[_T]):
    """A stream of samples: derive from it, and write __iter__."""

    functions: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return _method(self, IterDataPipe.functions, name)

    def __iter__(self) -> Iterator[_T]:
        raise NotImplementedError("%s needs a method __iter__" % type(self).__name__)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """pipe.function_name(...) is function(pipe, ...)."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any,
                                      enable_df_api_tracing: bool = False) -> None:
        """pipe.function_name(...) is cls_to_register(pipe, ...)."""
        if enable_df_api_tracing:
            raise NotImplementedError("register_datapipe_as_function: enable_df_api_tracing is not supported")
        _registered(cls.functions, function_name, cls_to_register)

    def __repr__(self) -> str:
        return type(self).__qualname__

    def reset(self) -> None:
        """Before an iteration begins; pipes that remember something do it anew."""


class DFIterDataPipe(IterDataPipe[_T]):
    """A stream of tables."""


class MapDataPipe(Dataset[_T]):
    """Samples by key: derive from it, and write __getitem__ and __len__."""

    functions: dict[str, Callable[..., Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return _method(self, MapDataPipe.functions, name)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """pipe.function_name(...) is function(pipe, ...)."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """pipe.function_name(...) is cls_to_register(pipe, ...)."""
        _registered(cls.functions, function_name, cls_to_register)

    def __repr__(self) -> str:
        return type(self).__qualname__


class functional_datapipe:
    """A decorator of classes of pipes: pipe.name(...) makes one around pipe."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: enable_df_api_tracing is not supported")
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if isinstance(cls, type) and issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        elif isinstance(cls, type) and issubclass(cls, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls)
        else:
            raise TypeError("functional_datapipe decorates classes of pipes, not %r" % (cls,))
        return cls


def argument_validation(f: _Any) -> _Any:
    """The function: annotations of pipes are not looked at while programs run."""
    return f


runtime_validation = argument_validation
