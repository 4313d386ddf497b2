#!/usr/bin/env python3
"""Follows docs/ADDING_AN_OP.md and its kin (an optimiser, a layer, a file format) in one copy of the tree: counts and
applies their blocks, generates, builds what is needed and runs it.

usage: tests/docs/test_adding_an_op.py [FOLDER]      FOLDER: keep the copy there (default: a temporary one)

Each step is one test; the last line is `N passed, N failed[, N skipped]`.
"""
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import blocks

ORACLE = "2.15"  # the version that wrote tests/golden: others differ at ties and corners
OPS = ["sech", "distance", "rms", "ring_sum"]
# Pages, the word that is in every edit of what they add, and the most edits that it may take: places in the sources and
# in samples. Programs that try it, and what PyTorch is told of ops that it has not, do not count.
PAGES = {"ADDING_AN_OP.md": ("ring", 5), "ADDING_AN_OPTIMISER.md": ("signum", 3), "ADDING_A_LAYER.md": ("snake", 3),
         "ADDING_A_FORMAT.md": ("mtx", 3)}
EDITED = ("src/", "include/", "tests/ops/")
# What the new ops are in Python, without a line written for it: function, signature, docstring, method, stub.
PYTHON = """
import cairn, inspect, pathlib
x = cairn.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
y = cairn.ring_sum(x)
(y * y).sum().backward()
print(y.tolist(), x.grad.tolist())
print("sech(0) =", cairn.zeros(2).sech().tolist(), cairn.zeros(2).sech_().tolist())
print("rms =", round(cairn.rms(input=x, dim=[0], keepdim=True).item() ** 2, 3))
same = [cairn.hyperbolic_secant(x), x.hyperbolic_secant(), x.detach().clone().hyperbolic_secant_()]
print("second names:", [cairn.equal(s, x.sech()) for s in same], cairn.equal(cairn.root_mean_square(x), x.rms()))
try:
    cairn.distance(x, 2.0)
except TypeError as error:
    print("no tensor:", error)
for f in (cairn.sech, cairn.rms, cairn.ring_sum):
    print(f.__name__ + str(inspect.signature(f)))
    print(inspect.getdoc(f))
try:
    cairn.ring_sum(cairn.tensor(1.0))
except RuntimeError as error:
    print("refused:", error)
w = cairn.tensor([3.0, -2.0], requires_grad=True)
opt = cairn.optim.Signum([w], lr=0.5)
(w * w).sum().backward()
opt.step()
print("Signum:", w.tolist(), list(opt.state_dict()["state"][0]), cairn.nn.Snake(num_parameters=2))
cairn.save(cairn.ones(1, 2), "row.mtx")
print("mtx:", cairn.load("row.mtx").tolist())
stub = "".join(p.read_text() for p in pathlib.Path(cairn.__file__).parent.glob("*.pyi"))
new = ("sech", "hyperbolic_secant", "distance", "rms", "root_mean_square", "ring_sum")
print("\\n".join(line for line in stub.split("\\n") if line.strip().startswith(tuple("def " + n for n in new))))
"""
DRIVERS = ["layouts", "gradcheck", "inplace", "memory", "threads", "mirror"]


