"""What the nets of keras.applications share: their inputs, their last layers, weights from files, and images as the
weights want them. Nothing is fetched: weights="imagenet" are files that Keras keeps in its folder (~/.keras/models)."""
from __future__ import annotations

import json
import os
from typing import Any, Callable

import cairn
from ..._training.batches import array
from .. import layers
from .._graph import KerasTensor
from ..backend import image_data_format
from ..models import Model

__all__ = ["Net", "decode_predictions", "preprocess_input"]


def folder() -> str:
    """Where Keras keeps files of nets."""
    home = os.environ.get("KERAS_HOME", os.path.join(os.path.expanduser("~"), ".keras"))
    return os.path.join(home, "models")


usual = "%s_weights_tf_dim_ordering_tf_kernels"  # the name of a file, for most nets


class Net:
    """A net under way: its options, its input, and how it ends."""

    def __init__(self, include_top: bool, weights: Any, input_tensor: Any, input_shape: Any, pooling: str | None,
                 classes: int, classifier_activation: Any, size: int, least: int, stem: str,
                 bare: str = "_notop") -> None:
        self.imagenet = weights == "imagenet"
        if self.imagenet:
            if include_top and classes != 1000:
                raise ValueError("weights='imagenet' with the top are for 1000 classes, not %r" % (classes,))
            name = stem + ("" if include_top else bare) + ".h5"
            weights = os.path.join(folder(), name)
            if not os.path.exists(weights):
                raise ValueError("weights='imagenet' are not fetched: put %s into %s, or give weights=None and train, "
                                 "or weights=the path of a file" % (name, folder()))
        if weights is not None and not os.path.exists(weights):
            raise ValueError("there is no file %s; weights is None or the path of a file" % (weights,))
        if pooling not in (None, "avg", "max"):
            raise ValueError("pooling is None, avg or max, not %r" % (pooling,))
        self.top, self.weights, self.pooling = include_top, weights, pooling
        self.classes, self.activation = classes, classifier_activation
        self.first = image_data_format() == "channels_first"
        self.axis = 1 if self.first else 3
        self.given = input_tensor
        self.shape = self._shape(input_shape, size, least)
        self.input = layers.Input(shape=self.shape) if input_tensor is None else input_tensor

    def _shape(self, given: Any, size: int, least: int) -> tuple[Any, ...]:
        open_size = None if not self.top else size
        if given is None:
            return (3, open_size, open_size) if self.first else (open_size, open_size, 3)
        if len(given) != 3:
            raise ValueError("input_shape is of one image, three sizes, not %r" % (given,))
        sides = tuple(given[1:] if self.first else given[:2])
        if any(n is not None and n < least for n in sides):
            raise ValueError("images must be %d x %d or more; input_shape is %r" % (least, least, tuple(given)))
        if self.top and None in sides:
            raise ValueError("include_top=True needs the sizes of images; input_shape is %r" % (tuple(given),))
        return tuple(given)

    @property
    def rows(self) -> int | None:
        size: int | None = self.shape[1 if self.first else 0]
        return size

    def end(self, x: Any, name: str, top: Callable[[Any], Any] | None = None, names: tuple[Any, Any] = (None, None),
            **dense: Any) -> Any:
        """The model: with its own top or the usual one (the mean of all places, then classes), or pooled."""
        if self.top and top is not None:
            x = top(x)
        elif self.top:
            x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
            x = layers.Dense(self.classes, activation=self.activation, name="predictions", **dense)(x)
        elif self.pooling == "avg":
            x = layers.GlobalAveragePooling2D(name=names[0])(x)
        elif self.pooling == "max":
            x = layers.GlobalMaxPooling2D(name=names[1])(x)
        inputs = self.input if self.given is None else sources(self.given)
        model = Model(inputs, x, name=name)
        if self.weights is not None:
            model.load_weights(self.weights)
        return model


def sources(place: Any) -> Any:
    """The Input() that a place comes from."""
    found: list[Any] = []
    stack = [place]
    while stack:
        t = stack.pop()
        if t.is_input:
            found += [t] if not any(t is f for f in found) else []
        else:
            stack.extend(t.node.inputs)
    return found[0] if len(found) == 1 else found


def padding_for(x: Any, kernel_size: int, first: bool) -> Any:
    """Room that makes a step of 2 fall where it does for even and odd sizes."""
    sizes = x.shape[2:4] if first else x.shape[1:3]
    half = kernel_size // 2
    return tuple((half - (1 if n is None else 1 - n % 2), half) for n in sizes)


_figures: dict[str, Any] = {"caffe": ([103.939, 116.779, 123.68], None),
                            "torch": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}


def preprocess_input(x: Any, data_format: str | None = None, mode: str = "caffe") -> Any:
    """Images of numbers from 0 to 255 as a net's weights want them. tf: -1 to 1; torch: by mean and deviation; caffe:
    blue first, less the mean."""
    if mode not in ("tf", "torch", "caffe"):
        raise ValueError("mode is caffe, tf or torch, not %r" % (mode,))
    from_array = not isinstance(x, (cairn.Tensor, KerasTensor))
    t: Any = cairn.as_tensor(x) if from_array else x
    if not isinstance(t, KerasTensor) and not t.dtype.is_floating_point:
        t = t.to(cairn.get_default_dtype())
    if mode == "tf":
        made = t / 127.5 - 1.0
    else:
        first = (data_format or image_data_format()) == "channels_first"
        mean, size = _figures[mode]
        wide = (3, 1, 1) if first else (3,)

        def tensor(values: Any) -> Any:
            return cairn.tensor(values).reshape(wide)
        if mode == "torch":
            made = (t / 255.0 - tensor(mean)) / tensor(size)
        else:
            from .. import ops
            made = ops.flip(t, axis=-3 if first else -1) - tensor(mean)
    return array(made) if from_array else made


def decode_predictions(preds: Any, top: int = 5) -> list[list[tuple[Any, ...]]]:
    """(code, name, score) of the `top` best classes of each row. Names come from imagenet_class_index.json in Keras's
    folder of models (~/.keras/models, or KERAS_HOME)."""
    rows = preds.tolist() if hasattr(preds, "tolist") else [list(r) for r in preds]
    if not rows or len(rows[0]) != 1000:
        raise ValueError("decode_predictions takes rows of 1000 classes, not shape %s"
                         % (getattr(preds, "shape", None),))
    path = os.path.join(folder(), "imagenet_class_index.json")
    if not os.path.exists(path):
        raise FileNotFoundError("names of classes are not fetched: put imagenet_class_index.json into %s"
                                % os.path.dirname(path))
    with open(path, encoding="utf-8") as file:
        names = json.load(file)
    return [[(*names[str(i)], row[i]) for i in sorted(range(1000), key=lambda k: -row[k])[:top]] for row in rows]
