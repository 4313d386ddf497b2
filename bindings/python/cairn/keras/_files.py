"""get_file: a file by its address, kept in a folder; archives can be unpacked."""
from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zipfile
from typing import Any

__all__ = ["get_file"]


def _fits(path: str, file_hash: str | None, algorithm: str) -> bool:
    if file_hash is None:
        return True
    name = {"auto": "sha256" if len(file_hash) == 64 else "md5"}.get(algorithm, algorithm)
    made = hashlib.new(name)
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            made.update(part)
    return made.hexdigest() == file_hash


def _fetch(origin: str, path: str) -> None:
    from urllib import request
    if "://" not in origin:
        shutil.copyfile(origin, path + ".part")
    else:
        try:
            with request.urlopen(origin, timeout=60) as source, open(path + ".part", "wb") as file:
                shutil.copyfileobj(source, file)
        except OSError as error:
            raise OSError("%s could not be fetched (%s): put the file at %s, or give a path as origin"
                          % (origin, error, path)) from error
    os.replace(path + ".part", path)


def get_file(fname: Any = None, origin: str | None = None, untar: bool = False, md5_hash: str | None = None,
             file_hash: str | None = None, cache_subdir: str = "datasets", hash_algorithm: str = "auto",
             extract: bool = False, archive_format: Any = "auto", cache_dir: Any = None,
             force_download: bool = False) -> str:
    """The path of a file that is in the cache (KERAS_HOME or ~/.keras, cache_subdir) or fetched from origin: an
    address (http, https, file), or a path on this machine. With extract, the path of what was unpacked."""
    if origin is None:
        raise ValueError("get_file needs an origin: an address or a path")
    home = cache_dir or os.environ.get("KERAS_HOME", os.path.join(os.path.expanduser("~"), ".keras"))
    folder = os.path.join(os.path.expanduser(os.fspath(home)), cache_subdir)
    os.makedirs(folder, exist_ok=True)
    name = os.fspath(fname) if fname else os.path.basename(origin.partition("?")[0])
    path = name if os.path.isabs(name) else os.path.join(folder, name)
    wanted, algorithm = (md5_hash, "md5") if md5_hash is not None and file_hash is None else (file_hash, hash_algorithm)
    unpack = untar or extract
    if untar and not path.endswith((".tar", ".gz", ".tgz", ".bz2", ".xz")):
        path += ".tar.gz"
    if force_download or not os.path.isfile(path) or not _fits(path, wanted, algorithm):
        _fetch(origin, path)
        if not _fits(path, wanted, algorithm):
            raise ValueError("%s is not the file that was wanted: its %s differs from %s" % (origin, algorithm, wanted))
    return _unpacked(path, force_download, archive_format) if unpack else path


def _kinds(given: Any) -> list[str]:
    """The formats that an archive may have: of "auto", "tar", "zip", None (none) or a list of them."""
    found = [k for one in (given if isinstance(given, (list, tuple)) else [given])
             for k in (("tar", "zip") if one == "auto" else () if one is None else (one,))]
    for one in found:
        if one not in ("tar", "zip"):
            raise ValueError("archive_format is auto, tar, zip or None, not %r" % (one,))
    return found


def _unpacked(path: str, again: bool, archive_format: Any) -> str:
    target, kinds = path, _kinds(archive_format)
    if not kinds:
        return path
    for ending in (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".tar", ".zip"):
        if path.endswith(ending):
            target = path.removesuffix(ending)
            break
    if target == path:
        target = path + "_extracted"
    if os.path.isdir(target) and not again:
        return target
    if "zip" in kinds and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as whole:
            names = whole.namelist()
            _safe(names, path)
            whole.extractall(os.path.dirname(path) if _one_folder(names, target) else target)
    elif "tar" in kinds and tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            members = [m for m in archive.getmembers() if m.isfile() or m.isdir()]
            _safe([m.name for m in members], path)
            archive.extractall(os.path.dirname(path) if _one_folder([m.name for m in members], target) else target,
                               members)
    else:
        raise ValueError("%s is no archive: %s" % (path, " or ".join(kinds)))
    return target


def _one_folder(names: list[str], target: str) -> bool:
    """Whether all is in a folder of the archive's own name already."""
    return all(n.strip("./").split("/")[0] == os.path.basename(target) for n in names if n.strip("./"))


def _safe(names: list[str], path: str) -> None:
    for name in names:
        if os.path.isabs(name) or ".." in name.split("/"):
            raise ValueError("%s has a file %r that would lie outside of its folder" % (path, name))
