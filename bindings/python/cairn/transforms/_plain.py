"""Transforms without chance, and Compose."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _C
from .._tensor import Tensor
from . import functional as F
from ._image import is_pil, pair
from .functional import InterpolationMode

__all__ = ["CenterCrop", "Compose", "ConvertImageDtype", "FiveCrop", "GaussianBlur", "Grayscale", "Lambda",
           "Normalize", "PILToTensor", "Pad", "Resize", "TenCrop", "ToPILImage", "ToTensor", "Transform",
           "native_of"]


def _is_image(value: Any) -> bool:
    return isinstance(value, Tensor) or is_pil(value)


def _with_first(change: Callable[[Any], Any], value: Any, done: list[Any]) -> Any:
    """A nest of tuples, lists and dictionaries with its first image changed."""
    if not done and _is_image(value):
        done.append(value)
        return change(value)
    if isinstance(value, dict):
        return {key: _with_first(change, one, done) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_first(change, one, done) for one in value)
    return value


_PACKAGE = __name__.partition(".")[0]


class Transform:
    """A change of images: a subclass has forward(img). Called with several inputs, or with a dictionary, it changes the
    first image among them."""

    _fields: tuple[str, ...] = ()  # what the text of it shows

    def forward(self, img: Any) -> Any:
        raise NotImplementedError("%s has no forward" % type(self).__name__)

    def __call__(self, *inputs: Any) -> Any:
        if len(inputs) == 1 and not isinstance(inputs[0], dict):
            return self.forward(inputs[0])
        made = _with_first(self.forward, inputs, [])
        return made if len(inputs) > 1 else made[0]

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % (n, _text(getattr(self, n)))
                                                          for n in self._fields))


def _text(value: Any) -> str:
    return value.value if isinstance(value, InterpolationMode) else str(value)


def native_of(transform: Any) -> _C.NativeTransform | None:
    """A transform as one of the library, where it has one that does the same: a subclass that changes forward has not.
    """
    for kind in type(transform).__mro__:
        if ("forward" in vars(kind) or "__call__" in vars(kind)) and kind is not Transform:
            native = vars(kind).get("_native")
            return None if native is None else native(transform)
    return None


def asks_for_pillow(transform: Any) -> bool:
    """Whether something of the program's own gets the image before a tensor of floats is made of it: as torchvision's
    sets give Pillow's images, that is what it is written for."""
    for t in getattr(transform, "transforms", None) or [transform]:
        if isinstance(t, (ToTensor, PILToTensor, ConvertImageDtype)) or type(t).__name__ in ("ToImage", "ToDtype"):
            return False
        if not isinstance(t, Transform) or isinstance(t, Lambda) or type(t).__module__.partition(".")[0] != _PACKAGE:
            return True
        if t is not transform and hasattr(t, "transforms") and asks_for_pillow(t):
            return True
    return False


class Compose(Transform):
    """One after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def forward(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img

    def __call__(self, *inputs: Any) -> Any:
        if len(inputs) == 1:
            return self.forward(inputs[0])
        for t in self.transforms:
            inputs = t(*inputs)
        return inputs

    def __repr__(self) -> str:
        return "\n".join(["Compose("] + ["    %s" % (t,) for t in self.transforms] + [")"])

    def _native(self) -> _C.NativeTransform | None:
        parts = []
        for t in self.transforms:
            native = native_of(t)
            if native is None:
                return None
            parts.append(native)
        return _C._transform_all(tuple(parts)) if len(parts) <= 64 else None


class ToTensor(Transform):
    """An image as floats (channels, height, width), bytes scaled to [0, 1]: functional.to_tensor."""

    def forward(self, img: Any) -> Tensor:
        return F.to_tensor(img)

    def _native(self) -> _C.NativeTransform | None:
        return _C._transform("float", ()) if _C.get_default_dtype() == _C.float32 else None


class PILToTensor(Transform):
    """A Pillow image as a tensor of its values; tensors stay as they are."""

    def forward(self, img: Any) -> Tensor:
        return img if isinstance(img, Tensor) else F.pil_to_tensor(img)


class ToPILImage(Transform):
    """A tensor or array as a Pillow image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def forward(self, img: Any) -> Any:
        return F.to_pil_image(img, self.mode)


