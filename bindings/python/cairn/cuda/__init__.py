"""cairn.cuda: NVIDIA devices: which there are, what they are like, waiting for them, their memory.

Place in the flow: asks the core (`_C._device_count` and its kin), which loads the CUDA plugin at the first question.
Importing this module loads nothing. Invariant: where there is no device, questions are answered (False, 0), and what
needs a device raises RuntimeError.
"""
import typing

from .. import _C

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "mem_get_info", "memory_allocated", "reset_peak_memory_stats",
    "synchronize",
]

if typing.TYPE_CHECKING:
    from .._C import _Device as _Given
    _Device: typing.TypeAlias = _Given | None  # a device, its name ("cuda:1"), its number, or None for the current one
else:
    _Device = typing.Any


class DeviceProperties(typing.NamedTuple):
    """What a device is like; sizes in bytes."""
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    L2_cache_size: int


def is_available() -> bool:
    """Whether there is at least one CUDA device that cairn can use. Never raises."""
    return device_count() > 0


def device_count() -> int:
    """The number of CUDA devices that can be used here; 0 without a driver or without the plugin."""
    return _C._device_count("cuda")


def is_initialized() -> bool:
    """Whether the devices are ready for use. The plugin starts with the first question, so this is is_available()."""
    return is_available()


def current_device() -> int:
    """The number of the device that "cuda" without a number means: the first."""
    _require(0)
    return 0


def _require(index: int) -> None:
    count = device_count()
    if count == 0:
        raise RuntimeError("cairn.cuda: there is no CUDA device here: no driver was found, no device is visible, or "
                           "libcairn_cuda.so is neither beside libcairn nor in CAIRN_PLUGIN_PATH")
    if not 0 <= index < count:
        raise RuntimeError(f"cairn.cuda: no device {index}; there are {count}, counted from 0")


def _index(device: _Device) -> int:
    """The number of a device, checked to exist."""
    if device is None:
        index = 0
    elif isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        text = str(device)
        kind, _, number = text.partition(":")
        if kind != "cuda" or (number and not number.isdigit()):
            raise ValueError(f"cairn.cuda: expected a CUDA device, got {text!r}")
        index = int(number or 0)
    _require(index)
    return index


def _info(device: _Device) -> dict[str, typing.Any]:
    return _C._device_info(f"cuda:{_index(device)}")


def get_device_name(device: _Device = None) -> str:
    """The device's name as its maker gives it."""
    return str(_info(device)["name"])


def get_device_capability(device: _Device = None) -> tuple[int, int]:
    """The device's compute capability, (9, 0) for instance."""
    digits = "".join(c for c in str(_info(device)["arch"]) if c.isdigit())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)


def get_device_properties(device: _Device = None) -> DeviceProperties:
    """Name, compute capability (major, minor), memory, multiprocessors and second-level cache of a device."""
    info = _info(device)
    major, minor = get_device_capability(device)
    cache = info.get("cache") or (0, 0, 0)
    return DeviceProperties(str(info["name"]), major, minor, int(info["memory_total"]), int(info["units"]),
                            int(cache[1]))


def synchronize(device: _Device = None) -> None:
    """Waits for all work queued on a device; failures of that work are raised here."""
    _C._device_sync(f"cuda:{_index(device)}")


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """(free, total) bytes of a device's memory, whoever uses it."""
    info = _info(device)
    return int(info["memory_free"]), int(info["memory_total"])


def _memory(what: str, device: _Device) -> int:
    """A figure about the memory that this process holds on a device; 0 where there is no device."""
    if device is None and not is_available():
        return 0
    return _C._device_memory(f"cuda:{_index(device)}")[what]


def memory_allocated(device: _Device = None) -> int:
    """Bytes of a device's memory that tensors of this process occupy."""
    return _memory("allocated", device)


def max_memory_allocated(device: _Device = None) -> int:
    """The most that memory_allocated() has been so far."""
    return _memory("peak", device)


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Lets max_memory_allocated() start again from what is in use now."""
    if is_available():
        _C._device_memory_reset_peak(f"cuda:{_index(device)}")


def empty_cache() -> None:
    """A hint that needs nothing done: memory kept for the next tensors is given back when the device runs out."""


def manual_seed(seed: int) -> None:
    """Seeds the random numbers. cairn has one stream of them for all devices: this is cairn.manual_seed."""
    import cairn
    cairn.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """The same as manual_seed: the stream does not depend on the device."""
    manual_seed(seed)


from . import amp as amp  # noqa: E402  (at the end: it looks at this module)
