"""cairn.hub: models from a folder that has a hubconf.py: torch.hub with source="local", and files of weights.

Place in the flow: loaded when a program names it. cairn fetches no code over the network: a repository's name is an
error that says so.
"""
from __future__ import annotations

import importlib.util
import os
import re
import sys
from types import ModuleType
from typing import Any, Callable
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_dir: str | None = None
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the digest in a file's name


def get_dir() -> str:
    """The folder that files are kept in: set_dir's, or $CAIRN_HOME/hub, or ~/.cache/cairn/hub."""
    home = os.environ.get("CAIRN_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "cairn")
    return _dir if _dir is not None else os.path.join(home, "hub")


def set_dir(d: str) -> None:
    """Keeps files in this folder from now on."""
    global _dir
    _dir = os.path.expanduser(d)


def _get_torch_home() -> str:
    """The folder around it."""
    return os.path.dirname(get_dir())


def _config(repo_or_dir: str, source: str) -> ModuleType:
    """The folder's hubconf.py, run."""
    if source not in ("github", "local"):
        raise ValueError("Unknown source: %r. Allowed values: 'github' | 'local'." % (source,))
    if source == "github":
        raise NotImplementedError("cairn.hub fetches no code over the network: clone %s and give the folder with "
                                  "source='local'" % repo_or_dir)
    folder = os.path.abspath(os.path.expanduser(repo_or_dir))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError("there is no hubconf.py in %s" % folder)
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(
        "cairn" if name == "torch" else name) is None]
    if missing:
        raise RuntimeError("Missing dependencies: %s" % ", ".join(missing))
    return module


def _entry(module: ModuleType, name: str) -> Callable[..., Any]:
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError("Cannot find callable %s in hubconf" % name)
    function: Callable[..., Any] = entry
    return function


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the entry `model` of a folder's hubconf.py returns for these arguments; source must be "local". What torch
    takes for fetching (trust_repo, force_reload, verbose, skip_validation) is not the entry's."""
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(name, None)
    return _entry(_config(repo_or_dir, source), model)(*args, **kwargs)


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
         verbose: bool = True, source: str = "github",
         ) -> Any:  # unused: force_reload, skip_validation, trust_repo, verbose (of repositories that are fetched)
    """The names of the entries of a folder's hubconf.py."""
    module = _config(github, "local" if os.path.isdir(os.path.expanduser(github)) else source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
         source: str = "github",
         ) -> str | None:  # unused: force_reload, skip_validation, trust_repo (of repositories that are fetched)
    """The docstring of an entry of a folder's hubconf.py."""
    module = _config(github, "local" if os.path.isdir(os.path.expanduser(github)) else source)
    return _entry(module, model).__doc__


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None,
                         progress: bool = True) -> None:  # unused: progress (nothing is printed)
    """Fetches a file, which begins to be dst when it is whole; hash_prefix is the beginning of its SHA-256."""
    import hashlib
    import urllib.request
    part = dst + ".part"
    try:
        with urllib.request.urlopen(url) as result, open(part, "wb") as file:
            digest = hashlib.sha256()
            while block := result.read(1 << 20):
                digest.update(block)
                file.write(block)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError("the hash of %s is %s, expected %s..." % (url, digest.hexdigest(), hash_prefix))
        os.replace(part, dst)
    finally:
        if os.path.exists(part):
            os.remove(part)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
                             check_hash: bool = False, file_name: str | None = None, weights_only: bool = True) -> Any:
    """cairn.load of a file of weights that is fetched once and kept in get_dir()/checkpoints."""
    from .serialization import load as load_file
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        stem = os.path.splitext(name)[0]
        download_url_to_file(url, path, stem.rpartition("-")[2] if check_hash else None, progress)
    return load_file(path, map_location=map_location, weights_only=weights_only)
