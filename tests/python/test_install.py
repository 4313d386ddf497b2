"""Installs the package as a user would: wheel, fresh virtual environment, without a package index; then uses it from
another folder. The wheel's own lists, the source archive and what is said when a tool is missing are looked at too.

By default the wheel is made from the build folder that is being tested, which takes seconds. With CAIRN_LONG=1 the
source archive is unpacked elsewhere and built from nothing, as on a bare machine.
"""
import base64
import csv
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
LONG = os.environ.get("CAIRN_LONG") == "1"
# What an installed package must do without any of this.
CLEAN = {k: v for k, v in os.environ.items()
         if k not in ("PYTHONPATH", "CAIRN_PLUGIN_PATH", "LD_LIBRARY_PATH", "PYTHONHOME")}
PROGRAM = """
import cairn, pathlib, sys
x = cairn.tensor([1.0, 2.0, 3.0], requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [2.0, 4.0, 6.0]
assert (cairn.ones(300, 300) @ cairn.ones(300, 300)).sum().item() == 300 ** 3
here = pathlib.Path(cairn.__file__).resolve()
assert pathlib.Path(sys.prefix).resolve() in here.parents, here
maps = open("/proc/self/maps").read()
assert str(here.parent / "libcairn.so") in maps
print(cairn.__version__)
"""


def backend(root=ROOT):
    """The build backend as a module, without leaving compiled files in the tree."""
    space = {"__file__": str(root / "bindings" / "python" / "backend.py"), "__name__": "backend"}
    exec(compile((root / "bindings" / "python" / "backend.py").read_text(encoding="utf-8"), "backend.py", "exec"),
         space)
    return space


