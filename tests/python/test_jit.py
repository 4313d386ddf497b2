"""Code of groups on disk and between processes: no compiler, a cache that cannot be written, that others may write to
or that is damaged, processes side by side, ones that are killed in the middle, and the cache's size. In every case a
program gives the same numbers; what differs is how many of its groups have code."""
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = """
import sys
import cairn
from cairn.nn import functional as F

cairn.manual_seed(1)
x = cairn.randn(300, 70)

def formula(x):
    y = F.gelu(1.5 * x + 0.25) * cairn.%s(x)
    return y, (y * 2 - x).exp()

fast = cairn.compile(formula)
same = True
for _ in range(4):
    same = same and all(cairn.equal(a, b) for a, b in zip(fast(x), formula(x)))
print(same, cairn.compiler.stats()["code"])
"""
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Code(unittest.TestCase):
    def setUp(self):
        if not COMPILER:
            self.skipTest("no C compiler")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-jit-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cache = self.folder / "cache"

    def start(self, curve="sigmoid", **environment):
        env = {**os.environ, "CAIRN_CACHE": str(self.cache), "CAIRN_JIT": "wait", "CAIRN_VERBOSE": "compile",
               "TMPDIR": str(self.folder), **environment}
        return subprocess.Popen([sys.executable, "-c", PROGRAM % curve], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_once(self, code, said, curve="sigmoid", **environment):
        """The program has so many groups with code, and the log says this."""
        out, log = self.start(curve, **environment).communicate()
        self.assertEqual(out.split(), ["True", str(code)], log)
        self.assertIn(said, log)

    def files(self):
        return sorted(self.cache.glob("jit-*"))

    def test_kept(self):
        self.run_once(1, "compiled by")
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(stat.S_IMODE(self.cache.stat().st_mode), 0o700)
        self.run_once(1, "found on disk")
        self.run_once(1, "compiled by", CAIRN_ISA="base")  # other flags
        self.assertEqual([p.name for p in self.folder.iterdir()], ["cache"])  # nothing stays behind

    def test_settings(self):
        self.run_once(0, "", CAIRN_JIT="0")
        self.assertFalse(self.cache.exists())
        self.run_once(1, "code is not kept", CAIRN_CACHE="off")

    def test_no_compiler(self):
        (self.folder / "empty").mkdir()
        self.run_once(0, "there is no C compiler", PATH=str(self.folder / "empty"))
        self.run_once(0, "CAIRN_CC=/no/such is no program", CAIRN_CC="/no/such")
        self.run_once(1, "compiled by " + COMPILER, CAIRN_CC=COMPILER, PATH=os.environ["PATH"])

    def script(self, *lines):
        path = self.folder / "compiler"
        path.write_text("\n".join(("#!/bin/sh", *lines)))
        path.chmod(0o755)
        return str(path)

    def test_compiler_that_fails(self):
        version = 'case "$1" in --version) echo 1; exit 0;; esac'
        self.run_once(0, "failed (3): alas", CAIRN_CC=self.script(version, "echo alas; exit 3"))
        self.run_once(0, "cannot be loaded", CAIRN_CC=self.script(version, "while [ \"$1\" != -o ]; do shift; done",
                                                                  "echo nonsense > $2"))
        self.run_once(0, "no compiler that answers", CAIRN_CC=self.script("exit 1"))
        self.assertEqual(self.files(), [])

    def test_another_compiler(self):
        """A compiler that was changed is another one."""
        path = self.script(f'exec {COMPILER} "$@"')
        self.run_once(1, "compiled by", CAIRN_CC=path)
        self.run_once(1, "found on disk", CAIRN_CC=path)
        os.utime(path, (1, 1))
        self.run_once(1, "compiled by", CAIRN_CC=path)

    def test_damaged(self):
        self.run_once(1, "compiled by")
        (file,) = self.files()
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        for content in (b"", whole[:7], whole[:-1], whole[:len(whole) // 2], bytes(flipped), whole + b"x", b"x" * 5000):
            file.write_bytes(content)
            self.run_once(1, "compiled by")
            self.assertEqual(file.read_bytes()[:8], whole[:8])
            self.run_once(1, "found on disk")

    def test_folder_that_cannot_be_written(self):
        self.cache.write_text("")  # not even a folder
        self.run_once(1, "code is not kept")
        self.cache.unlink()
        self.run_once(1, "compiled by")
        self.cache.chmod(0o500)
        self.addCleanup(self.cache.chmod, 0o700)
        self.run_once(1, "found on disk")

    def test_folder_of_others(self):
        self.run_once(1, "compiled by")
        for mode in (0o770, 0o707):
            self.cache.chmod(mode)
            self.run_once(1, "not the user's alone")
        self.cache.chmod(0o755)
        self.run_once(1, "found on disk")

    def test_folder_that_others_can_replace(self):
        """Who may write to the folder above, and to no other one's files there, may put a folder of his own there."""
        self.run_once(1, "compiled by")
        link = self.folder / "link"
        link.symlink_to(self.cache)
        self.run_once(1, "found on disk", CAIRN_CACHE=str(link))
        self.folder.chmod(0o1777)
        self.run_once(1, "found on disk")
        self.folder.chmod(0o777)
        self.run_once(1, "not the user's alone")
        self.run_once(1, "not the user's alone", CAIRN_CACHE=str(link))

    def test_only_the_user_writes_code(self):
        self.addCleanup(os.umask, os.umask(0))
        self.run_once(1, "compiled by")
        self.assertEqual([f.stat().st_mode & 0o022 for f in self.files()], [0])

    def test_side_by_side(self):
        for program in [self.start() for _ in range(4)]:
            out, log = program.communicate()
            self.assertEqual(out.split(), ["True", "1"], log)
        self.assertEqual(len(self.files()), 1)

    def test_killed(self):
        """Whenever it happens: the next process finds a whole file or none."""
        for tenth in range(1, 8):
            program = self.start(CAIRN_JIT="1")
            time.sleep(tenth / 10)
            program.send_signal(signal.SIGKILL)
            program.communicate()
        for _ in range(2):
            out, log = self.start().communicate()
            self.assertEqual(out.split(), ["True", "1"], log)
        self.assertIn("found on disk", log)

    def test_size(self):
        for curve in ("cos", "sin", "tanh"):
            self.run_once(1, "compiled by", curve=curve)
        kept = self.files()
        self.assertEqual(len(kept), 3)
        stale = self.cache / "jit-work-stale"  # of a process that was killed
        stale.mkdir()
        (stale / "unit.so").write_text("x")
        os.utime(stale, (1, 1))
        self.run_once(1, "found on disk", curve="cos")  # the oldest is new again
        self.run_once(1, "compiled by", curve="exp", CAIRN_JIT_MB="0")
        self.assertEqual(self.files(), [])
        self.run_once(1, "CAIRN_JIT_MB=1GB is no number", curve="exp", CAIRN_JIT_MB="1GB",
                      CAIRN_VERBOSE="compile,warnings")
        self.assertEqual(len(self.files()), 1)
        self.assertFalse(stale.exists())


if __name__ == "__main__":
    unittest.main()
