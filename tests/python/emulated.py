"""Programs on a CUDA device that the processor stands for (tests/simt), each in a process of its own: Python's part
of CUDA is tested without a GPU. Slow: kernels are compiled by the C++ compiler; keep tensors small and kinds few.
"""
import os
import shutil
import subprocess
import sys
import textwrap

BUILD = os.environ.get("CAIRN_BUILD_DIR", "build/default")
SIMT = os.path.join(os.path.abspath(BUILD), "tests", "simt")
REASON = "no CUDA plugin to emulate, or no C++ compiler"


def missing():
    """Whether nothing can be emulated here."""
    plugin = os.path.join(BUILD, "libcairn_cuda.so")
    compiler = shutil.which(os.environ.get("CXX", "c++").split()[0])
    return not (compiler and os.path.exists(plugin) and os.path.exists(os.path.join(SIMT, "libcuda.so.1")))


def environment(**more):
    """The environment of a process that finds the emulated driver."""
    return {**os.environ, "LD_LIBRARY_PATH": SIMT, "CAIRN_PLUGIN_PATH": os.path.abspath(BUILD),
            "CAIRN_CACHE": os.path.join(SIMT, "cache"), "SIMT_ORDER": os.environ.get("SIMT_ORDER", "1"), **more}


def run(program, **more):
    """What a program prints; an AssertionError with what it wrote where it fails."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment(**more),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout
