"""Well-known networks by name, with the parameter names of torchvision and transformers, so that their weights load
unchanged; generation with language models; sentence embeddings.

    net = cairn.zoo.resnet18(classes=10)                       # or cairn.zoo.create("resnet18", classes=10)
    net = cairn.zoo.resnet18(pretrained="resnet18.safetensors")
    tokens = cairn.zoo.generate(gpt, tokens, max_new_tokens=20, temperature=0.8)
"""
from __future__ import annotations

import builtins
import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from . import _C
from ._modes import inference_mode
from ._tensor import Tensor
from .nn import Module

if TYPE_CHECKING:
    from ._C import _Device, _Dtype

__all__ = ["KVCache", "create", "describe", "embed", "embed_tokens", "generate", "list", "summary"]

_Path = str | os.PathLike[str]


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
    "imagenet" downloads the weights that torchvision has for it. config: the settings of a config.json, where the
    network takes them."""
    if pretrained is False:
        pretrained = None
    made: Module = _C._zoo(name, num_classes if classes is None else classes, channels, image, vocab,
                           "imagenet" if pretrained is True else pretrained,
                           None if config is None else dict(config), device, dtype)
    return made


def __getattr__(name: str) -> Callable[..., Module]:
    """zoo.resnet18(...): create("resnet18", ...)."""
    for known, doc, takes in _C._zoo_list():
        if not name.startswith("_") and _spelt(known) == name:
            break
    else:
        raise AttributeError("module 'cairn.zoo' has no attribute %r" % name)

    def make(pretrained: _Path | bool | None = None, **settings: Any) -> Module:
        return create(known, pretrained, **settings)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = "%s\n\nTakes: %s." % (doc, ", ".join(("pretrained", *takes, "config", "device", "dtype")))
    globals()[name] = make
    return make


def __dir__() -> builtins.list[str]:
    return sorted(set(globals()) | set(map(_spelt, list())))


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
    the model was made for. tokenizer: one of cairn.tokenizers, or any that answers input_ids and attention_mask."""
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
