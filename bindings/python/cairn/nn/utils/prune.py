"""Pruning: parameters times a mask. NAME becomes NAME_orig (a parameter) and NAME_mask (a buffer), and the module's
attribute NAME is their product, computed anew before each call by a forward pre-hook.

A method says which elements go (compute_mask); several on one parameter make a PruningContainer. remove() makes the
product the parameter again.
"""
from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import Any, Iterable, Iterator, Sequence

from ... import _C
from ..._modes import no_grad
from ..._tensor import Tensor
from ..module import Module
from .convert_parameters import parameters_to_vector

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
           "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity",
           "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove"]


class BasePruningMethod(ABC):
    """Derive from it, say PRUNING_TYPE ("unstructured", "structured" or "global") and write compute_mask."""

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, _inputs: Any) -> None:
        """The forward pre-hook."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask for t: default_mask with more zeros."""

    def apply_mask(self, module: Any) -> Tensor:
        """The pruned tensor of a module."""
        if getattr(self, "_tensor_name", None) is None:
            raise AssertionError(f"Module {module} has to be pruned")
        orig: Tensor = getattr(module, self._tensor_name + "_orig")
        mask: Tensor = getattr(module, self._tensor_name + "_mask")
        return mask.to(orig.dtype) * orig

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None,
              **kwargs: Any) -> BasePruningMethod:
        """Prunes module.NAME with a method of this class, made with the other arguments, after those that pruned it
        before. importance_scores stand for the tensor where elements are compared. Returns the hook."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        tensor: Tensor = getattr(module, name)
        if importance_scores is None:
            importance_scores = tensor
        elif importance_scores.shape != tensor.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        hook = method
        if before is None:
            module.register_parameter(name + "_orig", tensor)
            del module._parameters[name]
            old = _C.ones_like(tensor.detach())
        else:
            number, earlier = before
            del module._forward_pre_hooks[number]
            hook = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
            hook.add_pruning_method(method)
            old = getattr(module, name + "_mask").to(dtype=tensor.dtype)
        try:
            with no_grad():
                mask = hook.compute_mask(importance_scores.detach(), default_mask=old)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, hook.apply_mask(module))
            module.register_forward_pre_hook(hook)
        except Exception:
            if before is None:
                orig = module._parameters.pop(name + "_orig")
                module.register_parameter(name, orig)
            raise
        return hook

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor pruned, without a module."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = self.compute_mask(importance_scores, _C.ones_like(t) if default_mask is None else default_mask)
        return t * mask

    def remove(self, module: Any) -> None:
        """Makes the pruned tensor the module's parameter; the hook is to be taken away by the caller."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        value = self.apply_mask(module).detach()
        orig = module._parameters[name + "_orig"]
        if hasattr(module, name):
            delattr(module, name)
        orig.data = value
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other, on one parameter."""

    PRUNING_TYPE = "container"

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args and isinstance(args[0], BasePruningMethod):
            self._tensor_name = args[0]._tensor_name
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Another method, for the same tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is None:
            return
        name = getattr(self, "_tensor_name", None)
        if name is not None and name != method._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{name}' to PruningContainer "
                             f"{self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, i: int) -> BasePruningMethod:
        return self._pruning_methods[i]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far and what the last method takes from what is left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError("Pruning methods of PRUNING_TYPE 'structured' need to have the attribute 'dim'")
            dim = method.dim % t.ndim
            rest = [d for d in range(t.ndim) if d != dim]
            left = (slice(None),) * dim + ((mask.sum(rest) != 0).nonzero().flatten(),)
        elif method.PRUNING_TYPE == "global":
            left = ()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        if left == () and method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask=mask)
        mask[left] = method.compute_mask(t[left], default_mask=mask[left]).to(dtype=mask.dtype)
        return mask


# ---- methods ----

class Identity(BasePruningMethod):
    """Takes nothing: the names of a pruned parameter, and a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:  # unused: t (the base class gives it)
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class _Amount(BasePruningMethod):
    """Methods that take a number of elements (an int) or a part of them (a float between 0 and 1)."""

    amount: int | float

    def __init__(self, amount: int | float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if isinstance(amount, numbers.Integral):
            amount = int(amount)
        if amount < 0 or (isinstance(amount, float) and amount > 1):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of so many go."""
        if not isinstance(self.amount, int):
            return round(float(self.amount) * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
        return self.amount


def _without(mask: Tensor, places: Tensor) -> Tensor:
    """The mask with zeros at these places, counted through."""
    flat = mask.clone().reshape(-1)
    flat[places] = 0
    return flat.reshape(mask.shape)


class RandomUnstructured(_Amount):
    """Takes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        if count == 0:
            return default_mask.clone()
        return _without(default_mask, _C.rand_like(t).reshape(-1).topk(count).indices)


class L1Unstructured(_Amount):
    """Takes the elements that are nearest to zero."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        if count == 0:
            return default_mask.clone()
        return _without(default_mask, t.abs().reshape(-1).topk(count, largest=False).indices)


class _Channels(_Amount):
    """Methods that take slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _slices(self, t: Tensor) -> int:
        if t.ndim <= 1:
            raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of "
                             f"shape {t.shape} with {t.ndim} dims")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        return t.shape[self.dim]

    def _kept(self, t: Tensor, default_mask: Tensor, keep: Tensor) -> Tensor:
        """The mask without the slices that are not kept."""
        shape = [1] * t.ndim
        shape[self.dim] = -1
        return default_mask * keep.to(default_mask.dtype).reshape(shape)


