"""keras.preprocessing.image: images in files and arrays, and ImageDataGenerator, which older programs train with.

Changes are drawn with numpy's numbers, in Keras's order, so that a seed gives the same images there and here.
"""
from __future__ import annotations

import math
import os
from typing import Any, Iterator as _Iterator

import cairn
from ..._arguments import refused
from .._images import (array_to_img as array_to_img, img_to_array as img_to_array, load_img as load_img,
                       save_img as save_img, smart_resize as smart_resize)
from ..backend import floatx, image_data_format
from ..utils import PyDataset

__all__ = ["DirectoryIterator", "ImageDataGenerator", "Iterator", "NumpyArrayIterator", "apply_affine_transform",
           "array_to_img", "img_to_array", "load_img", "save_img", "smart_resize"]


# ---- one image ----
def _times(a: Any, b: Any) -> Any:
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def apply_affine_transform(x: Any, theta: float = 0, tx: float = 0, ty: float = 0, shear: float = 0, zx: float = 1,
                           zy: float = 1, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                           fill_mode: str = "nearest", cval: float = 0.0, order: int = 1) -> Any:
    """One image turned by theta degrees, moved by tx rows and ty columns, sheared by degrees and zoomed."""
    from ..layers.augment import sampled
    if order not in (0, 1):
        raise ValueError("order is 0 (nearest) or 1 (linear), not %r" % (order,))
    m: Any = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    plain = m
    if theta:
        c, s = math.cos(math.radians(theta)), math.sin(math.radians(theta))
        m = _times(m, [[c, -s, 0], [s, c, 0], [0, 0, 1]])
    if tx or ty:
        m = _times(m, [[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    if shear:
        m = _times(m, [[1, -math.sin(math.radians(shear)), 0], [0, math.cos(math.radians(shear)), 0], [0, 0, 1]])
    if zx != 1 or zy != 1:
        m = _times(m, [[zx, 0, 0], [0, zy, 0], [0, 0, 1]])
    if m is plain:
        return x
    high, wide = x.shape[row_axis], x.shape[col_axis]
    m = _times(_times([[1, 0, high / 2 - 0.5], [0, 1, wide / 2 - 0.5], [0, 0, 1]], m),
               [[1, 0, 0.5 - high / 2], [0, 1, 0.5 - wide / 2], [0, 0, 1]])
    if col_axis > row_axis:  # what the angles call rows are columns here
        m = [[m[1][1], m[1][0], m[1][2]], [m[0][1], m[0][0], m[0][2]], m[2]]
    image = cairn.as_tensor(x.astype("float32")).movedim(channel_axis, 0).unsqueeze(0)
    rows = cairn.arange(high, dtype=cairn.float32).reshape(1, -1, 1)
    columns = cairn.arange(wide, dtype=cairn.float32).reshape(1, 1, -1)
    at_y, at_x = (m[i][0] * rows + m[i][1] * columns + m[i][2] for i in (0, 1))
    way = "nearest" if order == 0 else "bilinear"
    out = sampled(image, at_x, at_y, way, "nearest" if fill_mode == "constant" else fill_mode)
    if fill_mode == "constant":
        inside = (at_y >= 0) & (at_y <= high - 1) & (at_x >= 0) & (at_x <= wide - 1)
        out = cairn.where(inside.unsqueeze(1), out, cval)
    return out.squeeze(0).movedim(0, channel_axis).contiguous().numpy().astype(x.dtype)


class ImageDataGenerator:
    """Batches of images, changed as the options say while they are made. flow() takes arrays, flow_from_directory() a
    directory with one below it for each class."""

    def __init__(self, featurewise_center: bool = False, samplewise_center: bool = False,
                 featurewise_std_normalization: bool = False, samplewise_std_normalization: bool = False,
                 zca_whitening: bool = False, zca_epsilon: float = 1e-06, rotation_range: float = 0,
                 width_shift_range: Any = 0.0, height_shift_range: Any = 0.0, brightness_range: Any = None,
                 shear_range: float = 0.0, zoom_range: Any = 0.0, channel_shift_range: float = 0.0,
                 fill_mode: str = "nearest", cval: float = 0.0, horizontal_flip: bool = False,
                 vertical_flip: bool = False, rescale: float | None = None, preprocessing_function: Any = None,
                 data_format: str | None = None, validation_split: float = 0.0, interpolation_order: int = 1,
                 dtype: Any = None) -> None:
        refused("ImageDataGenerator", "images are not whitened", False, zca_whitening=zca_whitening)
        refused("ImageDataGenerator", "it is for zca_whitening=True", 1e-06, zca_epsilon=zca_epsilon)
        if validation_split and not 0 < validation_split < 1:
            raise ValueError("validation_split is between 0 and 1, not %r" % (validation_split,))
        self.featurewise_center = featurewise_center or featurewise_std_normalization
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.featurewise_std_normalization = featurewise_std_normalization
        self.samplewise_std_normalization = samplewise_std_normalization
        self.rotation_range, self.shear_range = rotation_range, shear_range
        self.width_shift_range, self.height_shift_range = width_shift_range, height_shift_range
        self.zoom_range = [1 - zoom_range, 1 + zoom_range] if isinstance(zoom_range, (int, float)) else list(zoom_range)
        if len(self.zoom_range) != 2:
            raise ValueError("zoom_range is a number or two of them, not %r" % (zoom_range,))
        self.brightness_range, self.channel_shift_range = brightness_range, channel_shift_range
        self.fill_mode, self.cval, self.interpolation_order = fill_mode, cval, interpolation_order
        self.horizontal_flip, self.vertical_flip = horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self.data_format = data_format or image_data_format()
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if self.data_format == "channels_first" else (
            3, 1, 2)
        self._validation_split, self.dtype = validation_split, dtype or floatx()
        self.mean: Any = None
        self.std: Any = None

    # ---- batches ----
    def flow(self, x: Any, y: Any = None, batch_size: int = 32, shuffle: bool = True, sample_weight: Any = None,
             seed: int | None = None, save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
             ignore_class_split: bool = False, subset: str | None = None) -> NumpyArrayIterator:
        made = NumpyArrayIterator(x, y, self, batch_size, shuffle, sample_weight, seed, subset=subset,
                                  ignore_class_split=ignore_class_split)
        made.saved = (save_to_dir, save_prefix, save_format)
        return made

    def flow_from_directory(self, directory: Any, target_size: Any = (256, 256), color_mode: str = "rgb",
                            classes: Any = None, class_mode: str | None = "categorical", batch_size: int = 32,
                            shuffle: bool = True, seed: int | None = None, save_to_dir: Any = None,
                            save_prefix: str = "", save_format: str = "png", follow_links: bool = False,
                            subset: str | None = None, interpolation: str = "nearest",
                            keep_aspect_ratio: bool = False) -> DirectoryIterator:
        made = DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle,
                                 seed, follow_links=follow_links, subset=subset, interpolation=interpolation,
                                 keep_aspect_ratio=keep_aspect_ratio)
        made.saved = (save_to_dir, save_prefix, save_format)
        return made

    # ---- changes ----
    def standardize(self, x: Any) -> Any:
        if self.preprocessing_function is not None:
            x = self.preprocessing_function(x)
        if self.rescale:
            x = x * self.rescale
        if self.samplewise_center:
            x = x - x.mean(keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (x.std(keepdims=True) + 1e-6)
        for wanted, figure in ((self.featurewise_center, self.mean), (self.featurewise_std_normalization, self.std)):
            if wanted and figure is None:
                raise ValueError("featurewise options need figures of the data: call fit(x) first")
        x = x - self.mean if self.featurewise_center else x
        return x / (self.std + 1e-6) if self.featurewise_std_normalization else x

    def _shift(self, given: Any, size: int) -> float:
        import numpy
        if isinstance(given, (list, tuple)) or hasattr(given, "shape") and len(given.shape):
            moved = numpy.random.choice(given) * numpy.random.choice([-1, 1])
        elif isinstance(given, int):
            moved = numpy.random.choice(given) * numpy.random.choice([-1, 1])
        else:
            moved = numpy.random.uniform(-given, given)
        return float(moved * size if numpy.max(given) < 1 else moved)

    def get_random_transform(self, img_shape: Any, seed: int | None = None) -> dict[str, Any]:
        from numpy import random
        if seed is not None:
            random.seed(seed)
        made: dict[str, Any] = {"theta": random.uniform(-self.rotation_range, self.rotation_range)
                                if self.rotation_range else 0}
        high, wide = img_shape[self.row_axis - 1], img_shape[self.col_axis - 1]
        made["tx"] = self._shift(self.height_shift_range, high) if self.height_shift_range else 0
        made["ty"] = self._shift(self.width_shift_range, wide) if self.width_shift_range else 0
        made["shear"] = random.uniform(-self.shear_range, self.shear_range) if self.shear_range else 0
        low, high = self.zoom_range
        made["zx"], made["zy"] = (1, 1) if low == high == 1 else random.uniform(low, high, 2)
        made["flip_horizontal"] = (random.random() < 0.5) * self.horizontal_flip
        made["flip_vertical"] = (random.random() < 0.5) * self.vertical_flip
        shift = self.channel_shift_range
        made["channel_shift_intensity"] = random.uniform(-shift, shift) if shift else None
        made["brightness"] = None if self.brightness_range is None else random.uniform(*self.brightness_range)
        return made

    def apply_transform(self, x: Any, transform_parameters: dict[str, Any]) -> Any:
        t = transform_parameters
        row, col, channel = self.row_axis - 1, self.col_axis - 1, self.channel_axis - 1
        x = apply_affine_transform(x, t.get("theta", 0), t.get("tx", 0), t.get("ty", 0), t.get("shear", 0),
                                   t.get("zx", 1), t.get("zy", 1), row, col, channel, self.fill_mode, self.cval,
                                   self.interpolation_order)
        if t.get("channel_shift_intensity") is not None:
            x = (x + t["channel_shift_intensity"]).clip(x.min(), x.max())
        for name, axis in (("flip_horizontal", col), ("flip_vertical", row)):
            if t.get(name):
                x = x.swapaxes(axis, 0)[::-1].swapaxes(axis, 0)
        if t.get("brightness") is not None:
            x = self._brightened(x, t["brightness"])
        return x

    def _brightened(self, x: Any, by: float) -> Any:
        """By Pillow, in whole numbers from 0 to 255."""
        from PIL import ImageEnhance
        low, high = x.min(), x.max()
        scale = bool(low < 0 or high > 255)
        img = ImageEnhance.Brightness(array_to_img(x, self.data_format, scale=scale)).enhance(by)
        made = img_to_array(img, self.data_format)
        return made / 255 * (high - low) + low if scale else made

    def random_transform(self, x: Any, seed: int | None = None) -> Any:
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Finds what the featurewise options need."""
        import numpy
        x = numpy.array(x, dtype=self.dtype)
        if x.ndim != 4:
            raise ValueError("fit() takes images of 4 dimensions, not shape %s" % (x.shape,))
        if seed is not None:
            numpy.random.seed(seed)
        x = x * self.rescale if self.rescale else x
        if augment:
            x = numpy.stack([self.random_transform(image) for _ in range(rounds) for image in x])
        wide = [1, 1, 1]
        wide[self.channel_axis - 1] = x.shape[self.channel_axis]
        axes = (0, self.row_axis, self.col_axis)
        if self.featurewise_center:
            self.mean = x.mean(axes).reshape(wide)
            x = x - self.mean
        if self.featurewise_std_normalization:
            self.std = x.std(axes).reshape(wide)


# ---- batches ----
class Iterator(PyDataset):
    """Batches without end by next(), or one pass by number."""

    saved: tuple[Any, str, str] = (None, "", "png")

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: int | None) -> None:
        super().__init__()
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.index_array: Any = None

    def _reorder(self) -> None:
        import numpy
        self.index_array = numpy.random.permutation(self.n) if self.shuffle else numpy.arange(self.n)

    on_epoch_end = _reorder

    def __len__(self) -> int:
        return -(-self.n // self.batch_size)

    def _seeded(self) -> None:
        if self.seed is not None:
            import numpy
            numpy.random.seed(self.seed + self.total_batches_seen)
        self.total_batches_seen += 1

    def __getitem__(self, index: int) -> Any:
        if index >= len(self):
            raise IndexError("there are %d batches; asked for number %d" % (len(self), index))
        self._seeded()
        if self.index_array is None:
            self._reorder()
        return self.samples_of(self.index_array[self.batch_size * index:self.batch_size * (index + 1)])

    def reset(self) -> None:
        self.batch_index = 0

    def __iter__(self) -> _Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._seeded()
        if self.batch_index == 0:
            self._reorder()
        first = self.batch_index * self.batch_size
        self.batch_index = 0 if first + self.batch_size >= self.n else self.batch_index + 1
        return self.samples_of(self.index_array[first:first + self.batch_size])

    next = __next__

    def samples_of(self, rows: Any) -> Any:
        raise NotImplementedError

    def _save(self, images: Any, rows: Any, data_format: str) -> None:
        folder, prefix, kind = self.saved
        for image, row in zip(images, rows) if folder else ():
            import numpy
            name = "%s_%d_%d.%s" % (prefix, row, numpy.random.randint(10000), kind)
            array_to_img(image, data_format).save(os.path.join(folder, name))


def _part(subset: str | None, split: float) -> tuple[float, float] | None:
    if subset not in (None, "training", "validation"):
        raise ValueError("subset is training or validation, not %r" % (subset,))
    return None if subset is None else (0.0, split) if subset == "validation" else (split, 1.0)


class NumpyArrayIterator(Iterator):
    def __init__(self, x: Any, y: Any, image_data_generator: ImageDataGenerator, batch_size: int = 32,
                 shuffle: bool = False, sample_weight: Any = None, seed: int | None = None,
                 subset: str | None = None, ignore_class_split: bool = False) -> None:
        import numpy
        own = image_data_generator
        x = numpy.asarray(x, dtype=own.dtype)
        if x.ndim != 4:
            raise ValueError("images have 4 dimensions (samples, height, width, channels), not shape %s" % (x.shape,))
        part = _part(subset, own._validation_split)
        rows = slice(None)
        if part is not None:
            at = int(len(x) * own._validation_split)
            whole = None if y is None or ignore_class_split else numpy.asarray(y)
            if whole is not None and set(numpy.unique(whole[:at])) != set(numpy.unique(whole[at:])):
                raise ValueError("training and validation have different classes: shuffle the images before, or give "
                                 "ignore_class_split=True")
            rows = slice(0, at) if subset == "validation" else slice(at, None)
        self.x = x[rows]
        self.y = None if y is None else numpy.asarray(y)[rows]
        self.sample_weight = None if sample_weight is None else numpy.asarray(sample_weight)[rows]
        for name, other in (("y", self.y), ("sample_weight", self.sample_weight)):
            if other is not None and len(other) != len(self.x):
                raise ValueError("there are %d images and %d of %s" % (len(self.x), len(other), name))
        self.image_data_generator = own
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def samples_of(self, rows: Any) -> Any:
        import numpy
        own = self.image_data_generator
        images = numpy.stack([own.standardize(own.random_transform(self.x[j].astype(own.dtype))) for j in rows])
        images = images.astype(own.dtype)
        self._save(images, rows, own.data_format)
        more = [v[rows] for v in (self.y, self.sample_weight) if v is not None]
        return (images, *more) if more else images


class DirectoryIterator(Iterator):
    def __init__(self, directory: Any, image_data_generator: ImageDataGenerator, target_size: Any = (256, 256),
                 color_mode: str = "rgb", classes: Any = None, class_mode: str | None = "categorical",
                 batch_size: int = 32, shuffle: bool = True, seed: int | None = None, follow_links: bool = False,
                 subset: str | None = None, interpolation: str = "nearest", keep_aspect_ratio: bool = False) -> None:
        import numpy
        if class_mode not in ("categorical", "binary", "sparse", "input", None):
            raise ValueError("class_mode is categorical, binary, sparse, input or None, not %r" % (class_mode,))
        self.directory, self.image_data_generator, self.class_mode = directory, image_data_generator, class_mode
        self.target_size, self.color_mode = tuple(target_size), color_mode
        self.how: dict[str, Any] = {"interpolation": interpolation, "keep_aspect_ratio": keep_aspect_ratio}
        channels = {"rgb": 3, "rgba": 4, "grayscale": 1}[color_mode]
        self.image_shape = self.target_size + (channels,) if image_data_generator.data_format == "channels_last" else (
            (channels,) + self.target_size)
        names = list(classes) if classes else sorted(
            d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)))
        self.class_indices = {name: i for i, name in enumerate(names)}
        self.num_classes = len(names)
        part = _part(subset, image_data_generator._validation_split)
        self.filenames: list[str] = []
        found: list[int] = []
        for name in names:
            own = self._files(os.path.join(directory, name), follow_links)
            if part is not None:
                own = own[int(part[0] * len(own)):int(part[1] * len(own))]
            self.filenames += [os.path.relpath(path, directory) for path in own]
            found += [self.class_indices[name]] * len(own)
        self.classes = numpy.array(found, dtype="int32")
        self.samples = len(self.filenames)
        self.filepaths = [os.path.join(directory, name) for name in self.filenames]
        print("Found %d images belonging to %d classes." % (self.samples, self.num_classes))
        super().__init__(self.samples, batch_size, shuffle, seed)

    labels = property(lambda self: self.classes)

    @staticmethod
    def _files(folder: str, follow_links: bool) -> list[str]:
        kinds = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")
        return [os.path.join(root, name) for root, _, names in sorted(os.walk(folder, followlinks=follow_links))
                for name in sorted(names) if name.lower().endswith(kinds)]

    def samples_of(self, rows: Any) -> Any:
        import numpy
        own = self.image_data_generator
        made = []
        for j in rows:
            img = load_img(self.filepaths[j], self.color_mode, self.target_size, **self.how)
            x = img_to_array(img, own.data_format, own.dtype)
            made.append(own.standardize(own.random_transform(x)))
        images = numpy.stack(made).astype(own.dtype)
        self._save(images, rows, own.data_format)
        if self.class_mode is None:
            return images
        if self.class_mode == "input":
            return images, images.copy()
        classes = self.classes[rows]
        if self.class_mode == "categorical":
            return images, numpy.eye(self.num_classes, dtype=own.dtype)[classes]
        return images, classes.astype(own.dtype)
