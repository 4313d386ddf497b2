"""Images and labels mixed (MixUp, CutMix), chains of changes (RandAugment, AugMix), and layers one after the other for
data (Pipeline)."""
from __future__ import annotations

from random import Random
from typing import Any

import cairn
from .._graph import marked
from .augment import Augment, range_of
from .base import Layer
from .colour import (AutoContrast, Equalization, RandomBrightness, RandomColorDegeneration, RandomContrast,
                     RandomPosterization, RandomSharpness, Solarization, boxes)
from .image import RandomRotation, RandomShear, RandomTranslation

__all__ = ["AugMix", "CutMix", "MixUp", "Pipeline", "RandAugment"]


class _Mix(Augment):
    def _order(self, n: int) -> Any:
        return cairn.randperm(n, generator=self._numbers)

    def _beta(self, n: int, alpha: float) -> Any:
        """Draws of Beta(alpha, alpha)."""
        numbers = _seeded(self)
        return cairn.tensor([numbers.betavariate(alpha, alpha) for _ in range(n)])

    def changed_labels(self, labels: Any, drawn: Any) -> Any:
        if drawn is None:
            return labels
        weight = drawn["mix_weight"].reshape((-1,) + (1,) * (labels.ndim - 1)).to(labels.device)
        labels = labels if labels.dtype.is_floating_point else labels.to(cairn.get_default_dtype())
        return weight * labels + (1.0 - weight) * labels[drawn["permutation_order"].to(labels.device)]


def _seeded(layer: Augment) -> Random:
    """Python's numbers, begun by the layer's."""
    return Random(int(cairn.randint(0, 1 << 31, (1,), generator=layer._numbers).item()))


