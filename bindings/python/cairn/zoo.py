"""Well-known networks by name, with the parameter names of torchvision and transformers, so that their weights load
unchanged; generation with language models; sentence embeddings.

    net = cairn.zoo.resnet18(classes=10)                       # or cairn.zoo.create("resnet18", classes=10)
    net = cairn.zoo.resnet18(pretrained="resnet18.safetensors")
    net = cairn.zoo.resnet18(weights="DEFAULT")                # or weights=ResNet18_Weights.IMAGENET1K_V1
    tokens = cairn.zoo.generate(gpt, tokens, max_new_tokens=20, temperature=0.8)
"""
from __future__ import annotations

import builtins
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from . import _C, _weights
from ._modes import inference_mode
from ._arguments import refused
from ._tensor import Tensor
from ._weights import ImageClassification as ImageClassification, Weights as Weights, WeightsEnum as WeightsEnum
from .nn import AdaptiveAvgPool2d, Module
from .nn.module import _Made
from .random import get_rng_state, set_rng_state

if TYPE_CHECKING:
    from ._C import _Device, _Dtype

__all__ = ["KVCache", "WeightsEnum", "create", "describe", "embed", "embed_tokens", "generate", "get_model",
           "get_model_weights", "get_weight", "list", "list_models", "summary"]

_Path = str | os.PathLike[str]
_OPTIONS = ("classes", "num_classes", "channels", "image", "vocab", "config", "device", "dtype")  # of create
# Of cairn.models, which is this module: its modules, and classes to derive from with theirs.
_MODULES = ("densenet", "detection", "mobilenetv2", "resnet", "segmentation", "vgg")
_CLASSES = {"DenseNet": "densenet", "MobileNetV2": "mobilenetv2", "ResNet": "resnet", "VGG": "vgg"}
# Where torchvision says AdaptiveAvgPool2d(1); elsewhere it says AdaptiveAvgPool2d((1, 1)).
_ONE_NUMBER = ("SqueezeExcitation", "MobileNetV3", "EfficientNet", "ConvNeXt")


def list() -> builtins.list[str]:
    """The names of all networks."""
    return [name for name, _, _ in _C._zoo_list()]


def _spelt(name: str) -> str:
    """As an attribute of this module."""
    return name.replace("-", "_").replace(".", "_")


def describe(name: str) -> str:
    """What a network is, in a line."""
    for known, doc, _ in _C._zoo_list():
        if _spelt(known) == _spelt(name):
            return doc
    raise ValueError("there is no network %r; there are %s" % (name, ", ".join(list())))


def create(name: str, pretrained: _Path | bool | None = None, classes: int | None = None, channels: int | None = None,
           image: int | None = None, vocab: int | None = None, config: Mapping[str, Any] | None = None,
           device: _Device | None = None, dtype: _Dtype | None = None, *, num_classes: int | None = None) -> Module:
    """A network by name.

    classes (num_classes is the same), channels and image (the side of input images), vocab: sizes other than its own,
    where it has such a size. pretrained: a file of weights, a folder as transformers writes it, an address; True or
    "imagenet" downloads the weights that torchvision has for it. config: settings, of transformers' networks those of
    a config.json, of torchvision's the keywords that their functions take there."""
    if pretrained is False:
        pretrained = None
    sizes = (num_classes if classes is None else classes, channels, image, vocab)
    made: Module = _C._zoo(name, *sizes, "imagenet" if pretrained is True else pretrained,
                           None if config is None else dict(config), device, dtype)
    if config is None and isinstance(pretrained, (str, os.PathLike)):
        config = _config_beside(pretrained)
    settings = (name, *sizes, None if config is None else dict(config))
    for path, part in made.named_modules():
        if isinstance(part, _Made):
            part.__dict__["_zoo"] = (settings, path)
        for child in () if type(part).__name__ in _ONE_NUMBER else part.children():
            if type(child) is AdaptiveAvgPool2d and isinstance(child.output_size, int):
                child.__dict__["output_size"] = (child.output_size, child.output_size)
    return made


