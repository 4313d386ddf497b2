"""Builds cairn's wheels and source archives: the backend that pyproject.toml names (PEP 517 and PEP 660).

Place in the flow: pip -> here -> CMake, target cairn_python -> <build>/python/cairn -> a wheel. It imports the
standard library only, and asks the package index for CMake or ninja only where the machine has none, so that
`pip install .` works without a network. Invariant: the same tree and the same compiled files give the same
archive, byte for byte.

The wheel has the `cairn` command: a script (command.py) that starts the program in the package.

Settings (pip install . --config-settings=NAME=VALUE):
    build-dir     a CMake build folder of this tree. One that is configured already is used with the options it has;
                  default: build/wheel, made with -O2 and without debug information
    cmake-args    more arguments for configuring, as a shell would split them
    platform      the platform of the wheel's tag, for a wheel that was shown to keep its promise (tools/dist);
                  default: this machine's own
"""
import base64
import gzip
import hashlib
import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CMAKE_LEAST = (3, 25)
# Archives carry no dates: the first one that a zip file can express.
DATE = (1980, 1, 1, 0, 0, 0)
EPOCH = 315532800
SETTINGS = {"build-dir", "cmake-args", "platform"}
LEAVE_OUT = {"build", "out", "dist", ".git", "__pycache__"}


class BuildError(SystemExit):
    """What cannot be built, and what to do about it: printed without a traceback, exit status 1."""


# ---- what the package is called ----
def project():
    """The [project] table of pyproject.toml, with the version of the C header."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    header = (ROOT / "include" / "cairn" / "base.h").read_text(encoding="utf-8")
    found = re.search(r'#define CN_VERSION_STRING "([^"]+)"', header)
    if not found:
        raise BuildError("include/cairn/base.h has no CN_VERSION_STRING")
    return {**table, "version": found.group(1)}


def stem():
    about = project()
    return f"{about['name']}-{about['version']}"


def tag(settings=None):
    """The stable ABI since 3.11, on the platform that was asked for or this machine's."""
    platform = (settings or {}).get("platform", sysconfig.get_platform())
    return "cp311-abi3-" + re.sub(r"[-. ]", "_", platform)


def metadata():
    """The text of METADATA (and PKG-INFO): core metadata 2.4."""
    about = project()
    lines = ["Metadata-Version: 2.4", f"Name: {about['name']}", f"Version: {about['version']}",
             f"Summary: {about['description']}", f"License-Expression: {about['license']}"]
    lines += [f"License-File: {name}" for name in about["license-files"]]
    lines += [f"Classifier: {c}" for c in about["classifiers"]]
    lines += [f"Requires-Python: {about['requires-python']}"]
    lines += [f"Requires-Dist: {d}" for d in about.get("dependencies", [])]
    for extra, needs in about.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {need}; extra == "{extra}"' for need in needs]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / about["readme"]).read_text(encoding="utf-8")]
    return "\n".join(lines)


def info_files(settings=None):
    """The files of NAME-VERSION.dist-info by name, RECORD apart."""
    files = {"METADATA": metadata().encode(),
             "WHEEL": f"Wheel-Version: 1.0\nGenerator: cairn ({project()['version']})\n"
                      f"Root-Is-Purelib: false\nTag: {tag(settings)}\n".encode()}
    for name in project()["license-files"]:
        files[f"licenses/{name}"] = (ROOT / name).read_bytes()
    return files


# ---- building ----
def cmake_version():
    """(major, minor) of the cmake in the path, (0, 0) where there is none that runs."""
    try:
        said = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=True).stdout
        return tuple(int(n) for n in re.search(r"(\d+)\.(\d+)", said).groups())
    except (OSError, subprocess.CalledProcessError, AttributeError):
        return (0, 0)


def missing_tools():
    """Requirements for the package index: empty where the machine has CMake and make or ninja."""
    least = ".".join(map(str, CMAKE_LEAST))
    needs = [] if cmake_version() >= CMAKE_LEAST else [f"cmake>={least}"]
    return needs + ([] if shutil.which("ninja") or shutil.which("make") else ["ninja"])


def check_machine():
    """Says before a long build what it would fail for."""
    if missing_tools():
        raise BuildError("building cairn needs CMake 3.25 or later and make or ninja; without build isolation they "
                         "must be installed (Debian: cmake ninja-build, or pip install cmake ninja)")
    compilers = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    if not any(shutil.which(shlex.split(c)[0]) for c in compilers):
        raise BuildError(f"building cairn needs a C compiler; {', '.join(compilers)}: not found "
                         "(Debian: gcc libc6-dev; or set CC)")
    if not (pathlib.Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise BuildError(f"{sys.executable} has no Python.h in {sysconfig.get_path('include')}: install Python's "
                         "development files (Debian: python3-dev)")


def run(what, command):
    """Runs a command with its output on ours; pip shows it when this fails, or with -v."""
    print("$ " + shlex.join(command), flush=True)
    if subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode:
        raise BuildError(f"{what} failed; its messages are above")


def forget_other_build(folder):
    """Drops what CMake remembers of a tree that was moved, or of a ninja that pip had installed and removed again."""
    cache = folder / "CMakeCache.txt"
    if not cache.is_file():
        return
    said = dict(re.findall(r"^(\w+):\w+=(.*)$", cache.read_text(encoding="utf-8"), re.M))
    make = said.get("CMAKE_MAKE_PROGRAM", "")
    if said.get("CMAKE_HOME_DIRECTORY") != str(ROOT) or not shutil.which(make):
        cache.unlink()
        shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)


