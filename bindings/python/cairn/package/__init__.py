"""torch.package: modules with their code in a file. cairn's files hold no code, so its names raise when they are
used."""
from __future__ import annotations

from typing import Any

from .. import _absent

__all__ = ["Directory", "EmptyMatchError", "GlobGroup", "Importer", "ObjMismatchError", "ObjNotFoundError",
           "OrderedImporter", "PackageExporter", "PackageImporter", "PackagingError", "is_from_package",
           "sys_importer"]

_WHY = "files of cairn hold no code: save a state_dict(), or a graph by cairn.export"


class PackagingError(Exception):
    """A package cannot be made."""


class EmptyMatchError(Exception):
    """A pattern matches no module."""


class ObjNotFoundError(Exception):
    """An importer does not find an object."""


class ObjMismatchError(Exception):
    """An importer finds another object."""


def is_from_package(obj: Any) -> bool:  # unused: obj (nothing comes out of one)
    """Does it come out of a package? No."""
    return False


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError("module 'cairn.package' has no attribute %r" % (name,))
    return (_absent.function if name == "sys_importer" else _absent.kind)(__name__, name, _WHY)
