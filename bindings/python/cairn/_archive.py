"""Python objects in torch's archives: a zip file that holds a pickle and, beside it, the storages of its tensors.

Place in the flow: cairn.save and cairn.load, for what is more than a tree of tensors, numbers and texts: those the
library reads and writes itself. Tensors are written under torch's names, so that torch opens what holds nothing of
cairn's own classes. Invariant: tensors that share memory share it in the file and behind it.
"""
from __future__ import annotations

import builtins
import collections
import functools
import importlib
import io
import os
import pickle
import tempfile
import zipfile
from typing import IO, TYPE_CHECKING, Any, Callable, ClassVar, Iterable

from . import _C
from ._tensor import Tensor
from ._types import Size

if TYPE_CHECKING:
    from .nn import Parameter
    from ._C import _dtype

__all__: list[str] = []

# A storage as it is read: all of it as bytes, and the place that the file names.
Restore = Callable[[Tensor, str], Tensor]

_CLASSES = {"FloatStorage": _C.float32, "DoubleStorage": _C.float64, "HalfStorage": _C.float16,
            "BFloat16Storage": _C.bfloat16, "LongStorage": _C.int64, "IntStorage": _C.int32,
            "ShortStorage": _C.int16, "CharStorage": _C.int8, "ByteStorage": _C.uint8, "BoolStorage": _C.bool,
            "ComplexFloatStorage": _C.complex64, "ComplexDoubleStorage": _C.complex128}
_CLASS_OF = {dtype: name for name, dtype in _CLASSES.items()}
_DTYPES = {name: value for name, value in vars(_C).items() if isinstance(value, _C.dtype)}


# ---- writing ----
class _Name:
    """Something of torch's that a pickle refers to, whether torch is there or not."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:  # asked for by pickle, of what makes an object
        raise TypeError("%s.%s is only a name" % (self.module, self.name))


@functools.lru_cache(maxsize=None)
def _name(module: str, name: str) -> _Name:
    return _Name(module, name)


class _Storage:
    """One storage in a file that is being written."""

    def __init__(self, key: str, t: Tensor, numel: int) -> None:
        self.key, self.tensor, self.dtype, self.numel = key, t, t.dtype, numel
        self.location = str(t.device) if t.device.type == "cpu" else "%s:%d" % (t.device.type, t.get_device())

    def data(self) -> bytes:
        if not self.numel:
            return b""
        return _C._to_bytes(self.tensor.as_strided((self.numel,), (1,), 0))


class _Layout:
    """A layout by torch's name, in a file that is being written."""

    def __init__(self, name: str) -> None:
        self.name = name


def _parts(t: Tensor) -> tuple[Tensor, ...]:
    """What a sparse tensor consists of, in torch's order."""
    if t.is_sparse:
        return _C._sparse_parts(t)
    rows = t.layout in (_C.sparse_csr, _C.sparse_bsr)
    return (*((t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())), t.values())


def _reach(t: Tensor) -> int:
    """How many elements from the beginning of its storage on it needs."""
    if not t.numel():
        return 0
    return t.storage_offset() + 1 + sum((n - 1) * step for n, step in zip(t.shape, t.stride()))


