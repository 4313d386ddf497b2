"""Files: cairn.save and cairn.load, and checkpoints of whole runs.

Trees of tensors, numbers and texts (state dictionaries, states of optimisers) are written and read by the library:
torch's archives, safetensors, NumPy's files. Python objects of other classes go through pickle (_archive.py).
"""
from __future__ import annotations

import contextlib
import io
import os
from collections import OrderedDict
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Callable, Iterator, Sequence

from . import _C
from ._arguments import refused
from ._tensor import Tensor

if TYPE_CHECKING:
    from . import _archive
    from ._C import _Device
    from .nn import Module
    from .optim import Optimizer

    _File = str | os.PathLike[str] | IO[bytes]
    _MapLocation = Callable[[Any, str], Any] | _Device | dict[str, str] | None

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "load_checkpoint",
           "remove_safe_globals", "safe_globals", "save", "save_checkpoint"]

MAP_LOCATION = Any  # what load's map_location may be, in annotations

DEFAULT_PROTOCOL = 2
_BITS = 1 << 63


# ---- what a tree is ----
def _is_plain_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _is_tree(value: Any) -> bool:
    """Is it of those types exactly that the library's own writer takes and that its files give back?"""
    kind = type(value)
    if kind is Tensor:
        return value.is_cpu and not value.requires_grad and value.layout == _C.strided
    if kind is dict or kind is OrderedDict:
        return all((_is_plain_text(key) and "\0" not in key if type(key) is str else
                    type(key) is int and -_BITS <= key < _BITS) and _is_tree(below) for key, below in value.items())
    if kind is list or kind is tuple:
        return all(map(_is_tree, value))
    if kind is str:
        return _is_plain_text(value)
    return value is None or kind is bool or kind is float or kind is int and -_BITS <= value < _BITS


def _is_whole_tree(value: Any) -> bool:
    try:
        return _is_tree(value)
    except RecursionError:  # it holds itself, or is very deep: pickle's to say
        return False


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What lies below a value, with the keys as a program writes them."""
    if isinstance(value, dict):
        yield from (("[%r]" % (key,), below) for key, below in value.items())
    elif isinstance(value, (list, tuple)):
        yield from (("[%d]" % i, below) for i, below in enumerate(value))


def _blame(value: Any, fits: Callable[[Any], bool], at: str = "") -> tuple[str, Any]:
    """The keys to the innermost thing that does not fit, and the thing."""
    for key, below in _parts(value):
        if not fits(below):
            return _blame(below, fits, at + key)
    return at, value


def _can_pickle(value: Any) -> bool:
    from . import _archive

    try:
        _archive.write(value, io.BytesIO(), DEFAULT_PROTOCOL)
        return True
    except Exception:
        return False


# ---- saving ----
def _flat(obj: Any, form: str, one: bool) -> Any:
    """What a file of arrays alone is to hold; TypeError names the key that does not fit."""
    if one:
        if not isinstance(obj, Tensor):
            raise TypeError("save: a .%s file holds one tensor, not a %s" % (form, type(obj).__name__))
        return obj
    if not isinstance(obj, dict):
        state = getattr(obj, "state_dict", None)
        hint = ": save its state_dict()" if callable(state) else ""
        raise TypeError("save: a .%s file holds a dictionary of tensors, not a %s%s" % (form, type(obj).__name__, hint))
    made = {}
    for key, value in obj.items():
        text = form == "safetensors" and key == "__metadata__"
        if not isinstance(key, str) or not (text or isinstance(value, Tensor)):
            raise TypeError("save: a .%s file holds tensors by name, but [%r] is a %s" % (form, key,
                                                                                         type(value).__name__))
        made[key] = value if text else value.detach()
    return made


def _write(obj: Any, f: Any, form: str, one: bool, protocol: int) -> None:
    """form: by the library's name; one: it holds a single tensor."""
    named = isinstance(f, str)
    if form != "torch":
        obj = _flat(obj, form, one)
    elif not _is_whole_tree(obj):
        return _write_object(obj, f, protocol)
    if named:
        _C._save(f, obj, form)
    else:
        _C._save_to(f, obj, form)


def _write_object(obj: Any, f: Any, protocol: int) -> None:
    import pickle

    from . import _archive  # with what it imports, only when it is needed

    try:
        (_archive.write_path if isinstance(f, str) else _archive.write)(obj, f, protocol)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        at = _blame(obj, _can_pickle)[0]
        if not at:
            raise
        raise type(error)("save: obj%s cannot be saved: %s" % (at, error)) from error


def _name_of(pickle_module: Any) -> str:
    """Of torch's pickle_module: Python's own, unless another one is given."""
    return str(getattr(pickle_module, "__name__", pickle_module or "pickle"))