class Steps:
    def __init__(self, tree):
        self.tree = tree
        self.passed = self.failed = self.skipped = 0

    def run(self, name, command, env=None, expect=()):
        """One command of the page. Returns whether it worked and its output has all of `expect`."""
        done = subprocess.run(command, cwd=self.tree, env={**os.environ, **(env or {})}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        missing = [text for text in expect if text not in done.stdout]
        ok = done.returncode == 0 and not missing
        self.passed += ok
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'}  {name}", flush=True)
        if not ok:
            print(f"exit status {done.returncode}; not in the output: {missing}")
            print("\n".join(done.stdout.split("\n")[-60:]), flush=True)
        return ok

    def skip(self, name, why):
        self.skipped += 1
        print(f"skip  {name}\nskipped: {why}")

    def count(self, page, word, most):
        """How many edits a page asks for."""
        edits = [b for b in blocks.read(blocks.ROOT / "docs" / page)
                 if b.file.startswith(EDITED) and word in (b.file + b.text).lower()]
        ok = 0 < len(edits) <= most
        self.passed += ok
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'}  {page}: {len(edits)} edits, at most {most}")


def copy_tree(to):
    """The tree without what is built."""
    ignore = shutil.ignore_patterns("__pycache__", ".git")
    for path in blocks.ROOT.iterdir():
        if path.name in ("build", "out", ".git"):
            continue
        if path.is_dir():
            shutil.copytree(path, to / path.name, ignore=ignore)
        else:
            shutil.copy2(path, to / path.name)


def build(steps, out):
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DCAIRN_CUDA=OFF"]
    ok = steps.run("configure", ["cmake", "-S", ".", "-B", str(out), *generator, *options])
    targets = ["cairn_command", "examples_ring", "examples_signum", "examples_snake", "examples_mtx", "test_ops",
               "test_table", "test_files"]
    jobs = str(os.cpu_count() or 1)
    return ok and steps.run("build", ["cmake", "--build", str(out), "-j", jobs, "--target", *targets])


def python(steps, out):
    """The ops are in Python as well; skipped where the package cannot be built (no headers of Python)."""
    if not (out / "python").is_dir():
        steps.skip("the ops in Python", "the Python package is not built here")
        return
    built = steps.run("build the Python package", ["cmake", "--build", str(out), "--target", "cairn_python"])
    env = {"PYTHONPATH": str(out / "python")}
    if built:
        steps.run("the ops in Python", [sys.executable, "-c", PYTHON], env=env, expect=[
            "[7.0, 4.0, 6.0, 8.0, 5.0] [18.0, 26.0, 24.0, 22.0, 30.0]", "sech(0) = [1.0, 1.0] [1.0, 1.0]",
            "rms = 11.0", "rms(input, dim=None, keepdim=False", "Root of the mean of squares", "ring_sum(input",
            "The sum of both neighbours", "Hyperbolic secant", "refused: ring_sum: needs at least one dimension",
            "def ring_sum(input: Tensor", "def rms(input: Tensor, dim: ", "def sech(input: Tensor",
            "def sech(self", "def sech_(self", "second names: [True, True, True] True",
            "Signum: [2.5, -1.5] ['momentum_buffer'] Snake(num_parameters=2)", "mtx: [[1.0, 1.0]]",
            "no tensor: distance(): argument 'other' must be Tensor, not <class 'float'>",
            "def distance(input: Tensor, other: Tensor, *, out",
            "def hyperbolic_secant(input: Tensor", "def hyperbolic_secant(self", "def hyperbolic_secant_(self"])


def others(steps, out):
    """What the pages beside that of ops add."""
    steps.run("the optimiser", [str(out / "examples" / "signum")], expect=["tensor([1., 0.]"])
    steps.run("the layer", [str(out / "examples" / "snake")], expect=["Snake(num_parameters=2)"])
    steps.run("the format", [str(out / "examples" / "mtx")], expect=["[4., 5., 6.]"])
    steps.run("its file", ["cat", "matrix.mtx"], expect=["%%MatrixMarket matrix array real general\n2 3\n1\n4\n"])
    steps.run("cairn classes lists them", [str(out / "cairn"), "classes"],
              expect=["Signum(float lr=0.01", "Snake(int num_parameters=1"])
    steps.run("cairn convert lists the format", [str(out / "cairn"), "convert", "--formats"], expect=["mtx", ".mtx"])
    steps.run("tests over all formats", [str(out / "tests" / "formats" / "test_files")])


def follow(steps, tree):
    for page, (word, most) in PAGES.items():
        steps.count(page, word, most)
        for block in blocks.read(blocks.ROOT / "docs" / page):
            if block.file:
                blocks.apply(block, tree)
    out = tree / "build" / "copy"
    if not steps.run("generate", [sys.executable, "tools/opgen.py"]):
        return
    steps.run("nothing is left to generate", [sys.executable, "tools/opgen.py", "--check"])
    if not build(steps, out):
        return
    steps.run("the program of the page", [str(out / "examples" / "ring")],
              expect=["tensor([7., 4., 6., 8., 5.]", "tensor([18., 26., 24., 22., 30.])", "tensor([1., 1.])"])
    steps.run("cairn ops shows it", [str(out / "cairn"), "ops", *OPS],
              expect=["structural", "cpu: rows", "composite", "pointwise"])
    steps.run("cairn ops --json tells its names", [str(out / "cairn"), "ops", "--json", *OPS],
              expect=['"aliases": ["hyperbolic_secant"]', '"number": false'])
    steps.run("its own kernel runs", [str(out / "examples" / "ring")], env={"CAIRN_VERBOSE": "dispatch"},
              expect=["ring_sum: cpu/rows"])
    others(steps, out)
    python(steps, out)
    steps.run("the table is complete", [str(out / "tests" / "unit" / "test_table")])
    test_ops = str(out / "tests" / "ops" / "test_ops")
    for op in OPS:
        steps.run(f"samples of {op}", [test_ops, *DRIVERS], env={"CAIRN_SAMPLE": f"{op}("})
    if importlib.util.find_spec("torch") is None or not importlib.metadata.version("torch").startswith(ORACLE):
        steps.skip("samples against PyTorch", "PyTorch is not installed")
        return
    steps.run("PyTorch's results", [sys.executable, "tests/golden/make.py", "pointwise", "reduce", "join"])
    for op in OPS:
        steps.run(f"{op} against PyTorch", [test_ops, "oracle"], env={"CAIRN_SAMPLE": f"{op}("})


def main():
    with tempfile.TemporaryDirectory(prefix="cairn-op-") as folder:
        tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else folder).resolve()
        tree.mkdir(parents=True, exist_ok=True)
        copy_tree(tree)
        steps = Steps(tree)
        follow(steps, tree)
    tail = f", {steps.skipped} skipped" if steps.skipped else ""
    print(f"{steps.passed} passed, {steps.failed} failed{tail}")
    return 1 if steps.failed else 0


if __name__ == "__main__":
    sys.exit(main())
