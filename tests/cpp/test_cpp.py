#!/usr/bin/env python3
"""Builds and runs what is written in C++: the test programs of this folder and examples/cpp, with each compiler that is
there, strict warnings being errors; every header alone; all of them as C++20; one run under valgrind for leaks.

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
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wnon-virtual-dtor", "-pedantic", "-Werror"]
INCLUDE = [f"-I{ROOT / 'include'}", f"-I{HEADERS}"]
LINK = [f"-L{BUILD}", "-lcairn", f"-Wl,-rpath,{BUILD}", "-pthread"]
MORE_FILES = {"test_units": ["other_unit.cpp"]}
LEAKS = ["test_module", "test_units"]  # under valgrind: what holds objects of C++ inside of C's


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, good, said="", passed=1, failed=1):
        self.passed += passed if good else 0
        self.failed += 0 if good else max(failed, 1)
        print(f"{'ok  ' if good else 'FAIL'}  {name}")
        if not good:
            print("\n".join("      " + line for line in said.splitlines()[-40:]))


def compiled(compiler, files, out, flags=()):
    """None when it compiles, else what the compiler said."""
    done = subprocess.run([compiler, "-std=c++17", *WARN, *INCLUDE, *flags, *map(str, files), "-o", str(out), *LINK],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def run(command, folder):
    env = dict(os.environ, CAIRN_PLUGIN_PATH=str(BUILD))
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout + done.stderr


def check_program(compiler, source, folder):
    """(name, good, output, tests passed, tests failed)"""
    name = f"{source.stem} with {compiler}"
    program = folder / f"{source.stem}-{compiler}"
    said = compiled(compiler, [source, *(source.parent / f for f in MORE_FILES.get(source.stem, []))], program)
    if said is not None:
        return name, False, said, 0, 1
    status, said = run([str(program)], folder)
    counts = re.findall(r"^(\d+) passed, (\d+) failed$", said, re.M)
    passed, failed = (int(n) for n in counts[-1]) if counts else (1, 1)
    return name, status == 0, said, passed, failed


def check_header(compiler, header):
    text = f"#include <{header}>\n#include <{header}>\nint main() {{ return 0; }}\n"
    done = subprocess.run([compiler, "-x", "c++", "-std=c++17", *WARN, *INCLUDE, "-fsyntax-only", "-"], input=text,
                          capture_output=True, text=True, check=False)
    return f"<{header}> alone with {compiler}", done.returncode == 0, done.stderr, 1, 1


def check_newer(compiler, folder):
    said = subprocess.run([compiler, "-std=c++20", *WARN, *INCLUDE, "-fsyntax-only", str(HERE / "test_tensor.cpp")],
                          capture_output=True, text=True, check=False, cwd=folder)
    return f"C++20 with {compiler}", said.returncode == 0, said.stderr, 1, 1


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
                        "--error-exitcode=9", str(program)], folder)
    return f"{name}: no leaks", status == 0, said, 1, 1


def main():
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    count = Count()
    if not compilers or not (BUILD / "libcairn.so").exists():
        print("no C++ compiler, or the library is not built")
        return 77
    programs = sorted(HERE.glob("test_*.cpp")) + sorted((ROOT / "examples" / "cpp").glob("*.cpp"))
    headers = sorted(str(p.relative_to(HEADERS)) for p in HEADERS.rglob("*.hpp"))
    with tempfile.TemporaryDirectory() as temporary, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = pathlib.Path(temporary)
        jobs = []
        for compiler in compilers:
            jobs += [pool.submit(check_program, compiler, p, folder) for p in programs]
            jobs += [pool.submit(check_header, compiler, h) for h in headers] if compiler == compilers[0] else []
            jobs.append(pool.submit(check_newer, compiler, folder))
        for job in jobs:
            count.add(*job.result())
        mnist = check_mnist(compilers[0], folder)
        if mnist:
            count.add(*mnist)
        else:
            count.skipped += 1
        if shutil.which("valgrind"):
            for job in [pool.submit(check_leaks, compilers[0], name, folder) for name in LEAKS]:
                count.add(*job.result())
        else:
            count.skipped += len(LEAKS)
    line = f"{count.passed} passed, {count.failed} failed"
    print(line + (f", {count.skipped} skipped" if count.skipped else ""))
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
