"""What compiled files ask of a system, and the manylinux tag that follows from it (PEP 600).

Place in the flow: tools/dist asks for the files of a wheel or of a Debian package. Invariant: a tag is never lower than
the newest glibc symbol or feature that a file of the wheel uses, and no file needs a library that such systems may
lack.
"""
import os
import pathlib
import platform
import re
import subprocess

# Libraries that every system a manylinux tag speaks of has, as far as any of ours could want them.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "libz.so.1"}
# What a file asks of the loader by a name without a number, and the glibc that came with it.
ABI = {"GLIBC_ABI_DT_RELR": (2, 36)}
LOADER = re.compile(r"ld-linux[\w-]*\.so\.\d")


def needs(path):
    """(names of the libraries it asks for, versions of glibc it asks for as tuples of numbers)."""
    said = subprocess.run(["objdump", "-p", str(path)], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout
    libraries = set(re.findall(r"^ +NEEDED +(\S+)$", said, re.M))
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"\bGLIBC_([\d.]+)$", said, re.M)}
    versions |= {since for name, since in ABI.items() if re.search(rf"\b{name}$", said, re.M)}
    return libraries, versions


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def missing(files):
    """Libraries that these files need and that neither are among them nor everywhere. files: name -> path."""
    return {name for path in files.values() for name in needs(path)[0]
            if name not in EVERYWHERE and name not in files and not LOADER.match(name)}


def glibc(paths):
    """The oldest glibc that has all that these files use, as in (2, 35)."""
    return max(version for path in paths for version in needs(path)[1])[:2]


def manylinux(files):
    """The platform of a wheel's tag; ValueError where a library would be missing. files: name -> path."""
    lacking = missing(files)
    if lacking:
        raise ValueError("not everywhere, and not in the wheel: " + ", ".join(sorted(lacking)))
    major, minor = glibc(files.values())
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def system(library):
    """Where this system has a library, or None."""
    said = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}).stdout
    found = re.findall(rf"^\s*{re.escape(library)} .*=> (\S+)$", said, re.M)
    return pathlib.Path(found[0]) if found else None
