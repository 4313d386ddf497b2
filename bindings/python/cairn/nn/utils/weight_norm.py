"""torch's older forms of weight norm and spectral norm: the parts are parameters of the module itself (weight_g and
weight_v, weight_orig), and the weight is computed before each call."""
from __future__ import annotations

from typing import Any

from ..._modes import no_grad
from ..module import Module
from ..parameter import Parameter
from .parametrizations import _norm_except, _SpectralNorm

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _WeightNormHook:
    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute(self, module: Any) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / _norm_except(v, self.dim))

    def __call__(self, module: Any, args: Any) -> None:
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
    def __init__(self, name: str, norm: Module) -> None:
        self.name, self.norm = name, norm

    def compute(self, module: Any) -> Any:
        norm: Any = self.norm
        norm._u, norm._v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        made = norm.train(module.training)(getattr(module, self.name + "_orig"))
        with no_grad():
            getattr(module, self.name + "_u").copy_(norm._u)
            getattr(module, self.name + "_v").copy_(norm._v)
        return made

    def __call__(self, module: Any, args: Any) -> None:
        setattr(module, self.name, self.compute(module))


def spectral_norm(module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Any:
    """The weight (NAME_orig) divided by its largest singular value."""
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    module.register_buffer(name + "_u", norm._u.clone())
    module.register_buffer(name + "_v", norm._v.clone())
    setattr(module, name, weight.detach())
    module.register_forward_pre_hook(_SpectralNormHook(name, norm))
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Makes it one parameter again."""
    key, hook = _hook_of(module, name, _SpectralNormHook)
    with no_grad():
        weight = hook.norm.eval()(getattr(module, name + "_orig")).detach()
    for part in (name, name + "_orig", name + "_u", name + "_v"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    del module._forward_pre_hooks[key]
    module._hooks_changed()
    return module
