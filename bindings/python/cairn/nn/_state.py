"""The state of modules: dictionaries of tensors by name, copies, pickles."""
from __future__ import annotations

import copy
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple

from .. import _C
from .._modes import no_grad
from .._tensor import Tensor
from .parameter import Parameter

__all__ = ()


class _IncompatibleKeys(NamedTuple):
    """What load_state_dict returns."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return "_IncompatibleKeys(missing_keys=%r, unexpected_keys=%r)" % (self.missing_keys, self.unexpected_keys)


class State:
    """The part of Module that saves and loads."""

    _version: int = 1

    if TYPE_CHECKING:  # ModuleBase and Hooks have them
        _parameters: Any
        _buffers: Any
        _modules: Any
        _class_name: Any
        training: bool
        def _arguments(self) -> dict[str, Any]: ...
        def _copy_from(self, other: Any, /) -> None: ...
        def _set_patched(self, on: bool, /) -> None: ...
        def _hooks_changed(self) -> None: ...
        def _run_state_dict_pre_hooks(self, prefix: str, keep_vars: bool) -> None: ...
        def _run_state_dict_hooks(self, destination: Any, prefix: str, metadata: Any) -> Any: ...
        def _run_load_pre_hooks(self, state_dict: Any, prefix: str, *rest: Any) -> None: ...

    def get_extra_state(self) -> Any:
        raise RuntimeError("get_extra_state is to be overridden where a state has more than tensors")

    def set_extra_state(self, state: Any) -> None:
        raise RuntimeError("set_extra_state is to be overridden where get_extra_state is")

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._buffers.transient:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by their full names, sharing the module's memory."""
        if args:
            destination, prefix, keep_vars = (args + (destination, prefix, keep_vars)[len(args):])[:3]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        self._run_state_dict_pre_hooks(prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        return self._run_state_dict_hooks(destination, prefix, metadata)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
                              missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:
        """Takes this module's own tensors out of a state dictionary; what does not fit is noted in the three lists."""
        self._run_load_pre_hooks(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = (local_metadata or {}).get("assign_to_params_buffers", False)
        for part in (self._parameters, self._buffers):
            for name, have in list(part.items()):
                if have is None or name in self._buffers.transient:
                    continue
                key = prefix + name
                if key not in state_dict:
                    if strict:
                        missing_keys.append(key)
                    continue
                given = state_dict[key]
                if not isinstance(given, Tensor):
                    given = _foreign_tensor(given)
                if given is None:
                    error_msgs.append('While copying the parameter named "%s", expected a Tensor, got %s.'
                                      % (key, type(state_dict[key]).__name__))
                    continue
                self._take(part, name, have, given, key, assign, error_msgs)
        self._load_extra(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._note_unexpected(state_dict, prefix, unexpected_keys)

    def _take(self, part: dict[str, Any], name: str, have: Tensor, given: Tensor, key: str, assign: bool,
              error_msgs: list[str]) -> None:
        if have.ndim == 0 and tuple(given.shape) == (1,):
            given = given[0]
        if have.shape != given.shape:
            error_msgs.append("size mismatch for %s: copying a param with shape %s from checkpoint, the shape in "
                              "current model is %s." % (key, given.shape, have.shape))
            return
        if assign:
            if isinstance(have, Parameter) and not isinstance(given, Parameter):
                given = Parameter(given, requires_grad=have.requires_grad)
            part[name] = given
            return
        with no_grad():
            have.copy_(given.to(have.device) if given.device != have.device else given)

    def _load_extra(self, state_dict: Any, prefix: str, strict: bool, missing_keys: list[str],
                    unexpected_keys: list[str]) -> None:
        key = prefix + "_extra_state"
        if type(self).set_extra_state is not State.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _note_unexpected(self, state_dict: Any, prefix: str, unexpected_keys: list[str]) -> None:
        for key in state_dict:
            if key.startswith(prefix) and key != prefix + "_extra_state":
                first, *rest = key[len(prefix):].split(".", 1)
                own = first in self._parameters or (first in self._buffers and first not in self._buffers.transient)
                if rest and first not in self._modules:
                    unexpected_keys.append(key)
                elif not rest and not own:
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> _IncompatibleKeys:
        """Copies values in by name; strict wants the same names on both sides. assign takes the tensors themselves."""
        if not isinstance(state_dict, Mapping):
            raise TypeError("Expected state_dict to be dict-like, got %s." % type(state_dict))
        metadata = getattr(state_dict, "_metadata", None) or {}
        state: Any = OrderedDict(state_dict)
        if metadata:
            state._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        def load(module: Any, prefix: str) -> None:
            local = dict(metadata.get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    load(child, prefix + name + ".")
            module._run_load_post_hooks(_IncompatibleKeys(missing, unexpected))

        load(self, "")
        if strict and unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: %s. " % ", ".join('"%s"' % k for k in unexpected))
        if strict and missing:
            errors.insert(0, "Missing key(s) in state_dict: %s. " % ", ".join('"%s"' % k for k in missing))
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for %s:\n\t%s"
                               % (type(self).__name__, "\n\t".join(errors)))
        return _IncompatibleKeys(missing, unexpected)

    # ---- copies and files ----
    def _rest(self) -> dict[str, Any]:
        """Attributes that are no parts of the tree."""
        parts = (self._parameters, self._buffers, self._modules)
        return {k: v for k, v in self.__dict__.items() if not any(k in part for part in parts)}

    def _like(self, parameters: Any, buffers: Any, modules: Any, rest: dict[str, Any]) -> Any:
        made = type(self).__new__(type(self))
        made._copy_from(self)
        made._buffers.transient.update(self._buffers.transient)
        for part, values in ((made._parameters, parameters), (made._buffers, buffers), (made._modules, modules)):
            part.update(values)
        made.__dict__.update(rest)
        made._revived()
        return made

    def __copy__(self) -> Any:
        return self._like(self._parameters, self._buffers, self._modules, self._rest())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made._copy_from(self)
        made._buffers.transient.update(self._buffers.transient)
        for mine, its in ((self._parameters, made._parameters), (self._buffers, made._buffers),
                          (self._modules, made._modules)):
            for name, value in mine.items():
                its[name] = copy.deepcopy(value, memo)
        for name, value in self._rest().items():
            made.__dict__[name] = copy.deepcopy(value, memo)
        made._revived()
        return made

    def _revived(self) -> None:
        """After it was copied or read: what C must know of it beside its parts."""
        self._hooks_changed()
        if "forward" in self.__dict__:
            self._set_patched(True)

    def _recipe(self) -> tuple[str | None, dict[str, Any]]:
        """The class in C and the arguments that _rebuild makes it with."""
        return self._class_name, self._arguments() if self._class_name else {}

    def __getstate__(self) -> dict[str, Any]:
        state = self._rest()
        state.update(training=self.training, _parameters=dict(self._parameters), _buffers=dict(self._buffers),
                     _modules=dict(self._modules), _non_persistent_buffers_set=set(self._buffers.transient))
        return state

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self), *self._recipe()), self.__getstate__()

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._buffers.transient.update(state.pop("_non_persistent_buffers_set", ()))
        for part in ("_parameters", "_buffers", "_modules"):
            values = state.pop(part, {})
            mine = getattr(self, part)
            for name in [k for k in mine if k not in values]:
                if values:
                    del mine[name]
            mine.update(values)
        self.training = state.pop("training", True)
        for name, value in state.items():
            setattr(self, name, value)
        self._revived()


def _rebuild(cls: Any, name: str | None, arguments: dict[str, Any]) -> Any:
    """A module as pickle had it, before its state is put in."""
    made = cls.__new__(cls)
    if name is None:
        made._begin()
    else:
        made._make(name, **arguments)
    return made


def _foreign_tensor(value: Any) -> Tensor | None:
    """Another library's tensor or array as one of ours; None for what is none."""
    if hasattr(value, "__dlpack__"):
        value = value.detach() if hasattr(value, "detach") else value
        made: Tensor = _C.from_dlpack(value)
        return made
    return None
