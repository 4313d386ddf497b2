"""What tensors have from older days, and for storage, sharing and subclasses: a part of the class Tensor.

Place in the flow: _tensor.py's class derives from it. Quantised tensors do not exist here, so questions about them have
one answer. Invariant: everything here is made of methods that are in the other parts.
"""
from __future__ import annotations

import builtins
import weakref
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import _C
from ._types import Size

if TYPE_CHECKING:
    from ._C import RemovableHandle
    from ._tensor import Tensor
    from .storage import TypedStorage, UntypedStorage

__all__ = ["Compat"]


def switched_off(cls: Any, func: Any, types: Any, args: Any = (),
                 kwargs: Any = None) -> Any:  # unused: func, types, args, kwargs (the protocol gives them)
    """__torch_function__ of classes whose objects ops take as plain tensors: cairn's own."""
    return NotImplemented


class Compat:
    """See above. `self` is a Tensor."""

    def is_conj(self) -> builtins.bool:
        """False: conjugates and negatives are computed at once."""
        return False

    is_neg = is_distributed = is_conj
    is_mps = is_xpu = is_xla = is_ipu = is_mtia = is_maia = is_vulkan = False

    # ---- classes derived from Tensor ----
    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        space = cls.__module__
        if space == "cairn" and cls.__name__ == "Tensor":
            return
        if (space.startswith("cairn.") or space == "cairn") and "__torch_function__" not in vars(cls):
            setattr(cls, "__torch_function__", classmethod(switched_off))
        else:
            from . import overrides
            overrides.derived(cls)

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What ops on objects of a derived class return: the op as it is, its results as objects of the class. A class
        may do otherwise, and call this one by super()."""
        from . import overrides
        return overrides.default(cls, func, types, args, kwargs)

    @staticmethod
    def _make_subclass(cls: Any, data: Any, require_grad: builtins.bool = False) -> Any:
        """The data as an object of a derived class, without its history."""
        return data.detach().as_subclass(cls).requires_grad_(require_grad)

    @staticmethod
    def _make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Not there."""
        raise NotImplementedError("_make_wrapper_subclass: there is no dispatch below autograd in Python that could "
                                  "say what ops on %s do" % cls.__name__)

    # ---- made like this one ----
    def new(self: Any, *args: Any, device: Any = None) -> Tensor:
        """new(sizes...) is empty, new(data) a copy; of this tensor's type, where this one is."""
        place = self.device if device is None else device
        if not args:
            return _C.empty((0,), dtype=self.dtype, device=place)
        first = args[0]
        if len(args) == 1 and isinstance(first, _C.TensorBase):
            made: Tensor = first.detach()
            return made.to(place, self.dtype)
        if len(args) == 1 and not isinstance(first, (int, Size)):
            return _C.tensor(first, dtype=self.dtype, device=place)
        return _C.empty(tuple(first) if isinstance(first, Size) else args, dtype=self.dtype, device=place)

    def unsafe_chunk(self: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """chunk. (Torch's may be written into where chunk's may not; these are chunk's.)"""
        parts: tuple[Tensor, ...] = self.chunk(chunks, dim)
        return parts

    def unsafe_split(self: Any, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """split. (See unsafe_chunk.)"""
        parts: tuple[Tensor, ...] = self.split(split_size, dim)
        return parts

    unsafe_split_with_sizes = unsafe_split

    # ---- element by element, in Python ----
    def apply_(self: Any, callable: Callable[[Any], Any]) -> Tensor:
        """Sets every element to callable(element). Slow: on the CPU, a call each."""
        return _from_each(callable, self)

    def map_(self: Any, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Sets every element to callable(element, the other tensor's element)."""
        return _from_each(callable, self, tensor)

    def map2_(self: Any, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
        """The same with two other tensors."""
        return _from_each(callable, self, x, y)

    # ---- other memory ----
    def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Takes the memory of another tensor, or of a storage with a size, from now on."""
        if source is None:
            other = _C.empty((0,), dtype=self.dtype, device=self.device)
        elif isinstance(source, _C.TensorBase):
            other = source.detach() if size is None else source.detach().as_strided(
                size, _steps(size) if stride is None else stride, storage_offset)
        else:
            flat = source._typed if source._typed.dtype == self.dtype else source._typed.view(self.dtype)
            shape = (flat.numel() - storage_offset,) if size is None else size
            other = flat.as_strided(shape, _steps(shape) if stride is None else stride, storage_offset)
        if other.dtype != self.dtype:
            raise RuntimeError("set_: a %s tensor cannot take the memory of a %s one" % (self.dtype, other.dtype))
        self.data = other
        tensor: Tensor = self
        return tensor

    def resize_as_(self: Any, other: Tensor, *, memory_format: Any = None) -> Tensor:
        """resize_ to the other's size."""
        tensor: Tensor = self.resize_(other.shape, memory_format=memory_format)
        return tensor

    def is_set_to(self: Any, tensor: Tensor) -> builtins.bool:
        """Are both the same memory in the same shape?"""
        return bool(self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape
                    and self.stride() == tensor.stride())

    def untyped_storage(self: Any) -> UntypedStorage:
        """The memory that the tensor lies in, as bytes."""
        from .storage import UntypedStorage
        return UntypedStorage(self)

    @property
    def name(self) -> Any:
        """None: a tensor has no name of its own."""
        return None

    def resize(self: Any, *sizes: Any) -> Tensor:
        """view of as many elements, with a warning: the older reshape."""
        import warnings
        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        found: Tensor = self.contiguous().view(*sizes)
        return found

    def resize_as(self: Any, tensor: Tensor) -> Tensor:
        """resize to another's shape."""
        import warnings
        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        found: Tensor = self.contiguous().view(tensor.shape)
        return found

    def xpu(self: Any, device: Any = None, non_blocking: builtins.bool = False,
            memory_format: Any = None) -> Tensor:  # unused: non_blocking (see to)
        """To an Intel GPU, which cairn has no backend for: an error."""
        moved: Tensor = self.to("xpu" if device is None else device, memory_format=memory_format)
        return moved

    def _typed_storage(self: Any) -> TypedStorage:
        from .storage import TypedStorage
        return TypedStorage(self)

    def storage(self: Any) -> TypedStorage:
        """The memory that the tensor lies in, as elements."""
        from .storage import TypedStorage
        return TypedStorage(self)

    def storage_type(self: Any) -> type[TypedStorage]:
        """The class of storage()."""
        from .storage import TypedStorage
        return TypedStorage

    def share_memory_(self: Any) -> Tensor:
        """Moves its memory to where other processes see what is written to it: children that are started later, and
        whoever is sent the tensor by multiprocessing. An error when views of it exist."""
        from .multiprocessing import share_between_processes
        share_between_processes(type(self))
        tensor: Tensor = self._share_memory()
        return tensor

    def is_shared(self: Any) -> builtins.bool:
        """Is it in memory that other processes see (share_memory_)?"""
        return bool(self._shared_fd() >= 0)

    def record_stream(self: Any, stream: Any) -> None:
        """The stream uses its memory too: it is not given away before the work that is queued there now is done."""
        if stream._base is not None:
            _C._record_stream(self, stream._base)

    # ---- gradients ----
    def register_post_accumulate_grad_hook(self: Any, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """hook(tensor) each time backward has added to this leaf's .grad; an optimiser may step there."""
        if not self.requires_grad or not self.is_leaf:
            raise RuntimeError("register_post_accumulate_grad_hook: only for leaves that require a gradient")
        place = weakref.ref(self)

        def call(_grad: Any) -> None:
            tensor = place()
            if tensor is not None:
                hook(tensor)

        handle: RemovableHandle = self._register_after(call)
        return handle

    def as_subclass(self: Any, cls: type[Any]) -> Any:
        """The tensor as an object of a class derived from Tensor, with its memory and its history."""
        if not (isinstance(cls, type) and issubclass(cls, _C.TensorBase)):
            raise TypeError("as_subclass: expected a class derived from Tensor, not %r" % (cls,))
        made = _C.TensorBase.__new__(cls, self.detach())
        made._replace(self)
        return made

    # ---- one result for all tensors here ----
    def is_nonzero(self: Any) -> builtins.bool:
        """Is the one element not zero?"""
        return bool(self)

    def adjoint(self: Any) -> Tensor:
        """Each matrix transposed and conjugated."""
        tensor: Tensor = self.mH
        return tensor

    def cholesky(self: Any, upper: builtins.bool = False) -> Tensor:
        """The older linalg.cholesky."""
        return _C.linalg_cholesky(self, upper=upper)

    def qr(self: Any, some: builtins.bool = True) -> Any:
        """The older linalg.qr: some=False is mode "complete"."""
        return _C.linalg_qr(self, "reduced" if some else "complete")

    def dequantize(self: Any) -> Tensor:
        """The tensor as float32: there are no quantised types."""
        tensor: Tensor = self.float()
        return tensor


def _from_each(function: Callable[..., Any], tensor: Any, *others: Any) -> Tensor:
    """Writes function(element, others' elements) into a tensor."""
    if tensor.device.type != "cpu":
        raise TypeError("apply_, map_ and map2_ are only for tensors on the CPU, not on %s" % tensor.device)
    if tensor.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("apply_, map_ and map2_ cannot be recorded: use detach() or no_grad")
    columns = [t.detach().expand(tensor.shape).reshape(-1).tolist() for t in (tensor, *others)]
    values = _C.tensor([function(*row) for row in zip(*columns)], dtype=tensor.dtype)
    made: Tensor = tensor.copy_(values.reshape(tensor.shape))
    return made


def _steps(size: Any) -> tuple[int, ...]:
    """Row-major strides."""
    steps, step = [], 1
    for n in reversed(tuple(size)):
        steps.append(step)
        step *= n
    return tuple(reversed(steps))
