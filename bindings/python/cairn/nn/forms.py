"""Layers whose torch form is more than a signature."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .. import _C
from .._tensor import Tensor
from . import functional as F
from ._layers import SyncBatchNorm
from ._losses import _lengths
from .layer import _BatchNorm, _Layer, _Loss, _Parametric, _register
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss", "CTCLoss", "CrossMapLRN2d", "Embedding", "EmbeddingBag", "Identity",
           "TripletMarginWithDistanceLoss", "Unflatten"]


class Identity(_Layer):
    """Gives its input back. Arguments of the constructor are of no effect."""

    _own_forward = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # unused: args, kwargs (it stands in for other layers)
        self._build("Identity")

    def forward(self, input: Any) -> Any:
        return input


class Embedding(_Parametric):
    """Rows of a table that whole numbers name."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device: Any = None,
                 dtype: Any = None) -> None:
        self._build("Embedding", num_embeddings, embedding_dim, padding_idx, max_norm, norm_type,
                    bool(scale_grad_by_freq), bool(sparse), _weight, bool(_freeze), device, dtype)

    def _settled(self) -> None:
        if self.padding_idx is not None and self.padding_idx < 0:
            self.__dict__["padding_idx"] = self.padding_idx + self.num_embeddings

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
                        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Any:
        """With that table, which is not trained unless freeze is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        return cls(rows, width, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
                   scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, _weight=embeddings, _freeze=freeze)


class EmbeddingBag(_Parametric):
    """Sums, means or maxima of the rows of a table that each bag of numbers names."""

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                 _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
                 device: Any = None, dtype: Any = None) -> None:
        self._build("EmbeddingBag", num_embeddings, embedding_dim, max_norm, norm_type, bool(scale_grad_by_freq), mode,
                    bool(sparse), _weight, bool(include_last_offset), padding_idx, device, dtype)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None,
                        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                        sparse: bool = False, include_last_offset: bool = False,
                        padding_idx: int | None = None) -> Any:
        """With that table, which is not trained unless freeze is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        made = cls(rows, width, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq,
                   mode=mode, sparse=sparse, _weight=embeddings, include_last_offset=include_last_offset,
                   padding_idx=padding_idx)
        made.weight.requires_grad_(not freeze)
        return made


class Unflatten(_Layer):
    """One dimension split into several; one of their sizes may be -1."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        if not isinstance(dim, int):
            raise TypeError("unflattened_size: a dimension is a number here, not %s" % type(dim).__name__)
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError("unflattened_size must be tuple of ints, but found %r" % (unflattened_size,))
        self._build("Unflatten", dim, tuple(unflattened_size))


class TripletMarginWithDistanceLoss(_Loss):
    """max(d(anchor, positive) - d(anchor, negative) + margin, 0) with a distance d: a module or any function."""

    _own_forward = False
    _native = _Loss.forward

    def __init__(self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
                 swap: bool = False, reduction: str = "mean") -> None:
        module = distance_function if isinstance(distance_function, Module) else None
        self._build("TripletMarginWithDistanceLoss", distance_function=module, margin=margin, swap=bool(swap),
                    reduction=reduction)
        if distance_function is not None and module is None:
            del self._modules["distance_function"]
            self.distance_function = distance_function
        self._revived()

    def _revived(self) -> None:
        super()._revived()
        if not isinstance(self.distance_function, Module):
            self._set_patched(True)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        if isinstance(self.distance_function, Module):
            made: Tensor = self._native(anchor, positive, negative)
            return made
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, margin=self.margin, swap=self.swap,
                                                   distance_function=self.distance_function, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification: how unlikely a text is, given log probabilities of letters over time.
    Lengths are tensors, lists or tuples."""

    _own_forward = False
    _native = _Loss.forward

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        self._build("CTCLoss", blank, reduction, bool(zero_infinity))

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        made: Tensor = self._native(log_probs, targets, _lengths(input_lengths, log_probs),
                                    _lengths(target_lengths, log_probs))
        return made


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(_Layer):
    """A softmax over many classes, the rare ones in clusters: gives the log probability of each target and the loss."""

    _own_forward = False
    _native = _Layer.forward

    def __init__(self, in_features: int, n_classes: int, cutoffs: Any, div_value: float = 4.0,
                 head_bias: bool = False, device: Any = None, dtype: Any = None) -> None:
        self._build("AdaptiveLogSoftmaxWithLoss", in_features, n_classes, list(cutoffs), div_value, bool(head_bias),
                    device, dtype)

    def _settled(self) -> None:
        rest = self.__dict__
        cutoffs = list(rest["cutoffs"])
        if not cutoffs or cutoffs[-1] != self.n_classes:
            cutoffs.append(self.n_classes)
        rest.update(cutoffs=cutoffs, shortlist_size=cutoffs[0], n_clusters=len(cutoffs) - 1,
                    head_size=cutoffs[0] + len(cutoffs) - 1)

    def reset_parameters(self) -> None:
        """Draws the parameters as at the beginning."""
        for module in self.modules():
            if isinstance(module, _Parametric):
                module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        return _ASMoutput(*self._native(input_, target_))

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes, (N, n_classes)."""
        return _C._adaptive(self, input, False)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row, (N)."""
        return _C._adaptive(self, input, True)


class CrossMapLRN2d(Module):
    """Each pixel (N, C, H, W) divided by a power of the squares of the channels around its own. As in torch the first
    channel counts for all that lie behind its reach too; LocalResponseNorm is without that."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        channels, reach = input.shape[1], (self.size - 1) // 2 + 1
        places = _C.arange(0, channels, device=input.device)
        near = ((places.unsqueeze(0) - places.unsqueeze(1)).abs() < reach) | (
            (places.unsqueeze(0) == 0) & (places.unsqueeze(1) >= reach))  # (C, C)
        sums = (near.to(input.dtype) @ (input * input).flatten(2)).view(input.shape)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return "%s, alpha=%s, beta=%s, k=%s" % (self.size, self.alpha, self.beta, self.k)


CrossMapLRN2d.__module__ = "cairn.nn"
_register(globals(), [name for name in __all__ if name != "CrossMapLRN2d"])


def _convert_sync_batchnorm(cls: Any, module: Module, process_group: Any = None) -> Module:
    """The module with a SyncBatchNorm, of the same weights, in the place of each BatchNorm in it."""
    made: Module = module
    if isinstance(module, _BatchNorm):
        made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                   process_group)
        for part in ("_parameters", "_buffers"):
            for name, value in getattr(module, part).items():
                getattr(made, part)[name] = value
        made.training = module.training
    for name, child in module.named_children():
        made.add_module(name, _convert_sync_batchnorm(cls, child, process_group))
    return made


setattr(SyncBatchNorm, "convert_sync_batchnorm", classmethod(_convert_sync_batchnorm))
