"""PassBase: a pass is called with a GraphModule and says what it made of it."""
from __future__ import annotations

import abc
from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module, and whether it is another than before."""
    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """Derive from it, and write call()."""

    def __call__(self, graph_module: Any) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: Any) -> PassResult | None:
        """What the pass does."""

    def requires(self, graph_module: Any) -> None:  # unused: graph_module (for classes derived from it)
        """Raises where the module is not what the pass takes."""

    def ensures(self, graph_module: Any) -> None:  # unused: graph_module (for classes derived from it)
        """Raises where it is not what the pass promises."""
