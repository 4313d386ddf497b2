"""Dictionaries whose keys are objects by identity, held weakly: torch.utils.weak."""
from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any, Iterator

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to those of the same object alone."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __call__(self) -> Any:
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, WeakIdRef) else None
        return self is other or (mine is not None and mine is theirs)


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """{object: value}: an entry goes with its object."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: dict_[Any, Any] = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _gone(self, ref: Any) -> None:
        self.data.pop(ref, None)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._gone)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for ref in list(self.data):
            key = ref()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another with the same entries."""
        return WeakIdKeyDictionary(self, self.ref_type)


dict_ = dict
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        return self.ref()
