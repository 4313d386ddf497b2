"""cairn.utils.collect_env: what a report of a problem should say about the machine (python -m cairn.utils.collect_env).
"""
from __future__ import annotations

import platform
import sys

from .. import _C, cuda

__all__ = ["get_env_info", "get_pretty_env_info", "main"]


def get_env_info() -> dict[str, str]:
    """What is known, by name."""
    info = _C._device_info("cpu")
    found = {"cairn version": _C._version(), "Python version": sys.version.split("\n")[0], "OS": platform.platform(),
             "Libc version": "-".join(p for p in platform.libc_ver() if p) or "unknown",
             "CPU": "%s (%s, %s threads)" % (info["name"], info["arch"], info["threads"]),
             "Is CUDA available": str(cuda.is_available())}
    for i in range(cuda.device_count()):
        found["GPU %d" % i] = cuda.get_device_name(i)
    for name in ("numpy", "torch", "ml_dtypes"):
        try:
            from importlib.metadata import version
            found["[pip] " + name] = version(name)
        except ImportError:
            pass
    return found


def get_pretty_env_info() -> str:
    """The same as lines of text."""
    return "\n".join("%s: %s" % item for item in get_env_info().items())


def main() -> None:
    """Prints it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
