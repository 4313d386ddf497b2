"""torchvision.ops' names: boxes, and the parts that its networks are built from. Put together from ops of the library.

Boxes are (n, 4): left, top, right, bottom.
"""
from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

from . import _C, nn
from ._tensor import Tensor
from .nn import functional as _F

__all__ = ["Conv2dNormActivation", "MLP", "Permute", "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area",
           "box_convert", "box_iou", "clip_boxes_to_image", "generalized_box_iou", "nms", "remove_small_boxes",
           "sigmoid_focal_loss", "stochastic_depth", "FrozenBatchNorm2d"]

__path__: list[str] = []
for _part in ("boxes", "focal_loss", "misc", "stochastic_depth"):  # torchvision.ops.misc and so on: these names
    sys.modules[__name__ + "." + _part] = sys.modules[__name__]
del _part


# ---- boxes ----

def box_area(boxes: Tensor) -> Tensor:
    """The area of each box, (n)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another form: xyxy (left, top, right, bottom), xywh (left, top, width, height), cxcywh (the middle,
    width, height)."""
    forms = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in forms or out_fmt not in forms:
        raise ValueError("boxes are given as %s, not as %r or %r" % (", ".join(forms), in_fmt, out_fmt))
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return _C.stack((a, b, c, d), -1)


def _shared(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """What each box of one and each of two have in common, and what they cover together: (n, m) each."""
    corner = _C.maximum(one[:, None, :2], two[:, :2])
    sides = (_C.minimum(one[:, None, 2:], two[:, 2:]) - corner).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    return common, box_area(one)[:, None] + box_area(two) - common


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """What two boxes have in common as a part of what they cover, (n, m)."""
    common, both = _shared(boxes1, boxes2)
    return common / both


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """box_iou less the part of the smallest box around both that neither covers."""
    common, both = _shared(boxes1, boxes2)
    sides = (_C.maximum(boxes1[:, None, 2:], boxes2[:, 2:]) - _C.minimum(boxes1[:, None, :2], boxes2[:, :2]))
    around = sides.clamp(min=0)[..., 0] * sides.clamp(min=0)[..., 1]
    return common / both - (around - both) / around


def clip_boxes_to_image(boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Boxes that end at the sides of an image (height, width)."""
    high, wide = size
    x, y = boxes[..., 0::2].clamp(0, wide), boxes[..., 1::2].clamp(0, high)
    return _C.stack((x, y), -1).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The numbers of those boxes whose sides are min_size or longer."""
    fits = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return fits.nonzero().squeeze(1)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The numbers of the boxes that stay, the best first, when each drops those worse than it that overlap with it by
    more than the threshold."""
    order = scores.argsort(descending=True, stable=True)
    overlap = (box_iou(boxes[order], boxes[order]) > iou_threshold).tolist()
    dropped: set[int] = set()
    kept = []
    for i, row in enumerate(overlap):
        if i not in dropped:
            kept.append(i)
            dropped.update(j for j in range(i + 1, len(row)) if row[j])
    return order[_C.tensor(kept, dtype=_C.int64, device=boxes.device)]


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """nms of each class (idxs) by itself."""
    if boxes.numel() == 0:
        return _C.empty((0,), dtype=_C.int64, device=boxes.device)
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)  # classes do not touch each other then
    return nms(boxes + apart[:, None], scores, iou_threshold)


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2,
                       reduction: str = "none") -> Tensor:
    """The binary cross entropy of scores, in which examples that are easy count less."""
    p = inputs.sigmoid()
    loss = _F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction not in ("none", "mean", "sum"):
        raise ValueError("reduction is none, mean or sum, not %r" % (reduction,))
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


# ---- parts of networks ----

def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Whole samples (mode "row"), or the batch ("batch"), set to zero with probability p in training; the others are
    scaled up for it."""
    if not 0 <= p <= 1:
        raise ValueError("p is a probability, not %s" % p)
    if mode not in ("batch", "row"):
        raise ValueError("mode is batch or row, not %r" % (mode,))
    if not training or p == 0:
        return input
    stays = _C.empty([input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1), dtype=input.dtype,
                     device=input.device).bernoulli_(1 - p)
    return input * (stays / (1 - p) if p < 1 else stays)


class StochasticDepth(nn.Module):
    """stochastic_depth as a layer."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return "%s(p=%s, mode=%s)" % (type(self).__name__, self.p, self.mode)


class Permute(nn.Module):
    """The dimensions in another order."""

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)


class FrozenBatchNorm2d(nn.Module):
    """A batch norm whose statistics and factors stay as they are: all four are buffers."""
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, _C.full((num_features,), value))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        scale = (self.weight * (self.running_var + self.eps).rsqrt())[:, None, None]
        return x * scale + (self.bias[:, None, None] - self.running_mean[:, None, None] * scale)

    def extra_repr(self) -> str:
        return "%d, eps=%s" % (self.weight.shape[0], self.eps)


class Conv2dNormActivation(nn.Sequential):
    """A convolution that keeps sizes, a norm and an activation; norm_layer or activation_layer None leaves one out."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1, padding: Any = None,
                 groups: int = 1, norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, dilation: Any = 1,
                 inplace: bool | None = True, bias: bool | None = None) -> None:
        if padding is None:
            sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * 2
            gaps = dilation if isinstance(dilation, (list, tuple)) else (dilation,) * 2
            around = tuple((k - 1) // 2 * d for k, d in zip(sizes, gaps))
            padding = around[0] if around[0] == around[1] else around
        layers: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                                             bias=norm_layer is None if bias is None else bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer() if inplace is None else activation_layer(inplace=inplace))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    """Each channel times a number that is computed from the means of all."""

    def __init__(self, input_channels: int, squeeze_channels: int, activation: Callable[..., nn.Module] = nn.ReLU,
                 scale_activation: Callable[..., nn.Module] = nn.Sigmoid) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale: Tensor = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return scale * input


class MLP(nn.Sequential):
    """Linear layers with an activation and dropout between them."""

    def __init__(self, in_channels: int, hidden_channels: Sequence[int],
                 norm_layer: Callable[..., nn.Module] | None = None,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, inplace: bool | None = None,
                 bias: bool = True, dropout: float = 0.0) -> None:
        given: dict[str, Any] = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        for i, width in enumerate(hidden_channels):
            layers.append(nn.Linear(in_channels, width, bias=bias))
            if i + 1 < len(hidden_channels):
                if norm_layer is not None:
                    layers.append(norm_layer(width))
                if activation_layer is not None:
                    layers.append(activation_layer(**given))
            layers.append(nn.Dropout(dropout, **given))
            in_channels = width
        super().__init__(*layers)


_ABSENT = ("DeformConv2d FeaturePyramidNetwork MultiScaleRoIAlign PSRoIAlign PSRoIPool RoIAlign RoIPool complete_box_iou "
           "complete_box_iou_loss deform_conv2d distance_box_iou distance_box_iou_loss drop_block2d drop_block3d "
           "generalized_box_iou_loss masks_to_boxes ps_roi_align ps_roi_pool roi_align roi_pool").split()


def __getattr__(name: str) -> Any:
    """torchvision's other ops, which raise when they are used, and torch.ops' namespaces."""
    if name in _ABSENT:
        from . import _absent
        make = _absent.kind if name[0].isupper() else _absent.function
        made = globals()[name] = make(__name__, name, "this op of torchvision has no counterpart in cairn")
        return made
    if name.startswith("__"):
        raise AttributeError("module 'cairn.ops' has no attribute %r" % (name,))
    from ._ops import namespace
    return namespace(name)
