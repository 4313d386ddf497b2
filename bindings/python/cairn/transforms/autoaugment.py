"""Transforms that choose among many changes: AutoAugment, RandAugment, TrivialAugmentWide, AugMix, as in their papers
and torchvision. Images are uint8 (channels, height, width), batches of them, or Pillow's."""
from __future__ import annotations

import enum
import math
import random
from typing import Any, Callable

from .. import _C
from .._tensor import Tensor
from . import functional as F
from ._plain import Transform
from ._random import _below, _uniform
from .functional import InterpolationMode

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]

_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def _apply(img: Any, name: str, strength: float, mode: InterpolationMode, fill: Any) -> Any:
    """One change by name."""
    if name in ("ShearX", "ShearY"):
        angle = math.degrees(math.atan(strength))
        shear = [angle, 0.0] if name == "ShearX" else [0.0, angle]
        return F.affine(img, 0.0, [0, 0], 1.0, shear, mode, fill, center=[0, 0])
    if name in ("TranslateX", "TranslateY"):
        move = [int(strength), 0] if name == "TranslateX" else [0, int(strength)]
        return F.affine(img, 0.0, move, 1.0, [0.0, 0.0], mode, fill)
    if name == "Rotate":
        return F.rotate(img, strength, mode, fill=fill)
    factors: dict[str, Callable[[Any, float], Any]] = {
        "Brightness": F.adjust_brightness, "Color": F.adjust_saturation, "Contrast": F.adjust_contrast,
        "Sharpness": F.adjust_sharpness}
    if name in factors:
        return factors[name](img, 1.0 + strength)
    if name == "Posterize":
        return F.posterize(img, int(strength))
    if name == "Solarize":
        return F.solarize(img, strength)
    plain: dict[str, Callable[[Any], Any]] = {"AutoContrast": F.autocontrast, "Equalize": F.equalize,
                                              "Invert": F.invert, "Identity": lambda same: same}
    return plain[name](img)


# The greatest strength of each change; those with a sign go both ways.
_SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness")


def _strengths(bins: int, shear: float, across: float, down: float, turn: float, factor: float, kept: int,
               dropped: int) -> dict[str, list[float]]:
    """The strengths of each change in `bins` steps; none for those that have no strength."""
    most = dict(zip(_SIGNED, (shear, shear, across, down, turn, factor, factor, factor, factor)))
    table = {name: _C.linspace(0.0, top, bins).tolist() for name, top in most.items()}
    table["Posterize"] = [kept - round(i / ((bins - 1) / dropped)) for i in range(bins)]
    table["Solarize"] = _C.linspace(255.0, 0.0, bins).tolist()
    table["AutoContrast"] = table["Equalize"] = []
    return table


class _Choosing(Transform):
    """What they share: where pixels come from, and what is filled in."""

    interpolation: InterpolationMode
    fill: Any

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % (n, getattr(self, n)) for n in self._fields))

    def _change(self, img: Any, name: str, strength: float) -> Any:
        return _apply(img, name, strength, self.interpolation, self.fill)

    def _some(self, img: Any, table: dict[str, list[float]], choose: Callable[[list[float]], float]) -> Any:
        """One of the changes at random, half of those that have a sign the other way."""
        name = [*table][_below(len(table))]
        strength = choose(table[name]) if table[name] else 0.0
        if name in _SIGNED and _below(2):
            strength = -strength
        return self._change(img, name, strength)


class AutoAugmentPolicy(enum.Enum):
    """The data sets whose policies were found."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# Pairs of changes, each with its probability in tenths and its strength in ninths of the greatest.
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 4 8 Rotate 6 9; Solarize 6 5 AutoContrast 6 -; Equalize 8 - Equalize 6 -; Posterize 6 7
        Posterize 6 6; Equalize 4 - Solarize 2 4; Equalize 4 - Rotate 8 8; Solarize 6 3 Equalize 6 -; Posterize
        8 5 Equalize 10 -; Rotate 2 3 Solarize 6 8; Equalize 6 - Posterize 4 6; Rotate 8 8 Color 4 0; Rotate 4 9
        Equalize 6 -; Equalize 0 - Equalize 8 -; Invert 6 - Equalize 10 -; Color 6 4 Contrast 10 8; Rotate 8 8
        Color 10 2; Color 8 8 Solarize 8 7; Sharpness 4 7 Invert 6 -; ShearX 6 5 Equalize 10 -; Color 4 0
        Equalize 6 -; Equalize 4 - Solarize 2 4; Solarize 6 5 AutoContrast 6 -; Invert 6 - Equalize 10 -; Color
        6 4 Contrast 10 8; Equalize 8 - Equalize 6 -""",
    AutoAugmentPolicy.CIFAR10: """
        Invert 1 - Contrast 2 6; Rotate 7 2 TranslateX 3 9; Sharpness 8 1 Sharpness 9 3; ShearY 5 8 TranslateY 7
        9; AutoContrast 5 - Equalize 9 -; ShearY 2 7 Posterize 3 7; Color 4 3 Brightness 6 7; Sharpness 3 9
        Brightness 7 9; Equalize 6 - Equalize 5 -; Contrast 6 7 Sharpness 6 5; Color 7 7 TranslateX 5 8;
        Equalize 3 - AutoContrast 4 -; TranslateY 4 3 Sharpness 2 6; Brightness 9 6 Color 2 8; Solarize 5 2
        Invert 0 -; Equalize 2 - AutoContrast 6 -; Equalize 2 - Equalize 6 -; Color 9 9 Equalize 6 -;
        AutoContrast 8 - Solarize 2 8; Brightness 1 3 Color 7 0; Solarize 4 5 AutoContrast 9 -; TranslateY 9 9
        TranslateY 7 9; AutoContrast 9 - Solarize 8 3; Equalize 8 - Invert 1 -; TranslateY 7 9 AutoContrast 9 -""",
    AutoAugmentPolicy.SVHN: """
        ShearX 9 4 Invert 2 -; ShearY 9 8 Invert 7 -; Equalize 6 - Solarize 6 6; Invert 9 - Equalize 6 -;
        Equalize 6 - Rotate 9 3; ShearX 9 4 AutoContrast 8 -; ShearY 9 8 Invert 4 -; ShearY 9 5 Solarize 2 6;
        Invert 9 - AutoContrast 8 -; Equalize 6 - Rotate 9 3; ShearX 9 4 Solarize 3 3; ShearY 8 8 Invert 7 -;
        Equalize 9 - TranslateY 6 6; Invert 9 - Equalize 6 -; Contrast 3 3 Rotate 8 4; Invert 8 - TranslateY 0
        2; ShearY 7 6 Solarize 4 8; Invert 6 - Rotate 8 4; ShearY 3 7 TranslateX 9 3; ShearX 1 6 Invert 6 -;
        Solarize 7 2 TranslateY 6 7; ShearY 8 4 Invert 8 -; ShearX 7 9 TranslateY 8 3; ShearY 8 5 AutoContrast 7
        -; ShearX 7 2 Invert 1 -"""}


