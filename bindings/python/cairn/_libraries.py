"""Where pip keeps NVIDIA's libraries: the folders named nvidia of Python's packages.

Place in the flow: imported by the package itself, once, before anything can ask for a device. The plugin looks there
behind CAIRN_CUDA_LIBRARIES and the system's own search. Invariant: nothing is opened or listed here.
"""
import os
import sys

from . import _C

_folders = [os.path.join(place, "nvidia") for place in dict.fromkeys(sys.path)]
_C._library_folders(":".join(folder for folder in _folders if os.path.isdir(folder)))
