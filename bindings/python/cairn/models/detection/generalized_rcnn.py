"""The way of a detector with proposals: images in, backbone, proposals, heads, boxes out.
torchvision.models.detection.generalized_rcnn's name."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Sequence

from ... import nn
from ..._tensor import Tensor

__all__ = ["GeneralizedRCNN"]

Target = dict[str, Tensor]


def check_boxes(targets: Sequence[Target] | None) -> None:
    """What training wants of targets: boxes (n, 4)."""
    if targets is None:
        raise AssertionError("targets should not be none when in training mode")
    for target in targets:
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise AssertionError("Expected target boxes to be of type Tensor, got %s." % type(boxes))
        if boxes.ndim != 2 or boxes.shape[-1] != 4:
            raise AssertionError("Expected target boxes to be a tensor of shape [N, 4], got %s."
                                 % (tuple(boxes.shape),))


def check_positive(targets: Sequence[Target] | None) -> None:
    """A box has a width and a height."""
    for i, target in enumerate(targets or ()):
        empty = (target["boxes"][:, 2:] <= target["boxes"][:, :2]).any(1)
        if empty.any():
            at = int(empty.nonzero()[0, 0])
            raise AssertionError("All bounding boxes should have positive height and width. Found invalid box %s for "
                                 "target at index %d." % (target["boxes"][at].tolist(), i))


def as_maps(features: Any) -> dict[str, Tensor]:
    """What a backbone gives, by names."""
    return OrderedDict([("0", features)]) if isinstance(features, Tensor) else features


class GeneralizedRCNN(nn.Module):
    """In training the losses by their names, else for each image boxes, labels, scores, and what the heads add."""

    transform: Any
    roi_heads: Any

    def __init__(self, backbone: nn.Module, rpn: nn.Module, roi_heads: nn.Module, transform: nn.Module) -> None:
        super().__init__()
        self.transform, self.backbone, self.rpn, self.roi_heads = transform, backbone, rpn, roi_heads

    def forward(self, images: Sequence[Tensor], targets: Sequence[Target] | None = None) -> Any:
        if self.training:
            check_boxes(targets)
        before = [(int(m.shape[-2]), int(m.shape[-1])) for m in images]
        batch, changed = self.transform(images, targets)
        check_positive(changed)
        maps = as_maps(self.backbone(batch.tensors))
        proposals, rpn_losses = self.rpn(batch, maps, changed)
        found, losses = self.roi_heads(maps, proposals, batch.image_sizes, changed)
        found = self.transform.postprocess(found, batch.image_sizes, before)
        return {**losses, **rpn_losses} if self.training else found
