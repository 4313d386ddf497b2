"""Ops written in C or C++ against cairn's headers, compiled and loaded while a program runs.

    ops = cairn.utils.cpp_extension.load(name="mine", sources=["mine.c"])
    y = ops.mine_twice(x)                                                  # or cairn.ops.mine.mine_twice(x)

Place in the flow: a library is compiled with the system's compiler and linked to the libcairn that the package has;
its function `int cn_extension_init(void)` registers its ops (cn_op_register, cairn/ext/op.h), which are then called
like all others, gradients and graphs included. A library without that function is taken for a Python extension of that
name, whatever API it was written with. Invariant: a library is compiled again where a source, a header's folder or an
option changed; sources written for PyTorch's C++ do not compile, and CUDA is refused.
"""
from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from types import ModuleType
from typing import Any, Callable, Sequence

from .. import _C, _absent

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "check_compiler_is_gcc",
           "get_default_build_root", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
           "verify_ninja_availability"]

_NO_CUDA = "extensions with CUDA are not compiled; cairn.cuda.compile_kernel takes kernels of a program's own"
CUDA_HOME = ROCM_HOME = CUDNN_HOME = None
IS_WINDOWS, IS_MACOS, IS_LINUX, IS_HIP_EXTENSION = False, sys.platform == "darwin", sys.platform == "linux", False
EXEC_EXT, CLIB_PREFIX, CLIB_EXT, LIB_EXT = "", "lib", ".so", ".so"
CUDAExtension = _absent.function(__name__, "CUDAExtension", _NO_CUDA)
SyclExtension = _absent.function(__name__, "SyclExtension", "extensions with SYCL are not compiled")


def _package() -> pathlib.Path:
    return pathlib.Path(_C.__file__).resolve().parent


def include_paths(device_type: str = "cpu", **older: Any) -> list[str]:
    """The folder of cairn's headers."""
    if device_type != "cpu" or older.get("cuda"):
        raise _absent.Absent("include_paths: " + _NO_CUDA)
    return [str(_package() / "include")]


def library_paths(device_type: str = "cpu", **older: Any) -> list[str]:
    """The folder of libcairn."""
    if device_type != "cpu" or older.get("cuda"):
        raise _absent.Absent("library_paths: " + _NO_CUDA)
    return [str(_package())]


def get_default_build_root() -> str:
    """Where libraries are built: a folder for each, in the user's cache."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root:
        return root
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "cairn_extensions")


def is_ninja_available() -> bool:
    """Is the program ninja there? Extensions are compiled without it."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError where ninja is not there."""
    if not is_ninja_available():
        raise RuntimeError("ninja is not installed")


def get_cxx_compiler() -> str:
    """The C++ compiler: CXX, or c++."""
    return os.environ.get("CXX", "c++")


def check_compiler_is_gcc(compiler: str) -> bool:
    """Is it GNU's?"""
    try:
        told = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return "gcc version" in told.stderr


# ---- compiling ----
def _command(source: pathlib.Path, target: pathlib.Path, name: str, flags: dict[str, list[str]],
             include: Sequence[str]) -> list[str]:
    kind = source.suffix
    if kind in (".cu", ".hip", ".sycl"):
        raise _absent.Absent("load: %s: %s" % (source, _NO_CUDA))
    c = kind == ".c"
    compiler = shlex.split(os.environ.get("CC", "cc") if c else get_cxx_compiler())
    standard = [] if any(f.startswith("-std=") for f in flags["c" if c else "cxx"]) else \
        ["-std=c11" if c else "-std=c++17"]
    folders = [*include, *include_paths(), sysconfig.get_path("include")]
    return [*compiler, *standard, "-O2", "-fPIC", "-DTORCH_EXTENSION_NAME=" + name, *("-I" + f for f in folders),
            *flags["c" if c else "cxx"], "-c", str(source), "-o", str(target)]


def _run(command: list[str], verbose: bool, what: str) -> None:
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("Error building extension '%s':\n%s\n%s" % (what, shlex.join(command), done.stderr))