class MixUp(_Mix):  # unused: height, width (what Augment calls)
    """Each image (and its label) a mean of two, with weights of Beta(alpha, alpha)."""

    def __init__(self, alpha: float = 0.2, data_format: str | None = None, seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(alpha=alpha)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        order = self._order(n)
        return {"mix_weight": self._beta(n, self.alpha), "permutation_order": order}

    def changed(self, images: Any, drawn: Any) -> Any:
        weight = drawn["mix_weight"].reshape(-1, 1, 1, 1).to(device=images.device, dtype=images.dtype)
        return weight * images + (1.0 - weight) * images[drawn["permutation_order"].to(images.device)]

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self.changed(masks, drawn)


class CutMix(_Mix):
    """A rectangle of each image from another one; labels are mixed by the parts of the area."""

    def __init__(self, factor: Any = 1.0, seed: int | None = None, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = range_of(factor, 0.0, 1.0)
        self._common(data_format, seed)

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        images = data["images"] if isinstance(data, dict) else data
        return None if images.ndim == 3 else super().get_random_transformation(data, training, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        part = (1.0 - self._beta(n, float(self.uniform((), *self.factor).item()) + 1e-6)).clamp(min=0.0).sqrt()
        masks, weight = boxes(self, n, height, width, part, part)
        return {"permutation_order": self._order(n), "batch_masks": masks, "mix_weight": weight}

    def changed(self, images: Any, drawn: Any) -> Any:
        if drawn is None:
            return images
        return cairn.where(drawn["batch_masks"].to(images.device),
                           images[drawn["permutation_order"].to(images.device)], images)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self.changed(masks, drawn)


def _kinds(factor: tuple[float, float], value_range: Any, interpolation: str, seed: Any) -> dict[str, Any]:
    """The changes that chains are made of, by name."""
    more: dict[str, Any] = {"seed": seed, "data_format": "channels_first"}
    colours: dict[str, Any] = {"value_range": value_range, **more}
    return {
        "random_shear": RandomShear(factor, factor, interpolation, **more),
        "random_translation": RandomTranslation(factor, factor, interpolation=interpolation, **more),
        "random_rotation": RandomRotation(factor, interpolation=interpolation, **more),
        "random_brightness": RandomBrightness(factor, **colours),
        "random_color_degeneration": RandomColorDegeneration(factor, **colours),
        "random_contrast": RandomContrast(factor, **colours),
        "random_sharpness": RandomSharpness(factor, **colours),
        "random_posterization": RandomPosterization(max(1, int(8 * factor[1])), **colours),
        "solarization": Solarization(factor, factor, **colours),
        "auto_contrast": AutoContrast(value_range, data_format="channels_first"),
        "equalization": Equalization(value_range, data_format="channels_first")}


class RandAugment(Augment):
    """num_ops changes, drawn for each batch."""

    def __init__(self, value_range: Any = (0, 255), num_ops: int = 2, factor: Any = 0.5,
                 interpolation: str = "bilinear", seed: int | None = None, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(value_range=value_range, num_ops=num_ops, interpolation=interpolation)
        self.factor = range_of(factor, 0.0, 1.0)
        self._common(data_format, seed)
        self._steps = _kinds(self.factor, value_range, interpolation, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        names = list(self._steps)
        which = cairn.randint(0, len(names), (self.num_ops,), generator=self._numbers).tolist()
        return [(names[int(i)], self._steps[names[int(i)]].drawn(n, height, width)) for i in which]

    def changed(self, images: Any, drawn: Any) -> Any:
        for name, own in drawn:
            images = self._steps[name].changed(images, own)
        return images

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        for name, own in drawn:
            masks = self._steps[name].changed_masks(masks, own)
        return masks


class AugMix(Augment):
    """Chains of changes, mixed with one another and with the image itself."""

    def __init__(self, value_range: Any = (0, 255), num_chains: int = 3, chain_depth: int = 3, factor: Any = 0.3,
                 alpha: float = 1.0, all_ops: bool = True, interpolation: str = "bilinear", seed: int | None = None,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(value_range=value_range, num_chains=num_chains, chain_depth=chain_depth, alpha=alpha,
                      all_ops=all_ops, interpolation=interpolation)
        self.factor = range_of(factor, 0.0, 1.0)
        self._common(data_format, seed)
        steps = _kinds(self.factor, value_range, interpolation, seed)
        few = ("random_brightness", "random_color_degeneration", "random_contrast", "random_sharpness")
        self._steps = {k: v for k, v in steps.items() if all_ops or k not in few}

    def drawn(self, n: int, height: int, width: int) -> Any:
        names: list[Any] = list(self._steps)
        numbers = _seeded(self)
        weights = cairn.tensor([numbers.gammavariate(self.alpha, 1.0) + 1e-30 for _ in range(self.num_chains)])
        which = cairn.randint(0, len(names) + 1, (self.num_chains, self.chain_depth), generator=self._numbers).tolist()
        return {"chain_mixing_weights": weights / weights.sum(),
                "weight_sample": numbers.betavariate(self.alpha, self.alpha),
                "chain_transforms": [[(names[i], self._steps[names[i]].drawn(n, height, width))
                                      for i in row if i < len(names)] for row in which]}

    def changed(self, images: Any, drawn: Any) -> Any:
        mixed = cairn.zeros_like(images)
        for weight, chain in zip(drawn["chain_mixing_weights"].tolist(), drawn["chain_transforms"]):
            own = images
            for name, step in chain:
                own = self._steps[name].changed(own, step)
            mixed = mixed + own * weight
        share = float(drawn["weight_sample"])
        return (images * share + mixed * (1.0 - share)).clamp(float(self.value_range[0]), float(self.value_range[1]))


class Pipeline(Layer):
    """Layers one after the other, for data on their way to a model."""

    def __init__(self, layers: Any, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.layers = list(layers)
        self.built = True

    def call(self, inputs: Any, training: bool = True, mask: Any = None) -> Any:
        inputs = marked(inputs, mask)
        for layer in self.layers:
            inputs = layer(inputs, training=training) if isinstance(layer, Layer) else layer(inputs)
        return inputs

    def get_config(self) -> dict[str, Any]:
        from .._serial import serialize
        return {**self._base_config(), "layers": [serialize(k) for k in self.layers]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        from .._serial import deserialize
        return cls(**{**config, "layers": [deserialize(k) if isinstance(k, dict) else k for k in config["layers"]]})
