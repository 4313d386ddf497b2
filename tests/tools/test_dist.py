"""What `make dist` makes, used as its users would: the wheel in a fresh virtual environment, the Debian packages
unpacked into a folder and a program compiled against them. Made from the build that is being tested."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import elf  # noqa: E402

VERSION = re.search(r'CN_VERSION_STRING "(.*)"', (ROOT / "include/cairn/base.h").read_text(encoding="utf-8")).group(1)
IMAGES = (BUILD / "libcairn_image.so").is_file()
CLEAN = {k: v for k, v in os.environ.items()
         if k not in ("PYTHONPATH", "CAIRN_PLUGIN_PATH", "LD_LIBRARY_PATH", "PYTHONHOME")}
# A PNG goes through the plugin and the libraries that came with the wheel.
PROGRAM = """
import cairn, pathlib, sys
from cairn.transforms import io
image = cairn.arange(12, dtype=cairn.uint8).reshape(3, 2, 2)
io.write_png(image, "x.png")
assert io.read_image("x.png").tolist() == image.tolist()
here = pathlib.Path(cairn.__file__).resolve().parent
maps = open("/proc/self/maps").read()
for name in sys.argv[1:]:
    assert str(here / name) in maps, name
print(cairn.__version__)
"""
SOURCE = """
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>
int main(void)
{
  printf("%s %g %d\\n", cn_version(), cn_item(cn_sum(cn_ones(CN_SHAPE(2, 3)))), cn_plugin_open("image") != NULL);
  return cn_err() ? 1 : 0;
}
"""


def run(*command, where=None, env=None):
    done = subprocess.run([str(c) for c in command], cwd=where, env=CLEAN | (env or {}), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-dist-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.out = cls.folder / "out"
        run(sys.executable, ROOT / "tools" / "dist", "--build-dir", BUILD, "--out", cls.out, "--only", "wheel,deb")

    def wheel(self):
        found, = self.out.glob("*.whl")
        return found

    def test_the_tag_is_kept(self):
        """Nothing in the wheel asks for a newer glibc than the tag says, or for a library it does not bring."""
        name = re.fullmatch(rf"cairn-{re.escape(VERSION)}-cp311-abi3-manylinux_(\d+)_(\d+)_\w+\.whl", self.wheel().name)
        self.assertIsNotNone(name, self.wheel().name)
        inside = self.folder / "inside"
        with zipfile.ZipFile(self.wheel()) as archive:
            archive.extractall(inside)
        files = {p.name: p for p in inside.rglob("*") if p.is_file() and elf.is_elf(p)}
        self.assertEqual(elf.missing(files), set())
        self.assertEqual(elf.glibc(files.values()), (int(name.group(1)), int(name.group(2))))
        self.assertLessEqual({"libcairn.so.0", "_C.abi3.so", "cairn"}, set(files))
        text = next(inside.glob("*.dist-info/WHEEL")).read_text(encoding="utf-8")
        self.assertIn(f"Tag: cp311-abi3-manylinux_{name.group(1)}_{name.group(2)}_", text)

    def test_what_would_break_the_promise(self):
        plugin = BUILD / "libcairn_image.so"
        if not IMAGES:
            self.skipTest("built without libpng and libjpeg")
        with self.assertRaisesRegex(ValueError, "libjpeg.*libpng"):
            elf.manylinux({plugin.name: plugin})
        alone = {"libcairn.so.0": BUILD / "libcairn.so"}
        self.assertRegex(elf.manylinux(alone), r"^manylinux_2_\d+_\w+$")

    def test_packed_relocations_need_their_glibc(self):
        """A loader before 2.36 refuses the file, though no symbol says so."""
        library = BUILD / "libcairn.so"
        if "GLIBC_ABI_DT_RELR" in run("objdump", "-p", library):
            self.assertGreaterEqual(elf.glibc([library]), (2, 36))

    def test_wheel_installs(self):
        python = self.folder / "env" / "bin" / "python"
        run(sys.executable, "-m", "venv", "--without-pip", self.folder / "env")
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--disable-pip-version-check",
            self.wheel(), where=self.folder)
        self.assertEqual(run(python.parent / "cairn", "--version", where=self.folder).strip(), f"cairn {VERSION}")
        with zipfile.ZipFile(self.wheel()) as archive:
            brought = [n.removeprefix("cairn/") for n in archive.namelist() if re.match(r"cairn/lib(png|jpeg)\S*$", n)]
            terms = [n for n in archive.namelist() if n.startswith("cairn/licenses/")]
        if IMAGES and shutil.which("dpkg"):
            self.assertEqual((len(brought), len(terms)), (2, 2))
            self.assertEqual(run(python, "-c", PROGRAM, *brought, where=self.folder).strip(), VERSION)

    def test_debian_packages(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("dpkg-deb is not installed")
        root, seen = self.folder / "root", {}
        for path in sorted(self.out.glob("*.deb")):
            name = path.name.split("_")[0]
            self.assertEqual(run("dpkg-deb", "-f", path, "Version").strip(), f"{VERSION}-1")
            for line in run("dpkg-deb", "-c", path).splitlines():
                file = line.split()[5]
                if not file.endswith("/"):
                    self.assertNotIn(file, seen, f"{name} and {seen.get(file)} both have {file}")
                    seen[file] = name
                self.assertTrue(line.split()[1] == "root/root", line)
            run("dpkg-deb", "-x", path, root)
        self.assertLessEqual({"libcairn0", "libcairn-dev", "cairn"}, set(seen.values()))
        self.assertIn(f"libcairn0 (= {VERSION}-1)", run("dpkg-deb", "-f", next(self.out.glob("cairn_*.deb")), "Depends"))
        self.assertRegex(run("dpkg-deb", "-f", next(self.out.glob("libcairn0_*.deb")), "Depends"), r"^libc6 \(>= 2\.\d+\)$")
        self.use(root)

    def use(self, root):
        library = next(root.rglob("libcairn.so.0")).parent
        env = {"LD_LIBRARY_PATH": str(library), "PKG_CONFIG_PATH": str(library / "pkgconfig")}
        self.assertEqual(run(root / "usr/bin/cairn", "version", env=env).strip(), f"cairn {VERSION}")
        (root / "x.c").write_text(SOURCE, encoding="utf-8")
        flags = run("pkg-config", "--cflags", "--libs", "cairn", env=env).split() if shutil.which("pkg-config") else \
            [f"-I{root}/usr/include", f"-L{library}", "-lcairn"]
        run(os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Werror", root / "x.c", "-o", root / "x", *flags)
        self.assertEqual(run(root / "x", env=env).strip(), f"{VERSION} 6 {int(IMAGES)}")  # the plugin is found
        self.assertEqual([p.name for p in library.glob("libcairn_*")], [])  # no program links one


if __name__ == "__main__":
    unittest.main()
