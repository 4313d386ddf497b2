"""cairn.backends.cpu: what the processor can do."""
from .. import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The vector instructions that cairn uses here: "AVX2", "AVX512", or "DEFAULT" for none beyond the usual."""
    name = str(_C._device_info("cpu")["arch"]).upper()
    return name if name.startswith("AVX") else "DEFAULT"