def save(obj: Any, f: _File, pickle_module: Any = None, pickle_protocol: int = DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization: bool = True) -> None:
    """Writes an object to a file (a path, or an object with write()).

    The ending of a path says how: .safetensors and .npz hold a dictionary of tensors by name, .npy one tensor; anything
    else is torch's archive, which torch.load opens as well. A file that is there already is replaced at once when the
    new one is complete. Objects of Python classes are pickled; loading them needs weights_only=False."""
    refused("save", "Python's own is used", "pickle", pickle_module=_name_of(pickle_module))
    if hasattr(f, "write"):
        return _write(obj, f, "torch", False, pickle_protocol)
    path = os.fspath(f)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError("Parent directory %s does not exist." % folder)
    form, one = _C._tensor_format(path.lower()) or ("torch", False)
    _write(obj, path, form, one, pickle_protocol)


# ---- names that weights_only=True reads ----
_safe: dict[str, Any] = {}


def _named(thing: Any) -> tuple[str, Any]:
    if isinstance(thing, tuple):  # (class, the name that files have for it)
        return thing[1], thing[0]
    return "%s.%s" % (thing.__module__, thing.__qualname__), thing


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Classes and functions that load(weights_only=True) may make objects with, from now on."""
    _safe.update(map(_named, safe_globals))


def get_safe_globals() -> list[Any]:
    """What add_safe_globals was given."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    _safe.clear()


def remove_safe_globals(safe_globals: Sequence[Any]) -> None:
    for name, _ in map(_named, safe_globals):
        _safe.pop(name, None)


