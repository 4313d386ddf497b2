"""What registering a hook returns, under the name that torch has it."""
from __future__ import annotations

from ..nn._hooks import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle"]