def _network(name: str, pretrained: Any = None, *, weights: Any = None, progress: bool = True,
             **given: Any) -> Module:  # unused: progress (fetching prints nothing)
    """create with the arguments of torchvision's functions."""
    if isinstance(pretrained, WeightsEnum):
        pretrained, weights = None, pretrained
    chosen = _weights.find(name, weights)
    if "image_size" in given:
        given["image"] = given.pop("image_size")
    if chosen is not None:
        pretrained = _weights.local_or_url(chosen)
        if _C._zoo_takes(name, "image"):
            given.setdefault("image", chosen.value.crop)
    settings = {key: given.pop(key) for key in [*given] if key not in _OPTIONS}
    for key in settings:
        if not _C._zoo_takes(name, key):
            raise TypeError("%s() got an unexpected keyword argument %r" % (_spelt(name), key))
    if settings:
        given["config"] = {**(given.get("config") or {}), **settings}
    return create(name, pretrained, **given)


def __getattr__(name: str) -> Any:
    """zoo.resnet18(...): create("resnet18", ...); zoo.ResNet18_Weights."""
    if name in _weights.classes():
        return _weights.class_for(_weights.classes()[name])
    if name in _MODULES:
        return import_module(".models." + name, __package__)
    if name in _CLASSES:
        return getattr(import_module(".models." + _CLASSES[name], __package__), name)
    for known, doc, takes in _C._zoo_list():
        if not name.startswith("_") and _spelt(known) == name:
            break
    else:
        raise AttributeError("module 'cairn.zoo' has no attribute %r" % name)

    def make(pretrained: Any = None, **settings: Any) -> Module:
        return _network(known, pretrained, **settings)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "%s\n\nTakes: %s." % (doc, ", ".join(("pretrained", "weights", *takes, "config", "device", "dtype")))
    globals()[name] = make
    return make


def __dir__() -> builtins.list[str]:
    return sorted({*globals(), *map(_spelt, list()), *_weights.classes(), *_MODULES, *_CLASSES})


