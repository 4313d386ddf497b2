"""cairn.nn.parallel.comm: tensors from one device to several and back; cairn.cuda.comm is this module.

Place in the flow: programs that deal work out to devices by themselves. Invariant: a tensor that is where it is wanted
already is handed on as it is; devices are any that cairn has, those of CUDA where a number alone is given.
"""
from __future__ import annotations

from typing import Any, Iterable, Sequence

from ... import _C
from ..._tensor import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _place(device: Any) -> _C.device:
    return _C.device("cuda", device) if isinstance(device, int) else _C.device(device)


def _one_of(devices: Any, out: Any) -> None:
    if (devices is None) == (out is None):
        raise RuntimeError("Exactly one of 'devices' and 'out' must be specified, but got devices=%r and out=%r"
                           % (devices, out))


def _destination(device: Any, like: Tensor) -> _C.device:
    """Where a result goes: the current CUDA device where nothing is said, or, without one, where `like` is."""
    from ... import cuda
    if device is None or device == -1:
        return _C.device("cuda", cuda.current_device()) if cuda.is_available() else like.device
    return _place(device)


def broadcast(tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Sequence[Tensor] | None = None
              ) -> tuple[Tensor, ...]:
    """The tensor on each of the devices, or written into each tensor of `out`."""
    _one_of(devices, out)
    if out is not None:
        for one in out:
            if one.shape != tensor.shape:
                raise RuntimeError("broadcast: expected outputs of shape %s, not %s"
                                   % (tuple(tensor.shape), tuple(one.shape)))
            one.copy_(tensor)
        return tuple(out)
    return tuple(tensor.to(_place(d)) for d in devices or ())


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Iterable[Any], buffer_size: int = 10485760
                        ) -> list[tuple[Tensor, ...]]:  # unused: buffer_size (each tensor is a copy of its own)
    """For each device all the tensors."""
    return [tuple(t.to(_place(d)) for t in tensors) for d in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape, on a device."""
    if not inputs:
        raise RuntimeError("reduce_add expects tensors")
    place, first = _destination(destination, inputs[0]), inputs[0]
    for i, one in enumerate(inputs):
        if one.shape != first.shape:
            raise ValueError("input %d has invalid size: got %s, but expected %s"
                             % (i, tuple(one.shape), tuple(first.shape)))
    total = first.to(place, copy=True)
    for one in inputs[1:]:
        total += one.to(place)
    return total


def reduce_add_coalesced(inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
                         ) -> tuple[Tensor, ...]:  # unused: buffer_size (each sum is by itself)
    """The sums of what the lists have at each place."""
    return tuple(reduce_add(column, destination) for column in zip(*inputs))


def scatter(tensor: Tensor, devices: Iterable[Any] | None = None, chunk_sizes: Sequence[int] | None = None,
            dim: int = 0, streams: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
            ) -> tuple[Tensor, ...]:
    """Pieces of the tensor along dim, one for each device, of equal or the given sizes; or written into `out`, whose
    sizes they are. streams: where the copies to each device are queued; None: the stream in use."""
    _one_of(devices, out)
    if out is not None:
        if chunk_sizes is not None or streams is not None:
            raise RuntimeError("'chunk_sizes' and 'streams' must not be specified when 'out' is specified")
        pieces = tensor.split([one.size(dim) for one in out], dim)
        for one, piece in zip(out, pieces):
            one.copy_(piece)
        return tuple(out)
    places = [_place(d) for d in devices or ()]
    pieces = tensor.chunk(len(places), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    if chunk_sizes is not None and len(pieces) != len(places):
        raise ValueError("scatter: %d sizes for %d devices" % (len(pieces), len(places)))
    return tuple(_on(stream, piece, place) for piece, place, stream
                 in zip(pieces, places, streams or [None] * len(places)))


def _on(stream: Any, piece: Tensor, place: _C.device) -> Tensor:
    if stream is None:
        return piece.to(place)
    with stream:
        return piece.to(place)


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along dim on a device, or written into `out`."""
    if out is None:
        place = _C.device("cpu") if destination == "cpu" else _destination(destination, tensors[0])
        return _C.cat([t.to(place) for t in tensors], dim)
    if destination is not None:
        raise RuntimeError("'destination' must not be specified when 'out' is specified, but got destination=%r"
                           % (destination,))
    return out.copy_(_C.cat([t.to(out.device) for t in tensors], dim))
