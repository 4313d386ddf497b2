"""Which CUDA devices there are, what they are like, and which of them "cuda" means.

Place in the flow: the ground of cairn.cuda; asks the core (`_C._device_count` and its kin), which loads the CUDA plugin
at the first question. Invariant: where there is no device, questions are answered (False, 0), and what needs a device
raises RuntimeError.
"""
from __future__ import annotations

import typing
import uuid
from types import TracebackType

from .. import _C

__all__ = ["can_device_access_peer", "current_device", "device", "device_count", "device_of", "get_arch_list",
           "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags", "init",
           "is_available",
           "is_bf16_supported", "is_initialized", "is_tf32_supported", "set_device", "synchronize"]

if typing.TYPE_CHECKING:
    from .._C import _Device as _Given
    from .._tensor import Tensor
    _Device: typing.TypeAlias = _Given | None  # a device, its name ("cuda:1"), its number, or None for the current one
else:
    _Device = typing.Any


class DeviceProperties(typing.NamedTuple):
    """What a device is like; sizes in bytes, clocks in kHz."""
    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    L2_cache_size: int
    clock_rate: int = 0
    memory_clock_rate: int = 0
    warp_size: int = 32
    max_threads_per_block: int = 0
    max_threads_per_multi_processor: int = 0
    regs_per_multiprocessor: int = 0
    shared_memory_per_block: int = 0
    shared_memory_per_block_optin: int = 0
    shared_memory_per_multiprocessor: int = 0
    memory_bus_width: int = 0
    pci_domain_id: int = 0
    pci_bus_id: int = 0
    pci_device_id: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    uuid: str = ""
    gcnArchName: str = ""


def is_available() -> bool:
    """Whether there is at least one CUDA device that cairn can use. Never raises."""
    return device_count() > 0


def device_count() -> int:
    """The number of CUDA devices that can be used here; 0 without a driver or without the plugin."""
    return _C._device_count("cuda")


def is_initialized() -> bool:
    """Whether the devices are ready for use. The plugin starts with the first question, so this is is_available()."""
    return is_available()


def init() -> None:
    """Starts the devices now rather than at their first use; an error where there is none."""
    _require(0)


def current_device() -> int:
    """The number of the device that "cuda" without a number means in this thread: the first, or set_device's."""
    index = _C._current_cuda(-1)
    _require(index)
    return index


def set_device(device: _Device) -> None:
    """Lets "cuda" without a number mean this device from now on, in this thread."""
    if isinstance(device, int) and device < 0:
        return
    _C._current_cuda(_index(device))


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
        index = _C._current_cuda(-1)
    elif isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        text = str(device)
        kind, _, number = text.partition(":")
        if kind != "cuda" or (number and not number.isdigit()):
            raise ValueError(f"cairn.cuda: expected a CUDA device, got {text!r}")
        index = int(number) if number else _C._current_cuda(-1)
    _require(index)
    return index


class device:
    """While inside, "cuda" without a number means this device, in this thread; None and -1 change nothing."""

    def __init__(self, device: typing.Any) -> None:
        self.idx = -1 if device is None or device == -1 else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C._current_cuda(self.idx)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.idx >= 0:
            _C._current_cuda(self.prev_idx)


class device_of(device):
    """The device of a tensor as the current one while inside; a tensor on the CPU changes nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


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
    """What a device is like, by torch's names. uuid is as CUDA_VISIBLE_DEVICES takes it behind "GPU-"; gcnArchName,
    which says more of other makers' devices, is the name."""
    info = _info(device)
    major, minor = get_device_capability(device)
    cache = info.get("cache") or (0, 0, 0)
    return DeviceProperties._make((str(info["name"]), major, minor, int(info["memory_total"]), int(info["units"]),
                                   int(cache[1]), round(info["clock_mhz"] * 1e3), round(info["memory_mhz"] * 1e3),
                                   *info["blocks"], *info["shared"], info["memory_bits"], *info["pci"],
                                   *info["board"], str(uuid.UUID(bytes=info["uuid"])), str(info["name"])))


def get_arch_list() -> list[str]:
    """The kinds of device that kernels are there for: those that are here, since they are compiled on the spot."""
    kinds = {get_device_capability(i) for i in range(device_count())}
    return ["sm_%d%d" % kind for kind in sorted(kinds)]


def get_gencode_flags() -> str:
    """What nvcc would be told to compile for the devices that are here."""
    return " ".join(f"-gencode compute=compute_{arch[3:]},code={arch}" for arch in get_arch_list())


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be computed with on the current device."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the current device has Tensor Cores for TF32. They are used where a program allows it
    (cairn.set_float32_matmul_precision)."""
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: _Device, peer_device: _Device) -> bool:
    """False: copies between devices go through the host."""
    _index(device), _index(peer_device)
    return False


def synchronize(device: _Device = None) -> None:
    """Waits for all work queued on a device; failures of that work are raised here."""
    _C._device_sync(f"cuda:{_index(device)}")