def _built(name: str, sources: list[pathlib.Path], flags: dict[str, list[str]], folder: pathlib.Path,
           include: Sequence[str], verbose: bool) -> pathlib.Path:
    """The library of these sources, compiled if there is none of just these."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = [folder / (source.name + ".o") for source in sources]
    commands = [_command(s, o, name, flags, include) for s, o in zip(sources, objects)]
    library = next(iter(library_paths()))
    linking = [*shlex.split(get_cxx_compiler()), "-shared", *map(str, objects), "-L" + library, "-l:libcairn.so.0",
               "-Wl,-rpath," + library, *flags["link"]]
    mark = hashlib.sha256(repr((commands, linking, _C._version())).encode())
    for source in [*sources, *(p for f in include for p in sorted(pathlib.Path(f).glob("*.h*")))]:
        mark.update(source.read_bytes())
    target = folder / ("%s_%s.so" % (name, mark.hexdigest()[:16]))
    if not target.exists():
        for command in commands:
            _run(command, verbose, name)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as made:
            pass
        _run([*linking, "-o", made.name], verbose, name)
        os.replace(made.name, target)  # at once: another process may be building it, too
    return target


# ---- loading ----
class _Ops(ModuleType):
    """The ops that a library registered."""

    def __init__(self, name: str, ops: Sequence[str]) -> None:
        super().__init__(name, "Ops of a library that was loaded.")
        self.__all__ = list(ops)
        for op in ops:
            setattr(self, op, _caller(op))


def _caller(op: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _C._call_registered(op, *args, **kwargs)
    call.__name__ = call.__qualname__ = op
    return call


_loaded: dict[str, _Ops] = {}  # by the library's path
_by_name: dict[str, _Ops] = {}


def registered(space: str, name: str) -> Callable[..., Any] | None:
    """An op of a library that was loaded under a name."""
    found = getattr(_by_name.get(space), name, None)
    return found if callable(found) else None


def load_library(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Loads a library and lets it register its ops, once; they are cairn.ops.NAME.op, NAME the file's if not given."""
    place = os.path.realpath(path)
    if place not in _loaded:
        before = len(_C._op_names())
        library = ctypes.CDLL(place)
        try:
            start = library.cn_extension_init
        except AttributeError:
            raise OSError("%s has no function cn_extension_init: libraries of PyTorch's ops cannot be loaded" % place
                          ) from None
        if start():
            said = library.cn_err_message
            said.restype = ctypes.c_char_p
            raise RuntimeError("cn_extension_init of %s: %s" % (place, said().decode() or "it failed without a reason"))
        name = os.path.basename(place).partition(".")[0] if name is None else name
        _loaded[place] = _Ops("cairn.ops." + name, _C._op_names()[before:])
        _by_name[name] = _loaded[place]


def _module(name: str, library: pathlib.Path) -> ModuleType:
    if _has_start(library):
        load_library(library, name)
        return _loaded[os.path.realpath(library)]
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_file_location(name, library, loader=loader)
    if spec is None:
        raise ImportError("%s cannot be imported" % library)
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def _has_start(library: pathlib.Path) -> bool:
    return b"cn_extension_init\0" in library.read_bytes()


def _flags(cflags: Any, c: Any, link: Any) -> dict[str, list[str]]:
    return {"cxx": list(cflags or []), "c": list(c if c is not None else cflags or []), "link": list(link or [])}


