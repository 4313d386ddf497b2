"""Names that programs take out of torch._C besides ops: for classes with a say, and types in annotations.

Place in the flow: cairn._C gives them when they are asked for. Invariant: a type that is not there has no objects, and
a question about what is not there is answered with no.
"""
from __future__ import annotations

from types import ModuleType
from typing import Any

from . import _absent, _C
from ._tensor import Tensor
from ._tensor_compat import switched_off

__all__ = ["by_name"]

_WHY = "this part of PyTorch's inside has no counterpart in cairn"


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged; the event must be text."""
    if not isinstance(event, str):
        raise TypeError("_log_api_usage_once: expected text, not %s" % type(event).__name__)


def _get_tracing_state() -> Any:
    """Something where a graph is being captured, else None."""
    return True if _C._tracing() else None


class _Nn(ModuleType):
    """torch._C._nn: functions of neural networks, and what reads the arguments of Module.to."""

    def __getattr__(self, name: str) -> Any:
        from .nn import functional
        return getattr(functional, name)

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """(device, dtype, non_blocking, memory_format)"""
        from .nn.module import _place
        device, dtype, form = _place(*args, **kwargs)
        blocking = kwargs.get("non_blocking", next((a for a in args if isinstance(a, bool)), False))
        return device, dtype, bool(blocking), form


_SPACES = {"_functorch": "TransformType CInterpreter _add_batch_dim _remove_batch_dim _vmap_increment_nesting "
                         "_vmap_decrement_nesting is_batchedtensor is_legacy_batchedtensor get_unwrapped "
                         "maybe_get_bdim",
           "_distributed_rpc": "_is_current_rpc_agent_set", "_distributed_c10d": "ProcessGroup Store", "_dynamo": "",
           "_onnx": "TensorProtoDataType OperatorExportTypes TrainingMode", "_profiler": "", "_autograd": ""}
_CLASSES = frozenset("ScriptFunction ScriptModule ScriptMethod ScriptObject Graph Node Value Block DispatchKey "
                     "DispatchKeySet FunctionSchema TensorType ListType DictType TupleType OptionalType IntType "
                     "FloatType BoolType StringType NumberType ClassType InterfaceType CompilationUnit "
                     "PyTorchFileReader PyTorchFileWriter StreamObjType DeviceObjType JITException".split())
_made: dict[str, Any] = {}


def _cuda_count() -> int:
    return _C._device_count("cuda")


def _any_autocast() -> bool:
    return _C._autocast_dtype(True) is not None or _C._autocast_dtype(False) is not None


def _transforming() -> bool:
    """Is a function of cairn.func at work?"""
    from . import func
    return getattr(func._state, "depth", 0) > 0


def _no() -> bool:
    return False


def _accelerator(check: bool = False) -> Any:  # unused: check (always done)
    """The device beside the CPU; without one the CPU."""
    from .accelerator import current_accelerator
    return current_accelerator() or _C.device("cpu")


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _jit_setting(name: str) -> Any:
    """A switch of torch's script compiler, which is not there: it is off."""
    def setting(*value: Any) -> bool:
        if len(value) > 2:
            raise TypeError("%s: too many arguments" % name)
        return False
    return setting


def _show_config() -> str:
    from . import __config__ as config

    return config.show()


def _find(name: str) -> Any:
    import cairn
    from . import overrides
    if name == "__path__":  # so that `import torch._C._functorch` finds what is below
        return []
    if name in _CLASSES:
        return _absent.kind("cairn._C", name, _WHY)
    if name in _SPACES:
        return _absent.Space("cairn._C." + name, _SPACES[name], _WHY)
    if name == "_nn":
        return _Nn("cairn._C._nn")
    plain = {"_disabled_torch_function_impl": switched_off, "_disabled_torch_dispatch_impl": switched_off,
             "_log_api_usage_once": _log_api_usage_once, "_TensorMeta": type(Tensor), "_TensorBase": _C.TensorBase,
             "_get_tracing_state": _get_tracing_state, "_is_tracing": _C._tracing, "Size": cairn.Size,
             "DisableTorchFunctionSubclass": overrides.DisableTorchFunctionSubclass, "Generator": cairn.Generator,
             "DisableTorchFunction": overrides.DisableTorchFunction, "_VariableFunctions": cairn,
             "_linalg": cairn.linalg, "_special": cairn.special, "_cuda_getDeviceCount": _cuda_count,
             "_cuda_isInBadFork": _no, "_has_xpu": False, "_has_mps": False,
             "_get_cudnn_enabled": lambda: True, "_is_torch_function_mode_enabled": lambda: bool(overrides._modes),
             "_is_alias_of": _same_memory, "_show_config": _show_config,
             "_set_math_sdp_allow_fp16_bf16_reduction": lambda on: None,
             "_get_privateuse1_backend_name": lambda: "privateuseone",
             "_get_default_device": lambda: str(cairn.get_default_device()), "_get_accelerator": _accelerator,
             "_cuda_clearCublasWorkspaces": lambda: None,
             "_is_any_autocast_enabled": _any_autocast, "_are_functorch_transforms_active": _transforming}
    if name.startswith(("_jit_set_", "_jit_override_", "_jit_can_", "_get_graph_executor", "_set_graph_executor")):
        return _jit_setting(name)
    if name not in plain:
        raise AttributeError("module 'cairn._C' has no attribute %r" % (name,))
    return plain[name]


def by_name(name: str) -> Any:
    """The value of that name, the same each time, or AttributeError."""
    if name not in _made:
        _made[name] = _find(name)
    return _made[name]
