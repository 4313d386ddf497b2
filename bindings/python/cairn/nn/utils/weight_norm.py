"""torch's older forms of weight norm and spectral norm: the parts are parameters of the module itself (weight_g and
weight_v, weight_orig), and the weight is computed before each call."""
from __future__ import annotations

from typing import Any

from ... import _C
from ..._modes import no_grad
from .. import functional as F
from ..parameter import Parameter
from .parametrizations import _direction, _matrix, _norm_except

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _WeightNormHook:
    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute(self, module: Any) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / _norm_except(v, self.dim))

    def __call__(self, module: Any, _args: Any) -> None:
        setattr(module, self.name, self.compute(module))


def _hook_of(module: Any, name: str, kind: type[Any]) -> tuple[int, Any]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    raise ValueError("%s of '%s' not found in %s" % (kind.__name__, name, module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """The weight as a length (NAME_g) times a direction (NAME_v)."""
    hook = _WeightNormHook(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(_norm_except(weight, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Makes it one parameter again."""
    key, hook = _hook_of(module, name, _WeightNormHook)
    weight = hook.compute(module).detach()
    for part in (name, name + "_g", name + "_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    del module._forward_pre_hooks[key]
    module._hooks_changed()
    return module


class _SpectralNormHook:
    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute(self, module: Any, times: int) -> Any:
        """The weight, after some more steps towards its largest singular value."""
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = _matrix(weight, self.dim)
        with no_grad():
            for _ in range(times):
                v.copy_(F.normalize(_C.mv(matrix.t(), u), dim=0, eps=self.eps))
                u.copy_(F.normalize(_C.mv(matrix, v), dim=0, eps=self.eps))
        return weight / _C.dot(u.clone(), _C.mv(matrix, v.clone()))

    def __call__(self, module: Any, _args: Any) -> None:
        setattr(module, self.name, self.compute(module, self.n_power_iterations if module.training else 0))


def spectral_norm(module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Any:
    """The weight (NAME_orig) divided by its largest singular value."""
    if n_power_iterations <= 0:
        raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations=%d"
                         % n_power_iterations)
    if any(isinstance(h, _SpectralNormHook) and h.name == name for h in module._forward_pre_hooks.values()):
        raise RuntimeError("Cannot register two spectral_norm hooks on the same parameter %s" % name)
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    hook = _SpectralNormHook(name, n_power_iterations, dim if dim >= 0 else dim + weight.ndim, eps)
    matrix = _matrix(weight.detach(), hook.dim)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    module.register_buffer(name + "_u", _direction(matrix, matrix.shape[0], eps))
    module.register_buffer(name + "_v", _direction(matrix, matrix.shape[1], eps))
    setattr(module, name, weight.detach())
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Makes it one parameter again."""
    key, hook = _hook_of(module, name, _SpectralNormHook)
    with no_grad():
        weight = hook.compute(module, 0).detach()
    for part in (name, name + "_orig", name + "_u", name + "_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    del module._forward_pre_hooks[key]
    module._hooks_changed()
    return module