class _Pickler(pickle._Pickler):
    """Knows tensors, types and devices. `sizes`: how long the storages are, from a pass before."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)
    write: Any  # of the base, which type checkers do not know them of
    memoize: Any
    save: Any

    def __init__(self, file: IO[bytes], protocol: int, sizes: dict[Any, int]) -> None:
        super().__init__(file, protocol)
        self.sizes = sizes
        self.storages: dict[Any, _Storage] = {}
        self._kept: list[Any] = []  # what was made on the way: an address must not come twice

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Storage):
            return None
        untyped = obj.dtype not in _CLASS_OF
        cls = _name("torch.storage", "UntypedStorage") if untyped else _name("torch", _CLASS_OF[obj.dtype])
        return "storage", cls, obj.key, obj.location, obj.numel * (obj.dtype.itemsize if untyped else 1)

    def _storage(self, t: Tensor) -> _Storage:
        place: Any = id(t) if not t.numel() else t.data_ptr() - t.storage_offset() * t.itemsize
        place = place, t.dtype, str(t.device)
        self.sizes[place] = max(self.sizes.get(place, 0), _reach(t))
        if place not in self.storages:
            self.storages[place] = _Storage(str(len(self.storages)), t, self.sizes[place])
        return self.storages[place]

    def _sparse(self, t: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        layout = _Layout("torch." + str(t.layout).rpartition(".")[2])
        more = (t.is_coalesced(),) if t.is_sparse else ()
        parts = tuple(part.detach() for part in _parts(t))
        self._kept.extend((layout, parts))
        return _name("torch._utils", "_rebuild_sparse_tensor"), (layout, (*parts, t.shape, *more))

    def _tensor(self, obj: Tensor) -> tuple[_Name, tuple[Any, ...]]:
        if obj.layout != _C.strided:
            return self._sparse(obj)
        t = obj.detach()
        self._kept.append(t)
        offset = t.storage_offset() if t.numel() else 0
        args: tuple[Any, ...]
        args = (self._storage(t), offset, tuple(t.shape), t.stride(), obj.requires_grad and obj.is_leaf,
                collections.OrderedDict())
        if t.dtype in _CLASS_OF:
            return _name("torch._utils", "_rebuild_tensor_v2"), args
        return _name("torch._utils", "_rebuild_tensor_v3"), (*args, t.dtype)

    def reducer_override(self, obj: Any) -> Any:
        self._kept.append(obj)
        if type(obj) is _Layout:
            return _name("torch.serialization", "_get_layout"), (obj.name,)
        if not isinstance(obj, (Tensor, Size, _C.device)):
            return NotImplemented
        from .nn import Buffer

        if type(obj) is Tensor or type(obj) is Buffer:
            return self._tensor(obj)
        if type(obj) is _parameter():
            plain = Tensor.detach(obj)
            return _name("torch._utils", "_rebuild_parameter"), (plain, obj.requires_grad, collections.OrderedDict())
        if type(obj) is Size:
            return _name("torch", "Size"), (tuple(obj),)
        if type(obj) is _C.device:
            return _name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _save_name(self, obj: _Name) -> None:
        self.write(b"c%s\n%s\n" % (obj.module.encode(), obj.name.encode()))
        self.memoize(obj)

    def _save_dtype(self, obj: _dtype) -> None:
        self.save(_name("torch", str(obj).rpartition(".")[2]))

    dispatch[_Name] = _save_name
    dispatch[_C.dtype] = _save_dtype


def _parameter() -> type[Parameter]:
    from .nn import Parameter

    return Parameter


def write(obj: Any, file: IO[bytes], protocol: int) -> None:
    """Writes the archive of an object."""
    sizes: dict[Any, int] = {}
    first = _Pickler(_Nothing(), protocol, sizes)
    first.dump(obj)  # finds out how much of each storage is needed
    text = io.BytesIO()
    pickler = _Pickler(text, protocol, sizes)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (("data.pkl", text.getvalue()), (".format_version", b"1"), ("byteorder", b"little")):
            archive.writestr(zipfile.ZipInfo("archive/" + name), content)
        for storage in pickler.storages.values():
            archive.writestr(zipfile.ZipInfo("archive/data/" + storage.key), storage.data())
        archive.writestr(zipfile.ZipInfo("archive/version"), b"3\n")


class _Nothing(io.BytesIO):
    """A file that takes everything and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def write_path(obj: Any, path: str, protocol: int) -> None:
    """The same for a file by name, which appears whole or not at all."""
    folder, name = os.path.split(path)
    handle, part = tempfile.mkstemp(prefix=name + ".part-", dir=folder or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(part, 0o644)
            write(obj, file, protocol)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


# ---- reading ----
class _Read:
    """A storage that was read; `numel` of them are of the type its class says."""

    def __init__(self, data: Tensor, dtype: _dtype) -> None:
        self.data, self.dtype = data, dtype


def _plain(hooks: Any, metadata: Any) -> None:
    """Refuses what a file says of a tensor beyond its elements and cannot be kept: hooks, bits of a conjugate."""
    if hooks or (metadata and any(metadata.values())):
        raise pickle.UnpicklingError("a tensor with hooks or of a conjugate cannot be read: hooks %r, metadata %r"
                                     % (hooks, metadata))


def _with_state(t: Tensor, state: Any) -> Tensor:
    """t with the attributes of its own that a file has for it."""
    if isinstance(state, tuple) and len(state) == 2:  # a dictionary and what lies in slots
        for part in state:
            _with_state(t, part)
    elif state:
        t.__dict__.update(state)
    return t


def _rebuild(storage: _Read, offset: int, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool = False,
             hooks: Any = None, dtype: Any = None, metadata: Any = None) -> Tensor:
    _plain(hooks, metadata)
    wanted = dtype if isinstance(dtype, _C.dtype) else storage.dtype
    whole = storage.data if wanted is _C.uint8 else storage.data.view(wanted)
    reach = offset + 1 + sum((n - 1) * step for n, step in zip(size, stride)) if all(size) else 0
    if offset < 0 or reach > whole.numel() or any(n < 0 for n in (*size, *stride)):
        raise pickle.UnpicklingError("a tensor reaches past the end of its storage")
    t = whole.as_strided(tuple(size), tuple(stride), offset if all(size) else 0)
    return t.requires_grad_(True) if requires_grad else t


def _rebuild_v2(storage: _Read, offset: int, size: tuple[int, ...], stride: tuple[int, ...],
                requires_grad: bool = False, hooks: Any = None, metadata: Any = None) -> Tensor:
    return _rebuild(storage, offset, size, stride, requires_grad, hooks, None, metadata)


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any = None, state: Any = None) -> Tensor:
    _plain(hooks, None)
    return _with_state(_parameter()(data, requires_grad), state)


