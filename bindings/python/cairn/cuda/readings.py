"""What a device's sensors say: how busy, how warm, how fast it is.

Place in the flow: names of cairn.cuda, on NVIDIA's management library (NVML), which comes with the driver and is opened
when one of them is first asked. Invariant: the device that is asked is the one cairn counts so, whatever
CUDA_VISIBLE_DEVICES hides: it is named by its place on the bus. Without the library each raises RuntimeError.
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any

from ._devices import _Device, _index

__all__ = ["clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature",
           "utilization"]

_TEMPERATURE_OF_THE_CHIP, _CLOCK_OF_MULTIPROCESSORS = 0, 1


class _Busy(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("instance", ctypes.c_uint),
                ("compute", ctypes.c_uint)]


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The driver and NVML, ready for use."""
    try:
        driver, management = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise RuntimeError("cairn.cuda: the sensors of devices cannot be read: %s" % error) from None
    _check(management.nvmlInit_v2(), "nvmlInit_v2")
    return driver, management


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError("cairn.cuda: %s failed with %d" % (what, status))


def _handle(device: _Device) -> ctypes.c_void_p:
    """NVML's of a device."""
    index = _index(device)
    driver, management = _libraries()
    number, place, handle = ctypes.c_int(), ctypes.create_string_buffer(64), ctypes.c_void_p()
    _check(driver.cuDeviceGet(ctypes.byref(number), index), "cuDeviceGet")
    _check(driver.cuDeviceGetPCIBusId(place, len(place), number), "cuDeviceGetPCIBusId")
    _check(management.nvmlDeviceGetHandleByPciBusId_v2(place, ctypes.byref(handle)),
           "nvmlDeviceGetHandleByPciBusId_v2")
    return handle


def _read(device: _Device, name: str, result: Any, *args: Any) -> Any:
    """result, filled by NVML's function of that name."""
    handle = _handle(device)
    _check(getattr(_libraries()[1], name)(handle, *args, ctypes.byref(result)), name)
    return result


def utilization(device: _Device = None) -> int:
    """Percent of the last moments in which a kernel ran."""
    return int(_read(device, "nvmlDeviceGetUtilizationRates", _Busy()).gpu)


def memory_usage(device: _Device = None) -> int:
    """Percent of the last moments in which memory was read or written."""
    return int(_read(device, "nvmlDeviceGetUtilizationRates", _Busy()).memory)


def device_memory_used(device: _Device = None) -> int:
    """Bytes of the device's memory in use, whoever uses them."""
    return int(_read(device, "nvmlDeviceGetMemoryInfo", _Memory()).used)


def temperature(device: _Device = None) -> int:
    """Degrees Celsius of the chip."""
    return int(_read(device, "nvmlDeviceGetTemperature", ctypes.c_uint(), _TEMPERATURE_OF_THE_CHIP).value)


def power_draw(device: _Device = None) -> int:
    """Milliwatts that the device takes."""
    return int(_read(device, "nvmlDeviceGetPowerUsage", ctypes.c_uint()).value)


def clock_rate(device: _Device = None) -> int:
    """The clock of multiprocessors, MHz, as it is now."""
    return int(_read(device, "nvmlDeviceGetClockInfo", ctypes.c_uint(), _CLOCK_OF_MULTIPROCESSORS).value)


def list_gpu_processes(device: _Device = None) -> str:
    """The processes that compute on a device, and how much of its memory each uses, as text."""
    handle, count, most = _handle(device), ctypes.c_uint(256), 256
    found = (_Process * most)()
    _check(_libraries()[1].nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found),
           "nvmlDeviceGetComputeRunningProcesses_v3")
    lines = ["process %10d uses %12.3f MB GPU memory" % (p.pid, p.memory / 2**20) for p in found[:count.value]]
    return "\n".join(["GPU:%d" % _index(device)] + (lines or ["no processes are running"]))