class safe_globals:
    """add_safe_globals for the time of a `with`."""

    def __init__(self, safe_globals: Sequence[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self.before = dict(_safe)
        add_safe_globals(self.safe_globals)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        clear_safe_globals()
        _safe.update(self.before)


# ---- where tensors go ----
def _put(storage: Tensor, location: str) -> Tensor:
    """To the place that the file names."""
    if not location.startswith("cuda"):
        return storage
    try:
        return storage.to(location)
    except RuntimeError as error:
        raise RuntimeError("load: the file has tensors of %s, which is not there: %s. Load it with map_location='cpu'"
                           % (location, error)) from error


def _restorer(map_location: _MapLocation) -> _archive.Restore:
    if map_location is None:
        return _put
    if isinstance(map_location, dict):
        table = {str(key): str(value) for key, value in map_location.items()}
        return lambda storage, location: _put(storage, table.get(location, location))
    if callable(map_location):
        function = map_location

        def asked(storage: Tensor, location: str) -> Tensor:
            made: Tensor | None = function(storage, location)
            return _put(storage, location) if made is None else made

        return asked
    device = _C.device(map_location)
    return lambda storage, location: storage if device.type == "cpu" else storage.to(device)


def _moved(value: Any, restore: _archive.Restore) -> Any:
    """A tree whose tensors were moved one by one."""
    if isinstance(value, Tensor):
        return restore(value, "cpu")
    if isinstance(value, dict):
        return {key: _moved(below, restore) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(below, restore) for below in value)
    return value


# ---- loading ----
def _is_plain_pickle(data: bytes) -> bool:
    """Does it hold nothing but trees of tensors on the CPU that require no gradients? A wrong no costs time only: both
    ways of reading come to the same."""
    import re

    from . import _archive

    plain = {(b"collections", b"OrderedDict"), (b"torch._utils", b"_rebuild_tensor_v2"),
             *((b"torch", name.encode()) for name in _archive._CLASSES)}
    names = re.findall(rb"c([A-Za-z_][\w.]*)\n([A-Za-z_][\w.]*)\n", data)
    return data.startswith(b"\x80\x02") and b"\x88" not in data and b"cuda" not in data and plain.issuperset(names)


def _read_archive(f: str | bytes, weights_only: bool, mapped: bool, map_location: _MapLocation,
                  how: dict[str, Any]) -> Any:
    """A zip file: torch's or NumPy's."""
    import zipfile

    from . import _archive

    try:
        archive = zipfile.ZipFile(f if isinstance(f, str) else io.BytesIO(f))
    except zipfile.BadZipFile:
        return _read_tree(f, mapped)  # the library says what is wrong
    with archive:
        prefix = _archive.prefix_of(archive)
        if prefix is None:
            return _moved(_read_tree(f, mapped), _restorer(map_location))
        at_home = map_location is None or str(map_location) == "cpu"
        if at_home and _is_plain_pickle(archive.read(prefix + "data.pkl")):
            with contextlib.suppress(OSError):  # of what it cannot hold: values that hold themselves
                return _read_tree(f, mapped)
        return _archive.read(archive, prefix, _restorer(map_location), _safe if weights_only else None, **how)


def _read_tree(f: str | bytes, mapped: bool) -> Any:
    if isinstance(f, bytes):
        return _C._load_bytes(f)
    if mapped:
        return _C._load(f)
    with open(f, "rb") as file:
        return _C._load_bytes(file.read())


def _read_other(f: str | bytes, weights_only: bool, mapped: bool, map_location: _MapLocation,
                how: dict[str, Any]) -> Any:
    """safetensors, .npy, and torch's form before release 1.6."""
    try:
        value = _read_tree(f, mapped)
    except OSError:
        head = f[:1] if isinstance(f, bytes) else open(f, "rb").read(1)
        if weights_only or head != b"\x80":
            raise
        from . import _archive

        with io.BytesIO(f) if isinstance(f, bytes) else open(f, "rb") as file:
            return _archive.read_legacy(file, _restorer(map_location), None, **how)
    if isinstance(value, dict):
        value.pop("__metadata__", None)
    return _moved(value, _restorer(map_location)) if map_location is not None else value


def load(f: _File, map_location: _MapLocation = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:
    """What a file holds, whatever wrote it: torch's archives and its older files, safetensors, .npy, .npz.

    f: a path, or an object with read(). map_location: where tensors go: a device, a dictionary of places, or a function
    of a storage (a tensor of its bytes) and the place the file names. weights_only (by default): tensors, numbers,
    texts, and lists and dictionaries of them; False: any Python object, by running what the file says, so only for
    files from sources you trust. mmap: tensors of a path share the mapped file instead of being read at once; it must
    then not be written to in place. Writing to such tensors does not change the file."""
    refused("load", "Python's own is used", "pickle", pickle_module=_name_of(pickle_module))
    weights = weights_only is not False
    source: str | bytes
    if hasattr(f, "read"):
        source = bytes(f.read())
        head = source[:4]
    else:
        path = os.fspath(f)
        source = os.fsdecode(path) if isinstance(path, bytes) else path
        with open(source, "rb") as file:
            head = file.read(4)
    if not head:
        raise EOFError("Ran out of input: %s is empty, or was read to its end"
                       % (source if isinstance(source, str) else "the file"))
    if mmap and not isinstance(source, str):
        raise ValueError("load: mmap=True needs a path, not a file object")
    read = _read_archive if head == b"PK\3\4" else _read_other
    return read(source, weights, bool(mmap), map_location, pickle_load_args)


# ---- runs ----
def save_checkpoint(path: str | os.PathLike[str], model: Module | None = None, optimizer: Optimizer | None = None,
                    scheduler: Any = None, loader: Any = None, scaler: Any = None, epoch: int = 0, step: int = 0,
                    **extra: Any) -> None:
    """Writes what a run needs to go on: the state of its parts, this thread's random numbers, where it is, and more
    (numbers, texts, tensors by name). A safetensors file, whose weights any reader of that format finds; written whole
    or not at all, so that a run that is killed leaves the old checkpoint or the new one."""
    core = _core(optimizer)
    own = optimizer if core is None else None  # written in Python
    parts = {"optimizer": own, "scheduler": scheduler, "loader": loader, "scaler": scaler}
    states = {name: part.state_dict() for name, part in parts.items() if part is not None}
    content = {"parts": states, "extra": extra}
    if not _is_whole_tree(_plain(content)):
        at, value = _blame(content, lambda part: _is_whole_tree(_plain(part)))
        raise TypeError("save_checkpoint: %s is a %s, which a checkpoint does not hold" % (at, type(value).__name__))
    _C._run_save(os.fspath(path), model, core, epoch, step, content)


def _core(optimizer: Any) -> _C.OptimBase | None:
    """The optimiser of the library that it is, if it is one."""
    core = getattr(optimizer, "_core", None)
    if not isinstance(core, _C.OptimBase):
        return None
    optimizer._rates_push()  # what the program has put into its groups
    return core


def _plain(value: Any) -> Any:
    """Tensors wherever they lie, and dictionaries of any class, are fine in a checkpoint."""
    if isinstance(value, Tensor):
        return None
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(below) for below in value]
    return value


def load_checkpoint(path: str | os.PathLike[str], model: Module | None = None, optimizer: Optimizer | None = None,
                    scheduler: Any = None, loader: Any = None, scaler: Any = None) -> dict[str, Any]:
    """Goes on from a checkpoint: sets the parts that are given and the random numbers, and returns "epoch", "step" and
    what else was saved. A file that is damaged or has no such part is an error."""
    core = _core(optimizer)
    epoch, step, content = _C._run_load(os.fspath(path), model, core)
    if core is not None and optimizer is not None:
        optimizer.load_state_dict(core.state())  # what Python has beside the library's: groups, hooks
    content = content or {}
    states = content.get("parts", {})
    for name, part in (("optimizer", optimizer if core is None else None), ("scheduler", scheduler), ("loader", loader),
                       ("scaler", scaler)):
        if part is None:
            continue
        if name not in states:
            raise KeyError("load_checkpoint: %s has no %s" % (path, name))
        part.load_state_dict(states[name])
    return {"epoch": epoch, "step": step, **content.get("extra", {})}