# ---- by text, with torchvision's names ----
def list_models(module: Any = None, include: str | Sequence[str] | None = None,
                exclude: str | Sequence[str] | None = None) -> builtins.list[str]:
    """The networks that torchvision has too, by name; include and exclude are patterns ("resnet*")."""
    from fnmatch import fnmatch
    refused("list_models", "there is one list of networks", module=module)

    def fits(name: str, patterns: str | Sequence[str]) -> bool:
        return any(fnmatch(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

    return sorted(n for n in _weights.classes().values()
                  if (not include or fits(n, include)) and not (exclude and fits(n, exclude)))


def get_model(name: str, **config: Any) -> Module:
    """A network by its name, with the arguments of its function."""
    return _network(name.lower(), **config)


def get_model_weights(name: str | Callable[..., Any]) -> type[WeightsEnum]:
    """The weights there are for a network, given by its name or its function."""
    return _weights.class_for(name if isinstance(name, str) else name.__name__)


def get_weight(name: str) -> WeightsEnum:
    """Weights by their whole name, "ResNet18_Weights.DEFAULT"."""
    owner, _, key = name.partition(".")
    networks = _weights.classes()
    if owner not in networks:
        raise ValueError("there are no weights %r" % name)
    found = _weights.find(networks[owner], key)
    assert found is not None
    return found


# ---- pickles ----
def _config_beside(path: _Path) -> dict[str, Any] | None:
    """The settings in a folder of weights, or beside a file of them; None where there are none."""
    import json
    folder = os.fspath(path) if os.path.isdir(path) else os.path.dirname(os.fspath(path))
    file = os.path.join(folder, "config.json")
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as opened:
        found = json.load(opened)
    return found if isinstance(found, dict) else None


_shells: dict[str, dict[str, Module]] = {}  # modules without parameters, by their place in a network


def _revive(settings: tuple[Any, ...], path: str) -> Module:
    """A part of a network as pickle had it, before its parameters and children are put in."""
    key = repr(settings)
    if key not in _shells:
        state = get_rng_state()
        try:
            name, classes, channels, image, vocab, config = settings
            network: Module = _C._zoo(name, classes, channels, image, vocab, None, config, None, None)
        finally:
            set_rng_state(state)
        _shells[key] = {at: _shell(part) for at, part in network.named_modules() if isinstance(part, _Made)}
    if path not in _shells[key]:
        raise ValueError("the network %s has no part %r" % (settings[0], path))
    return _shell(_shells[key][path])


def _shell(part: Module) -> Module:
    made: Module = type(part).__new__(type(part))
    made._copy_from(part)
    return made


# ---- language models ----
def _rows(tokens: Any) -> Tensor:
    """Tokens as (B, T) int64."""
    t = tokens if isinstance(tokens, Tensor) else _C.tensor(tokens)
    if t.ndim == 1:
        t = t.unsqueeze(0)
    return t.to(_C.int64)


def generate(model: Module, tokens: Tensor | Sequence[Any], max_new_tokens: int = 32, temperature: float = 1.0,
             top_k: int | None = None, top_p: float | None = None, repetition_penalty: float = 1.0,
             stop: int | None = None, streamer: Callable[[int], bool | None] | None = None, use_cache: bool = True,
             do_sample: bool = True) -> Tensor:
    """Tokens (B, T) and what follows them, (B, T + new).

    temperature 0, or do_sample=False: always the likeliest token. top_k, top_p: only among the k likeliest, or those
    that make up this probability. stop: a token that ends a sequence; rows that have come to it are filled up with it.
    streamer: called with each new token, row by row; False ends the generation. Takes any module that gives scores (B,
    T, vocab) for tokens (B, T); those of the zoo run with a cache of keys and values. Choices are drawn from this
    thread's random numbers (cairn.manual_seed)."""
    return _C._generate(model, _rows(tokens), max_new_tokens, float(temperature) if do_sample else 0.0, top_k or 0,
                        float(top_p or 0), float(repetition_penalty), stop, streamer, use_cache)


class KVCache(_C.CacheBase):
    """What a language model has seen of a batch of sequences, for loops by hand: room for `length` tokens each.

        cache = KVCache(model, batch=1, length=64)
        scores = cache.step(tokens)            # (B, T, vocab); the next call comes behind these tokens
    """

    def __new__(cls, model: Module, batch: int, length: int) -> KVCache:
        made: KVCache = super().__new__(cls, model, batch, length)
        made.model, made.batch, made.length = model, batch, length
        return made

    model: Module
    batch: int
    length: int

    def __repr__(self) -> str:
        return "KVCache(batch=%d, length=%d, seen=%d)" % (self.batch, self.length, len(self))


# ---- sentence embeddings ----
def embed(model: Module, tokenizer: Any, texts: str | Sequence[str]) -> Tensor:
    """Embeddings (n, dim) of texts, mean-pooled and of length 1. Of long texts the beginning counts: as many tokens as
    the model was made for. tokenizer: one of cairn.tokenizers, or any that returns input_ids and attention_mask."""
    given = [texts] if isinstance(texts, str) else [*texts]
    native = getattr(tokenizer, "_native", None)
    if isinstance(native, _C.NativeTokenizer):
        return _C._embed(model, native, given)
    batch = tokenizer(given, padding=True, truncation=True)
    tokens, mask = (_C.as_tensor(batch[name]).to(_C.int64) for name in ("input_ids", "attention_mask"))
    training = model.training
    model.eval()
    try:
        with inference_mode():
            return embed_tokens(model, tokens, mask)
    finally:
        model.train(training)


def embed_tokens(model: Module, tokens: Tensor, mask: Tensor) -> Tensor:
    """The same of tokens (B, T); mask (B, T): 1 for tokens, 0 for padding. Gradients flow and dropout counts, for
    fine-tuning."""
    return _C._embed_tokens(model, tokens, mask)


# ---- tables ----
class _Summary(str):
    """A table as text, which a notebook shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def summary(model: Module, input_size: Sequence[int] | None = None, input_data: Any = None) -> str:
    """A table of layers: name, output shape, parameters, multiply-adds; and sums. The model runs once, in evaluation
    mode, on zeros of that size, or on the tensors given."""
    if input_data is not None:
        given: Any = tuple(input_data) if isinstance(input_data, (tuple, builtins.list)) else (input_data,)
    elif input_size is None:
        raise TypeError("summary: input_size or input_data must be given")
    else:
        given = tuple(input_size)
    return _Summary(_C._summary(model, given))