def build(settings):
    """Compiles the package; returns the folder that holds it, <build>/python/cairn."""
    settings = settings or {}
    unknown = set(settings) - SETTINGS
    if unknown:
        raise BuildError(f"unknown settings: {', '.join(sorted(unknown))}; there are {', '.join(sorted(SETTINGS))}")
    check_machine()
    home = ROOT if os.access(ROOT, os.W_OK) else pathlib.Path(tempfile.mkdtemp(prefix="cairn-"))
    folder = (home / settings.get("build-dir", "build/wheel")).resolve()
    forget_other_build(folder)
    python = f"-DPython3_EXECUTABLE={sys.executable}"
    options = []
    if "build-dir" not in settings or not (folder / "CMakeCache.txt").is_file():
        options = ["-DCAIRN_PYTHON=ON", python, "-DCMAKE_BUILD_TYPE=Release", "-DCAIRN_TESTS=OFF",
                   "-DCAIRN_EXAMPLES=OFF", "-DCAIRN_WERROR=OFF", "-DCMAKE_SHARED_LINKER_FLAGS=-s",
                   "-DCMAKE_MODULE_LINKER_FLAGS=-s", "-DCMAKE_EXE_LINKER_FLAGS=-s"]
    if shutil.which("ninja") and not (folder / "CMakeCache.txt").is_file():
        options += ["-G", "Ninja"]
    options += shlex.split(settings.get("cmake-args", ""))
    run("configuring", ["cmake", "-S", str(ROOT), "-B", str(folder), *options])
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    run("the build", ["cmake", "--build", str(folder), "--target", "cairn_python", "-j", jobs])
    return folder / "python" / "cairn"


def package_files(folder):
    """name in the archive -> path, of all that belongs into the package."""
    return {f"cairn/{path.relative_to(folder).as_posix()}": path for path in sorted(folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts}


def link_tree(package):
    """A folder to import cairn from: links to the Python files of the tree and to what was built."""
    tree = package.parents[1] / "editable"
    shutil.rmtree(tree, ignore_errors=True)
    for name, path in package_files(package).items():
        source = ROOT / "bindings" / "python" / name
        link = tree / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source if source.is_file() else path)
    return tree


# ---- archives ----
def add_to_zip(archive, name, data):
    entry = zipfile.ZipInfo(name, DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    runs = ".so" in name.rsplit("/", 1)[-1] or name.startswith("cairn/bin/") or ".data/scripts/" in name
    mode = 0o755 if runs else 0o644
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, data)


def write_wheel(folder, files, settings=None):
    """files: name -> bytes. Adds the command, the dist-info and the RECORD, which lists all with their hashes."""
    info = f"{stem()}.dist-info"
    files = {**files, **{f"{info}/{name}": data for name, data in info_files(settings).items()}}
    files[f"{stem()}.data/scripts/cairn"] = (ROOT / "bindings" / "python" / "command.py").read_bytes()
    record = []
    name = f"{stem()}-{tag(settings)}.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, data in sorted(files.items()):
            add_to_zip(archive, path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
        add_to_zip(archive, f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]).encode())
    return name


def source_files():
    """What a source archive holds: what git knows or would; without git everything that was not built."""
    done = None
    if (ROOT / ".git").exists() and shutil.which("git"):
        done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=False,
                              capture_output=True, text=True)
    if done is not None and done.returncode == 0:
        names = [n for n in done.stdout.split("\0") if n]
    else:
        names = []
        for folder, inner, here in os.walk(ROOT):
            inner[:] = [n for n in inner if n not in LEAVE_OUT]
            names += [(pathlib.Path(folder) / n).relative_to(ROOT).as_posix() for n in here]
    return sorted(n for n in names if (ROOT / n).is_file() and n != "PKG-INFO")


def add_to_tar(archive, name, data, mode):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, EPOCH
    archive.addfile(entry, io.BytesIO(data))


# ---- the hooks that pip and build call ----
def get_requires_for_build_wheel(config_settings=None):  # unused: config_settings (PEP 517 gives it)
    return missing_tools()


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(config_settings=None):  # unused: config_settings (PEP 517 gives it)
    return []


def prepare_metadata_for_build_wheel(metadata_directory,
                                     config_settings=None):  # unused: config_settings (PEP 517 gives it)
    info = pathlib.Path(metadata_directory) / f"{stem()}.dist-info"
    for name, data in info_files().items():
        (info / name).parent.mkdir(parents=True, exist_ok=True)
        (info / name).write_bytes(data)
    return info.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None,
                metadata_directory=None):  # unused: metadata_directory (PEP 517 gives it)
    package = build(config_settings)
    files = {name: path.read_bytes() for name, path in package_files(package).items()}
    return write_wheel(wheel_directory, files, config_settings)


def build_editable(wheel_directory, config_settings=None,
                   metadata_directory=None):  # unused: metadata_directory (PEP 517 gives it)
    """Python files that exist are used where they lie; new ones, and changes in C, need the command again."""
    tree = link_tree(build(config_settings))
    return write_wheel(wheel_directory, {"cairn-editable.pth": f"{tree}\n".encode()}, config_settings)


def build_sdist(sdist_directory, config_settings=None):  # unused: config_settings (PEP 517 gives it)
    name = f"{stem()}.tar.gz"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        add_to_tar(archive, f"{stem()}/PKG-INFO", metadata().encode(), 0o644)
        for path in source_files():
            mode = 0o755 if os.access(ROOT / path, os.X_OK) else 0o644
            add_to_tar(archive, f"{stem()}/{path}", (ROOT / path).read_bytes(), mode)
    with open(pathlib.Path(sdist_directory) / name, "wb") as out:
        with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=EPOCH) as packed:
            packed.write(buffer.getvalue())
    return name
