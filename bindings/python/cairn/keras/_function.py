"""Function: a function of cairn.keras.ops as a layer, which is what operators and ops become while a model is built."""
from __future__ import annotations

from typing import Any, Callable

from .layers.base import Layer, snake

__all__ = ["Function"]

_spaces = {"nn": ("relu relu6 sigmoid sparse_sigmoid softplus softsign soft_shrink sparse_plus silu squareplus "
                  "log_sigmoid leaky_relu hard_sigmoid hard_silu elu selu gelu celu glu tanh_shrink hard_tanh "
                  "hard_shrink threshold softmax log_softmax sparsemax max_pool average_pool conv depthwise_conv "
                  "separable_conv conv_transpose one_hot binary_crossentropy categorical_crossentropy "
                  "sparse_categorical_crossentropy moments normalize layer_normalization"),
           "core": "cast scatter scatter_update slice slice_update stop_gradient unstack",
           "math": "segment_sum segment_max top_k in_top_k logsumexp erf erfinv rsqrt stft istft fft rfft irfft logdet",
           "linalg": "cholesky det eig eigh inv lu_factor norm qr solve solve_triangular svd"}
_classes = {"hard_swish": "HardSilu", "swish": "Silu", "divide": "Divide", "abs": "Absolute", "amax": "Amax",
            "hard_silu": "HardSilu"}
_binary = ("add subtract multiply divide true_divide floor_divide power mod matmul dot maximum minimum equal not_equal "
           "greater greater_equal less less_equal logical_and logical_or get_item where arctan2 einsum").split()


class Function(Layer):
    """One call of an op: it has no weights. op: the name in cairn.keras.ops; settings: arguments that are no places."""

    def __init__(self, op: str, name: str | None = None, settings: dict[str, Any] | None = None,
                 function: Callable[..., Any] | None = None) -> None:
        super().__init__(name=name)
        from . import ops
        self.op, self.settings = op, settings or {}
        self.function = function or getattr(ops, op)
        self.built = True

    @staticmethod
    def of(class_name: str) -> Any:
        """What makes Functions of a class of Keras's ops."""
        return _Maker(class_name)

    @property
    def class_name(self) -> str:
        return _classes.get(self.op) or "".join(part.capitalize() for part in self.op.split("_"))

    @property
    def op_module(self) -> str:
        for space, names in _spaces.items():
            if self.op in names.split():
                return "keras.src.ops." + space
        return "keras.src.ops.numpy"

    def get_config(self) -> dict[str, Any]:
        from . import ops
        if self.function is not getattr(ops, self.op, None):
            raise ValueError("%s is a function without a name and cannot be saved; make it a layer" % self.name)
        return {"name": self.name, **self.settings}

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **self.settings, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("training", None)
        return super().__call__(*args, **kwargs)


class _Maker:
    def __init__(self, class_name: str) -> None:
        self.class_name = class_name

    def from_config(self, config: dict[str, Any]) -> Function:
        known = {v: k for k, v in _classes.items() if k != "swish"}
        op = known.get(self.class_name) or snake(self.class_name)
        settings = {k: v for k, v in config.items() if k not in ("name", "dtype")}
        return Function(op, config.get("name"), settings)


def call_op(f: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of an op on places: arguments without places are settings of the Function, by their names."""
    import inspect
    from ._graph import has_symbol
    from .backend import unique_name
    settings: dict[str, Any] = {}
    if op not in _binary:
        parts = list(inspect.signature(f).parameters.values())
        if not any(p.kind is p.VAR_POSITIONAL for p in parts):
            named = {**dict(zip([p.name for p in parts], args)), **kwargs}
            first = True
            args, kwargs = (), {}
            for key, value in named.items():
                if has_symbol(value) and first:
                    args += (value,)
                elif has_symbol(value):
                    kwargs[key] = value
                else:
                    first = False
                    settings[key] = value
    return Function(op, unique_name(op), settings, f)(*args, **kwargs)