def load(name: str, sources: str | Sequence[str], extra_cflags: Any = None, extra_cuda_cflags: Any = None,
         extra_sycl_cflags: Any = None, extra_ldflags: Any = None, extra_include_paths: Any = None,
         build_directory: str | None = None, verbose: bool = False, with_cuda: bool | None = None,
         with_sycl: bool | None = None, is_python_module: bool = True, is_standalone: bool = False,
         keep_intermediates: bool = True) -> Any:
    """Compiles and loads a library: the module of its ops, or of what it defines as a Python extension; with
    is_python_module=False its ops are registered, and the library's path returned."""
    if with_cuda or with_sycl or extra_cuda_cflags or extra_sycl_cflags:
        raise _absent.Absent("load: " + _NO_CUDA)
    if is_standalone:
        raise NotImplementedError("load: is_standalone is not supported: libraries are made, not programs")
    if not name.isidentifier():
        raise ValueError("load: name must be an identifier, not %r" % name)
    include = [extra_include_paths] if isinstance(extra_include_paths, str) else list(extra_include_paths or [])
    files = [pathlib.Path(s).resolve() for s in ([sources] if isinstance(sources, str) else sources)]
    folder = pathlib.Path(build_directory or os.path.join(get_default_build_root(), name))
    library = _built(name, files, _flags(extra_cflags, None, extra_ldflags), folder, include, verbose)
    if not keep_intermediates:
        for made in folder.glob("*.o"):
            made.unlink()
    if is_python_module:
        return _module(name, library)
    load_library(library, name)
    return str(library)


def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, sycl_sources: Any = None, functions: Any = None,
                extra_cflags: Any = None, extra_cuda_cflags: Any = None, extra_sycl_cflags: Any = None,
                extra_ldflags: Any = None, extra_include_paths: Any = None, build_directory: str | None = None,
                verbose: bool = False, with_cuda: bool | None = None, with_sycl: bool | None = None,
                is_python_module: bool = True, with_pytorch_error_handling: bool = True,
                keep_intermediates: bool = True, use_pch: bool = False, no_implicit_headers: bool = False
                ) -> Any:  # unused: with_pytorch_error_handling, use_pch (ops report errors; headers are short)
    """load of C++ in strings, behind `#include <cairn/cairn.h>` and `<cairn/ext/op.h>`. The ops are those that its
    cn_extension_init registers; functions cannot be bound by their names."""
    if cuda_sources or sycl_sources:
        raise _absent.Absent("load_inline: " + _NO_CUDA)
    if functions:
        raise NotImplementedError("load_inline: functions are not bound by name here: register ops with cn_op_register "
                                  "in cn_extension_init, or write a Python extension")
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    head = [] if no_implicit_headers else ["#include <cairn/cairn.h>", "#include <cairn/ext/op.h>"]
    folder = pathlib.Path(build_directory or os.path.join(get_default_build_root(), name))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "main.cpp"
    source.write_text("\n".join([*head, *texts, ""]), encoding="utf-8")
    return load(name, [str(source)], extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags,
                extra_include_paths, str(folder), verbose, with_cuda, with_sycl, is_python_module, False,
                keep_intermediates)


# ---- setup.py ----
def CppExtension(name: str, sources: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """A setuptools.Extension with cairn's headers and library."""
    setuptools: Any = importlib.import_module("setuptools")
    given = {key: list(kwargs.pop(key, ())) for key in ("include_dirs", "library_dirs", "extra_link_args")}
    kwargs.setdefault("language", "c++")
    return setuptools.Extension(
        name, list(sources), *args, include_dirs=given["include_dirs"] + include_paths(),
        library_dirs=given["library_dirs"] + library_paths(),
        extra_link_args=[*given["extra_link_args"], "-l:libcairn.so.0", "-Wl,-rpath," + library_paths()[0]], **kwargs)


def _build_extension() -> Any:
    """The class BuildExtension: setuptools' own command, which needs nothing more."""
    base: Any = importlib.import_module("setuptools.command.build_ext").build_ext

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        for option in ("no_python_abi_suffix", "use_ninja"):
            kwargs.pop(option, None)
        base.__init__(self, *args, **kwargs)

    def with_options(cls: Any, /, **options: Any) -> Any:
        return functools.partial(cls, **options)
    return type("BuildExtension", (base,), {"__init__": start, "with_options": classmethod(with_options),
                                            "__doc__": """setup(cmdclass={"build_ext": BuildExtension})"""})


def __getattr__(name: str) -> Any:
    if name == "BuildExtension":
        made = globals()[name] = _build_extension()
        return made
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