def _layout_of(name: str) -> Any:
    found = vars(_C).get(name.rpartition(".")[2])
    if not isinstance(found, _C.layout):
        raise pickle.UnpicklingError("%r is no layout" % (name,))
    return found


def _rebuild_sparse(layout: Any, data: tuple[Any, ...]) -> Tensor:
    if layout == _C.sparse_coo:
        indices, values, size, *coalesced = data
        return _C.sparse_coo_tensor(indices, values, tuple(size), is_coalesced=bool(coalesced and coalesced[0]))
    if layout not in (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc):
        raise pickle.UnpicklingError("%r is no sparse layout" % (layout,))
    first, second, values, size = data
    return _C.sparse_compressed_tensor(first, second, values, tuple(size), layout=str(layout).rpartition(".")[2])


def _rebuild_from_type(func: Callable[..., Any], kind: Any, args: tuple[Any, ...], state: Any) -> Any:
    """A tensor of a class derived from Tensor, or with attributes of its own."""
    t = func(*args)
    if isinstance(kind, type) and not isinstance(t, kind):
        t = t.as_subclass(kind)
    return _with_state(t, state)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    return text.encode(encoding)


_NAMES: dict[str, Any] = {
    "torch._utils._rebuild_tensor": _rebuild_v2, "torch._utils._rebuild_tensor_v2": _rebuild_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild, "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.Size": Size, "torch.device": _C.device, "torch.Tensor": Tensor, "torch._tensor.Tensor": Tensor,
    "torch.storage.UntypedStorage": _C.uint8, "torch.UntypedStorage": _C.uint8, "torch.strided": _C.strided,
    "torch.serialization._get_layout": _layout_of, "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
    "_codecs.encode": _encode,
    "collections.OrderedDict": collections.OrderedDict, "collections.Counter": collections.Counter,
    "collections.defaultdict": collections.defaultdict, "collections.deque": collections.deque,
    **{"torch." + name: value for name, value in (*_CLASSES.items(), *_DTYPES.items())},
    **{"%s.%s" % (module, name): getattr(builtins, name) for module in ("builtins", "__builtin__")
       for name in ("set", "frozenset", "bytearray", "complex", "slice", "range", "int", "float", "str", "list", "dict",
                    "tuple", "bool")},
}


