"""Other people's PyTorch packages, unchanged, with cairn as torch: the programs of package_programs.py and
package_models.py run in a process with cairn and in one with PyTorch, from the same weights and inputs, and what they
compute is compared.

    python tests/conformance/packages.py --packages FOLDER [NAME...]       FOLDER: where pip put them (--target)
    python tests/conformance/packages.py --list

The packages are installed with `pip install --no-deps --target FOLDER`; PyTorch is this Python's own. Each library is
imported once, and each program runs in a process forked from there. A package that is
not there is skipped, and so is all where PyTorch is not. Numbers may differ by 1e-4 of the largest one in a tensor: the
two libraries add in other orders, and training steps and solvers carry that on.
"""
import argparse
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOLERANCE = 1e-4
SECONDS = 600


def programs():
    """{name: function}"""
    sys.path.insert(0, str(HERE))
    import package_models
    import package_programs
    return {name: value for module in (package_programs, package_models) for name, value in vars(module).items()
            if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
            and value.__code__.co_varnames[:value.__code__.co_argcount] == ("torch",)}


def run(name, out, rounds):
    """Runs a program and keeps what it gave, and the processor time of the fastest of `rounds` more runs of it."""
    import numpy
    import torch
    given, took = {}, []
    for turn in range(1 + rounds):
        torch.manual_seed(0)
        start = time.process_time()
        told = list(programs()[name](torch))
        took.append(time.process_time() - start)
        for number, (key, value) in enumerate(told if not turn else ()):
            given["%03d %s" % (number, key)] = value.detach().to(torch.float64).numpy()
    numpy.savez(out, **given, **({"time": min(took[1:])} if rounds else {}))


def serve(names, library, folder, rounds):
    """In a process of one library: imports it once, and runs each program in a process forked from there."""
    warnings.simplefilter("ignore")
    if library == "cairn":
        import cairn
        cairn.as_torch()
    import numpy  # noqa: F401
    import torch
    assert (torch.__version__.count("cairn") > 0) == (library == "cairn"), torch.__version__
    torch.set_num_threads(1)
    programs()
    for name in names:
        child = os.fork()
        if child == 0:
            with open(os.path.join(folder, "%s.%s.txt" % (name, library)), "w", encoding="utf-8") as said:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
            status = 1
            try:
                signal.alarm(SECONDS)
                run(name, os.path.join(folder, "%s.%s.npz" % (name, library)), rounds)
                status = 0
            except BaseException:  # whatever a package does is told, and the next one runs
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("%s %d" % (name, ended), flush=True)


def start(names, library, folder, packages, rounds):
    """A process of `serve`, which tells a line for each program as it ends."""
    build = os.environ.get("CAIRN_BUILD_DIR", str(ROOT / "build" / "default"))
    paths = [*([os.path.join(build, "python")] if library == "cairn" else []), *([packages] if packages else [])]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
               CUDA_VISIBLE_DEVICES="", MPLBACKEND="agg", PYTHONDONTWRITEBYTECODE="1")
    return subprocess.Popen([sys.executable, __file__, "--serve", library, "--folder", folder, "--rounds", str(rounds),
                             *names], text=True, stdout=subprocess.PIPE, env=env)


def result(told, name, library, folder):
    """(its arrays, None) or (None, the last line that it said); told: the line that ended it."""
    ended = told.split()
    if ended[:1] != [name]:
        return None, "the process of %s ended before it" % library
    if ended[1] != "0":
        with open(os.path.join(folder, "%s.%s.txt" % (name, library)), encoding="utf-8", errors="replace") as file:
            said = [line.strip() for line in file if line.strip()]
        why = "more than %d seconds" % SECONDS if ended[1] == str(-signal.SIGALRM) else "ended with " + ended[1]
        return None, said[-1] if said and ended[1] == "1" else why
    import numpy
    with numpy.load(os.path.join(folder, "%s.%s.npz" % (name, library))) as kept:
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


def compared(names, folder, packages, rounds):
    """(name, what is told of it) for each."""
    both = {library: start(names, library, folder, packages, rounds) for library in ("torch", "cairn")}
    for name in names:
        ended = {library: process.stdout.readline() for library, process in both.items()}
        want, error = result(ended["torch"], name, "torch", folder)
        if error is not None:
            yield name, "skipped: PyTorch fails: " + error
            continue
        have, error = result(ended["cairn"], name, "cairn", folder)
        if error is not None:
            yield name, error
            continue
        times = [given.pop("time", None) for given in (have, want)]
        told = difference(have, want) or "same"
        yield name, told if times[0] is None else "%s (%.3f s, PyTorch %.3f s)" % (told, *times)
    for process in both.values():
        process.wait()


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for flag in ("--serve", "--folder"):
        options.add_argument(flag, help=argparse.SUPPRESS)
    options.add_argument("--packages", default=os.environ.get("CAIRN_PACKAGES"))
    options.add_argument("--rounds", type=int, default=0, help="runs more, to tell the processor time of the fastest")
    options.add_argument("--keep", help="a folder for what the programs gave and said")
    options.add_argument("--list", action="store_true")
    options.add_argument("names", nargs="*")
    given = options.parse_args()
    if given.serve:
        return serve(given.names, given.serve, given.folder, given.rounds)
    known = programs()
    if given.list:
        return print("\n".join(known))
    try:
        import torch  # noqa: F401
    except ImportError:
        return print("skipped: PyTorch is not installed")
    counts = {"same": 0, "other": 0, "skipped": 0}
    wanted = [n for n in known if not given.names or any(n == g or n.startswith(g + "__") for g in given.names)]
    there = [n for n in wanted if not missing(n, given.packages)]
    with tempfile.TemporaryDirectory() as folder:
        tellings = compared(there, given.keep or folder, given.packages, given.rounds)
        absent = ((n, "skipped: not installed") for n in wanted if n not in there)
        for name, told in itertools.chain(absent, tellings):
            counts["skipped" if told.startswith("skipped") else "same" if told.startswith("same") else "other"] += 1
            print("%-32s %s" % (name, told), flush=True)
    print("%d passed, %d failed" % (counts["same"], counts["other"]))
    return 1 if counts["other"] else 0


if __name__ == "__main__":
    sys.exit(main())
