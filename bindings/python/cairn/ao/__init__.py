"""torch.ao: quantisation, which cairn has in ONNX files alone. Programs may import the names.

Invariant: what would quantise raises when it is used."""
from __future__ import annotations

from .. import _absent
from . import _names

__all__ = ["nn", "quantization"]

_made = _absent.spaces(__name__, _names.BELOW, "cairn quantises no modules (torch.ao)")
nn, quantization = _made["nn"], _made["quantization"]