class _Unpickler(pickle.Unpickler):
    """Makes of torch's names what cairn has for them. `allowed`: further names; None: all of them."""

    def __init__(self, file: IO[bytes], storage: Callable[[Any], _Read], allowed: dict[str, Any] | None,
                 **how: Any) -> None:
        super().__init__(file, **how)
        self.storage, self.allowed = storage, allowed

    def persistent_load(self, pid: Any) -> _Read:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError("it holds something that is no storage of numbers: %r" % (pid,))
        return self.storage(pid)

    def find_class(self, module: str, name: str) -> Any:
        full = module + "." + name
        if full in _NAMES:
            return _NAMES[full]
        if full == "torch.nn.parameter.Parameter":
            return _parameter()
        if self.allowed is not None:
            if full in self.allowed:
                return self.allowed[full]
            raise pickle.UnpicklingError(
                "Weights only load failed: %s is not among the names that are read without being asked for. If the "
                "file comes from a source you trust, load it with weights_only=False, which may run what the file "
                "says, or name the class: cairn.serialization.add_safe_globals([%s])" % (full, name))
        if module == "torch" or module.startswith("torch."):
            return _counterpart(module, name)
        return super().find_class(module, name)


def _counterpart(module: str, name: str) -> Any:
    """What cairn has under torch's name."""
    places = ["cairn" + module[len("torch"):]] + (["cairn.nn"] if module.startswith("torch.nn.modules") else [])
    for place in places:
        try:
            return getattr(importlib.import_module(place), name)
        except (ImportError, AttributeError):
            continue
    raise pickle.UnpicklingError("there is nothing like %s.%s in cairn" % (module, name))


def _bytes_tensor(data: bytes) -> Tensor:
    """A tensor over a copy of its own."""
    return _C.frombuffer(bytearray(data), dtype=_C.uint8) if data else _C.empty((0,), dtype=_C.uint8)


def prefix_of(archive: zipfile.ZipFile) -> str | None:
    """The folder of an archive of torch's; None: it is another one."""
    for name in archive.namelist():
        folder, slash, rest = name.partition("/")
        if slash and rest == "data.pkl":
            return folder + slash
    return None


def read(archive: zipfile.ZipFile, prefix: str, restore: Restore, allowed: dict[str, Any] | None, **how: Any) -> Any:
    """The object of an archive."""
    storages: dict[str, Tensor] = {}

    def storage(pid: Any) -> _Read:
        _, dtype, key, location = pid[:4]
        if key not in storages:
            try:
                data = archive.read("%sdata/%s" % (prefix, key))
            except KeyError:
                raise pickle.UnpicklingError("a storage is missing: data/%s" % key) from None
            storages[key] = restore(_bytes_tensor(data), location)
        return _Read(storages[key], dtype)

    return _Unpickler(io.BytesIO(archive.read(prefix + "data.pkl")), storage, allowed, **how).load()


def read_legacy(file: IO[bytes], restore: Restore, allowed: dict[str, Any] | None, **how: Any) -> Any:
    """The object of a file from before release 1.6: pickles in a row, then the storages."""
    storages: dict[str, Tensor] = {}
    sizes: dict[str, int] = {}

    def storage(pid: Any) -> _Read:
        _, dtype, key, location, numel = pid[:5]
        if len(pid) > 5 and pid[5]:
            raise pickle.UnpicklingError("a storage that is a part of another one is not read")
        if key not in storages:
            sizes[key] = dtype.itemsize
            storages[key] = restore(_C.empty((numel * dtype.itemsize,), dtype=_C.uint8), location)
        return _Read(storages[key], dtype)

    for _ in range(3):  # its mark, its version, its machine
        _Unpickler(file, storage, {}, **how).load()
    value = _Unpickler(file, storage, allowed, **how).load()
    keys: Iterable[str] = _Unpickler(file, storage, {}, **how).load()
    for key in keys:
        data = file.read(int.from_bytes(file.read(8), "little") * sizes[key])
        if len(data) != storages[key].numel():
            raise pickle.UnpicklingError("a storage is cut short")
        storages[key].copy_(_bytes_tensor(data))
    return value