class AutoAugment(_Choosing):
    """One pair of changes out of the 25 that were found for a data set."""

    _fields = ("policy", "fill")

    def __init__(self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
                 interpolation: InterpolationMode | int = _NEAREST, fill: Any = None) -> None:
        if policy not in _POLICIES:
            raise ValueError("there is no policy %r" % (policy,))
        self.policy = policy
        self.interpolation = F._mode(interpolation)
        self.fill = fill
        self.policies = []
        for pair in _POLICIES[policy].split(";"):
            words = pair.split()
            self.policies.append(tuple((words[i], int(words[i + 1]) / 10, None if words[i + 2] == "-" else
                                        int(words[i + 2])) for i in (0, 3)))

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Which pair, what decides whether each happens, and which way."""
        return _below(transform_num), _C.rand((2,)), _C.randint(0, 2, (2,))

    def forward(self, img: Any) -> Any:
        _, h, w = F.get_dimensions(img)
        table = _strengths(10, 0.3, 150 / 331 * w, 150 / 331 * h, 30.0, 0.9, 8, 4)
        which, chances, signs = self.get_params(len(self.policies))
        for (name, p, level), chance, sign in zip(self.policies[which], chances.tolist(), signs.tolist()):
            if chance <= p:
                strength = 0.0 if level is None else table[name][level]
                img = self._change(img, name, -strength if name in _SIGNED and sign == 0 else strength)
        return img


class RandAugment(_Choosing):
    """num_ops changes one after the other, all of one strength."""

    _fields = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
                 interpolation: InterpolationMode | int = _NEAREST, fill: Any = None) -> None:
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = F._mode(interpolation)
        self.fill = fill

    def forward(self, img: Any) -> Any:
        _, h, w = F.get_dimensions(img)
        table: dict[str, list[float]] = {"Identity": []}
        table.update(_strengths(self.num_magnitude_bins, 0.3, 150 / 331 * w, 150 / 331 * h, 30.0, 0.9, 8, 4))
        for _ in range(self.num_ops):
            img = self._some(img, table, lambda strengths: strengths[self.magnitude])
        return img


class TrivialAugmentWide(_Choosing):
    """One change, of any strength."""

    _fields = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(self, num_magnitude_bins: int = 31, interpolation: InterpolationMode | int = _NEAREST,
                 fill: Any = None) -> None:
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = F._mode(interpolation)
        self.fill = fill

    def forward(self, img: Any) -> Any:
        table: dict[str, list[float]] = {"Identity": []}
        table.update(_strengths(self.num_magnitude_bins, 0.99, 32.0, 32.0, 135.0, 0.99, 8, 6))
        return self._some(img, table, lambda strengths: strengths[_below(len(strengths))])


class AugMix(_Choosing):
    """The image mixed with `mixture_width` chains of changes of it, in proportions drawn with alpha. chain_depth: how
    many changes make a chain (-1: one to three)."""

    _fields = ("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")

    def __init__(self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0,
                 all_ops: bool = True, interpolation: InterpolationMode | int = _BILINEAR, fill: Any = None) -> None:
        if not 1 <= severity <= 10:
            raise ValueError("severity lies between 1 and 10, not %s" % severity)
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops
        self.interpolation = F._mode(interpolation)
        self.fill = fill

    def _parts(self, n: int) -> list[float]:
        """n proportions of the symmetric Dirichlet distribution."""
        source = random.Random(_uniform(0, 1))
        drawn = [source.gammavariate(self.alpha, 1.0) for _ in range(n)]
        return [v / sum(drawn) for v in drawn]

    def forward(self, img: Any) -> Any:
        if not isinstance(img, Tensor):
            return F.to_pil_image(self.forward(F.pil_to_tensor(img)))
        h, w = img.shape[-2:]
        table = _strengths(10, 0.3, w / 3, h / 3, 30.0, 0.9, 4, 4)
        if not self.all_ops:
            table = {name: v for name, v in table.items()
                     if name not in ("Brightness", "Color", "Contrast", "Sharpness")}
        own, other = self._parts(2)
        mixed = own * img.float()
        for part in self._parts(self.mixture_width):
            changed = img
            for _ in range(self.chain_depth if self.chain_depth > 0 else 1 + _below(3)):
                changed = self._some(changed, table, lambda strengths: strengths[_below(self.severity)])
            mixed += other * part * changed.float()
        return mixed.to(img.dtype)
