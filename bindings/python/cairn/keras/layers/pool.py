"""Pooling: the largest or the mean number of windows, of everything, or of as many parts as asked for."""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .windows import Windowed, padded, same_pads, to_first, to_last, tuple_of

__all__ = [
    "AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D",
    "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D",
    "AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D",
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D",
    "MaxPooling1D", "MaxPooling2D", "MaxPooling3D"]


class _Pool(Windowed):
    kind = "max"

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None,
                 name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._format(data_format)
        self.pool_size = tuple_of(pool_size, self.ndim, "pool_size")
        self.strides = self.pool_size if strides is None else tuple_of(strides, self.ndim, "strides")
        self._padding(padding)
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        ones = (1,) * self.ndim
        room = same_pads(x.shape[2:], self.pool_size, self.strides, ones) if self.padding == "same" else []
        if self.kind == "max":
            op: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.ndim - 1]
            out = op(padded(x, room, -3e38 if x.dtype != cairn.float16 else -6e4), self.pool_size, self.strides)
        else:
            op = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[self.ndim - 1]
            out = op(padded(x, room), self.pool_size, self.strides)
            if any(a or b for a, b in room):  # the mean is of what is there
                there = padded(cairn.ones((1, 1) + tuple(x.shape[2:]), dtype=x.dtype, device=x.device), room)
                out = out / op(there, self.pool_size, self.strides)
        return out if self.channels_first else to_last(out)


class MaxPooling1D(_Pool):
    ndim = 1


class MaxPooling2D(_Pool):
    pass


class MaxPooling3D(_Pool):
    ndim = 3


class AveragePooling1D(_Pool):
    ndim, kind = 1, "average"


class AveragePooling2D(_Pool):
    kind = "average"


class AveragePooling3D(_Pool):
    ndim, kind = 3, "average"


class _Global(Windowed):
    kind = "average"

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self._options(keepdims=keepdims)
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        dims = tuple(range(2, inputs.ndim)) if self.channels_first else tuple(range(1, inputs.ndim - 1))
        if self.kind == "max":
            return inputs.amax(dims, keepdim=self.keepdims)
        return inputs.mean(dims, keepdim=self.keepdims)


class GlobalAveragePooling1D(_Global):  # unused: inputs, mask (Keras's signature)
    """Steps that a mask leaves out do not count."""

    ndim = 1
    supports_masking = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return super().call(inputs)
        self._check(inputs)
        at = 2 if self.channels_first else 1
        seen = mask.to(inputs.dtype).unsqueeze(1 if self.channels_first else 2)
        return (inputs * seen).sum(at, keepdim=self.keepdims) / seen.sum(at, keepdim=self.keepdims)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


class GlobalAveragePooling2D(_Global):
    pass


class GlobalAveragePooling3D(_Global):
    ndim = 3


class GlobalMaxPooling1D(_Global):
    ndim, kind = 1, "max"


class GlobalMaxPooling2D(_Global):
    kind = "max"


class GlobalMaxPooling3D(_Global):
    ndim, kind = 3, "max"


class _Adaptive(Windowed):
    kind = "average"

    def __init__(self, output_size: Any, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.output_size = tuple_of(output_size, self.ndim, "output_size")
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        ops: Any = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d) if self.kind == "max" else \
            (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
        out = ops[self.ndim - 1](x, list(self.output_size))
        return out if self.channels_first else to_last(out)


class AdaptiveAveragePooling1D(_Adaptive):
    ndim = 1


class AdaptiveAveragePooling2D(_Adaptive):
    pass


class AdaptiveAveragePooling3D(_Adaptive):
    ndim = 3


class AdaptiveMaxPooling1D(_Adaptive):
    ndim, kind = 1, "max"


class AdaptiveMaxPooling2D(_Adaptive):
    kind = "max"


class AdaptiveMaxPooling3D(_Adaptive):
    ndim, kind = 3, "max"


MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (GlobalAveragePooling1D, GlobalAveragePooling2D,
                                                     GlobalAveragePooling3D)
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
