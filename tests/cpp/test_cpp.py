#!/usr/bin/env python3
"""Builds and runs what is written in C++: the test programs of this folder, examples/cpp and the programs in the
documentation, with each compiler that is there, strict warnings being errors; every header by itself (alone, or before
anything else in one of the programs); all of them as C++20; runs under valgrind for leaks; and that everything C hands
out has an owner in C++.

usage: CAIRN_BUILD_DIR=build/default tests/cpp/test_cpp.py     Last line: N passed, N failed[, N skipped].
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "cpp"
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
HEADERS = ROOT / "bindings" / "cpp" / "include"
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wnon-virtual-dtor", "-pedantic", "-Werror", "-pthread"]
INCLUDE = [f"-I{ROOT / 'include'}", f"-I{HEADERS}"]
LINK = [f"-L{BUILD}", "-lcairn", f"-Wl,-rpath,{BUILD}"]
MORE_FILES = {"test_units": ["other_unit.cpp"]}
LEAKS = ["test_objects", "test_own", "test_units"]  # under valgrind: what holds objects of C++ inside of C's
DOCUMENTS = ("CPP.md", "START_CPP.md")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, good, said="", passed=1, failed=1):
        self.passed += passed if good else 0
        self.failed += 0 if good else max(failed, 1)
        print(f"{'ok  ' if good else 'FAIL'}  {name}")
        if not good:
            print("\n".join("      " + line for line in said.splitlines()[-40:]))


def precompile(compiler, folder):
    """Flags with which clang finds all headers read already: a program then takes half the time. g++ gains nothing."""
    if "clang" not in compiler:
        return []
    made = folder / "cairn.pch"
    source = HEADERS / "cairn" / "cairn.hpp"
    subprocess.run([compiler, "-x", "c++-header", "-std=c++17", *WARN, *INCLUDE, str(source), "-o", str(made)],
                   capture_output=True, check=False)
    return ["-include-pch", str(made)] if made.exists() else []


def compiled(compiler, files, out, flags=()):
    """None when it compiles, else what the compiler said."""
    done = subprocess.run([compiler, "-std=c++17", *WARN, *flags, *INCLUDE, *map(str, files), "-o", str(out), *LINK],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def run(command, folder):
    """(exit status, output) of a command in a new folder inside of folder: others run beside it and write files too."""
    env = dict(os.environ, CAIRN_PLUGIN_PATH=str(BUILD), CAIRN_SEEDS=str(ROOT / "tests" / "fuzz" / "seeds"))
    done = subprocess.run(command, cwd=tempfile.mkdtemp(dir=folder), env=env, capture_output=True, text=True, check=False,
                          timeout=600)
    return done.returncode, f"{done.stdout}{done.stderr}exit status {done.returncode}\n"


def check_program(compiler, source, folder, flags=()):
    """(name, good, output, tests passed, tests failed)"""
    name = f"{source.stem} with {compiler}"
    program = folder / f"{source.stem}-{compiler}"
    files = [source, *(source.parent / f for f in MORE_FILES.get(source.stem, []))]
    said = compiled(compiler, files, program, flags)
    if said is not None:
        return name, False, said, 0, 1
    status, said = run([str(program)], folder)
    counts = re.findall(r"^(\d+) passed, (\d+) failed$", said, re.M)
    passed, failed = (int(n) for n in counts[-1]) if counts else (1, 1)
    return name, status == 0, said, passed, failed


def documented(folder):
    """The whole programs in the documentation, as files."""
    made = []
    for name in DOCUMENTS:
        blocks = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.M | re.S)
        for i, text in enumerate(b for b in blocks if "int main(" in b):
            made.append(folder / f"{name.split('.')[0].lower()}_{i}.cpp")
            made[-1].write_text(text, encoding="utf-8")
    return made


def check_owners():
    """Whatever C's headers have a function for to give it back is given back somewhere in C++'s."""
    ends = r"\b(cn_\w+_(?:free|close|release|abandon)|cn_release|cn_free)\("
    headers = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "include" / "cairn").rglob("*.h")))
    ours = "".join(p.read_text(encoding="utf-8") for p in sorted(HEADERS.rglob("*.hpp")))
    lost = sorted(name for name in set(re.findall(ends, headers)) if not re.search(rf"\b{name}\b", ours))
    return "owners of all handles", not lost, "without an owner in C++: " + ", ".join(lost), 1, 1


def is_part(header):
    """A part of another header, which it includes before anything else: alone it is that one."""
    text = header.read_text(encoding="utf-8")
    return "#include" in text[:text.index("#ifndef")]


def check_header(compiler, header):
    text = f"#include <{header}>\n#include <{header}>\nint main() {{ return 0; }}\n"
    done = subprocess.run([compiler, "-x", "c++", "-std=c++17", *WARN, *INCLUDE, "-fsyntax-only", "-"], input=text,
                          capture_output=True, text=True, check=False)
    return f"<{header}> alone with {compiler}", done.returncode == 0, done.stderr, 1, 1


def check_newer(compiler):
    done = subprocess.run([compiler, "-std=c++20", *WARN, *INCLUDE, "-fsyntax-only", str(HERE / "test_names.cpp")],
                          capture_output=True, text=True, check=False)
    return f"C++20 with {compiler}", done.returncode == 0, done.stderr, 1, 1


def check_mnist(compiler, folder):
    """The example on MNIST itself, where its files are; None where they are not."""
    data = pathlib.Path(os.environ.get("CAIRN_DATA", ROOT / "build" / "data"))
    files = [data / f"t10k-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    if not all(f.is_file() for f in files):
        return None
    status, said = run([str(folder / f"mnist-{compiler}"), *map(str, files), "4"], folder)
    accuracy = [float(n) for n in re.findall(r"Accuracy: ([\d.]+)", said)]
    return "mnist on MNIST", status == 0 and accuracy[-1:] > [0.8], said, 1, 1


def check_leaks(compiler, name, folder):
    program = folder / f"{name}-{compiler}"
    status, said = run(["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite",
                        f"--suppressions={HERE / 'loader.supp'}", "--error-exitcode=9", str(program)], folder)
    return f"{name}: no leaks", status == 0, said, 1, 1


def main():
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    count = Count()
    if not compilers or not (BUILD / "libcairn.so").exists():
        print("skipped: no C++ compiler, or the library is not built")
        return 77
    programs = sorted(HERE.glob("test_*.cpp")) + sorted((ROOT / "examples" / "cpp").glob("*.cpp"))
    headers = [str(p.relative_to(HEADERS)) for p in sorted(HEADERS.rglob("*.hpp")) if not is_part(p)]
    with tempfile.TemporaryDirectory() as temporary, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(temporary)
        jobs = []
        shown = documented(folder)
        count.add(*check_owners())
        for compiler in compilers:
            flags = precompile(compiler, folder)
            for program in programs + (shown if compiler == compilers[-1] else []):
                # A header that comes before all others is as good as alone.
                first = ["-include", headers.pop()] if headers and not flags else []
                jobs.append(pool.submit(check_program, compiler, program, folder, [*flags, *first]))
            jobs.append(pool.submit(check_newer, compiler))
        jobs += [pool.submit(check_header, compilers[-1], h) for h in headers]
        for job in jobs:
            count.add(*job.result())
        mnist = check_mnist(compilers[0], folder)
        if mnist:
            count.add(*mnist)
        else:
            print("skipped: MNIST is not in CAIRN_DATA")
            count.skipped += 1
        if shutil.which("valgrind"):
            for job in [pool.submit(check_leaks, compilers[0], name, folder) for name in LEAKS]:
                count.add(*job.result())
        else:
            print(f"skipped {len(LEAKS)}: valgrind is not installed")
            count.skipped += len(LEAKS)
    line = f"{count.passed} passed, {count.failed} failed"
    print(line + (f", {count.skipped} skipped" if count.skipped else ""))
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
