"""What registering a hook returns, under the names that torch has it, and hooks of modules' gradients."""
from __future__ import annotations

from typing import Any, Callable

from ..nn._hooks import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a hook that is not to be kept in files; it is kept in none anyway."""
    setattr(f, "__torch_unserializable__", True)
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns of hooks of a tensor, which files do not keep."""
    from .._arguments import warn
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn("backward hook %r on tensor will not be serialized. If this is expected, you can decorate the "
                 "function "
                 "with @cairn.utils.hooks.unserializable_hook to suppress this warning" % (hook,))
