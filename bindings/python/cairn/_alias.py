"""The package in torch's place: after as_torch(), `import torch.nn` gives cairn.nn itself, and imports of torchvision's
parts those of cairn, in programs that are not to be touched.

Place in the flow: nothing here runs until a program asks for it, by cairn.as_torch() or `python -m cairn.as_torch`.
Packages ask which release of torch they have before they use it, so torch.__version__, and what importlib.metadata
says, is then the one that cairn follows, with cairn's own behind a plus; and its name is the one that it was imported
under. Classes and constants say that they are torch's, because packages look at type(x).__module__.
Invariant: a module of cairn stays one object, whatever names it is imported under; modules inside keep their own."""
from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Sequence

from . import _C
from ._types import package_names

__all__ = ["as_torch"]

_OWN = __name__.partition(".")[0]
_RELEASES = {"torch": "2.15.0", "torchvision": "0.29.2"}  # whose names and meanings cairn follows
_VISION = ("datasets", "io", "models", "ops", "transforms", "utils")  # torchvision's parts, each cairn's of that name


_NOT_TORCH = frozenset(  # parts of the package that are torchvision's, or its own
    "callbacks datasets io keras lists metrics model models ops stablehlo strings tokenizers transforms zoo".split())


class _Loader:
    """Gives a module of the package for its name under the alias."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            module = import_module(self.name)
        except ModuleNotFoundError as error:
            if error.name != self.name:
                raise
            home, _, name = self.name.rpartition(".")
            found = getattr(import_module(home), name, None)  # a module that stands in another one's place
            if isinstance(found, ModuleType):
                module = found
            else:
                raise ModuleNotFoundError("No module named %r: cairn, which stands for it here, has none"
                                          % spec.name, name=spec.name) from None
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # importing has put the alias's there


class _Finder:  # unused: target (the protocol of finders)
    """Stands before Python's own finders of modules."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
                  ) -> ModuleSpec | None:  # unused: target (importlib gives it)
        first, _, rest = fullname.partition(".")
        if first == _OWN and rest:
            return _naming(PathFinder.find_spec(fullname, path))
        if not rest or first not in _standing or sys.modules.get(first) is not _standing[first]:
            return None
        return ModuleSpec(fullname, _Loader(_OWN + "." + rest))  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> list[Any]:
        """What importlib.metadata is told of torch and torchvision: their versions."""
        from ._alias_metadata import distribution
        name = getattr(context, "name", None)
        wanted = [name] if name is not None else list(_standing)
        return [distribution(n, _version(n)) for n in wanted if n in _standing]


def _version(name: str) -> str:
    from .version import __version__
    return "%s+cairn%s" % (_RELEASES[name], __version__)


def _naming(spec: ModuleSpec | None) -> ModuleSpec | None:
    """A part of the package that is loaded later: its classes get torch's name, too."""
    if spec is None or spec.loader is None or not hasattr(spec.loader, "__dict__"):
        return spec
    run = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        _name_classes(module)

    setattr(spec.loader, "exec_module", exec_module)
    return spec


def _name_classes(module: ModuleType) -> None:
    """Classes of a public part of the package say that they are torch's, where torch has such a part."""
    if "._" in module.__name__ or module.__name__.partition(".")[2].partition(".")[0] in _NOT_TORCH:
        return
    own = _OWN + module.__name__[len("torch"):] if module.__name__.startswith("torch") else module.__name__
    for name, thing in list(vars(module).items()):
        home = thing.__module__ if isinstance(thing, type) else ""
        if home != _OWN and not str(home).startswith(_OWN + "."):
            continue
        if "._" in home:  # where it is written is nobody's business: it belongs to who shows it
            if name != thing.__name__ or name.startswith("_"):
                continue
            home = own
        thing.__module__ = "torch" + home[len(_OWN):]
        if home in sys.modules and home != _OWN:
            sys.modules.setdefault(thing.__module__, sys.modules[home])


class _Vision(ModuleType):
    """torchvision, whose parts are imported when they are asked for."""

    def __init__(self) -> None:
        super().__init__("torchvision", "torchvision's parts, as cairn has them.")
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec("torchvision", None, is_package=True)
        self.__version__ = _version("torchvision")

    def __getattr__(self, name: str) -> Any:
        if name in _VISION:
            return import_module(_OWN + "." + name)
        raise AttributeError("module 'torchvision' has no attribute %r" % (name,))


_standing: dict[str, ModuleType] = {}  # what stands under which name


def as_torch() -> None:
    """From here on imports of torch and torchvision give cairn and its parts, in the whole process.

    An error where torch or torchvision is imported already: parts of a program would hold one and parts the other."""
    if not _standing:
        made: dict[str, ModuleType] = {"torch": sys.modules[_OWN], "torchvision": _Vision()}
        for name in made:
            if name in sys.modules and sys.modules[name] is not made[name]:
                raise RuntimeError("%s is imported already: call cairn.as_torch() before the first import of it" % name)
        from .torch_version import TorchVersion
        _C._set_package("torch")
        package_names.append("torch")
        for name, module in list(sys.modules.items()):
            if name == _OWN or name.startswith(_OWN + "."):
                _name_classes(module)
        _standing.update(made)
        setattr(made["torch"], "__name__", "torch")
        setattr(made["torch"], "torch", made["torch"])  # as `import torch` inside of torch leaves it
        setattr(made["torch"], "__version__", TorchVersion(_version("torch")))
        sys.meta_path.insert(0, _Finder)
    sys.modules.update(_standing)
