"""Types: mypy reads the package itself and programs that use it, all of them strictly and without exceptions to the
rules (pyproject.toml). Stubs that say "anything" would pass such a test, so there is a program of assertions about
types, one of faults that must be found, and a list of all names there are.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import cairn

try:
    import mypy
except ImportError:
    mypy = None

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples" / "python"
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
PACKAGE = BUILD / "python"
LOGS = BUILD / "test-logs"

# Each line a call that is wrong.
FAULTS = """
cairn.exp(x, no_such_argument=1)
x.tanh(1)
cairn.no_such_op(x)
x.no_such_method()
cairn.exp("x")
text: str = x.exp()
x + "1"
x["name"]
cairn.zeros("2")
cairn.zeros(2, dtype="float32")
cairn.cat(x)
x.max(0).no_such_field
one, two, three = x.max(0)
cairn.linalg.no_such_op(x)
cairn.nn.functional.relu(x, no_such_argument=True)
number: int = x.item()
flag: str = cairn.allclose(x, x)
x.grad.sum()
cairn.nn.functional.max_pool2d(x, 2, return_indices=True).sum()
cairn.matmul(x, 2)
cairn.autograd.grad(1.0, x)
Double.apply("x")
wrong: str = Double.apply(x)
quiet("x")
cairn.Generator().manual_seed("x")
cairn.cuda.device_count("cuda")
x.dtype = cairn.float64
""".strip().split("\n")

FAULTS_HEAD = """import cairn

class Double(cairn.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: cairn.Tensor) -> cairn.Tensor:
        return x * 2

@cairn.no_grad
def quiet(x: cairn.Tensor) -> cairn.Tensor:
    return x

x = cairn.ones(3)
"""


@unittest.skipUnless(mypy, "mypy is not installed (pip install mypy)")
class Mypy(unittest.TestCase):
    def mypy(self, *what):
        """Its report about files or a package; ours is found as an installed one would be."""
        done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"),
                               "--cache-dir", str(BUILD / "mypy-cache"), *map(str, what)], capture_output=True,
                              text=True, check=False, cwd=EXAMPLES, env={**os.environ, "MYPYPATH": str(PACKAGE)})
        return done.returncode, done.stdout + done.stderr

    def passes(self, *what):
        status, text = self.mypy(*what)
        self.assertEqual(status, 0, text)

    def write(self, name, text):
        LOGS.mkdir(parents=True, exist_ok=True)
        path = LOGS / name
        path.write_text(text, encoding="utf-8")
        return path

    def test_package(self):
        self.passes("-p", "cairn")

    def test_examples(self):
        for folder in [EXAMPLES, EXAMPLES / "two_layer_net"]:
            with self.subTest(folder=folder.name):
                self.passes(*sorted(folder.glob("*.py")))

    def test_useful_types(self):
        self.passes(HERE / "typed_uses.py")

    def test_faults_are_found(self):
        _, text = self.mypy(self.write("faults.py", FAULTS_HEAD + "\n".join(FAULTS) + "\n"))
        first = FAULTS_HEAD.count("\n") + 1
        found = {int(n) for n in re.findall(r"faults\.py:(\d+): error", text)}
        self.assertEqual([FAULTS[n - first] for n in range(first, first + len(FAULTS)) if n not in found], [])
        self.assertEqual([n for n in found if n < first], [], text)

    def test_all_names_are_known(self):
        """Whatever the package has at run time, type checkers have heard of."""
        spaces = {"cairn": cairn, "x": cairn.Tensor}
        for name in ("autograd", "cuda", "func", "linalg", "nn.functional", "random", "special", "testing"):
            module = cairn
            for part in name.split("."):
                module = getattr(module, part)
            spaces["cairn." + name] = module
        lines = []
        for space, owner in spaces.items():
            names = [n for n in getattr(owner, "__all__", None) or dir(owner) if not n.startswith("_")]
            lines += [f"{space}.{n}" for n in names if space == "x" or ours(getattr(owner, n), space)]
        self.assertGreater(len(lines), 1200)
        self.passes(self.write("all_names.py", "import cairn\nx = cairn.ones(3)\n" + "\n".join(lines) + "\n"))


def ours(value, space):
    """Not so modules and classes that a module imports for its own use."""
    home = value.__name__ if isinstance(value, type(sys)) else getattr(value, "__module__", None) or "cairn"
    return home.partition(".")[0] == "cairn" and (space == "cairn" or not isinstance(value, (type(sys), type)))


class Assertions(unittest.TestCase):
    def test_the_typed_program_runs(self):
        done = subprocess.run([sys.executable, str(HERE / "typed_uses.py")], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
