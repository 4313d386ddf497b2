"""Functions of torch's inside (aten) under their names there: normalisations that give their statistics as well,
attention with the logarithms of its sums. Programs that were exported, or written against torch's graphs, call them.
"""
from __future__ import annotations

import builtins
from typing import Any, Sequence

from . import _C
from ._forms import _public
from ._modes import no_grad
from ._tensor import Tensor

__all__ = ["_batch_norm_with_update", "_native_batch_norm_legit", "_scaled_dot_product_flash_attention_for_cpu",
           "_upsample_bilinear2d_aa", "native_batch_norm", "native_group_norm", "native_layer_norm"]


def native_layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None,
                      bias: Tensor | None, eps: builtins.float) -> tuple[Tensor, Tensor, Tensor]:
    """layer_norm, the means and 1 / sqrt(var + eps); the statistics carry no gradient, and are of the weights' type, or
    of input's where there are none."""
    output, mean, rstd = _C.native_layer_norm(input, normalized_shape, weight, bias, eps)
    kind = next((t.dtype for t in (weight, bias) if t is not None), input.dtype)
    return output, mean.detach().to(kind), rstd.detach().to(kind)


def _asking(result: Tensor, given: Sequence[Tensor]) -> Tensor:
    """The result, which asks for a gradient where one of these does, as in torch: it is zero for them."""
    if given and not result.requires_grad:
        never = _C.zeros((), dtype=_C.bool, device=result.device)
        result = _C.where(never, given[0].flatten()[0].to(result.dtype), result)
    return result


def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: builtins.int, C: builtins.int,
                      HxW: builtins.int, group: builtins.int,
                      eps: builtins.float) -> tuple[Tensor, Tensor, Tensor]:
    """group_norm of (N, C, ...) with HxW elements behind, the means and 1 / sqrt(var + eps), (N, group)."""
    if input.numel() != N * C * HxW or input.shape[:2] != (N, C):
        raise RuntimeError("native_group_norm: the input is %s, which is not (%d, %d) and %d elements behind"
                           % (tuple(input.shape), N, C, HxW))
    output = _C.group_norm(input, group, weight, bias, eps)
    rows = input.reshape(N, group, C // group * HxW)
    wide = rows if rows.dtype == _C.float64 else rows.to(_C.float32)
    var, mean = _C.var_mean(wide, [2], correction=0)
    given = [t for t in (weight, bias) if t is not None and t.requires_grad]
    return output, _asking(mean.to(input.dtype), given), _asking(_C.rsqrt(var + eps).to(input.dtype), given)


def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
                      running_var: Tensor | None, training: builtins.bool, momentum: builtins.float,
                      eps: builtins.float, *,
                      out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm, and in training the means and 1 / sqrt(var + eps) that it used, without gradient."""
    output, mean, invstd, var = _C.native_batch_norm(input, weight, bias, running_mean, running_var, training, eps)
    if training:
        if mean.dtype != input.dtype and running_mean is not None:   # what is saved is rounded to the half type
            mean = input.detach().to(mean.dtype).mean([d for d in range(input.ndim) if d != 1])
        for running, new in ((running_mean, mean), (running_var, var)):
            if running is not None:
                running.copy_(_C.lerp(running.to(new.dtype), new.detach(), momentum))
    none = input.detach().new_empty((0,))
    saved = [s.detach().to(input.dtype) if training else none for s in (mean, invstd)]
    if out is None:
        return output, saved[0], saved[1]
    for target, value in zip(out, (output, *saved)):
        target.resize_(value.shape).copy_(value)
    return out[0], out[1], out[2]


def _native_batch_norm_legit(input: Tensor, weight: Tensor | None, bias: Tensor | None, *more: Any,
                             out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """native_batch_norm; running_mean and running_var may both be left out."""
    running = more[:-3] if len(more) == 5 else (None, None)
    if len(more) not in (3, 5):
        raise TypeError("_native_batch_norm_legit() takes running_mean and running_var, or neither, and training, "
                        "momentum, eps")
    return native_batch_norm(input, weight, bias, *running, *more[-3:], out=out)


def _batch_norm_with_update(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
                            running_var: Tensor, momentum: builtins.float, eps: builtins.float, *,
                            out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """native_batch_norm in training, and an empty tensor: what cuDNN would keep for its backward."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps,
                              out=None if out is None else out[:3])
    reserve = _C.empty((0,), dtype=_C.uint8, device=input.device)
    return (*found, reserve if out is None else out[3].resize_((0,)))


def _scaled_dot_product_flash_attention_for_cpu(
        query: Tensor, key: Tensor, value: Tensor, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False,
        *, attn_mask: Tensor | None = None, scale: builtins.float | None = None) -> tuple[Tensor, Tensor]:
    """scaled_dot_product_attention and the logarithms of its sums of exponentials, (N, heads, queries), which carry no
    gradient."""
    if dropout_p:
        raise RuntimeError("_scaled_dot_product_flash_attention_for_cpu does not support dropout > 0.0")
    output = _C.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale)
    with no_grad():
        wide = _C.float64 if query.dtype == _C.float64 else _C.float32
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = (query.to(wide) * factor) @ key.to(wide).mT
        if is_causal:
            seen = _C.ones(scores.shape[-2:], dtype=_C.bool, device=query.device).tril()
            scores = scores.masked_fill(~seen, -float("inf"))
        if attn_mask is not None:
            scores = scores + attn_mask.to(wide)
        return output, _C.logsumexp(scores, [-1])


def _upsample_bilinear2d_aa(input: Tensor, output_size: Sequence[builtins.int] | None, align_corners: builtins.bool,
                            scales_h: builtins.float | None = None, scales_w: builtins.float | None = None, *,
                            scale_factors: Sequence[builtins.float] | None = None) -> Tensor:
    """interpolate, bilinear with antialias, to a size or by factors."""
    if scale_factors is not None:
        if output_size is not None:
            raise RuntimeError("_upsample_bilinear2d_aa: give either output_size or scale_factors")
        scales_h, scales_w = scale_factors
        output_size = [builtins.int(n * f) for n, f in zip(input.shape[-2:], scale_factors)]
    if output_size is None:
        raise RuntimeError("_upsample_bilinear2d_aa: give output_size or scale_factors")
    return _C.upsample_bilinear2d_aa(input, output_size, align_corners, scales_h, scales_w)


_public(globals())
