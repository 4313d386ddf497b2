"""Numbers made ready for a model: Rescaling, Normalization, CategoryEncoding, Discretization."""
from __future__ import annotations

from typing import Any, Iterator

import cairn
from ..._arguments import only_speed, refused
from ...nn import functional as F
from ..._training.batches import to_tensor
from .base import Layer

__all__ = ["CategoryEncoding", "Discretization", "Normalization", "Rescaling"]


def batches_of(data: Any, steps: int | None = None) -> Iterator[Any]:
    """The inputs of each batch of a data set, the first `steps` of them; or an array as one batch."""
    array = isinstance(data, cairn.Tensor) or hasattr(data, "__array__") or hasattr(data, "to_numpy")
    if array or isinstance(data, (list, tuple)) and data and not hasattr(data[0], "shape"):
        refused("adapt", "it is for data sets of batches, not for arrays and lists", steps=steps)
        yield to_tensor(data if array else cairn.tensor(data))
        return
    for i, batch in enumerate(data):
        if steps is not None and i >= steps:
            return
        yield to_tensor(batch[0] if isinstance(batch, (list, tuple)) else batch)


class Rescaling(Layer):
    """inputs * scale + offset."""

    _float_inputs = supports_masking = True

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(scale=scale, offset=offset)
        self.built = True

    def call(self, inputs: Any) -> Any:
        def number(v: Any) -> Any:
            return v if isinstance(v, (int, float)) else to_tensor(v).to(device=inputs.device, dtype=inputs.dtype)
        return inputs * number(self.scale) + number(self.offset)