class ConvertImageDtype(Transform):
    """Another type, with the values scaled: functional.convert_image_dtype."""

    def __init__(self, dtype: _C.dtype) -> None:
        self.dtype = dtype

    def forward(self, img: Any) -> Tensor:
        return F.convert_image_dtype(img, self.dtype)

    def _native(self) -> _C.NativeTransform | None:
        return _C._transform("float", ()) if self.dtype == _C.float32 else None


class Normalize(Transform):
    """(x - mean) / std by channel."""

    _fields = ("mean", "std")

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False) -> None:
        self.mean: Sequence[float] = [mean] if isinstance(mean, (int, float)) else mean
        self.std: Sequence[float] = [std] if isinstance(std, (int, float)) else std
        self.inplace = inplace

    def forward(self, img: Any) -> Tensor:
        return F.normalize(img, self.mean, self.std, self.inplace)

    def _native(self) -> _C.NativeTransform | None:
        mean, std = [float(m) for m in self.mean], [float(s) for s in self.std]
        if len(mean) != len(std) or len(mean) > 64 or 0.0 in std:
            return None
        return _C._transform("normalize", (*mean, *std))


class Resize(Transform):
    """Another size: (height, width), or one number for the shorter side, the proportions kept."""

    _fields = ("size", "interpolation", "max_size", "antialias")

    def __init__(self, size: int | Sequence[int],
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, max_size: int | None = None,
                 antialias: bool | None = True) -> None:
        if not isinstance(size, (int, list, tuple)):
            raise TypeError("size is a number or (height, width), not %s" % type(size).__name__)
        if not isinstance(size, int) and len(size) not in (1, 2):
            raise ValueError("size has one or two numbers, not %d" % len(size))
        self.size = size
        self.interpolation = F._mode(interpolation)
        self.max_size = max_size
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def _native(self) -> _C.NativeTransform | None:
        if self.interpolation is not InterpolationMode.BILINEAR or not self.antialias or self.max_size is not None:
            return None
        size = (self.size,) if isinstance(self.size, int) else tuple(self.size)
        return _C._transform("resize", size if len(size) == 2 else (size[0], 0))


class CenterCrop(Transform):
    """The middle."""

    _fields = ("size",)

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = pair(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def _native(self) -> _C.NativeTransform | None:
        return _C._transform("center_crop", self.size)


class FiveCrop(Transform):
    """The corners and the middle, as a tuple."""

    _fields = ("size",)

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = pair(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)


class TenCrop(Transform):
    """The corners and the middle of the image and its mirror image, as a tuple."""

    _fields = ("size", "vertical_flip")

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        self.size = pair(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)


class Pad(Transform):
    """More pixels at the sides: functional.pad."""

    _fields = ("padding", "fill", "padding_mode")

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0,
                 padding_mode: str = "constant") -> None:
        F._around(padding)
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("there is no padding_mode %r" % (padding_mode,))
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(Transform):
    """Grey, in 1 channel or 3 alike."""

    _fields = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def _native(self) -> _C.NativeTransform | None:
        return _C._transform("grayscale", (self.num_output_channels,))


class GaussianBlur(Transform):
    """Blurred by a bell curve whose width is drawn between two numbers."""

    _fields = ("kernel_size", "sigma")

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        self.kernel_size = pair(kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError("kernel_size wants odd, positive numbers, not %s" % (kernel_size,))
        low, high = (sigma, sigma) if isinstance(sigma, (int, float)) else (sigma[0], sigma[1])
        if not 0 < low <= high:
            raise ValueError("sigma wants positive numbers, the smaller one first, not %s" % (sigma,))
        self.sigma = (float(low), float(high))

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        return float(_C.empty(1).uniform_(sigma_min, sigma_max).item())

    def forward(self, img: Any) -> Any:
        width = self.get_params(*self.sigma)
        return F.gaussian_blur(img, self.kernel_size, [width, width])


class Lambda(Transform):
    """A function of one's own."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError("Lambda takes a function, not %s" % type(lambd).__name__)
        self.lambd = lambd

    def forward(self, img: Any) -> Any:
        return self.lambd(img)