def have_venv():
    return subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True,
                          check=False).returncode == 0


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def run_in(self, where, *command, env=None):
        done = subprocess.run([str(c) for c in command], cwd=where, env=CLEAN | (env or {}), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def fresh(self, name):
        """The Python of a new virtual environment."""
        if not have_venv():
            self.skipTest("this Python cannot make virtual environments (Debian: python3-venv)")
        self.run_in(self.folder, sys.executable, "-m", "venv", self.folder / name)
        return self.folder / name / "bin" / "python"

    def pip(self, python, *args, settings=()):
        settings = [f"--config-settings={s}" for s in settings]
        return self.run_in(ROOT, python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check",
                           *settings, *args)

    def test_pip_install(self):
        python = self.fresh("plain")
        self.pip(python, str(ROOT), settings=[f"build-dir={BUILD}"])
        version = self.run_in(self.folder, python, "-c", PROGRAM).strip()
        self.assertEqual(version, backend()["project"]()["version"])
        for argument in ("version", "--version"):
            self.assertEqual(self.run_in(self.folder, python.parent / "cairn", argument).strip(), f"cairn {version}")
        said = self.run_in(self.folder, python.parent / "cairn", "ops", "conv2d")
        self.assertIn("conv2d(Tensor input", said)
        self.run_in(self.folder, python, "-m", "pip", "check")
        self.run_in(self.folder, python, "-m", "pip", "uninstall", "-y", "cairn")
        gone = subprocess.run([python, "-c", "import cairn"], cwd=self.folder, env=CLEAN, capture_output=True,
                              check=False)
        self.assertNotEqual(gone.returncode, 0)
        self.assertFalse((python.parent / "cairn").exists())

    def test_editable(self):
        python = self.fresh("editable")
        self.pip(python, "--editable", str(ROOT), settings=[f"build-dir={BUILD}"])
        said = self.run_in(self.folder, python, "-c", "import cairn, os; print(os.path.realpath(cairn.__file__))")
        self.assertEqual(said.strip(), str(ROOT / "bindings" / "python" / "cairn" / "__init__.py"))
        said = self.run_in(self.folder, python.parent / "cairn", "version")
        self.assertEqual(said.strip(), "cairn " + backend()["project"]()["version"])

    @unittest.skipUnless(LONG, "compiles everything: CAIRN_LONG=1")
    def test_from_the_source_archive(self):
        name = backend()["build_sdist"](str(self.folder))
        with tarfile.open(self.folder / name) as archive:
            archive.extractall(self.folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        python = self.fresh("archive")
        # Also without git, and twice: the second time finds what the first one compiled.
        tree = self.folder / name.removesuffix(".tar.gz")
        self.pip(python, str(tree))
        self.run_in(self.folder, python, "-c", PROGRAM)
        self.pip(python, "--force-reinstall", str(tree))
        self.run_in(self.folder, python, "-c", PROGRAM)


class Archives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.hooks = backend()

    def wheel(self, name):
        (self.folder / name).mkdir()
        code = ("import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; import backend;"
                "print(backend.build_wheel(sys.argv[2], {'build-dir': sys.argv[3]}))")
        done = subprocess.run([sys.executable, "-c", code, str(ROOT / "bindings" / "python"), str(self.folder / name),
                               str(BUILD)], capture_output=True, text=True, check=False, env=CLEAN)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.folder / name / done.stdout.split()[-1]

    def test_wheel(self):
        path = self.wheel("one")
        self.assertRegex(path.name, r"^cairn-[\d.]+-cp311-abi3-\w+\.whl$")
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
            self.check_record(archive, names)
            info = next(n for n in names if n.endswith("/METADATA")).rpartition("/")[0]
            wheel = archive.read(f"{info}/WHEEL").decode()
            metadata = archive.read(f"{info}/METADATA").decode()
        for name in ["cairn/__init__.py", "cairn/_C.abi3.so", "cairn/py.typed", "cairn/_C.pyi",
                     "cairn/libcairn.so.0", "cairn/bin/cairn", f"{info.removesuffix('.dist-info')}.data/scripts/cairn",
                     f"{info}/licenses/LICENSE"]:
            self.assertIn(name, names)
        self.assertIn("Root-Is-Purelib: false", wheel)
        for line in ["Name: cairn\n", "Requires-Python: >=3.11\n", "License-Expression: Apache-2.0\n",
                     "Provides-Extra: numpy\n", 'Requires-Dist: numpy>=1.24; extra == "numpy"\n']:
            self.assertIn(line, metadata)
        self.assertEqual(metadata.count("Requires-Dist"), 1)

    def check_record(self, archive, names):
        """RECORD lists every file once, with its hash and size."""
        record = next(n for n in names if n.endswith("/RECORD"))
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        self.assertEqual(sorted(r[0] for r in rows), sorted(names))
        for name, digest, size in rows:
            if name != record:
                data = archive.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={want}", len(data)))

    def test_the_same_again(self):
        self.assertEqual(self.wheel("a").read_bytes(), self.wheel("b").read_bytes())
        for name in ["c", "d"]:
            (self.folder / name).mkdir()
        archives = [self.folder / n / self.hooks["build_sdist"](str(self.folder / n)) for n in ["c", "d"]]
        self.assertEqual(archives[0].read_bytes(), archives[1].read_bytes())
        with tarfile.open(archives[0]) as archive:
            names = archive.getnames()
        stem = archives[0].name.removesuffix(".tar.gz")
        for name in ["PKG-INFO", "pyproject.toml", "CMakeLists.txt", "include/cairn/base.h", "src/init.c", "LICENSE"]:
            self.assertIn(f"{stem}/{name}", names)
        self.assertFalse([n for n in names if n.startswith(f"{stem}/build/")])

    def test_metadata_comes_without_building(self):
        name = self.hooks["prepare_metadata_for_build_wheel"](str(self.folder))
        self.assertIn("Name: cairn", (self.folder / name / "METADATA").read_text(encoding="utf-8"))


class Missing(unittest.TestCase):
    """What is said, and asked from the index, where a tool is not there."""

    def setUp(self):
        self.hooks = backend()
        self.tools = {"cmake", "ninja", "make", "cc", "gcc", "clang"}
        self.hooks["shutil"] = self
        self.hooks["cmake_version"] = lambda: (3, 25) if "cmake" in self.tools else (0, 0)
        compiler = os.environ.pop("CC", None)  # a compiler of the caller's would be asked for instead
        if compiler is not None:
            self.addCleanup(os.environ.__setitem__, "CC", compiler)

    def which(self, name):  # stands in for shutil.which
        return name if name in self.tools else None

    def test_requirements(self):
        requires = self.hooks["get_requires_for_build_wheel"]
        self.assertEqual(requires(), [])
        self.tools -= {"ninja"}
        self.assertEqual(requires(), [])
        self.tools -= {"make"}
        self.assertEqual(requires(), ["ninja"])
        self.tools -= {"cmake"}
        self.assertEqual(requires(), ["cmake>=3.25", "ninja"])
        self.assertEqual(self.hooks["get_requires_for_build_sdist"](), [])

    def said(self):
        with self.assertRaises(SystemExit) as caught:
            self.hooks["check_machine"]()
        return str(caught.exception)

    def test_no_compiler(self):
        self.tools -= {"cc", "gcc", "clang"}
        self.assertIn("C compiler", self.said())
        self.assertIn("gcc", self.said())

    def test_no_cmake(self):
        self.tools -= {"cmake"}
        self.assertIn("CMake 3.25", self.said())

    def test_no_headers(self):
        class Elsewhere:
            get_path = staticmethod(lambda name: "/nowhere")
        self.hooks["sysconfig"] = Elsewhere
        self.assertIn("python3-dev", self.said())

    def test_unknown_setting(self):
        with self.assertRaises(SystemExit) as caught:
            self.hooks["build"]({"build-folder": "x"})
        self.assertIn("build-folder", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