class Normalization(Layer):
    """(inputs - mean) / deviation along axis; adapt(data) finds them."""

    _float_inputs = supports_masking = True
    _not_options = ("mean", "variance")

    def __init__(self, axis: Any = -1, mean: Any = None, variance: Any = None, invert: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (mean is None) != (variance is None):
            raise ValueError("Normalization takes mean and variance, or neither and adapt(data)")
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self._options(invert=invert, input_mean=mean, input_variance=variance)

    def get_config(self) -> dict[str, Any]:
        def listed(v: Any) -> Any:
            return v.tolist() if hasattr(v, "tolist") else v
        return {**super().get_config(), "mean": listed(self.input_mean), "variance": listed(self.input_variance)}

    def build(self, input_shape: Any) -> None:
        n = len(input_shape)
        self._keep = tuple(sorted(a % n for a in self.axis))
        self._wide = tuple(input_shape[d] if d in self._keep else 1 for d in range(n))
        if any(s is None for s in self._wide):
            raise ValueError("%s: sizes along axis %s must be known; the shape is %s"
                             % (self.name, self.axis, tuple(input_shape)))
        if self.input_mean is None:
            sizes = tuple(input_shape[d] for d in self._keep)
            self.adapt_mean = self.add_weight(sizes, "zeros", trainable=False, name="mean")
            self.adapt_variance = self.add_weight(sizes, "ones", trainable=False, name="variance")
            self.count = self.add_weight((), "zeros", "int64", trainable=False, name="count")
        self.built = True

    def _figure(self, name: str) -> Any:
        """Mean or variance, with a size for each dimension of the inputs."""
        if self.input_mean is None:
            return getattr(self, "adapt_" + name).detach().reshape(self._wide)
        given = to_tensor(getattr(self, "input_" + name)).to(cairn.get_default_dtype())
        sizes = [1] * len(self._wide)
        for i in range(1, given.ndim + 1):
            sizes[self._keep[-i]] = int(given.shape[-i])
        return given.reshape(sizes).expand(self._wide)

    @property
    def mean(self) -> Any:
        return self._figure("mean") if self.built else None

    @property
    def variance(self) -> Any:
        return self._figure("variance") if self.built else None

    def adapt(self, data: Any, batch_size: Any = None, steps: int | None = None) -> None:
        """Finds mean and variance of data: an array, or batches of them (or of pairs with them first)."""
        only_speed("adapt", batch_size=batch_size)
        if self.input_mean is not None:
            raise ValueError("%s was given its mean and variance; there is nothing to adapt" % self.name)
        seen = 0
        mean = square = None
        for batch in batches_of(data, steps):
            batch = batch.to(cairn.float64)
            batch = batch.unsqueeze(-1) if batch.ndim == 1 and self.axis == (-1,) and not self.built else batch
            if not self.built:
                self.build(tuple(int(n) for n in batch.shape))
            dims = [d for d in range(batch.ndim) if d not in self._keep]
            many = batch.numel() // max(1, int(self.adapt_mean.numel()))
            own, size = (batch.mean(dims), batch.var(dims, correction=0)) if dims else (batch, cairn.zeros_like(batch))
            if mean is None or square is None:
                seen, mean, square = many, own, size * many
                continue
            apart = own - mean
            mean = mean + apart * (many / (seen + many))
            square = square + size * many + apart.square() * (seen * many / (seen + many))
            seen += many
        if mean is None or square is None:
            raise ValueError("adapt() found no data")
        self.adapt_mean.assign(mean.to(self.adapt_mean.dtype))
        self.adapt_variance.assign((square / seen).to(self.adapt_variance.dtype))

    def call(self, inputs: Any) -> Any:
        mean, size = self._figure("mean"), self._figure("variance").sqrt().clamp(min=1e-7)
        mean, size = mean.to(device=inputs.device, dtype=inputs.dtype), size.to(device=inputs.device,
                                                                               dtype=inputs.dtype)
        return mean + inputs * size if self.invert else (inputs - mean) / size


def encoded(places: Any, mode: str, depth: int, weights: Any = None, dtype: Any = None) -> Any:
    """Integers as one_hot, multi_hot (over the last dimension) or count; numbers outside of the depth count nowhere."""
    dtype = dtype or cairn.get_default_dtype()
    places = places.long()
    places = places.reshape(1) if places.ndim == 0 else places
    if mode == "one_hot" and places.ndim > 1 and places.shape[-1] == 1:
        places = places.squeeze(-1)
    there = (places >= 0) & (places < depth)
    hot = F.one_hot(places.clamp(0, depth - 1), depth).to(dtype) * there.unsqueeze(-1).to(dtype)
    if mode == "one_hot":
        return hot
    at = -2 if places.ndim > 1 else 0
    if mode == "count":
        return (hot if weights is None else hot * weights.unsqueeze(-1).to(dtype)).sum(at)
    return hot.amax(at)


class CategoryEncoding(Layer):
    """Integers as one_hot, multi_hot or count."""

    _not_options = ("sparse",)

    def __init__(self, num_tokens: int | None = None, output_mode: str = "multi_hot", sparse: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        output_mode = "multi_hot" if output_mode == "binary" else output_mode
        if output_mode not in ("one_hot", "multi_hot", "count"):
            raise ValueError("output_mode is one_hot, multi_hot or count, not %r" % (output_mode,))
        if num_tokens is None or num_tokens < 1:
            raise ValueError("CategoryEncoding needs num_tokens, 1 or more")
        if sparse:
            raise ValueError("outputs are dense: CategoryEncoding(sparse=True) is not there")
        self._options(num_tokens=num_tokens, output_mode=output_mode)
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = tuple(cairn.tensor(a) if isinstance(a, (int, list, tuple)) and not _symbols(a) else a for a in args)
        return super().__call__(*args, **kwargs)

    def call(self, inputs: Any, count_weights: Any = None) -> Any:
        if count_weights is not None and self.output_mode != "count":
            raise ValueError("count_weights are for output_mode='count'")
        if inputs.numel() and (int(inputs.max().item()) >= self.num_tokens or int(inputs.min().item()) < 0):
            raise ValueError("%s: numbers must be in [0, num_tokens=%d); there are %d to %d"
                             % (self.name, self.num_tokens, int(inputs.min().item()), int(inputs.max().item())))
        return encoded(inputs, self.output_mode, self.num_tokens,
                       None if count_weights is None else to_tensor(count_weights))


def _symbols(value: Any) -> bool:
    from .._graph import has_symbol
    return has_symbol(value)


class Discretization(Layer):
    """The number of the bin that each value falls into. Bins are given, or num_bins of them hold equal parts of the
    data that adapt() saw: epsilon is how exactly."""

    _float_inputs = True
    _not_options = ("sparse",)

    def __init__(self, bin_boundaries: Any = None, num_bins: int | None = None, epsilon: float = 0.01,
                 output_mode: str = "int", sparse: bool = False, dtype: Any = None, name: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype, **kwargs)
        if (bin_boundaries is None) == (num_bins is None):
            raise ValueError("Discretization takes bin_boundaries or num_bins, one of them")
        if output_mode not in ("int", "one_hot", "multi_hot", "count"):
            raise ValueError("output_mode is int, one_hot, multi_hot or count, not %r" % (output_mode,))
        if sparse:
            raise ValueError("outputs are dense: Discretization(sparse=True) is not there")
        self.bin_boundaries = None if bin_boundaries is None else [float(b) for b in bin_boundaries]
        self._options(num_bins=num_bins, epsilon=epsilon, output_mode=output_mode)
        self.built = True

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        if config.get("num_bins") is None or config.get("bin_boundaries") is None:
            return cls(**config)
        made = cls(**{**config, "bin_boundaries": None})
        made.bin_boundaries = list(config["bin_boundaries"])
        return made

    def adapt(self, data: Any, steps: int | None = None) -> None:
        if self.num_bins is None:
            raise ValueError("%s was given its bins; there is nothing to adapt" % self.name)
        values = cairn.empty(0, dtype=cairn.float64)
        weights = cairn.empty(0, dtype=cairn.float64)
        for batch in batches_of(data, steps):
            own = batch.reshape(-1).to(cairn.float64).sort()[0]
            more, count = _summary(own, cairn.ones_like(own), self.epsilon)
            both, order = cairn.cat([values, more]).sort()
            values, weights = _summary(both, cairn.cat([weights, count])[order], self.epsilon)
        made = _summary(values, weights, 1.0 / self.num_bins)[0][:-1]
        self.bin_boundaries = [float(v) for v in made.to(cairn.float32).tolist()]

    def call(self, inputs: Any) -> Any:
        if self.bin_boundaries is None:
            raise ValueError("%s has no bins yet: call adapt(data)" % self.name)
        edges = cairn.tensor(list(self.bin_boundaries), dtype=inputs.dtype, device=inputs.device)
        places = cairn.bucketize(inputs, edges, right=True)
        return places if self.output_mode == "int" else encoded(places, self.output_mode,
                                                                len(self.bin_boundaries) + 1)


def _summary(values: Any, weights: Any, epsilon: float) -> tuple[Any, Any]:
    """Sorted values with weights as 1 / epsilon values that stand for equal parts of the weight."""
    if values.numel() * epsilon < 1:
        return values, weights
    parts = cairn.arange(0.0, 1.0, epsilon, dtype=cairn.float64) + epsilon
    total = weights.cumsum(0)
    share = total / total[-1]
    at = cairn.searchsorted(share, parts).clamp(max=values.numel() - 1)
    before = (at - 1).clamp(min=0)
    gap = share[at] - share[before]
    part = cairn.where(gap > 0, (parts - share[before]) / gap.clamp(min=1e-300), cairn.ones_like(gap)).clamp(0.0, 1.0)
    made = values[before] + (values[at] - values[before]) * part
    upto = total[before] + (total[at] - total[before]) * part
    return made, upto - cairn.cat([cairn.zeros(1, dtype=cairn.float64), upto[:-1]])
