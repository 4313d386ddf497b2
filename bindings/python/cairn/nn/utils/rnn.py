"""Sequences of several lengths: padded, packed, and lists of them."""
from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from ... import _C
from ..._tensor import Tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
           "pad_sequence", "unpack_sequence", "unpad_sequence"]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of several lengths without padding: the rows of all first steps, then of all second ones, and so on."""

    __module__ = "cairn.nn.utils.rnn"

    def __new__(cls, data: Tensor, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> PackedSequence:
        if batch_sizes is None:  # torch's other form: PackedSequence((data, batch_sizes))
            data, batch_sizes = data[0], data[1]
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes must be on the CPU, not on %s" % batch_sizes.device)
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return False

    def pin_memory(self) -> PackedSequence:
        return self

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With data of another type or on another device; batch_sizes stay."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        forth = None if self.sorted_indices is None else self.sorted_indices.to(data.device)
        back = None if self.unsorted_indices is None else self.unsorted_indices.to(data.device)
        return type(self)(data, self.batch_sizes, forth, back)

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        return self.to("cuda" if device is None else device)

    def double(self) -> PackedSequence:
        return self.to(_C.float64)

    def float(self) -> PackedSequence:
        return self.to(_C.float32)

    def half(self) -> PackedSequence:
        return self.to(_C.float16)

    def long(self) -> PackedSequence:
        return self.to(_C.int64)

    def int(self) -> PackedSequence:
        return self.to(_C.int32)

    def short(self) -> PackedSequence:
        return self.to(_C.int16)

    def char(self) -> PackedSequence:
        return self.to(_C.int8)

    def byte(self) -> PackedSequence:
        return self.to(_C.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each number stands in a permutation."""
    return None if permutation is None else permutation.argsort()


def _check_sorted(lengths: list[int]) -> None:
    if any(a < b for a, b in zip(lengths, lengths[1:])):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True: with "
                           "enforce_sorted=False sequences are sorted, and put back, by themselves")


def pack_padded_sequence(input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Packs a padded tensor (T, B, ...), or (B, T, ...) with batch_first. enforce_sorted: longer ones come first."""
    if not isinstance(lengths, Tensor):
        lengths = _C.tensor([int(n) for n in lengths], dtype=_C.int64)
    elif lengths.device.type == "cpu" and lengths.dtype != _C.int64:
        lengths = lengths.to(_C.int64)
    if lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got %dD %s %s tensor"
                           % (lengths.ndim, lengths.device, lengths.dtype))
    if enforce_sorted:
        _check_sorted(lengths.tolist())
    return PackedSequence(*_C._pack_padded(input, lengths, batch_first, enforce_sorted))


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """The inverse: a padded tensor and the lengths."""
    steps = sequence.batch_sizes.shape[0]
    if total_length is not None and total_length < steps:
        raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                         "total_length=%d and max sequence length being %d" % (total_length, steps))
    padded, lengths = _C._pad_packed(*sequence, batch_first, float(padding_value), total_length or 0)
    return padded, lengths


def pad_sequence(sequences: Tensor | Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Sequences (length, ...) side by side, the shorter ones filled up."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: %s"
                           % type(sequences))
    return _C._pad_sequence(list(sequences), batch_first, float(padding_value), padding_side)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences in a padded tensor."""
    return _C._unpad_sequence(padded_sequences, lengths, batch_first)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (length, ...)."""
    if enforce_sorted:
        _check_sorted([len(t) for t in sequences])
    return PackedSequence(*_C._pack_sequence(list(sequences), enforce_sorted))


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences in a packed one."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