class RandomStructured(_Channels):
    """Takes slices at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = self._slices(t)
        count = self._count(size)
        if count == 0:
            return default_mask.clone()
        drawn = _C.rand((size,), device=t.device)
        return self._kept(t, default_mask, drawn > drawn.kthvalue(count).values)


class LnStructured(_Channels):
    """Takes the slices with the smallest norm."""

    def __init__(self, amount: int | float, n: int | float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = self._slices(t)
        count = self._count(size)
        if count == 0:
            return default_mask.clone()
        rest = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        keep = _C.zeros((size,), device=t.device)
        keep[t.norm(p=self.n, dim=rest).topk(size - count).indices] = 1
        return self._kept(t, default_mask, keep)


class CustomFromMask(BasePruningMethod):
    """Takes what a mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:  # unused: t (the base class gives it)
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"the mask has shape {self.mask.shape}, the tensor {default_mask.shape}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# ---- functions ----

def identity(module: Any, name: str) -> Any:
    """Pruned in name only, with a mask of ones; returns the module, as all of these do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: int | float) -> Any:
    """Prunes elements at random: so many (int), or such a part of them (float)."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Any, name: str, amount: int | float, importance_scores: Tensor | None = None) -> Any:
    """Prunes the elements nearest to zero, or of the smallest importance_scores."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: int | float, dim: int) -> Any:
    """Prunes slices along dim at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: int | float, n: int | float | str, dim: int,
                  importance_scores: Tensor | None = None) -> Any:
    """Prunes the slices along dim with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prunes by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Iterable[tuple[Any, str]], pruning_method: type[BasePruningMethod],
                        importance_scores: dict[tuple[Any, str], Tensor] | None = None, **kwargs: Any) -> None:
    """Prunes the parameters [(module, name), ...] as if they were one tensor."""
    pairs: Sequence[tuple[Any, str]] = list(parameters)
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores is a dict, {(module, name): tensor}")
    scores = importance_scores or {}
    tensors = [getattr(module, name) for module, name in pairs]
    compared = [scores.get(pair, t).detach() for pair, t in zip(pairs, tensors)]
    masks = [getattr(module, name + "_mask", _C.ones_like(t.detach())) for (module, name), t in zip(pairs, tensors)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError("Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`. Found method "
                        f"{pruning_method} of type {method.PRUNING_TYPE}")
    method._tensor_name = "temp_name"
    container = PruningContainer()
    container._tensor_name = "temp_name"
    container.add_pruning_method(method)
    with no_grad():
        final = container.compute_mask(parameters_to_vector(compared), parameters_to_vector(masks))
    start = 0
    for (module, name), t in zip(pairs, tensors):
        custom_from_mask(module, name, mask=final[start:start + t.numel()].reshape(t.shape))
        start += t.numel()


def _hook_of(module: Any, name: str) -> tuple[int, Any] | None:
    """The number and hook that prune module.NAME."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


def remove(module: Any, name: str) -> Any:
    """Makes the pruned tensor the parameter for good."""
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    module._hooks_changed()
    return module


def is_pruned(module: Module) -> bool:
    """Is something in the module, or below, pruned?"""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._forward_pre_hooks.values())
