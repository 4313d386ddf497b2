"""Other people's PyTorch packages, unchanged, with cairn as torch: the programs of package_programs.py run in a process
with cairn and in one with PyTorch, from the same weights and inputs, and what they compute is compared.

    python tests/conformance/packages.py --packages FOLDER [NAME...]       FOLDER: where pip put them (--target)
    python tests/conformance/packages.py --list

The packages are installed with `pip install --no-deps --target FOLDER`; PyTorch is this Python's own. A package that is
not there is skipped, and so is all where PyTorch is not. Numbers may differ by 1e-4 of the largest one in a tensor: the
two libraries add in other orders, and training steps and solvers carry that on.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOLERANCE = 1e-4
SECONDS = 600


def programs():
    """{name: function}"""
    sys.path.insert(0, str(HERE))
    import package_programs
    return {name: value for name, value in vars(package_programs).items()
            if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == "package_programs"
            and value.__code__.co_varnames[:value.__code__.co_argcount] == ("torch",)}


def run(name, library, out):
    """In a process of its own: runs a program and keeps what it gave."""
    warnings.simplefilter("ignore")
    if library == "cairn":
        import cairn
        cairn.as_torch()
    import numpy
    import torch
    assert (torch.__version__.count("cairn") > 0) == (library == "cairn"), torch.__version__
    torch.manual_seed(0)
    given = {}
    for number, (key, value) in enumerate(programs()[name](torch)):
        given["%03d %s" % (number, key)] = value.detach().to(torch.float64).numpy()
    numpy.savez(out, **given)


def process(name, library, packages, folder):
    """(its arrays, None) or (None, the last line that it said)."""
    out = os.path.join(folder, "%s.%s.npz" % (name, library))
    build = os.environ.get("CAIRN_BUILD_DIR", str(ROOT / "build" / "default"))
    paths = [*([os.path.join(build, "python")] if library == "cairn" else []), *([packages] if packages else [])]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
               CUDA_VISIBLE_DEVICES="", MPLBACKEND="agg", PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run([sys.executable, __file__, "--run", name, "--as", library, "--out", out], text=True,
                              capture_output=True, check=False, env=env, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "more than %d seconds" % SECONDS
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return None, said[-1] if said else "ended with %d" % done.returncode
    import numpy
    with numpy.load(out) as kept:
        return {key: kept[key] for key in kept}, None


def difference(have, want):
    """What differs; None: nothing."""
    import numpy
    if sorted(have) != sorted(want):
        return "other results: %s" % sorted(set(have) ^ set(want))[:3]
    for key in want:
        a, b = have[key], want[key]
        if a.shape != b.shape:
            return "%s: shape %s, not %s" % (key[4:], a.shape, b.shape)
        if not numpy.array_equal(numpy.isfinite(a), numpy.isfinite(b)):
            return "%s: other places have no finite number" % key[4:]
        finite = numpy.isfinite(b)
        most = numpy.abs(b[finite]).max() if finite.any() else 0.0
        off = numpy.abs(a[finite] - b[finite]).max() if finite.any() else 0.0
        if off > TOLERANCE * max(1.0, most):
            return "%s: differs by %.2g of %.2g" % (key[4:], off, most)
    return None


def missing(name, packages):
    """Is the program's package not installed?"""
    import importlib.machinery
    where = [packages] if packages else sys.path
    return importlib.machinery.PathFinder.find_spec(name.partition("__")[0], where) is None


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for flag in ("--run", "--as", "--out"):
        options.add_argument(flag, help=argparse.SUPPRESS)
    options.add_argument("--packages", default=os.environ.get("CAIRN_PACKAGES"))
    options.add_argument("--list", action="store_true")
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    if given.run:
        return run(given.run, getattr(given, "as"), given.out)
    known = programs()
    if given.list:
        return print("\n".join(known))
    try:
        import torch  # noqa: F401
    except ImportError:
        return print("skipped: PyTorch is not installed")
    counts = {"same": 0, "other": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as folder:
        for name in known:
            if given.names and not any(name == n or name.startswith(n + "__") for n in given.names):
                continue
            told = "skipped: not installed" if missing(name, given.packages) else None
            if told is None:
                want, error = process(name, "torch", given.packages, folder)
                if error is not None:
                    told = "skipped: PyTorch fails: " + error
            if told is None:
                have, error = process(name, "cairn", given.packages, folder)
                told = error or difference(have, want) or "same"
            counts["skipped" if told.startswith("skipped") else "same" if told == "same" else "other"] += 1
            print("%-32s %s" % (name, told), flush=True)
    print("%d passed, %d failed" % (counts["same"], counts["other"]))
    return 1 if counts["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
